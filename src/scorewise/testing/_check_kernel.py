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
from scorewise.decompose import COMPONENTS, components_by_arrays
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, KernelMismatch
from scorewise.kernels import Extras, Kernel, Usability
from scorewise.rules import DEFAULT_RULES, DecisionRule, RuleLike, ScoringRule, get_rule
from scorewise.rules.structures import LargestClasses, Separable

# Twice the error of either path: relative, and absolute for values of the size of 1.
_ALLOWED = {"float16": (2e-4, 2.0**-20), "float32": (2e-4, 2.0**-20), "float64": (2e-12, 2.0**-49)}
_SMALLEST = 1e-9  # the smallest epistemic uncertainty that must be accurate
_PLAIN = Extras()
_EXTRAS = (
    Extras(unbiased=True),
    Extras(standard_errors=True),
    Extras(unbiased=True, standard_errors=True),
    Extras(reverse=True),
)
_LARGE = 1 << 17  # numbers of an array on which the array path takes long to leave out members
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
    the epistemic component of identical members must be exactly 0. So must the extras that the
    kernel supports, the jackknife and reverse divergences, of which one is drawn for each array;
    the corrected epistemic component may not be below the plain one. Then an entry is made
    invalid, which the kernel must detect. Arrays that the kernel declines are skipped, unless it
    declines them only because they are small.

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
    rng_of_lists = rng.spawn(1)[0]
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
            some = _some(supported, rng_of_lists)
            _check_results(kernel, some, case)
            _check_extras(kernel, some, case, _EXTRAS[rng_of_lists.integers(len(_EXTRAS))])
            _check_invalid_is_detected(kernel, some, case, rng)
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


def _some(rules: list[ScoringRule], rng: np.random.Generator) -> list[ScoringRule]:
    """Return all rules, or up to four of them: a kernel may compute different lists differently."""
    if len(rules) < 2 or rng.random() < 0.5:
        return rules
    n = rng.integers(1, min(4, len(rules)) + 1)
    return [rules[i] for i in rng.choice(len(rules), n, replace=False)]


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

    @property
    def is_rescaled(self) -> bool:
        """Whether rows are normalised, which paths round differently."""
        return bool(self.options.get("from_logits") or self.options.get("normalize"))

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
    """Check total, aleatoric and epistemic uncertainty."""
    samples = case.members().samples
    comparisons = _components(kernel, rules, case, _PLAIN)
    for rule, components in zip(rules, comparisons, strict=True):
        references = dict(zip(COMPONENTS, _by_formulas(samples, rule), strict=True))
        allowed = {name: _allowed(case, name, reference) for name, reference in references.items()}
        _compare(rule, components, references, allowed, case)


def _components(
    kernel: Kernel, rules: list[ScoringRule], case: _Case, extras: Extras
) -> list[dict[str, Array]]:
    """Return the components of each rule by the kernel, by their names."""
    members = case.members()
    results = kernel.compute(members.raw, members.weights, rules, extras)
    if results is None:
        raise KernelMismatch(f"the kernel declines valid predictions: {case}{_text(extras)}")
    names = _names(extras)
    if len(results) != len(names) * len(rules):
        raise KernelMismatch(
            f"the kernel does not return {len(names)} components for each rule: "
            f"{case}{_text(extras)}"
        )
    starts = range(0, len(results), len(names))
    return [dict(zip(names, results[i : i + len(names)], strict=True)) for i in starts]


def _allowed(case: _Case, name: str, reference: Array) -> Array:
    """Return how far a component may be from the array path's."""
    relative, absolute = _ALLOWED[str(case.array.dtype)]
    # The paths round rows differently when they normalise them, which moves EU by about its root.
    noise = 8 * absolute if case.is_rescaled else 0.0
    if name == "epistemic":
        return relative * np.maximum(reference, _SMALLEST) + noise * np.sqrt(reference)
    return relative * reference + absolute + noise


def _compare(
    rule: ScoringRule,
    components: dict[str, Array],
    references: dict[str, Array],
    allowed: dict[str, Array],
    case: _Case,
    extras: Extras = _PLAIN,
) -> None:
    """Raise at the first component that differs, is negative, or is not 0 where it must be."""
    for name, values in components.items():
        reference = references[name]
        if np.shape(values) != np.shape(reference):
            raise KernelMismatch(f"{rule!r} {name} has shape {np.shape(values)}: {case}")
        with np.errstate(invalid="ignore"):  # infinities are equal or wrong
            differs = ~(np.abs(values - reference) <= allowed[name]) & ~(values == reference)
        wrong = differs | (values < 0)
        if name == "epistemic" and (case.kind == "identical" or rule == get_rule("zero-one")):
            wrong |= (reference == 0) & (values != 0)
        if np.any(wrong):
            row = np.unravel_index(int(np.argmax(wrong)), np.shape(reference))
            raise KernelMismatch(
                f"{rule!r} {name}{list(map(int, row))} is {values[row]} by the kernel, "
                f"{reference[row]} by the array path: {case}{_text(extras)}"
            )


def _by_formulas(samples: Samples, rule: ScoringRule) -> tuple[Array, Array, Array]:
    """Return total, aleatoric and epistemic uncertainty as the array path computes them."""
    xp = namespace(samples.probs)
    aleatoric = samples.average(rule._entropy(xp, samples.probs))
    return rule._entropy(xp, samples.mean), aleatoric, rule._epistemic(xp, samples)


# -- extras ---------------------------------------------------------------------------------------

_ERRORS = tuple(f"standard error of {name}" for name in COMPONENTS)


def _names(extras: Extras) -> tuple[str, ...]:
    more = _ERRORS if extras.standard_errors else ("reverse",) if extras.reverse else ()
    return (*COMPONENTS, *more)


def _text(extras: Extras) -> str:
    return "".join(f", {name}" for name, is_wanted in vars(extras).items() if is_wanted)


def _check_extras(kernel: Kernel, rules: list[ScoringRule], case: _Case, extras: Extras) -> None:
    """Check what the kernel computes besides the three components, where it supports that."""
    members = case.members()
    n_members = members.raw.values.shape[-2]
    rules = [
        rule
        for rule in rules
        if kernel.supports(rule, extras) and (rule.jackknife_reduces_bias or not extras.unbiased)
    ]
    if not rules or case.array.size > _LARGE or (extras.jackknife and n_members < 2):
        return
    samples = members.samples
    weights = np.full(n_members, 1 / n_members) if samples.weights is None else samples.weights
    if extras.jackknife and (np.count_nonzero(weights, axis=-1) < 2).any():
        if kernel.compute(members.raw, members.weights, rules, extras) is not None:
            raise KernelMismatch(f"the kernel leaves out the only member with weight: {case}")
        return
    if extras.reverse and case.options.get("from_logits") and _is_subnormal(samples).any():
        return  # a kernel may decline what it would round to 0, and to an infinite divergence
    _ExtrasCheck(case, extras, samples).check(kernel, rules)


def _is_subnormal(samples: Samples) -> Array:
    """Return whether an instance has a probability below the normal numbers, ``(...)``."""
    tiny = np.finfo(samples.probs.dtype).tiny
    return (samples.probs < 4 * tiny).any(axis=(-2, -1))


class _ExtrasCheck:
    """A comparison of the extras of a case with those of the array path in float64."""

    def __init__(self, case: _Case, extras: Extras, samples: Samples) -> None:
        self.case, self.extras, self.samples = case, extras, samples
        self.relative, self.absolute = _ALLOWED[str(case.array.dtype)]
        self.noise = 8 * self.absolute if case.is_rescaled else 0.0  # as in _allowed
        self.wide = samples.in_float64()
        # Leaving out a member of weight w divides errors of rounding by up to √(1 − w).
        n_members = samples.shape[-2]
        w = np.full(n_members, 1 / n_members) if self.wide.weights is None else self.wide.weights
        rest = np.sort(w, axis=-1)[..., :-1].sum(axis=-1)
        self.factor = 1 / np.sqrt(np.maximum(rest, np.finfo(float).tiny))

    def check(self, kernel: Kernel, rules: list[ScoringRule]) -> None:
        case, extras = self.case, self.extras
        plain = _components(kernel, rules, case, _PLAIN)
        corrected = _components(kernel, rules, case, extras)
        members = Members.of(self.wide, None, InputOptions())
        arrays = iter(components_by_arrays(members, rules, extras))
        for rule, components, own_plain in zip(rules, corrected, plain, strict=True):
            references = {name: next(arrays) for name in components}
            allowed = {name: self.allowed(rule, name, references) for name in references}
            _compare(rule, components, references, allowed, case, extras)
            least = own_plain["epistemic"] * (1 - self.relative)
            if extras.unbiased and (components["epistemic"] < least).any():
                raise KernelMismatch(
                    f"{rule!r} epistemic is smaller after its correction: {case}{_text(extras)}"
                )

    def allowed(self, rule: ScoringRule, name: str, references: dict[str, Array]) -> Array:
        """Return how far a component may be from the array path's; any value where it is inf."""
        reference = np.where(np.isfinite(references[name]), references[name], 0.0)
        if name in COMPONENTS:
            noise = self.noise * np.sqrt(reference) if self.extras.unbiased else 0.0
            return _allowed(self.case, name, reference) + noise * self.factor
        k = self.samples.n_classes
        size = 1 + np.max(rule.loss_vector(np.full(k, 1 / k)))
        rounding = self.absolute * size
        if name == "reverse":
            points = self.wide.probs
            noise = self.noise * size * np.sqrt(1 + reference)
            allowed = self.relative * reference + rounding + noise
            is_log = isinstance(rule.structure, Separable) and rule.structure.power == 1
            if not is_log:  # others need not be accurate there
                allowed = np.where(_is_subnormal(self.samples), np.inf, allowed)
        else:
            # A kernel may leave out of the gradient of H what is the same for all classes.
            off = np.abs(self.wide.sums - 1).max(axis=-1)
            points = self.wide.mean[..., None, :]
            allowed = self.relative * reference + 8 * rounding + self.noise + 4 * off * size
            allowed = allowed * self.factor
        if isinstance(rule, DecisionRule) and name in {"reverse", _ERRORS[-1]}:
            # Rounding errors choose among decisions that are tied.
            is_tied = _margin(rule, points) < 64 * rounding
            allowed = np.where(is_tied.any(axis=-1), np.inf, allowed)
        return allowed


def _margin(rule: DecisionRule, p: Array) -> Array:
    """Return by how much the decision under p is better than the next, ``(...)``."""
    if isinstance(rule.structure, LargestClasses):
        k = rule.structure.k
        if k == p.shape[-1]:
            return np.full(p.shape[:-1], np.inf)
        falling = -np.sort(-p, axis=-1)
        return falling[..., k - 1] - falling[..., k]
    regrets = np.sort(rule._regret(np, p), axis=-1)
    return regrets[..., 1] if regrets.shape[-1] > 1 else np.full(p.shape[:-1], np.inf)


# -- invalid entries ------------------------------------------------------------------------------


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
