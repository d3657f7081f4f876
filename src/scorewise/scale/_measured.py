"""Numbers of each row, which stay on the workers, and what is reduced from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise._array import to_numpy
from scorewise._member_checks import MemberChecks, rows_to_compare
from scorewise._rows import LabelAgreement, LabelledSamples
from scorewise.abstain import Certificate
from scorewise.calibrate import calibration_values
from scorewise.compare import (
    Advice,
    AulcOfGroups,
    AurocOfGroups,
    ClassSums,
    Measure,
    RowUncertainties,
    TaskLosses,
    UncertainRow,
    accepted_by_class,
    action_counts,
    drawn_to_calibrate,
    own_measures,
    root_of_covariance,
    selective_measures,
    simplex_rows,
    uncertain_rows_of,
)
from scorewise.detect import auroc_error
from scorewise.errors import InvalidFile, InvalidInput
from scorewise.rules import ScoringRule
from scorewise.scale._blocks import RowBlock
from scorewise.scale._ranks import ScoreHistogram, place
from scorewise.scale._sample import RowSample

LOSS, EXPECTED, DETECTION = "loss of the task", "expected loss", "score of OOD detection"

_SEED = 0  # of the samples, which are the same for every seed of the resamples


@dataclass(frozen=True, eq=False)
class Plan:
    """What is computed for each block of rows.

    Attributes
    ----------
    n_rows : int
        Of all blocks.
    rules : dict of str to ScoringRule
        Whose components are compared.
    components : list of str
    baselines : bool
    class_names : tuple of str
    loss : ScoringRule or None
        The task's loss; None for rows without labels.
    advice : Advice or None
        The recommended measure for abstaining; None if only OOD detection is compared.
    detection : (ScoringRule, str) or None
        Rule and component of the recommended measure for OOD detection.
    floor : float or None
    n_uncertain : int
    sample_size, screened_rows : int
        Rows of the sample for certificates and figures, and of that for the orders of measures.
    """

    n_rows: int
    rules: Mapping[str, ScoringRule]
    components: Sequence[str]
    baselines: bool
    class_names: tuple[str, ...]
    loss: ScoringRule | None
    advice: Advice | None
    detection: tuple[ScoringRule, str] | None
    floor: float | None
    n_uncertain: int
    sample_size: int
    screened_rows: int

    def uncertainties(self, samples: Any) -> RowUncertainties:
        """Return the uncertainties of rows under all rules that are needed."""
        rules = [] if self.loss is None else [self.loss]
        rules += self.rules.values()
        return RowUncertainties.of(samples, rules + ([self.detection[0]] if self.detection else []))

    def measures(self, rows: RowUncertainties) -> list[Measure]:
        """Return the measures that are compared, without the user's own."""
        if self.advice is None or self.loss is None:
            return rows.measures(self.rules, self.components, baselines=self.baselines)
        return selective_measures(
            rows,
            self.loss,
            self.rules,
            self.advice,
            components=self.components,
            baselines=self.baselines,
        )


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """The numbers of the rows of a block that later passes need.

    Attributes
    ----------
    scores : dict of str to array (n,)
        By measure.
    labels, losses, expected, totals : arrays (n,), or None
        Of labelled rows: class indices, incurred and expected losses, total uncertainty.
    """

    scores: dict[str, np.ndarray]
    labels: np.ndarray | None = None
    losses: np.ndarray | None = None
    expected: np.ndarray | None = None
    totals: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Overview:
    """What is known of all rows of some blocks, in a size that does not grow with them."""

    samples: dict[str, RowSample]
    checks: MemberChecks
    classes: ClassSums | None = None
    actions: np.ndarray | None = None
    uncertain_rows: tuple[UncertainRow, ...] = ()
    simplex: tuple[np.ndarray, np.ndarray] | None = None
    agreement: LabelAgreement | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return next(iter(self.samples.values())).n_rows


def measure_block(block: RowBlock, plan: Plan) -> tuple[MeasuredRows, Overview]:
    """Return the numbers of the rows of a block; its members are decomposed once."""
    rows = plan.uncertainties(block.samples)
    first, n = block.first_row, rows.n_rows
    measures = plan.measures(rows)
    measures += own_measures(block.scores, {"scores": n}, measures)
    scores = {measure.name: measure.scores for measure in measures}
    samples = {"scores": _sample(scores, plan.screened_rows, first)} if scores else {}
    if plan.detection is not None:
        scores[DETECTION] = rows.scores(*plan.detection)
        detection = {DETECTION: scores[DETECTION]}
        samples[DETECTION] = _sample(detection, plan.sample_size, first)
    probs = to_numpy(block.samples.probs)
    checks = MemberChecks()
    if probs.shape[-2] > 1:
        checks.see(probs, _within(rows_to_compare(plan.n_rows, *probs.shape[1:]), first, n))
    if plan.loss is None or block.labels is None:
        return MeasuredRows(scores), Overview(samples, checks)
    losses = _losses(rows, block, plan.loss, plan.floor)
    total, aleatoric, epistemic = uncertainty = rows.by_rule[plan.loss]
    values = {"loss": losses.incurred, "total": total}
    parts = {"aleatoric": aleatoric, "epistemic": epistemic}
    samples["losses"] = _sample(values | parts, plan.sample_size, first)
    means = {"mean": rows.mean, "label": block.labels, "expected": losses.expected}
    n_means = drawn_to_calibrate(rows.mean.shape[1])
    samples["means"] = _sample(values | means, n_means, first)
    labelled = LabelledSamples(block.samples, block.labels, block.ids, plan.class_names)
    uncertain_rows = uncertain_rows_of(
        labelled, rows.mean, losses, uncertainty, plan.floor, plan.n_uncertain
    )
    shown = simplex_rows(plan.n_rows, rows.mean.shape[1])
    simplex = None
    if shown is not None:
        shown = _within(shown, first, n)
        simplex = rows.mean[shown], block.labels[shown]
    return (
        MeasuredRows(scores, block.labels, losses.incurred, losses.expected, total),
        Overview(
            samples,
            checks,
            ClassSums.of(block.labels, losses.incurred, uncertainty, rows.mean.shape[1]),
            action_counts(block.labels, rows.mean, plan.loss, plan.floor),
            tuple(_numbered(row, block) for row in uncertain_rows),
            simplex,
            LabelAgreement.of(rows.mean.argmax(axis=-1), block.labels),
        ),
    )


def _losses(
    rows: RowUncertainties, block: RowBlock, rule: ScoringRule, floor: float | None
) -> TaskLosses:
    """Return the losses of a block; errors number rows over all blocks, or name the file."""
    assert block.labels is not None
    if block.file is None:
        return rows.task_losses(rule, block.labels, floor, block.first_row)
    try:
        return rows.task_losses(rule, block.labels, floor, block.row_in_file)
    except InvalidInput as error:
        counted = "" if block.numbers is None else " (rows are counted without invalid ones)"
        raise InvalidFile(f"{block.file!r}: {error.problem}{counted}", *error.remedies) from None


def _sample(columns: Mapping[str, np.ndarray], size: int, first_row: int) -> RowSample:
    return RowSample.of(columns, size, _SEED, first_row)


def _within(rows: np.ndarray, first: int, n: int) -> np.ndarray:
    """Return which of the rows are in a block, counted from its first row."""
    return rows[(rows >= first) & (rows < first + n)] - first


def _numbered(row: UncertainRow, block: RowBlock) -> UncertainRow:
    """Return a row of a block with its number among all rows."""
    numbers = block.numbers
    index = block.first_row + row.index if numbers is None else int(numbers[row.index])
    return replace(row, index=index, id=index if block.ids is None else row.id)


def merge_overviews(parts: list[Overview], n_uncertain: int) -> Overview:
    """Return the overview of the rows of all parts, which are in the order of the rows."""
    first, *others = parts
    checks = MemberChecks()
    for part in parts:
        checks.join(part.checks)
    samples = {
        name: sample.merge(*(other.samples[name] for other in others))
        for name, sample in first.samples.items()
    }
    if first.classes is None:
        return Overview(samples, checks)
    classes, actions, agreement = first.classes, first.actions, first.agreement
    for other in others:
        assert other.classes is not None
        assert agreement is not None
        assert other.agreement is not None
        classes, agreement = classes + other.classes, agreement + other.agreement
        actions = None if actions is None or other.actions is None else actions + other.actions
    uncertain_rows = sorted(
        (row for part in parts for row in part.uncertain_rows),
        key=lambda row: (-row.total, -row.epistemic, row.index),
    )
    simplex = None
    shown = [part.simplex for part in parts if part.simplex is not None]
    if shown:
        means, labels = zip(*shown, strict=True)
        simplex = np.concatenate(means), np.concatenate(labels)
    uncertain = tuple(uncertain_rows[:n_uncertain])
    return Overview(samples, checks, classes, actions, uncertain, simplex, agreement)


# -- histograms of all rows ------------------------------------------------------------------------


def histogram_of_losses(rows: MeasuredRows, name: str, n_bins: int) -> ScoreHistogram:
    """Return the histogram of a measure, of the incurred or of the expected losses."""
    assert rows.losses is not None
    assert rows.expected is not None
    if name == EXPECTED:
        values = calibration_values(rows.losses, rows.expected)
        return ScoreHistogram.of(rows.expected, values, n_bins)
    scores = rows.losses if name == LOSS else rows.scores[name]
    return ScoreHistogram.of(scores, rows.losses, n_bins)


def histogram_of_sets(
    rows: MeasuredRows, name: str, n_bins: int, *, is_out: bool
) -> ScoreHistogram:
    """Return the histogram of a measure, with whether rows are OOD rows as their values."""
    scores = rows.scores[name]
    return ScoreHistogram.of(scores, np.full(len(scores), float(is_out)), n_bins)


def merge_histograms(histograms: list[ScoreHistogram]) -> ScoreHistogram:
    """Return the histogram of the rows of all histograms."""
    first, *others = histograms
    return first.merge(*others)


def counts_of_sets(histogram: ScoreHistogram) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of in-distribution and of OOD rows in each bin."""
    c_out = np.round(histogram.moments.sums[0]).astype(np.int64)
    return histogram.sizes - c_out, c_out


def auroc_error_of(histogram: ScoreHistogram) -> float:
    """Return by how much the AUROC can differ from that of the rows themselves."""
    return auroc_error(*counts_of_sets(histogram), histogram.has_one_score)


# -- influences of all rows ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RankedMeasure:
    """A measure, the bins of its scores, and the coefficients of the influences of their rows.

    ``lowest`` are the keys of the smallest score in each bin.
    """

    name: str
    lowest: np.ndarray
    metric: AulcOfGroups | AurocOfGroups


def ranked_by_aulc(name: str, histogram: ScoreHistogram) -> RankedMeasure:
    """Return the measure with the coefficients of the AULC."""
    return RankedMeasure(name, histogram.lowest, AulcOfGroups.of(histogram.groups))


def ranked_by_auroc(name: str, histogram: ScoreHistogram) -> RankedMeasure:
    """Return the measure with the coefficients of the AUROC."""
    return RankedMeasure(name, histogram.lowest, AurocOfGroups.of(*counts_of_sets(histogram)))


def root_of_rows(
    rows: MeasuredRows, measures: list[RankedMeasure], is_out: bool | None
) -> np.ndarray:
    """Return the root of the covariance that the rows add to the metrics; see ``merge_roots``."""
    influences = []
    for measure in measures:
        scores = rows.scores[measure.name]
        values = rows.losses if is_out is None else np.full(len(scores), is_out)
        assert values is not None
        influences.append(measure.metric.influence(place(scores, measure.lowest), values))
    return root_of_covariance(np.stack(influences, axis=1))


def merge_roots(roots: list[np.ndarray]) -> np.ndarray:
    """Return the root of the covariance of the rows of all parts."""
    return root_of_covariance(np.concatenate(roots))


def accepted_rows(rows: MeasuredRows, certificate: Certificate, n_classes: int) -> np.ndarray:
    """Return the number of accepted rows of each class, and their summed losses, ``(2, K)``."""
    assert rows.labels is not None
    assert rows.losses is not None
    assert rows.totals is not None
    return accepted_by_class(rows.labels, rows.losses, rows.totals, certificate, n_classes)


def add(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays."""
    return np.asarray(np.sum(parts, axis=0))
