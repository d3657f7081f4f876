"""Numbers that name things for the compiled module; as in native/dispatch.hpp."""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto

import numpy as np

from scorewise._inputs import RawPredictions
from scorewise._validate import SUM_TOLERANCE


class _FromZero(IntEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class Kind(_FromZero):
    """What the numbers of members are."""

    PROBABILITIES = auto()
    LOGITS = auto()
    MASSES = auto()


class Code(_FromZero):
    """The structures of rules; the first four are special cases."""

    LOG = auto()
    BRIER = auto()
    ZERO_ONE = auto()
    SPHERICAL = auto()
    SEPARABLE = auto()
    NORM = auto()
    COSTS = auto()
    LARGEST = auto()
    QUADRATIC = auto()
    CUMULATIVE = auto()
    TWO_CLASS = auto()


class Extra(IntFlag):
    """What is computed besides total, aleatoric and epistemic uncertainty."""

    UNBIASED = auto()
    ERRORS = auto()
    REVERSE = auto()
    ACTIONS = auto()


class Wanted(_FromZero):
    """What is computed besides the totals of an accumulator."""

    EPISTEMIC = auto()
    REGRETS = auto()
    CONVEX = auto()


NativeRule = tuple[Code, float, np.ndarray | None]  # structure, parameter, numbers


def kind_and_tolerance(raw: RawPredictions) -> tuple[Kind, float]:
    """Return what the numbers are, and how far sums may be from 1; −1 where nothing is checked."""
    kind = Kind.LOGITS if raw.from_logits else Kind.MASSES if raw.normalize else Kind.PROBABILITIES
    return kind, SUM_TOLERANCE[raw.dtype] if raw.check else -1.0
