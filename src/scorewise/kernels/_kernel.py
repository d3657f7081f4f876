"""The interface of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

import numpy as np

from scorewise._array import Array
from scorewise._inputs import RawPredictions
from scorewise.rules import ScoringRule


@dataclass(frozen=True)
class Extras:
    """What is computed besides, or in place of, total, aleatoric and epistemic uncertainty.

    Attributes
    ----------
    unbiased : bool
        The jackknife corrects EU, and TU = AU + EU.
    standard_errors : bool
        The jackknife's errors of the three follow them.
    reverse : bool
        E_Q D(θ, θ̄) follows the three. Not together with the jackknife.
    actions : bool
        The number of the cheapest action follows the three of a cost matrix, or −1 where rounding
        errors decide it. Alone, and by kernels only: regrets decide there and elsewhere.
    predictor : array (..., K) or None
        Predictions q, checked and in the library and precision of the members' probabilities. TU is
        then E_Q L(q, θ) and EU is E_Q D(q, θ). Alone.

    Examples
    --------
    >>> from scorewise.kernels import Extras
    >>> bool(Extras()), Extras().n_components
    (False, 3)
    >>> Extras(standard_errors=True).n_components
    6
    """

    unbiased: bool = False
    standard_errors: bool = False
    reverse: bool = False
    actions: bool = False
    predictor: Array | None = field(default=None, compare=False)  # arrays have no single ==

    def __bool__(self) -> bool:
        return bool(self.jackknife or self.reverse or self.actions or self.predictor is not None)

    @property
    def jackknife(self) -> bool:
        """Whether members are left out, so that two of them need weight."""
        return bool(self.unbiased or self.standard_errors)

    @property
    def n_components(self) -> int:
        """The number of arrays for each rule."""
        return 6 if self.standard_errors else 4 if self.reverse or self.actions else 3


@dataclass(frozen=True)
class Usability:
    """Whether a kernel can read some members, and why.

    Attributes
    ----------
    usable : bool
        Also the truth value of the object.
    reason : str
        A part of a sentence, for :func:`scorewise.explain_kernel`.

    Examples
    --------
    >>> from scorewise.kernels import Usability
    >>> answer = Usability(False, "the members are on a GPU")
    >>> "kernel" if answer else f"array path: {answer.reason}"
    'array path: the members are on a GPU'
    """

    usable: bool
    reason: str

    def __bool__(self) -> bool:
        return self.usable


class Kernel(Protocol):
    """The functions of a kernel, for members ``(..., M, K)`` as the caller passed them.

    A module or any other object may be one. What a kernel need not have is in
    :class:`AveragingKernel`, :class:`DifferentiatingKernel` and :class:`AccumulatingKernel`;
    without it the array path does that work. Nothing is registered: :func:`averages`,
    :func:`differentiates` and :func:`accumulates` look for the names.

    In all methods, ``raw`` are the members ``(..., M, K)``, not checked, and ``weights`` their
    weights ``(M,)`` or ``(..., M)``, or None.

    Examples
    --------
    >>> import scorewise as sw
    >>> from scorewise.kernels import KERNELS, Extras
    >>> kernel, raw = KERNELS["cpu"], sw.Samples([[[0.9, 0.1], [0.5, 0.5]]]).raw()
    >>> bool(kernel.is_usable(raw, None)), kernel.supports(sw.rules.brier, Extras())
    (True, True)
    >>> kernel.compute(raw, None, [sw.rules.brier], Extras())
    [array([0.42]), array([0.34]), array([0.08])]
    """

    def is_usable(self, raw: RawPredictions, weights: Any) -> Usability:
        """Return whether this kernel can read ``raw`` and ``weights``; no value is read."""

    def supports(self, rule: ScoringRule, extras: Extras) -> bool:
        """Return whether this kernel computes all components of ``rule``, and the ``extras``."""

    def compute(
        self, raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], extras: Extras
    ) -> list[Array] | None:
        """Return total, aleatoric and epistemic uncertainty of each rule, one after the other.

        The ``extras`` follow the three of their rule. The ``rules`` are supported ones. None if
        ``raw`` or ``weights`` are invalid (the jackknife needs two members with weight), and if the
        kernel cannot run: the array path then raises the error, or computes the result.
        """


class AveragingKernel(Kernel, Protocol):
    """A kernel that also computes what needs no rule: means, and variances by class.

    Examples
    --------
    >>> import scorewise as sw
    >>> kernel, raw = sw.kernels.KERNELS["cpu"], sw.Samples([[[0.9, 0.1], [0.5, 0.5]]]).raw()
    >>> kernel.mean(raw, None)
    array([[0.7, 0.3]])
    """

    def mean(self, raw: RawPredictions, weights: Any) -> np.ndarray | None:
        """Return θ̄ ``(..., K)`` in float64 as a NumPy array.

        None as ``compute`` does, if ``raw`` or ``weights`` are invalid.
        """

    def components_by_class(self, raw: RawPredictions, weights: Any) -> list[Array] | None:
        """Return TU, AU and EU of each class against the rest, ``(..., K)``.

        They are those of :func:`scorewise.label_wise`. None as ``compute`` does, if ``raw`` or
        ``weights`` are invalid.
        """


class DifferentiatingKernel(Kernel, Protocol):
    """A kernel that also computes gradients of the components, for torch tensors that need them.

    Examples
    --------
    >>> from scorewise.kernels import KERNELS, differentiates
    >>> differentiates(KERNELS["cpu"])  # whose gradients are computed by arrays
    False
    """

    def supports_gradient(self, rule: ScoringRule) -> bool:
        """Return whether this kernel computes gradients under ``rule``, one that it supports."""

    def gradient(
        self,
        raw: RawPredictions,
        weights: Any,
        rules: Sequence[ScoringRule],
        upstream: Sequence[Array | None],
    ) -> Array | None:
        """Return the gradient of a scalar with respect to ``raw.values``, an array like it.

        The ``rules`` are those of which ``supports_gradient`` is true. The ``upstream`` are the
        scalar's derivatives ``(...)`` with respect to total, aleatoric and epistemic uncertainty of
        each, one after the other, or None where they are 0. Members and ``weights`` were valid when
        the components were computed, and are not checked again. None if the kernel cannot run.

        With weights w that sum to 1, the gradients of the three with respect to the probabilities
        θ_m of a member are w_m·ℓ(θ̄, ·), w_m·ℓ(θ_m, ·) and w_m·[ℓ(θ̄, ·) − ℓ(θ_m, ·)], of which only
        the differences within a row count. They are returned less that of the row's largest
        probability, so that a softmax before, which takes their mean, keeps their digits where this
        probability is close to 1. The last is exactly 0 where members are identical.
        Probabilities below the smallest normal number count as that number.
        """


class AccumulatingKernel(Kernel, Protocol):
    """A kernel that also adds members one at a time.

    Examples
    --------
    >>> import scorewise as sw
    >>> kernel = sw.kernels.KERNELS["cpu"]
    >>> state = kernel.new_state((1000, 3), "float32", [sw.rules.log])  # 1000 instances, 3 classes
    >>> state.shape
    (1000, 3)
    """

    MOST_RULES: int
    """How many rules a state may have, at least 1; the array path accumulates the others."""

    def new_state(
        self, shape: Sequence[int], dtype: str, rules: Sequence[ScoringRule]
    ) -> AccumulatorState:
        """Return a state without any member yet.

        Members are ``(..., K)`` of this ``shape`` and ``dtype``, ``"float32"`` or ``"float64"``;
        there are at most ``MOST_RULES`` ``rules``, supported ones without extras.
        """


# isinstance of a protocol would do, and takes 20 µs in Python 3.11: too long for a small array.
def averages(kernel: Kernel | None) -> TypeGuard[AveragingKernel]:
    """Return whether a kernel has the functions of :class:`AveragingKernel`.

    Parameters
    ----------
    kernel : Kernel or None

    Returns
    -------
    bool

    Examples
    --------
    >>> from scorewise.kernels import KERNELS, averages
    >>> averages(KERNELS["cpu"]), averages(None)
    (True, False)
    """
    return hasattr(kernel, "mean") and hasattr(kernel, "components_by_class")


def differentiates(kernel: Kernel | None) -> TypeGuard[DifferentiatingKernel]:
    """Return whether a kernel has the functions of :class:`DifferentiatingKernel`.

    Parameters
    ----------
    kernel : Kernel or None

    Returns
    -------
    bool

    Examples
    --------
    >>> from scorewise.kernels import KERNELS, differentiates
    >>> differentiates(KERNELS["cpu"]), differentiates(None)
    (False, False)
    """
    return hasattr(kernel, "gradient") and hasattr(kernel, "supports_gradient")


def accumulates(kernel: Kernel | None) -> TypeGuard[AccumulatingKernel]:
    """Return whether a kernel has what :class:`AccumulatingKernel` has.

    Parameters
    ----------
    kernel : Kernel or None

    Returns
    -------
    bool

    Examples
    --------
    >>> from scorewise.kernels import KERNELS, accumulates
    >>> accumulates(KERNELS["cpu"]), accumulates(None)
    (True, False)
    """
    return hasattr(kernel, "new_state") and hasattr(kernel, "MOST_RULES")


class AccumulatorState(Protocol):
    """The members so far of an accumulator, in memory of a kernel.

    No array of the caller becomes part of it, and those that it returns are new.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> state = sw.kernels.KERNELS["cpu"].new_state((1, 2), "float64", [sw.rules.brier])
    >>> shares = np.array([[1, 0.5], [0, 0.5], [1, 0]])  # of two members of the same weight
    >>> state.add_all(sw.Samples([[[0.9, 0.1], [0.5, 0.5]]]).raw(), shares)
    True
    >>> state.components()
    [[array([0.42]), array([0.34]), array([0.08])]]
    """

    shape: tuple[int, ...]
    """Of a member, ``(..., K)``."""

    @property
    def anchor(self) -> np.ndarray:
        """One of the heaviest members, ``(..., K)``, or 0 where they are far apart."""

    @property
    def deviation(self) -> np.ndarray:
        """How far the mean is from the anchor, ``(..., K)``."""

    def add(self, raw: RawPredictions, shares: Callable[[int, int], np.ndarray]) -> bool:
        """Add the member ``raw``, ``(..., K)``; return False, and add nothing, if it is invalid.

        ``shares(start, stop)`` returns those of the n instances from start to stop, ``(3, n)`` in
        the state's precision, or ``(3, 1)`` if all are the same: that of the member in the weight
        of all so far, that of the members before it, and 1 where it is heavier than each of them,
        as the first member is. The first two are 0 where no member has weight yet.
        """

    def components(self) -> list[list[np.ndarray]]:
        """Return total, aleatoric and epistemic uncertainty of each rule, ``(...)``."""

    def regrets(self, rule: int) -> np.ndarray | None:
        """Return the mean regrets ``(..., R)`` under the rule number ``rule``; None without any."""

    def add_all(self, raw: RawPredictions, shares: np.ndarray) -> bool:
        """Add members ``(N, M, K)`` at once; return False if some are invalid.

        ``raw`` has the members, and ``shares``, ``(3, M)``, what ``add`` takes of one after the
        other. After False the state must not be used any more.
        """

    def load(
        self,
        anchor: np.ndarray,
        deviation: np.ndarray,
        aleatoric: Sequence[np.ndarray],
        states: Sequence[np.ndarray],
    ) -> None:
        """Take over the statistics of other members.

        The arrays ``anchor`` and ``deviation`` are ``(..., K)``. Of each rule, ``aleatoric`` has
        E H(θ), and ``states`` EU or regrets.
        """
