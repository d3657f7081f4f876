"""Small tensors on a device, which the CPU kernel decomposes: they are copied to host memory.

On a device an operation on a small tensor takes as long as its call. The array path has dozens of
them; two copies take less. Only members for which the device has no kernel are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scorewise._array import Array, has_plain_values, is_small_on_device, is_torch, namespace
from scorewise._inputs import RawPredictions
from scorewise.kernels import cpu
from scorewise.kernels._kernel import Extras, Usability
from scorewise.rules import ScoringRule

supports = cpu.supports

_USABLE = Usability(True, "a small tensor is copied to host memory, for the CPU kernel")
_LARGE = Usability(False, "the members are not a small tensor on a device")
_RECORDED = Usability(False, "a tensor is lazy, traced, differentiated or a part of others")
_UNCHECKED = Usability(False, "nothing is waited for with check=False")


def is_usable(raw: RawPredictions, weights: Any) -> Usability:
    """Return whether the members are a small tensor on a device, and the CPU kernel was compiled.

    With ``check=False`` they are not: copies are waited for, and CUDA graphs cannot capture them.
    """
    if not is_small_on_device(raw.values):
        return _LARGE
    if not has_plain_values(raw.values) or (is_torch(weights) and not has_plain_values(weights)):
        return _RECORDED
    if not raw.check:
        return _UNCHECKED
    return _USABLE if cpu.is_compiled() else cpu.NOT_COMPILED


def compute(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], extras: Extras
) -> list[Array] | None:
    """Return the components of the rules on the device; None for invalid predictions or weights."""
    on_host = replace(raw, values=raw.values.cpu())
    host_weights = weights.cpu() if is_torch(weights) else weights
    results = cpu.compute(on_host, host_weights, rules, extras)
    if results is None:
        return None
    stacked = namespace(*results).stack(results)
    return list(stacked.to(raw.values.device).unbind())
