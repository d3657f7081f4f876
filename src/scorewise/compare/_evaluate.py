"""Everything about one set of predictions: abstaining, foreign rows, measures, honesty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._labelled import Labelled, members_of
from scorewise._numerics import spread
from scorewise._random import entropy_of
from scorewise.abstain import Certificate, certify_threshold
from scorewise.acquire import learning_curve
from scorewise.calibrate import loss_calibration
from scorewise.compare._advise import advise
from scorewise.compare._compare import compare
from scorewise.compare._evaluation import (
    ClassSummary,
    DoubtfulRow,
    Evaluation,
    ForeignRows,
    LabelsBought,
    headline,
)
from scorewise.compare._measures import measures_of
from scorewise.curves import rejection_curve
from scorewise.decompose import (
    COMPONENTS,
    RULES,
    Decomposition,
    RuleLike,
    decompose,
    named_rules,
    rule_name,
)
from scorewise.detect import ood_metrics
from scorewise.distributions import Samples, apply_floor
from scorewise.errors import InvalidInput
from scorewise.io import Predictions
from scorewise.losses import expected_of_mean, losses_of_mean, promised_bound, total_of_mean
from scorewise.rules import ScoringRule, get_rule

# Mean losses to certify where none are asked for, as shares of what guessing blindly pays. They are
# fixed beforehand and share the confidence, so that the best of them may be picked afterwards.
_TARGETS = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
_MEMBERS, _CLASSES = 40, 6  # of a doubtful row, that a picture can show
_SIMPLEX = 2000  # points


def evaluate(
    predictions: Any,
    y: Any = None,
    *,
    ood: Any = None,
    task_loss: RuleLike = "zero-one",
    rules: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike] = RULES,
    max_loss: float | Sequence[float] | None = None,
    confidence: float = 0.95,
    floor: float | None = None,
    loss_bound: float | None = None,
    runs: Mapping[str, Any] | None = None,
    ids: Any = None,
    class_names: Sequence[str] | None = None,
    n_doubtful: int = 10,
    n_resamples: int = 2000,
    random_state: Any = 0,
    progress: bool | None = None,
    **options: Any,
) -> Evaluation:
    """Everything that labelled predictions tell: when to abstain, by which measure, and more.

    Use it on rows that neither the model nor the choice of the measure has seen, then print it, or
    give it to :func:`scorewise.write_report` for a page that explains itself.

    Parameters
    ----------
    predictions : Predictions, array (n, M, K) or Samples
        Such as ``sw.read_predictions("test.parquet")``, which has labels, ids and class names too.
    y : integer array (n,), optional
        Class indices, unless the predictions have labels.
    ood : Predictions, array (m, M, K) or Samples, optional
        Predictions for foreign rows.
    task_loss : str or ScoringRule
        The loss that is paid.
    rules : rule, or several in a list or mapping
        Whose components are compared.
    max_loss : float or sequence of float, optional
        Mean losses to certify; a ladder from 20 % to 1 % of what a blind guess pays unless given
        (from 20 % to 1 % for zero-one). All of them hold together with ``confidence``.
    confidence : float
        Of certificates and intervals.
    floor : float, optional
        The smallest probability that counts in the loss; see :func:`scorewise.task_losses`.
    loss_bound : float, optional
        The largest loss that can occur, where the rule does not tell; certificates need it.
    runs : mapping of str to lists of Round, optional
        Repeated runs of active learning, as for :func:`scorewise.compare`.
    ids : array (n,), optional
        Names of the rows.
    class_names : sequence of str, optional
        Names of the classes.
    n_doubtful : int
        How many of the most uncertain rows to describe.
    n_resamples : int
        Of the comparison's bootstrap.
    random_state : int, RandomState or Generator, optional
        Seed of the resamples.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.
    **options
        Those of :class:`scorewise.Samples`: ``weights``, ``from_logits``, ``normalize``, …

    Returns
    -------
    Evaluation

    Raises
    ------
    InvalidInput
        If labels are missing, or something does not fit.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> y = np.array([rng.choice(3, p=p) for p in truth])
    >>> probs = truth[:, None] * np.exp(rng.normal(scale=0.3, size=(2000, 10, 3))) + 1e-9
    >>> found = sw.evaluate(probs, y, normalize=True, max_loss=0.1, n_resamples=200)
    >>> print(found.verdict[0])
    Abstain on 32.8 % and the error falls from 19.7 % to under 10 %, with 95 % confidence.
    """
    rows = Labelled.of(predictions, y, ids, class_names, options)
    rule, name = get_rule(task_loss), rule_name(task_loss)
    rules = named_rules([rules] if isinstance(rules, str | ScoringRule) else rules)
    confidence = validate.share(confidence, "confidence")
    n_doubtful = validate.whole(n_doubtful, "n_doubtful", at_least=0)
    seed = entropy_of(random_state)
    shared: dict[str, Any] = {
        "rules": rules,
        "confidence": confidence,
        "n_resamples": n_resamples,
        "random_state": seed,
        "progress": progress,
    }
    samples = rows.samples
    comparison = compare(samples, rows.labels, "selective", task_loss, floor=floor, **shared)
    own = decompose(samples, rule)
    losses = losses_of_mean(to_numpy(samples.mean), rows.labels, rule, floor)
    scores = {m.name: m.scores for m in measures_of(samples, rules, COMPONENTS, baselines=True)}
    measure = advise("selective", task_loss).measure
    scores.setdefault(measure, to_numpy(own.total))
    total = total_of_mean(to_numpy(samples.mean), rule)
    certificates, notes = _certificates(
        losses, total, rule, rows, max_loss, confidence, floor, loss_bound
    )
    foreign = None
    if ood is not None:
        foreign = _foreign(samples, _outside(ood, samples.n_classes, options), shared)
    expected = expected_of_mean(to_numpy(samples.mean), rule, floor)
    return Evaluation(
        n_rows=len(losses),
        n_members=int(samples.probs.shape[-2]),
        n_classes=samples.n_classes,
        class_names=rows.class_names,
        task_loss=name,
        loss_name=rule.unit.noun,
        is_share=rule.unit.is_proportion,
        loss=float(losses.mean()),
        measure=measure,
        curves={s.name: rejection_curve(losses, scores[s.name]) for s in comparison.standings},
        comparison=comparison,
        certificates=certificates,
        calibration=loss_calibration(losses, expected, confidence=confidence),
        classes=_classes(rows, losses, own, _accepted(headline(certificates), total)),
        doubtful=_doubtful(rows, losses, own, rule, floor, n_doubtful),
        confidence=confidence,
        uncertainty=own,
        ood=foreign,
        learning=_learning(runs, task_loss, confidence),
        simplex=_simplex(rows),
        settings={
            "task loss": name,
            "rules": list(rules),
            "confidence": confidence,
            "floor": floor,
            "resamples": n_resamples,
            "seed": seed,
        },
        notes=notes,
    )


def _outside(ood: Any, n_classes: int, options: dict[str, Any]) -> Samples:
    """Foreign rows; those that come with weights of their own need none of the others'."""
    if isinstance(ood, Samples):
        options = {}
    elif not isinstance(ood, Predictions) and np.ndim(options.get("weights", 0)) == 2:
        raise InvalidInput("weights are those of the rows; pass ood as Samples with weights too")
    found = members_of(ood, "ood", options)
    if not len(found.probs):
        raise InvalidInput("ood has no rows")
    if found.n_classes != n_classes:
        raise InvalidInput(f"ood has {found.n_classes} classes, the predictions {n_classes}")
    return found


def _certificates(
    losses: np.ndarray,
    score: np.ndarray,
    rule: ScoringRule,
    rows: Labelled,
    max_loss: float | Sequence[float] | None,
    confidence: float,
    floor: float | None,
    loss_bound: float | None,
) -> tuple[tuple[Certificate, ...], tuple[str, ...]]:
    """Thresholds that hold together, or why there are none."""
    n_classes = len(rows.class_names)
    try:
        bound = promised_bound(rule, n_classes, floor, loss_bound)
    except InvalidInput as error:
        return (), (f"No certificate: {error}.",)
    if (losses < 0).any():
        return (), ("No certificate: costs below 0 have no bound to be promised.",)
    if max_loss is None:
        targets = [_round(t * _blind(rule, n_classes)) for t in _TARGETS]
        targets = [t for t in targets if 0 < t < bound]
    else:
        given = {validate.number(t, "max_loss") for t in np.atleast_1d(max_loss).tolist()}
        targets = sorted(given, reverse=True)
    if not targets:
        return (), ("No certificate: a blind guess pays nothing, so there is nothing to promise.",)
    each = 1 - (1 - confidence) / len(targets)
    return tuple(
        certify_threshold(losses, score, target, each, loss_bound=bound) for target in targets
    ), ()


def _blind(rule: ScoringRule, n_classes: int) -> float:
    """What a guess pays that knows nothing, or 1 where losses are shares."""
    if rule.unit.is_proportion:
        return 1.0
    return float(rule.entropy(np.full(n_classes, 1 / n_classes)))


def _round(value: float) -> float:
    return float(f"{value:.2g}")


def _foreign(inside: Samples, outside: Samples, shared: dict[str, Any]) -> ForeignRows:
    advice = advise("ood")
    one, two = (
        to_numpy(getattr(decompose(rows, advice.rule), advice.component))
        for rows in (inside, outside)
    )
    metrics = ood_metrics(
        one,
        two,
        shared["confidence"],
        n_resamples=shared["n_resamples"],
        random_state=shared["random_state"],
    )
    comparison = compare(inside, task="ood", ood=outside, **shared)
    return ForeignRows(advice.measure, metrics, one, two, comparison)


def _learning(
    runs: Mapping[str, Any] | None, task_loss: RuleLike, confidence: float
) -> LabelsBought | None:
    if runs is None:
        return None
    comparison = compare(task="active", task_loss=task_loss, runs=runs, confidence=confidence)
    return LabelsBought({name: learning_curve(r, name) for name, r in runs.items()}, comparison)


def _accepted(certificate: Certificate | None, total: np.ndarray) -> np.ndarray | None:
    return None if certificate is None else certificate.accepts(total)


def _classes(
    rows: Labelled, losses: np.ndarray, own: Decomposition, accepted: np.ndarray | None
) -> tuple[ClassSummary, ...]:
    total, aleatoric, epistemic = (to_numpy(part) for part in own)
    found = []
    for k, name in enumerate(rows.class_names):
        here = rows.labels == k
        n = int(here.sum())
        loss, tu, au, eu = (
            float(x[here].mean()) if n else np.nan for x in (losses, total, aleatoric, epistemic)
        )
        share = kept_loss = None
        if accepted is not None and n:
            share = float(accepted[here].mean())
            kept_loss = float(losses[here & accepted].mean()) if share else None
        found.append(ClassSummary(name, n, loss, tu, au, eu, share, kept_loss))
    return tuple(found)


def _doubtful(
    rows: Labelled,
    losses: np.ndarray,
    own: Decomposition,
    rule: ScoringRule,
    floor: float | None,
    n: int,
) -> tuple[DoubtfulRow, ...]:
    total, aleatoric, epistemic = (to_numpy(part) for part in own)
    mean, probs = to_numpy(rows.samples.mean), to_numpy(rows.samples.probs)
    # of equally uncertain rows those first that teach most
    order = np.lexsort((np.arange(len(total)), -epistemic, -total))[:n]
    members = spread(probs.shape[-2], _MEMBERS)
    names = rule.prediction_names(rows.class_names)
    ids = (
        None
        if rows.ids is None
        else dict(zip(order.tolist(), rows.ids[order].tolist(), strict=True))
    )
    found = []
    for i in order.tolist():
        classes = np.argsort(-mean[i], kind="stable")[:_CLASSES]
        loss, tu, au, eu = (float(x[i]) for x in (losses, total, aleatoric, epistemic))
        found.append(
            DoubtfulRow(
                i,
                i if ids is None else ids[i],
                rows.class_names[rows.labels[i]],
                names[int(rule.predict(apply_floor(mean[i], floor)))],
                loss,
                tu,
                au,
                eu,
                classes=tuple(rows.class_names[k] for k in classes),
                members=probs[i][np.ix_(members, classes)].astype(np.float64),
                mean=mean[i, classes].astype(np.float64),
            )
        )
    return tuple(found)


def _simplex(rows: Labelled) -> tuple[np.ndarray, np.ndarray] | None:
    if len(rows.class_names) != 3:
        return None
    some = spread(len(rows.labels), _SIMPLEX)
    return to_numpy(rows.samples.mean)[some], rows.labels[some]
