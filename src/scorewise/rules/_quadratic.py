"""Quadratic rules, H(p) = tr A(diag p − ppᵀ): any quadratic form, ranked probability score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    at_least,
    cached_property,
    cumulative_sum,
    dot,
    matmul,
)
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.rules._rule import ScoringRule, register
from scorewise.rules.structures import CumulativeSums, QuadraticForm


def quadratic_parts(q: Dirichlet, total: Array) -> tuple[Array, Array, None]:
    """Return AU and EU: the covariance of a Dirichlet is (diag m − mmᵀ)/(α₀ + 1)."""
    epistemic = total / (q.concentration + 1)
    return q.concentration * epistemic, epistemic, None


class _QuadraticRule(ScoringRule):
    """Rules whose divergence is a squared distance, so that EU is a variance."""

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # losses are convex in p

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        return quadratic_parts(q, total)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(_QuadraticRule):
    """See :func:`quadratic`."""

    matrix: np.ndarray
    family = "quadratic"

    def __post_init__(self) -> None:
        a = validate.read_only_array(self.matrix, "the matrix", ndim=2)
        if a.shape[0] != a.shape[1] or len(a) < 2:
            raise InvalidInput(f"the matrix has shape {a.shape}; it must be K × K with K ≥ 2")
        scale = float(np.abs(a).max())
        if np.abs(a - a.T).max() > 1e-10 * scale:
            raise InvalidInput("the matrix is not symmetric; pass (A + A.T) / 2")
        lowest = float(np.linalg.eigvalsh(a)[0])
        if lowest < -1e-10 * scale:
            raise InvalidInput(
                f"the matrix has the negative eigenvalue {lowest:.6g}; a quadratic rule is proper "
                "only for a positive semidefinite matrix"
            )
        object.__setattr__(self, "matrix", a)
        _ = self._root  # now, as torch cannot compile its computation

    @property
    def name(self) -> str:
        return "quadratic"

    @cached_property
    def structure(self) -> QuadraticForm:  # type: ignore[override]
        return QuadraticForm(self._distances, self._root)

    @cached_property
    def _distances(self) -> np.ndarray:
        """The distances (e_i − e_j)ᵀA(e_i − e_j): all that matters of A for probabilities."""
        diagonal = np.diagonal(self.matrix)
        a_ii, a_jj = np.broadcast_arrays(diagonal[:, None], diagonal)
        both = a_ii + a_jj
        rounding = (a_ii - (both - a_jj)) + (a_jj - (both - (both - a_jj)))  # error of that sum
        return np.asarray(np.maximum((both - 2 * self.matrix) + rounding, 0.0))

    @cached_property
    def _root(self) -> np.ndarray:
        """The matrix R with RRᵀ = A, so that dᵀAd = ‖dR‖² is never negative.

        A difference d of predictions sums to 0 only up to rounding, and A may be huge along
        (1, …, 1). So d is split into steps away from class 0, whose products are computed from
        distances, and its sum, by completing the square.
        """
        k = len(self.matrix)
        to_first, last = self._distances[:, 0], self.matrix[:, 0] - self.matrix[0, 0]
        steps = (to_first[:, None] + to_first - self._distances) / 2
        rest = np.block([[steps, last[:, None]], [last, self.matrix[0, 0]]])
        tiny = k * np.finfo(float).eps * float(steps.max())
        columns = []  # of Cholesky's factor, with pivots among the steps: exact zeros stay exact
        while rest[pivot := int(np.argmax(np.diagonal(rest)[:k])), pivot] > tiny:
            column = rest[:, pivot] / math.sqrt(rest[pivot, pivot])
            rest = rest - np.outer(column, column)
            rest[pivot], rest[:, pivot] = 0.0, 0.0
            columns.append(column[:k] + column[k])
        return np.column_stack([*columns, np.full(k, math.sqrt(max(rest[k, k], 0.0)))])

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, len(self.matrix), "quadratic")

    def _losses(self, xp: Namespace, p: Array) -> Array:
        # Σ_k p_k (e_k − e_y)ᵀA(e_k − e_y) − H(p)
        to_label = matmul(xp, p, as_dtype_of(xp, self._distances, p))
        return at_least(xp, to_label - self._entropy(xp, p)[..., None], 0.0)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        # ½ Σ_ij p_i p_j (e_i − e_j)ᵀA(e_i − e_j), of which no term is negative
        return xp.sum(p * matmul(xp, p, as_dtype_of(xp, self._distances / 2, p)), axis=-1)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return float(np.abs(self.matrix).max()) * (unit + 4 * off)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        return matmul(xp, p, as_dtype_of(xp, self._distances, p))

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # 2Ad without its first number. Distances would do if d summed to 0, and it does not where
        # rows are rounded.
        differences = 2 * (self.matrix - self.matrix[:, :1])
        return matmul(xp, d, as_dtype_of(xp, differences, d))

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(matmul(xp, d, as_dtype_of(xp, self._root, d)) ** 2, axis=-1)


@final
@dataclass(frozen=True, eq=False, repr=False)
class RankedProbability(_QuadraticRule):
    """ℓ(p, y) = Σ_k (F_k(p) − [y ≤ k])² with F the cumulative sums: for ordered classes.

    Use it where a prediction far from the label is worse than one beside it. H(p) = Σ F(1 − F),
    D(q, p) = Σ (F(q) − F(p))².

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.rps.loss([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0, 0])
    array([1., 2.])
    """

    family = "rps"
    structure = CumulativeSums()

    def _losses(self, xp: Namespace, p: Array) -> Array:
        below = cumulative_sum(xp, p)
        total = below[..., -1:]
        missed = (total - below) ** 2  # thresholds at or above the label
        # Σ_{k<y} F_k² + Σ_{k≥y} (S − F_k)²
        before = cumulative_sum(xp, below * below) - below * below
        after = xp.flip(cumulative_sum(xp, xp.flip(missed, axis=-1)), axis=-1)
        return at_least(xp, before, 0.0) + after

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        # Σ_k F_k·(S − F_k) = Σ_{i<j} (j − i)·p_i·p_j = Σ_j p_j·Σ_{k<j} F_k: no term is negative
        steps = cumulative_sum(xp, cumulative_sum(xp, p))
        return dot(xp, p[..., 1:], steps[..., :-1])

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        # rounding errors of cumulative sums grow with the number of classes
        return (1 + total) * (math.sqrt(mean.shape[-1]) * unit + 4 * off)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        steps = cumulative_sum(xp, d)
        return 2 * (steps - cumulative_sum(xp, steps))  # −2 Σ_{j<k} F_j(d)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(cumulative_sum(xp, d)[..., :-1] ** 2, axis=-1)


rps = register(RankedProbability())


@register
def quadratic(matrix: Any) -> ScoringRule:
    """Return the rule ℓ(p, y) = (p − e_y)ᵀA(p − e_y): Brier's, with a matrix of weights.

    Use it where some confusions cost more. H(p) = tr A(diag p − ppᵀ) and
    D(q, p) = (q − p)ᵀA(q − p).

    Parameters
    ----------
    matrix : array (K, K)
        Symmetric and positive semidefinite.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rule = sw.rules.quadratic(np.eye(3))
    >>> p = [0.5, 0.3, 0.2]
    >>> bool(np.isclose(rule.entropy(p), sw.rules.brier.entropy(p)))
    True
    """
    return Quadratic(matrix)
