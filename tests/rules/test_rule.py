"""What rules state of themselves: largest loss, order of totals, units, predictions, JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import scorewise as sw
from scorewise.errors import Remedy
from scorewise.rules import Unit, rule_from_json
from support import all_rules, members

RULES = all_rules(2) | all_rules(5)  # those of two classes only, and all others for five
FLOORS = [None, 1e-9, 1e-3, 0.05, 0.19]


def n_classes(name: str) -> int:
    return 5 if name in all_rules(5) else 2


@dataclass(frozen=True, eq=False, repr=False)
class Silent(sw.rules.ScoringRule):
    """Brier's formulas, in a class that states no facts."""

    family = "silent"

    def _losses(self, xp, p):
        return sw.rules.brier._losses(xp, p)

    def _entropy(self, xp, p):
        return sw.rules.brier._entropy(xp, p)

    def _divergence(self, xp, q, p, d):
        return sw.rules.brier._divergence(xp, q, p, d)


USERS_OWN = [Silent(), sw.rule_from_loss_vector(lambda p: -p, name="log")]


# -- the largest loss -----------------------------------------------------------------------------


@st.composite
def rules_and_predictions(draw):
    """Any rule of the library, with any parameters, and predictions that may be certain."""
    k = draw(st.integers(2, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    root = rng.normal(size=(k, k))
    above_one = st.floats(1.001, 12)
    shape = st.floats(-0.99, 6)
    rule = draw(
        st.one_of(
            *map(st.just, ("log", "brier", "zero-one", "spherical", "rps")),
            st.builds(sw.rules.tsallis, above_one),
            st.builds(sw.rules.pseudospherical, above_one),
            st.builds(sw.rules.top_k, st.integers(1, k)),
            st.just(sw.rules.cost_matrix(rng.normal(size=(k, k + 1)))),
            st.just(sw.rules.quadratic(root @ root.T)),
            st.just(sw.rules.weighted_log(rng.uniform(0.01, 9, k))),
            *[st.builds(sw.rules.beta, shape, shape)] * (k == 2),
        )
    )
    p = rng.dirichlet(np.full(k, draw(st.sampled_from([0.05, 0.5, 1.0, 20.0]))), 50)
    p = np.concatenate([p, np.eye(k), np.full((1, k), 1 / k)])
    floor = draw(st.none() | st.floats(1e-12, 0.99 / k))
    return sw.get_rule(rule), p, floor


@settings(max_examples=300)
@given(rules_and_predictions())
def test_no_loss_exceeds_the_largest(drawn):
    rule, p, floor = drawn
    k = p.shape[-1]
    floored = p if floor is None else (1 - k * floor) * p + floor
    largest = rule.largest_loss(k, floor)
    assert np.max(rule.loss_vector(floored)) <= largest + 1e-12 * abs(largest)


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("name", RULES)
def test_the_largest_loss_is_reached(name, floor):
    k, rule = n_classes(name), RULES[name]
    if name == "cost-matrix":  # where every action is the best for a class
        rule = sw.rules.cost_matrix(
            np.random.default_rng(0).uniform(8, 9, (k, k)) * (1 - np.eye(k))
        )
    p = np.concatenate([np.eye(k), members(500, 1, k, concentration=0.1)[:, 0]])
    floored = p if floor is None else (1 - k * floor) * p + floor
    assert np.max(rule.loss_vector(floored)) == pytest.approx(rule.largest_loss(k, floor), 1e-12)


def test_the_largest_losses_of_the_paper():
    assert sw.rules.log.largest_loss(3) == np.inf
    assert sw.rules.log.largest_loss(3, 1e-6) == -np.log(1e-6)
    assert sw.rules.brier.largest_loss(10) == 2.0
    assert sw.rules.zero_one.largest_loss(10) == 1.0
    assert sw.rules.spherical.largest_loss(10) == 1.0
    assert sw.rules.top_k(3).largest_loss(4) == 1.0
    assert sw.rules.top_k(3).largest_loss(3) == 0.0  # every label is in the list
    assert sw.rules.rps.largest_loss(5) == 4.0
    assert sw.rules.beta(0.5, -0.5).largest_loss(2) == np.inf


@pytest.mark.parametrize(
    "rule",
    [Silent(), sw.rule_from_loss_vector(lambda p: -p, name="own")],
    ids=["class", "function"],
)
def test_a_rule_that_does_not_state_its_largest_loss_raises(rule):
    with pytest.raises(
        sw.InvalidInput, match=r"largest loss of .* not known; pass loss_bound="
    ) as e:
        rule.largest_loss(3)
    assert [remedy.argument for remedy in e.value.remedies] == ["loss_bound"]
    assert isinstance(e.value.remedies[0], Remedy)


def test_the_largest_loss_is_of_as_many_classes_as_the_rule_can_have():
    with pytest.raises(sw.InvalidInput, match="2"):
        sw.rules.beta(1, 1).largest_loss(3)
    with pytest.raises(sw.InvalidInput, match=r"floor is 0\.5"):
        sw.rules.log.largest_loss(3, floor=0.5)


# -- structure and symmetry -----------------------------------------------------------------------


def test_every_rule_has_one_of_five_structures():
    by_structure = {}
    for rule in RULES.values():
        by_structure.setdefault(rule.structure.name, set()).add(rule.family)
    assert by_structure == {
        "separable": {"log", "brier", "tsallis", "weighted_log"},
        "norm": {"spherical", "pseudospherical"},
        "decision": {"zero_one", "top_k", "cost_matrix"},
        "quadratic": {"quadratic", "rps"},
        "two-class": {"beta"},
    }
    assert sw.rule_from_loss_vector(lambda p: -p, name="own").structure is None
    assert Silent().structure is None


@pytest.mark.parametrize("k", [2, 5])
def test_symmetric_rules_are_those_that_permuting_classes_does_not_change(k):
    rng = np.random.default_rng(0)
    p, order = rng.dirichlet(np.ones(k), 20), np.roll(np.arange(k), 1)
    for name, rule in all_rules(k).items():
        unchanged = np.allclose(rule.entropy(p), rule.entropy(p[:, order]), rtol=1e-12)
        if rule.family in {"rps", "quadratic"} and k == 2:
            continue  # of two classes they are multiples of Brier's
        assert rule.is_symmetric == unchanged, name
    assert sw.rules.beta(0.7, 0.7).is_symmetric
    assert not sw.rules.beta(0.7, 0.8).is_symmetric


# -- the order of totals --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 6])
def test_rules_of_equal_keys_order_totals_alike(k):
    rules = all_rules(k) | {
        "tsallis:2": sw.rules.tsallis(2),
        "pseudospherical:2": sw.rules.pseudospherical(2),
        "tsallis:4": sw.rules.tsallis(4),
        "top-k:1": sw.rules.top_k(1),
    }
    p = members(300, 1, k, concentration=0.5)[:, 0]
    by_key: dict[object, list[str]] = {}
    for name, rule in rules.items():
        by_key.setdefault(rule.total_order(k), []).append(name)
    unknown = by_key.pop(None)
    assert {"weighted-log", "cost-matrix", "top-k:2"} <= set(unknown)
    for names in by_key.values():
        first, *others = (rules[name].entropy(p) for name in names)
        order = np.argsort(first)
        for other in others:
            assert (np.diff(other[order]) > -1e-12).all(), names
    expected = {
        2: [{"log", "brier", "zero-one", "pseudospherical:4", "beta:0,0", "top-k:1"}],
        3: [{"brier", "spherical", "tsallis:2"}, {"tsallis:4", "pseudospherical:4"}],
        6: [{"brier", "spherical", "tsallis:2"}, {"zero-one", "top-k:1"}],
    }
    for group in expected[k]:
        assert any(group <= set(names) for names in by_key.values()), group


def test_a_rule_that_states_no_order_has_none():
    assert Silent().total_order(2) is None
    assert sw.rule_from_loss_vector(lambda p: -p, name="own").total_order(2) is None


# -- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "noun", "is_proportion", "label"),
    [
        ("zero-one", "error", True, "error"),
        ("top-k:5", "top-5 error", True, "top-5 error"),
        ("log", "log loss", False, "log loss (nats)"),
        ("brier", "Brier loss", False, "Brier loss"),
        ("tsallis:1.5", "tsallis:1.5 loss", False, "tsallis:1.5 loss"),
        (sw.rules.cost_matrix([[0, 1], [5, 0]]), "cost", False, "cost"),
        (sw.rule_from_loss_vector(lambda p: -p, name="own"), "own loss", False, "own loss"),
    ],
)
def test_a_unit_says_what_losses_are_called(rule, noun, is_proportion, label):
    assert sw.get_rule(rule).unit == Unit(noun, is_proportion, label)


@pytest.mark.parametrize("name", RULES)
def test_proportions_are_the_losses_that_are_0_or_1(name):
    losses = RULES[name].loss_vector(members(50, 1, n_classes(name))[:, 0])
    assert RULES[name].unit.is_proportion == bool(np.isin(losses, [0, 1]).all())


def test_a_unit_writes_losses():
    error, loss = sw.rules.zero_one.unit, sw.rules.log.unit
    assert error.format(0.05123) == "5.12 %"
    assert loss.format(12.34567) == "12.35"
    assert error.format_exact(0.0123456) == "1.23456 %"
    assert loss.format_exact(0.123456789) == "0.123456789"


@pytest.mark.parametrize(
    ("method", "proportion", "text"),
    [
        ("format", 0, "0 %"),
        ("format", 1, "100 %"),
        ("format", 0.5, "50 %"),
        ("format", 0.12345, "12.3 %"),
        ("format", 1.2e-5, "0.0012 %"),
        ("format", 1e-9, "less than 0.0001 %"),
        ("format", 1 - 1e-9, "more than 99.9 %"),
        ("format_fixed", 0, "0.00 %"),
        ("format_fixed", 0.884, "88.40 %"),
        ("format_fixed", 1.2e-5, "0.0012 %"),
        ("format_fixed", 0.99999, "more than 99.9 %"),
        ("format_fixed", 1, "100.00 %"),
        ("format_exact", 0.99999, "99.999 %"),
    ],
)
def test_a_unit_of_proportions_writes_percentages(method, proportion, text):
    assert getattr(sw.rules.zero_one.unit, method)(proportion) == text


@given(
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.sampled_from(["format", "format_exact", "format_fixed"]),
)
def test_a_percentage_is_never_rounded_to_all_or_nothing(proportion, method):
    text = getattr(sw.rules.zero_one.unit, method)(proportion)
    number = text.removeprefix("less than ").removeprefix("more than ").removesuffix(" %")
    assert 0 < float(number) < 100
    assert "e" not in number


# -- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_a_prediction_incurs_the_least_expected_loss(name, xp):
    k = n_classes(name)
    p = members(30, 1, k)[:, 0]
    rule = RULES[name]
    prediction = rule.predict(xp.asarray(p))
    assert xp.owns(prediction)
    assert tuple(prediction.shape) == (30,)
    prediction = xp.to_numpy(prediction)
    assert prediction.dtype.kind == "i"
    if name == "cost-matrix":
        np.testing.assert_array_equal(prediction, (p @ rule.costs).argmin(axis=-1))
        assert rule.n_predictions(k) == k + 1
    else:
        np.testing.assert_array_equal(prediction, p.argmax(axis=-1))
        assert rule.n_predictions(k) == k


def test_predictions_have_names():
    classes = ("cat", "dog")
    costs = [[0, 5, 1], [50, 0, 1]]
    assert sw.rules.log.prediction_names(classes) == classes
    assert sw.rules.cost_matrix([[0, 1], [5, 0]]).prediction_names(classes) == classes
    assert sw.rules.cost_matrix(costs).prediction_names(classes) == ("0", "1", "2")
    actions = ["dismiss", "treat", "refer"]
    assert sw.rules.cost_matrix(costs, actions).prediction_names(classes) == tuple(actions)


# -- JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_json_brings_a_rule_back(name):
    rule = RULES[name]
    assert rule_from_json(json.loads(json.dumps(rule.to_json()))) == rule


def test_json_keeps_the_names_of_actions():
    rule = sw.rules.cost_matrix([[0, 1], [5, 0]], ["wait", "act"])
    assert rule_from_json(json.loads(json.dumps(rule.to_json()))) == rule


@pytest.mark.parametrize(
    "rule",
    [Silent(), sw.rule_from_loss_vector(lambda p: -p, name="log")],
    ids=["class", "function"],
)
def test_a_rule_of_the_user_cannot_be_stored(rule):
    with pytest.raises(sw.InvalidInput, match="cannot be stored"):
        rule.to_json()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "not a scoring rule"),
        ({}, "not a scoring rule"),
        ({"name": 3}, "not a scoring rule"),
        ({"name": "nothing"}, "no rule is called 'nothing'"),
        ({"name": "log", "base": 2}, "takes no parameters"),
        ({"name": "cost-matrix", "cost": [[0, 1], [1, 0]]}, "cannot make the rule 'cost-matrix'"),
        ({"name": "cost-matrix", "costs": [[0, 1], [1]]}, "rectangular"),
        ({"name": "tsallis", "beta": "x"}, "above 1"),
    ],
)
def test_json_that_is_no_rule_says_why(value, message):
    with pytest.raises(sw.InvalidInput, match=message):
        rule_from_json(value)
