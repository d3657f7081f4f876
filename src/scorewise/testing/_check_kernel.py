"""A check that a kernel agrees with the array path and obeys its laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, namespace
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, KernelMismatch
from scorewise.kernels import Extras, Kernel, Usability
from scorewise.rules import DEFAULT_RULES, RuleLike, ScoringRule, get_rule

# Twice the error of either path: relative, and absolute for values of the size of 1.
_ALLOWED = {"float16": (2e-4, 2.0**-20), "float32": (2e-4, 2.0**-20), "float64": (2e-12, 2.0**-49)}
_SMALLEST = 1e-9  # the smallest epistemic uncertainty that must be accurate
_PLAIN = Extras()
_MANY = 1 << 20  # instances, enough for kernels that decline small arrays


def check_kernel(
    kernel: Kernel,
    rules: Iterable[RuleLike | Callable[[int], RuleLike]] = DEFAULT_RULES,
    *,
    n_trials: int = 200,
    random_state: int = 0,
) -> None:
    """Raise if a kernel disagrees with the array path or breaks a law.

    Use it to test a new kernel. Every trial is a small array of awkward shape, kind, dtype,
    layout and weights: all components must agree with the array path, none may be negative, and
    the epistemic component of identical members must be exactly 0. Then an entry is made invalid,
    which the kernel must detect. Arrays that the kernel declines are skipped, unless it declines
    them only because they are small.

    Parameters
    ----------
    kernel : Kernel
        A module or object with ``is_usable``, ``supports`` and ``compute``, as in
        ``scorewise.kernels``.
    rules : iterable of str, ScoringRule or functions
        The rules that the kernel supports. A function returns a rule for a number of classes, such
        as a cost matrix. A rule that does not fit the number of classes of an array is left out
        there.
    n_trials : int
        Number of arrays to try.
    random_state : int
        Seed of the arrays.

    Raises
    ------
    KernelMismatch
        At the first difference, with the array that shows it; if the kernel declines all arrays,
        or one of the rules; if a rule fits no array.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.check_kernel(sw.kernels.KERNELS["cpu"], ["brier"], n_trials=3)
    """
    makers = [_maker(rule) for rule in rules]
    untried = set(makers)
    n_trials = validate.whole(n_trials, "n_trials", at_least=1)
    rng = np.random.default_rng(validate.whole(random_state, "random_state", at_least=0))
    answers = []
    for _ in range(n_trials):
        case = _draw(rng)
        answers.append(_answer(kernel, case))
        if answers[-1]:
            n_classes = case.members().raw.values.shape[-1]
            fitting = {make: rule for make in makers if (rule := _fitting(make, n_classes))}
            untried -= fitting.keys()
            supported = list(fitting.values())
            unknown = next((rule for rule in supported if not kernel.supports(rule, _PLAIN)), None)
            if unknown is not None:
                raise KernelMismatch(f"the kernel does not support {unknown!r}")
            _check_results(kernel, supported, case)
            _check_invalid_is_detected(kernel, supported, case, rng)
    if not any(answers):
        raise KernelMismatch(
            f"the kernel declines all {n_trials} arrays, the last because: {answers[-1].reason}"
        )
    if untried:
        names = ", ".join(repr(make(2)) for make in untried)
        raise KernelMismatch(f"none of {n_trials} arrays has a number of classes that fits {names}")


_Maker = Callable[[int], RuleLike]


def _maker(rule: RuleLike | _Maker) -> _Maker:
    """Return a function of the number of classes."""
    return rule if callable(rule) else lambda n_classes: rule


def _fitting(make: _Maker, n_classes: int) -> ScoringRule | None:
    """Return the rule for so many classes; None if it is for another number of them."""
    rule = get_rule(make(n_classes))
    try:
        rule.check_classes(n_classes)
    except InvalidInput:
        return None
    return rule


@dataclass(frozen=True)
class _Case:
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

    def members(self) -> Members:
        return Members.of(self.array, self.weights, InputOptions(**self.options))


def _answer(kernel: Kernel, case: _Case) -> Usability:
    """Return whether the kernel is usable for a case, or for many instances like its first."""
    members = case.members()
    raw, weights = members.raw, members.weights
    answer = kernel.is_usable(raw, weights)
    if answer:
        return answer
    first = (
        raw.values[:1]
        if len(raw.values)
        else np.zeros((1, *raw.values.shape[1:]), raw.values.dtype)
    )
    many = replace(raw, values=np.broadcast_to(first, (_MANY, *first.shape[1:])))
    if weights is not None and weights.ndim > 1:
        weights = np.broadcast_to(np.ones(weights.shape[1:]), (_MANY, *weights.shape[1:]))
    return kernel.is_usable(many, weights)


def _check_results(kernel: Kernel, rules: list[ScoringRule], case: _Case) -> None:
    members = case.members()
    results = kernel.compute(members.raw, members.weights, rules, _PLAIN)
    if results is None:
        raise KernelMismatch(f"the kernel declines valid predictions: {case}")
    samples = members.samples
    relative, absolute = _ALLOWED[str(case.array.dtype)]
    # The paths round rows differently when they normalise them, which moves EU by about its root.
    rescaled = case.options.get("from_logits") or case.options.get("normalize")
    noise = 8 * absolute if rescaled else 0.0
    if len(results) != 3 * len(rules):
        raise KernelMismatch(f"the kernel does not return three components for each rule: {case}")
    for i, rule in enumerate(rules):
        components, references = results[3 * i : 3 * i + 3], _by_formulas(samples, rule)
        for name, values, reference in zip(COMPONENTS, components, references, strict=True):
            if np.shape(values) != np.shape(reference):
                raise KernelMismatch(f"{rule!r} {name} has shape {np.shape(values)}: {case}")
            allowed = relative * reference + absolute + noise
            if name == "epistemic":
                allowed = relative * np.maximum(reference, _SMALLEST) + noise * np.sqrt(reference)
            wrong = ~(np.abs(values - reference) <= allowed) | (values < 0)
            if name == "epistemic" and (case.kind == "identical" or rule == get_rule("zero-one")):
                wrong |= (reference == 0) & (values != 0)
            if np.any(wrong):
                row = np.unravel_index(int(np.argmax(wrong)), np.shape(reference))
                raise KernelMismatch(
                    f"{rule!r} {name}{list(map(int, row))} is {values[row]} by the kernel, "
                    f"{reference[row]} by the array path: {case}"
                )


def _by_formulas(samples: Samples, rule: ScoringRule) -> tuple[Array, Array, Array]:
    """Return total, aleatoric and epistemic uncertainty as the array path computes them."""
    xp = namespace(samples.probs)
    aleatoric = samples.average(rule._entropy(xp, samples.probs))
    return rule._entropy(xp, samples.mean), aleatoric, rule._epistemic(xp, samples)


def _check_invalid_is_detected(
    kernel: Kernel, rules: list[ScoringRule], case: _Case, rng: np.random.Generator
) -> None:
    if not case.array.size:
        return
    values = [np.nan, np.inf] if case.options.get("from_logits") else [np.nan, np.inf, -0.5, 3e4]
    if case.options.get("normalize"):
        values.remove(3e4)
    invalid = case.array.copy()
    value = invalid[tuple(rng.integers(invalid.shape))] = rng.choice(values)
    members = _Case(case.kind, invalid, case.weights, case.options).members()
    if kernel.compute(members.raw, members.weights, rules, _PLAIN) is not None:
        raise KernelMismatch(f"the kernel does not detect an entry of {value}: {case}")


# -- awkward arrays -------------------------------------------------------------------------------


_KINDS = ["random", "sparse", "confident", "near", "identical", "one-hot", "tied"]


def _draw(rng: np.random.Generator) -> _Case:
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
    return _Case(kind, array, weights, options | axes)


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
        return rng.integers(0, 2, (n, m, k)).astype(float)
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
