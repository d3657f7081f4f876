"""What torch modules return, as probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from scorewise._validate import SUM_TOLERANCE
from scorewise.errors import InvalidInput

_ENOUGH = 32  # rows that sum to 1, and they are probabilities


class Answers:
    """What members return, as probabilities.

    Parameters
    ----------
    names : sequence of str
        Of the members, for messages.
    output : "logits", "probs" or None
        What they return. None stands for logits, unless all of them look like probabilities,
        which a softmax would flatten in silence.
    of_one_model : bool
        Whether the members are draws of one model, which returns the same kind of thing in all.
    """

    def __init__(
        self, names: Sequence[str], output: str | None, *, of_one_model: bool = False
    ) -> None:
        if output not in {None, "logits", "probs"}:
            raise InvalidInput(f"output={output!r} must be 'logits' or 'probs'")
        self._names = names
        self._output = output
        self._of_one_model = of_one_model
        self._suspects = set(names) if output is None else set()
        self._n_rows = 0

    def samples(self, values: Tensor, first_row: int) -> Tensor:
        """Samples ``(n, M, K)`` of what members returned, ``(M · n, K)`` one after the other."""
        n = len(values) // len(self._names)

        def who(i: int) -> str:
            return f"{self._names[i // n]}, row {first_row + i % n}"

        if self._output == "probs":
            probs = _given(values, who)
        else:
            tolerance = _tolerance(values)
            probs = self._softmax(widened(values), tolerance, who)
        return probs.unflatten(0, (len(self._names), n)).transpose(0, 1)

    def finish(self) -> None:
        """Refuse logits of a member all of which could be probabilities."""
        if self._suspects and self._n_rows:
            first = next(name for name in self._names if name in self._suspects)
            raise InvalidInput(
                f"all that {first} returns could be probabilities; say which: output='probs' or "
                "output='logits'"
            )

    def _softmax(self, values: Tensor, tolerance: float, who: Callable[[int], str]) -> Tensor:
        logits = at_least_two(values)
        top = logits.amax(dim=-1)
        wrong = ~top.isfinite()  # a masked class of -inf is fine, unless all are
        if bool(wrong.any()):
            i = int(wrong.int().argmax())
            raise InvalidInput(
                f"{who(i)}: a logit is {float(top[i])}; mend the model or drop the row"
            )
        if self._suspects and len(values):
            self._suspect(values.unflatten(0, (len(self._names), -1)), tolerance)
        return logits.softmax(dim=-1)

    def _suspect(self, values: Tensor, tolerance: float) -> None:
        """Look whether what members returned, ``(M, n, K)``, could be probabilities."""
        several = values.shape[-1] > 1
        could = (values.amin(dim=(1, 2)) >= 0) & (values.amax(dim=(1, 2)) <= 1)
        if several:
            could &= (values.sum(dim=-1) - 1).abs().amax(dim=1) <= tolerance
        free = [name for name, may in zip(self._names, could.tolist(), strict=True) if not may]
        self._suspects.difference_update(self._names if free and self._of_one_model else free)
        self._n_rows += values.shape[1]
        if several and self._n_rows >= _ENOUGH:
            self.finish()


def at_least_two(logits: Tensor) -> Tensor:
    """Logits of all classes; a single one is that of class 1 against class 0."""
    if logits.shape[-1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def _given(values: Tensor, who: Callable[[int], str]) -> Tensor:
    """Probabilities that were returned as such; a single one is that of class 1."""
    tolerance, values = _tolerance(values), widened(values)
    probs = torch.cat([1 - values, values], dim=-1) if values.shape[-1] == 1 else values
    wrong = ~(((probs.sum(-1) - 1).abs() <= tolerance) & (probs.amin(-1) >= 0))
    if bool(wrong.any()):
        i = int(wrong.int().argmax())
        row = np.array2string(values[i].cpu().numpy(), precision=4, threshold=8)
        raise InvalidInput(
            f"{who(i)}: {row} are no probabilities; pass output='logits' if these are logits"
        )
    return probs


def _tolerance(probs: Tensor) -> float:
    """How far the sum of probabilities may be from 1, in their precision."""
    return SUM_TOLERANCE[str(probs.dtype).removeprefix("torch.")]


def widened(values: Tensor) -> Tensor:
    """Half precision is computed in float32."""
    return values.float() if values.dtype in {torch.float16, torch.bfloat16} else values
