"""All figures of an evaluation as files."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw
from report_support import full
from scorewise.plots import save_figures


@pytest.fixture(scope="module")
def evaluation():
    return full()


@pytest.mark.usefixtures("no_screen")
def test_figures_are_saved(tmp_path, evaluation):
    from matplotlib import pyplot

    folder = tmp_path / "new" / "figures"
    paths = save_figures(evaluation, folder)
    names = [
        "rejection",
        "comparison",
        "calibration",
        "decomposition",
        "ood",
        "comparison_ood",
        "learning",
        "comparison_learning",
    ]
    assert [path.name for path in paths] == [f"{n}.{f}" for n in names for f in ("png", "svg")]
    assert sorted(folder.iterdir()) == sorted(paths)
    for path in paths:
        start = path.read_bytes()[:100]
        assert start.startswith(b"\x89PNG") or b"<?xml" in start
    assert not pyplot.get_fignums()
    before = paths[1].read_bytes()
    assert save_figures(evaluation, folder, "svg") == paths[1::2]
    assert paths[1].read_bytes() == before


@pytest.mark.usefixtures("no_screen")
def test_calibrating_is_drawn_where_it_changes_predicted_labels(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.5), size=600)
    y = (truth.cumsum(axis=-1) > rng.uniform(size=(600, 1))).argmax(axis=-1)
    skewed = truth * [8.0, 1.0, 1.0]
    probs = (skewed / skewed.sum(axis=-1, keepdims=True))[:, None]
    evaluation = sw.evaluate(probs, y, n_resamples=100)
    assert evaluation.comparison.calibrating.changed_share > 0.1
    assert tmp_path / "calibrating.svg" in save_figures(evaluation, tmp_path, "svg")


@pytest.mark.usefixtures("no_screen")
def test_figures_that_cannot_be_saved(tmp_path, evaluation):
    with pytest.raises(sw.InvalidInput, match="formats must be one of"):
        save_figures(evaluation, tmp_path, ["gif"])
    (tmp_path / "file").write_text("")
    with pytest.raises(sw.InvalidInput, match="is a file"):
        save_figures(evaluation, tmp_path / "file")
    with pytest.raises(sw.InvalidInput, match="only an Evaluation"):
        save_figures(None, tmp_path)
