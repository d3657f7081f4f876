"""Evaluate labelled predictions for all tasks; their members are decomposed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._inputs import apply_floor
from scorewise._lazy import at_scale
from scorewise._losses import certifiable_bound, in_library_of_rule
from scorewise._member_checks import member_problems
from scorewise._numerics import evenly_spaced
from scorewise._rows import (
    LabelledSamples,
    check_comparable,
    is_lazy,
    receive_labelled,
    receive_samples,
)
from scorewise.abstain import Certificate
from scorewise.acquire import learning_curves
from scorewise.compare._advise import Advice, advise, advise_ood
from scorewise.compare._compare import (
    BootstrapSettings,
    Rules,
    compare_ood,
    compare_runs,
    compare_selective,
)
from scorewise.compare._evaluation import (
    ActionSummary,
    ClassSummary,
    Evaluation,
    LearningEvaluation,
    OODEvaluation,
    UncertainRow,
    choose_headline,
)
from scorewise.compare._measures import RowUncertainties, TaskLosses
from scorewise.compare._verdict import Note
from scorewise.curves import rejection_curve
from scorewise.decompose import Decomposition
from scorewise.detect import ood_metrics
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.rules import DEFAULT_RULES, CostMatrix, RuleLike, ScoringRule, get_rule, get_rules

# Mean losses to certify by default, as fractions of the loss of a uniform guess. They are fixed
# beforehand and share the confidence, so that the best of them may be picked afterwards.
_TARGETS = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
_SHOWN_MEMBERS, _SHOWN_CLASSES = 40, 6  # of an uncertain row, that a picture can show
_SIMPLEX_POINTS = 2000


@validate.takes_options_of(Samples)
def evaluate(
    predictions: Any,
    y: Any = None,
    *,
    ood: Any = None,
    task_loss: RuleLike = "zero-one",
    rules: Rules = DEFAULT_RULES,
    max_loss: float | Sequence[float] | None = None,
    confidence: float = 0.95,
    floor: float | None = None,
    loss_bound: float | None = None,
    runs: Mapping[str, Any] | None = None,
    ids: Any = None,
    labels_are: str | None = None,
    n_uncertain: int = 10,
    n_resamples: int = 2000,
    random_state: Any = 0,
    progress: bool | None = None,
    **options: Any,
) -> Evaluation:
    """Return an evaluation of labelled predictions: abstaining, measures, OOD, calibration.

    Use it on rows that neither the model nor the choice of the measure has seen. Print the result,
    or pass it to :func:`scorewise.write_report` for an HTML report. The members of
    ``predictions`` and of ``ood`` are decomposed once each.

    Dask arrays are evaluated block by block, by the current Dask scheduler, and only sums,
    histograms and samples of rows reach this process. The numbers are the same as long as no
    measure has more than 65,536 distinct scores. Of more, nearly equal scores count as tied, and
    the notes of the result state how exact the areas are. See
    :func:`scorewise.scale.evaluate` for other limits, and
    :func:`scorewise.scale.evaluate_dataset` for folders of files.

    Parameters
    ----------
    predictions : Predictions, array (n, M, K) or Samples
        Such as ``sw.read_predictions("test.parquet")``, with labels, ids and class names.
        A Dask array too, with labels and ids of Dask or of NumPy.
    y : array (n,), optional
        Names of classes, or indices; not needed where the predictions have labels.
    ood : Predictions, array (m, M, K) or Samples, optional
        Predictions for out-of-distribution rows.
    task_loss : str or ScoringRule
        The loss that predictions incur.
    rules : rule, or several in a list or mapping
        Whose components are compared.
    max_loss : float or sequence of float, optional
        Mean losses to certify; by default several from 20 % to 1 % of the loss of a uniform guess
        (from 20 % to 1 % for zero-one). All certificates hold together with ``confidence``.
    confidence : float
        Of certificates and intervals.
    floor : float, optional
        The smallest probability that counts in the loss; see :func:`scorewise.task_losses`.
    loss_bound : float, optional
        The largest loss that can occur, where the rule does not define it; certificates need it.
    runs : mapping of str to lists of Round, optional
        Repeated runs of active learning, as for :func:`scorewise.compare`.
    ids : array (n,), optional
        Names of the rows.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    n_uncertain : int
        How many of the most uncertain rows to describe.
    n_resamples : int
        Number of bootstrap resamples.
    random_state : int, RandomState or Generator, optional
        Seed of the resamples.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Those of :class:`scorewise.Samples`: ``class_names``, ``weights``, ``from_logits``,
        ``normalize``, …

    Returns
    -------
    Evaluation

    Raises
    ------
    InvalidInput
        If labels are missing, or arguments do not fit each other.

    Examples
    --------
    >>> import textwrap
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> y = np.array([rng.choice(3, p=p) for p in truth])
    >>> probs = truth[:, None] * np.exp(rng.normal(scale=0.3, size=(2000, 10, 3))) + 1e-9
    >>> evaluation = sw.evaluate(probs, y, normalize=True, max_loss=0.1, n_resamples=200)
    >>> print(textwrap.fill(evaluation.verdict.abstain, 80))
    If the model passes on the 33 % of cases it is least sure of, 8.6 % of the rest
    are wrong instead of 20 %; on new cases like these at most 10 % of the answers
    will be wrong, with 95 % confidence.
    """
    if is_lazy(predictions) or is_lazy(ood):
        settings = {"task_loss": task_loss, "rules": rules, "max_loss": max_loss, "ood": ood}
        settings |= {"confidence": confidence, "floor": floor, "loss_bound": loss_bound}
        settings |= {"runs": runs, "ids": ids, "labels_are": labels_are, "progress": progress}
        settings |= {"n_uncertain": n_uncertain, "n_resamples": n_resamples}
        evaluation: Evaluation = at_scale("evaluate")(
            predictions, y, random_state=random_state, **settings, **options
        )
        return evaluation
    labelled = receive_labelled(predictions, y, options, ids=ids, labels_are=labels_are)
    classes = labelled.samples.classes_
    rule = get_rule(task_loss).for_classes(classes)
    loss_name = rule.name
    named = {name: rule.for_classes(classes) for name, rule in get_rules(rules).items()}
    n_uncertain = validate.whole(n_uncertain, "n_uncertain", at_least=0)
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    confidence = bootstrap.confidence
    learning = learning_of(runs, task_loss, confidence)
    advice = advise("selective", task_loss)
    samples = labelled.samples
    ood_samples = None if ood is None else _ood_samples(ood, samples, options)
    # all rules that are needed below, so that the members are decomposed once
    ood_rules = [*named.values(), get_rule(advise("ood").rule)] if ood_samples is not None else []
    rows = RowUncertainties.of(samples, [rule, *named.values(), *ood_rules])
    losses = rows.task_losses(rule, labelled.labels, floor)
    comparison, scores = compare_selective(rows, losses, named, advice, bootstrap)
    assert comparison.calibration is not None
    uncertainty = rows.by_rule[rule]
    certificates, notes = certificates_of(
        losses, uncertainty.total, samples, max_loss, confidence, floor, loss_bound
    )
    shown = simplex_rows(rows.n_rows, samples.n_classes)
    headline = choose_headline(certificates)
    accepted = None
    if headline is not None:
        accepted = accepted_by_class(
            labelled.labels, losses.incurred, uncertainty.total, headline, samples.n_classes
        )
    return Evaluation(
        n_rows=rows.n_rows,
        n_members=int(samples.probs.shape[-2]),
        n_classes=samples.n_classes,
        class_names=labelled.class_names,
        task_loss=loss_name,
        unit=rule.unit,
        loss=float(losses.incurred.mean()),
        measure=advice.measure,
        curves={
            row.name: rejection_curve(losses.incurred, scores[row.name])
            for row in comparison.standings
        },
        comparison=comparison,
        certificates=certificates,
        calibration=comparison.calibration,
        classes=ClassSums.of(
            labelled.labels, losses.incurred, uncertainty, samples.n_classes
        ).summaries(labelled.class_names, accepted),
        uncertain_rows=uncertain_rows_of(
            labelled, rows.mean, losses, uncertainty, floor, n_uncertain
        ),
        confidence=confidence,
        actions=action_summary(
            action_counts(labelled.labels, rows.mean, rule, floor), rule, labelled.class_names
        ),
        uncertainty=uncertainty,
        ood=None
        if ood_samples is None
        else _ood(
            rows, RowUncertainties.of(ood_samples, ood_rules), named, advise_ood(samples), bootstrap
        ),
        learning=learning,
        simplex=None if shown is None else (rows.mean[shown], labelled.labels[shown]),
        settings={
            "task loss": loss_name,
            "rules": list(named),
            "confidence": confidence,
            "floor": floor,
            "resamples": n_resamples,
            "seed": bootstrap.seed,
        },
        notes=(*notes, *map(Note, member_problems(samples))),
    )


def _ood_samples(ood: Any, rows: Samples, options: dict[str, Any]) -> Samples:
    """Return the out-of-distribution rows; Samples and files come with their own weights."""
    if isinstance(ood, Samples | Predictions):
        shared = {"class_names", "normalize"} if isinstance(ood, Predictions) else {"class_names"}
        options = {name: value for name, value in options.items() if name in shared}
    elif not isinstance(ood, Predictions) and np.ndim(options.get("weights", 0)) == 2:
        remedy = Remedy("ood", ..., "as Samples with weights of their own")
        raise InvalidInput("weights are those of the in-distribution rows", remedy)
    samples = receive_samples(ood, "ood", options)
    if not len(samples.probs):
        raise InvalidInput("ood has no rows")
    check_comparable(rows, samples)
    return samples


def certificates_of(
    losses: TaskLosses,
    totals: np.ndarray,
    samples: Samples,
    max_loss: float | Sequence[float] | None,
    confidence: float,
    floor: float | None,
    loss_bound: float | None,
) -> tuple[tuple[Certificate, ...], tuple[Note, ...]]:
    """Return certificates that hold together, or a note on why there are none."""
    rule = losses.rule
    try:
        bound = certifiable_bound(losses.incurred, rule, samples.n_classes, floor, loss_bound)
    except InvalidInput as error:
        return (), (Note(f"No certificate: {error.problem}", error.remedies),)
    if max_loss is None:
        uniform_loss = 1.0 if rule.unit.is_proportion else _uniform_loss(rule, samples)
        targets = [float(f"{t * uniform_loss:.2g}") for t in _TARGETS]
        targets = [t for t in targets if 0 < t < bound]
    else:
        distinct = {validate.number(t, "max_loss") for t in np.atleast_1d(max_loss).tolist()}
        targets = sorted(distinct, reverse=True)
    if not targets:
        note = "No certificate: a uniform guess incurs no loss, so there is nothing to guarantee"
        return (), (Note(note),)
    confidence_of_each = 1 - (1 - confidence) / len(targets)
    return tuple(
        Certificate.of(
            losses.incurred, totals, target, confidence_of_each, loss_bound=bound, unit=rule.unit
        )
        for target in targets
    ), ()


def _uniform_loss(rule: ScoringRule, samples: Samples) -> float:
    """Return the expected loss of the uniform prediction if it is calibrated."""
    uniform = np.full(samples.n_classes, 1 / samples.n_classes)
    return float(rule.entropy(in_library_of_rule(rule, uniform, samples)))


def _ood(
    rows_in: RowUncertainties,
    rows_out: RowUncertainties,
    rules: Mapping[str, ScoringRule],
    advice: Advice,
    bootstrap: BootstrapSettings,
) -> OODEvaluation:
    rule = get_rule(advice.rule)
    u_in, u_out = (rows.scores(rule, advice.component) for rows in (rows_in, rows_out))
    metrics = ood_metrics(
        u_in,
        u_out,
        bootstrap.confidence,
        n_resamples=bootstrap.n_resamples,
        random_state=bootstrap.seed,
        progress=bootstrap.progress,
    )
    comparison = compare_ood(rows_in, rows_out, rules, advice, bootstrap)
    return OODEvaluation(advice.rule, advice.component, metrics, u_in, u_out, comparison)


def learning_of(
    runs: Mapping[str, Any] | None, task_loss: RuleLike, confidence: float
) -> LearningEvaluation | None:
    if runs is None:
        return None
    curves = learning_curves(runs)
    return LearningEvaluation(curves, compare_runs(runs, advise("active", task_loss), confidence))


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Number of rows of each class, and sums over them; those of parts of the rows are added.

    Attributes
    ----------
    n_rows : integer array (K,)
    sums : array (4, K)
        Of loss, total, aleatoric and epistemic uncertainty.
    """

    n_rows: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(
        cls, labels: np.ndarray, losses: np.ndarray, uncertainty: Decomposition, n_classes: int
    ) -> ClassSums:
        """Return the sums of rows with these labels."""
        n_rows = np.bincount(labels, minlength=n_classes)
        values = (losses, *uncertainty)
        return cls(n_rows, np.stack([np.bincount(labels, x, n_classes) for x in values]))

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(self.n_rows + other.n_rows, self.sums + other.sums)

    def summaries(
        self, names: Sequence[str], accepted: np.ndarray | None
    ) -> tuple[ClassSummary, ...]:
        """Return the summary of each class; ``accepted`` as of :func:`accepted_by_class`."""
        with np.errstate(invalid="ignore"):
            means = self.sums / self.n_rows
        summaries = []
        for k, name in enumerate(names):
            n = int(self.n_rows[k])
            coverage = accepted_loss = None
            if accepted is not None and n:
                n_accepted, summed = accepted[:, k].tolist()
                coverage, accepted_loss = n_accepted / n, None
                if n_accepted:
                    accepted_loss = summed / n_accepted
            loss, total, aleatoric, epistemic = means[:, k].tolist()
            summaries.append(
                ClassSummary(name, n, loss, total, aleatoric, epistemic, coverage, accepted_loss)
            )
        return tuple(summaries)


def accepted_by_class(
    labels: np.ndarray,
    losses: np.ndarray,
    totals: np.ndarray,
    certificate: Certificate,
    n_classes: int,
) -> np.ndarray:
    """Return the number of rows of each class that are accepted, and their summed losses."""
    accepted = certificate.accepts(totals).astype(float)
    return np.stack([np.bincount(labels, x, n_classes) for x in (accepted, accepted * losses)])


def uncertain_rows_of(
    labelled: LabelledSamples,
    mean: np.ndarray,
    losses: TaskLosses,
    uncertainty: Decomposition,
    floor: float | None,
    n: int,
) -> tuple[UncertainRow, ...]:
    """Return the n rows of the largest total uncertainty."""
    rule = losses.rule
    total, aleatoric, epistemic = uncertainty
    # equally uncertain rows in falling order of their epistemic part
    order = np.lexsort((np.arange(len(total)), -epistemic, -total))[:n]
    probs, names = to_numpy(labelled.samples.probs)[order], labelled.class_names
    prediction_names = rule.prediction_names(names)
    predictions = _predictions(mean[order], rule, floor)
    ids = order if labelled.ids is None else labelled.ids[order]
    members = evenly_spaced(probs.shape[-2], _SHOWN_MEMBERS)
    rows = []
    for place, (i, row_id) in enumerate(zip(order.tolist(), ids.tolist(), strict=True)):
        classes = np.argsort(-mean[i], kind="stable")[:_SHOWN_CLASSES]
        label, prediction = names[labelled.labels[i]], prediction_names[int(predictions[place])]
        is_wrong = None
        if rule.unit.is_proportion:
            is_wrong = bool(losses.incurred[i] > 0)
        elif prediction_names == names:
            is_wrong = prediction != label
        rows.append(
            UncertainRow(
                index=i,
                id=row_id,
                label=label,
                prediction=prediction,
                is_wrong=is_wrong,
                loss=float(losses.incurred[i]),
                total=float(total[i]),
                aleatoric=float(aleatoric[i]),
                epistemic=float(epistemic[i]),
                classes=tuple(names[k] for k in classes),
                members=probs[place][np.ix_(members, classes)].astype(np.float64),
                mean=mean[i, classes].astype(np.float64),
            )
        )
    return tuple(rows)


def action_counts(
    labels: np.ndarray, mean: np.ndarray, rule: ScoringRule, floor: float | None
) -> np.ndarray | None:
    """Return how many rows of each class get each action of a cost matrix, ``(K, A)``, or None."""
    if not isinstance(rule, CostMatrix):
        return None
    n_rows = np.zeros(rule.costs.shape, dtype=int)
    np.add.at(n_rows, (labels, _predictions(mean, rule, floor)), 1)
    return n_rows


def action_summary(
    n_rows: np.ndarray | None, rule: ScoringRule, class_names: tuple[str, ...]
) -> ActionSummary | None:
    """Return the actions of a cost matrix and how often each is chosen."""
    if n_rows is None or not isinstance(rule, CostMatrix):
        return None
    return ActionSummary(rule.prediction_names(class_names), rule.costs, n_rows)


def _predictions(mean: np.ndarray, rule: ScoringRule, floor: float | None) -> np.ndarray:
    """Return what the rule predicts by θ̄: indices of classes or of actions."""
    floored = apply_floor(mean, floor)
    # members are checked already; in half precision their sum may be further from 1
    return np.asarray(rule.predict(floored / floored.sum(axis=-1, keepdims=True)))


def simplex_rows(n_rows: int, n_classes: int) -> np.ndarray | None:
    """Return the rows whose means are shown on a triangle, if there are three classes."""
    return evenly_spaced(n_rows, _SIMPLEX_POINTS) if n_classes == 3 else None
