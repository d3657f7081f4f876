"""Evidential and prior networks: modules that answer with a Dirichlet distribution."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from torch import Tensor, nn

from scorewise._progress import bar, counted
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.models.torch._answers import widened
from scorewise.models.torch._networks import ask, borrowed, check_rows
from scorewise.models.torch._rows import Batch, count_rows, length
from scorewise.models.torch._streams import stream

OUTPUTS = ("alpha", "evidence", "log-alpha")


def concentrations(
    module: nn.Module, X: Any, batch_size: int | None, device: Any, output: str, show: bool | None
) -> Dirichlet:
    """The Dirichlet that a module predicts for each row."""
    if output not in OUTPUTS:
        raise InvalidInput(f"output={output!r} must be one of {', '.join(map(repr, OUTPUTS))}")
    name = type(module).__name__
    with borrowed([module], device) as home:

        def draw(batch: Batch, first_row: int) -> Tensor:
            values = ask(module, batch, home, name)
            check_rows(values, length(batch), name)
            return _alpha(values, output, name, first_row)

        with (
            closing(stream(X, draw, module, home, batch_size)) as chunks,
            bar("predicting", count_rows(X), show) as advance,
        ):
            return Dirichlet(np.concatenate(list(counted(chunks, advance))))


def _alpha(values: Tensor, output: str, name: str, first_row: int) -> Tensor:
    """Parameters of what a module returned."""
    values = widened(values)
    if output == "evidence":
        alpha, fine = values + 1, values >= 0
    else:
        alpha = values.exp() if output == "log-alpha" else values
        fine = alpha > 0
    wrong = ~(fine & alpha.isfinite())
    if bool(wrong.any()):
        row, k = (int(i) for i in wrong.nonzero()[0])
        raise InvalidInput(
            f"{name} returns {float(values[row, k]):.6g} for row {first_row + row}, class {k}, "
            f"which is no {output}; alpha must be positive, evidence not negative, and a network "
            "that returns logits z with alpha = exp(z) needs output='log-alpha'"
        )
    return alpha
