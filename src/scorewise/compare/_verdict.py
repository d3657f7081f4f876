"""The verdict of an evaluation: three sentences for every reader, and those for specialists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import TYPE_CHECKING, overload

from scorewise._notebook import TextInNotebooks
from scorewise._text import percent
from scorewise.errors import Remedy, ScorewiseError

if TYPE_CHECKING:
    from scorewise.abstain import Certificate
    from scorewise.compare._comparison import Comparison
    from scorewise.compare._evaluation import Evaluation, LearningEvaluation, OODEvaluation
    from scorewise.rules import Unit

NameText = Callable[[str], str]
RemedyText = Callable[[Remedy], str]

_SMALL_DIFFERENCE = 0.05  # of the scale of a metric
_MOST_NAMES = 4  # in one sentence
_ACCEPTED = 0.9  # share of the rows whose loss is stated where no certificate has another
_MOST_FALSE_ALARMS = 0.5  # beyond which a model hardly notices out-of-distribution inputs


@dataclass(frozen=True)
class Verdict(TextInNotebooks, Sequence[str]):
    """The results of an evaluation: sentences by name, and a sequence in reading order.

    The first three are for every reader: no p-values, measures or functions. The notes follow, and
    then the sentences for specialists.

    Attributes
    ----------
    abstain : str
        What abstaining buys, and what it guarantees for new rows.
    ood : str
        Whether out-of-distribution inputs are recognised, or that it was not tested.
    calibration : str
        Whether the probabilities can be believed.
    notes : tuple of str
        What could not be done, or deserves attention, and why.
    measures : str
        Which measure is best for abstaining.
    ood_metrics, ood_measures : str or None
        How well out-of-distribution inputs are detected, and by which measure best.
    learning : str or None
        Which measure chose the best labels.
    calibration_test : str
        Whether the model is calibrated, overconfident or underconfident, with the p-value.
    calibrating : str or None
        Whether calibrating first would help to abstain, and by how much; None for few rows.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> verdict = sw.evaluate(probs, y).verdict
    >>> print(verdict.calibration)
    The probabilities are too confident for some cases and too cautious for others: by them 30 % of
    the answers would be wrong, and 25 % are; after a correction by known outcomes, 25 % and 25 %.
    >>> verdict.plain[2] == verdict[2] == verdict.calibration
    True
    """

    abstain: str
    ood: str
    calibration: str
    measures: str
    calibration_test: str
    calibrating: str | None = None
    ood_metrics: str | None = None
    ood_measures: str | None = None
    learning: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def plain(self) -> tuple[str, str, str]:
        """The three sentences for every reader."""
        return self.abstain, self.ood, self.calibration

    @property
    def details(self) -> tuple[str, ...]:
        """The sentences for specialists."""
        sentences = (
            self.measures,
            self.ood_metrics,
            self.ood_measures,
            self.learning,
            self.calibration_test,
            self.calibrating,
        )
        return tuple(sentence for sentence in sentences if sentence is not None)

    def _sentences(self) -> tuple[str, ...]:
        return (*self.plain, *self.notes, *self.details)

    def __len__(self) -> int:
        return len(self._sentences())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._sentences()[index]

    def __str__(self) -> str:
        return "\n".join(self)


@dataclass(frozen=True)
class Note:
    """A problem in an evaluation, and the arguments that would solve it.

    Attributes
    ----------
    problem : str
        What could not be done and why, without a full stop.
    remedies : tuple of Remedy
        Alternatives; each of them solves the problem.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> note, = sw.evaluate(probs, y, task_loss="log").notes
    >>> print(note)
    No certificate: the loss 'log' can be infinite, and no guarantee on its mean exists; pass
    floor=1e-06 to set the smallest probability that counts.
    >>> note.remedies[0].argument
    'floor'
    """

    problem: str
    remedies: tuple[Remedy, ...] = ()

    def render(self, remedy_text: RemedyText = str) -> str:
        """Return the note as a sentence, each remedy as ``remedy_text`` renders it."""
        return f"{ScorewiseError(self.problem, *self.remedies).render(remedy_text)}."

    def __str__(self) -> str:
        return self.render()


def verdict_of(evaluation: Evaluation, remedy_text: RemedyText, name_text: NameText) -> Verdict:
    """Return the verdict, with remedies and names as the caller renders them."""
    ood, learning, effect = evaluation.ood, evaluation.learning, evaluation.comparison.calibrating
    noun = name_text(evaluation.unit.noun)
    return Verdict(
        abstain=_abstain(evaluation, noun),
        ood=_ood(ood),
        calibration=_calibration(evaluation, noun),
        measures=_measures(
            evaluation.comparison, "for abstaining", evaluation.n_rows, evaluation.loss, name_text
        ),
        calibration_test=_calibration_test(evaluation, noun),
        calibrating=None if effect is None else effect.sentence(),
        ood_metrics=None if ood is None else _ood_metrics(ood, name_text),
        ood_measures=None
        if ood is None
        else _measures(
            ood.comparison,
            "for OOD detection",
            ood.metrics.n_in + ood.metrics.n_out,
            0.5,  # from random scores to perfect ones
            name_text,
        ),
        learning=None if learning is None else _learning(evaluation, learning, name_text),
        notes=tuple(note.render(remedy_text) for note in evaluation.notes),
    )


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence, at most the first few of them."""
    names = list(names)
    if len(names) > _MOST_NAMES + 1:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# -- for every reader ------------------------------------------------------------------------------


def _abstain(evaluation: Evaluation, noun: str) -> str:
    """What passing on uncertain cases buys here, and what is guaranteed for new ones."""
    unit, certificate = evaluation.unit, evaluation.headline
    if certificate is None:
        coverage, loss = _at_most_accepted(evaluation)
        sentence = f"{_gain(evaluation, coverage, loss, noun)}."
        if not evaluation.certificates:
            return sentence
        easiest = max(evaluation.certificates, key=lambda certificate: certificate.max_loss)
        target = unit.format_exact(easiest.max_loss)
        goal = (
            f"at most {target} are wrong"
            if unit.is_proportion
            else f"the {noun} is at most {target}"
        )
        more = _more_rows(easiest)
        return f"{sentence} Nothing can be guaranteed for new cases, not even that {goal}: {more}."
    target = unit.format_exact(certificate.max_loss)
    goal = (
        f"at most {target} of the answers will be wrong"
        if unit.is_proportion
        else f"the {noun} will be at most {target} on average"
    )
    confidence = f"with {percent(evaluation.confidence, '.12g')} confidence"
    gain = _gain(evaluation, certificate.coverage, certificate.loss, noun)
    return f"{gain}; on new cases like these {goal}, {confidence}."


def _at_most_accepted(evaluation: Evaluation) -> tuple[float, float]:
    """Return coverage and mean loss where the most uncertain cases are passed on."""
    curve = evaluation.curves.get(evaluation.measure)
    if curve is None:
        return 1.0, evaluation.loss
    k = ceil(_ACCEPTED * len(curve))
    n_accepted = int(curve.accepted_by_threshold(k)[1])  # with tied rows
    return n_accepted / len(curve), float(curve.total_loss_of(n_accepted)) / n_accepted


def _gain(evaluation: Evaluation, coverage: float, loss: float, noun: str) -> str:
    """What the accepted cases incur instead of all, without a full stop."""
    unit, n = evaluation.unit, evaluation.n_rows
    is_better = loss < evaluation.loss
    before, after = _different(evaluation.loss, loss, unit)
    wrong = "wrong" if unit.noun == "error" else f"wrong ({noun})"
    if n == 1:
        right = wrong if evaluation.loss else "right"
        return f"The only case is {right}" if unit.is_proportion else f"The {noun} is {before}"
    if coverage == 1 and unit.is_proportion:
        return f"If the model answers all {n:,} cases, {before} are {wrong}"
    if coverage == 1:
        return f"If the model answers all {n:,} cases, the {noun} is {before} on average"
    share = _everyday(round(1 - coverage, 12))
    passes = f"If the model passes on the {share} of cases it is least sure of"
    if unit.is_proportion:
        instead = f" instead of {before}" if is_better else f", no fewer than of all ({before})"
        return f"{passes}, {after} of the rest are {wrong}{instead}"
    instead = f" instead of {before}" if is_better else f", no less than of all ({before})"
    return f"{passes}, the {noun} of the rest is {after} on average{instead}"


def _different(before: float, after: float, unit: Unit) -> tuple[str, str]:
    """Two losses in as few digits as show that they differ."""
    texts = _everyday(before, unit), _everyday(after, unit)
    for form in (unit.format, unit.format_exact):
        if before != after and texts[0] == texts[1]:
            texts = form(before), form(after)
    return texts


def _everyday(value: float, unit: Unit | None = None) -> str:
    """A proportion or a mean loss in about two digits."""
    if unit is not None and not unit.is_proportion:
        return f"{value:.3g}"
    return percent(value, ".2g" if value < 0.9 else ".3g")


def _more_rows(certificate: Certificate) -> str:
    n = certificate.n_more_rows
    if n is None and certificate.has_too_few_rows:
        return f"at least {certificate.fewest_rows:,} labelled cases are needed"
    if n is None:
        return "more labelled cases may not help, a better model might"
    return f"about {n:,} more labelled case{'s' * (n != 1)} would be needed"


def _ood(ood: OODEvaluation | None) -> str:
    unlike = "inputs unlike those it was trained on"
    if ood is None:
        return (
            f"It was not tested whether the model notices {unlike}: evaluate it together with "
            "predictions for such inputs (option ood)."
        )
    low, high = ood.metrics.auroc_interval
    if high < 0.5:
        return (
            f"The model is surer of {unlike} than of ordinary ones: its doubt does not reveal them."
        )
    if low <= 0.5:
        return (
            f"The model does not notice {unlike}: it is about as sure of them as of ordinary ones."
        )
    alarms = _everyday(ood.metrics.fpr95)
    notices = "notices" if ood.metrics.fpr95 <= _MOST_FALSE_ALARMS else "hardly notices"
    return (
        f"The model {notices} {unlike}: catching 95 % of them means false alarms on {alarms} of "
        "ordinary ones."
    )


def _calibration(evaluation: Evaluation, noun: str) -> str:
    """Whether the probabilities can be believed."""
    calibration, unit = evaluation.calibration, evaluation.unit
    expected, incurred = (
        _everyday(value, unit) for value in (calibration.expected, calibration.incurred)
    )
    if unit.is_proportion:
        gap = f"by them {expected} of the answers would be wrong, and {incurred} are"
    else:
        gap = f"by them the {noun} would be {expected} on average, and it is {incurred}"
    if calibration.is_calibrated:
        cases = f"{evaluation.n_rows:,} cases" if evaluation.n_rows > 1 else "one case"
        return f"The probabilities can be believed, as far as {cases} can show: {gap}."
    low, high = calibration.gap_interval
    if low > 0:
        state = "are too confident to be taken at face value"
    elif high < 0:
        state = "are too cautious to be taken at face value"
    elif isfinite(high - low):
        state = "are too confident for some cases and too cautious for others"
    else:
        state = "do not fit the outcomes"
    effect = evaluation.comparison.calibrating
    if effect is not None and effect.method != "none":
        after = (effect.expected_after, float(effect.after.loss[-1]))
        after_text = " and ".join(_everyday(x, unit) for x in after)
        gap += f"; after a correction by known outcomes, {after_text}"
    return f"The probabilities {state}: {gap}."


# -- for specialists -------------------------------------------------------------------------------


def _measures(
    comparison: Comparison, task: str, n_rows: int, scale: float, name_text: NameText
) -> str:
    """Which measures are best, or that it hardly matters; ``scale`` is a large difference."""
    n, best = len(comparison.standings), name_text(comparison.best)
    others = [name_text(name) for name in comparison.indistinguishable if name != comparison.best]
    if n == 1:
        return f"One measure was compared {task}: {best} uncertainty."
    standings = [row for row in comparison.standings if row.name in comparison.indistinguishable]
    spread = max((abs(row.distance_to_best) for row in standings), default=0.0)
    rows = f"{n_rows:,} rows" if n_rows > 1 else "one row"
    if spread > _SMALL_DIFFERENCE * scale and len(others) > _MOST_NAMES:
        return (
            f"There are too few rows ({n_rows:,}) to tell {len(others) + 1} of the {n} measures "
            f"apart {task}; {best} uncertainty is best here."
        )
    if len(others) == n - 1:
        show = "show" if n_rows > 1 else "shows"
        return (
            f"The choice of measure hardly matters here: {task}, {rows} {show} no difference "
            f"between the {n} measures."
        )
    if len(others) > _MOST_NAMES:
        n_worse = n - 1 - len(others)
        are = "is" if n_worse == 1 else "are"
        return (
            f"The choice among {len(others) + 1} of {n} measures hardly matters here: {task}, they "
            f"are indistinguishable from the best, {best} uncertainty; {n_worse} {are} worse."
        )
    sentence = f"{task[0].upper()}{task[1:]}, {best} uncertainty is best here"
    if not others:
        return f"{sentence}, and better than every other measure."
    are = "is" if len(others) == 1 else "are"
    return f"{sentence}; {listed(others)} {are} indistinguishable from it."


def _ood_metrics(ood: OODEvaluation, name_text: NameText) -> str:
    low, high = ood.metrics.auroc_interval
    auroc = f"AUROC {ood.metrics.auroc:.3f} [{low:.3f}, {high:.3f}]"
    measure = f"{ood.component.capitalize()} uncertainty under the {name_text(ood.rule)} rule"
    if high < 0.5:
        return (
            f"{measure} is lower for out-of-distribution inputs than for others ({auroc}): do not "
            "use it to detect them."
        )
    if low <= 0.5:
        return f"{measure} does not separate out-of-distribution inputs ({auroc})."
    return (
        f"{measure} separates out-of-distribution inputs ({auroc}); detecting 95 % of them raises "
        f"false alarms on {percent(ood.metrics.fpr95)} of the in-distribution inputs."
    )


def _learning(evaluation: Evaluation, learning: LearningEvaluation, name_text: NameText) -> str:
    comparison, noun = learning.comparison, name_text(evaluation.unit.noun)
    best = comparison.best
    last = {
        name: evaluation.unit.format(float(losses[:, -1].mean()))
        for name, (_, losses) in learning.curves.items()
    }
    labels = f"{learning.curves[best][0][-1]:,.0f} labels"
    if best == "random":
        sentence = f"Labels chosen at random did best here: {noun} {last[best]} at {labels}"
        others = [name_text(name) for name in comparison.indistinguishable if name != best]
        if others:
            return f"{sentence}, though {listed(others)} could be as good by chance."
        return f"{sentence}."
    sentence = f"With labels chosen by {name_text(best)}, the {noun} is {last[best]} at {labels}"
    if "random" in last:
        sentence += f"; chosen at random, {last['random']}"
        if comparison["random"].verdict != "worse":
            sentence += ". Over all rounds the difference could be due to chance"
    return f"{sentence}."


def _calibration_test(evaluation: Evaluation, noun: str) -> str:
    calibration, unit = evaluation.calibration, evaluation.unit
    expected, incurred = unit.format(calibration.expected), unit.format(calibration.incurred)
    outcome = (
        f"{incurred} were wrong" if unit.is_proportion else f"the incurred {noun} is {incurred}"
    )
    gap = f"the expected {noun} is {expected}, and {outcome}"
    if calibration.is_calibrated:
        return f"The model shows no miscalibration: {gap}."
    low, high = calibration.gap_interval
    if low > 0:
        state = "The model is overconfident"
    elif high < 0:
        state = "The model is underconfident"
    else:
        state = "The model is miscalibrated" + ", though not on average" * isfinite(high - low)
    p_value = calibration.p_value
    p_text = f"p = {p_value:.2g}" if p_value > 1e-300 else "p < 1e-300"
    effect = evaluation.comparison.calibrating
    if effect is None or effect.method != "none":
        remedy = (
            "Calibrate the probabilities before using the expected loss "
            "(scorewise.fit_calibration, or scorewise calibrate)."
        )
    else:
        remedy = "No scaling of the probabilities that was tried mends it."
    valid = " Certificates stay valid." if evaluation.certificates else ""
    return f"{state}: {gap} ({p_text}). {remedy}{valid}"
