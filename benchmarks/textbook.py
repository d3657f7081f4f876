"""The straightforward version: the textbook formulas as people write them, in NumPy or torch.

Epistemic is total − aleatoric, nothing is checked, and every step makes an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Array = Any  # of NumPy or torch; xp is the library
Entropy = Callable[[ModuleType, Array], Array]


def decompose(
    xp: ModuleType,
    values: Array,
    member_axis: int = 1,
    weights: Array | None = None,
    from_logits: bool = False,
    entropies: Sequence[Entropy] | None = None,
) -> list[Array]:
    """Total, aleatoric and epistemic uncertainty; by default under the four rules of the paper."""
    probs = softmax(xp, values) if from_logits else values
    mean = average(xp, probs, member_axis, weights)
    results = []
    for entropy in entropies or ENTROPIES:
        total = entropy(xp, mean)
        aleatoric = average(xp, entropy(xp, probs), member_axis, weights)
        results += [total, aleatoric, total - aleatoric]
    return results


def softmax(xp: ModuleType, logits: Array) -> Array:
    """Torch has its own; in NumPy, the usual two lines."""
    if hasattr(xp, "softmax"):
        return xp.softmax(logits, -1)
    masses = xp.exp(logits - xp.amax(logits, -1)[..., None])
    return masses / xp.sum(masses, -1)[..., None]


def average(xp: ModuleType, values: Array, axis: int, weights: Array | None) -> Array:
    """The mean over members; weights sum to 1."""
    if weights is None:
        return xp.mean(values, axis)
    return xp.sum(values * weights.reshape(-1, *[1] * (values.ndim - axis - 1)), axis)


def log_entropy(xp: ModuleType, p: Array) -> Array:
    """Shannon's, with the usual small number against log 0."""
    return -xp.sum(p * xp.log(p + xp.finfo(p.dtype).tiny), -1)


def brier_entropy(xp: ModuleType, p: Array) -> Array:
    """1 − Σ p²."""
    return 1 - xp.sum(p * p, -1)


def zero_one_entropy(xp: ModuleType, p: Array) -> Array:
    """1 − max p."""
    return 1 - xp.amax(p, -1)


def spherical_entropy(xp: ModuleType, p: Array) -> Array:
    """1 − ‖p‖."""
    return 1 - xp.sqrt(xp.sum(p * p, -1))


ENTROPIES: list[Entropy] = [log_entropy, brier_entropy, zero_one_entropy, spherical_entropy]
