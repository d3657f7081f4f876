"""Helpers of many tests: array libraries by name, every rule, random members."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

import scorewise as sw
from scorewise.decompose import Decomposition
from scorewise.kernels import Extras, cpu

LIBRARIES = ["numpy", "read-only numpy", "array_api_strict", "torch", "jax"]

# For Dask arrays whose members or classes are in several chunks.
may_rechunk = pytest.mark.filterwarnings(
    "ignore:.* in [0-9]+ chunks:scorewise.errors.ScorewiseWarning"
)


@dataclass(frozen=True)
class Library:
    """An array library, and how to convert arrays to it and from it."""

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


def own_brier(library: str) -> sw.rules.ScoringRule:
    """The Brier score as a user writes it for arrays of torch or JAX, and of no other library."""
    if library == "torch":
        import torch

        return sw.rule_from_loss_vector(
            lambda p: torch.sum(p * p, dim=-1, keepdim=True) + 1 - 2 * p, name="own"
        )
    import jax

    def losses(p: Any) -> Any:
        assert isinstance(p, jax.Array)
        return jax.numpy.sum(p * p, axis=-1, keepdims=True) + 1 - 2 * p

    return sw.rule_from_loss_vector(losses, name="own")


def all_rules(k: int, seed: int = 0) -> dict[str, sw.rules.ScoringRule]:
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


def as_json(value: Any) -> Any:
    """A result as JSON has it: arrays are lists, and numbers that are not finite are None."""
    text = json.dumps(value, default=lambda x: x.tolist())
    return json.loads(text, parse_constant=lambda _: None)


def is_at_most(rate: float, chunks: Iterable[np.ndarray]) -> bool:
    """Whether events occur at this rate or less, by draws that stop when the answer is clear.

    At each look, a wrong answer about events of exactly this rate has a probability of 1 in 10,000.
    """
    occurred, draws = 0, 0
    for chunk in chunks:
        occurred, draws = occurred + int(chunk.sum()), draws + len(chunk)
        if binom.cdf(occurred, draws, rate) < 1e-4:
            return True
        if binom.sf(occurred - 1, draws, rate) < 1e-4:
            return False
    return True


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
    """The same members, alternately in two accumulators that are merged."""
    first, second = (
        fill(probs[:, part], rules, None if weights is None else weights[..., part])
        for part in (slice(0, None, 2), slice(1, None, 2))
    )
    first.merge(second)
    return first


@contextmanager
def kernel_only() -> Iterator[list[tuple[Any, ...]]]:
    """The CPU kernel runs inside; fails if it declines any work.

    The value is a list of the arguments of its calls.
    """
    ran, calls = [], []

    def compute(*arguments: Any) -> Any:
        results = cpu_compute(*arguments)
        ran.append(results is not None)
        calls.append(arguments)
        return results

    with pytest.MonkeyPatch.context() as patch:
        cpu_compute = cpu.compute
        patch.setattr(cpu, "compute", compute)
        yield calls
    assert ran, "the kernel was not called"
    assert all(ran), "the kernel declined"


@contextmanager
def accumulated_by_kernel() -> Iterator[None]:
    """Every member of an accumulator is added by the CPU kernel inside."""
    added = []

    def add(state: cpu.State, *arguments: Any) -> bool:
        added.append(state_add(state, *arguments))
        return added[-1]

    def add_all(state: cpu.State, *arguments: Any) -> bool:
        added.append(state_add_all(state, *arguments))
        return added[-1]

    def by_arrays(*_: Any) -> None:
        raise AssertionError("the array path was taken")

    with pytest.MonkeyPatch.context() as patch:
        state_add, state_add_all = cpu.State.add, cpu.State.add_all
        patch.setattr(cpu.State, "add", add)
        patch.setattr(cpu.State, "add_all", add_all)
        patch.setattr("scorewise.accumulate._summary_of_member", by_arrays)
        patch.setattr("scorewise.accumulate._chunk_statistics", by_arrays)
        yield
    assert added, "the kernel was not called"
    assert all(added), "the kernel declined"


def by_array(probs: Any, rules: Any, weights: Any = None, **options: Any) -> Any:
    """As decompose, by the array path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "_native", None)
        return sw.decompose(probs, rules, weights=weights, **options)


def torch_peak(work: Callable[[], object]) -> int:
    """The most bytes that torch held at once beyond what it had."""
    profiler = pytest.importorskip("torch.profiler")
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        work()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda e: e.start_ns())]
    assert any(sizes)
    return int(np.cumsum(sizes).max())


def known_to_kernel(rule: Any) -> bool:
    """Whether the CPU kernel computes this rule."""
    return cpu.supports(sw.get_rule(rule), Extras())


def by_kernel(probs: Any, rules: Any, weights: Any = None, **options: Any) -> Any:
    """As decompose: by the kernel under the rules that it knows, else by the array path."""
    if not isinstance(rules, dict):
        if isinstance(rules, list):
            rules = {rule: rule for rule in rules}
        else:
            return by_kernel(probs, {"": rules}, weights, **options)[""]
    known = {name: rule for name, rule in rules.items() if known_to_kernel(rule)}
    others = {name: rule for name, rule in rules.items() if name not in known}
    results = {}
    if known:
        with kernel_only():
            results = sw.decompose(probs, known, weights=weights, **options)
    if others:
        results |= sw.decompose(probs, others, weights=weights, **options)
    return {name: results[name] for name in rules}


def by_tree(probs: Any, rules: Any, weights: Any = None) -> Any:
    """As decompose, of a Dask array with two members in each chunk, which a tree merges."""
    import dask
    import dask.array as da

    chunks = (*probs.shape[:-2], 2, -1)
    results = sw.decompose(da.from_array(probs, chunks, name=False), rules, weights=weights)
    with dask.config.set(scheduler="synchronous"):
        if isinstance(results, Decomposition):
            return Decomposition(*dask.compute(*results))
        parts = dask.compute(*(x for d in results.values() for x in d))
    threes = (Decomposition(*parts[i : i + 3]) for i in range(0, len(parts), 3))
    return dict(zip(results, threes, strict=True))


PATHS = {
    "array": by_array,
    "kernel": by_kernel,
    "accumulator": lambda probs, rules, weights=None: fill(probs, rules, weights).result(),
    "merged": lambda probs, rules, weights=None: merge_halves(probs, rules, weights).result(),
    "tree": by_tree,
}

# Relative error, and the unit of rounding of 1.
PRECISION = {"float64": (1e-12, 2.0**-52), "float32": (1e-4, 2.0**-23)}


def assert_accurate(d: Decomposition, i: int, expected: tuple, dtype: str, note: str) -> None:
    """Assert that row i of a decomposition is as accurate as docs/numbers.md states."""
    relative, unit = PRECISION[dtype]
    for component, value, exact in zip(("total", "aleatoric"), d, expected, strict=False):
        error = abs(mp.mpf(float(value[i])) - exact)
        assert error <= relative * abs(exact) + 4 * unit, f"{note} {component} {exact}: {error}"
    exact = expected[2]
    error = abs(mp.mpf(float(d.epistemic[i])) - exact)
    assert error <= relative * max(exact, 1e-9), f"{note} epistemic {exact}: {error}"


def assert_same(results: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    """Two results of decompose under the same rules are equal within the tolerance."""
    assert results.keys() == expected.keys()
    for name, d in results.items():
        for ours, theirs in zip(d, expected[name], strict=True):
            np.testing.assert_allclose(ours, theirs, err_msg=name, **tolerance)


def write_keys(folder: Path, prefix: str = "", private_key: Any = None) -> tuple[Path, Path]:
    """The files key.pem and public.pem with a new pair of keys, by default Ed25519."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, pem = private_key or Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    private, public = folder / f"{prefix}key.pem", folder / f"{prefix}public.pem"
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public
