"""Decisions under a cost matrix: the action of least expected cost, and the value of learning θ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import Array, as_dtype_of, is_compiled, namespace, to_numpy
from scorewise._fields import class_text
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise._notebook import display, frame, html
from scorewise._text import aligned, quoted
from scorewise.decompose import COMPONENTS, Decomposition, decompose
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.kernels import Extras
from scorewise.rules import CostMatrix, ScoringRule

__all__ = ["Decisions", "decide"]

ABSTAIN = "abstain"


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """The action chosen in every row and its expected cost; made by :func:`scorewise.decide`.

    Attributes
    ----------
    action : integer array (...)
        The chosen column of the cost matrix; the abstain action is the last.
    total : array (...)
        The expected cost of the action.
    aleatoric : array (...)
        The part of it that would remain if θ were known.
    epistemic : array (...)
        The value of learning θ: how much knowing it before acting would save on average. Use it as
        the score of :func:`scorewise.acquire`, or as the value of a second opinion.
    action_names : tuple of str
        The names of the actions, in the order of the columns.
    rule : ScoringRule
        The cost matrix with the abstain action, for every function that takes a rule.
    standard_error : Decomposition or None
        Standard errors of the three costs, where they were simulated (under a Dirichlet).

    Examples
    --------
    >>> import scorewise as sw
    >>> probs = [[[0.9, 0.1], [0.6, 0.4]], [[0.2, 0.8], [0.1, 0.9]]]
    >>> names = ["dismiss", "treat", "refer"]
    >>> decisions = sw.decide(probs, [[0, 5], [20, 0]], abstain_cost=3, action_names=names)
    >>> decisions.action, decisions.total, decisions.epistemic
    (array([2, 1]), array([3.  , 0.75]), array([0.5, 0. ]))
    >>> decisions
    action  rows  cost  aleatoric  epistemic
    treat      1  0.75       0.75          0
    refer      1     3        2.5        0.5
    """

    action: Array
    total: Array
    aleatoric: Array
    epistemic: Array
    action_names: tuple[str, ...]
    rule: CostMatrix
    standard_error: Decomposition | None = None

    def by_action(self) -> list[dict[str, Any]]:
        """Return how often each action is chosen, and its mean expected costs there.

        One dictionary for each action, with the keys ``"action"`` (its name), ``"rows"``,
        ``"total"``, ``"aleatoric"`` and ``"epistemic"``; costs are NaN if it is never chosen.

        Returns
        -------
        list of A dicts

        Examples
        --------
        >>> import scorewise as sw
        >>> decisions = sw.decide([[[0.9, 0.1]], [[0.2, 0.8]]], [[0, 5], [20, 0]])
        >>> [(row["action"], row["rows"]) for row in decisions.by_action()]
        [('0', 1), ('1', 1)]
        """
        actions = to_numpy(self.action)
        summaries = []
        for index, name in enumerate(self.action_names):
            rows = actions == index
            n_rows = int(rows.sum())
            costs = {c: to_numpy(getattr(self, c))[rows] for c in COMPONENTS}
            means = {c: float(cost.mean()) if n_rows else np.nan for c, cost in costs.items()}
            summaries.append({"action": name, "rows": n_rows, **means})
        return summaries

    def __repr__(self) -> str:
        return aligned(self._table())

    def _repr_html_(self) -> str:
        return html(self._table())

    def _table(self) -> list[list[str]]:
        """A heading, and a row for each action that is chosen."""
        table = [["action", "rows", "cost", "aleatoric", "epistemic"]]
        for summary in self.by_action():
            if summary["rows"]:
                name = " ".join(summary["action"].split())
                means = (f"{summary[component]:.4g}" for component in COMPONENTS)
                table.append([name, str(summary["rows"]), *means])
        return table

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with the name of each row's action, and its expected costs.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        InvalidInput
            If the instances have more than one axis.
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import scorewise as sw
        >>> costs = sw.rules.cost_matrix([[0, 5], [20, 0]], actions=["dismiss", "treat"])
        >>> sw.decide([[[0.9, 0.1]], [[0.2, 0.8]]], costs).to_frame()
            action  total  aleatoric  epistemic
        0  dismiss    2.0        2.0        0.0
        1    treat    1.0        1.0        0.0
        """
        names = np.array(self.action_names, object)[to_numpy(self.action)]
        costs = {component: getattr(self, component) for component in COMPONENTS}
        return frame({"action": names, **costs}, library)

    def plot(self, ax: Any = None, cost_name: str = "cost") -> Any:
        """Draw the mean expected cost of each action, and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        cost_name : str
            Name of the costs on the axis.

        Returns
        -------
        scorewise.plots.DecisionDisplay

        Examples
        --------
        >>> import scorewise as sw
        >>> from matplotlib.figure import Figure
        >>> decisions = sw.decide([[[0.9, 0.1]], [[0.2, 0.8]]], [[0, 5], [20, 0]])
        >>> decisions.plot(Figure().subplots(), "euros").ax_.get_xlabel()
        'mean expected euros where taken'
        """
        return display("DecisionDisplay", self, cost_name).plot(ax)


@validate.takes_options_of(Samples)
def decide(
    probs: Any,
    cost_matrix: Any,
    abstain_cost: Any = None,
    *,
    action_names: Sequence[str] | None = None,
    weights: Any = None,
    **options: Any,
) -> Decisions:
    """Return the action of least expected cost in every row, and the value of learning θ.

    Use it where mistakes differ in cost, or where abstaining is an action like others. One cost
    matrix gives the decision, the abstention, the value of a label and the order for review, all in
    the same unit. With zero-one costs and an abstain cost c this is Chow's rule: abstain where the
    largest probability is below 1 − c.

    Parameters
    ----------
    probs : array (..., M, K), Samples or Dirichlet
        As for :func:`scorewise.decompose`.
    cost_matrix : array (K, A), data frame, or cost matrix of :func:`scorewise.rules.cost_matrix`
        ``cost_matrix[y, a]`` is the cost of action ``a`` when ``y`` is true. The columns of a data
        frame are the actions. Its index, or a first column of names, has the classes, which are
        put in the order of those of the predictions; see :func:`scorewise.rules.cost_matrix`.
    abstain_cost : float or array (K,), optional
        The cost of abstaining, for all classes or for each in the order of the predictions; a
        pandas Series is read by the names in its index. It becomes one more action, the last.
    action_names : sequence of str, optional
        Names of the columns of the cost matrix, and of abstaining if it is not to be called
        "abstain". By default those of the cost matrix, or the names of the classes if there is one
        action for each, or "0", "1", ….
    weights, **options
        Those of :class:`scorewise.Samples`: ``class_names``, ``from_logits``, ``member_axis``, …

    Returns
    -------
    Decisions
        Where several actions cost the same, the first of them is chosen, so that abstaining is
        chosen only where it is cheaper.

    Raises
    ------
    InvalidInput
        If the cost matrix does not fit the classes, or names its classes and the predictions do
        not, or a cost is not finite.

    Examples
    --------
    Dismiss a patient, treat them, or abstain. In the last row the members disagree, so that a
    second opinion has the most value:

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
        matrix.for_classes(probs.classes_).check_classes(probs.n_classes)
        rule = _with_names(matrix, probs.classes_, abstain_cost, action_names)
        costs = decompose(probs, rule, weights=weights, **options)
        return _decisions(rule, rule.predict(probs.mean), costs)
    members = Members.of(probs, weights, InputOptions(**options))
    members.fit_rules([matrix])
    rule = _with_names(matrix, members.raw.classes, abstain_cost, action_names)

    *costs_of_rows, action = members.compute(lambda block: _costs_and_action(rule, block), 4)
    xp = namespace(action)
    index_dtype = xp.argmin(xp.zeros(1)).dtype
    return _decisions(rule, xp.astype(action, index_dtype), Decomposition(*costs_of_rows))


def _costs_and_action(rule: CostMatrix, members: Members) -> list[Array]:
    """Return the three costs and the number of the action, all in the dtype of the costs."""
    by_kernel = _actions_by_kernel(rule, members)
    if by_kernel is None:
        costs = list(decompose(members.samples, rule))
        action = rule.action_of_members(members.samples)
        return [*costs, namespace(action).astype(action, costs[0].dtype)]
    action = to_numpy(by_kernel[3])
    is_tied = action < 0
    if is_tied.any():
        # up to rounding; what the actions cost each member decides
        tied = members.where(is_tied).samples
        action = np.array(action)
        action[is_tied] = to_numpy(rule.action_of_members(tied))
        like = by_kernel[0]
        by_kernel[3] = as_dtype_of(namespace(like), action, like)[()]
    return by_kernel


def _actions_by_kernel(rule: CostMatrix, members: Members) -> list[Array] | None:
    raw, weights, extras = members.raw, members.weights, Extras(actions=True)
    kernel = None if is_compiled(raw.values) else kernels.pick(raw, weights)
    if kernel is None or not kernel.supports(rule, extras):
        return None
    raw.check_logits()
    return kernel.compute(raw, weights, [rule], extras)


def _decisions(rule: CostMatrix, action: Array, costs: Decomposition) -> Decisions:
    names = rule.prediction_names(())
    return Decisions(action, *costs, names, rule, costs.standard_error)  # type: ignore[call-arg]


def _matrix(cost_matrix: Any) -> CostMatrix:
    """The cost matrix as a rule."""
    if isinstance(cost_matrix, CostMatrix):
        return cost_matrix
    if isinstance(cost_matrix, str | ScoringRule):
        raise InvalidInput(
            f"{quoted(cost_matrix)} is not a cost matrix (K, A) whose columns are actions; that of "
            "zero-one is 1 - np.eye(K)"
        )
    return CostMatrix(cost_matrix)


def _with_names(
    matrix: CostMatrix,
    classes: Iterable[Any] | None,
    abstain_cost: Any,
    action_names: Sequence[str] | None,
) -> CostMatrix:
    """The matrix for these classes, with the abstain action and a name for every action."""
    labels = None if classes is None else tuple(map(class_text, classes))
    has_names = matrix.class_names is not None
    matrix = matrix.for_classes(labels)
    names = matrix.prediction_names(labels or ()) if action_names is None else action_names
    costs = matrix.costs
    if abstain_cost is not None:
        n_actions = costs.shape[1]
        column = _column(abstain_cost, len(costs), labels, by_name_only=has_names)
        costs = np.column_stack([costs, column])
        if isinstance(names, str) or np.shape(names) != (n_actions + 1,):
            names = _with_abstaining(CostMatrix(matrix.costs, names).prediction_names(()))
    in_order = replace(
        matrix, costs=costs, actions=names, class_names=labels if has_names else None
    )
    return in_order.for_classes(labels)


def _with_abstaining(names: tuple[str, ...]) -> tuple[str, ...]:
    if ABSTAIN in names:
        raise InvalidInput(
            f"the cost matrix has an action {ABSTAIN!r} already; give that action another name",
            Remedy("abstain_cost", None, "if it is the action of abstaining"),
        )
    return (*names, ABSTAIN)


def _column(
    abstain_cost: Any, n_classes: int, labels: Sequence[str] | None, *, by_name_only: bool
) -> np.ndarray:
    """The cost of abstaining for each class, in the order of the labels."""
    column = validate.real(abstain_cost, "abstain_cost", to_numpy)
    if column.shape not in {(), (n_classes,)} or column.dtype.kind == "b":
        raise InvalidInput(
            f"abstain_cost must be a number, or one for each of {n_classes} classes, not "
            f"{column.dtype} of shape {column.shape}"
        )
    costs = validate.read_only_array(np.broadcast_to(column, n_classes), "abstain_cost", ndim=1)
    if not callable(getattr(abstain_cost, "index", len)):  # a Series of pandas
        by_class = CostMatrix(abstain_cost.to_frame(0))
        try:
            costs = by_class.for_classes(labels).costs[:, 0]
        except InvalidInput as error:
            raise InvalidInput(f"abstain_cost: {error.problem}", *error.remedies) from None
        by_name_only = by_name_only and by_class.class_names is None
    if by_name_only and column.ndim:
        raise InvalidInput(
            "abstain_cost has a cost for each class, and the cost matrix names its classes; add "
            "abstaining to the cost matrix, as one more action, or pass a Series of pandas whose "
            "index has the classes"
        )
    return costs
