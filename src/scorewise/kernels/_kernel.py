"""What a kernel is, and what it says when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scorewise._array import Array
from scorewise._receive import Unchecked
from scorewise.rules import ScoringRule

Components = tuple[Array, Array, Array]  # total, aleatoric, epistemic


@dataclass(frozen=True)
class Answer:
    """Whether a kernel can do some work, and why."""

    usable: bool
    because: str

    def __bool__(self) -> bool:
        return self.usable


class Kernel(Protocol):
    """What a file in this folder offers, for members ``(..., M, K)`` as they were handed in."""

    def is_usable(self, given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> Answer:
        """Whether this kernel can decompose these members under all of these rules."""

    def compute(
        self, given: Unchecked, weights: Any, rules: Sequence[ScoringRule]
    ) -> list[Components] | None:
        """The three components of each rule, checked and computed in one pass over the members.

        None where something was found that is no prediction, or the work could not be done: the
        array path then says what, or does it.
        """
