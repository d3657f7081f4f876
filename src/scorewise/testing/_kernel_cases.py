"""Awkward arrays to try kernels on, and comparisons with the array path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scorewise._array import Array, namespace
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import KernelMismatch
from scorewise.kernels import Extras, Kernel
from scorewise.rules import DecisionRule, ScoringRule, get_rule
from scorewise.rules.structures import LargestClasses

# Twice the error of either path: relative, and absolute for values of the size of 1.
ALLOWED = {"float16": (2e-4, 2.0**-20), "float32": (2e-4, 2.0**-20), "float64": (2e-12, 2.0**-49)}
_SMALLEST = 1e-9  # the smallest epistemic uncertainty that must be accurate


@dataclass(frozen=True)
class Case:
    """An array and the options that it is passed with."""

    kind: str
    array: np.ndarray
    weights: np.ndarray | None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        weights = None if self.weights is None else self.weights.shape
        return (
            f"{self.kind} members {self.array.shape} of {self.array.dtype}, strides "
            f"{self.array.strides}, weights {weights}, {self.options}"
        )

    @property
    def dtype(self) -> str:
        """The dtype of results."""
        return "float64" if self.array.dtype == np.float64 else "float32"

    @property
    def is_rescaled(self) -> bool:
        """Whether rows are normalised, which paths round differently."""
        return bool(self.options.get("from_logits") or self.options.get("normalize"))

    def members(self) -> Members:
        """Return the array as users' functions read it."""
        return Members.of(self.array, self.weights, InputOptions(**self.options))

    def with_invalid_entry(self, rng: np.random.Generator) -> tuple[float, Case]:
        """Return an invalid entry, and the array with it somewhere."""
        array = self.array.copy()
        value = self.spoil(array, rng)
        return value, replace(self, array=array)

    def spoil(self, array: np.ndarray, rng: np.random.Generator) -> float:
        """Put an entry that is no probability, or no logit, somewhere into an array; return it."""
        values = [np.nan, np.inf]
        if not self.options.get("from_logits"):
            values += [-0.5] if self.options.get("normalize") else [-0.5, 3e4]
        value = array[tuple(rng.integers(array.shape))] = rng.choice(values)
        return float(value)


ERRORS = tuple(f"standard error of {name}" for name in COMPONENTS)


def names_of(extras: Extras) -> tuple[str, ...]:
    """Return the names of the components that a kernel computes with these extras."""
    more = ERRORS if extras.standard_errors else ()
    more += ("reverse",) if extras.reverse else ("action",) if extras.actions else ()
    return (*COMPONENTS, *more)


def text_of(extras: Extras) -> str:
    """Return the names of the extras, for a message."""
    return "".join(
        f", {name}" for name, x in vars(extras).items() if x is not False and x is not None
    )


def components_by_kernel(
    kernel: Kernel, rules: list[ScoringRule], case: Case, extras: Extras
) -> list[dict[str, Array]]:
    """Return the components of each rule by the kernel, by their names."""
    members = case.members()
    results = kernel.compute(members.raw, members.weights, rules, extras)
    if results is None:
        raise KernelMismatch(f"the kernel declines valid predictions: {case}{text_of(extras)}")
    names = names_of(extras)
    if len(results) != len(names) * len(rules):
        raise KernelMismatch(
            f"the kernel does not return {len(names)} components for each rule: "
            f"{case}{text_of(extras)}"
        )
    for values in results:
        if str(values.dtype) != case.dtype:
            raise KernelMismatch(
                f"the kernel returns {values.dtype} in place of {case.dtype}: {case}"
                f"{text_of(extras)}"
            )
    starts = range(0, len(results), len(names))
    return [dict(zip(names, results[i : i + len(names)], strict=True)) for i in starts]


def allowed_error(case: Case, name: str, reference: Array) -> Array:
    """Return how far a component may be from the array path's."""
    relative, absolute = ALLOWED[str(case.array.dtype)]
    # The paths round rows differently when they normalise them, which moves EU by about its root.
    noise = 8 * absolute if case.is_rescaled else 0.0
    if name == "epistemic":
        return relative * np.maximum(reference, _SMALLEST) + noise * np.sqrt(reference)
    return relative * reference + absolute + noise


def is_exact(case: Case, rule: ScoringRule) -> bool:
    """Return whether EU of a rule must be exactly 0 wherever it is 0 by the array path."""
    return case.kind == "identical" or rule == get_rule("zero-one")


def is_subnormal(samples: Samples) -> Array:
    """Return whether an instance has a probability below the normal numbers, ``(...)``."""
    tiny = np.finfo(samples.probs.dtype).tiny
    return (samples.probs < 4 * tiny).any(axis=(-2, -1))


def margin(rule: DecisionRule, p: Array) -> Array:
    """Return by how much the decision under p is better than the next, ``(...)``."""
    if isinstance(rule.structure, LargestClasses):
        k = rule.structure.k
        if k == p.shape[-1]:
            return np.full(p.shape[:-1], np.inf)
        falling = -np.sort(-p, axis=-1)
        return falling[..., k - 1] - falling[..., k]
    regrets = np.sort(rule._regret(np, p), axis=-1)
    return regrets[..., 1] if regrets.shape[-1] > 1 else np.full(p.shape[:-1], np.inf)


def compare(
    subject: str,
    components: dict[str, Array],
    references: dict[str, Array],
    allowed: dict[str, Array],
    case: Case,
    detail: str = "",
    *,
    exact: bool,
) -> None:
    """Raise at the first component that differs, is negative, or is not 0 where it must be."""
    for name, values in components.items():
        reference = references[name]
        if np.shape(values) != np.shape(reference):
            raise KernelMismatch(f"{subject} {name} has shape {np.shape(values)}: {case}{detail}")
        with np.errstate(invalid="ignore"):  # infinities are equal or wrong
            differs = ~(np.abs(values - reference) <= allowed[name]) & ~(values == reference)
        wrong = differs | (values < 0)
        if exact and name == "epistemic":
            wrong |= (reference == 0) & (values != 0)
        if np.any(wrong):
            row = np.unravel_index(int(np.argmax(wrong)), np.shape(reference))
            raise KernelMismatch(
                f"{subject} {name}{list(map(int, row))} is {values[row]} by the kernel, "
                f"{reference[row]} by the array path: {case}{detail}"
            )


def by_formulas(samples: Samples, rule: ScoringRule) -> tuple[Array, Array, Array]:
    """Return total, aleatoric and epistemic uncertainty as the array path computes them."""
    xp = namespace(samples.probs)

    def components(block: Samples) -> list[Array]:
        aleatoric = block.average(rule._entropy(xp, block.probs))
        return [rule._entropy(xp, block.mean), aleatoric, rule._epistemic(xp, block)]

    total, aleatoric, epistemic = samples.by_blocks(components)  # whose sums are accurate
    return total, aleatoric, epistemic


# -- awkward arrays -------------------------------------------------------------------------------


_KINDS = ["random", "sparse", "confident", "near", "identical", "one-hot", "tied"]


def draw(rng: np.random.Generator) -> Case:
    """Return an array of awkward shape, kind, dtype, layout and weights."""
    n = int(rng.choice([0, 1, 2, 7, 16, 17, 33]))
    m = int(rng.choice([1, 2, 5, 20, 300], p=[0.2, 0.2, 0.3, 0.2, 0.1]))
    k = int(rng.choice([2, 3, 4, 7, 8, 9, 16, 17, 31, 64, 81, 130, 225, 257, 500]))
    kind = str(rng.choice(_KINDS))
    dtype = str(rng.choice(["float16", "float32", "float64"], p=[0.1, 0.45, 0.45]))
    logits = _logits(rng, kind, n, m, k)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        probs = logits.astype(dtype)
        options["from_logits"] = True
    else:
        probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(dtype)
        if rng.random() < 0.2:
            probs = probs * probs.dtype.type(3)
            options["normalize"] = True
    weights = None
    if rng.random() < 0.5:
        weights = rng.uniform(size=(m,) if rng.random() < 0.5 else (n, m)) ** 8
        weights[..., rng.integers(m, size=m // 2)] = 0.0
        weights[..., rng.integers(m)] = 1.0
    array, axes = _random_layout(rng, probs)
    return Case(kind, array, weights, options | axes)


def _logits(rng: np.random.Generator, kind: str, n: int, m: int, k: int) -> np.ndarray:
    base, noise = rng.normal(size=(n, 1, k)), rng.normal(size=(n, m, k))
    if kind == "identical":
        noise = np.zeros((n, m, k))
    elif kind == "near":
        noise *= 10.0 ** -rng.integers(1, 7)
    elif kind == "sparse":
        noise *= 20
    elif kind == "confident":
        base, noise = 12 * np.eye(k)[rng.integers(k, size=(n, 1))], 0.05 * noise
    elif kind == "one-hot":
        return np.where(np.eye(k, dtype=bool)[rng.integers(k, size=(n, m))], 0.0, -np.inf)
    elif kind == "tied":
        return rng.integers(0, 2, (n, m, k)) - 1.0  # 0 and 1 may look like probabilities
    return np.asarray(base + noise)


def _random_layout(
    rng: np.random.Generator, probs: np.ndarray
) -> tuple[np.ndarray, dict[str, int]]:
    """The members (N, M, K) in a random memory layout, and the options for its axes."""

    def moved(order: tuple[int, int, int]) -> np.ndarray:
        return np.ascontiguousarray(probs.transpose(order))

    layouts: list[tuple[np.ndarray, dict[str, int]]] = [
        (probs, {}),
        (moved((1, 0, 2)), {"member_axis": 0}),
        (moved((1, 2, 0)), {"member_axis": 0, "class_axis": 1}),
        (moved((2, 0, 1)), {"member_axis": 2, "class_axis": 0}),
        (np.repeat(probs, 2, axis=2)[:, :, ::2], {}),
        (np.repeat(np.repeat(probs, 3, axis=0), 2, axis=1)[::3, ::2], {}),
        (probs[::-1, ::-1, ::-1], {}),
        (np.asfortranarray(probs), {}),
    ]
    array, axes = layouts[rng.integers(len(layouts))]
    if rng.random() < 0.3:
        array = array.view()
        array.flags.writeable = False
    return array, axes
