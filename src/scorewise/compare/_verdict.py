"""The verdict of an evaluation: one sentence per question, each by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, overload

from scorewise._notebook import TextInNotebooks
from scorewise._text import percent
from scorewise.errors import Remedy, ScorewiseError

if TYPE_CHECKING:
    from scorewise.compare._comparison import Comparison
    from scorewise.compare._evaluation import Evaluation, LearningEvaluation, OODEvaluation

NameText = Callable[[str], str]
RemedyText = Callable[[Remedy], str]

_MOST_NAMES = 4  # in one sentence


@dataclass(frozen=True)
class Verdict(TextInNotebooks, Sequence[str]):
    """The results of an evaluation: sentences by name, and a sequence in reading order.

    Attributes
    ----------
    abstain : str
        How often to abstain, and what that guarantees.
    measures : str
        Which measure is best for abstaining.
    calibration : str
        Whether the model is calibrated, overconfident or underconfident.
    ood, ood_measures : str or None
        Whether out-of-distribution inputs are detected, and by which measure best.
    learning : str or None
        Which measure chose the best labels.
    notes : tuple of str
        What could not be done, and why.
    """

    abstain: str
    measures: str
    calibration: str
    ood: str | None = None
    ood_measures: str | None = None
    learning: str | None = None
    notes: tuple[str, ...] = ()

    def _sentences(self) -> tuple[str, ...]:
        sentences = (
            self.abstain,
            self.measures,
            self.ood,
            self.ood_measures,
            self.learning,
            self.calibration,
            *self.notes,
        )
        return tuple(sentence for sentence in sentences if sentence is not None)

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
    ood, learning = evaluation.ood, evaluation.learning
    return Verdict(
        abstain=_abstain(evaluation, name_text(evaluation.unit.noun)),
        measures=_measures(evaluation.comparison, "For abstaining", name_text),
        calibration=_calibration(evaluation, name_text(evaluation.unit.noun)),
        ood=None if ood is None else _ood(ood, name_text),
        ood_measures=None
        if ood is None
        else _measures(ood.comparison, "For OOD detection", name_text),
        learning=None if learning is None else _learning(evaluation, learning, name_text),
        notes=tuple(note.render(remedy_text) for note in evaluation.notes),
    )


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence, at most the first few of them."""
    names = list(names)
    if len(names) > _MOST_NAMES + 1:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _abstain(evaluation: Evaluation, noun: str) -> str:
    unit, certificate = evaluation.unit, evaluation.headline
    loss = unit.format(evaluation.loss)
    confidence = f"with {percent(evaluation.confidence, '.12g')} confidence"
    rows = f"on {evaluation.n_rows:,} rows" if evaluation.n_rows != 1 else "on one row"
    if not evaluation.certificates:
        return f"The {noun} is {loss} {rows}."
    if certificate is None:
        easiest = max(evaluation.certificates, key=lambda certificate: certificate.max_loss)
        if easiest.n_more_rows is None:
            more = "More rows may not help: use a better model, or allow a larger loss."
        elif easiest.n_more_rows == 1:
            more = "About one more labelled row would be needed."
        else:
            more = f"About {easiest.n_more_rows:,} more labelled rows would be needed."
        return (
            f"The {noun} is {loss} {rows}, and no threshold guarantees {_article(unit.noun)} "
            f"{noun} of at most {unit.format_exact(easiest.max_loss)} {confidence}. {more}"
        )
    target = unit.format_exact(certificate.max_loss)
    if loss == target:  # but for rounding
        loss = unit.format_exact(evaluation.loss)
    if certificate.coverage == 1:
        return f"Accept all rows: the {noun} is {loss}, and under {target} {confidence}."
    abstained = percent(1 - certificate.coverage)
    if certificate.max_loss < evaluation.loss:
        return (
            f"Abstain on {abstained} and the {noun} falls from {loss} to under {target}, "
            f"{confidence}."
        )
    return (
        f"The {noun} is {loss} {rows}; to guarantee at most {target}, {confidence}, abstain on "
        f"{abstained}."
    )


def _measures(comparison: Comparison, task: str, name_text: NameText) -> str:
    standings = comparison.standings
    if len({row.value for row in standings}) == 1 < len(standings):
        return f"{task}, all measures give the same result here and cannot be compared."
    others = [name_text(name) for name in comparison.indistinguishable if name != comparison.best]
    best = f"{task}, {name_text(comparison.best)} uncertainty is best here"
    if not others:
        return f"{best}, and better than every other measure."
    are = "is" if len(others) == 1 else "are"
    return f"{best}; {listed(others)} {are} indistinguishable from it."


def _ood(ood: OODEvaluation, name_text: NameText) -> str:
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


def _calibration(evaluation: Evaluation, noun: str) -> str:
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
    valid = "Rankings and certificates" if evaluation.certificates else "Rankings"
    return (
        f"{state}: {gap} ({p_text}). Recalibrate before using the expected loss, in Python with "
        f"scorewise.fit_temperature or LossRecalibrator. {valid} stay valid."
    )


def _article(noun: str) -> str:
    return "an" if noun[:1] in set("aeiou") else "a"
