"""check_rule accepts every rule of the library and catches broken laws."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import scorewise as sw
from support import all_rules

RULES = all_rules(5) | all_rules(2)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_passes_the_check(name):
    for k in (2, 5) if name in all_rules(5) else (2,):
        sw.check_rule(all_rules(k)[name], n_classes=k)


def caught(rule: sw.rules.ScoringRule, law: str, k: int = 3) -> sw.ImproperRule:
    with pytest.raises(sw.ImproperRule) as error:
        sw.check_rule(rule, n_classes=k)
    assert error.value.law == law, error.value
    assert error.value.counterexample
    assert rule.name in str(error.value)
    return error.value


def test_check_catches_the_naive_weighted_log_loss():
    w = np.array([1.0, 1.0, 5.0])
    naive = sw.rule_from_loss_vector(lambda p: w * sw.rules.log.loss_vector(p), name="naive")
    error = caught(naive, "properness")
    q, p = error.counterexample["prediction"], error.counterexample["truth"]
    assert naive.expected_loss(q, p) < naive.expected_loss(p, p)


def test_check_catches_a_mis_signed_brier():
    wrong = sw.rule_from_loss_vector(
        lambda p: 1 + (p * p).sum(-1, keepdims=True) + 2 * p, name="mis-signed"
    )
    caught(wrong, "concavity")
    also = sw.rule_from_entropy(lambda p: (p * p).sum(-1) - 1, lambda p: 2 * p, name="upside-down")
    caught(also, "concavity")
    tempting = sw.rule_from_loss_vector(lambda p: (p * p).sum(-1, keepdims=True) - p, name="half")
    caught(tempting, "properness")


def test_check_catches_an_entropy_that_is_not_concave():
    def wavy(p):
        return (1 - (p * p).sum(-1)) + 0.1 * np.sin(6 * p[..., 0])

    def slope(p):
        bend = np.zeros_like(p)
        bend[..., 0] = 0.6 * np.cos(6 * p[..., 0])
        return -2 * p + bend

    error = caught(sw.rule_from_entropy(wavy, slope, name="wavy"), "concavity")
    q, p, between = (error.counterexample[name] for name in ("q", "p", "between"))
    assert wavy(between) < max(wavy(p), wavy(q))

    class Liar(type(sw.rules.brier)):
        """Proper losses, but an entropy and divergence of something else."""

        def _entropy(self, xp, p):
            return wavy(p)

    with pytest.raises(sw.ImproperRule, match="H\\(p\\) = L\\(p, p\\) is broken"):
        sw.check_rule(Liar(), n_classes=3)


def test_check_catches_a_broken_law_of_each_kind():
    brier = type(sw.rules.brier)

    def variant(**methods):
        return type("Variant", (brier,), methods)()

    caught(variant(_losses=lambda self, xp, p: p[..., 0]), "shape")
    caught(variant(_entropy=lambda self, xp, p: p), "shape")
    caught(sw.rule_from_loss_vector(lambda p: np.full_like(p, np.nan), name="nan"), "losses")
    caught(sw.rule_from_loss_vector(lambda p: np.log(p), name="-inf"), "losses")
    caught(sw.rule_from_loss_vector(lambda p: np.full_like(p, np.inf), name="inf"), "bounds")
    negative = variant(_divergence=lambda self, xp, q, p, d: -xp.sum(d * d, axis=-1))
    caught(negative, "divergence")
    noisy = variant(_divergence=lambda self, xp, q, p, d: xp.sum(d * d, axis=-1) + 1e-17)
    caught(noisy, "divergence")
    twice = variant(_divergence=lambda self, xp, q, p, d: 2 * xp.sum(d * d, axis=-1))
    caught(twice, "decomposition")


def test_check_searches_beyond_its_samples():
    """A dip of the loss at one prediction, away from corners, edges and the centre."""

    def dipped(p):
        distance = ((p - np.array([0.55, 0.27, 0.18])) ** 2).sum(-1, keepdims=True)
        return sw.rules.brier.loss_vector(p) - 0.5 * np.exp(-distance / 0.02**2)

    rule = sw.rule_from_loss_vector(dipped, name="dipped")
    with pytest.raises(sw.ImproperRule) as error:
        sw.check_rule(rule, n_classes=3, n_samples=8)
    assert error.value.law == "properness"


def test_check_catches_a_corner_where_entropy_and_loss_disagree():
    class Cornered(type(sw.rules.log)):
        """Forgets that an impossible label costs infinitely much."""

        def _divergence(self, xp, q, p, d):
            return xp.minimum(super()._divergence(xp, q, p, d), 1e3)

    with pytest.raises(sw.ImproperRule, match=r"breaks"):
        sw.check_rule(Cornered(), n_classes=3)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("k", [2, 3, 8])
def test_check_has_no_false_alarms_in_other_units(scale: float, k: int):
    rng = np.random.default_rng(k)
    for seed in range(3):
        root = rng.normal(size=(k, k))
        for rule in (
            sw.rules.cost_matrix(scale * rng.uniform(-1, 1, (k, 4))),
            sw.rules.quadratic(scale * root @ root.T),
            sw.rules.weighted_log(scale * rng.uniform(0.1, 1, k)),
        ):
            sw.check_rule(rule, n_classes=k, random_state=seed)


@pytest.mark.parametrize(("a", "b"), [(30, 20), (-0.9, 10), (0.01, 0.01)])
def test_check_has_no_false_alarms_for_extreme_beta_rules(a: float, b: float):
    sw.check_rule(sw.rules.beta(a, b), n_classes=2)


def test_one_huge_cost_does_not_hide_the_others():
    forbidden = sw.rules.cost_matrix([[0, 1, 1e12], [1, 0, 0.4]])
    probs = np.array([[[0.4996, 0.5004], [0.5004, 0.4996]]])
    np.testing.assert_allclose(sw.decompose(probs, forbidden).epistemic, [4e-4], rtol=1e-9)
    np.testing.assert_array_equal(forbidden.loss_vector(probs[0, 0]), [1, 0])
    sw.check_rule(forbidden, n_classes=2)


def test_an_improper_rule_names_its_counterexample_and_pickles():
    error = caught(sw.rule_from_loss_vector(lambda p: 1 - p, name="linear"), "properness", k=2)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.law == error.law
