"""What to do now: the action of least expected cost, and what knowing more would be worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, namespace, to_numpy
from scorewise._receive import Options
from scorewise.decompose import Decomposition, Members, array_path, decompose
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.rules import CostMatrix, ScoringRule

ABSTAIN = "abstain"


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """What to do in every row, what that costs, and why; made by :func:`scorewise.decide`.

    Attributes
    ----------
    action : integer array (...)
        The column of the cost matrix; the abstain action is the last.
    total : array (...)
        The expected cost of the action.
    aleatoric : array (...)
        The part of it that no knowledge of θ would remove.
    epistemic : array (...)
        The value of learning θ: what knowing it before acting would save on average. The worth of a
        label for :func:`scorewise.acquire`, or of a second opinion.
    action_names : tuple of str
    rule : ScoringRule
        The cost matrix with the abstain action, for all else that takes a rule.
    standard_error : Decomposition or None
        Of the three costs, where they were simulated (under a Dirichlet).
    """

    action: Array
    total: Array
    aleatoric: Array
    epistemic: Array
    action_names: tuple[str, ...]
    rule: CostMatrix
    standard_error: Decomposition | None = None

    def __repr__(self) -> str:
        """A table of the actions: how often each is best, and what it costs on average."""
        action = to_numpy(self.action)
        costs = [to_numpy(x) for x in (self.total, self.aleatoric, self.epistemic)]
        table = [["action", "rows", "cost", "aleatoric", "epistemic"]]
        for index, name in enumerate(self.action_names):
            here = action == index
            if here.any():
                means = (f"{cost[here].mean():.4g}" for cost in costs)
                table.append([" ".join(name.split()), str(here.sum()), *means])
        first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
        return "\n".join(
            "  ".join([f"{name:{first}}", *(f"{x:>{w}}" for x, w in zip(row, others, strict=True))])
            for name, *row in table
        )


def decide(
    probs: Any,
    cost_matrix: Any,
    abstain_cost: Any = None,
    *,
    action_names: Sequence[str] | None = None,
    weights: Any = None,
    **options: Any,
) -> Decisions:
    """The action of least expected cost in every row, and the value of knowing more.

    Use it where mistakes cost unequally, or where abstaining is an action like others: one cost
    matrix gives the decision, the abstention, the worth of a label and the order for review, all in
    one currency. With zero-one costs and an abstain cost c this is Chow's rule: abstain where the
    largest probability is below 1 − c.

    Parameters
    ----------
    probs : array (..., M, K), Samples or Dirichlet
        As for :func:`scorewise.decompose`.
    cost_matrix : array (K, A) or cost matrix of :func:`scorewise.rules.cost_matrix`
        ``cost_matrix[y, a]`` is the cost of action ``a`` when ``y`` is true.
    abstain_cost : float or array (K,), optional
        What abstaining costs, whatever is true or for each class; one more action, the last.
    action_names : sequence of str, optional
        Of the columns, and of abstaining if it shall have another name than "abstain"; "0", "1", …
        unless given here or in the cost matrix.
    weights, **options
        Those of :class:`scorewise.Samples`: ``from_logits``, ``member_axis``, ``check``, …

    Returns
    -------
    Decisions
        Where actions cost the same, the first of them; so abstaining only where it is cheaper.

    Raises
    ------
    InvalidInput
        If the cost matrix does not fit the classes, or a cost is not finite.

    Examples
    --------
    Dismiss or treat a patient, who is healthy or ill, or abstain. On the last row the members
    disagree, so that a second opinion is worth most:

    >>> import scorewise as sw
    >>> costs = [[0, 5], [50, 0]]  # treating the healthy costs 5, dismissing the ill 50
    >>> probs = [
    ...     [[0.990, 0.010], [0.995, 0.005]],
    ...     [[0.10, 0.90], [0.20, 0.80]],
    ...     [[0.99, 0.01], [0.04, 0.96]],
    ... ]
    >>> d = sw.decide(probs, costs, abstain_cost=1, action_names=["dismiss", "treat"])
    >>> [d.action_names[a] for a in d.action]
    ['dismiss', 'treat', 'abstain']
    >>> d.total
    array([0.375, 0.75 , 1.   ])
    >>> d
    action   rows   cost  aleatoric  epistemic
    dismiss     1  0.375      0.375          0
    treat       1   0.75       0.75          0
    abstain     1      1       0.35       0.65
    """
    matrix = _matrix(cost_matrix)
    if isinstance(probs, Dirichlet):
        matrix.check_classes(probs.n_classes)
        rule = _with_names(matrix, abstain_cost, action_names)
        found = decompose(probs, rule, weights=weights, **options)
        return _decisions(rule, rule.predict(probs.mean), found)
    members = Members.of(probs, weights, Options(**options))
    members.check_rules([matrix])
    rule = _with_names(matrix, abstain_cost, action_names)

    def work(some: Members) -> list[Array]:
        costs = array_path(some, [rule])
        action = rule.action_of_members(some.samples)
        return [*costs, namespace(action).astype(action, costs[0].dtype)]

    *costs, action = members.compute(work, 4)
    xp = namespace(action)
    whole = xp.argmin(xp.zeros(1)).dtype
    return _decisions(rule, xp.astype(action, whole), Decomposition(*costs))


def _decisions(rule: CostMatrix, action: Array, costs: Decomposition) -> Decisions:
    names = tuple(rule.actions or ())
    return Decisions(action, *costs, names, rule, costs.standard_error)  # type: ignore[call-arg]


def _matrix(cost_matrix: Any) -> CostMatrix:
    if isinstance(cost_matrix, CostMatrix):
        return cost_matrix
    if isinstance(cost_matrix, str | ScoringRule):
        raise InvalidInput(
            f"{cost_matrix!r} is no cost matrix (K, A), whose columns are actions; that of "
            "zero-one is 1 - np.eye(K)"
        )
    return CostMatrix(cost_matrix)


def _with_names(
    matrix: CostMatrix, abstain_cost: Any, action_names: Sequence[str] | None
) -> CostMatrix:
    """The matrix with the abstain action, if there is one, and with a name for every action."""
    n_classes, n_actions = matrix.costs.shape
    names = matrix.actions or [str(a) for a in range(n_actions)]
    if action_names is not None:
        names = action_names
    if abstain_cost is None:
        return CostMatrix(matrix.costs, names)
    costs = np.column_stack([matrix.costs, _column(abstain_cost, n_classes)])
    if not isinstance(names, str) and np.shape(names) == (n_actions + 1,):
        return CostMatrix(costs, names)
    own = tuple(CostMatrix(matrix.costs, names).actions or ())
    if ABSTAIN in own:
        raise InvalidInput(
            f"the cost matrix has an action {ABSTAIN!r} already; leave out abstain_cost, or give "
            "that action another name"
        )
    return CostMatrix(costs, (*own, ABSTAIN))


def _column(abstain_cost: Any, n_classes: int) -> np.ndarray:
    """The cost of abstaining for each class."""
    column = validate.real(abstain_cost, "abstain_cost", to_numpy)
    if column.shape not in {(), (n_classes,)} or column.dtype.kind == "b":
        raise InvalidInput(
            f"abstain_cost must be one number, or one for each of {n_classes} classes, not "
            f"{column.dtype} of shape {column.shape}"
        )
    return validate.read_only_array(np.broadcast_to(column, n_classes), "abstain_cost", ndim=1)
