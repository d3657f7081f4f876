"""Rank uncertainty measures by the metric of a task, with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._lazy import at_scale
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._rows import (
    check_comparable,
    check_member_axis,
    is_lazy,
    label_indices,
    receive_rows,
)
from scorewise._threads import get_num_threads, run_in_threads
from scorewise.acquire import Round, learning_curves
from scorewise.calibrate import LossCalibration, loss_calibration
from scorewise.compare._advise import Advice, advise, advise_ood
from scorewise.compare._calibrating import effect_of_calibrating
from scorewise.compare._comparison import (
    Comparison,
    Contrasts,
    contrasts_by_influence,
    contrasts_by_runs,
    rank,
)
from scorewise.compare._influence import Estimate, aulc, auroc
from scorewise.compare._measures import (
    Measure,
    RowUncertainties,
    TaskLosses,
    first_of_same_order,
    own_measures,
)
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.rules import DEFAULT_RULES, RuleLike, ScoringRule, get_rule, get_rules

Rules = RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike]


@validate.takes_options_of(Samples)
def compare(
    probs: Any = None,
    y: Any = None,
    task: str = "selective",
    task_loss: RuleLike = "zero-one",
    *,
    rules: Rules = DEFAULT_RULES,
    components: str | Sequence[str] = COMPONENTS,
    ood: Any = None,
    scores: Mapping[str, Any] | None = None,
    runs: Mapping[str, Any] | None = None,
    baselines: bool = True,
    floor: float | None = None,
    labels_are: str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Return uncertainty measures ranked for a task on your own data, with intervals.

    Use it after :func:`scorewise.advise`. Every rule and component is ranked by the task's metric:
    AULC for ``"selective"`` (lower is better), AUROC for ``"ood"`` (higher is better), the mean
    loss over rounds for ``"active"`` (lower is better).

    Each measure's distance from the best comes with an interval. The intervals hold for all pairs
    of measures at once, so the best may be picked by the same data. They come from a paired
    multiplier bootstrap, which gives rows random weights, and the quantile of the largest t
    (max-T); for repeated runs from Student's t, paired, with Bonferroni's correction. Measures
    that order all rows alike are recognised and share their numbers.

    Dask arrays are compared block by block, by the current Dask scheduler. The numbers are the same
    as long as no measure has more than 65,536 distinct scores. Of more, nearly equal scores count
    as tied, and ``error_bound`` of the result is the largest error of the metric. See
    :func:`scorewise.scale.compare` for other limits.

    Parameters
    ----------
    probs : array (n, M, K), Samples, Dirichlet or Predictions
        Predictions, for ``"selective"`` and ``"ood"``; those of a file include labels. A Dask array
        too, with ``ood``, labels and scores of Dask.
    y : array (n,), optional
        Labels of the same rows, names of classes or indices, for ``"selective"``; other tasks
        ignore them.
    task : "selective", "ood" or "active"
        What the measures are for.
    task_loss : str or ScoringRule
        The loss that predictions incur, for ``"selective"``; its total is always compared.
    rules : rule, or several in a list or mapping
        As for :func:`scorewise.decompose`.
    components : str or sequence of str
        Of ``"total"``, ``"aleatoric"`` and ``"epistemic"``.
    ood : array (m, M, K), Samples, Dirichlet or Predictions
        Predictions for out-of-distribution rows, for ``"ood"``, in the dtype of ``probs``.
    scores : mapping of str to array (n,), optional
        Your own scores, larger for more uncertain; for ``"ood"`` pairs of arrays (n,) and (m,).
    runs : mapping of str to array (R, T), or to R lists of Round
        For ``"active"``: the task's loss after each of T rounds, in R repeated runs that are paired
        (the same splits and seeds for every measure). Or the rounds of
        :func:`scorewise.active_learning` in each run, compared at the numbers of labels that all
        runs have reached.
    baselines : bool
        Whether to compare max-softmax, margin and variation ratio too.
    floor : float, optional
        The smallest probability that counts in the loss; see :func:`scorewise.task_losses`.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    confidence : float
        Confidence of all intervals together.
    n_resamples : int
        Number of bootstrap resamples; at least 20,000 are drawn, as they take no time.
    random_state : int, RandomState or Generator, optional
        Seed of the resamples.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Those of :class:`scorewise.Samples` for ``probs`` and ``ood``: ``class_names``,
        ``weights``, ``from_logits``, …

    Returns
    -------
    Comparison
        Printing it shows a table.

    Raises
    ------
    InvalidInput
        If an argument that the task needs is missing, or arguments do not fit each other.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(4, 0.4), size=500)
    >>> y = np.array([rng.choice(4, p=p) for p in truth])
    >>> noise = rng.normal(scale=0.5, size=(500, 10, 4))
    >>> probs = truth[:, None] * np.exp(noise)
    >>> probs /= probs.sum(axis=-1, keepdims=True)
    >>> print(sw.compare(probs, y, rules=["log", "zero-one"], baselines=False, random_state=0))
    Abstaining, by AULC of the zero-one loss (lower is better)
    measure             verdict              AULC  distance [95 % interval]
    total zero-one      best               0.1962   0.0000 [0.0000, 0.0000]
    aleatoric zero-one  indistinguishable  0.1990  0.0027 [-0.0039, 0.0093]
    total log           indistinguishable  0.2088  0.0125 [-0.0033, 0.0283]
    aleatoric log       indistinguishable  0.2100  0.0138 [-0.0030, 0.0305]
    epistemic log       worse              0.2306   0.0344 [0.0057, 0.0630]
    epistemic zero-one  worse              0.2394   0.0431 [0.0161, 0.0702]
    Theory recommends total zero-one: it is the best of the 6 measures here.
    Calibrating first would not help here: cross-validation leaves the probabilities as they are.
    """
    if is_lazy(probs) or is_lazy(ood):
        settings: dict[str, Any] = {"runs": runs, "baselines": baselines, "floor": floor}
        settings |= {"confidence": confidence, "n_resamples": n_resamples, "progress": progress}
        settings |= {"labels_are": labels_are, "rules": rules, "components": components}
        settings |= {"ood": ood, "scores": scores}
        comparison: Comparison = at_scale("compare")(
            probs, y, task, task_loss, random_state=random_state, **settings, **options
        )
        return comparison
    confidence = validate.proportion(confidence, "confidence")
    advice = advise(task, task_loss)
    task = advice.task
    if task == "active":
        refuse_unused(task, probs=probs, ood=ood, scores=scores, floor=floor)
        return compare_runs(runs, advice, confidence)
    refuse_unused(task, runs=runs, **({"floor": floor} if task == "ood" else {"ood": ood}))
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    component_names = [components] if isinstance(components, str) else dict.fromkeys(components)
    chosen: dict[str, Any] = {
        "components": list(component_names),
        "baselines": baselines,
        "scores": scores,
    }
    if task == "ood":
        predictions_in, predictions_out = (
            _at_least_one_row(predictions, name, options)
            for name, predictions in (("probs", probs), ("ood", ood))
        )
        check_comparable(predictions_in, predictions_out)
        advice = advise_ood(predictions_in)
        named = rules_for(predictions_in, rules)
        rows_in, rows_out = (
            RowUncertainties.of(predictions, named.values())
            for predictions in (predictions_in, predictions_out)
        )
        return compare_ood(rows_in, rows_out, named, advice, bootstrap, **chosen)
    predictions, labels = _labelled_rows(probs, y, options, labels_are)
    named = rules_for(predictions, rules)
    rule = get_rule(task_loss).for_classes(predictions.classes_)
    rows = RowUncertainties.of(predictions, [*named.values(), rule])
    losses = rows.task_losses(rule, labels, floor)
    comparison, _ = compare_selective(rows, losses, named, advice, bootstrap, **chosen)
    return comparison


@dataclass(frozen=True)
class BootstrapSettings:
    """How many resamples are drawn, from which seed, and the confidence of their intervals."""

    confidence: float
    n_resamples: int
    seed: int
    progress: bool | None

    @classmethod
    def of(
        cls, confidence: float, n_resamples: int, random_state: Any, progress: bool | None
    ) -> BootstrapSettings:
        """Return the settings, with checked arguments."""
        return cls(
            validate.proportion(confidence, "confidence"),
            validate.whole(n_resamples, "n_resamples", at_least=100),
            seed_of(random_state),
            progress,
        )


def compare_selective(
    rows: RowUncertainties,
    losses: TaskLosses,
    rules: Mapping[str, ScoringRule],
    advice: Advice,
    bootstrap: BootstrapSettings,
    *,
    components: Sequence[str] = COMPONENTS,
    baselines: bool = True,
    scores: Mapping[str, Any] | None = None,
) -> tuple[Comparison, dict[str, np.ndarray]]:
    """Return the comparison for abstaining, by AULC, and the scores of each measure.

    The total of the task's own loss is always compared.
    """
    measures = selective_measures(
        rows, losses.rule, rules, advice, components=components, baselines=baselines
    )
    measures += own_measures(scores, {"scores": rows.n_rows}, measures)
    comparison = _compare_measures(
        measures,
        partial(aulc, losses.incurred),
        advice,
        loss_calibration(losses.incurred, losses.expected, confidence=bootstrap.confidence),
        bootstrap,
    )
    effect = effect_of_calibrating(rows, losses, bootstrap.confidence)
    comparison = replace(comparison, calibrating=effect)
    return comparison, {measure.name: measure.scores for measure in measures}


def selective_measures(
    rows: RowUncertainties,
    rule: ScoringRule,
    rules: Mapping[str, ScoringRule],
    advice: Advice,
    *,
    components: Sequence[str] = COMPONENTS,
    baselines: bool = True,
) -> list[Measure]:
    """Return the measures that are compared for abstaining, the total of the task's loss first."""
    loss_name = advice.rule
    if rules.get(loss_name, rule) != rule:
        raise InvalidInput(
            f"the task's loss and another rule are both called {loss_name!r}",
            Remedy("rules", ..., "a mapping with names of your own"),
        )
    (recommended,) = rows.measures({loss_name: rule}, ["total"], baselines=False)
    others = rows.measures(rules, components, baselines=baselines)
    return [recommended, *(other for other in others if other.name != recommended.name)]


def compare_ood(
    rows_in: RowUncertainties,
    rows_out: RowUncertainties,
    rules: Mapping[str, ScoringRule],
    advice: Advice,
    bootstrap: BootstrapSettings,
    *,
    components: Sequence[str] = COMPONENTS,
    baselines: bool = True,
    scores: Mapping[str, Any] | None = None,
) -> Comparison:
    """Return the comparison for OOD detection, by AUROC."""
    probs, ood = rows_in.predictions, rows_out.predictions
    if type(probs) is not type(ood) or probs.n_classes != ood.n_classes:
        raise InvalidInput(f"probs and ood must be of one kind, not {probs} and {ood}")
    measures_in, measures_out = (
        rows.measures(rules, components, baselines=baselines) for rows in (rows_in, rows_out)
    )
    measures = [
        measure.followed_by(same_measure)
        for measure, same_measure in zip(measures_in, measures_out, strict=True)
    ]
    sizes = {"in": rows_in.n_rows, "out": rows_out.n_rows}
    measures += own_measures(scores, sizes, measures)
    require_measures(measures)
    return _compare_measures(measures, partial(auroc, rows_in.n_rows), advice, None, bootstrap)


def require_measures(measures: Sequence[Any]) -> None:
    """Raise if there is no measure."""
    if not measures:
        raise InvalidInput(
            "there is nothing to compare",
            Remedy("rules", ..., "with their components"),
            Remedy("scores", ..., "your own scores"),
        )


def compare_runs(runs: Any, advice: Advice, confidence: float) -> Comparison:
    """Return the comparison of repeated runs of active learning, by their mean loss."""
    if not isinstance(runs, Mapping) or not runs:
        remedy = Remedy("runs", ..., "a mapping of the name of each measure to its losses (R, T)")
        raise InvalidInput("there are no repeated runs of active learning to compare", remedy)
    if any(_has_rounds(repeats) for repeats in runs.values()):
        runs = _losses_at_shared_labels(runs)
    curves = {name: _losses_of_runs(values, name) for name, values in runs.items()}
    if len({curve.shape for curve in curves.values()}) != 1:
        shapes = {name: curve.shape for name, curve in curves.items()}
        raise InvalidInput(f"runs are paired and must be of one shape (R, T), not {shapes}")
    results = np.stack([curve.mean(axis=1) for curve in curves.values()], axis=1)
    names = list(curves)
    standings = rank(
        names,
        results.mean(axis=0),
        contrasts_by_runs(results, confidence),
        dict(zip(names, names, strict=True)),
        higher_is_better=False,
    )
    return Comparison(
        "active", advice.task_loss, "mean loss", standings, confidence, advice.measure
    )


def _has_rounds(runs: Any) -> bool:
    """Return whether a list of runs, or one of its runs, has rounds rather than losses."""
    return isinstance(runs, list | tuple) and any(
        isinstance(run, Round) or (isinstance(run, list | tuple) and _has_rounds(run))
        for run in runs
    )


def _losses_at_shared_labels(
    runs: Mapping[str, Sequence[Sequence[Round]]],
) -> dict[str, np.ndarray]:
    """Return the losses (R, T) of every measure at numbers of labels that all runs reached."""
    curves = learning_curves(runs)
    numbers = [n_labelled for n_labelled, _ in curves.values()]
    shared = numbers[0][np.all([np.isin(numbers[0], other) for other in numbers], axis=0)]
    if not len(shared):
        reached = {name: n_labelled.tolist() for name, (n_labelled, _) in curves.items()}
        raise InvalidInput(f"runs have no number of labels in common: {reached}")
    return {name: losses[:, np.isin(n, shared)] for name, (n, losses) in curves.items()}


def _compare_measures(
    measures: Sequence[Measure],
    estimate: Callable[[np.ndarray], Estimate],
    advice: Advice,
    calibration: LossCalibration | None,
    bootstrap: BootstrapSettings,
) -> Comparison:
    """Return the comparison by a metric; that of equal orders is computed once."""
    first = first_of_same_order(measures)
    leaders = [measure for measure in measures if first[measure.name] == measure.name]
    estimates = _estimates([measure.scores for measure in leaders], estimate, bootstrap.progress)
    contrasts = contrasts_by_influence(
        estimates, bootstrap.confidence, bootstrap.n_resamples, generator(bootstrap.seed)
    )
    values = np.array([metric.value for metric in estimates])
    names = [measure.name for measure in leaders]
    return comparison_of(names, values, contrasts, first, advice, calibration, bootstrap)


def comparison_of(
    names: Sequence[str],
    values: np.ndarray,
    contrasts: Contrasts,
    first: Mapping[str, str],
    advice: Advice,
    calibration: LossCalibration | None,
    bootstrap: BootstrapSettings,
) -> Comparison:
    """Return the comparison of measures with these values of the task's metric.

    ``first`` maps each measure to the one of ``names`` that orders all rows as it does.
    """
    is_ood = advice.task == "ood"
    standings = rank(names, values, contrasts, first, higher_is_better=is_ood)
    return Comparison(
        advice.task,
        advice.task_loss,
        "auroc" if is_ood else "aulc",
        standings,
        bootstrap.confidence,
        advice.measure,
        calibration,
    )


def _estimates(
    scores: Sequence[np.ndarray], estimate: Callable[[np.ndarray], Estimate], progress: bool | None
) -> list[Estimate]:
    """Return the metric of each measure, in parallel."""
    estimates: dict[int, Estimate] = {}
    with bar("comparing", len(scores), progress) as advance:

        def compute(i: int) -> bool:
            estimates[i] = estimate(scores[i])
            advance(1)
            return True

        run_in_threads((partial(compute, i) for i in range(len(scores))), get_num_threads())
    return [estimates[i] for i in range(len(scores))]


def refuse_unused(task: str, **arguments: Any) -> None:
    """Raise for an argument that the task does not use, rather than drop it silently."""
    for name, value in arguments.items():
        if value is not None:
            raise InvalidInput(f"task={task!r} does not use {name}=")


def _at_least_one_row(predictions: Any, name: str, options: dict[str, Any]) -> Samples | Dirichlet:
    """Return predictions of at least one row, from a file or from arrays."""
    if predictions is None:
        remedy = Remedy(name, ..., "the predictions (n, M, K) of rows")
        raise InvalidInput("this task compares predictions", remedy)
    rows = receive_rows(predictions, name, options)
    if not rows.mean.shape[0]:
        raise InvalidInput(f"{name} is empty; there must be at least one row")
    return rows


def _labelled_rows(
    predictions: Any, y: Any, options: dict[str, Any], labels_are: str | None
) -> tuple[Samples | Dirichlet, np.ndarray]:
    """Return predictions and their labels, which a file may contain."""
    if y is None and not isinstance(predictions, Predictions):
        raise InvalidInput("task='selective' needs labels", Remedy("y", ..., "those of the rows"))
    check_member_axis(predictions, y, options)
    rows = _at_least_one_row(predictions, "probs", options)
    return rows, label_indices(predictions, rows, y, labels_are)


def rules_for(predictions: Samples | Dirichlet, rules: Rules) -> dict[str, ScoringRule]:
    """Return the rules by name, for the classes of the predictions."""
    classes = predictions.classes_
    return {name: rule.for_classes(classes) for name, rule in get_rules(rules).items()}


def _losses_of_runs(values: Any, name: str) -> np.ndarray:
    """Return finite losses of repeated runs, ``(R, T)``."""
    losses = np.asarray(validate.real(values, f"runs[{name!r}]", to_numpy), dtype=np.float64)
    if losses.ndim != 2 or losses.shape[0] < 2 or not losses.shape[1]:
        raise InvalidInput(
            f"runs[{name!r}] has shape {losses.shape}; it must be (R, T), of at least two runs"
        )
    validate.loss_vector(losses.ravel(), f"runs[{name!r}].ravel()")
    return losses
