"""Pairwise, reverse and label-wise measures."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw
from support import all_rules, members


@pytest.mark.parametrize("k", [2, 4])
def test_pairwise_is_epistemic_plus_reverse_and_the_mean_over_pairs(k):
    probs = members(8, 5, k)
    weights = np.random.default_rng(0).uniform(size=5)
    w = weights / weights.sum()
    for name, rule in all_rules(k).items():
        pairs = rule.divergence(probs[:, :, None], probs[:, None, :])
        brute = np.einsum("nij,i,j->n", pairs, w, w)
        got = sw.pairwise_epistemic(probs, rule, weights=weights)
        np.testing.assert_allclose(got, brute, rtol=1e-11, atol=1e-14, err_msg=name)
        reverse = sw.reverse_epistemic(probs, rule, weights=weights)
        mean = np.average(probs, axis=1, weights=w)[:, None]
        direct = np.average(rule.divergence(probs, mean), axis=1, weights=w)
        np.testing.assert_allclose(reverse, direct, rtol=1e-10, atol=1e-14, err_msg=name)


def test_pairwise_and_reverse_are_infinite_under_log_when_a_member_says_never():
    probs = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]])
    for measure in (sw.pairwise_epistemic, sw.reverse_epistemic):
        np.testing.assert_array_equal(measure(probs, "log"), [np.inf, 0])
        np.testing.assert_array_equal(measure(probs, "log", weights=[0, 1]), [0, 0])


def test_pairwise_and_reverse_are_exactly_zero_for_identical_members():
    same = np.repeat(members(30, 1, 6), 4, axis=1)
    for rule in all_rules(6).values():
        assert (sw.pairwise_epistemic(same, rule) == 0).all()
        assert (sw.reverse_epistemic(same, rule) == 0).all()


def test_label_wise_sums_are_briers():
    probs, w = members(10, 6, 4), np.arange(1.0, 7)
    by_label = sw.label_wise(probs, weights=w)
    for a, b in zip(by_label, sw.decompose(probs, "brier", weights=w), strict=True):
        assert a.shape == (10, 4)
        np.testing.assert_allclose(a.sum(axis=-1), b, rtol=1e-13)
    variance = np.average((probs - np.average(probs, 1, w)[:, None]) ** 2, axis=1, weights=w)
    np.testing.assert_allclose(by_label.epistemic, variance)
