"""Metrics of bootstrap resamples equal those of the rows that were drawn."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import scorewise as sw
from scorewise._resampling import ResampledAulc, ResampledAuroc, Resamples


@st.composite
def drawn_rows(draw):
    """Losses or kinds, scores with many ties, and how often each row was drawn."""
    n = draw(st.integers(1, 12))
    losses = draw(st.lists(st.sampled_from([0.0, 1.0, 0.25, 3.5, -1.0]), min_size=n, max_size=n))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.2, 7.0]), min_size=n, max_size=n))
    drawn = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    return np.array(losses), np.array(scores), np.bincount(drawn, minlength=n)


@given(drawn_rows(), st.booleans())
def test_the_aulc_of_a_resample_is_that_of_its_rows(rows, distinct):
    losses, scores, counts = rows
    if distinct:
        scores = np.random.default_rng(0).permutation(len(scores)).astype(float)
    expected = sw.aulc(np.repeat(losses, counts), np.repeat(scores, counts))
    got = ResampledAulc(losses, scores)(np.stack([counts, np.ones_like(counts)]))
    np.testing.assert_allclose(got, [expected, sw.aulc(losses, scores)], rtol=1e-12, atol=1e-14)


@given(drawn_rows(), st.integers(1, 12))
def test_the_auroc_of_a_resample_is_that_of_its_rows(rows, n_in):
    _, scores, counts = rows
    n_in = min(n_in, len(scores) - 1)
    if n_in < 1 or not counts[:n_in].any() or not counts[n_in:].any():
        return
    is_out = np.arange(len(scores)) >= n_in
    expected = roc_auc_score(np.repeat(is_out, counts), np.repeat(scores, counts))
    assert np.isclose(ResampledAuroc(n_in, scores)(counts[None])[0], expected, rtol=1e-12)


def test_resamples_are_draws_with_replacement_of_all_rows():
    counts = np.concatenate(list(Resamples(50, 1001, np.random.default_rng(0)).counts(300)))
    assert counts.shape == (1001, 50)
    assert (counts.sum(axis=1) == 50).all()
    assert abs(counts.var() - (1 - 1 / 50)) < 0.03


def test_resamples_do_not_depend_on_the_size_of_a_batch():
    few, many = (
        np.concatenate(list(Resamples(20, 100, np.random.default_rng(0)).counts(size)))
        for size in (7, 100)
    )
    np.testing.assert_array_equal(few, many)
