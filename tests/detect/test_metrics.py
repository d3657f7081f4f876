"""ood_metrics against the code of others and brute force."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import expit, logit, ndtri
from sklearn.metrics import average_precision_score, roc_auc_score

import scorewise as sw

METRICS = ("auroc", "aupr_out", "aupr_in", "fpr95")
scores = st.lists(
    st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.3]), st.floats(0, 1)), min_size=1, max_size=30
)


def naive_variance(u_in: np.ndarray, u_out: np.ndarray) -> tuple[float, float]:
    """DeLong, DeLong and Clarke-Pearson (1988), pair by pair: the AUROC and its variance."""
    kernel = np.array([[1.0 if o > i else 0.5 if o == i else 0.0 for i in u_in] for o in u_out])
    by_out, by_in = kernel.mean(axis=1), kernel.mean(axis=0)
    return kernel.mean(), by_out.var(ddof=1) / len(u_out) + by_in.var(ddof=1) / len(u_in)


def fpr95_by_thresholds(u_in: np.ndarray, u_out: np.ndarray) -> float:
    return min(
        np.mean(u_in >= threshold)
        for threshold in np.r_[u_in, u_out]
        if 20 * np.sum(u_out >= threshold) >= 19 * len(u_out)
    )


@settings(max_examples=200)
@given(u_in=scores, u_out=scores)
def test_metrics_are_those_of_scikit_learn(u_in, u_out):
    u_in, u_out = np.array(u_in), np.array(u_out)
    is_ood = np.repeat([0, 1], [len(u_in), len(u_out)])
    u = np.r_[u_in, u_out]
    metrics = sw.ood_metrics(u_in, u_out)
    assert metrics.auroc == pytest.approx(roc_auc_score(is_ood, u), abs=1e-12)
    assert metrics.aupr_out == pytest.approx(average_precision_score(is_ood, u), abs=1e-12)
    assert metrics.aupr_in == pytest.approx(average_precision_score(1 - is_ood, -u), abs=1e-12)
    assert metrics.fpr95 == fpr95_by_thresholds(u_in, u_out)
    assert (metrics.n_in, metrics.n_out) == (len(u_in), len(u_out))
    low, high = metrics.auroc_interval
    assert 0 <= low <= metrics.auroc <= high <= 1


@settings(max_examples=100)
@given(u_in=scores, u_out=scores, seed=st.integers(0, 99))
def test_only_the_order_of_scores_counts_and_no_order_of_rows(u_in, u_out, seed):
    rng = np.random.default_rng(seed)
    metrics = sw.ood_metrics(u_in, u_out)
    _, ranks = np.unique(np.r_[u_in, u_out], return_inverse=True)
    rising = np.array([-np.inf, *np.sort(rng.normal(size=ranks.max())), np.inf])[ranks]
    assert sw.ood_metrics(rising[: len(u_in)], rising[len(u_in) :]) == metrics
    assert sw.ood_metrics(rng.permutation(u_in), rng.permutation(u_out)) == metrics


@settings(max_examples=100)
@given(u_in=scores, u_out=scores)
def test_scores_turned_round_turn_the_metrics_round(u_in, u_out):
    metrics = sw.ood_metrics(u_in, u_out)
    turned = sw.ood_metrics(-np.array(u_out), -np.array(u_in))
    assert turned.auroc == pytest.approx(metrics.auroc, abs=1e-12)
    assert turned.aupr_out == pytest.approx(metrics.aupr_in, abs=1e-12)
    against = sw.ood_metrics(-np.array(u_in), -np.array(u_out))
    assert against.auroc == pytest.approx(1 - metrics.auroc, abs=1e-12)
    np.testing.assert_allclose(
        against.auroc_interval, 1 - np.array(metrics.auroc_interval)[::-1], atol=1e-9
    )


def test_fpr95_finds_at_least_95_percent_whatever_the_rounding():
    for n in (1, 19, 20, 21, 40, 100, 1000):
        u_out = np.arange(n) + 0.5
        metrics = sw.ood_metrics(np.arange(n), u_out).fpr95
        assert metrics == fpr95_by_thresholds(np.arange(n), u_out)
    assert sw.ood_metrics([0, 1, 2, 3], [*range(1, 20), 0]).fpr95 == 0.75


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (3, 2), (1000, 10)])
def test_scores_that_are_all_equal_tell_nothing(n_in, n_out):
    metrics = sw.ood_metrics(np.zeros(n_in), np.zeros(n_out))
    assert metrics.auroc == 0.5
    assert metrics.aupr_out == pytest.approx(n_out / (n_in + n_out))
    assert metrics.aupr_in == pytest.approx(n_in / (n_in + n_out))
    assert metrics.fpr95 == 1


def test_infinite_scores_are_scores():
    metrics = sw.ood_metrics([-np.inf, 0, 1, np.inf], [np.inf, np.inf, 2])
    as_ranks = sw.ood_metrics([0, 1, 2, 4], [4, 4, 3])
    assert metrics == as_ranks
    assert metrics.auroc == pytest.approx((3.5 + 3.5 + 3) / 12)


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (5, 3), (50, 50), (3, 1000)])
def test_perfect_separation_is_not_taken_for_certainty(n_in, n_out):
    metrics = sw.ood_metrics(np.zeros(n_in), np.ones(n_out))
    assert [getattr(metrics, name) for name in METRICS] == [1, 1, 1, 0]
    low, high = metrics.auroc_interval
    assert high == 1
    assert 0 < low < 1
    assert low == pytest.approx(0.025 ** (1 / min(n_in, n_out)))
    reverse = sw.ood_metrics(np.ones(n_in), np.zeros(n_out))
    assert (reverse.auroc, reverse.fpr95) == (0, 1)
    np.testing.assert_allclose(reverse.auroc_interval, (0, 1 - low), atol=1e-12)


def test_one_row_of_a_kind_leaves_the_auroc_open():
    metrics = sw.ood_metrics([0.1, 0.3], [0.2])
    assert metrics.auroc == 0.5
    assert metrics.auroc_interval == (0, 1)
    assert sw.ood_metrics([0.2], [0.1, 0.3]).auroc_interval == (0, 1)


@settings(max_examples=100)
@given(
    u_in=st.lists(st.integers(0, 8), min_size=2, max_size=25),
    u_out=st.lists(st.integers(2, 10), min_size=2, max_size=25),
    confidence=st.floats(0.5, 0.99),
)
def test_the_interval_is_delongs_on_the_logit_scale(u_in, u_out, confidence):
    auroc, variance = naive_variance(np.array(u_in), np.array(u_out))
    metrics = sw.ood_metrics(u_in, u_out, confidence)
    assert metrics.auroc == pytest.approx(auroc, abs=1e-12)
    if not 0 < auroc < 1:
        return
    if variance > 0:
        half = ndtri((1 + confidence) / 2) * np.sqrt(variance) / (auroc * (1 - auroc))
        expected = expit(logit(auroc) + np.array([-half, half]))
        np.testing.assert_allclose(metrics.auroc_interval, expected, rtol=1e-9)
    assert metrics.confidence == confidence


@pytest.mark.parametrize("auroc", [0.6, 0.8, 0.95, 0.97])
@pytest.mark.parametrize("n", [50, 200])
def test_the_interval_covers_as_often_as_it_says(auroc, n):
    rng = np.random.default_rng(1)
    shift = np.sqrt(2) * ndtri(auroc)
    covered = [
        low <= auroc <= high
        for low, high in (
            sw.ood_metrics(
                rng.normal(size=n), rng.normal(shift, 1, size=n), confidence=0.9
            ).auroc_interval
            for _ in range(1500)
        )
    ]
    assert 0.87 < np.mean(covered) < 0.935  # 0.9 would have a standard error of 0.008


def test_the_interval_covers_with_heavy_ties():
    rng = np.random.default_rng(2)
    chance_in, chance_out = [0.7, 0.2, 0.1], [0.3, 0.3, 0.4]
    truth = sum(
        a * b * (1.0 if j > i else 0.5 if j == i else 0)
        for i, a in enumerate(chance_in)
        for j, b in enumerate(chance_out)
    )
    covered = []
    for _ in range(1500):
        low, high = sw.ood_metrics(
            rng.choice(3, 60, p=chance_in), rng.choice(3, 40, p=chance_out), 0.9
        ).auroc_interval
        covered.append(low <= truth <= high)
    assert 0.87 < np.mean(covered) < 0.935


def test_resamples_give_the_other_intervals():
    rng = np.random.default_rng(3)
    u_in, u_out = rng.normal(size=200), rng.normal(1, 1, size=150)
    plain = sw.ood_metrics(u_in, u_out)
    assert set(plain.intervals) == {"auroc"}
    metrics = sw.ood_metrics(u_in, u_out, n_resamples=500, random_state=0)
    assert metrics.intervals["auroc"] == plain.auroc_interval
    for name in METRICS:
        low, high = metrics.intervals[name]
        assert 0 <= low < getattr(metrics, name) < high <= 1
        assert getattr(metrics, name) == getattr(plain, name)
    again = sw.ood_metrics(u_in, u_out, n_resamples=500, random_state=0)
    assert again == metrics
    other = sw.ood_metrics(u_in, u_out, n_resamples=500, random_state=1)
    assert other.intervals["aupr_in"] != metrics.intervals["aupr_in"]
    narrow = sw.ood_metrics(u_in, u_out, 0.5, n_resamples=500, random_state=0)
    for name in METRICS:
        assert np.ptp(narrow.intervals[name]) < 0.7 * np.ptp(metrics.intervals[name])
    assert "aupr_out 0." in str(metrics)
    assert str(metrics).count("[") == 4
    assert str(plain).count("[") == 1


def test_bootstrap_intervals_are_those_of_resampled_rows():
    rng = np.random.default_rng(4)
    u_in, u_out = rng.integers(8, size=80), rng.integers(4, 12, size=60)
    metrics = sw.ood_metrics(u_in, u_out, n_resamples=3000, random_state=0)
    drawn = [sw.ood_metrics(rng.choice(u_in, 80), rng.choice(u_out, 60)) for _ in range(1500)]
    for name, tolerance in (("aupr_out", 0.06), ("aupr_in", 0.06), ("fpr95", 0.15)):  # in steps
        by_hand = np.quantile([getattr(d, name) for d in drawn], [0.025, 0.975])
        spread = np.ptp(by_hand)
        np.testing.assert_allclose(metrics.intervals[name], by_hand, atol=tolerance * spread)


def test_bootstrap_intervals_are_right_where_one_set_is_small():
    rng = np.random.default_rng(0)
    u_in, u_out = rng.normal(size=40_000), rng.normal(size=40) + 4
    metrics = sw.ood_metrics(u_in, u_out, n_resamples=100, random_state=0)
    for name in METRICS:
        low, high = metrics.intervals[name]
        assert low < getattr(metrics, name) < high
    apart = sw.ood_metrics(u_in, u_out + 9, n_resamples=100, random_state=0)
    assert apart.intervals["aupr_out"] == (1, 1)
    assert apart.intervals["fpr95"] == (0, 0)


def test_a_progress_bar_of_resamples_is_shown_on_request(capsys):
    sw.ood_metrics([0, 1], [1, 2], n_resamples=10, random_state=0)
    assert capsys.readouterr() == ("", "")
    sw.ood_metrics([0, 1], [1, 2], n_resamples=10, random_state=0, progress=True)
    assert "resampling" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("u_in", "u_out", "options", "message"),
    [
        ([], [1], {}, "u_in is empty"),
        ([1], [], {}, "u_out is empty"),
        ([0, np.nan], [1], {}, r"u_in\[1\] is nan"),
        ([0], [1, 2, np.nan], {}, r"u_out\[2\] is nan"),
        ([[0, 1]], [1], {}, "u_in has 2 dimensions"),
        (["a"], [1], {}, "u_in"),
        ([0], [1], {"confidence": 1}, "confidence must be above 0 and below 1"),
        ([0], [1], {"n_resamples": -1}, "n_resamples must be a whole number from 0 on"),
        ([0], [1], {"n_resamples": 5, "random_state": "x"}, "random_state"),
    ],
)
def test_invalid_scores_are_refused(u_in, u_out, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.ood_metrics(u_in, u_out, **options)
