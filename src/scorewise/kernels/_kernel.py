"""The interface of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scorewise._array import Array
from scorewise._inputs import RawPredictions
from scorewise.rules import ScoringRule


@dataclass(frozen=True)
class JackknifeOptions:
    """Which quantities the jackknife estimates."""

    unbiased: bool = False
    standard_errors: bool = False

    def __bool__(self) -> bool:
        return bool(self.unbiased or self.standard_errors)

    @property
    def n_components(self) -> int:
        """The number of arrays for each rule: three components, and perhaps their errors."""
        return 6 if self.standard_errors else 3


@dataclass(frozen=True)
class Usability:
    """Whether a kernel can read some members, and why."""

    usable: bool
    reason: str

    def __bool__(self) -> bool:
        return self.usable


class Kernel(Protocol):
    """The functions of a kernel, for members ``(..., M, K)`` as the caller passed them."""

    def is_usable(self, raw: RawPredictions, weights: Any) -> Usability:
        """Return whether this kernel can read these members and weights; no value is read."""

    def supports(self, rule: ScoringRule, jackknife: JackknifeOptions) -> bool:
        """Return whether this kernel computes all components of a rule, with this jackknife."""

    def compute(
        self,
        raw: RawPredictions,
        weights: Any,
        rules: Sequence[ScoringRule],
        jackknife: JackknifeOptions,
    ) -> list[Array] | None:
        """Return total, aleatoric and epistemic uncertainty of each rule, one after the other.

        With ``jackknife.standard_errors``, the errors of the three follow them. The rules are
        supported ones. None for invalid predictions or weights (the jackknife needs two members
        with weight), and if the kernel cannot run: the array path then raises the error, or
        computes the result.
        """
