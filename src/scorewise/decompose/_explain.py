"""Which path would a decomposition take, and why?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scorewise import kernels
from scorewise._array import is_dask
from scorewise._receive import Options
from scorewise.decompose._engine import RuleLike, named_rules
from scorewise.decompose._members import Members
from scorewise.distributions import Dirichlet


@dataclass(frozen=True)
class Explanation:
    """The path that a decomposition would take: ``"array"``, or the name of a kernel."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def explain_kernel(
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
) -> Explanation:
    """Say which path :func:`scorewise.decompose` would take with the same arguments, and why.

    Use it when a decomposition is slower than you expect. Nothing is computed, and no value is
    looked at; the numbers of both paths agree to rounding.

    Parameters
    ----------
    predictions, rule, weights, …
        As for :func:`scorewise.decompose`.

    Returns
    -------
    Explanation
        ``.path`` is ``"cpu"`` for the fused kernel or ``"array"`` for the array path, and
        ``.reason`` says why.

    Raises
    ------
    InvalidInput
        If the shape, the axes or the rules do not fit.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> print(sw.explain_kernel(np.full((10, 5, 3), 1 / 3), "log"))
    array: the cpu kernel leaves it: 150 numbers are fewer than 262,144, and soon done
    >>> probs = np.broadcast_to(np.float32(0.1), (100_000, 5, 10))
    >>> sw.explain_kernel(probs, ["log", "zero-one"]).path
    'cpu'
    >>> sw.explain_kernel(probs, ["log", "rps"]).reason
    'the cpu kernel leaves it: it does not know rps'
    """
    rules = list(named_rules(rule).values())
    if isinstance(predictions, Dirichlet):
        return Explanation("array", "a Dirichlet has closed forms, and no members")
    options = Options(member_axis, class_axis, from_logits, normalize, check)
    members = Members.of(predictions, weights, options)
    members.check_rules(rules)
    if unbiased or standard_errors:
        return Explanation("array", "only the array path leaves members out for the jackknife")
    if is_dask(members.given.values):
        return Explanation("array", "a Dask array is lazy; each of its blocks is asked in its turn")
    answers = kernels.ask(members.given, members.weights, rules)
    for name, answer in answers.items():
        if answer:
            return Explanation(name, answer.because)
    reasons = (f"the {name} kernel leaves it: {a.because}" for name, a in answers.items())
    return Explanation("array", "; ".join(reasons))
