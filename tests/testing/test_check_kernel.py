"""check_kernel catches kernels that disagree with the array path."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import Usability, cpu

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
    def compute(*work):
        results = cpu.compute(*work)
        return results and SPOILERS[spoiler](*results)

    with pytest.raises(sw.errors.KernelMismatch):
        sw.check_kernel(like_cpu(compute=compute), ["log"], n_trials=30)


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
