"""check_kernel catches kernels that disagree with the array path."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import Usability, cpu

SPOILERS = {
    "component off": lambda parts: [(t, a, e * 1.01) for t, a, e in parts],
    "noise at zero": lambda parts: [(t, a, e + 1e-12) for t, a, e in parts],
    "negative": lambda parts: [(t, a, -e) for t, a, e in parts],
    "swapped": lambda parts: [(a, t, e) for t, a, e in parts],
    "refuses": lambda parts: None,
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_the_check_of_a_kernel_can_fail(spoiler: str):
    def compute(*work):
        results = cpu.compute(*work)
        return results and SPOILERS[spoiler](results)

    with pytest.raises(sw.errors.KernelMismatch):
        sw.check_kernel(
            SimpleNamespace(is_usable=cpu.is_usable, compute=compute), ["log"], n_trials=30
        )


def test_the_check_of_a_kernel_catches_one_that_checks_nothing():
    def compute(raw, weights, rules):
        from dataclasses import replace

        return cpu.compute(replace(raw, check=False), weights, rules)

    with pytest.raises(sw.errors.KernelMismatch, match="does not detect"):
        sw.check_kernel(
            SimpleNamespace(is_usable=cpu.is_usable, compute=compute), ["brier"], n_trials=30
        )


def only_float64(raw, weights, rules):
    return Usability(raw.values.dtype == np.float64, "it is for float64 only")


def test_the_check_of_a_kernel_skips_the_arrays_that_it_declines():
    dtypes = set()

    def compute(raw, weights, rules):
        dtypes.add(str(raw.values.dtype))
        return cpu.compute(raw, weights, rules)

    kernel = SimpleNamespace(is_usable=only_float64, compute=compute)
    sw.check_kernel(kernel, ["brier"], n_trials=30)
    assert dtypes == {"float64"}


def test_the_check_of_a_kernel_includes_arrays_that_it_declines_for_being_small():
    shapes = []

    def compute(raw, weights, rules):
        shapes.append(raw.values.shape)
        return cpu.compute(raw, weights, rules)

    kernel = SimpleNamespace(is_usable=cpu.is_usable, compute=compute)
    sw.check_kernel(kernel, ["brier"], n_trials=10)
    assert len(shapes) >= 10


def test_the_check_of_a_kernel_fails_if_it_declines_everything():
    with pytest.raises(sw.errors.KernelMismatch, match=r"declines all 5 .*does not support rps"):
        sw.check_kernel(cpu, ["rps"], n_trials=5)
