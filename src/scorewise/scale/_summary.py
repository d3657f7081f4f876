"""Summaries of columns that can be merged: exact counts and sums, and sketches of quantiles.

Sums of floats depend on the order of the rows, and partitions end in any order. So a sum is a short
list of floats whose exact total it is. Sketches are t-digests, which draw no random numbers; they
are merged in the order of the partitions.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._text import significant

PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)  # of the quantiles in a summary

# The size of a sketch, in about 25 bytes. Many small sketches are merged into a finer one, so that
# merging adds no error.
_PARTITION_SIZE, _MERGED_SIZE = 100, 1000

# A sketch of many values takes as long as a quarter of the scores. Of sorted values, every eighth
# stands for eight; half of that, 4 of 32,768, is the largest error of a rank.
_FEWEST_SKETCHED = 4096


@dataclass(frozen=True)
class ColumnSummary:
    """The distribution of a column over all partitions.

    Attributes
    ----------
    n : int
        Number of values.
    n_not_finite : int
        Number of values that are infinite or NaN; the other numbers leave them out.
    mean : float
        The exact sum of all values, over their number.
    minimum, maximum : float
    quantiles : dict of float to float
        By probability, from a t-digest: the share of values below the quantile differs from the
        probability by about 0.01 at the median, and less towards the ends.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import score_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     scored = score_dataset(folder / "in", "log", folder / "out", scheduler=client)
    >>> summary = scored.summary["total_log"]
    >>> summary.n, round(summary.mean, 3), round(summary.quantiles[0.95], 3)
    (200, 0.555, 0.688)
    """

    n: int
    n_not_finite: int
    mean: float
    minimum: float
    maximum: float
    quantiles: Mapping[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON can hold them."""
        return {
            "n": self.n,
            "n_not_finite": self.n_not_finite,
            "mean": self.mean,
            "min": self.minimum,
            "max": self.maximum,
            "quantiles": {str(p): value for p, value in self.quantiles.items()},
        }


def exact_sum(values: np.ndarray) -> list[float]:
    """Return a few floats whose exact total is that of finite values.

    Each pass adds the leading digits of all values, so few of them that no addition is rounded
    (Rump, Ogita and Oishi 2008).

    Examples
    --------
    >>> import numpy as np
    >>> exact_sum(np.array([1e16, 1.0, -1e16]))
    [0.0, 1.0]
    """
    rest = np.array(values, np.float64)  # a copy, which loses its leading digits
    parts: list[float] = []
    carry = math.ceil(math.log2(len(rest) + 2))
    while (largest := float(np.abs(rest).max(initial=0.0))) > 0:
        exponent = math.frexp(largest)[1] + carry
        if exponent > 1020:  # the sum itself may be infinite
            return [*parts, math.fsum(rest.tolist())]
        sigma = math.ldexp(1.0, exponent)
        leading = (rest + sigma) - sigma
        parts.append(float(leading.sum()))
        rest -= leading
    return parts


class MergedSum:
    """The exact total of floats that are added in any order, in constant memory."""

    def __init__(self) -> None:
        self._parts: list[float] = []  # none of them overlap (Shewchuk 1997)

    def add(self, values: Sequence[float]) -> None:
        """Add some floats."""
        for value in values:
            x, parts = value, []
            for y in self._parts:
                if abs(x) < abs(y):
                    x, y = y, x
                total = x + y
                if low := y - (total - x):
                    parts.append(low)
                x = total
            self._parts = [*parts, x]

    @property
    def value(self) -> float:
        """The total, rounded once."""
        return math.fsum(self._parts)


def summarize(values: np.ndarray) -> dict[str, Any]:
    """Return the summary of the values of one partition, as JSON can hold it.

    It is for :meth:`MergedSummary.add`.
    """
    from datasketches import tdigest_double

    numbers = values.astype(np.float64, copy=False)
    is_finite = np.isfinite(numbers)
    n_finite = int(is_finite.sum())
    ordered = np.sort(numbers if n_finite == len(numbers) else numbers[is_finite])
    copies = 1 << (max(1, n_finite // _FEWEST_SKETCHED).bit_length() - 1)
    sketch = tdigest_double(_PARTITION_SIZE)
    sketch.update(ordered[copies // 2 :: copies])
    return {
        "n": len(numbers),
        "n_not_finite": len(numbers) - n_finite,
        "sum": exact_sum(ordered),
        "min": float(ordered[0]) if n_finite else None,
        "max": float(ordered[-1]) if n_finite else None,
        "sketch": base64.b64encode(sketch.serialize()).decode(),
        "copies": copies,
    }


class MergedSummary:
    """The summary of a column, from those of partitions that are added in their order."""

    def __init__(self) -> None:
        from datasketches import tdigest_double

        self._n = self._n_not_finite = 0
        self._sum = MergedSum()
        self._minimum, self._maximum = math.inf, -math.inf
        self._sketch = tdigest_double(_MERGED_SIZE)

    def add(self, partition: Mapping[str, Any]) -> None:
        """Add what :func:`summarize` returned."""
        self._n += partition["n"]
        self._n_not_finite += partition["n_not_finite"]
        self._sum.add(partition["sum"])
        if partition["min"] is not None:
            from datasketches import tdigest_double

            self._minimum = min(self._minimum, partition["min"])
            self._maximum = max(self._maximum, partition["max"])
            sketch = tdigest_double.deserialize(base64.b64decode(partition["sketch"]))
            for _ in range(partition["copies"]):
                self._sketch.merge(sketch)

    def result(self) -> ColumnSummary:
        """Return the summary of all partitions; its numbers are NaN if there are no values."""
        n = self._n - self._n_not_finite
        nan = math.nan
        return ColumnSummary(
            self._n,
            self._n_not_finite,
            self._sum.value / n if n else nan,
            self._minimum if n else nan,
            self._maximum if n else nan,
            {p: self._sketch.get_quantile(p) if n else nan for p in PROBABILITIES},
        )


def summary_table(summary: Mapping[str, ColumnSummary]) -> list[list[str]]:
    """Return means and quantiles as a table of text, with a heading."""
    heading = ["", "mean", "5 %", "50 %", "95 %", "max"]
    rows = [
        [x.mean, *(x.quantiles[p] for p in (0.05, 0.5, 0.95)), x.maximum] for x in summary.values()
    ]
    lines = [[name, *map(significant, row)] for name, row in zip(summary, rows, strict=True)]
    return [heading, *lines]
