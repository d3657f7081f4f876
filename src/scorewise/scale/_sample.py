"""Uniform random samples of rows, which are merged without moving the other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scorewise import _validate as validate
from scorewise.errors import InvalidInput

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class RowSample:
    """A uniform random sample of rows without replacement: those with the smallest random keys.

    The key of a row is a hash of its number and of the seed. The sample therefore does not depend
    on the parts in which the rows come, and a smaller sample is a part of a larger one. All rows
    are in the sample if there are at most ``size`` of them.

    Attributes
    ----------
    size : int
        The largest number of rows in the sample.
    seed : int
    rows : integer array (r,)
        Numbers of the rows in the sample, rising.
    columns : dict of str to array (r, ...)
        Their values.
    n_rows : int
        The number of rows from which the sample was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.scale import RowSample
    >>> first = RowSample.of({"loss": np.zeros(500)}, size=100)
    >>> sample = first.merge(RowSample.of({"loss": np.ones(500)}, size=100, first_row=500))
    >>> sample.n_rows, len(sample), sample.columns["loss"].mean().round(2)
    (1000, 100, np.float64(0.48))
    """

    size: int
    seed: int
    rows: np.ndarray
    columns: dict[str, np.ndarray]
    n_rows: int

    @classmethod
    def of(
        cls, columns: Mapping[str, np.ndarray], size: int, seed: int = 0, first_row: int = 0
    ) -> RowSample:
        """Return the sample of rows that begin with row ``first_row`` of all.

        Parameters
        ----------
        columns : mapping of str to array (n, ...)
            The values of the rows.
        size : int
            The largest number of rows in the sample.
        seed : int
            Parts of the same rows need the same seed.
        first_row : int
            The number of the first of these rows.

        Returns
        -------
        RowSample
        """
        size = validate.whole(size, "size", at_least=0)
        n = len(next(iter(columns.values())))
        return cls(size, seed, np.arange(first_row, first_row + n), dict(columns), n)._smallest()

    def merge(self, *others: RowSample) -> RowSample:
        """Return the sample of the rows of this one and of ``others``, in whatever order."""
        parts = (self, *others)
        if any((part.size, part.seed) != (self.size, self.seed) for part in others):
            raise InvalidInput("samples of different sizes or seeds cannot be merged")
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows, kind="stable")
        columns = {
            name: np.concatenate([part.columns[name] for part in parts])[order]
            for name in self.columns
        }
        n_rows = sum(part.n_rows for part in parts)
        return RowSample(self.size, self.seed, rows[order], columns, n_rows)._smallest()

    def _smallest(self) -> RowSample:
        """Return the rows with the smallest keys, copied so that the others can be freed."""
        if len(self.rows) <= self.size:
            return self
        keys = _random_keys(self.rows, self.seed)  # all different
        chosen = np.sort(np.argpartition(keys, self.size)[: self.size])
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return RowSample(self.size, self.seed, self.rows[chosen], columns, self.n_rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_all_rows(self) -> bool:
        """Whether no row was left out."""
        return len(self) == self.n_rows


def _random_keys(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a random number of each row, by splitmix64; different rows have different numbers."""
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    x = (rows.astype(np.uint64) + np.uint64(1)) * _STEP + start
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))
