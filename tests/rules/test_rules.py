"""Rules as values, and their formulas against each other and against the definitions."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest
import torch

import reference
import scorewise as sw
from support import all_rules, members

RULES = all_rules(5) | all_rules(2)


def five(name: str) -> sw.rules.ScoringRule:
    return all_rules(5).get(name) or all_rules(2)[name]


def classes(name: str) -> int:
    return 5 if name in all_rules(5) else 2


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (sw.rules.log, "log"),
        (sw.rules.zero_one, "zero_one"),
        (sw.rules.tsallis(1.5), "tsallis(1.5)"),
        (sw.rules.tsallis(2), "tsallis(2)"),
        (sw.rules.tsallis(1.2345678), "tsallis(1.2345678)"),
        (sw.rules.pseudospherical(3), "pseudospherical(3)"),
        (sw.rules.top_k(5), "top_k(5)"),
        (sw.rules.beta(0.5, 2), "beta(0.5, 2)"),
        (sw.rules.weighted_log([1, 2.5]), "weighted_log([1. , 2.5])"),
        (sw.rules.cost_matrix([[0, 1], [5, 0]]), "cost_matrix([[0., 1.], [5., 0.]])"),
        (sw.rules.quadratic([[2, 0], [0, 1]]), "quadratic([[2., 0.], [0., 1.]])"),
    ],
)
def test_a_rule_prints_as_what_it_is(rule, shown):
    assert repr(rule) == shown


@pytest.mark.parametrize(
    "text",
    [
        "log",
        "brier",
        "zero-one",
        "spherical",
        "rps",
        "tsallis:1.5",
        "top-k:5",
        "pseudospherical:3",
        "beta:0.5,2",
        "tsallis:1.0000000000000002",
    ],
)
def test_names_parse_back_to_their_rule(text):
    rule = sw.get_rule(text)
    assert rule.name == text
    assert sw.get_rule(rule.name) == rule
    assert sw.get_rule(rule) is rule


def test_names_are_read_generously():
    assert sw.get_rule(" Zero_One ") == sw.rules.zero_one
    assert sw.get_rule("top_k: 3") == sw.rules.top_k(3)


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (["0-1", "0/1", "accuracy", "error", "error rate", "0-1 loss"], sw.rules.zero_one),
        (["entropy", "Cross-Entropy", "cross_entropy", "cross entropy"], sw.rules.log),
        (["shannon", "nll", "log-loss", "log_loss", "logloss"], sw.rules.log),
        (["brier-score", "Brier score"], sw.rules.brier),
    ],
)
def test_other_names_of_a_rule_are_understood(names, rule):
    assert [sw.get_rule(name) for name in names] == [rule] * len(names)
    probs = [[0.5, 0.5], [0.9, 0.1]]
    assert list(sw.decompose(probs, names)) == names  # results are called as they are asked for
    assert {sw.get_rule(name).name for name in names} == {rule.name}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mutual information", "the epistemic uncertainty under 'log'"),
        ("BALD", "the epistemic uncertainty under 'log'"),
        ("variance", "the epistemic uncertainty under 'brier'"),
        ("gini", "the total uncertainty under 'brier'"),
        ("mse", "the squared error is the loss 'brier'"),
        ("max_softmax", "the total uncertainty under 'zero-one'"),
        ("crps", "is 'rps'"),
        ("epistemic", r"a component .*decompose\(probs, rule\)\.epistemic"),
    ],
)
def test_what_is_not_a_rule_says_what_to_use(name, message):
    with pytest.raises(sw.InvalidInput, match=rf"^'{name}' is not a rule; .*{message}"):
        sw.get_rule(name)


def test_what_is_said_of_other_names_is_true():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=(20, 5))
    mean = p.mean(axis=1)
    mutual_information = (p * np.log(p / mean[:, None])).sum(-1).mean(-1)
    parts = sw.decompose(p, ["log", "brier", "zero-one"])
    np.testing.assert_allclose(parts["log"].epistemic, mutual_information)
    np.testing.assert_allclose(parts["brier"].epistemic, p.var(axis=1).sum(-1))
    np.testing.assert_allclose(parts["brier"].total, 1 - (mean**2).sum(-1))
    np.testing.assert_allclose(parts["zero-one"].total, 1 - mean.max(-1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("logg", "did you mean 'log'"),
        ("cross-entrpy", "did you mean 'cross-entropy'"),
        ("tsallis", "needs numbers, as in 'tsallis:1.5'"),
        ("tsallis:x", "cannot read"),
        ("tsallis:1_5", "cannot read"),
        ("tsallis:1,2", "cannot read"),
        ("tsallis:1", "above 1"),
        ("tsallis:nan", "above 1"),
        ("top-k:0", "above 0"),
        ("top-k:2.5", "whole number"),
        ("log:3", "takes no numbers"),
        ("beta:-1,2", "above -1"),
        ("cost-matrix:3", "cannot be written in a name; .* made by scorewise.rules.cost_matrix"),
        (3, "not a scoring rule"),
    ],
)
def test_a_name_that_cannot_be_read_says_why(text, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.get_rule(text)


@pytest.mark.parametrize("name", RULES)
def test_rules_are_values(name):
    rule, twin = five(name), five(name)
    assert rule == twin
    assert hash(rule) == hash(twin)
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert repr(pickle.loads(pickle.dumps(rule))) == repr(rule)
    others = [r for n, r in RULES.items() if n != name]
    assert all(rule != other for other in others)
    parameter = next((p for p in rule._parameters() if isinstance(p, np.ndarray)), None)
    if parameter is not None:
        with pytest.raises(ValueError, match="read-only"):
            parameter[0] = 1
    with pytest.raises(AttributeError):
        rule.anything = 1


def test_a_rule_does_not_change_with_the_array_it_was_made_from():
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    rule = sw.rules.cost_matrix(costs)
    costs[0, 0] = 9
    assert rule == sw.rules.cost_matrix([[0, 1], [1, 0]])


def test_rules_that_a_name_can_hold_are_listed():
    with pytest.raises(sw.InvalidInput, match="known: ") as error:
        sw.get_rule("nothing")
    names = str(error.value).rpartition("known: ")[2].split(", ")
    assert set(names) == {
        rule.family.replace("_", "-")
        for rule in RULES.values()
        if all(isinstance(parameter, int | float) for parameter in rule._parameters())
    }


def test_every_rule_is_public():
    for rule in RULES.values():
        public = getattr(sw.rules, rule.family)
        assert public == rule or public(*rule._parameters()) == rule


@pytest.mark.parametrize("name", all_rules(5))
def test_formulas_match_their_definitions(name):
    rule = five(name)
    rng = np.random.default_rng(3)
    q = np.concatenate([rng.dirichlet(np.ones(5), 6), rng.dirichlet(np.full(5, 0.1), 6)])
    p = np.concatenate([rng.dirichlet(np.full(5, 0.1), 6), rng.dirichlet(np.ones(5), 6)])
    h, d = reference.entropy(rule), reference.divergence(rule)
    for i in range(len(q)):
        a, b = reference.row(q[i]), reference.row(p[i])
        assert abs(rule.entropy(q[i]) - h(a)) <= 1e-12 * abs(h(a)) + 1e-15
        assert abs(rule.divergence(q[i], p[i]) - d(a, b)) <= 1e-12 * d(a, b) + 1e-16
        losses = [rule.loss(q[i], y) for y in range(5)]
        np.testing.assert_array_equal(losses, rule.loss_vector(q[i]))
        corners = [
            float(d(a, reference.row(np.eye(5)[y])) + h(reference.row(np.eye(5)[y])))
            for y in range(5)
        ]
        np.testing.assert_allclose(losses, corners, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("first", "other", "k"),
    [
        (sw.rules.tsallis(2), sw.rules.brier, 4),
        (sw.rules.pseudospherical(2), sw.rules.spherical, 4),
        (sw.rules.top_k(1), sw.rules.zero_one, 4),
        (sw.rules.cost_matrix(1 - np.eye(4)), sw.rules.zero_one, 4),
        (sw.rules.quadratic(np.eye(4)), sw.rules.brier, 4),
        (sw.rules.quadratic(np.minimum.outer(*[np.arange(3, -1, -1)] * 2)), sw.rules.rps, 4),
        (sw.rules.weighted_log(np.ones(4)), sw.rules.log, 4),
        (sw.rules.beta(0, 0), sw.rules.log, 2),
    ],
)
def test_families_meet(first, other, k):
    q, p = members(2, 50, k)
    np.testing.assert_allclose(first.entropy(q), other.entropy(q), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(
        first.divergence(q, p), other.divergence(q, p), rtol=1e-11, atol=1e-14
    )
    offset = first.loss_vector(q) - other.loss_vector(q)
    np.testing.assert_allclose(offset, 0, atol=1e-9)


def test_beta_one_one_is_a_quarter_of_brier():
    q, p = members(2, 50, 2)
    np.testing.assert_allclose(
        4 * sw.rules.beta(1, 1).divergence(q, p), sw.rules.brier.divergence(q, p)
    )
    np.testing.assert_allclose(
        4 * sw.rules.beta(1, 1).loss_vector(q), sw.rules.brier.loss_vector(q)
    )


def test_tsallis_tends_to_log():
    p = members(1, 50, 4)[0]
    near = sw.rules.tsallis(1 + 1e-9)
    np.testing.assert_allclose(near.entropy(p), sw.rules.log.entropy(p), rtol=1e-6)


def test_ties_go_to_the_first_index():
    p = [0.4, 0.4, 0.2]
    np.testing.assert_array_equal(sw.rules.zero_one.loss_vector(p), [0, 1, 1])
    np.testing.assert_array_equal(sw.rules.top_k(2).loss_vector([0.2, 0.4, 0.2, 0.2]), [0, 0, 1, 1])
    np.testing.assert_array_equal(
        sw.rules.cost_matrix([[1, 1], [2, 2]]).loss_vector([0.5, 0.5]), [1, 2]
    )


def test_certain_and_impossible_labels_cost_what_they_should():
    p = np.array([1.0, 0.0])
    np.testing.assert_array_equal(sw.rules.log.loss_vector(p), [0, np.inf])
    assert sw.rules.log.divergence(p, [0.5, 0.5]) == np.inf
    assert sw.rules.log.expected_loss(p, p) == 0
    assert sw.rules.beta(0.5, 2).loss_vector(p)[0] == 0


def test_cost_matrix_takes_more_actions_than_classes_and_negative_costs():
    rule = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1]], actions=["dismiss", "treat", "refer"])
    np.testing.assert_allclose(
        rule.entropy([[0.995, 0.005], [0.9, 0.1], [0.1, 0.9]]), [0.25, 1, 0.5]
    )
    gains = sw.rules.cost_matrix([[-1, 0], [0, -2]])
    sw.check_rule(gains, n_classes=2)
    d = sw.decompose(members(50, 5, 2), gains)
    assert (d.epistemic >= 0).all()
    assert (d.total < 0).any()
    assert rule != sw.rules.cost_matrix(rule.costs)
    assert "dismiss" in repr(rule)


def test_epistemic_of_a_cost_matrix_is_the_value_of_perfect_information():
    costs = np.random.default_rng(0).uniform(0, 4, (3, 5))
    probs = members(40, 9, 3)
    without = (probs.mean(axis=1) @ costs).min(axis=-1)
    knowing = (probs @ costs).min(axis=-1).mean(axis=-1)
    got = sw.decompose(probs, sw.rules.cost_matrix(costs)).epistemic
    np.testing.assert_allclose(got, without - knowing, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sw.rules.cost_matrix([[0, np.inf], [1, 0]]), r"\[0, 1\] is inf"),
        (lambda: sw.rules.cost_matrix([[0, np.nan], [1, 0]]), "is nan"),
        (lambda: sw.rules.cost_matrix([0, 1]), "1 dimensions"),
        (lambda: sw.rules.cost_matrix([[0, 1]]), "shape"),
        (lambda: sw.rules.cost_matrix([["a", "b"]]), "must hold real numbers"),
        (lambda: sw.rules.cost_matrix([[0, 1e31], [1, 0]]), r"\[0, 1\] is 1e\+31.*at most 1e30"),
        (lambda: sw.rules.cost_matrix(np.eye(2), actions=["a"]), "1 action names for 2"),
        (lambda: sw.rules.cost_matrix(np.eye(2), actions=["a", "a"]), "a different name"),
        (lambda: sw.rules.quadratic([[0, 1], [0, 0]]), "not symmetric"),
        (lambda: sw.rules.quadratic(-np.eye(2)), "negative eigenvalue"),
        (lambda: sw.rules.quadratic(np.ones((2, 3))), "K × K"),
        (lambda: sw.rules.weighted_log([1, 0]), "positive"),
        (lambda: sw.rules.weighted_log([1]), "positive"),
        (lambda: sw.rules.beta(-1, 0), "above -1"),
        (lambda: sw.rules.pseudospherical(1), "above 1"),
        (lambda: sw.rules.top_k(True), "whole number"),
        (lambda: sw.rules.top_k(None), "finite number"),
        (lambda: sw.get_rule("top-k:inf"), "finite number"),
        (lambda: sw.rules.log.divergence([0.5, 0.5], torch.tensor([0.5, 0.5])), "libraries"),
        (lambda: sw.rules.log.loss([0.5, 0.5], 2), "from 0 to 1"),
        (lambda: sw.rules.log.loss([0.5, 0.5], -1), "from 0 to 1"),
        (lambda: sw.rules.log.loss([0.5, 0.5], 0.5), "integer"),
        (lambda: sw.rules.log.loss([[0.5, 0.5]], [0, 1]), "shape"),
        (lambda: sw.rules.log.entropy([0.5, 0.6]), "sums to 1.1"),
        (lambda: sw.rules.log.divergence([0.5, 0.5], [0.2, 0.3, 0.5]), "2 classes, the truth 3"),
        (lambda: sw.rules.top_k(4).entropy([0.5, 0.5]), "at least 4 classes"),
        (lambda: sw.rules.beta(1, 1).entropy([0.5, 0.3, 0.2]), "is for 2 classes"),
        (lambda: sw.rules.cost_matrix(np.eye(3)).entropy([0.5, 0.5]), "is for 3 classes"),
        (lambda: sw.rules.quadratic(np.eye(3)).entropy([0.5, 0.5]), "is for 3 classes"),
        (lambda: sw.rules.weighted_log(np.ones(3)).entropy([0.5, 0.5]), "is for 3 classes"),
    ],
)
def test_bad_parameters_and_arguments_are_refused(make, message):
    with pytest.raises(sw.InvalidInput, match=message):
        make()


def test_labels_of_every_integer_type_are_welcome():
    p = members(1, 4, 3)[0]
    for kind in (torch.int32, torch.uint8, torch.int64):
        got = sw.rules.log.loss(torch.asarray(p), torch.tensor([0, 2, 1, 1], dtype=kind))
        np.testing.assert_allclose(got, sw.rules.log.loss(p, [0, 2, 1, 1]))


def test_reference_and_table_agree_on_expected_loss():
    """L = H + D, by the definitions alone: a guard for the reference itself."""
    q, p = map(reference.row, members(1, 2, 5)[0])
    losses = [mp.log(1 / x) for x in q]
    left = mp.fsum(y * x for x, y in zip(losses, p, strict=True))
    right = reference.entropy(sw.rules.log)(p) + reference.divergence(sw.rules.log)(q, p)
    assert abs(left - right) < 1e-15
