"""Evaluate rows that do not fit one machine, in two passes over their blocks.

The first pass decomposes each block once. Its numbers per row stay on the workers; histograms,
samples and sums of all blocks are merged as a tree. The second pass looks up the influence of each
row, and merges the roots of their covariance. No array on the client, and no task, grows with the
number of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._member_checks import problems_of
from scorewise._random import generator
from scorewise._rows import check_comparable
from scorewise.abstain import Certificate
from scorewise.calibrate import LossCalibration, calibration_of_groups
from scorewise.compare import (
    Advice,
    BootstrapSettings,
    Comparison,
    Evaluation,
    Measure,
    Note,
    OODEvaluation,
    RowUncertainties,
    Rules,
    TaskLosses,
    action_summary,
    advise,
    advise_ood,
    certificates_of,
    choose_headline,
    comparison_of,
    contrasts_by_root,
    effect_of_calibrating,
    first_of_same_order,
    own_measures,
    require_measures,
    rules_for,
)
from scorewise.decompose import COMPONENTS, Decomposition
from scorewise.detect import OODMetrics, ood_metrics, ood_metrics_of_counts
from scorewise.distributions import Samples
from scorewise.rules import RuleLike, get_rule
from scorewise.scale._blocks import RowBlocks
from scorewise.scale._measured import (
    DETECTION,
    EXPECTED,
    LOSS,
    Overview,
    Plan,
    RankedMeasure,
    accepted_rows,
    add,
    auroc_error_of,
    counts_of_sets,
    histogram_of_losses,
    histogram_of_sets,
    measure_block,
    merge_histograms,
    merge_overviews,
    merge_roots,
    ranked_by_aulc,
    ranked_by_auroc,
    root_of_rows,
)
from scorewise.scale._ranks import ScoreHistogram
from scorewise.scale._tree import clear_errors, computed, merge_tree, persisted

_SCREENED_ROWS = 20_000  # of a sample, by which orders of measures are compared
SAMPLE_SIZE = 1_000_000
_CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Precision:
    """How many numbers stand for all rows.

    Attributes
    ----------
    n_bins : int
        The largest number of distinct scores of a measure that are distinguished.
    sample_size : int
        The largest number of rows for certificates and figures.
    split_every : int
        How many results are merged at a time.
    """

    n_bins: int
    sample_size: int
    split_every: int

    @classmethod
    def of(cls, n_bins: int, max_certification_rows: int, split_every: int) -> Precision:
        """Return the precision, with checked arguments."""
        return cls(
            validate.whole(n_bins, "n_bins", at_least=2),
            validate.whole(max_certification_rows, "max_certification_rows", at_least=1),
            validate.whole(split_every, "split_every", at_least=2),
        )


@clear_errors()
def evaluate_blocks(
    blocks: RowBlocks,
    blocks_out: RowBlocks | None,
    task_loss: RuleLike,
    rules: Rules,
    bootstrap: BootstrapSettings,
    precision: Precision,
    *,
    max_loss: float | Sequence[float] | None,
    floor: float | None,
    loss_bound: float | None,
    n_uncertain: int,
) -> Evaluation:
    """Return the evaluation of labelled rows, and of OOD rows if there are any."""
    template, confidence = blocks.template, bootstrap.confidence
    plan = _selective_plan(blocks, task_loss, rules, floor, precision, n_uncertain=n_uncertain)
    rule, advice, advice_out = plan.loss, plan.advice, advise_ood(template)
    assert rule is not None
    assert advice is not None
    plan_out = None
    if blocks_out is not None:
        check_comparable(template, blocks_out.template)
        detection = get_rule(advice_out.rule), advice_out.component
        plan = replace(plan, detection=detection)
        plan_out = replace(plan, loss=None, advice=None, n_rows=blocks_out.n_rows)
    passed = _first_pass(blocks, plan, blocks_out, plan_out, precision)
    ranking = passed.ranking_of_losses()
    comparison = _selective_comparison(passed, ranking, bootstrap)
    sample, overview = passed.overview.samples["losses"], passed.overview
    losses = TaskLosses(rule, sample.rows, floor, sample.columns["loss"], sample.columns["loss"])
    total, aleatoric, epistemic = (sample.columns[part] for part in COMPONENTS)
    uncertainty = Decomposition(total, aleatoric, epistemic)
    certificates, no_certificates = certificates_of(
        losses, uncertainty.total, template, max_loss, confidence, floor, loss_bound
    )
    remarks = list(comparison.remarks)
    if certificates and not sample.has_all_rows:
        remarks.append(
            f"Certificates are from a uniform random sample of {len(sample):,} of "
            f"{blocks.n_rows:,} rows, and hold as those from other labelled rows do."
        )
    headline, accepted = choose_headline(certificates), None
    if headline is not None:
        accepted = passed.accepted(headline, template.n_classes)
    ood = None
    if blocks_out is not None:
        ood = _ood_evaluation(passed, advice_out, bootstrap)
        remarks += [*ood.comparison.remarks, *_remarks_on_bins(ood.metrics)]
    problems = [*problems_of(template.shape[-2], overview.checks), *dict.fromkeys(remarks)]
    assert overview.classes is not None
    assert comparison.calibration is not None
    return Evaluation(
        n_rows=blocks.n_rows,
        n_members=template.shape[-2],
        n_classes=template.n_classes,
        class_names=blocks.class_names,
        task_loss=advice.rule,
        unit=rule.unit,
        loss=float(overview.classes.sums[0].sum() / blocks.n_rows),
        measure=advice.measure,
        curves={
            row.name: passed.by_loss[row.name].rejection_curve(passed.by_loss[LOSS])
            for row in comparison.standings
        },
        comparison=comparison,
        certificates=certificates,
        calibration=comparison.calibration,
        classes=overview.classes.summaries(blocks.class_names, accepted),
        uncertain_rows=overview.uncertain_rows,
        confidence=confidence,
        actions=action_summary(overview.actions, rule, blocks.class_names),
        uncertainty=uncertainty,
        ood=ood,
        simplex=overview.simplex,
        settings={
            "task loss": advice.rule,
            "rules": list(plan.rules),
            "confidence": confidence,
            "floor": floor,
            "resamples": bootstrap.n_resamples,
            "seed": bootstrap.seed,
            "distinct scores": precision.n_bins,
        },
        notes=(*no_certificates, *(Note(problem.removesuffix(".")) for problem in problems)),
    )


@clear_errors()
def compare_blocks(
    blocks: RowBlocks,
    task_loss: RuleLike,
    rules: Rules,
    floor: float | None,
    bootstrap: BootstrapSettings,
    precision: Precision,
    *,
    components: Sequence[str] = COMPONENTS,
    baselines: bool = True,
    own: Sequence[str] = (),
) -> Comparison:
    """Return the comparison for abstaining, by AULC; ``own`` are the names of the user's scores."""
    plan = _selective_plan(
        blocks, task_loss, rules, floor, precision, components=components, baselines=baselines
    )
    passed = _first_pass(blocks, plan, None, None, precision, own)
    return _selective_comparison(passed, passed.ranking_of_losses(), bootstrap)


@clear_errors()
def compare_ood_blocks(
    blocks_in: RowBlocks,
    blocks_out: RowBlocks,
    rules: Rules,
    bootstrap: BootstrapSettings,
    precision: Precision,
    *,
    components: Sequence[str] = COMPONENTS,
    baselines: bool = True,
    own: Sequence[str] = (),
) -> Comparison:
    """Return the comparison for OOD detection, by AUROC."""
    check_comparable(blocks_in.template, blocks_out.template)
    plan_in, plan_out = (
        _plan(blocks, rules, precision, components=components, baselines=baselines)
        for blocks in (blocks_in, blocks_out)
    )
    passed = _first_pass(blocks_in, plan_in, blocks_out, plan_out, precision, own)
    ranking = passed.ranking_of_sets()
    return ranking.comparison(advise_ood(blocks_in.template), None, bootstrap)


def _plan(blocks: RowBlocks, rules: Rules, precision: Precision, **choices: Any) -> Plan:
    """Return the plan for rows without labels."""
    defaults: dict[str, Any] = {
        "components": COMPONENTS,
        "baselines": True,
        "loss": None,
        "advice": None,
        "detection": None,
        "floor": None,
        "n_uncertain": 0,
    }
    return Plan(
        n_rows=blocks.n_rows,
        rules=rules_for(blocks.template, rules),
        class_names=blocks.class_names,
        sample_size=precision.sample_size,
        screened_rows=_SCREENED_ROWS,
        **defaults | choices,
    )


def _selective_plan(
    blocks: RowBlocks,
    task_loss: RuleLike,
    rules: Rules,
    floor: float | None,
    precision: Precision,
    **choices: Any,
) -> Plan:
    """Return the plan for labelled rows."""
    rule = get_rule(task_loss).for_classes(blocks.template.classes_)
    advice = advise("selective", task_loss)
    return _plan(blocks, rules, precision, loss=rule, advice=advice, floor=floor, **choices)


# -- the passes over the rows ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FirstPass:
    """What the first pass leaves: numbers per row on the workers, and reductions on the client.

    Attributes
    ----------
    plan : Plan
    template : Samples
        A row like all others.
    measures, measures_of_sets : lists of Measure
        What is compared for abstaining, and for OOD detection, with the scores of a sample.
    rows, rows_out : lists of dask.delayed.Delayed
        Each is a MeasuredRows.
    overview, overview_out : Overview
    by_loss, by_set : dict of str to ScoreHistogram
        By measure: with losses as values, and with whether rows are OOD rows.
    lazy_by_loss, lazy_by_set : dict of str to dask.delayed.Delayed
        The same on the workers.
    split_every : int
    """

    plan: Plan
    template: Samples
    measures: list[Measure]
    measures_of_sets: list[Measure]
    rows: list[Any]
    rows_out: list[Any]
    overview: Overview
    overview_out: Overview | None
    by_loss: dict[str, ScoreHistogram]
    by_set: dict[str, ScoreHistogram]
    lazy_by_loss: dict[str, Any]
    lazy_by_set: dict[str, Any]
    split_every: int

    def ranking_of_losses(self) -> Ranking:
        """Return what ranks measures for abstaining."""
        return Ranking(
            self.measures,
            [(self.rows, None)],
            self.by_loss,
            self.lazy_by_loss,
            ranked_by_aulc,
            max(self.by_loss[measure.name].area_errors()[0] for measure in self.measures),
            "AULC",
            self.plan.n_rows,
            self.split_every,
        )

    def ranking_of_sets(self) -> Ranking:
        """Return what ranks measures for OOD detection."""
        errors = [auroc_error_of(self.by_set[measure.name]) for measure in self.measures_of_sets]
        assert self.overview_out is not None
        return Ranking(
            self.measures_of_sets,
            [(self.rows, False), (self.rows_out, True)],
            self.by_set,
            self.lazy_by_set,
            ranked_by_auroc,
            max(errors),
            "AUROC",
            self.overview.n_rows + self.overview_out.n_rows,
            self.split_every,
        )

    def calibration(self, confidence: float) -> LossCalibration:
        """Return the expected against the incurred loss of all rows."""
        groups = self.by_loss[EXPECTED]
        limits = groups.smallest.min(axis=1), groups.largest.max(axis=1)
        return calibration_of_groups(groups.moments, limits, _CALIBRATION_BINS, confidence)

    def accepted(self, certificate: Certificate, n_classes: int) -> np.ndarray:
        """Return the number of accepted rows of each class, and their summed losses."""
        import dask

        count = dask.delayed(accepted_rows)
        shared = dask.delayed(certificate, traverse=False)
        parts = [count(rows, shared, n_classes) for rows in self.rows]
        accepted: np.ndarray = computed(merge_tree(parts, add, self.split_every))[0]
        return accepted


def _first_pass(
    blocks: RowBlocks,
    plan: Plan,
    blocks_out: RowBlocks | None,
    plan_out: Plan | None,
    precision: Precision,
    own: Sequence[str] = (),
) -> FirstPass:
    """Return what the first pass leaves; each block is decomposed once."""
    import dask

    # raises what depends on no row
    templates = [
        [] if some is None else some.measures(some.uncertainties(blocks.template))
        for some in (plan, plan_out)
    ]
    names, names_of_sets = ([*(measure.name for measure in some), *own] for some in templates)
    require_measures(names)
    if plan_out is None:
        names_of_sets = []
    elif plan.detection is not None:
        names_of_sets.append(DETECTION)
    split_every, n_bins = precision.split_every, precision.n_bins
    rows, overview = _measured(blocks, plan, split_every)
    rows_out: list[Any] = []
    overview_out = None
    if blocks_out is not None and plan_out is not None:
        rows_out, overview_out = _measured(blocks_out, plan_out, split_every)
    of_losses = dask.delayed(partial(histogram_of_losses, n_bins=n_bins))
    of_sets = dask.delayed(partial(histogram_of_sets, n_bins=n_bins))
    names_of_losses = [] if plan.loss is None else [*names, LOSS, EXPECTED]
    lazy_by_loss = {
        name: merge_tree([of_losses(part, name) for part in rows], merge_histograms, split_every)
        for name in names_of_losses
    }
    sets = [(part, is_out) for parts, is_out in ((rows, False), (rows_out, True)) for part in parts]
    lazy_by_set = {
        name: merge_tree(
            [of_sets(part, name, is_out=is_out) for part, is_out in sets],
            merge_histograms,
            split_every,
        )
        for name in names_of_sets
    }
    held = (rows, rows_out, overview, overview_out, lazy_by_loss, lazy_by_set)
    ((rows, rows_out, overview, overview_out, lazy_by_loss, lazy_by_set),) = persisted(held)
    results = computed(overview, overview_out, lazy_by_loss, lazy_by_set)
    overview, overview_out, by_loss, by_set = results
    if blocks.judges_labels and overview.agreement is not None:
        overview.agreement.check(blocks.template.n_classes)
    measures = _screened(templates[0], own, [overview])
    measures_of_sets = []
    if overview_out is not None:
        measures_of_sets = _screened(templates[1], own, [overview, overview_out])
    return FirstPass(
        plan,
        blocks.template,
        measures,
        measures_of_sets,
        rows,
        rows_out,
        overview,
        overview_out,
        by_loss,
        by_set,
        lazy_by_loss,
        lazy_by_set,
        split_every,
    )


def _measured(blocks: RowBlocks, plan: Plan, split_every: int) -> tuple[list[Any], Any]:
    """Return the lazy numbers of the rows of each block, and the overview of all."""
    import dask

    measure, shared = dask.delayed(measure_block, nout=2), dask.delayed(plan, traverse=False)
    results = [measure(block, shared) for block in blocks.blocks]
    merge = partial(merge_overviews, n_uncertain=plan.n_uncertain)
    overview = merge_tree([overview for _, overview in results], merge, split_every)
    return [rows for rows, _ in results], overview


def _screened(
    measures: Sequence[Measure], own: Sequence[str], overviews: Sequence[Overview]
) -> list[Measure]:
    """Return the measures with the scores of samples of the rows, and the user's own."""

    def scores(name: str) -> np.ndarray:
        return np.concatenate([part.samples["scores"].columns[name] for part in overviews])

    screened = [replace(measure, scores=scores(measure.name)) for measure in measures]
    own_scores = {name: scores(name) for name in own}
    sizes = {"scores": sum(len(part.samples["scores"]) for part in overviews)}
    return screened + own_measures(own_scores, sizes, screened)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Measures, and the histograms of all rows by which they are ranked.

    Attributes
    ----------
    measures : list of Measure
        With the scores of a sample of the rows, by which their orders are compared.
    rows : list of (list of dask.delayed.Delayed, bool or None)
        The numbers of the rows, and whether they are OOD rows, for OOD detection.
    histograms, lazy_histograms : dict of str
        By measure.
    ranked_by : function
        Returns the RankedMeasure of a name and a histogram.
    error_bound : float
        The largest error of a metric, from rows of nearly equal scores that count as tied.
    metric_name : str
    n_rows : int
    split_every : int
    """

    measures: list[Measure]
    rows: list[tuple[list[Any], bool | None]]
    histograms: dict[str, ScoreHistogram]
    lazy_histograms: dict[str, Any]
    ranked_by: Callable[[str, ScoreHistogram], RankedMeasure]
    error_bound: float
    metric_name: str
    n_rows: int
    split_every: int

    def comparison(
        self, advice: Advice, calibration: LossCalibration | None, bootstrap: BootstrapSettings
    ) -> Comparison:
        """Return the comparison; a second pass over the rows reduces their influences."""
        import dask

        first = first_of_same_order(self.measures)
        names = [name for name, leader in first.items() if leader == name]
        lazy_ranked, lazy_root = dask.delayed(self.ranked_by), dask.delayed(root_of_rows)
        ranked = dask.delayed(list)(
            [lazy_ranked(name, self.lazy_histograms[name]) for name in names]
        )
        roots = [lazy_root(part, ranked, is_out) for parts, is_out in self.rows for part in parts]
        [root] = computed(merge_tree(roots, merge_roots, self.split_every))
        metrics = [self.ranked_by(name, self.histograms[name]).metric for name in names]
        values = np.array([metric.value for metric in metrics])
        contrasts = contrasts_by_root(
            values,
            root,
            metrics[0].effective_rows,
            bootstrap.confidence,
            bootstrap.n_resamples,
            generator(bootstrap.seed),
        )
        comparison = comparison_of(names, values, contrasts, first, advice, calibration, bootstrap)
        return replace(comparison, error_bound=self.error_bound, remarks=self._remarks())

    def _remarks(self) -> tuple[str, ...]:
        remarks = []
        n_screened = len(self.measures[0].scores)
        if self.error_bound:
            groups = max(len(self.histograms[measure.name]) for measure in self.measures)
            remarks.append(
                f"Rows of nearly equal uncertainty count as tied, in up to {groups:,} groups; each "
                f"{self.metric_name} is within {self.error_bound:.2g} of that of the rows."
            )
        if n_screened < self.n_rows:
            remarks.append(
                f"Whether measures order rows alike is judged by a random sample of "
                f"{n_screened:,} of {self.n_rows:,} rows."
            )
        return tuple(remarks)


def _selective_comparison(
    passed: FirstPass, ranking: Ranking, bootstrap: BootstrapSettings
) -> Comparison:
    """Return the comparison for abstaining, with calibration and what calibrating would change."""
    plan = passed.plan
    assert plan.advice is not None
    assert plan.loss is not None
    calibration = passed.calibration(bootstrap.confidence)
    comparison = ranking.comparison(plan.advice, calibration, bootstrap)
    means = passed.overview.samples["means"].columns
    total = means["total"]
    members = Samples(means["mean"][:, None], check=False, class_names=passed.template.classes_)
    rows = RowUncertainties(members, means["mean"], {plan.loss: Decomposition(total, total, total)})
    losses = TaskLosses(plan.loss, means["label"], plan.floor, means["loss"], means["expected"])
    effect = effect_of_calibrating(rows, losses, bootstrap.confidence)
    if effect is not None:
        effect = replace(effect, n_rows=plan.n_rows)
    remarks, groups = comparison.remarks, passed.by_loss[EXPECTED]
    if not groups.is_exact:
        remarks += (
            f"Calibration was tested at the ends of {len(groups):,} groups of rows of nearly equal "
            "expected loss.",
        )
    return replace(comparison, calibrating=effect, remarks=remarks)


def _remarks_on_bins(metrics: OODMetrics) -> list[str]:
    """Return what is said of metrics of rows that share bins."""
    bounds = metrics.error_bounds
    if not bounds:
        return []
    return [
        "Average precision and FPR95 of OOD detection count rows of nearly equal uncertainty as "
        f"tied too: AUPR-out is within {bounds['aupr_out']:.2g} of that of the rows, AUPR-in "
        f"within {bounds['aupr_in']:.2g} and FPR95 within {bounds['fpr95']:.2g}."
    ]


def _ood_evaluation(
    passed: FirstPass, advice: Advice, bootstrap: BootstrapSettings
) -> OODEvaluation:
    """Return the metrics of the recommended measure, and the comparison of all."""
    assert passed.overview_out is not None
    samples = [part.samples[DETECTION] for part in (passed.overview, passed.overview_out)]
    u_in, u_out = (sample.columns[DETECTION] for sample in samples)
    if all(sample.has_all_rows for sample in samples):
        metrics = ood_metrics(
            u_in,
            u_out,
            bootstrap.confidence,
            n_resamples=bootstrap.n_resamples,
            random_state=bootstrap.seed,
            progress=bootstrap.progress,
        )
    else:
        histogram = passed.by_set[DETECTION]
        metrics = ood_metrics_of_counts(
            *counts_of_sets(histogram),
            histogram.has_one_score,
            bootstrap.confidence,
            bootstrap.n_resamples,
            bootstrap.seed,
            bootstrap.progress,
        )
    comparison = passed.ranking_of_sets().comparison(advice, None, bootstrap)
    return OODEvaluation(advice.rule, advice.component, metrics, u_in, u_out, comparison)
