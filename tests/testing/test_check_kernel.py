"""check_kernel catches kernels that disagree with the array path."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from scorewise.decompose import gradient_by_arrays
from scorewise.kernels import Extras, Usability, cpu

SPOILERS = {
    "component off": lambda t, a, e: [t, a, e * 1.01],
    "noise at zero": lambda t, a, e: [t, a, e + 1e-12],
    "negative": lambda t, a, e: [t, a, -e],
    "swapped": lambda t, a, e: [a, t, e],
    "incomplete": lambda t, a, e: [t, a],
    "refuses": lambda t, a, e: None,
    "other precision": lambda t, a, e: [t.astype(np.float16), a, e],
}


def like_cpu(**functions):
    """The CPU kernel with other functions."""
    own = {"is_usable": cpu.is_usable, "supports": cpu.supports, "compute": cpu.compute}
    return SimpleNamespace(**own | functions)


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_the_check_of_a_kernel_can_fail(spoiler: str):
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        return results if extras else results and SPOILERS[spoiler](*results)

    with pytest.raises(sw.errors.KernelMismatch):
        sw.check_kernel(like_cpu(compute=compute), ["log"], n_trials=30)


CORRECTED, ERRORS, REVERSE = Extras(True), Extras(False, True), Extras(False, False, True)
EXTRAS = {
    "corrected total off": (CORRECTED, lambda t, a, e: [t * 1.001, a, e]),
    "corrected aleatoric off": (CORRECTED, lambda t, a, e: [t, a * 1.001, e]),
    "corrected epistemic off": (CORRECTED, lambda t, a, e: [t, a, e * 1.001]),
    "no correction": (CORRECTED, lambda t, a, e: None),
    "correction of identical members": (CORRECTED, lambda t, a, e: [t, a, e + 1e-13]),
    "error of total off": (ERRORS, lambda t, a, e, *s: [t, a, e, s[0] * 1.01, s[1], s[2]]),
    "error of aleatoric off": (ERRORS, lambda t, a, e, *s: [t, a, e, s[0], s[1] * 1.01, s[2]]),
    "error of epistemic off": (ERRORS, lambda t, a, e, *s: [t, a, e, s[0], s[1], s[2] * 1.01]),
    "negative error": (ERRORS, lambda t, a, e, *s: [t, a, e, s[0], -s[1], s[2]]),
    "error that is not a number": (
        ERRORS,
        lambda t, a, e, *s: [t, a, e, s[0], s[1], s[2] * np.nan],
    ),
    "no errors": (ERRORS, lambda t, a, e, *s: [t, a, e]),
    "epistemic beside errors off": (ERRORS, lambda t, a, e, *s: [t, a, e * 1.001, *s]),
    "reverse off": (REVERSE, lambda t, a, e, r: [t, a, e, r * 1.001]),
    "reverse is forward": (REVERSE, lambda t, a, e, r: [t, a, e, e]),
    "reverse is finite": (REVERSE, lambda t, a, e, r: [t, a, e, np.minimum(r, 1e30)]),
    "reverse is infinite": (REVERSE, lambda t, a, e, r: [t, a, e, np.where(r > 1, np.inf, r)]),
}


@pytest.mark.parametrize("spoiler", EXTRAS)
def test_the_check_of_a_kernel_fails_for_each_extra_that_is_wrong(spoiler: str):
    wrong_extras, spoil = EXTRAS[spoiler]
    spoiled = []

    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        if results is None or extras != wrong_extras:
            return results
        spoiled.append(extras)
        return spoil(*results)

    kernel = like_cpu(compute=compute)
    with pytest.raises(sw.errors.KernelMismatch, match=r"log|declines|components"):
        sw.check_kernel(kernel, ["log"], n_trials=80)
    assert spoiled


def test_the_check_of_a_kernel_catches_corrections_that_make_epistemic_uncertainty_smaller():
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        if results is None or extras:
            return results
        return [x * 1.00015 for x in results]  # within what is allowed

    # Members that nearly agree with a heavy one have corrections of less than that.
    with pytest.raises(sw.errors.KernelMismatch):
        sw.check_kernel(like_cpu(compute=compute), ["brier"], n_trials=200)


def test_the_check_of_a_kernel_catches_a_jackknife_of_a_single_member_with_weight():
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        return cpu.compute(raw, weights, rules, Extras()) if results is None else results

    kernel = like_cpu(compute=compute, supports=lambda rule, extras: not extras.standard_errors)
    with pytest.raises(sw.errors.KernelMismatch, match="the only member with weight"):
        sw.check_kernel(kernel, ["brier"], n_trials=100)


def test_the_check_of_a_kernel_tries_only_the_extras_that_it_supports():
    wanted = set()

    def compute(raw, weights, rules, extras):
        wanted.add(extras)
        return cpu.compute(raw, weights, rules, extras)

    sw.check_kernel(like_cpu(compute=compute), ["log", "zero-one"], n_trials=40)
    assert wanted == {Extras(), CORRECTED, ERRORS, Extras(True, True), REVERSE}
    wanted.clear()
    plain = like_cpu(compute=compute, supports=lambda rule, extras: not extras)
    sw.check_kernel(plain, ["log", "zero-one"], n_trials=40)
    assert wanted == {Extras()}


def test_the_check_of_a_kernel_catches_one_whose_numbers_depend_on_the_other_rules():
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        is_short = results is not None and extras.standard_errors and 1 < len(rules) < 4
        return [*results[:-2], results[-2] * 1.1, results[-1]] if is_short else results

    with pytest.raises(sw.errors.KernelMismatch, match="standard error of aleatoric"):
        sw.check_kernel(like_cpu(compute=compute), sw.rules.DEFAULT_RULES, n_trials=200)


def test_the_check_of_a_kernel_catches_one_that_checks_nothing():
    def compute(raw, *work):
        return cpu.compute(replace(raw, check=False), *work)

    with pytest.raises(sw.errors.KernelMismatch, match="does not detect"):
        sw.check_kernel(like_cpu(compute=compute), ["brier"], n_trials=30)


def only_float64(raw, weights):
    return Usability(raw.values.dtype == np.float64, "it is for float64 only")


def test_the_check_of_a_kernel_skips_the_arrays_that_it_declines():
    dtypes = set()

    def compute(raw, *work):
        dtypes.add(str(raw.values.dtype))
        return cpu.compute(raw, *work)

    kernel = like_cpu(is_usable=only_float64, compute=compute)
    sw.check_kernel(kernel, ["brier"], n_trials=30)
    assert dtypes == {"float64"}


def test_the_check_of_a_kernel_includes_arrays_that_it_declines_for_being_small():
    shapes = []

    def compute(raw, *work):
        shapes.append(raw.values.shape)
        return cpu.compute(raw, *work)

    sw.check_kernel(like_cpu(compute=compute), ["brier"], n_trials=10)
    assert len(shapes) >= 10


def test_the_check_of_a_kernel_fails_if_it_declines_all_arrays_or_a_rule():
    busy = like_cpu(is_usable=lambda raw, weights: Usability(False, "it is busy"))
    with pytest.raises(sw.errors.KernelMismatch, match=r"declines all 5 .*it is busy"):
        sw.check_kernel(busy, ["brier"], n_trials=5)
    own = sw.rule_from_loss_vector(lambda p: 1 - p, name="own")
    with pytest.raises(sw.errors.KernelMismatch, match=r"does not support .*own"):
        sw.check_kernel(cpu, ["brier", own], n_trials=5)


def test_logits_that_are_tried_are_not_taken_for_probabilities():
    sw.check_kernel(cpu, ["brier"], n_trials=1, random_state=583)  # one row of tied logits


def test_rules_may_depend_on_the_number_of_classes_and_are_left_out_where_they_do_not_fit():
    drawn = set()

    def costs(k):
        drawn.add(k)
        return sw.rules.cost_matrix(1 - np.eye(k))

    three = sw.rules.weighted_log([1.0, 2.0, 3.0])
    sw.check_kernel(cpu, [costs, three], n_trials=30)
    assert len(drawn) > 5
    with pytest.raises(sw.errors.KernelMismatch, match="classes that fits weighted_log"):
        sw.check_kernel(cpu, ["brier", sw.rules.weighted_log(np.ones(6))], n_trials=5)


# -- given predictions ----------------------------------------------------------------------------

WRONG_RISKS = {
    "total off": lambda t, a, e: [t * 1.01, a, e],
    "aleatoric off": lambda t, a, e: [t, a * 1.01, e],
    "epistemic off": lambda t, a, e: [t, a, e * 1.001],
    "noise at zero": lambda t, a, e: [t, a, np.where(e == 0, 1e-12, e)],
    "finite": lambda t, a, e: [t, a, np.minimum(e, 1e30)],
    "refuses": lambda t, a, e: None,
}


@pytest.mark.parametrize("wrong", WRONG_RISKS)
def test_the_check_of_a_kernel_fails_for_wrong_risks_of_predictions(wrong: str):
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        has_predictor = results is not None and extras.predictor is not None
        return WRONG_RISKS[wrong](*results) if has_predictor else results

    with pytest.raises(sw.errors.KernelMismatch, match="predictor"):
        sw.check_kernel(like_cpu(compute=compute), ["log"], n_trials=80)


def test_the_check_of_a_kernel_catches_the_risk_of_the_mean_in_place_of_the_prediction():
    def compute(raw, weights, rules, extras):
        return cpu.compute(raw, weights, rules, replace(extras, predictor=None))

    for rule in ("brier", "zero-one", lambda k: sw.rules.cost_matrix(1 - np.eye(k))):
        with pytest.raises(sw.errors.KernelMismatch, match="predictor"):
            sw.check_kernel(like_cpu(compute=compute), [rule], n_trials=30)


# -- actions --------------------------------------------------------------------------------------

COSTS = [lambda k: sw.rules.cost_matrix(np.random.default_rng(k).uniform(0, 3, (k, 4)))]
ACTIONS = Extras(actions=True)
WRONG_ACTIONS = {
    "the next action": (lambda a: np.where(a >= 0, (a + 1) % 4, a), "action"),
    "always tied": (lambda a: np.full_like(a, -1), "action"),
    "between two": (lambda a: a + a.dtype.type(0.5), "action"),
    "beyond the last": (lambda a: np.where(a == 0, 9, a), "action"),
    "no number": (lambda a: np.full_like(a, np.nan), "action"),
    "of another shape": (lambda a: a[..., None], "action has shape"),
}


@pytest.mark.parametrize("wrong", WRONG_ACTIONS)
def test_the_check_of_a_kernel_fails_for_wrong_actions(wrong: str):
    spoil, message = WRONG_ACTIONS[wrong]

    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        return [*results[:3], spoil(results[3])] if results and extras.actions else results

    with pytest.raises(sw.errors.KernelMismatch, match=message):
        sw.check_kernel(like_cpu(compute=compute), COSTS, n_trials=30)


def test_the_check_of_a_kernel_catches_one_that_chooses_the_later_of_two_equal_actions():
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        if results and extras.actions:
            n_actions = rules[0].structure.costs.shape[1]
            results[3] = np.where(results[3] < 0, results[3].dtype.type(n_actions - 1), results[3])
        return results

    with pytest.raises(sw.errors.KernelMismatch, match=r"action\[\d+\] is 4 by the kernel"):
        sw.check_kernel(like_cpu(compute=compute), COSTS, n_trials=30)


def test_the_check_of_a_kernel_catches_other_components_beside_actions():
    def compute(raw, weights, rules, extras):
        results = cpu.compute(raw, weights, rules, extras)
        return [results[0] * 1.01, *results[1:]] if results and extras.actions else results

    with pytest.raises(sw.errors.KernelMismatch, match=r"total.*actions"):
        sw.check_kernel(like_cpu(compute=compute), COSTS, n_trials=30)


# -- means and components by class ----------------------------------------------------------------


def averaging(**functions):
    """The CPU kernel with other functions, and those that average."""
    own = {"mean": cpu.mean, "components_by_class": cpu.components_by_class}
    return like_cpu(**own | functions)


WRONG_MEANS = {
    "off": lambda x: x * (1 + 1e-9),
    "off by what single precision rounds": lambda x: x.astype(np.float32).astype(np.float64),
    "in single precision": lambda x: x.astype(np.float32),
    "of another shape": lambda x: x[..., None],
    "negative": lambda x: x - 1e-300,
    "possible where no member says so": lambda x: np.maximum(x, 1e-40),
    "impossible where a member says otherwise": lambda x: np.where(x < 1e-12, 0.0, x),
    "no number": lambda x: x * np.nan,
    "declined": lambda x: None,
}
WRONG_BY_CLASS = {
    "total off": lambda t, a, e: [t * 1.001, a, e],
    "aleatoric off": lambda t, a, e: [t, a * 1.001, e],
    "epistemic off": lambda t, a, e: [t, a, e * 1.001],
    "noise at zero": lambda t, a, e: [t, a, e + e.dtype.type(1e-13)],
    "negative": lambda t, a, e: [t, a, -e],
    "swapped": lambda t, a, e: [a, t, e],
    "incomplete": lambda t, a, e: [t, a],
    "in another precision": lambda t, a, e: [t, a.astype(np.float16), e],
    "of another shape": lambda t, a, e: [t.sum(-1), a.sum(-1), e.sum(-1)],
    "declined": lambda t, a, e: None,
}


@pytest.mark.parametrize("wrong", WRONG_MEANS)
def test_the_check_of_a_kernel_fails_for_wrong_means(wrong: str):
    def mean(raw, weights):
        result = cpu.mean(raw, weights)
        return None if result is None else WRONG_MEANS[wrong](result)

    with pytest.raises(sw.errors.KernelMismatch, match="mean"):
        sw.check_kernel(averaging(mean=mean), ["brier"], n_trials=60)


def test_the_check_of_a_kernel_catches_means_of_identical_members_that_are_rounded():
    def mean(raw, weights):
        result = cpu.mean(raw, weights)
        return None if result is None else result * (1 + 2.0**-52)

    with pytest.raises(sw.errors.KernelMismatch, match=r"mean.*identical members"):
        sw.check_kernel(averaging(mean=mean), ["brier"], n_trials=60)


@pytest.mark.parametrize("wrong", WRONG_BY_CLASS)
def test_the_check_of_a_kernel_fails_for_wrong_components_by_class(wrong: str):
    def components_by_class(raw, weights):
        results = cpu.components_by_class(raw, weights)
        return None if results is None else WRONG_BY_CLASS[wrong](*results)

    kernel = averaging(components_by_class=components_by_class)
    with pytest.raises(sw.errors.KernelMismatch, match=r"by.class"):
        sw.check_kernel(kernel, ["brier"], n_trials=60)


@pytest.mark.parametrize("name", ["mean", "components_by_class"])
def test_the_check_of_a_kernel_catches_averages_that_check_nothing(name: str):
    def average(raw, weights):
        return getattr(cpu, name)(replace(raw, check=False), weights)

    average.__name__ = name
    with pytest.raises(sw.errors.KernelMismatch, match=f"{name} does not detect an entry"):
        sw.check_kernel(averaging(**{name: average}), ["brier"], n_trials=30)


# -- accumulators ---------------------------------------------------------------------------------


class State:
    """A state of the CPU kernel, some of whose functions a test replaces."""

    def __init__(self, state: Any) -> None:
        self.own = state
        self.shape = state.shape

    @property
    def anchor(self):
        return self.own.anchor

    @property
    def deviation(self):
        return self.own.deviation

    def add(self, raw, shares):
        return self.own.add(raw, shares)

    def components(self):
        return self.own.components()

    def regrets(self, rule):
        return self.own.regrets(rule)

    def load(self, *statistics):
        self.own.load(*statistics)


def accumulating(state: type[State], most_rules: int = 64):
    """The CPU kernel with other states."""

    def new_state(shape, dtype, rules):
        return state(cpu.new_state(shape, dtype, rules))

    return like_cpu(new_state=new_state, MOST_RULES=most_rules)


def changed(components, place, change):
    return [[change(x) if i == place else x for i, x in enumerate(three)] for three in components]


class OtherShape(State):
    def __init__(self, state):
        super().__init__(state)
        self.shape = (*state.shape, 1)


class TotalOff(State):
    def components(self):
        return changed(super().components(), 0, lambda x: x * x.dtype.type(1.001))


class AleatoricOff(State):
    def components(self):
        return changed(super().components(), 1, lambda x: x * x.dtype.type(1.001))


class EpistemicOff(State):
    def components(self):
        return changed(super().components(), 2, lambda x: x * x.dtype.type(1.001))


class NoiseAtZero(State):
    def components(self):
        return changed(super().components(), 2, lambda x: x + x.dtype.type(1e-13))


class Negative(State):
    def components(self):
        return changed(super().components(), 2, lambda x: -x)


class OtherPrecision(State):
    def components(self):
        return changed(super().components(), 1, lambda x: x.astype(np.float16))


class NoEpistemic(State):
    def components(self):
        return [three[:2] for three in super().components()]


class OneRuleLess(State):
    def components(self):
        return super().components()[1:]


class Forgets(State):
    """The second member replaces the first."""

    def add(self, raw, shares):
        def of_all(start, stop):
            own, others, is_heavier = shares(start, stop)
            return np.stack([own + others, 0 * others, is_heavier])

        return self.own.add(raw, of_all)


class WithoutWeights(State):
    def __init__(self, state):
        super().__init__(state)
        self.n = 0

    def add(self, raw, shares):
        self.n += 1
        equal = np.array([[1 / self.n], [1 - 1 / self.n], [self.n == 1]])
        return self.own.add(raw, lambda *here: equal.astype(shares(*here).dtype))


class Declines(State):
    def add(self, raw, shares):
        return self.own.add(raw, shares) and raw.values.shape[0] != 7


class ChecksNothing(State):
    def add(self, raw, shares):
        return self.own.add(replace(raw, check=False), shares)


class AddsWhatItDeclines(State):
    def add(self, raw, shares):
        if self.own.add(raw, shares):
            return True
        valid = np.full_like(raw.values, 1 / raw.values.shape[-1])
        self.own.add(replace(raw, values=valid, normalize=True, from_logits=False), shares)
        return False


class LightAnchor(State):
    """The first member stays the anchor, however heavy the others are."""

    def __init__(self, state):
        super().__init__(state)
        self.n = 0

    def add(self, raw, shares):
        is_first = self.n == 0
        self.n += 1

        def light(start, stop):
            own, others, _ = shares(start, stop)
            return np.stack([own, others, np.full_like(own, is_first)])

        return self.own.add(raw, light)


class DeviationOff(State):
    @property
    def deviation(self):
        return super().deviation * 2


class DeviationOfIdenticalMembers(State):
    @property
    def deviation(self):
        return super().deviation + np.finfo(self.own.dtype).tiny


class AnchorOfOtherPrecision(State):
    @property
    def anchor(self):
        return super().anchor.astype(np.float16)


class WithoutRegrets(State):
    def regrets(self, rule):
        return None


class RegretsOff(State):
    def regrets(self, rule):
        regrets = super().regrets(rule)
        return None if regrets is None else regrets * regrets.dtype.type(1.001)


class RegretsUnderEveryRule(State):
    def regrets(self, rule):
        return super().deviation


class SharesItsMemory(State):
    """The array that is returned is its own."""

    kept: Any = None

    @property
    def anchor(self):
        if self.kept is None:
            self.kept = super().anchor
        return self.kept

    def add(self, raw, shares):
        self.kept = None
        return super().add(raw, shares)


class KeepsTheArrayOfItsCaller(State):
    def add(self, raw, shares):
        self.member = raw
        return super().add(raw, shares)

    def components(self):
        scale = 1.0 if np.isfinite(self.member.values).all() else 2.0
        return changed(super().components(), 0, lambda x: x * x.dtype.type(scale))


class LoadsNothing(State):
    def load(self, *statistics):
        pass


class LoadsNoDeviation(State):
    def load(self, anchor, deviation, aleatoric, states):
        self.own.load(anchor, 0 * deviation, aleatoric, states)


class LoadsNoEpistemic(State):
    def load(self, anchor, deviation, aleatoric, states):
        self.own.load(anchor, deviation, aleatoric, [0 * state for state in states])


WRONG_STATES = {
    OtherShape: "a new state has shape",
    TotalOff: "total",
    AleatoricOff: "aleatoric",
    EpistemicOff: "epistemic",
    NoiseAtZero: "epistemic.*after",
    Negative: "epistemic.*after",
    OtherPrecision: "returns float16",
    NoEpistemic: "three components for each rule",
    OneRuleLess: "three components for each rule",
    Forgets: "after",
    WithoutWeights: "after",
    Declines: "declines the valid member",
    ChecksNothing: "does not detect an entry of",
    AddsWhatItDeclines: "changes with a member that it declines",
    LightAnchor: "none of the heaviest",
    DeviationOff: r"anchor \+ deviation",
    DeviationOfIdenticalMembers: r"anchor \+ deviation.*identical",
    AnchorOfOtherPrecision: "anchor of a state is .* of float16",
    WithoutRegrets: "regrets under zero_one are None",
    RegretsOff: "zero_one regrets",
    RegretsUnderEveryRule: "regrets under log, which is no decision",
    SharesItsMemory: "changes with an array of its caller",
    KeepsTheArrayOfItsCaller: "changes with an array of its caller",
    LoadsNothing: "loaded",
    LoadsNoDeviation: "loaded",
    LoadsNoEpistemic: "loaded",
}


@pytest.mark.parametrize("state", WRONG_STATES, ids=lambda state: state.__name__)
def test_the_check_of_a_kernel_fails_for_each_wrong_state_of_an_accumulator(state: type[State]):
    with pytest.raises(sw.errors.KernelMismatch, match=WRONG_STATES[state]):
        sw.check_kernel(accumulating(state), ["log", "zero-one"], n_trials=60)


def test_the_check_of_a_kernel_passes_states_that_are_right():
    sw.check_kernel(accumulating(State), ["log", "zero-one", *COSTS], n_trials=30)


def test_the_check_of_a_kernel_adds_no_more_rules_to_a_state_than_it_takes():
    n_rules = set()

    def new_state(shape, dtype, rules):
        n_rules.add(len(rules))
        return cpu.new_state(shape, dtype, rules)

    sw.check_kernel(like_cpu(new_state=new_state, MOST_RULES=2), ["log"] * 5, n_trials=10)
    assert max(n_rules) == 2
    with pytest.raises(sw.errors.KernelMismatch, match="MOST_RULES is 0"):
        sw.check_kernel(accumulating(State, most_rules=0), ["log"], n_trials=10)


def test_the_check_of_a_kernel_calls_everything_that_it_has():
    called = set()

    def spy(name):
        def call(*arguments):
            called.add(name)
            return getattr(cpu, name)(*arguments)

        return call

    names = ["is_usable", "supports", "compute", "mean", "components_by_class", "new_state"]
    kernel = SimpleNamespace(MOST_RULES=64, **{name: spy(name) for name in names})
    sw.check_kernel(kernel, ["log", *COSTS], n_trials=5)
    assert called == set(names)


def differentiating(spoil):
    """The CPU kernel with gradients of the array path, changed by a function."""

    def gradient(*arguments):
        return spoil(gradient_by_arrays(*arguments))

    return like_cpu(supports_gradient=lambda rule: rule.name != "beta:0.5,2", gradient=gradient)


WRONG_GRADIENTS = {
    "off": (lambda g: g * g.dtype.type(1.02), "by the kernel"),
    "of the other sign": (lambda g: -g, "by the kernel"),
    "not finite": (lambda g: g * np.inf, "by the kernel"),
    "noise at zero": (lambda g: g + g.dtype.type(1e-7), "identical|by the kernel"),
    "of one class": (lambda g: g + (np.arange(g.shape[-1]) == 1) * g.dtype.type(0.01), "by the"),
    "of few digits": (lambda g: (g + g.dtype.type(1)) - g.dtype.type(1), "by the kernel"),
    "not 0 at the top": (lambda g: g + g.dtype.type(1), "behind a softmax"),
    "of another precision": (lambda g: g.astype(np.longdouble), "longdouble|float128"),
    "of another shape": (lambda g: g[..., :1], "in place of"),
    "refused": (lambda g: None, "declines"),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", WRONG_GRADIENTS)
def test_the_check_of_a_kernel_fails_for_each_wrong_gradient(name):
    spoil, message = WRONG_GRADIENTS[name]
    with pytest.raises(sw.errors.KernelMismatch, match=message):
        sw.check_kernel(differentiating(spoil), ["log", "zero-one"], n_trials=60)


def test_the_check_of_a_kernel_passes_gradients_that_are_right():
    rules = ["log", "brier", "zero-one", "spherical", "rps", "tsallis:1.5", *COSTS]
    sw.check_kernel(differentiating(lambda g: g), rules, n_trials=60)
