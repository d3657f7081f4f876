"""Histograms of scores have the areas of the rows, whatever the parts in which the rows come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scorewise as sw
from scorewise.scale import ScoreHistogram

AREAS = ["aulc", "augrc", "oracle_aulc", "oracle_augrc", "normalized_aulc", "eaulc"]


def rows(n, seed=0, digits=12, binary=False):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.gamma(0.3, size=n) - 0.1, digits)
    losses = rng.uniform(size=n) < scores if binary else rng.gamma(1, size=n) * (1 + scores)
    return scores, losses.astype(float)


def merged(scores, losses, n_bins, cuts):
    parts = np.split(np.arange(len(scores)), cuts)
    first, *others = (ScoreHistogram.of(scores[p], losses[p], n_bins) for p in parts)
    return first.merge(*others)


def assert_same(a, b):
    assert a.dropped_bits == b.dropped_bits
    for name in ("lowest", "highest", "sizes", "smallest", "largest"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_allclose(a.moments.sums, b.moments.sums, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.moments.squares, b.moments.squares, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("digits", [1, 3, 12])
def test_areas_are_those_of_the_rows_where_each_score_has_a_bin(binary, digits):
    scores, losses = rows(20_000, digits=digits, binary=binary)
    histogram = merged(scores, losses, 1 << 16, [5, 900, 901, 12_000])
    curve = histogram.rejection_curve(merged(losses, losses, 1 << 16, [77]))
    expected = sw.rejection_curve(losses, scores)
    assert histogram.is_exact
    assert (curve.aulc_error, curve.augrc_error) == (0.0, 0.0)
    assert len(curve) == len(expected)
    for name in AREAS:
        assert getattr(curve, name) == pytest.approx(getattr(expected, name), rel=1e-12, abs=1e-13)


def test_every_number_of_a_curve_is_that_of_the_rows():
    scores, losses = rows(3000, digits=2)
    curve = merged(scores, losses, 1 << 16, [100]).rejection_curve(
        ScoreHistogram.of(losses, losses)
    )
    expected = sw.rejection_curve(losses, scores)
    k = np.arange(1, 3001)
    np.testing.assert_allclose(curve.total_loss_of(k), expected.total_loss_of(k), rtol=1e-12)
    np.testing.assert_array_equal(curve.threshold_of(k), expected.threshold_of(k))
    np.testing.assert_array_equal(curve.accepted_by_threshold(k), expected.accepted_by_threshold(k))
    for mine, others in ((curve.oracle, expected.oracle), (curve.random, expected.random)):
        np.testing.assert_allclose(mine.total_loss_of(k), others.total_loss_of(k), rtol=1e-12)
    for limit in np.linspace(0, 3, 31):
        assert curve.coverage_at(limit) == pytest.approx(expected.coverage_at(limit), abs=1e-12)
    for coverage in np.linspace(0.01, 1, 50):
        assert curve.loss_at(coverage) == pytest.approx(expected.loss_at(coverage), rel=1e-12)


@pytest.mark.parametrize("n_bins", [2, 16, 64, 1000])
@pytest.mark.parametrize("binary", [True, False])
def test_areas_of_the_rows_are_within_the_stated_error_where_bins_are_few(n_bins, binary):
    for seed in range(5):
        scores, losses = rows(5000, seed, binary=binary)
        histogram = merged(scores, losses, n_bins, [1000, 1100])
        curve = histogram.rejection_curve(ScoreHistogram.of(losses, losses))
        expected = sw.rejection_curve(losses, scores)
        assert len(histogram) <= n_bins
        assert not histogram.is_exact
        assert abs(curve.aulc - expected.aulc) <= curve.aulc_error
        assert abs(curve.augrc - expected.augrc) <= curve.augrc_error


@given(
    st.lists(
        st.tuples(st.sampled_from(np.linspace(1, 2, 9)), st.floats(-3, 3)), min_size=1, max_size=40
    ),
    st.integers(2, 5),
)
def test_areas_of_the_rows_are_within_the_stated_errors_for_any_losses(pairs, n_bins):
    scores, losses = np.array(pairs).T
    ranked = ScoreHistogram.of(losses, losses, n_bins)
    curve = ScoreHistogram.of(scores, losses, n_bins).rejection_curve(ranked)
    expected = sw.rejection_curve(losses, scores)
    for name in ("aulc", "augrc"):
        for mine, others in ((curve, expected), (curve.oracle, expected.oracle)):
            error = abs(getattr(mine, name) - getattr(others, name))
            assert error <= getattr(mine, f"{name}_error") + 1e-12


def test_the_stated_error_is_reached_by_the_best_order():
    losses = np.array([0.0, 0, 1, 1, 1])
    histogram = ScoreHistogram.of([1, 1.05, 1.1, 1.15, 7], losses, 2)
    curve = histogram.rejection_curve(ScoreHistogram.of(losses, losses))
    best = sw.rejection_curve(losses, [1, 2, 3, 4, 5])
    assert curve.aulc - best.aulc == pytest.approx(curve.aulc_error, rel=1e-9)
    assert curve.augrc - best.augrc == pytest.approx(curve.augrc_error, rel=1e-9)


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False),
            st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 5e-324]),
            st.floats(0, 1),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(2, 20),
    st.lists(st.integers(0, 60), max_size=4),
    st.randoms(use_true_random=False),
)
def test_neither_the_parts_nor_the_order_of_merging_matters(values, n_bins, cuts, random):
    scores = np.array(values)
    losses = np.arange(len(scores)) % 3.0
    whole = ScoreHistogram.of(scores, losses, n_bins)
    parts = [
        ScoreHistogram.of(scores[p], losses[p], n_bins)
        for p in np.split(np.arange(len(scores)), sorted(min(c, len(scores)) for c in cuts))
    ]
    while len(parts) > 1:
        random.shuffle(parts)
        parts = [parts[0].merge(parts[1]), *parts[2:]]
    assert_same(parts[0], whole)
    assert len(whole) <= n_bins
    assert whole.n_rows == len(scores)
    assert whole.is_exact == (len(np.unique(scores)) <= n_bins)
    np.testing.assert_array_equal(np.sort(whole.thresholds), whole.thresholds)
    places = whole.place(scores)
    np.testing.assert_array_equal(np.bincount(places, minlength=len(whole)), whole.sizes)
    assert np.all(scores <= whole.thresholds[places])


def test_an_empty_part_changes_nothing():
    scores, losses = rows(100)
    empty = ScoreHistogram.of(scores[:0], losses[:0], 64)
    assert_same(
        empty.merge(ScoreHistogram.of(scores, losses, 64), empty),
        ScoreHistogram.of(scores, losses, 64),
    )
    assert len(empty.merge(empty)) == 0


def test_a_single_bin_is_refused():
    with pytest.raises(sw.InvalidInput, match="n_bins"):
        ScoreHistogram.of(np.zeros(3), np.zeros(3), 1)
