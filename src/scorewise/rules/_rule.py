"""The base classes of scoring rules: formulas, derived quantities, and facts about a rule."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    at_least,
    contiguous_rows,
    difference,
    namespace,
    one_hot,
    plus,
)
from scorewise._inputs import apply_floor, classes_last, raw_predictions
from scorewise._numerics import sum_product
from scorewise._text import PERCENT, percent
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules.structures import Structure

BY_LARGEST = "largest probability"  # order key: totals fall as the largest probability rises


@dataclass(frozen=True)
class Unit:
    """The unit of a rule's losses: its name, and how values are formatted.

    Attributes
    ----------
    noun : str
        The name of a loss in a sentence, such as ``"error"``, ``"cost"`` or ``"Brier loss"``.
    is_proportion : bool
        Whether every loss is 0 or 1, so that a mean loss is a proportion of rows.
    label : str
        The label of an axis of losses, such as ``"log loss (nats)"``.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.zero_one.unit.format(0.0512), sw.rules.log.unit.format(0.0512)
    ('5.12 %', '0.0512')
    """

    noun: str
    is_proportion: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.noun)

    def format(self, value: float) -> str:
        """Return ``value``, a mean loss, in a few digits: as a percentage if it is a proportion."""
        return percent(value) if self.is_proportion else f"{value:.4g}"

    def format_exact(self, value: float) -> str:
        """Return ``value`` in up to 12 digits, for guarantees, which must not be rounded."""
        return percent(value, ".12g") if self.is_proportion else f"{value:.12g}"

    def format_fixed(self, value: float) -> str:
        """Return ``value`` with fixed decimals, for columns; in more if these are all 0."""
        if self.is_proportion:
            return percent(value, ".2f")
        fixed = f"{value:.4f}"
        return fixed if value == 0 or float(fixed) != 0 else self.format(value)

    @property
    def scale(self) -> int:
        """The factor from losses to the numbers that are shown: 100 for percentages, or 1."""
        return 100 if self.is_proportion else 1

    @property
    def suffix(self) -> str:
        """What follows these numbers: ``" %"`` for percentages, or nothing."""
        return PERCENT if self.is_proportion else ""


class ScoringRule(abc.ABC):
    """A loss ℓ(p, y) for predicting p when y happens, with its entropy and divergence.

    Rules are immutable values that can be printed, compared and pickled. A new rule is a frozen
    dataclass with three formulas over ``(..., K)`` arrays of any library, for rows that sum to 1 up
    to rounding:

    - ``_losses(xp, p)``: ℓ(p, ·), ``(..., K)``;
    - ``_entropy(xp, p)``: H(p), never negative by rounding;
    - ``_divergence(xp, q, p, d)``: D(q, p) with d = p − q, exactly 0 where d is.

    It also overrides the facts whose defaults do not hold: ``family``, ``structure``,
    ``is_symmetric``, ``unit``, ``losses_are_gradients``, ``_largest_loss`` and
    ``_order_of_totals``.

    Methods with an underscore are the interface between a rule and the rest of scorewise: a
    subclass defines them, and scorewise calls them with arrays that it has checked. Users call the
    methods without one, which check their arguments.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import scorewise as sw
    >>> @dataclass(frozen=True)
    ... class HalfBrier(sw.rules.ScoringRule):
    ...     family = "half_brier"
    ...     def _losses(self, xp, p): return (xp.sum(p * p, axis=-1, keepdims=True) + 1) / 2 - p
    ...     def _entropy(self, xp, p): return (1 - xp.sum(p * p, axis=-1)) / 2
    ...     def _divergence(self, xp, q, p, d): return xp.sum(d * d, axis=-1) / 2
    >>> sw.check_rule(HalfBrier(), n_classes=3)  # no error: the rule is proper
    >>> float(sw.decompose([[1.0, 0.0], [0.5, 0.5]], HalfBrier()).epistemic)
    0.0625
    """

    family: ClassVar[str]
    """The rule's name in Python, such as ``top_k``; with dashes, its name in strings."""

    structure: Structure | None = None
    """The form of its entropy and its parameters, by which kernels compute it; None if it has none
    of these forms, so that only its formulas are used."""

    is_symmetric: ClassVar[bool] = False
    """Whether permuting the classes changes nothing."""

    never_negative: ClassVar[bool] = True
    """Whether no loss, and so no uncertainty, is ever negative."""

    jackknife_reduces_bias: ClassVar[bool] = True
    """Whether the jackknife reduces the bias of EU: it needs a smooth entropy."""

    has_slow_divergence: ClassVar[bool] = False
    """Whether D of float32 arrays takes longer than H in float64, which is then tried first."""

    needs_much_memory: ClassVar[bool] = False
    """Whether EU from divergences or regrets holds ten arrays of the size of the members."""

    n_block_parts: ClassVar[int] = 1
    """In how many parts a block of members is worked on; more if formulas hold many arrays."""

    runs_on_any_library: ClassVar[bool] = True
    """Whether the formulas run on arrays of any library, so that values may be moved to another."""

    @property
    def losses_are_gradients(self) -> bool:
        """Whether gradients of torch are taken from the losses, which are the gradient of H.

        They are if the rule declares a structure. Otherwise torch records its formulas, which may
        have parameters that are learnt, and which may be improper.
        """
        return self.structure is not None

    # -- identity ---------------------------------------------------------------------------------

    def _parameters(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in dataclasses.fields(self))  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """The rule as a string that :func:`scorewise.get_rule` reads, such as ``"top-k:5"``."""
        numbers = ",".join(_short(x) for x in self._parameters())
        return self.family.replace("_", "-") + (f":{numbers}" if numbers else "")

    def __repr__(self) -> str:
        arguments = ", ".join(_show(x) for x in self._parameters())
        return f"{self.family}({arguments})" if arguments else self.family

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def _key(self) -> tuple[Any, ...]:
        return tuple(
            (x.shape, x.tobytes()) if isinstance(x, np.ndarray) else x for x in self._parameters()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parameters()

    # -- the three formulas, and methods with defaults --------------------------------------------

    @abc.abstractmethod
    def _losses(self, xp: Namespace, p: Array) -> Array: ...

    @abc.abstractmethod
    def _entropy(self, xp: Namespace, p: Array) -> Array: ...

    @abc.abstractmethod
    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array: ...

    def check_classes(self, n_classes: int) -> None:
        """Raise InvalidInput unless the rule can score predictions of ``n_classes`` classes."""
        if self.structure is not None and not self.structure.fits(n_classes):
            raise InvalidInput(
                f"the structure of {self!r} is not for {n_classes} classes, as the predictions have"
            )

    def for_classes(self, classes: Iterable[Any] | None) -> Self:
        """Return the rule for predictions whose classes are in this order.

        Only a cost matrix that names its classes depends on it: its rows are put in this order.

        Parameters
        ----------
        classes : array (K,) or None
            Labels of the classes in the order of the predictions; None if they have no names.

        Raises
        ------
        InvalidInput
            If a cost matrix names other classes, or names its classes and the predictions do not,
            or has the classes as actions in another order, and no names of its rows.

        Examples
        --------
        >>> import scorewise as sw
        >>> rule = sw.rules.cost_matrix([[50, 0], [0, 5]], ["dismiss", "treat"], ["ill", "healthy"])
        >>> rule.for_classes(["healthy", "ill"])
        cost_matrix([[ 0.,  5.], [50.,  0.]], ('dismiss', 'treat'))
        """
        return self

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        """Return H(p) of rows whose sums S are known; see :class:`RuleBySum`."""
        return self._entropy(xp, p)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        """Return ∇H(p) along the simplex for p > 0, ``(..., K)``, up to a constant of each row."""
        return self._losses(xp, p)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        """Return ∇H(q) − ∇H(p) likewise, with d = p − q: exactly 0 in rows where d is 0."""
        change = self._entropy_gradient(xp, q) - self._entropy_gradient(xp, p)
        return xp.where(xp.sum(xp.abs(d), axis=-1, keepdims=True) == 0, 0.0, change)

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        """Return EU = E_Q D(θ̄, θ), ``(...)``."""
        q = samples.mean[..., None, :]
        return samples.average(self._divergence(xp, q, samples.probs, samples.deviations))

    def _epistemic_of(
        self, xp: Namespace, samples: Samples, q: Array, epistemic: Callable[[], Array]
    ) -> Array:
        """Return E_Q D(q, θ) = EU + D(q, θ̄) of predictions q ``(..., K)``, from EU."""
        d = plus(difference(xp, samples.anchor, q), samples.shift)  # 0 where all members equal q
        return epistemic() + self._divergence(xp, q, samples.mean, d)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array | float | None:
        """Return how far TU − AU may be from EU by rounding, in a few units; None if not known.

        ``mean`` is θ̄ ``(..., K)``, ``total`` TU ``(...)``, ``unit`` the rounding error of 1, and
        ``off`` how far the sums of members are from 1 at most. Where EU is much larger than this
        error, it need not be computed from divergences.
        """
        return None

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        """Return TU under a Dirichlet: H(θ̄), accurate even where one class dominates."""
        return self._entropy(xp, q.mean)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, Array | None]:
        """Return AU and EU under a Dirichlet and their standard error (None if they are exact)."""

        def divergence(theta: Array, center: Array) -> Array:
            return self._divergence(xp, center, theta, theta - center)

        estimate, error = q.estimate(divergence)
        # A class of tiny α may be in no draw. As D is convex in θ, it adds at most θ_k·D(m, e_k).
        k = q.n_classes
        # Custom rules may fail at probabilities of 0, so the corners are moved inwards.
        corners = as_dtype_of(xp, np.eye(k) + 1e-6 / k, q.mean) / (1 + 1e-6)
        bound = q.mean * (self._losses(xp, q.mean) - self._entropy(xp, corners))
        error = error + xp.sum(xp.where(q.is_rare, bound, 0.0), axis=-1)
        return self._without(xp, total, estimate), estimate, error

    def _dirichlet_excess(self, xp: Namespace, q: Dirichlet, p: Array) -> Array:
        """Return D(p, θ̄), which EU and TU under a Dirichlet are larger by for predictions p."""
        return self._divergence(xp, p, q.mean, difference(xp, q.mean, p))

    def _without(self, xp: Namespace, total: Array, epistemic: Array) -> Array:
        """Return AU = TU − EU, for an EU that is simulated and may exceed TU."""
        difference = total - epistemic
        return at_least(xp, difference, 0.0) if self.never_negative else difference

    # -- EU of members that arrive one after the other, from epistemic states that can be merged ---

    def _state_of_member(self, xp: Namespace, theta: Array) -> Array:
        """Return the epistemic state of a single member ``(..., K)``: by default its EU, 0."""
        return xp.zeros_like(theta[..., 0])

    def _state_of_members(self, xp: Namespace, samples: Samples, epistemic: Array) -> Array:
        """Return the epistemic state of members with this EU: by default EU itself, ``(...)``."""
        return epistemic

    def _merge_states(
        self,
        xp: Namespace,
        states: tuple[Array, Array],
        shares: tuple[Array, Array],
        mean: Array,
        means: tuple[Array, Array],
        step: Array,
    ) -> Array:
        """Return the epistemic state of two sets of members together.

        By default it is w₁(EU₁ + D(μ, μ₁)) + w₂(EU₂ + D(μ, μ₂)). The shares w are ``(...)``; the
        means μ, μ₁, μ₂ and the step μ₂ − μ₁ are ``(..., K)``.
        """
        first, second = shares
        to_first = self._divergence(xp, mean, means[0], -second[..., None] * step)
        to_second = self._divergence(xp, mean, means[1], first[..., None] * step)
        # A set of weight 0 changes nothing, even at an infinite divergence.
        merged = first * xp.where(first > 0, states[0] + to_first, 0.0) + second * xp.where(
            second > 0, states[1] + to_second, 0.0
        )
        return self._clip_rounding(xp, merged, mean)

    def _clip_rounding(self, xp: Namespace, epistemic: Array, mean: Array) -> Array:
        """Return a merged EU; a rule whose D may round below 0 replaces such values by 0."""
        return epistemic

    def _epistemic_of_state(self, xp: Namespace, state: Array) -> Array:
        """Return EU ``(...)`` of members with this epistemic state."""
        return state

    # -- facts about the rule, which tasks, plots and files rely on -------------------------------

    @property
    def unit(self) -> Unit:
        """The unit of its losses."""
        return Unit(f"{self.name} loss")

    def largest_loss(self, n_classes: int, floor: float | None = None) -> float:
        """Return the largest loss that any prediction can incur.

        Certificates depend on it, so there is no default: a rule that does not define it raises.

        Parameters
        ----------
        n_classes : int
        floor : float, optional
            The smallest probability that a prediction may contain.

        Returns
        -------
        float
            Infinite for the log loss without a floor.

        Raises
        ------
        InvalidInput
            If the rule does not define it, or does not fit the number of classes.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.brier.largest_loss(10)
        2.0
        >>> sw.rules.log.largest_loss(10), sw.rules.log.largest_loss(10, floor=0.05).__round__(3)
        (inf, 2.996)
        """
        self.check_classes(n_classes)
        return self._largest_loss(apply_floor(np.eye(n_classes), floor))

    def _largest_loss(self, corners: np.ndarray) -> float:
        """Return the largest loss of predictions in the simplex with these corners, ``(K, K)``."""
        raise InvalidInput(
            f"the largest loss of {self!r} is not known",
            Remedy("loss_bound", ..., "the largest loss that can occur"),
        )

    def _largest_at(self, corners: np.ndarray) -> float:
        """Return the largest loss at the corners, for rules whose losses are largest there."""
        return float(np.max(self._losses(namespace(corners), corners)))

    def total_order(self, n_classes: int) -> Hashable | None:
        """Return a key that identifies how the rule's total uncertainty orders instances.

        Two rules with equal keys provably order all instances alike, whatever the rounding of
        their totals. None if no such theorem is known.

        Parameters
        ----------
        n_classes : int

        Returns
        -------
        hashable or None

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.brier.total_order(5) == sw.rules.spherical.total_order(5)
        True
        >>> sw.rules.log.total_order(5) is None
        True
        """
        if n_classes == 2 and self.is_symmetric:  # concave and symmetric: falls from ½ to the ends
            return BY_LARGEST
        return self._order_of_totals()

    def _order_of_totals(self) -> Hashable | None:
        """Return the key for any number of classes."""
        return None

    def predict(self, p: Any) -> Array:
        """Return the prediction that ``p`` leads to: the likeliest class, or the cheapest action.

        Parameters
        ----------
        p : array (..., K)

        Returns
        -------
        integer array (...)
            Class indices; action indices of a cost matrix. Ties go to the first.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.log.predict([[0.2, 0.8], [0.5, 0.5]])
        array([1, 0])
        """
        return self._predict(*self._checked(p))

    def _predict(self, xp: Namespace, p: Array) -> Array:
        return xp.argmax(p, axis=-1)

    def n_predictions(self, n_classes: int) -> int:
        """Return how many predictions there are: ``n_classes``, or the actions of a cost matrix."""
        return n_classes

    def prediction_names(self, class_names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the predictions: ``class_names``, or the actions of a cost matrix."""
        return tuple(class_names)

    def to_json(self) -> str | dict[str, Any]:
        """Return the rule as a JSON value; :func:`scorewise.rules.rule_from_json` reads it.

        Returns
        -------
        str or dict
            The name with its numbers, or a dict of the name and the arrays that define the rule.

        Raises
        ------
        InvalidInput
            If the rule is user-defined, by functions or by a class.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.tsallis(1.5).to_json()
        'tsallis:1.5'
        >>> sw.rules.cost_matrix([[0, 1], [10, 0]]).to_json()
        {'name': 'cost-matrix', 'costs': [[0.0, 1.0], [10.0, 0.0]], 'actions': None}
        """
        if self.family not in REGISTRY:
            raise InvalidInput(f"{self!r} cannot be stored: only scorewise's own rules have names")
        if not any(isinstance(x, np.ndarray) for x in self._parameters()):
            return self.name
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {
            "name": self.family.replace("_", "-"),
            **{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in fields.items()},
        }

    # -- the public methods -----------------------------------------------------------------------

    def _checked(self, p: Any) -> tuple[Namespace, Array]:
        p = raw_predictions(p, classes_last).probabilities()
        self.check_classes(p.shape[-1])
        xp = namespace(p)
        return xp, contiguous_rows(xp, p)

    def _checked_pair(self, prediction: Any, truth: Any) -> tuple[Namespace, Array, Array]:
        _, q = self._checked(prediction)
        _, p = self._checked(truth)
        xp = validate.same_library(q, p)
        validate.same_instances(q, p)
        q, p = xp.broadcast_arrays(q, p)
        return xp, q, p

    def loss_vector(self, p: Any) -> Array:
        """Return ℓ(p, ·): the loss of predicting ``p`` for each possible label.

        Parameters
        ----------
        p : array (..., K)

        Returns
        -------
        array (..., K)

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.zero_one.loss_vector([0.2, 0.7, 0.1])
        array([1., 0., 1.])
        """
        xp, p = self._checked(p)
        return self._losses(xp, p)

    def loss(self, p: Any, y: Any) -> Array:
        """Return ℓ(p, y): the loss that the prediction ``p`` incurs when ``y`` happens.

        Parameters
        ----------
        p : array (..., K)
        y : integer array (...)

        Returns
        -------
        array (...)

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.brier.loss([[0.5, 0.5], [1.0, 0.0]], [0, 1])
        array([0.5, 2. ])
        """
        return self._loss(*self._checked(p), y)

    def _loss(self, xp: Namespace, p: Array, y: Any) -> Array:
        """Return the loss of a prediction that is already checked."""
        y = validate.labels(xp, y, tuple(p.shape[:-1]), p.shape[-1], like=p)
        picked = xp.where(one_hot(xp, y, p.shape[-1]), self._losses(xp, p), 0.0)
        return xp.sum(picked, axis=-1)

    def entropy(self, p: Any) -> Array:
        """Return H(p) = L(p, p): the expected loss of predicting the truth itself.

        Parameters
        ----------
        p : array (..., K)

        Returns
        -------
        array (...)

        Examples
        --------
        >>> import scorewise as sw
        >>> float(sw.rules.brier.entropy([0.5, 0.5]))
        0.5
        """
        xp, p = self._checked(p)
        return self._entropy(xp, p)

    def expected_loss(self, prediction: Any, truth: Any) -> Array:
        """Return L(p̂, p) = Σ_y p_y ℓ(p̂, y): the expected loss of a prediction under the truth.

        Parameters
        ----------
        prediction, truth : arrays (..., K)

        Returns
        -------
        array (...)

        Examples
        --------
        >>> import scorewise as sw
        >>> float(sw.rules.zero_one.expected_loss([1.0, 0.0], [0.75, 0.25]))
        0.25
        """
        xp, q, p = self._checked_pair(prediction, truth)
        return sum_product(xp, p, self._losses(xp, q))

    def divergence(self, prediction: Any, truth: Any) -> Array:
        """Return D(p̂, p) = L(p̂, p) − H(p) ≥ 0: the excess loss of p̂ over predicting the truth.

        Parameters
        ----------
        prediction, truth : arrays (..., K)

        Returns
        -------
        array (...)
            Exactly 0 where the two are equal.

        Examples
        --------
        >>> import scorewise as sw
        >>> float(sw.rules.brier.divergence([1.0, 0.0], [0.5, 0.5]))
        0.5
        """
        xp, q, p = self._checked_pair(prediction, truth)
        return self._divergence(xp, q, p, difference(xp, p, q))


class RuleBySum(ScoringRule):
    """A rule whose entropy needs the sum S = Σp, which the check of members has computed."""

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return self._entropy_by_sum(xp, p, xp.sum(p, axis=-1))

    @abc.abstractmethod
    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array: ...


class DecisionRule(ScoringRule):
    """A rule whose loss depends on a prediction only through the decision it leads to.

    Its epistemic uncertainty is the least mean regret: the excess cost, averaged over θ, of the
    best fixed decision over the best decision for each θ. Regrets are never negative and exactly 0
    for a member's own decision, so EU is exactly 0 where a decision is best for all members.
    The epistemic state of members that arrive one after the other is their mean regrets,
    ``(..., R)``.

    Examples
    --------
    >>> import scorewise as sw
    >>> costs = sw.rules.cost_matrix([[0, 1], [5, 0]])
    >>> [isinstance(rule, sw.rules.DecisionRule) for rule in (sw.rules.zero_one, costs)]
    [True, True]
    >>> isinstance(sw.rules.brier, sw.rules.DecisionRule)  # its loss depends on all of p
    False
    """

    jackknife_reduces_bias = False  # a decision jumps

    @abc.abstractmethod
    def _regret(self, xp: Namespace, p: Array) -> Array:
        """Return additive regrets ``(..., R)`` of ``p``, none negative."""

    @abc.abstractmethod
    def _least_regret(self, xp: Namespace, mean_regret: Array) -> Array:
        """Return EU from regrets averaged over members, ``(..., R)`` to ``(...)``."""

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # A decision has the same losses for all p, so this is exactly 0 where decisions agree.
        return self._entropy_gradient(xp, q) - self._entropy_gradient(xp, p)

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        return self._least_regret(xp, samples.average(self._regret(xp, samples.probs)))

    def _epistemic_of(
        self, xp: Namespace, samples: Samples, q: Array, epistemic: Callable[[], Array]
    ) -> Array:
        # Exactly 0 where the decision is best for every member, which a rounded mean may not show.
        q = q[..., None, :]
        regret = self._divergence(xp, q, samples.probs, difference(xp, samples.probs, q))
        return samples.average(regret)

    def _state_of_member(self, xp: Namespace, theta: Array) -> Array:
        return self._regret(xp, theta)

    def _state_of_members(self, xp: Namespace, samples: Samples, epistemic: Array) -> Array:
        def mean_regret(block: Samples) -> list[Array]:
            return [block.average(self._regret(xp, block.probs))]

        return samples.by_blocks(mean_regret)[0]

    def _merge_states(
        self,
        xp: Namespace,
        states: tuple[Array, Array],
        shares: tuple[Array, Array],
        mean: Array,
        means: tuple[Array, Array],
        step: Array,
    ) -> Array:
        return shares[0][..., None] * states[0] + shares[1][..., None] * states[1]

    def _epistemic_of_state(self, xp: Namespace, state: Array) -> Array:
        return self._least_regret(xp, state)


def norm_order(exponent: float) -> Hashable:
    """Return the order key of rules whose totals fall as the norm ‖θ̄‖ rises."""
    return ("norm", float(exponent))


def number_above(bound: float, value: Any, subject: str) -> float:
    """Return a rule's parameter as a finite float above its bound."""
    try:
        number = math.nan if isinstance(value, np.complexfloating) else float(value)
    except OverflowError:
        number = value = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        number = math.nan
    if not bound < number < math.inf:
        raise InvalidInput(f"{subject} must be a finite number above {bound:g}, not {value!r}")
    return number


def _show(parameter: Any) -> str:
    if isinstance(parameter, np.ndarray):
        return np.array2string(parameter, separator=", ", threshold=20).replace("\n", "")
    return _short(parameter) if isinstance(parameter, float) else repr(parameter)


def _short(number: float) -> str:
    """Return a number in the fewest digits that parse back to it."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


# -- the registry of rules by name, for get_rule --------------------------------------------------

RuleOrMaker = TypeVar("RuleOrMaker", bound=ScoringRule | Callable[..., ScoringRule])
REGISTRY: dict[str, ScoringRule | Callable[..., ScoringRule]] = {}


def register(rule_or_maker: RuleOrMaker) -> RuleOrMaker:
    """Add a rule, or a function that makes rules, to the registry under its own name."""
    name = (
        rule_or_maker.family if isinstance(rule_or_maker, ScoringRule) else rule_or_maker.__name__
    )
    REGISTRY[name] = rule_or_maker
    return rule_or_maker
