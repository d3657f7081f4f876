"""The structures of rules: forms of an entropy that kernels compute, and their parameters.

A rule declares its structure; a kernel reads it and needs no code for the rule itself. Every rule
of the package but those made of users' functions has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scorewise import _validate as validate

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


class Structure:
    """The form of a rule's entropy, with its parameters."""

    name: ClassVar[str]
    """One of ``"separable"``, ``"norm"``, ``"decision"``, ``"quadratic"`` and ``"two-class"``."""


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
    """

    power: float
    weights: Any = None
    name = "separable"

    def __post_init__(self) -> None:
        if self.weights is not None:
            weights = validate.read_only_array(self.weights, "the class weights", ndim=1)
            object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class Norm(Structure):
    """H(p) = 1 − ‖p‖ with the norm of this power, more than 1."""

    power: float
    name = "norm"


@dataclass(frozen=True, eq=False)
class LargestClasses(Structure):
    """H(p) = 1 − the sum of the k largest probabilities."""

    k: int
    name = "decision"


@dataclass(frozen=True, eq=False)
class Costs(Structure):
    """H(p) = min_a Σ_k p_k·costs[k, a], for costs (K, A)."""

    costs: Any
    name = "decision"

    def __post_init__(self) -> None:
        costs = validate.read_only_array(self.costs, "the costs", ndim=2)
        object.__setattr__(self, "costs", costs)


@dataclass(frozen=True, eq=False)
class QuadraticForm(Structure):
    """H(p) = ½ Σ_ij p_i·p_j·distances[i, j] and D(q, p) = ‖(p − q)·root‖².

    Parameters
    ----------
    distances : array (K, K)
        The divergence of one class from another.
    root : array (K, R)
        The matrix whose product with its transpose is that of the quadratic form.
    """

    distances: np.ndarray
    root: np.ndarray
    name = "quadratic"


@dataclass(frozen=True, eq=False)
class CumulativeSums(Structure):
    """H(p) = Σ_k F_k·(1 − F_k) with F_k = p_1 + … + p_k."""

    name = "quadratic"


@dataclass(frozen=True, eq=False)
class TwoClass(Structure):
    """H(p) with the second derivative −c^(a − 1)·(1 − c)^(b − 1) in c = p of class 1, for K = 2."""

    a: float
    b: float
    name = "two-class"
