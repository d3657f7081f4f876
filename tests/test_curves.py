"""AULC: the proof's own sum, ties by their expectation."""

import itertools

import numpy as np
import pytest

import scorewise as sw


def by_hand(losses):
    return np.mean([np.mean(losses[:k]) for k in range(1, len(losses) + 1)])


def test_aulc_is_the_mean_loss_over_all_coverages():
    rng = np.random.default_rng(0)
    losses, uncertainty = rng.uniform(size=50), rng.uniform(size=50)
    assert np.isclose(sw.aulc(losses, uncertainty), by_hand(losses[np.argsort(uncertainty)]))


def test_ties_count_as_their_expected_value_over_random_orders():
    losses = np.array([0.0, 1.0, 0.5, 2.0, 0.1])
    uncertainty = np.array([1.0, 2.0, 2.0, 2.0, 3.0])
    orders = [(0, *middle, 4) for middle in itertools.permutations((1, 2, 3))]
    expected = np.mean([by_hand(losses[list(order)]) for order in orders])
    assert np.isclose(sw.aulc(losses, uncertainty), expected)
    for order in itertools.permutations(range(5)):
        assert np.isclose(sw.aulc(losses[list(order)], uncertainty[list(order)]), expected)


@pytest.mark.parametrize(
    ("losses", "uncertainty", "message"),
    [
        ([0, 1], [0.5], "2 entries, uncertainty 1"),
        ([], [], "losses is empty"),
        ([0, np.nan], [0, 1], r"losses\[1\] is nan"),
        ([0, -np.inf], [0, 1], r"losses\[1\] is -inf"),
        ([0, 1], [np.nan, 1], r"uncertainty\[0\] is nan"),
        ([[0, 1]], [0, 1], "losses has 2 dimensions"),
    ],
)
def test_bad_input_is_refused(losses, uncertainty, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.aulc(losses, uncertainty)
