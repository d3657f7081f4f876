"""The structures of rules: forms of an entropy that kernels compute, and their parameters.

A rule declares its structure; a kernel reads it and needs no code for the rule itself. Every rule
of the package but those made of users' functions has one. A rule of your own that declares one is
computed by kernels too: its entropy and divergence must be those of the structure, which
:func:`scorewise.check_kernel` compares.

Parameters outside their bounds raise :class:`scorewise.InvalidInput` when a structure is made, as
compiled code relies on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import quoted
from scorewise.errors import InvalidInput

__all__ = [
    "Costs",
    "CumulativeSums",
    "LargestClasses",
    "Norm",
    "QuadraticForm",
    "Separable",
    "Structure",
    "TwoClass",
]


_ROUNDING = 1e-9  # of distances, relative to the largest


class Structure:
    """The form of a rule's entropy, with its parameters.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.zero_one.structure.name, sw.rules.rps.structure.name
    ('decision', 'quadratic')
    """

    name: ClassVar[str]
    """One of ``"separable"``, ``"norm"``, ``"decision"``, ``"quadratic"`` and ``"two-class"``."""

    def fits(self, n_classes: int) -> bool:
        """Return whether the parameters are for ``n_classes`` classes."""
        return True


@dataclass(frozen=True, eq=False)
class Separable(Structure):
    """H(p) = Σ_k w_k·p_k·(1 − p_k^(power − 1))/(power − 1); −Σ_k w_k·p_k·log p_k for a power of 1.

    Parameters
    ----------
    power : float
        From 1 on.
    weights : array (K,), optional
        Positive; all 1 by default.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.tsallis(1.5).structure
    Separable(power=1.5, weights=None)
    >>> sw.rules.weighted_log([1, 5]).structure
    Separable(power=1.0, weights=array([1., 5.]))
    """

    power: float
    weights: Any = None
    name = "separable"

    def __post_init__(self) -> None:
        power = validate.number(self.power, "the power of Separable")
        if power < 1:
            raise InvalidInput(f"the power of Separable must be 1 or more, not {power:g}")
        object.__setattr__(self, "power", power)
        if self.weights is not None:
            weights = validate.read_only_array(self.weights, "the class weights", ndim=1)
            if len(weights) < 2 or (weights <= 0).any():
                raise InvalidInput("class weights must be positive, one for each of K ≥ 2 classes")
            object.__setattr__(self, "weights", weights)

    def fits(self, n_classes: int) -> bool:
        return self.weights is None or len(self.weights) == n_classes


@dataclass(frozen=True, eq=False)
class Norm(Structure):
    """H(p) = 1 − ‖p‖ with ‖p‖ = (Σ_k p_k^power)^(1/power).

    Parameters
    ----------
    power : float
        More than 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.spherical.structure, sw.rules.pseudospherical(3).structure
    (Norm(power=2.0), Norm(power=3.0))
    """

    power: float
    name = "norm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", _number_above(1, self.power, "the power of Norm"))


@dataclass(frozen=True, eq=False)
class LargestClasses(Structure):
    """H(p) = 1 − the sum of the k largest probabilities.

    Parameters
    ----------
    k : int
        From 1 on.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.zero_one.structure, sw.rules.top_k(5).structure
    (LargestClasses(k=1), LargestClasses(k=5))
    """

    k: int
    name = "decision"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validate.whole(self.k, "k of LargestClasses", at_least=1))

    def fits(self, n_classes: int) -> bool:
        return self.k <= n_classes


@dataclass(frozen=True, eq=False)
class Costs(Structure):
    """H(p) = min_a Σ_k p_k·costs[k, a].

    Parameters
    ----------
    costs : array (K, A)
        The cost of each action for each class; any finite numbers.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.cost_matrix([[0, 1], [5, 1]]).structure.costs
    array([[0., 1.],
           [5., 1.]])
    """

    costs: Any
    name = "decision"

    def __post_init__(self) -> None:
        costs = validate.read_only_array(self.costs, "the costs", ndim=2)
        if costs.shape[0] < 2 or costs.shape[1] < 1:
            raise InvalidInput(
                f"the costs have shape {costs.shape}; they need a row for each of K ≥ 2 classes "
                "and a column for each action"
            )
        object.__setattr__(self, "costs", costs)

    def fits(self, n_classes: int) -> bool:
        return len(self.costs) == n_classes


@dataclass(frozen=True, eq=False)
class QuadraticForm(Structure):
    """H(p) = ½ Σ_ij p_i·p_j·distances[i, j] and D(q, p) = ‖(p − q)·root‖².

    Parameters
    ----------
    distances : array (K, K)
        The divergence of one class from another, ‖root[i] − root[j]‖²; finite.
    root : array (K, R)
        The matrix whose product with its transpose is that of the quadratic form; finite.

    Examples
    --------
    >>> import scorewise as sw
    >>> structure = sw.rules.quadratic([[2, 1], [1, 2]]).structure
    >>> structure.distances
    array([[0., 2.],
           [2., 0.]])
    >>> (structure.root @ structure.root.T).round(12)
    array([[2., 1.],
           [1., 2.]])
    """

    distances: np.ndarray
    root: np.ndarray
    name = "quadratic"

    def __post_init__(self) -> None:
        distances = _finite_matrix(self.distances, "the distances")
        root = _finite_matrix(self.root, "the root")
        k = len(distances)
        if distances.shape != (k, k) or len(root) != k or k < 2:
            raise InvalidInput(
                f"the distances have shape {distances.shape} and the root {root.shape}; they must "
                "be (K, K) and (K, R), with K ≥ 2 classes"
            )
        products = root @ root.T
        squares = np.diagonal(products)
        differences = np.abs(squares[:, None] + squares - 2 * products - distances)
        if not differences.max() <= _ROUNDING * (distances.max() + squares.max()):
            i, j = map(int, np.unravel_index(np.argmax(differences), distances.shape))
            raise InvalidInput(
                f"the distances[{i}, {j}] are {distances[i, j]:g}, and ‖root[{i}] − root[{j}]‖² is "
                f"{np.sum((root[i] - root[j]) ** 2):g}; they must be the same"
            )
        object.__setattr__(self, "distances", distances)
        object.__setattr__(self, "root", root)

    def fits(self, n_classes: int) -> bool:
        return len(self.distances) == n_classes == len(self.root)


@dataclass(frozen=True, eq=False)
class CumulativeSums(Structure):
    """H(p) = Σ_k F_k·(1 − F_k) with F_k = p_1 + … + p_k, for ordered classes.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.rps.structure
    CumulativeSums()
    """

    name = "quadratic"


@dataclass(frozen=True, eq=False)
class TwoClass(Structure):
    """H(p) with the second derivative −c^(a − 1)·(1 − c)^(b − 1) in c = p of class 1, for K = 2.

    Parameters
    ----------
    a, b : float
        More than −1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.beta(0.5, 2).structure
    TwoClass(a=0.5, b=2.0)
    """

    a: float
    b: float
    name = "two-class"

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", _number_above(-1, self.a, "a of TwoClass"))
        object.__setattr__(self, "b", _number_above(-1, self.b, "b of TwoClass"))

    def fits(self, n_classes: int) -> bool:
        return n_classes == 2


def _number_above(bound: float, value: Any, name: str) -> float:
    number = validate.number(value, name)
    if not number > bound:
        raise InvalidInput(f"{name} must be above {bound:g}, not {quoted(value)}")
    return number


def _finite_matrix(values: Any, name: str) -> np.ndarray:
    """Return a read-only copy in float64."""
    matrix = np.array(validate.real(values, name, to_numpy), dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise InvalidInput(f"{name} must be a matrix of finite numbers")
    matrix.flags.writeable = False
    return matrix
