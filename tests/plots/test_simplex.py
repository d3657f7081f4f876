"""One prediction on a triangle."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import scorewise as sw
from plots_support import MOST_POINTS, draw
from scorewise.plots import SimplexDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_members_and_mean_lie_where_they_belong():
    probs = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
    display = draw(SimplexDisplay(probs, "zero-one", ["$a_", "_b", "c" * 200]))
    corners = [[0, 0], [1, 0], [0.5, 0.75**0.5]]
    assert np.allclose(display.points_.get_offsets(), [*corners, np.mean(corners, axis=0)])
    assert np.allclose(display.mean_.get_offsets(), [np.mean(corners, axis=0)])
    assert np.isclose(display.total, 2 / 3)
    assert np.isclose(display.total, display.aleatoric + display.epistemic)
    names = display.ax_.texts
    assert [text.get_text() for text in names[:2]] == ["$a_", "_b"]
    assert len(names[2].get_text()) <= 20
    assert not any(text.get_parse_math() for text in names)
    for text, corner in zip(names, corners, strict=True):
        assert np.allclose(text.get_position(), corner, atol=0.05)
    assert display.colorbar_.ax.get_ylabel() == "total uncertainty: expected error"


def test_level_sets_are_those_of_the_rule():
    contours = {
        rule: draw(SimplexDisplay([[0.2, 0.3, 0.5]], rule)).contours_ for rule in ("log", "brier")
    }
    highest = {rule: levels.zmax for rule, levels in contours.items()}
    assert np.isclose(highest["log"], np.log(3))
    assert np.isclose(highest["brier"], 2 / 3)


def test_the_colorbar_can_be_left_out():
    figure = Figure()
    display = SimplexDisplay([[0.2, 0.3, 0.5]]).plot(figure.subplots(), colorbar=False)
    assert display.colorbar_ is None
    assert len(figure.axes) == 1


def test_weights_move_the_mean():
    samples = sw.Samples([[1.0, 0, 0], [0, 1, 0]], weights=[3, 1])
    assert SimplexDisplay(samples).mean.tolist() == [0.75, 0.25, 0]


def test_many_members_are_few_points():
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], size=10**5)
    display = draw(SimplexDisplay(probs))
    assert len(display.points_.get_offsets()) <= MOST_POINTS
    assert np.allclose(display.mean, probs.mean(axis=0))


@pytest.mark.parametrize(
    ("probs", "options", "message"),
    [
        ([[0.5, 0.5]], {}, "three classes"),
        (np.full((2, 4), 0.25), {}, "three classes"),
        (np.full((2, 2, 3), 1 / 3), {}, "one instance"),
        ([[0.5, 0.6, 0.7]], {}, "sum"),
        ([[0.2, 0.3, 0.5]], {"class_names": ["a", "b"]}, "three names"),
        ([[0.2, 0.3, 0.5]], {"class_names": "abc"}, "three names"),
        ([[0.2, 0.3, 0.5]], {"rule": "beta:1,1"}, "2"),
    ],
)
def test_members_that_do_not_fit_a_triangle_are_refused(probs, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        SimplexDisplay(probs, **options)
