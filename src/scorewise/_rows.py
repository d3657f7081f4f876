"""Predictions for rows, from whatever a caller hands in."""

from __future__ import annotations

from typing import Any

from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput


def rows_of(predictions: Any, name: str, options: dict[str, Any]) -> Samples | Dirichlet:
    """Predictions ``(n, M, K)``; the options are those of :class:`scorewise.Samples`."""
    if isinstance(predictions, Samples | Dirichlet):
        rows = predictions
        if options:
            given = ", ".join(options)
            raise InvalidInput(f"{given}: this was settled when the {rows!r} was made")
    else:
        rows = Samples(predictions, **options)
    n_axes = len(rows.mean.shape)
    if n_axes == 1:
        raise InvalidInput(
            f"{name} are members of one row, (M, K); pass rows (n, M, K): {name}[None] for this "
            f"row, or {name}[:, None] if these are n rows of one member"
        )
    if n_axes != 2:
        raise InvalidInput(f"{name} must be rows (n, M, K); reshape what has more axes")
    return rows
