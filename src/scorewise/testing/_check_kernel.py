"""A check that a kernel agrees with the array path and obeys its laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise.decompose import COMPONENTS, components_by_arrays
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, KernelMismatch
from scorewise.kernels import Extras, Kernel, Usability, accumulates, averages, differentiates
from scorewise.rules import DEFAULT_RULES, DecisionRule, RuleLike, ScoringRule, get_rule
from scorewise.rules.structures import Separable
from scorewise.testing._check_accumulator import check_accumulator
from scorewise.testing._check_actions import check_actions
from scorewise.testing._check_averages import check_averages, check_averages_of_invalid
from scorewise.testing._check_gradient import check_gradient
from scorewise.testing._check_predictor import check_predictor
from scorewise.testing._kernel_cases import (
    ALLOWED,
    ERRORS,
    Case,
    allowed_error,
    by_formulas,
    compare,
    components_by_kernel,
    draw,
    is_exact,
    is_subnormal,
    margin,
    text_of,
)

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
    the corrected epistemic component may not be below the plain one. So must what the kernel has
    besides: the risk of a predictor, cheapest actions, means, components by class, gradients, and
    accumulators, to which the members are added one by one. Then an entry is made invalid, which
    the kernel must detect. Arrays that the kernel declines are skipped, unless it declines them
    only because they are small.

    Parameters
    ----------
    kernel : Kernel
        A module or object with ``is_usable``, ``supports`` and ``compute``, as in
        ``scorewise.kernels``; perhaps also with what ``AveragingKernel``,
        ``DifferentiatingKernel`` and ``AccumulatingKernel`` have.
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
    rng_of_lists, rng_of_accumulators, rng_of_predictors, rng_of_gradients = rng.spawn(4)
    answers = []
    for _ in range(n_trials):
        case = draw(rng)
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
            check_predictor(kernel, some, case, rng_of_predictors)
            check_actions(kernel, some, case)
            if averages(kernel):
                check_averages(kernel, case)
            if differentiates(kernel):
                check_gradient(kernel, some, case, rng_of_gradients)
            if accumulates(kernel) and case.array.size <= _LARGE:
                check_accumulator(kernel, some, case, rng_of_accumulators)
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


def _answer(kernel: Kernel, case: Case) -> Usability:
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


def _check_results(kernel: Kernel, rules: list[ScoringRule], case: Case) -> None:
    """Check total, aleatoric and epistemic uncertainty."""
    samples = case.members().samples
    comparisons = components_by_kernel(kernel, rules, case, _PLAIN)
    for rule, components in zip(rules, comparisons, strict=True):
        references = dict(zip(COMPONENTS, by_formulas(samples, rule), strict=True))
        allowed = {
            name: allowed_error(case, name, reference) for name, reference in references.items()
        }
        compare(repr(rule), components, references, allowed, case, exact=is_exact(case, rule))


# -- extras ---------------------------------------------------------------------------------------


def _check_extras(kernel: Kernel, rules: list[ScoringRule], case: Case, extras: Extras) -> None:
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
    if extras.reverse and case.options.get("from_logits") and is_subnormal(samples).any():
        return  # a kernel may decline what it would round to 0, and to an infinite divergence
    _ExtrasCheck(case, extras, samples).check(kernel, rules)


class _ExtrasCheck:
    """A comparison of the extras of a case with those of the array path in float64."""

    def __init__(self, case: Case, extras: Extras, samples: Samples) -> None:
        self.case, self.extras, self.samples = case, extras, samples
        self.relative, self.absolute = ALLOWED[str(case.array.dtype)]
        self.noise = 8 * self.absolute if case.is_rescaled else 0.0  # as in allowed_error
        self.wide = samples.in_float64()
        # Leaving out a member of weight w divides errors of rounding by up to √(1 − w).
        n_members = samples.shape[-2]
        w = np.full(n_members, 1 / n_members) if self.wide.weights is None else self.wide.weights
        rest = np.sort(w, axis=-1)[..., :-1].sum(axis=-1)
        self.factor = 1 / np.sqrt(np.maximum(rest, np.finfo(float).tiny))

    def check(self, kernel: Kernel, rules: list[ScoringRule]) -> None:
        case, extras = self.case, self.extras
        plain = components_by_kernel(kernel, rules, case, _PLAIN)
        corrected = components_by_kernel(kernel, rules, case, extras)
        members = Members.of(self.wide, None, InputOptions())
        arrays = iter(components_by_arrays(members, rules, extras))
        for rule, components, own_plain in zip(rules, corrected, plain, strict=True):
            references = {name: next(arrays) for name in components}
            allowed = {name: self.allowed(rule, name, references) for name in references}
            compare(
                repr(rule),
                components,
                references,
                allowed,
                case,
                text_of(extras),
                exact=is_exact(case, rule),
            )
            least = own_plain["epistemic"] * (1 - self.relative)
            if extras.unbiased and (components["epistemic"] < least).any():
                raise KernelMismatch(
                    f"{rule!r} epistemic is smaller after its correction: {case}{text_of(extras)}"
                )

    def allowed(self, rule: ScoringRule, name: str, references: dict[str, Array]) -> Array:
        """Return how far a component may be from the array path's; any value where it is inf."""
        reference = np.where(np.isfinite(references[name]), references[name], 0.0)
        if name in COMPONENTS:
            noise = self.noise * np.sqrt(reference) if self.extras.unbiased else 0.0
            return allowed_error(self.case, name, reference) + noise * self.factor
        k = self.samples.n_classes
        size = 1 + np.max(rule.loss_vector(np.full(k, 1 / k)))
        rounding = self.absolute * size
        if name == "reverse":
            points = self.wide.probs
            noise = self.noise * size * np.sqrt(1 + reference)
            allowed = self.relative * reference + rounding + noise
            is_log = isinstance(rule.structure, Separable) and rule.structure.power == 1
            if not is_log:  # others need not be accurate there
                allowed = np.where(is_subnormal(self.samples), np.inf, allowed)
        else:
            # A kernel may leave out of the gradient of H what is the same for all classes.
            off = np.abs(self.wide.sums - 1).max(axis=-1)
            points = self.wide.mean[..., None, :]
            allowed = self.relative * reference + 8 * rounding + self.noise + 4 * off * size
            allowed = allowed * self.factor
        if isinstance(rule, DecisionRule) and name in {"reverse", ERRORS[-1]}:
            # Rounding errors choose among decisions that are tied.
            is_tied = margin(rule, points) < 64 * rounding
            allowed = np.where(is_tied.any(axis=-1), np.inf, allowed)
        return allowed


# -- invalid entries ------------------------------------------------------------------------------


def _check_invalid_is_detected(
    kernel: Kernel, rules: list[ScoringRule], case: Case, rng: np.random.Generator
) -> None:
    if not case.array.size:
        return
    value, invalid = case.with_invalid_entry(rng)
    members = invalid.members()
    if kernel.compute(members.raw, members.weights, rules, _PLAIN) is not None:
        raise KernelMismatch(f"the kernel does not detect an entry of {value}: {case}")
    if averages(kernel):
        check_averages_of_invalid(kernel, invalid, value)
