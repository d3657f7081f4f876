"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, overload

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import Array, as_dtype_of, namespace
from scorewise._receive import Options, Unchecked
from scorewise.decompose._jackknife import LeftOut, check_members
from scorewise.decompose._members import Members, given_options
from scorewise.decompose._result import Decomposition
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule, get_rule

RuleLike = str | ScoringRule


class _Keywords(TypedDict, total=False):
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
def decompose(predictions: Any, rule: RuleLike, **options: Unpack[_Keywords]) -> Decomposition: ...
@overload
def decompose(
    predictions: Any,
    rule: Iterable[RuleLike] | Mapping[str, RuleLike],
    **options: Unpack[_Keywords],
) -> dict[str, Decomposition]: ...
def decompose(
    predictions: Any,
    rule: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
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
    rule : str, ScoringRule, or several in a list or a mapping
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
    options = Options(member_axis, class_axis, from_logits, normalize, check)
    jackknife = Jackknife(unbiased, standard_errors)
    if isinstance(predictions, Dirichlet):
        if given := given_options(weights, options, jackknife):
            raise InvalidInput(
                f"{given}: a Dirichlet has no members and was checked when it was made, so this "
                "does not apply to it"
            )
        results = [_of_dirichlet(predictions, r) for r in rules]
    else:
        results = _of_members(Members.of(predictions, weights, options), rules, jackknife)
    if isinstance(rule, str | ScoringRule):
        return results[0]
    return dict(zip(named, results, strict=True))


def decompose_received(
    given: Unchecked, weights: Any, rules: Sequence[ScoringRule]
) -> list[Decomposition]:
    """The same for predictions that were received before, and know where they come from."""
    return _of_members(Members(given, weights), rules, NO_JACKKNIFE)


def rule_name(rule: RuleLike) -> str:
    """What a rule is called: as it was written, or by its own name."""
    return rule if isinstance(rule, str) else get_rule(rule).name


def named_rules(
    rule: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
) -> dict[str, ScoringRule]:
    """Rules by the names that their results will have."""
    if isinstance(rule, str | ScoringRule):
        return {"": get_rule(rule)}
    if isinstance(rule, Mapping):
        named = [(name, get_rule(r)) for name, r in rule.items()]
    elif isinstance(rule, Iterable):
        named = [(rule_name(r), get_rule(r)) for r in rule]
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


@dataclass(frozen=True)
class Jackknife:
    """What to learn from leaving members out."""

    unbiased: bool = False
    standard_errors: bool = False

    def __bool__(self) -> bool:
        return bool(self.unbiased or self.standard_errors)


NO_JACKKNIFE = Jackknife()


def _of_members(
    members: Members, rules: Sequence[ScoringRule], jackknife: Jackknife
) -> list[Decomposition]:
    members.check_rules(rules)
    if jackknife:
        check_members(members.given.values.shape[-2], rules, jackknife.unbiased)
    per_rule = 6 if jackknife.standard_errors else 3
    parts = members.compute(lambda m: _parts(m, rules, jackknife), per_rule * len(rules))
    return [_gather(parts[i : i + per_rule]) for i in range(0, len(parts), per_rule)]


def _gather(parts: Sequence[Array]) -> Decomposition:
    """Three components, or six with their standard errors."""
    total, aleatoric, epistemic, *errors = parts
    return Decomposition(total, aleatoric, epistemic, Decomposition(*errors) if errors else None)


def _parts(members: Members, rules: Sequence[ScoringRule], jackknife: Jackknife) -> list[Array]:
    """All components of all rules: by a kernel where one can do it, else by the array path."""
    given, weights = members.given, members.weights
    kernel = None if jackknife else kernels.pick(given, weights, rules)
    results = kernel.compute(given, weights, rules) if kernel is not None else None
    if results is not None:
        return [part for parts in results for part in parts]
    return array_path(members, rules, jackknife)


def array_path(
    members: Members, rules: Sequence[ScoringRule], jackknife: Jackknife = NO_JACKKNIFE
) -> list[Array]:
    """All components of all rules, one rule after the other, from their own formulas."""
    samples = members.samples
    if jackknife:
        validate.company(samples.weights, members.given.layout)
    return samples.by_blocks(
        lambda block: [part for rule in rules for part in _components(block, rule, jackknife)]
    )


def _components(samples: Samples, rule: ScoringRule, jackknife: Jackknife) -> list[Array]:
    """Total, aleatoric and epistemic by the array path, and their errors where asked for."""
    xp = namespace(samples.probs)
    entropies = rule._entropy(xp, samples.probs)
    total = rule._entropy(xp, samples.mean)
    aleatoric = samples.average(entropies)
    epistemic = rule._epistemic(xp, samples)
    parts = [total, aleatoric, epistemic]
    if jackknife:
        left_out = LeftOut(xp, samples, rule)
        if jackknife.standard_errors:
            parts += left_out.errors(entropies, *parts)
        if jackknife.unbiased:
            parts[2] = epistemic + left_out.bias()
            parts[0] = aleatoric + parts[2]
    return parts


# -- Dirichlets -----------------------------------------------------------------------------------


def _of_dirichlet(given: Dirichlet, rule: ScoringRule) -> Decomposition:
    rule.check_classes(given.n_classes)
    q = given.widened(on_host=rule.any_library)
    xp = namespace(q.alpha)
    total = rule._entropy(xp, q.mean)
    epistemic, error = rule._dirichlet_epistemic(xp, q)
    aleatoric = total - epistemic
    if rule.never_negative:
        aleatoric = xp.maximum(aleatoric, 0.0)
    parts = [total, aleatoric, epistemic]
    if error is not None:
        parts += [xp.zeros_like(total), error, error]
    own = namespace(given.alpha)
    if own is not xp:
        return _gather([as_dtype_of(own, part, given.alpha) for part in parts])
    return _gather([xp.astype(part, given.alpha.dtype) for part in parts])  # with its gradient
