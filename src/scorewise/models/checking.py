"""What a member must answer: probabilities for every row and class."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.validate import SUM_TOLERANCE


def check_probabilities(probs: np.ndarray, who: str, first_row: int, remedy: str) -> None:
    """Refuse what is no distribution in each row ``(n, K)``, and name the member and the row."""
    with np.errstate(all="ignore"):
        sums = probs.sum(axis=-1)
        wrong = ~((np.abs(sums - 1) <= SUM_TOLERANCE[probs.dtype.name]) & (probs.min(-1) >= 0))
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    row = probs[i]
    if not np.isfinite(row).all():
        k = int(np.argmax(~np.isfinite(row)))
        problem = f"gives {row[k]} for row {first_row + i}, class {k}"
    elif (row < 0).any():
        k = int(np.argmax(row < 0))
        problem = f"gives {row[k]:.6g} for row {first_row + i}, class {k}, which is negative"
    else:
        problem = f"gives row {first_row + i} probabilities that sum to {sums[i]:.9g}, not 1"
    raise InvalidInput(f"{who} {problem}; {remedy}")


def check_shape(shape: Any, n_rows: int, who: str, n_classes: int | None = None) -> None:
    """Refuse what is not ``(n, K)``, of as many classes as the other members have."""
    shape = tuple(int(size) for size in shape)
    if len(shape) != 2 or shape[0] != n_rows or (n_classes or shape[1]) != shape[1]:
        wanted = f"({n_rows}, {'classes' if n_classes is None else n_classes})"
        raise InvalidInput(f"{who} gives shape {shape} for {n_rows} rows; it must be {wanted}")
    if shape[1] < 2:
        raise InvalidInput(f"{who} knows {shape[1]} class; it must be at least 2")
