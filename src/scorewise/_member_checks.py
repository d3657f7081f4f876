"""Members whose aleatoric or epistemic uncertainty would mislead: fully grown trees, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from scorewise._array import Array, to_numpy
from scorewise._numerics import evenly_spaced
from scorewise.distributions import Samples

_MOST_ROWS = 500  # in which members are compared with each other
_MOST_NUMBERS = 1 << 21  # in these rows
_BLOCK = 1 << 16  # numbers that are searched at a time for one between 0 and 1
_ROUNDING = 1e-6  # members that differ by less in every probability are copies
_CERTAIN = 1 - 1e-3  # probability from which on different members often agree to 1e-6
_UNCERTAIN_ROWS = 10  # that copies must have in common
_CERTAIN_ROWS = 300  # in which no members agree if they learned different things, on most data
_FEW_COPIES = 0.5  # proportion of members; small trees are equal by chance now and then


class MemberChecks:
    """Looks at members' probabilities as they come, some rows at a time.

    It searches for a probability between 0 and 1, until it finds one, and compares members in some
    hundred rows. Both are cheap next to making the probabilities.

    - **Fully grown trees.** Every probability is 0 or 1, and members disagree somewhere. Where they
      agree in all rows, total uncertainty is 0 as well, and no part of it misleads.
    - **Copies.** Two members agree to 1e-6 in all rows that are compared. Certain members agree in
      easy rows although they differ, so at least ten of the rows must be uncertain; or all members
      must be certain and agree in hundreds of rows of several classes.
    """

    def __init__(self) -> None:
        self._n_rows = 0
        self._is_certain = True  # no probability is between 0 and 1, so far
        self._has_disagreement = False
        self._compared: list[np.ndarray] = []

    def watch(self, chunks: Iterator[Array], compared: np.ndarray | None = None) -> Iterator[Array]:
        """Yield the chunks ``(n, M, K)`` or ``(n, L, M, K)``, and look at each, as ``see`` does."""
        for chunk in chunks:
            self.see(chunk, compared)
            yield chunk

    def see(self, probs: Array, compared: np.ndarray | None = None) -> None:
        """Look at probabilities ``(n, M, K)`` of further rows, or ``(n, L, M, K)`` of L labels.

        ``compared`` are the rows in which members are compared; by default evenly spaced ones.
        """
        self._n_rows += len(probs)
        probs = probs.reshape(-1, *probs.shape[-2:])  # each label of a row is a row here
        n, m, k = probs.shape
        step = max(1, _BLOCK // (m * k))
        for start in range(0, n, step) if self._is_certain else ():
            block = probs[start : start + step]
            if bool(((block > 0) & (block < 1)).any()):
                self._is_certain = False
                break
            self._has_disagreement |= bool((block != block[:, :1]).any())
        most = _most_compared(m, k) - sum(map(len, self._compared))
        if compared is None and most > 0 and n:
            compared = evenly_spaced(n, most)
        if compared is not None and len(compared):
            self._compared.append(to_numpy(probs[compared]))  # a copy

    def join(self, other: MemberChecks) -> None:
        """Add what was seen in other rows, and the rows that were compared among them."""
        self._n_rows += other._n_rows
        self._is_certain &= other._is_certain
        self._has_disagreement |= other._has_disagreement
        self._compared += other._compared

    def problems(self) -> list[str]:
        """Return a sentence for each problem, without a full stop."""
        problems = []
        if self._is_certain and self._has_disagreement:
            problems.append(
                f"Every member gives each class a probability of 0 or 1 in all {self._n_rows:,} "
                "rows, so aleatoric uncertainty is 0 and epistemic uncertainty equals the total. "
                "Fully grown trees do so: set min_samples_leaf=5 (or max_depth) and fit again"
            )
        if self._compared:
            problems += _copies(np.concatenate(self._compared))
        return problems


def _most_compared(n_members: int, n_classes: int) -> int:
    return min(_MOST_ROWS, max(1, _MOST_NUMBERS // (n_members * n_classes)))


def rows_to_compare(n: int, n_members: int, n_classes: int) -> np.ndarray:
    """Return the rows of n in which members are compared, where all rows are seen at once."""
    return evenly_spaced(n, _most_compared(n_members, n_classes))


def _copies(rows: np.ndarray) -> list[str]:
    """Return a sentence if some members ``(n, M, K)`` are copies of others."""
    n, m, k = rows.shape
    members = rows.swapaxes(0, 1).reshape(m, n * k).astype(np.float64)
    # Copies are neighbours in the order of any weighted sum.
    order = np.argsort(members @ np.random.default_rng(0).random(n * k))
    is_copy = np.array(
        [np.abs(members[i] - members[j]).max() <= _ROUNDING for i, j in pairwise(order)], dtype=bool
    )
    answers = rows[:, 0].argmax(axis=-1)
    if not (is_copy.all() and n >= _CERTAIN_ROWS and answers.min() < answers.max()):
        n_uncertain = (rows.max(axis=-1) < _CERTAIN).sum(axis=0)
        is_copy &= n_uncertain[order[1:]] >= _UNCERTAIN_ROWS
    n_copies = int(is_copy.sum())
    n_distinct = m - n_copies
    if not n_copies or n_copies < _FEW_COPIES * m:
        return []
    if n_distinct == 1:
        copies = f"All {m} members predict the same in the {n} rows that were compared"
        effect = "epistemic uncertainty is 0"
    else:
        copies = f"Only {n_distinct} of {m} members differ in the {n} rows that were compared"
        effect = "epistemic uncertainty is too small"
    return [
        f"{copies}, so {effect}. Usually they were fitted with the same seed on the same rows: "
        "give each member its own random_state, or its own sample of the rows"
    ]


def member_problems(samples: Samples) -> list[str]:
    """Return a sentence for each problem of the members of rows ``(n, M, K)``."""
    checks = MemberChecks()
    if samples.shape[-2] > 1:
        checks.see(to_numpy(samples.probs))
    return problems_of(samples.shape[-2], checks)


def problems_of(n_members: int, checks: MemberChecks) -> list[str]:
    """Return a sentence for each problem of members, which the checks have seen."""
    if n_members == 1:
        return ["There is a single member, so epistemic uncertainty is 0 in every row"]
    return checks.problems()
