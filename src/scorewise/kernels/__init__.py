"""The seam for fused kernels: one file each, asked in turn whether they can do the work.

A kernel repeats formulas of ``rules/`` only because it is measured faster, checks its input on the
way, and is held to the array path by tests. Where none is usable the array path answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from scorewise._array import Array
from scorewise.receive import Unchecked
from scorewise.rules import ScoringRule

Components = tuple[Array, Array, Array]  # total, aleatoric, epistemic


class Kernel(Protocol):
    """What a file in this folder offers, for members ``(..., M, K)`` as they were handed in."""

    def is_usable(self, given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> bool:
        """Whether this kernel can decompose these members under all of these rules."""

    def compute(
        self, given: Unchecked, weights: Any, rules: Sequence[ScoringRule]
    ) -> list[Components]:
        """The three components of each rule, checked and computed in one pass over the members."""


KERNELS: tuple[Kernel, ...] = ()


def pick(given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> Kernel | None:
    """The first kernel that can do the work, or None for the array path."""
    return next((k for k in KERNELS if k.is_usable(given, weights, rules)), None)
