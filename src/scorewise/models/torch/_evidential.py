"""Evidential and prior networks: modules that predict a Dirichlet distribution."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from torch import Tensor, nn

from scorewise import _validate as validate
from scorewise._progress import bar, counted
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput, Remedy
from scorewise.models.torch._networks import call_module, check_rows, evaluation_mode, widened
from scorewise.models.torch._row_batches import Batch, count_rows, in_host_memory, length, stream

_OUTPUTS = ("alpha", "evidence", "log-alpha")


def predict_dirichlet(
    model: Any,
    X: Any,
    batch_size: int | None = None,
    device: Any = None,
    *,
    output: str = "alpha",
    progress: bool | None = None,
) -> Dirichlet:
    """Return the Dirichlet distributions that an evidential or prior network predicts.

    Use it for modules that return parameters α or evidence instead of probabilities.

    Parameters
    ----------
    model : torch.nn.Module
        Called once, in evaluation mode; it is not changed.
    X : rows
        As for :func:`scorewise.predict_samples`.
    batch_size, device
        As for :func:`scorewise.predict_samples`.
    output : "alpha", "evidence" or "log-alpha"
        What the module returns: α > 0; evidence e ≥ 0, with α = e + 1 (evidential networks); or
        logits z, with α = exp(z) (prior networks).
    progress
        As for :func:`scorewise.predict_samples`.

    Returns
    -------
    Dirichlet
        With ``alpha`` of shape (N, K).

    Raises
    ------
    InvalidInput
        If the module's outputs are not parameters of a Dirichlet distribution.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softplus())
    >>> sw.predict_dirichlet(net, torch.zeros(5, 4), output="evidence")
    Dirichlet(3 classes, batch (5,), float32)
    """
    if batch_size is not None:
        validate.whole(batch_size, "batch_size", at_least=1)
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"predict_dirichlet takes a torch module, not {type(model).__name__}")
    validate.choice(output, "output", _OUTPUTS)
    name = type(model).__name__
    with evaluation_mode([model], device) as home:

        def draw(batch: Batch, first_row: int) -> Tensor:
            values = call_module(model, batch, home, name)
            check_rows(values, length(batch), name)
            return _alpha(values, output, name, first_row)

        with (
            closing(in_host_memory(stream(X, draw, model, home, batch_size))) as chunks,
            bar("predicting", count_rows(X), progress) as advance,
        ):
            return Dirichlet(np.concatenate(list(counted(chunks, advance))))


def _alpha(values: Tensor, output: str, name: str, first_row: int) -> Tensor:
    """The parameters α, from the outputs of a module."""
    values = widened(values)
    if output == "evidence":
        alpha, is_valid = values + 1, values >= 0
    else:
        alpha = values.exp() if output == "log-alpha" else values
        is_valid = alpha > 0
    wrong = ~(is_valid & alpha.isfinite())
    if bool(wrong.any()):
        row, k = (int(i) for i in wrong.nonzero()[0])
        raise InvalidInput(
            f"{name} returns {float(values[row, k]):.6g} for row {first_row + row}, class {k}, "
            f"which is not a valid {output}; alpha must be positive, evidence must not be negative",
            Remedy("output", "log-alpha", "if the network returns logits z with alpha = exp(z)"),
        )
    return alpha
