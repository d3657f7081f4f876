"""What a comparison of measures found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scorewise.compare._contrasts import Contrasts


@dataclass(frozen=True)
class Standing:
    """How one measure came out.

    Attributes
    ----------
    name : str
    value : float
        Its metric.
    behind : float
        How far it is behind the best, 0 or more.
    low, high : float
        Interval of that, at the comparison's confidence for all measures together.
    p_value : float
        Of being no worse than the best, corrected for the number of pairs.
    verdict : str
        ``"best"``, ``"indistinguishable"`` from the best, or ``"worse"``.
    same_order_as : str, optional
        The measure listed before it that orders all rows alike, and shares its numbers.
    """

    name: str
    value: float
    behind: float
    low: float
    high: float
    p_value: float
    verdict: str
    same_order_as: str | None = None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Measures from the best to the worst; made by :func:`scorewise.compare`.

    Attributes
    ----------
    task, task_loss : str
    metric : str
        ``"aulc"``, ``"auroc"`` or ``"mean loss"``.
    standings : tuple of Standing
        From the best to the worst.
    confidence : float
    notes : tuple of str
        What theory recommends and how it came out, in words.
    """

    task: str
    task_loss: str
    metric: str
    standings: tuple[Standing, ...]
    confidence: float
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """The name of the best measure."""
        return self.standings[0].name

    @property
    def as_good(self) -> list[str]:
        """The best measure and all that cannot be told from it."""
        return [row.name for row in self.standings if row.low <= 0]

    def __getitem__(self, name: str) -> Standing:
        for row in self.standings:
            if row.name == name:
                return row
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """All of it, in lists, numbers and strings."""
        return asdict(self)

    def to_frame(self) -> Any:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.standings])

    def __repr__(self) -> str:
        width = max(len(row.name) for row in self.standings)
        lines = [
            f"{self.task}: {self.metric}"
            + (f" of {self.task_loss} losses" if self.task == "selective" else ""),
            f"{'measure':{width}}  {self.metric:>9}  {'behind':>9}  "
            f"[{f'{100 * self.confidence:.6g}% interval':^19}]",
        ]
        for row in self.standings:
            numbers = f"{row.value:9.5f}  {row.behind:9.5f}  [{row.low:+9.5f}, {row.high:+8.5f}]"
            alike = f", same order as {row.same_order_as}" if row.same_order_as else ""
            lines.append(f"{row.name:{width}}  {numbers}  {row.verdict}{alike}")
        return "\n".join([*lines, *self.notes])


def rank(
    names: Sequence[str],
    values: np.ndarray,
    contrasts: Contrasts,
    first: Mapping[str, str],
    *,
    higher_is_better: bool,
) -> tuple[Standing, ...]:
    """Standings of the measures ``names`` and of those that order rows as they do.

    ``first`` says for each measure which one of ``names`` stands for it.
    """
    # equal but for rounding: then the one listed first is the better
    rounded = np.round(values / max(float(np.max(np.abs(values))), np.finfo(float).tiny), 12)
    order = np.argsort(-rounded if higher_is_better else rounded, kind="stable")
    best = order[0]
    rows = []
    for i in order:
        behind = float(abs(values[i] - values[best]))
        half = float(contrasts.critical * contrasts.standard_errors[i, best]) * (i != best)
        together = [name for name, leader in first.items() if leader == names[i]]
        for name in together:
            if i == best and name == names[i]:
                verdict = "best"
            else:
                verdict = "indistinguishable" if behind <= half else "worse"
            rows.append(
                Standing(
                    name,
                    float(values[i]),
                    behind,
                    float(behind - half),
                    float(behind + half),
                    float(contrasts.p_values[i, best]),
                    verdict,
                    names[i] if name != names[i] else None,
                )
            )
    return tuple(rows)
