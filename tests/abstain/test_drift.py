"""Drift from counts that are added up, against SciPy's test of all rows."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import ks_2samp

import scorewise as sw

sizes = st.integers(1, 60)
ties = st.sampled_from([2, 10, 1000])  # different values


def policy_of(uncertainty: np.ndarray) -> sw.abstain.Policy:
    """A policy with these uncertainties of certification rows, under the zero-one loss."""
    probs = sw.binary(uncertainty)[:, None]
    return sw.certify(probs, np.zeros(len(probs), int), max_loss=0.9)


@pytest.mark.filterwarnings("ignore:ks_2samp:RuntimeWarning")  # of SciPy's exact p-value
@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")  # so few rows
@given(seed=st.integers(0, 1000), n_before=sizes, n_now=sizes, n_values=ties)
def test_p_value_is_that_of_all_rows(seed, n_before, n_now, n_values):
    rng = np.random.default_rng(seed)
    before, now = (rng.integers(0, n_values, n) / (2 * n_values) for n in (n_before, n_now))
    policy = policy_of(before)
    halves = policy.drift_counts(now[: n_now // 2]) + policy.drift_counts(now[n_now // 2 :])
    drift = policy.drift_from_counts(halves, now.mean())
    assert drift == policy.check_drift(now)
    assert drift.n_now == n_now
    expected = ks_2samp(policy.calibration_uncertainty, now).pvalue
    assert drift.p_value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.004, 0.05])
@pytest.mark.parametrize("n_now", [9_000, 10_001, 200_000])
def test_p_value_is_that_of_all_rows_when_there_are_many(n_now, shift):
    rng = np.random.default_rng(0)
    before, now = rng.random(5_000) / 2, rng.random(n_now) / 2 + shift
    policy = policy_of(before)
    expected = ks_2samp(policy.calibration_uncertainty, now).pvalue
    assert policy.check_drift(now).p_value == pytest.approx(expected, rel=1e-9)
