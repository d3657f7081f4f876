"""Which measure is best here? Every measure ranked by the task's metric, with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._progress import bar
from scorewise._random import entropy_of, generator
from scorewise._resampling import Metric, ResampledAulc, ResampledAuroc, Resamples
from scorewise._rows import rows_of
from scorewise.acquire import is_list_of_runs, losses_at_shared_labels
from scorewise.calibrate import LossCalibration, loss_calibration
from scorewise.compare._advise import TASKS, Advice, advise, measure_name
from scorewise.compare._comparison import Comparison, Standing, rank
from scorewise.compare._contrasts import by_resampling, by_runs
from scorewise.compare._measures import Measure, alike, learning_curves, measures_of, own_measures
from scorewise.decompose import COMPONENTS, RULES, RuleLike, named_rules, rule_name
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.kernels import get_num_threads, run
from scorewise.losses import expected_of_mean, losses_of_mean
from scorewise.rules import ScoringRule, get_rule

_BATCH = 1 << 20  # counts at a time


def compare(
    probs: Any = None,
    y: Any = None,
    task: str = "selective",
    task_loss: RuleLike = "zero-one",
    *,
    rules: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike] = RULES,
    components: str | Sequence[str] = COMPONENTS,
    ood: Any = None,
    scores: Mapping[str, Any] | None = None,
    runs: Mapping[str, Any] | None = None,
    baselines: bool = True,
    floor: float | None = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Which measure is best for a task on your own data, and which are as good.

    Use it after :func:`scorewise.advise`. Every rule and component is ranked by the task's metric:
    AULC for ``"selective"`` (lower is better), AUROC for ``"ood"`` (higher is better), the mean
    loss over rounds for ``"active"`` (lower is better). Differences from the best come with
    intervals that hold for all pairs of measures at once, so that picking the best by the same data
    is paid for: standard errors from a paired bootstrap, times the quantile of the largest t
    (max-T); for repeated runs Student's t, paired, with Bonferroni's correction. Measures that
    order all rows alike are found as such, and share their numbers.

    Parameters
    ----------
    probs : array (n, M, K), Samples or Dirichlet
        Predictions, for ``"selective"`` and ``"ood"``.
    y : integer array (n,)
        Class indices of the same rows, for ``"selective"``; the others have no use for it.
    task : "selective", "ood" or "active"
        What the measures are for.
    task_loss : str or ScoringRule
        The loss that is paid, for ``"selective"``; its own total always takes part.
    rules : rule, or several in a list or mapping
        As for :func:`scorewise.decompose`.
    components : str or sequence of str
        Of ``"total"``, ``"aleatoric"`` and ``"epistemic"``.
    ood : array (m, M, K), Samples or Dirichlet
        Predictions for foreign rows, for ``"ood"``.
    scores : mapping of str to array (n,), optional
        Your own scores, larger for more uncertain; for ``"ood"`` pairs of arrays (n,) and (m,).
    runs : mapping of str to array (R, T), or to R lists of Round
        For ``"active"``: the task's loss after each of T rounds, in R repeated runs that are paired
        (the same splits and seeds for every measure), or what :func:`scorewise.active_learning`
        gave in each, which are compared at the numbers of labels that all have come to.
    baselines : bool
        Let max-softmax, margin and variation ratio take part.
    floor : float, optional
        The smallest probability that counts in the loss; see :func:`scorewise.task_losses`.
    confidence : float
        Of all intervals together.
    n_resamples : int
        Of the bootstrap.
    random_state : int, RandomState or Generator, optional
        Seed of the resamples.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.
    **options
        Those of :class:`scorewise.Samples` for ``probs`` and ``ood``: ``weights``,
        ``from_logits``, …

    Returns
    -------
    Comparison
        Printing it shows a table.

    Raises
    ------
    InvalidInput
        If something that the task needs is missing or does not fit.

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
    selective: aulc of zero-one losses
    measure                  aulc     behind  [   95% interval    ]
    total zero-one        0.19625    0.00000  [ +0.00000, +0.00000]  best
    aleatoric zero-one    0.19896    0.00271  [ -0.00388, +0.00930]  indistinguishable
    total log             0.20878    0.01254  [ -0.00381, +0.02888]  indistinguishable
    aleatoric log         0.21002    0.01378  [ -0.00353, +0.03108]  indistinguishable
    epistemic log         0.23061    0.03437  [ +0.00490, +0.06384]  worse
    epistemic zero-one    0.23939    0.04314  [ +0.01554, +0.07075]  worse
    Theory recommends total zero-one: it is the best here.
    """
    validate.choice(task, "task", TASKS)
    confidence = validate.share(confidence, "confidence")
    advice = advise(task, task_loss)
    if task == "active":
        _refuse(task, probs=probs, ood=ood, scores=scores, floor=floor)
        return _compare_runs(runs, advice, confidence)
    _refuse(task, runs=runs, **({"floor": floor} if task == "ood" else {"ood": ood}))
    n_resamples = validate.whole(n_resamples, "n_resamples", at_least=100)
    inside = _some_rows(probs, "probs", options)
    rules = [rules] if isinstance(rules, str | ScoringRule) else rules
    parts = [components] if isinstance(components, str) else list(dict.fromkeys(components))
    measures = measures_of(inside, rules, parts, baselines=baselines)
    n, calibration = inside.mean.shape[0], None
    metric_of: Callable[[np.ndarray], Metric]
    if task == "selective":
        aligned = _own_total(inside, task_loss, rules, measures)
        measures = [aligned, *(m for m in measures if m.name != aligned.name)]
        measures += own_measures(scores, {"scores": n}, measures)
        losses, calibration = _audit(inside, y, task_loss, floor, confidence)
        metric_of, sizes = partial(ResampledAulc, losses), [n]
    else:
        outside = _some_rows(ood, "ood", options)
        if type(outside) is not type(inside) or outside.n_classes != inside.n_classes:
            raise InvalidInput(f"probs and ood must be of one kind, not {inside} and {outside}")
        foreign = measures_of(outside, rules, parts, baselines=baselines)
        measures = [one.followed_by(two) for one, two in zip(measures, foreign, strict=True)]
        sizes = [n, outside.mean.shape[0]]
        measures += own_measures(scores, {"in": sizes[0], "out": sizes[1]}, measures)
        metric_of = partial(ResampledAuroc, n)
    if not measures:
        raise InvalidInput("there is nothing to compare: give rules and components, or scores=")
    first = alike(measures)
    leaders = [m for m in measures if first[m.name] == m.name]
    metrics = [metric_of(m.scores) for m in leaders]
    values = np.array([metric(np.ones((1, sum(sizes)), dtype=int))[0] for metric in metrics])
    entropy = entropy_of(random_state)
    drawn = _resampled(metrics, sizes, n_resamples, entropy, progress)
    rng = generator(entropy, len(sizes))
    contrasts = by_resampling(values, drawn, confidence, metrics[0].effective_rows, rng)
    standings = rank(
        [m.name for m in leaders], values, contrasts, first, higher_is_better=task == "ood"
    )
    return Comparison(
        task,
        rule_name(task_loss),
        "auroc" if task == "ood" else "aulc",
        standings,
        confidence,
        _notes(standings, advice, calibration),
    )


def _refuse(task: str, **given: Any) -> None:
    """Nothing that a task has no use for is dropped in silence."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(f"task={task!r} has no use for {name}=")


def _some_rows(predictions: Any, name: str, options: dict[str, Any]) -> Samples | Dirichlet:
    if predictions is None:
        raise InvalidInput(f"this task compares predictions: pass {name}=, of rows (n, M, K)")
    rows = rows_of(predictions, name, options)
    if not rows.mean.shape[0]:
        raise InvalidInput(f"{name} is empty; there must be at least one row")
    return rows


def _own_total(
    rows: Samples | Dirichlet,
    task_loss: RuleLike,
    rules: Iterable[RuleLike] | Mapping[str, RuleLike],
    measures: Sequence[Measure],
) -> Measure:
    """The total of the task's own loss, which always takes part: found, or computed."""
    name, rule = rule_name(task_loss), get_rule(task_loss)
    if named_rules(rules).get(name, rule) != rule:
        raise InvalidInput(
            f"the task's loss and another rule are both called {name!r}; pass rules= as a "
            "mapping, with names of your own"
        )
    for measure in measures:
        if measure.name == measure_name(name, "total"):
            return measure
    return measures_of(rows, {name: rule}, ["total"], baselines=False)[0]


def _audit(
    rows: Samples | Dirichlet, y: Any, task_loss: RuleLike, floor: float | None, confidence: float
) -> tuple[np.ndarray, LossCalibration]:
    """What the predictions cost, and whether they expected that."""
    if y is None:
        raise InvalidInput("task='selective' needs y=, the labels of the rows")
    mean, rule = to_numpy(rows.mean), get_rule(task_loss)
    losses = validate.loss_vector(losses_of_mean(mean, y, rule, floor))
    expected = expected_of_mean(mean, rule, floor)
    return losses, loss_calibration(losses, expected, confidence=confidence)


def _resampled(
    metrics: Sequence[Metric],
    sizes: Sequence[int],
    n_resamples: int,
    entropy: int,
    progress: bool | None,
) -> np.ndarray:
    """Metrics of resamples ``(B, m)``; each of the sets of rows is resampled by itself."""
    batch = max(1, _BATCH // sum(sizes))
    sets = [
        Resamples(n, n_resamples, generator(entropy, i)).counts(batch) for i, n in enumerate(sizes)
    ]
    drawn = np.empty((n_resamples, len(metrics)))
    done = 0
    with bar("resampling", n_resamples, progress) as advance:
        for parts in zip(*sets, strict=True):
            counts = np.concatenate(parts, axis=1)
            rows = slice(done, done + len(counts))

            def compute(i: int, counts: np.ndarray = counts, rows: slice = rows) -> bool:
                drawn[rows, i] = metrics[i](counts)
                return True

            run((partial(compute, i) for i in range(len(metrics))), get_num_threads())
            done += len(counts)
            advance(len(counts))
    return drawn


def _compare_runs(runs: Any, advice: Advice, confidence: float) -> Comparison:
    if not isinstance(runs, Mapping) or not runs:
        raise InvalidInput(
            "task='active' compares repeated runs: runs= must map the name of each measure to its "
            "losses (R, T)"
        )
    if all(is_list_of_runs(values) for values in runs.values()):
        runs = losses_at_shared_labels(runs)
    curves = {name: learning_curves(values, name) for name, values in runs.items()}
    if len({curve.shape for curve in curves.values()}) != 1:
        shapes = {name: curve.shape for name, curve in curves.items()}
        raise InvalidInput(f"runs are paired and must be of one shape (R, T), not {shapes}")
    results = np.stack([curve.mean(axis=1) for curve in curves.values()], axis=1)
    names = list(curves)
    contrasts = by_runs(results, confidence)
    itself = dict(zip(names, names, strict=True))
    standings = rank(names, results.mean(axis=0), contrasts, itself, higher_is_better=False)
    notes = _notes(standings, advice, None)
    return Comparison("active", advice.task_loss, "mean loss", standings, confidence, notes)


def _notes(
    standings: Sequence[Standing], advice: Advice, calibration: LossCalibration | None
) -> tuple[str, ...]:
    """How the measure that theory recommends came out, and whether miscalibration explains it."""
    found = next((row for row in standings if row.name == advice.measure), None)
    if found is None:
        return (f"Theory recommends {advice.measure}, which did not take part.",)
    best = standings[0].name
    if found.low <= 0:
        how = "the best" if found.behind == 0 else f"indistinguishable from {best}, the best"
        return (f"Theory recommends {advice.measure}: it is {how} here.",)
    notes = [
        f"Theory recommends {advice.measure}, but here {best} is better by {found.behind:.4g} "
        f"[{found.low:.4g}, {found.high:.4g}]."
    ]
    if calibration is not None and not calibration.is_honest:
        notes.append(
            f"Miscalibration may explain it: the model is not honest about this loss "
            f"({calibration}); see scorewise.fit_temperature, and compare again."
        )
    elif calibration is not None:
        notes.append(f"Miscalibration does not explain it: {calibration}.")
    return tuple(notes)
