"""Numbers over a few runs: their spread, and whether a difference is more than that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
YES, NO, UNDECIDED = "yes", "no", "undecided"


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation over runs; the number alone where there was one run."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


@dataclass(frozen=True)
class Advantage:
    """By how much one choice was better than another, run by run.

    Attributes
    ----------
    values : tuple of float
        One number for each run, positive where the choice was better.
    """

    values: tuple[float, ...]

    @classmethod
    def smaller(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Advantage:
        """Of losses, by run; runs that one of them lacks are left out."""
        return cls(tuple(theirs[run] - ours[run] for run in ours if run in theirs))

    @classmethod
    def larger(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Advantage:
        """Of gains, by run; runs that one of them lacks are left out."""
        return cls.smaller(theirs, ours)

    @property
    def mean(self) -> float:
        """Over the runs."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean; None for a single run."""
        from scipy.special import stdtrit  # takes a fifth of a second

        n = len(self.values)
        if n < 2:
            return None
        half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * np.std(self.values, ddof=1) / np.sqrt(n)
        return self.mean - half, self.mean + half

    @property
    def verdict(self) -> str:
        """Whether the choice is better; of one run nobody can tell by how much it would vary."""
        if self.interval is None:
            return f"{UNDECIDED}: one run says {YES if self.mean > 0 else NO}"
        low, high = self.interval
        return YES if low > 0 else NO if high < 0 else UNDECIDED

    def __str__(self) -> str:
        runs = f"{len(self.values)} run{'s' * (len(self.values) > 1)}"
        if self.interval is None:
            return f"{self.mean:+.2g} ({runs})"
        low, high = self.interval
        return f"{self.mean:+.2g} [{low:+.2g}, {high:+.2g}] ({runs})"


def least(advantages: Mapping[str, Advantage]) -> str | None:
    """Against whom the advantage is least; None where there is nobody to compare with."""
    there = {name: one.mean for name, one in advantages.items() if one.values}
    return min(there, key=lambda name: there[name]) if there else None
