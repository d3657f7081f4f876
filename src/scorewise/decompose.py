"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from scorewise import kernels, validate
from scorewise._array import Array, Namespace, is_dask, map_dask_rows, namespace
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import DecisionRule, ScoringRule, get_rule
from scorewise.rules.quadratics import gini_terms

RuleLike = str | ScoringRule


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Total, aleatoric and epistemic uncertainty; ``tu, au, eu = decomposition`` unpacks them.

    Attributes
    ----------
    total, aleatoric, epistemic : arrays (...)
        In the units of the rule's loss, in the library and on the device of the input.
    standard_error : Decomposition or None
        Standard errors of the three, where they were asked for or where numbers were simulated.
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    standard_error: Decomposition | None = None

    def __iter__(self) -> Iterator[Array]:
        return iter((self.total, self.aleatoric, self.epistemic))

    def __repr__(self) -> str:
        lines = [
            f"  {name:9} = {np.array2string(np.asarray(value), precision=4, threshold=6)}"
            if isinstance(value, np.ndarray | np.floating)
            else f"  {name:9} = {value!r}"
            for name, value in zip(("total", "aleatoric", "epistemic"), self, strict=True)
        ]
        if self.standard_error is not None:
            lines.append("  standard_error = Decomposition(...)")
        return "\n".join(["Decomposition(", *lines, ")"])


class _Options(TypedDict, total=False):
    """The keywords of :func:`decompose`, for its overloads."""

    weights: Any
    member_axis: int
    class_axis: int
    from_logits: bool
    normalize: bool
    check: bool
    unbiased: bool
    standard_errors: bool


@overload
def decompose(predictions: Any, rule: RuleLike, **options: Unpack[_Options]) -> Decomposition: ...
@overload
def decompose(
    predictions: Any,
    rule: Sequence[RuleLike] | Mapping[str, RuleLike],
    **options: Unpack[_Options],
) -> dict[str, Decomposition]: ...
def decompose(
    predictions: Any,
    rule: RuleLike | Sequence[RuleLike] | Mapping[str, RuleLike],
    *,
    weights: Any = None,
    member_axis: int = -2,
    class_axis: int = -1,
    from_logits: bool = False,
    normalize: bool = False,
    check: bool = True,
    unbiased: bool = False,
    standard_errors: bool = False,
) -> Decomposition | dict[str, Decomposition]:
    """Split predictive uncertainty into its aleatoric and epistemic part.

    Use the total of your own loss to abstain, the epistemic part under ``"log"`` to detect what is
    out of distribution, the epistemic part under ``"zero-one"`` to choose what to label next.

    With θ̄ = E_Q θ: TU = H(θ̄), AU = E_Q H(θ), EU = E_Q D(θ̄, θ) = TU − AU ≥ 0.

    Parameters
    ----------
    predictions : array (..., M, K), Samples or Dirichlet
        Probabilities of M members (posterior samples) for K classes, as a NumPy, torch, JAX, CuPy
        or Dask array; or a distribution.
    rule : str, ScoringRule, or a sequence or mapping of them
        One rule gives one result. Several give a dict by name (as written, or by the mapping's
        keys), computed together.
    weights : array (M,) or (..., M), optional
        Member weights in any scale; those of 0 do not count.
    member_axis, class_axis : int
        Where members and classes sit, moved without a copy: ``member_axis=0`` for ``(M, N, K)``,
        ``member_axis=0, class_axis=2`` for a segmentation ``(M, N, K, H, W)``.
    from_logits : bool
        Take a softmax first; -inf masks a class.
    normalize : bool
        Rescale rows to sum to 1.
    check : bool
        Refuse bad input; ``False`` trusts it.
    unbiased : bool
        Correct EU for the number of members by the jackknife, EU + Σ_m (1 − w_m) D(θ̄, θ̄₋ₘ) with
        weights w that sum to 1 (M/(M−1) times EU for quadratic rules), and set TU = AU + EU.
        Needs two members with weight, and no decision rule (zero-one, top-k, cost matrix).
    standard_errors : bool
        Add ``.standard_error``, jackknife errors from the spread of the members.

    Returns
    -------
    Decomposition, or dict of str to Decomposition
        Each component has the shape of the instances, ``(...)``.

    Raises
    ------
    InvalidInput
        If predictions, weights or options are not what they must be.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.6, 0.4]]])
    >>> sw.decompose(probs, "zero-one")
    Decomposition(
      total     = [0.5 0.4]
      aleatoric = [0.1 0.4]
      epistemic = [0.4 0. ]
    )
    >>> many = sw.decompose(probs, ["log", "brier"])
    >>> many["brier"].epistemic.round(4)
    array([0.32, 0.  ])
    """
    named = named_rules(rule)
    rules = list(named.values())
    options: dict[str, Any] = {
        "member_axis": member_axis, "class_axis": class_axis, "from_logits": from_logits,
        "normalize": normalize, "check": check,
    }  # fmt: skip
    given = [name for name, value in options.items() if value != _DEFAULTS[name]]
    if weights is not None:
        given.insert(0, "weights")
    if isinstance(predictions, Dirichlet):
        if given or unbiased or standard_errors:
            raise InvalidInput(
                "a Dirichlet has no members: weights, axes, logits, unbiased and standard_errors "
                "do not apply to it"
            )
        results = [_of_dirichlet(predictions, r) for r in rules]
    elif is_dask(predictions):
        results = _of_dask(predictions, weights, rules, options, unbiased, standard_errors)
    else:
        if not isinstance(predictions, Samples):
            predictions = Samples(predictions, weights, **options)
        elif given:
            raise InvalidInput(f"{', '.join(given)}: pass to Samples(...), not beside one")
        results = _of_samples(predictions, rules, unbiased, standard_errors)
    if isinstance(rule, str | ScoringRule):
        return results[0]
    return dict(zip(named, results, strict=True))


_DEFAULTS: dict[str, Any] = {
    "member_axis": -2, "class_axis": -1, "from_logits": False, "normalize": False, "check": True,
}  # fmt: skip


def named_rules(
    rule: RuleLike | Sequence[RuleLike] | Mapping[str, RuleLike],
) -> dict[str, ScoringRule]:
    """Rules by the names that their results will have."""
    if isinstance(rule, str | ScoringRule):
        return {"": get_rule(rule)}
    if isinstance(rule, Mapping):
        named = [(str(name), get_rule(r)) for name, r in rule.items()]
    elif isinstance(rule, Sequence | set | frozenset):
        named = [(r if isinstance(r, str) else get_rule(r).name, get_rule(r)) for r in rule]
    else:
        raise InvalidInput(f"{rule!r} is neither a scoring rule nor several of them")
    names = [name for name, _ in named]
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        raise InvalidInput(
            f"two rules are called {twice!r}; pass a mapping to give each a name of its own"
        )
    return dict(named)


# -- members --------------------------------------------------------------------------------------


def _of_samples(
    samples: Samples, rules: Sequence[ScoringRule], unbiased: bool, standard_errors: bool
) -> list[Decomposition]:
    for rule in rules:
        rule.check_classes(samples.n_classes)
    if unbiased or standard_errors:
        _check_jackknife(samples, rules, unbiased)
    elif kernel := kernels.pick(samples, rules):
        return [Decomposition(*parts) for parts in kernel.compute(samples, rules)]
    blocks = [
        [_components(block, rule, unbiased, standard_errors) for rule in rules]
        for block in samples.blocks()
    ]
    if len(blocks) == 1:
        return [_gather(parts) for parts in blocks[0]]
    xp = namespace(samples.probs)
    return [
        _gather([xp.concat(pieces) for pieces in zip(*parts, strict=True)])
        for parts in zip(*blocks, strict=True)
    ]


def _gather(parts: Sequence[Array]) -> Decomposition:
    """Three components, or six with their standard errors."""
    total, aleatoric, epistemic, *errors = parts
    return Decomposition(total, aleatoric, epistemic, Decomposition(*errors) if errors else None)


def _components(
    samples: Samples, rule: ScoringRule, unbiased: bool, standard_errors: bool
) -> list[Array]:
    """Total, aleatoric and epistemic by the array path, and their errors where asked for."""
    xp = namespace(samples.probs)
    entropies = rule._entropy(xp, samples.probs)
    total = rule._entropy(xp, samples.mean)
    aleatoric = samples.average(entropies)
    epistemic = rule._epistemic(xp, samples)
    parts = [total, aleatoric, epistemic]
    if unbiased or standard_errors:
        left_out = _LeftOut(xp, samples, rule)
        if standard_errors:
            parts += left_out.errors(entropies, *parts)
        if unbiased:
            parts[2] = epistemic + left_out.bias()
            parts[0] = aleatoric + parts[2]
    return parts


class _LeftOut:
    """The weighted jackknife: what changes when member m, of share w, is left out.

    T₋ₘ is a quantity without member m and ψ_m = (1 − w_m)(T − T₋ₘ) its influence. The bias is
    −Σψ; the variance Σ(ψ_m − w_m Σψ)²/(1 − w_m). With equal weights both are Quenouille's and
    Tukey's. θ̄₋ₘ − θ̄ = −w(θ_m − θ̄)/(1 − w) is used as it is, so that nothing cancels.
    """

    def __init__(self, xp: Namespace, samples: Samples, rule: ScoringRule) -> None:
        self.xp, self.samples, self.rule = xp, samples, rule
        m = samples.probs.shape[-2]
        self.share = xp.ones_like(samples.probs[..., 0]) / m
        if samples.weights is not None:
            self.share = samples.weights * xp.ones_like(self.share)
        self.center = samples.mean[..., None, :]
        self.deviation = samples.probs - self.center
        shift = -self.deviation * (self.share / (1 - self.share))[..., None]
        self.mean = xp.maximum(self.center + shift, 0.0)  # θ̄₋ₘ
        self.excess = rule._divergence(xp, self.center, self.mean, shift)  # D(θ̄, θ̄₋ₘ)

    def bias(self) -> Array:
        """How far the plug-in EU is expected to be too small."""
        return self.xp.sum((1 - self.share) * self.excess, axis=-1)

    def errors(self, entropies: Array, total: Array, aleatoric: Array, eu: Array) -> list[Array]:
        """Standard errors of the three components."""
        w, center = self.share, self.center
        without = self.rule._entropy(self.xp, self.mean)
        divergence = self.rule._divergence(self.xp, center, self.samples.probs, self.deviation)
        return [
            self._error((1 - w) * (total[..., None] - without)),
            self._error(w * (entropies - aleatoric[..., None])),
            self._error(w * (divergence - eu[..., None]) + (1 - w) * self.excess),
        ]

    def _error(self, influence: Array) -> Array:
        spread = influence - self.share * self.xp.sum(influence, axis=-1, keepdims=True)
        return self.xp.sqrt(self.xp.sum(spread**2 / (1 - self.share), axis=-1))


def _check_jackknife(samples: Samples, rules: Sequence[ScoringRule], unbiased: bool) -> None:
    w = samples.weights
    alone = samples.probs.shape[-2] < 2 if w is None else bool((w >= 1).any())
    if alone:
        raise InvalidInput(
            "unbiased and standard_errors compare members with each other and need at least two "
            "with weight, for every instance"
        )
    decision = next((r for r in rules if isinstance(r, DecisionRule)), None)
    if unbiased and decision is not None:
        raise InvalidInput(
            f"unbiased=True does more harm than good for {decision!r}: the jackknife assumes a "
            "smooth rule, and a decision jumps; use the plain estimate, or a smooth rule such as "
            "'log' or 'brier'"
        )


# -- Dirichlets and Dask --------------------------------------------------------------------------


def _of_dirichlet(q: Dirichlet, rule: ScoringRule) -> Decomposition:
    rule.check_classes(q.n_classes)
    xp = namespace(q.alpha)
    total = rule._entropy(xp, q.mean)
    epistemic, error = rule._dirichlet_epistemic(xp, q)
    aleatoric = total - epistemic
    if rule.never_negative:
        aleatoric = xp.maximum(aleatoric, 0.0)
    errors = None if error is None else Decomposition(xp.zeros_like(total), error, error)
    return Decomposition(total, aleatoric, epistemic, errors)


def _of_dask(
    probs: Array,
    weights: Any,
    rules: Sequence[ScoringRule],
    options: dict[str, Any],
    unbiased: bool,
    standard_errors: bool,
) -> list[Decomposition]:
    """The same, block by block and lazily; a bad row is reported when its block is computed."""
    axes = {name: options.pop(name) for name in ("member_axis", "class_axis")}

    def block(p: Array, w: Array | None) -> Array:
        samples = Samples(p, w, **options)
        results = _of_samples(samples, rules, unbiased, standard_errors)
        parts = [c for d in results for c in (*d, *(d.standard_error or ()))]
        return namespace(samples.probs).stack(parts)

    name = "logits" if options["from_logits"] else "probs"
    where = validate.layout(validate.floating(probs, name).ndim, **axes, name=name)
    per_rule = 6 if standard_errors else 3
    stacked = map_dask_rows(
        block, where.canonical(namespace(probs), probs), weights, len(rules) * per_rule
    )
    return [
        _gather([stacked[i * per_rule + j] for j in range(per_rule)]) for i in range(len(rules))
    ]


# -- beside the decomposition ---------------------------------------------------------------------


def reverse_epistemic(probs: Any, rule: RuleLike, **options: Any) -> Array:
    """E_Q D(θ, θ̄): what predicting one member costs when the mean is right.

    Use it to compare with work that measures disagreement this way round; infinite under log when
    a member says 0 where another does not.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    rule : str or ScoringRule
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    array (...)

    Examples
    --------
    >>> import scorewise as sw
    >>> round(float(sw.reverse_epistemic([[0.9, 0.1], [0.5, 0.5]], "brier")), 4)
    0.08
    """
    samples, found = _members(probs, options), get_rule(rule)
    found.check_classes(samples.n_classes)
    return _reverse(samples, found)


def pairwise_epistemic(probs: Any, rule: RuleLike, **options: Any) -> Array:
    """E D(θ, θ′) over two independent members: EU + E D(θ, θ̄).

    Use it to compare with work that measures disagreement between pairs (for log, the expected
    pairwise Kullback–Leibler divergence); infinite under log when a member says 0.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    rule : str or ScoringRule
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    array (...)

    Examples
    --------
    >>> import scorewise as sw
    >>> round(float(sw.pairwise_epistemic([[0.9, 0.1], [0.5, 0.5]], "brier")), 4)
    0.16
    """
    samples, found = _members(probs, options), get_rule(rule)
    found.check_classes(samples.n_classes)
    return found._epistemic(namespace(samples.probs), samples) + _reverse(samples, found)


def label_wise(probs: Any, **options: Any) -> Decomposition:
    """Per-class variance decomposition: each class against the rest.

    Use it to see which class an instance's uncertainty is about. For class k, TU = θ̄(1 − θ̄),
    AU = E θ(1 − θ) and EU = Var θ; summed over classes they are Brier's.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    Decomposition
        Of arrays ``(..., K)``.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.label_wise([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]).epistemic.round(4)
    array([0.04, 0.04, 0.  ])
    """
    samples = _members(probs, options)
    xp = namespace(samples.probs)
    deviation = samples.probs - samples.mean[..., None, :]
    return Decomposition(
        gini_terms(xp, samples.mean),
        samples.average(gini_terms(xp, samples.probs)),
        samples.average(deviation * deviation),
    )


def _members(probs: Any, options: dict[str, Any]) -> Samples:
    return probs if isinstance(probs, Samples) and not options else Samples(probs, **options)


def _reverse(samples: Samples, rule: ScoringRule) -> Array:
    xp = namespace(samples.probs)
    mean = samples.mean[..., None, :] + 0 * samples.probs
    return samples.average(rule._divergence(xp, samples.probs, mean, mean - samples.probs))
