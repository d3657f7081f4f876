"""check_kernel catches kernels that disagree with the array path."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import Extras, Usability, cpu

SPOILERS = {
    "component off": lambda t, a, e: [t, a, e * 1.01],
    "noise at zero": lambda t, a, e: [t, a, e + 1e-12],
    "negative": lambda t, a, e: [t, a, -e],
    "swapped": lambda t, a, e: [a, t, e],
    "incomplete": lambda t, a, e: [t, a],
    "refuses": lambda t, a, e: None,
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
        from dataclasses import replace

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
