"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import (
    Array,
    as_dtype_of,
    in_graph,
    is_compiled,
    is_dask,
    is_traced,
    leave_graph,
    namespace,
    outside_graph,
)
from scorewise._inputs import InputOptions
from scorewise._lazy import at_scale
from scorewise._members import Members, changed_options
from scorewise._notebook import display, frame, html
from scorewise._text import quoted_names
from scorewise.decompose._array_path import components_by_arrays
from scorewise.decompose._gradient import (
    components_with_gradient,
    detached,
    gradient_is_closed_form,
)
from scorewise.decompose._jackknife import check_jackknife
from scorewise.decompose._predictor import (
    check_without_jackknife,
    probabilities_of,
    receive_predictor,
)
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.kernels import Extras
from scorewise.rules import RuleLike, ScoringRule, Unit, get_rule, get_rules, is_single_rule

COMPONENTS = ("total", "aleatoric", "epistemic")


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Total, aleatoric and epistemic uncertainty; ``tu, au, eu = decomposition`` unpacks them.

    Attributes
    ----------
    total, aleatoric, epistemic : arrays (...)
        In the units of the rule's loss, in the library and on the device of the input.
    standard_error : Decomposition or None
        Standard errors of the three, if requested or if the values were simulated.

    Examples
    --------
    >>> import scorewise as sw
    >>> decomposition = sw.decompose([[[0.9, 0.1], [0.5, 0.5]]], "brier")
    >>> decomposition
    Decomposition(
      total     = [0.42]
      aleatoric = [0.34]
      epistemic = [0.08]
    )
    >>> total, aleatoric, epistemic = decomposition
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    standard_error: Decomposition | None = None

    def __iter__(self) -> Iterator[Array]:
        return iter((self.total, self.aleatoric, self.epistemic))

    def __repr__(self) -> str:
        lines = [f"  {name:9} = {text}" for name, text in self._texts().items()]
        if self.standard_error is not None:
            lines.append("  standard_error = Decomposition(...)")
        return "\n".join(["Decomposition(", *lines, ")"])

    def _repr_html_(self) -> str:
        texts = [("component", "values"), *self._texts().items()]
        return html(texts, n_names=2)

    def _texts(self) -> dict[str, str]:
        """The first and the last values of each component."""
        return {
            name: np.array2string(np.asarray(value), precision=4, threshold=6)
            if isinstance(value, np.ndarray | np.floating)
            else repr(value)
            for name, value in zip(COMPONENTS, self, strict=True)
        }

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with the columns total, aleatoric and epistemic.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Raises
        ------
        InvalidInput
            If the instances have more than one axis.
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.decompose([[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.6, 0.4]]], "brier").to_frame()
           total  aleatoric  epistemic
        0   0.50       0.18       0.32
        1   0.48       0.48       0.00
        """
        return frame(dict(zip(COMPONENTS, self, strict=True)), library)

    def plot(self, ax: Any = None, loss_name: str | Unit = "loss") -> Any:
        """Draw the two parts as stacked bars, and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        loss_name : str or Unit
            Name of the loss on the axis; the ``unit`` of a rule has one.

        Returns
        -------
        scorewise.plots.DecompositionDisplay

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> from matplotlib.figure import Figure
        >>> probs = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.6, 0.4]]])
        >>> display = sw.decompose(probs, "brier").plot(Figure().subplots(), "Brier loss")
        >>> display.ax_.get_ylabel()
        'expected Brier loss'
        """
        return display("DecompositionDisplay", self, loss_name).plot(ax)


class Decompositions(dict[str, Decomposition]):
    """The decompositions under several rules, a dict by their names.

    Examples
    --------
    >>> import scorewise as sw
    >>> probs = [[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.6, 0.4]]]
    >>> many = sw.decompose(probs, ["brier", "zero-one"])
    >>> many["brier"].epistemic.round(2)
    array([0.32, 0.  ])
    >>> list(many.to_frame())  # as in the tables of scorewise.score_file
    ['total_brier', 'aleatoric_brier', 'epistemic_brier', 'total_zero-one', 'aleatoric_zero-one',
     'epistemic_zero-one']
    """

    def _repr_html_(self) -> str:
        rows = [
            (rule, *name_and_text)
            for rule, decomposition in self.items()
            for name_and_text in decomposition._texts().items()
        ]
        return html([("rule", "component", "values"), *rows], n_names=3)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with a column for each component and rule, such as ``total_log``.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Raises
        ------
        InvalidInput
            If the instances have more than one axis.
        ImportError
            Without pandas and polars.
        """
        columns = {
            f"{component}_{rule}": values
            for rule, decomposition in self.items()
            for component, values in zip(COMPONENTS, decomposition, strict=True)
        }
        return frame(columns, library)


class _Keywords(TypedDict, total=False):
    """The keywords of :func:`decompose`, for its overloads."""

    weights: Any
    member_axis: int
    class_axis: int
    from_logits: bool
    normalize: bool
    check: bool
    class_names: Any
    unbiased: bool
    standard_errors: bool
    predictor: Any


@overload
def decompose(predictions: Any, rule: RuleLike, **options: Unpack[_Keywords]) -> Decomposition: ...
@overload
def decompose(
    predictions: Any,
    rule: Iterable[RuleLike] | Mapping[str, RuleLike],
    **options: Unpack[_Keywords],
) -> Decompositions: ...
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
    class_names: Any = None,
    unbiased: bool = False,
    standard_errors: bool = False,
    predictor: Any = None,
) -> Decomposition | Decompositions:
    """Return total, aleatoric and epistemic uncertainty, in the units of a rule's loss.

    Use the total of your own loss to abstain, the epistemic component under ``"log"`` to detect
    inputs that are out of distribution, and that under ``"zero-one"`` to choose what to label.

    With θ̄ = E_Q θ: TU = H(θ̄), AU = E_Q H(θ), EU = E_Q D(θ̄, θ) = TU − AU ≥ 0.

    Parameters
    ----------
    predictions : array (..., M, K), list of M arrays (..., K), Samples or Dirichlet
        Probabilities of M members (posterior samples) for K classes, as a NumPy, torch, JAX, CuPy
        or Dask array, or as a list of such arrays, one for each member; or a distribution. An
        array (M, K) has the members of one row: for N rows of one model pass ``probs[:, None]``.
        Of a Dask array the results are lazy, in its chunks of rows. Members may be in several
        chunks, which need not fit on one machine together: each is accumulated where it is, and
        only accumulators of the size of one member move. ``unbiased``, ``standard_errors`` and
        ``predictor`` need all members of a row in one chunk, which a warning says.
        If a torch tensor requires gradients, so do the results. Gradients with respect to
        probabilities are along the simplex: only differences within a row count.
    rule : str, ScoringRule, costs (K, A), or several in a list or a mapping
        As for :func:`scorewise.get_rule`. A single rule gives a single result. Several give a dict
        by name (as written, or by the mapping's keys), computed in one pass.
    weights : array (M,) or (..., M), optional
        Member weights in any scale; those of 0 do not count.
    member_axis, class_axis : int
        Where members and classes are, moved without a copy: ``member_axis=0`` for ``(M, N, K)``,
        ``member_axis=0, class_axis=2`` for a segmentation ``(M, N, K, H, W)``.
    from_logits : bool
        Take a softmax first; -inf masks a class.
    normalize : bool
        Rescale rows to sum to 1.
    check : bool
        Raise for bad input; ``False`` skips the check.
    class_names : sequence, optional
        Labels of the classes in the order of the predictions, for costs that name their classes.
    unbiased : bool
        Correct EU for the number of members by the jackknife, EU + Σ_m (1 − w_m) D(θ̄, θ̄₋ₘ) with
        weights w that sum to 1 (M/(M−1) times EU for quadratic rules), and set TU = AU + EU.
        Needs two members with weight, and no decision rule (zero-one, top-k, cost matrix).
    standard_errors : bool
        Add ``.standard_error``, jackknife errors from the spread of the members.
    predictor : array (..., K) or (K,), optional
        Probabilities p of the model that is deployed in place of the mean θ̄: one member, a
        distilled or a calibrated model. Then TU = E_Q L(p, θ), the expected loss of p, and
        EU = E_Q D(p, θ) ≥ 0, the part that a better model could avoid; AU is the same. ``(K,)`` is
        one prediction for all instances. NumPy, or the library of the predictions; a data frame
        and ``Samples`` of one member have their own class names, which must be those of the
        predictions. ``from_logits``, ``normalize`` and the axes are for the members only. Not with
        ``unbiased`` and ``standard_errors``.

    Returns
    -------
    Decomposition, or Decompositions
        Each component has the shape of the instances, ``(...)``. ``Decompositions`` is a dict of
        str to Decomposition.

    Raises
    ------
    InvalidInput
        If predictions, weights or options are invalid; the message says where and what to do.

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

    A distilled model is sure of the first row, of which the members know nothing:

    >>> distilled = np.array([[0.95, 0.05], [0.6, 0.4]])
    >>> sw.decompose(probs, "brier", predictor=distilled).epistemic.round(4)
    array([0.725, 0.   ])

    Epistemic uncertainty as a training signal:

    >>> import torch
    >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 2.0]]], requires_grad=True)
    >>> sw.decompose(logits, "brier", from_logits=True).epistemic.sum().backward()
    >>> logits.grad
    tensor([[[ 0.0800, -0.0800],
             [-0.0800,  0.0800]]])
    """
    options = InputOptions(member_axis, class_axis, from_logits, normalize, check, class_names)
    extras = Extras(unbiased, standard_errors)
    arguments = (predictions, rule, weights, options, extras, predictor)
    if check and not isinstance(predictions, np.ndarray) and in_graph():
        # one break of the graph in place of one for each check
        leave_graph(validate.CHECKS_VALUES)
        return outside_graph(_decompose, *arguments)
    return _decompose(*arguments)


def _decompose(
    predictions: Any,
    rule: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
    weights: Any,
    options: InputOptions,
    extras: Extras,
    predictor: Any,
) -> Decomposition | Decompositions:
    if is_single_rule(rule):
        named, rules = None, [get_rule(rule)]
    else:
        named = get_rules(rule)
        rules = list(named.values())
    if predictor is not None:
        check_without_jackknife(extras)
    if isinstance(predictions, Dirichlet):
        if names := changed_options(weights, options, extras):
            raise InvalidInput(
                f"{names}: a Dirichlet has no members and was checked when it was made, so this "
                "does not apply to it"
            )
        results = [_of_dirichlet(predictions, r, predictor) for r in rules]
    else:
        members = Members.of(predictions, weights, options)
        results = _of_members(members, rules, extras, predictor, check=options.check)
    if named is None:
        return results[0]
    return Decompositions(zip(named, results, strict=True))


# -- members --------------------------------------------------------------------------------------


def _of_members(
    members: Members, rules: Sequence[ScoringRule], extras: Extras, predictor: Any, *, check: bool
) -> list[Decomposition]:
    rules = members.fit_rules(rules)
    if extras.jackknife:
        check_jackknife(members.raw.values.shape[-2], rules, extras.unbiased)
    per_rule = extras.n_components
    n_results = per_rule * len(rules)
    if predictor is None and not extras.jackknife and members.have_several_chunks:
        components = at_scale("decompose_members")(members, rules)
    elif predictor is None:
        components = members.compute(
            lambda m: all_components(m, rules, extras),
            n_results,
            why="the jackknife leaves out one after the other",
        )
    else:
        one_member, classes = members.raw.values[..., 0, :], members.raw.classes
        received = receive_predictor(predictor, one_member, classes, check=check)

        def work(block: Members, q: Array) -> list[Array]:
            raw = block.raw
            q = probabilities_of(received, q, raw.values[..., 0, :], raw.layout.origin)
            return all_components(block, rules, replace(extras, predictor=q))

        components = members.compute(
            work, n_results, received.values, why="the risk of a predictor is a mean over them"
        )
    return [
        _decomposition(components[i : i + per_rule]) for i in range(0, len(components), per_rule)
    ]


def _decomposition(components: Sequence[Array]) -> Decomposition:
    """Return a decomposition from three components, or from six with their standard errors."""
    total, aleatoric, epistemic, *errors = components
    return Decomposition(total, aleatoric, epistemic, Decomposition(*errors) if errors else None)


def all_components(members: Members, rules: Sequence[ScoringRule], extras: Extras) -> list[Array]:
    """Return all components of all rules, with the gradient that torch needs of the members."""
    if not gradient_is_closed_form(members, extras):
        return _components(members, rules, extras)
    is_closed = [rule.losses_are_gradients for rule in rules]
    closed = list(compress(rules, is_closed))
    by_formula = components_with_gradient(members, closed, _components) if closed else []
    return _with_others(by_formula, members, rules, is_closed, extras)


def _components(members: Members, rules: Sequence[ScoringRule], extras: Extras) -> list[Array]:
    """Return all components of all rules, by a kernel those that it supports."""
    raw, weights = members.raw, members.weights
    kernel = None if is_compiled(raw.values) else kernels.pick(raw, weights)
    if kernel is None:
        return components_by_arrays(members, rules, extras)
    is_supported = [kernel.supports(rule, extras) for rule in rules]
    fused = list(compress(rules, is_supported))
    if fused:
        raw.check_logits()
    by_kernel = kernel.compute(raw, weights, fused, extras) if fused else None
    if by_kernel is None:
        return components_by_arrays(members, rules, extras)
    return _with_others(by_kernel, members, rules, is_supported, extras)


def _with_others(
    components: list[Array],
    members: Members,
    rules: Sequence[ScoringRule],
    is_done: Sequence[bool],
    extras: Extras,
) -> list[Array]:
    """Return the components of all rules, from those of the rules that are done."""
    if all(is_done):
        return components
    others = [rule for rule, done in zip(rules, is_done, strict=True) if not done]
    by_arrays = components_by_arrays(members, others, extras)
    parts = {True: iter(components), False: iter(by_arrays)}
    return [x for done in is_done for x in islice(parts[done], extras.n_components)]


# -- Dirichlets -----------------------------------------------------------------------------------


def _of_dirichlet(predictions: Dirichlet, rule: ScoringRule, predictor: Any) -> Decomposition:
    rule = rule.for_classes(predictions.classes_)
    rule.check_classes(predictions.n_classes)
    q = predictions.in_float64(on_host=rule.runs_on_any_library and not is_traced(predictor))
    xp = namespace(q.alpha)
    total = rule._dirichlet_total(xp, q)
    aleatoric, epistemic, error = rule._dirichlet_parts(xp, q, total)
    if predictor is not None:
        received = receive_predictor(predictor, predictions.alpha, predictions.classes_)
        p = probabilities_of(received, received.values, q.alpha)
        excess = rule._dirichlet_excess(xp, q, p)
        total, epistemic = total + excess, epistemic + excess
    components = [total, aleatoric, epistemic]
    if error is not None:
        components += [xp.zeros_like(total), error, error]
    alpha = predictions.alpha
    if namespace(alpha) is not xp:
        return _decomposition([as_dtype_of(namespace(alpha), x, alpha) for x in components])
    return _decomposition([xp.astype(x, alpha.dtype) for x in components])  # keeps gradients


# -- which path a decomposition takes -------------------------------------------------------------


@dataclass(frozen=True)
class Explanation:
    """The path that a decomposition would take: ``"array"``, or the name of a kernel.

    If a kernel computes only some of the rules, the path is its name, and the reason names the
    rules of the array path.

    Attributes
    ----------
    path : str
    reason : str

    Examples
    --------
    >>> import scorewise as sw
    >>> explanation = sw.explain_kernel(sw.Dirichlet([8.0, 1.0, 1.0]), "log")
    >>> explanation.path
    'array'
    >>> print(explanation)
    array: a Dirichlet has closed forms and no members
    """

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
    class_names: Any = None,
    unbiased: bool = False,
    standard_errors: bool = False,
    predictor: Any = None,
) -> Explanation:
    """Return which path :func:`scorewise.decompose` would take with the same arguments, and why.

    Use it when a decomposition is slower than you expect. Nothing is computed and no value is
    read. Both paths give the same numbers up to rounding.

    Parameters
    ----------
    predictions, rule
        As for :func:`scorewise.decompose`.
    weights, member_axis, class_axis, from_logits, normalize, check, class_names
        As for :func:`scorewise.decompose`.
    unbiased, standard_errors, predictor
        As for :func:`scorewise.decompose`.

    Returns
    -------
    Explanation
        ``.path`` is ``"cpu"`` or ``"cuda"`` if that kernel computes all or some of the rules,
        ``"host"`` if the CPU kernel does, of a small tensor that is copied to host memory, or
        ``"array"`` for the array path. ``.reason`` says why, and which rules take the array path
        beside the kernel.

    Raises
    ------
    InvalidInput
        If the shape, the axes or the rules do not fit.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = np.full((10, 5, 3), 1 / 3)
    >>> print(sw.explain_kernel(probs, ["log", "rps"]))
    cpu: the members are in host memory
    >>> own = sw.rule_from_entropy(lambda p: 1 - (p**2).sum(-1), lambda p: -2 * p, name="gini")
    >>> print(sw.explain_kernel(probs, {"log": "log", "own": own}))
    cpu: the members are in host memory; by the array path: 'own'
    """
    named = get_rules(rule)
    extras = Extras(unbiased, standard_errors)
    if predictor is not None:
        check_without_jackknife(extras)
    if isinstance(predictions, Dirichlet):
        return Explanation("array", "a Dirichlet has closed forms and no members")
    options = InputOptions(member_axis, class_axis, from_logits, normalize, check, class_names)
    members = Members.of(predictions, weights, options)
    rules = members.fit_rules(named.values())
    if predictor is not None:
        one_member, classes = members.raw.values[..., 0, :], members.raw.classes
        received = receive_predictor(predictor, one_member, classes, check=check)
        extras = Extras(predictor=received.values)
    if is_dask(members.raw.values):
        return Explanation("array", "a Dask array is lazy; each of its blocks chooses its own path")
    in_closed_form = gradient_is_closed_form(members, extras)
    recorded = {name for name, r in zip(named, rules, strict=True) if not r.losses_are_gradients}
    members = detached(members) if in_closed_form else members
    reasons = []
    for path, answer in kernels.usability(members.raw, members.weights).items():
        reason = answer.reason
        if answer:
            supports = kernels.KERNELS[path].supports
            others = [
                name
                for name, r in zip(named, rules, strict=True)
                if not supports(r, extras) or (in_closed_form and name in recorded)
            ]
            if not others or len(others) < len(rules):
                by_arrays = f"; by the array path: {quoted_names(others)}" if others else ""
                gradients = "; gradients in closed form" if in_closed_form else ""
                return Explanation(path, reason + by_arrays + gradients)
            with_extras = " with the jackknife" if extras.jackknife else ""
            with_extras += " with this predictor" if predictor is not None else ""
            reason = f"it does not support {quoted_names(others)}{with_extras}"
        reasons.append(f"not by the {path} kernel: {reason}")
    return Explanation("array", "; ".join(reasons))
