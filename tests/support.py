"""What many tests share: array libraries by name, every rule, random members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

import scorewise as sw

LIBRARIES = ["numpy", "read-only numpy", "array_api_strict", "torch", "jax"]


@dataclass(frozen=True)
class Library:
    """One array library: how arrays get in and out."""

    name: str

    def asarray(self, values: Any, dtype: str | None = None) -> Any:
        values = np.asarray(values, dtype=dtype)
        if self.name == "numpy":
            return values.copy()
        if self.name == "read-only numpy":
            values = values.copy()
            values.flags.writeable = False
            return values
        if self.name == "torch":
            import torch

            return torch.asarray(values.copy())
        if self.name == "jax":
            import jax

            with jax.enable_x64(True):
                return jax.numpy.asarray(values)
        import array_api_strict

        return array_api_strict.asarray(values)

    def to_numpy(self, values: Any) -> np.ndarray:
        return np.asarray(values)

    def owns(self, values: Any) -> bool:
        if self.name == "torch":
            import torch

            return isinstance(values, torch.Tensor)
        if self.name == "jax":
            import jax

            return isinstance(values, jax.Array)
        if self.name == "array_api_strict":
            return type(values).__module__.startswith("array_api_strict")
        return isinstance(values, np.ndarray | np.generic)


def all_rules(k: int, seed: int = 0) -> dict[str, sw.ScoringRule]:
    """Every rule of the library, for k classes."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(k, k))
    rules = {
        "log": sw.rules.log,
        "brier": sw.rules.brier,
        "zero-one": sw.rules.zero_one,
        "spherical": sw.rules.spherical,
        "tsallis:1.5": sw.rules.tsallis(1.5),
        "tsallis:3": sw.rules.tsallis(3),
        "pseudospherical:1.3": sw.rules.pseudospherical(1.3),
        "pseudospherical:4": sw.rules.pseudospherical(4),
        "top-k:2": sw.rules.top_k(2),
        "cost-matrix": sw.rules.cost_matrix(rng.uniform(0, 3, (k, k + 1))),
        "quadratic": sw.rules.quadratic(root @ root.T),
        "rps": sw.rules.rps,
        "weighted-log": sw.rules.weighted_log(rng.uniform(0.2, 3, k)),
    }
    if k == 2:
        rules |= {
            "beta:0.5,2": sw.rules.beta(0.5, 2),
            "beta:0,0": sw.rules.beta(0, 0),
            "beta:-0.5,-0.3": sw.rules.beta(-0.5, -0.3),
        }
    return rules


def members(n: int, m: int, k: int, seed: int = 0, concentration: float = 1.0) -> np.ndarray:
    """Random member probabilities (n, m, k)."""
    return np.random.default_rng(seed).dirichlet(np.full(k, concentration), (n, m))


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def fill(probs: np.ndarray, rules: Any, weights: Any = None, **options: bool) -> sw.Accumulator:
    """An accumulator of the members (N, M, K)."""
    acc = sw.Accumulator(rules)
    for m in range(probs.shape[1]):
        acc.update(probs[:, m], weight=1.0 if weights is None else weights[..., m], **options)
    return acc


def merge_halves(probs: np.ndarray, rules: Any, weights: Any = None) -> sw.Accumulator:
    """The same from two accumulators, which take turns."""
    one, two = (
        fill(probs[:, part], rules, None if weights is None else weights[..., part])
        for part in (slice(0, None, 2), slice(1, None, 2))
    )
    one.merge(two)
    return one


PATHS = {
    "array": lambda probs, rules, weights=None: sw.decompose(probs, rules, weights=weights),
    "accumulator": lambda probs, rules, weights=None: fill(probs, rules, weights).result(),
    "merged": lambda probs, rules, weights=None: merge_halves(probs, rules, weights).result(),
}

# Relative error, and the unit of rounding of 1.
PRECISION = {"float64": (1e-12, 2.0**-52), "float32": (1e-4, 2.0**-23)}


def assert_accurate(d: sw.Decomposition, i: int, expected: tuple, dtype: str, note: str) -> None:
    """Row i of a decomposition is as right as docs/numbers.md says."""
    relative, unit = PRECISION[dtype]
    for component, value, exact in zip(("total", "aleatoric"), d, expected, strict=False):
        error = abs(mp.mpf(float(value[i])) - exact)
        assert error <= relative * abs(exact) + 4 * unit, f"{note} {component} {exact}: {error}"
    exact = expected[2]
    error = abs(mp.mpf(float(d.epistemic[i])) - exact)
    assert error <= relative * max(exact, 1e-9), f"{note} epistemic {exact}: {error}"
