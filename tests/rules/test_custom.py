"""Rules of users, from a loss vector or an entropy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw
from support import members, own_brier


def brier_losses(p):
    return 1 + (p * p).sum(-1, keepdims=True) - 2 * p


def shannon(p):
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)


def shannon_slope(p):
    with np.errstate(divide="ignore"):
        return -np.log(p) - 1


def test_own_rules_equal_the_built_in_ones():
    brier = sw.rule_from_loss_vector(brier_losses, name="my-brier")
    log = sw.rule_from_entropy(shannon, shannon_slope, name="my-log")
    probs = members(40, 6, 4)
    probs[0, 0] = [1, 0, 0, 0]
    results = sw.decompose(probs, [brier, log, "brier", "log"])
    for mine, theirs in (("my-brier", "brier"), ("my-log", "log")):
        for a, b in zip(results[mine], results[theirs], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)
    for rule in (brier, log):
        sw.check_rule(rule, n_classes=4)
        assert pickle.loads(pickle.dumps(rule)) == rule
    assert repr(brier) == "rule_from_loss_vector(name='my-brier')"
    assert repr(log) == "rule_from_entropy(name='my-log')"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_own_rules_keep_the_laws(dtype: str):
    def log_losses(p):
        with np.errstate(divide="ignore"):
            return -np.log(p)

    same = np.repeat(members(500, 1, 7), 5, axis=1)
    for rule in (
        sw.rule_from_loss_vector(brier_losses, name="my-brier"),
        sw.rule_from_loss_vector(log_losses, name="my-log"),
        sw.rule_from_entropy(shannon, shannon_slope, name="my-shannon"),
    ):
        assert (sw.decompose(same.astype(dtype), rule).epistemic == 0).all()
        for noise in (1e-9, 1e-4, 1e-2):
            near = same * np.exp(noise * np.random.default_rng(0).normal(size=same.shape))
            near = (near / near.sum(axis=-1, keepdims=True)).astype(dtype)
            assert (sw.decompose(near, rule).epistemic >= 0).all(), (rule, noise)


def test_a_function_for_another_library_is_refused():
    """In every task, for predictions of NumPy, as those of models are."""
    torch_rule, probs, y = own_brier("torch"), members(20, 3, 4), np.arange(20) % 4
    has_method = sw.rule_from_entropy(lambda p: p.clamp(0), lambda p: p, name="own")
    forest = RandomForestClassifier(3, random_state=0)
    for call in (
        lambda: torch_rule.loss_vector(probs),
        lambda: has_method.entropy(probs),
        lambda: sw.decompose(probs, torch_rule),
        lambda: sw.task_losses(probs, y, torch_rule),
        lambda: sw.compare(probs, y, rules={"own": torch_rule}),
        lambda: sw.certify(probs, y, max_loss=0.1, task_loss=torch_rule, loss_bound=2.0),
        lambda: sw.OODDetector(forest, torch_rule).fit(probs[:, 0], y),
    ):
        with pytest.raises(sw.InvalidInput, match="of rule 'own' fails on a ndarray: "):
            call()
    with pytest.raises(sw.InvalidInput, match="pass predictions of the library that the rule is"):
        sw.decompose(probs, torch_rule)


def test_functions_of_the_wrong_shape_are_refused():
    for rule in (
        sw.rule_from_loss_vector(lambda p: p[..., 0], name="flat"),
        sw.rule_from_entropy(lambda p: p, lambda p: p, name="deep"),
        sw.rule_from_entropy(lambda p: p[..., 0], lambda p: p[..., 0], name="slope"),
    ):
        with pytest.raises(sw.InvalidInput, match=rf"of rule '{rule.name}' has shape \(4"):
            rule.loss_vector(np.full((4, 2), 0.5))
