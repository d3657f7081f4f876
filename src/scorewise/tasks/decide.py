"""What to do now: the action of least expected cost, and what knowing more would be worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import validate
from scorewise._array import Array, to_numpy
from scorewise.decompose import decompose
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules.costs import CostMatrix

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
    """

    action: Array
    total: Array
    aleatoric: Array
    epistemic: Array
    action_names: tuple[str, ...]
    rule: CostMatrix

    def __repr__(self) -> str:
        """A table of the actions: how often each is best, and what it costs on average."""
        action, *costs = (
            np.ravel(to_numpy(x)) for x in (self.action, self.total, self.aleatoric, self.epistemic)
        )
        width = max(6, *(len(name) for name in self.action_names))
        lines = [f"{'action':{width}}      rows       cost  aleatoric  epistemic"]
        for index, name in enumerate(self.action_names):
            here = action == index
            if here.any():
                means = "".join(f"  {cost[here].mean():9.4g}" for cost in costs)
                lines.append(f"{name:{width}}  {here.sum():8d}{means}")
        return "\n".join(lines)


def decide(
    probs: Any,
    cost_matrix: Any,
    abstain_cost: Any = None,
    *,
    action_names: Sequence[str] | None = None,
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
        Of the columns; "0", "1", … unless given here or in the cost matrix. Abstaining is called
        "abstain".
    **options
        Those of :class:`scorewise.Samples`: ``weights``, ``from_logits``, ``member_axis``, …

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
    Dismiss, treat or refer a patient, who is healthy or ill; the last row is one on which the
    members disagree, so that a second opinion is worth most:

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
    action       rows       cost  aleatoric  epistemic
    dismiss         1      0.375      0.375          0
    treat           1       0.75       0.75          0
    abstain         1          1       0.35       0.65
    """
    if not isinstance(probs, Samples | Dirichlet):
        probs = Samples(probs, **options)
    elif options:
        raise InvalidInput(f"{', '.join(options)}: this was settled when the {probs!r} was made")
    rule = _with_names(cost_matrix, action_names)
    rule.check_classes(probs.n_classes)
    if abstain_cost is not None:
        rule = _with_abstaining(rule, abstain_cost)
    total, aleatoric, epistemic = decompose(probs, rule)
    assert rule.actions is not None
    return Decisions(rule.action(probs.mean), total, aleatoric, epistemic, rule.actions, rule)


def _with_names(cost_matrix: Any, names: Sequence[str] | None) -> CostMatrix:
    """The cost matrix as a rule whose actions have names."""
    rule = cost_matrix if isinstance(cost_matrix, CostMatrix) else CostMatrix(cost_matrix)
    if names is None:
        names = rule.actions or [str(a) for a in range(rule.costs.shape[1])]
    elif isinstance(names, str):
        raise InvalidInput(f"action_names must be a sequence of names, not {names!r}")
    return CostMatrix(rule.costs, tuple(names))


def _with_abstaining(rule: CostMatrix, abstain_cost: Any) -> CostMatrix:
    """The same with one more action."""
    n_classes = len(rule.costs)
    if np.ndim(abstain_cost):
        column = validate.finite(abstain_cost, "abstain_cost")
        if len(column) != n_classes:
            raise InvalidInput(
                f"abstain_cost has {len(column)} entries; it must be one number, or one for each "
                f"of {n_classes} classes"
            )
    else:
        column = np.full(n_classes, validate.number(abstain_cost, "abstain_cost"))
    assert rule.actions is not None
    if ABSTAIN in rule.actions:
        raise InvalidInput(
            f"the cost matrix has an action {ABSTAIN!r} already; leave out abstain_cost, or give "
            "that action another name"
        )
    return CostMatrix(np.column_stack([rule.costs, column]), (*rule.actions, ABSTAIN))
