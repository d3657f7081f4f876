"""The most uncertain rows, as small pictures of what the members say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorewise._numerics import spread
from scorewise.compare import DoubtfulRow, Evaluation

MOST = 25  # rows on the page
WIDTH, HEIGHT = 240, 30  # of a strip of members, in its own units
_MEMBERS = 40
_GAP = 0.25  # between two bars, as a share of one


@dataclass(frozen=True)
class Strip:
    """What the members say about one class.

    Attributes
    ----------
    name : str
    bars : str
        The path of a bar for every member.
    mean, level : float
        θ̄ of the class, and how far down its line is.
    is_label, is_prediction : bool
    """

    name: str
    bars: str
    mean: float
    level: float
    is_label: bool
    is_prediction: bool


@dataclass(frozen=True)
class Card:
    """One row with its pictures.

    Attributes
    ----------
    row : DoubtfulRow
    is_wrong : bool or None
        None where the prediction is an action, which is neither right nor wrong.
    aleatoric, epistemic : float or None
        Widths in per cent of the largest total; None where costs are gains.
    strips : tuple of Strip
    """

    row: DoubtfulRow
    is_wrong: bool | None
    aleatoric: float | None
    epistemic: float | None
    strips: tuple[Strip, ...]


def cards_of(found: Evaluation) -> list[Card]:
    """Cards of the most uncertain rows, not more than anybody reads."""
    rows = found.doubtful[:MOST]
    largest = max((row.total for row in rows), default=0.0)
    drawable = largest > 0 and all(row.aleatoric >= 0 for row in rows)
    return [
        Card(
            row,
            _is_wrong(row, found),
            100 * row.aleatoric / largest if drawable else None,
            100 * row.epistemic / largest if drawable else None,
            _strips(row, has_prediction=not _is_action(found)),
        )
        for row in rows
    ]


def _is_wrong(row: DoubtfulRow, found: Evaluation) -> bool | None:
    if _is_action(found):
        return None
    return row.loss > 0 if found.is_share else row.prediction != row.label


def _is_action(found: Evaluation) -> bool:
    """Whether predictions are actions, whatever their names."""
    return found.loss_name == "cost"


def _strips(row: DoubtfulRow, *, has_prediction: bool) -> tuple[Strip, ...]:
    members = row.members[spread(len(row.members), _MEMBERS)]
    # a member has the same place in every strip, those first that like the likeliest class most
    members = members[np.argsort(-members[:, 0], kind="stable")]
    return tuple(
        Strip(
            name,
            _bars(members[:, k]),
            float(row.mean[k]),
            round(HEIGHT * (1 - float(row.mean[k])), 2),
            name == row.label,
            has_prediction and name == row.prediction,
        )
        for k, name in enumerate(row.classes)
    )


def _bars(heights: np.ndarray) -> str:
    pitch = WIDTH / len(heights)
    width = pitch * (1 - _GAP)
    return "".join(
        f"M{i * pitch:.4g} {HEIGHT}v{-HEIGHT * h:.3g}h{width:.4g}V{HEIGHT}z"
        for i, h in enumerate(heights.tolist())
        if h > 0
    )
