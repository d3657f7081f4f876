"""check_kernel catches kernels that disagree with the array path."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import scorewise as sw
from scorewise.kernels import cpu

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
        sw.check_kernel(SimpleNamespace(compute=compute), ["log"], n_trials=30)


def test_the_check_of_a_kernel_catches_one_that_checks_nothing():
    def compute(raw, weights, rules):
        from dataclasses import replace

        return cpu.compute(replace(raw, check=False), weights, rules)

    with pytest.raises(sw.errors.KernelMismatch, match="does not detect"):
        sw.check_kernel(SimpleNamespace(compute=compute), ["brier"], n_trials=30)
