"""The result of an evaluation, which plots, the report and the command line read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scorewise._notebook import TextInNotebooks, display, frame
from scorewise._numerics import evenly_spaced
from scorewise.abstain import Certificate
from scorewise.calibrate import LossCalibration
from scorewise.compare._advise import measure_name
from scorewise.compare._comparison import Comparison
from scorewise.compare._verdict import NameText, Note, RemedyText, Verdict, verdict_of
from scorewise.curves import Curve
from scorewise.decompose import Decomposition
from scorewise.detect import OODMetrics
from scorewise.rules import Unit

_ENOUGH_COVERAGE = 0.5  # that the certificate in the headline should still have
_POINTS = 200  # of a curve in a dictionary


@dataclass(frozen=True)
class ClassSummary:
    """Mean loss and uncertainty of the rows of one class.

    Attributes
    ----------
    name : str
    n_rows : int
    loss, total, aleatoric, epistemic : float
        Means under the task's loss; NaN where there are no rows.
    coverage : float or None
        Proportion of the rows that the certificate in the headline accepts; None without one, or
        without rows.
    accepted_loss : float or None
        Mean loss of the accepted rows; None where none is accepted.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> for row in sw.evaluate(probs, y).classes:
    ...     print(f"{row.name}: {row.n_rows} rows, error {row.loss:.2f}, total {row.total:.2f}")
    0: 150 rows, error 0.33, total 0.25
    1: 50 rows, error 0.00, total 0.45
    """

    name: str
    n_rows: int
    loss: float
    total: float
    aleatoric: float
    epistemic: float
    coverage: float | None
    accepted_loss: float | None


@dataclass(frozen=True, eq=False)
class UncertainRow:
    """A row of large total uncertainty, with the probabilities of its members.

    Attributes
    ----------
    index : int
    id : int or str
        As in the file, else the index.
    label, prediction : str
        Names of classes; the prediction of a cost matrix may be another action.
    is_wrong : bool or None
        Whether the prediction is wrong; None where it is an action, neither right nor wrong.
    loss, total, aleatoric, epistemic : float
        Under the task's loss.
    classes : tuple of str
        The likeliest classes, the likeliest first.
    members : array (m, c)
        Probabilities of those classes, of some members evenly spaced.
    mean : array (c,)
        θ̄ of those classes, over all members.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> row = sw.evaluate(probs, y).uncertain_rows[0]
    >>> row.index, row.label, row.prediction, row.mean
    (100, '0', '1', array([0.55, 0.45]))
    """

    index: int
    id: int | str
    label: str
    prediction: str
    is_wrong: bool | None
    loss: float
    total: float
    aleatoric: float
    epistemic: float
    classes: tuple[str, ...]
    members: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True, eq=False)
class ActionSummary:
    """The actions of a cost matrix, their costs, and how often each is chosen.

    Attributes
    ----------
    names : tuple of str
        Of the A actions.
    costs : array (K, A)
        By the true class and the action.
    n_rows : int array (K, A)
        Rows of each class for which each action is chosen.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> actions = sw.evaluate(probs, y, task_loss=[[0, 5], [20, 0]]).actions
    >>> actions.n_rows  # of each class, by the action
    array([[100,  50],
           [  0,  50]])
    """

    names: tuple[str, ...]
    costs: np.ndarray
    n_rows: np.ndarray


@dataclass(frozen=True, eq=False)
class OODEvaluation:
    """How well uncertainty separates out-of-distribution from in-distribution rows.

    Attributes
    ----------
    rule, component : str
        The measure that theory recommends: epistemic uncertainty under the log rule.
    metrics : OODMetrics
        Of that measure.
    u_in, u_out : arrays (n,), (m,)
        That measure of the in-distribution and of the out-of-distribution rows.
    comparison : Comparison
        Of all measures.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> ood = sw.evaluate(probs, y, ood=sw.binary(np.full((50, 2), [0.2, 0.9]))).ood
    >>> ood.score_name, ood.metrics.auroc
    ('epistemic log uncertainty', 1.0)
    """

    rule: str
    component: str
    metrics: OODMetrics
    u_in: np.ndarray
    u_out: np.ndarray
    comparison: Comparison

    @property
    def measure(self) -> str:
        """The name of the recommended measure, such as ``"epistemic log"``."""
        return measure_name(self.rule, self.component)

    @property
    def score_name(self) -> str:
        """The name of its values, such as ``"epistemic log uncertainty"``."""
        return f"{self.measure} uncertainty"

    def plot(self, axes: Any = None, bins: int | None = None) -> Any:
        """Draw histograms of both sets of rows and the ROC curve, and return the display.

        Parameters
        ----------
        axes : two Axes, optional
            Axes to draw on; by default those of a new figure.
        bins : int, optional
            Number of bins, shared by both histograms; by default 5 to 40.

        Returns
        -------
        scorewise.plots.OODDisplay
        """
        scores = self.u_in, self.u_out
        return display("OODDisplay", *scores, self.metrics, self.score_name).plot(axes, bins)


@dataclass(frozen=True, eq=False)
class LearningEvaluation:
    """The losses of runs of active learning, by the measure that chose the labels.

    Attributes
    ----------
    curves : dict of str to (array (T,), array (R, T))
        By the measure that chose: numbers of labels, and the losses of R runs there.
    comparison : Comparison

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.acquire import Round
    >>> def run(loss):
    ...     return [Round(i, [i], [0], None, 10 * i, loss / i) for i in (1, 2)]
    >>> runs = {"total log": [run(0.2), run(0.3)], "random": [run(0.4), run(0.4)]}
    >>> learning = sw.evaluate(np.full((9, 2, 2), 0.5), [0] * 9, runs=runs).learning
    >>> n_labelled, losses = learning.curves["total log"]
    >>> n_labelled, losses.mean(axis=0)
    (array([10, 20]), array([0.25 , 0.125]))
    """

    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    comparison: Comparison

    def plot(self, ax: Any = None, loss_name: str | Unit = "loss") -> Any:
        """Draw the mean loss by the number of labels, and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        loss_name : str or Unit
            Name of the loss on the axis; the ``unit`` of the evaluation has one.

        Returns
        -------
        scorewise.plots.LearningCurveDisplay
        """
        return display("LearningCurveDisplay", self.curves, loss_name).plot(ax)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(TextInNotebooks):
    """The evaluation of one set of predictions; made by :func:`scorewise.evaluate`.

    Printing it gives the verdict. Plots, the report and the command line all read it.

    Attributes
    ----------
    n_rows, n_members, n_classes : int
    class_names : tuple of str
    task_loss : str
    unit : Unit
        What the losses are called, and how they are written.
    loss : float
        Mean loss of all rows.
    measure : str
        The measure that theory recommends for abstaining: the total of the task's loss.
    curves : dict of str to Curve
        Rejection curves, by measure.
    comparison : Comparison
        Of these measures.
    certificates : tuple of Certificate
        Thresholds of ``measure``, from the largest ``max_loss`` to the smallest. They hold together
        with ``confidence``.
    calibration : LossCalibration
        Expected against incurred loss, under the task's loss.
    classes : tuple of ClassSummary
    uncertain_rows : tuple of UncertainRow
        The most uncertain rows, the most uncertain first.
    confidence : float
    actions : ActionSummary or None
        Costs and actions, where the task's loss is a cost matrix.
    uncertainty : Decomposition or None
        Of all rows, under the task's loss.
    ood : OODEvaluation or None
    learning : LearningEvaluation or None
    simplex : tuple of arrays (n, 3) and (n,), or None
        θ̄ and the label of some rows, where there are three classes.
    settings : dict
        Seed, rules, resamples, …
    notes : tuple of Note
        What could not be done, or deserves attention, and why.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> evaluation = sw.evaluate(probs, y)
    >>> evaluation.loss, evaluation.measure, evaluation.headline.coverage
    (0.25, 'total zero-one', 0.5)
    >>> print(evaluation.verdict.abstain)
    If the model passes on the 50 % of cases it is least sure of, 0 % of the rest are wrong instead
    of 25 %; on new cases like these at most 5 % of the answers will be wrong, with 95 % confidence.
    """

    n_rows: int
    n_members: int
    n_classes: int
    class_names: tuple[str, ...]
    task_loss: str
    unit: Unit
    loss: float
    measure: str
    curves: dict[str, Curve]
    comparison: Comparison
    certificates: tuple[Certificate, ...]
    calibration: LossCalibration
    classes: tuple[ClassSummary, ...]
    uncertain_rows: tuple[UncertainRow, ...]
    confidence: float
    actions: ActionSummary | None = None
    uncertainty: Decomposition | None = None
    ood: OODEvaluation | None = None
    learning: LearningEvaluation | None = None
    simplex: tuple[np.ndarray, np.ndarray] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def headline(self) -> Certificate | None:
        """The certificate of the smallest guaranteed loss that still accepts half of the rows."""
        return choose_headline(self.certificates)

    @property
    def guarantees(self) -> tuple[tuple[Certificate, ...], ...]:
        """The certificates, those of the same threshold together, the smallest loss first."""
        by_threshold: dict[tuple[object, ...], list[Certificate]] = {}
        for certificate in self.certificates:
            fewest = certificate.fewest_rows if certificate.has_too_few_rows else None
            needs = (None, None) if certificate.coverage else (certificate.n_more_rows, fewest)
            by_threshold.setdefault((certificate.threshold, *needs), []).insert(0, certificate)
        return tuple(map(tuple, by_threshold.values()))

    @property
    def distinct_curves(self) -> dict[str, Curve]:
        """The curves without those of measures that order all rows as an earlier one does."""
        repeated = {row.name for row in self.comparison.standings if row.same_order_as is not None}
        return {
            name: curve
            for name, curve in self.curves.items()
            if name == self.measure or name not in repeated
        }

    @property
    def verdict(self) -> Verdict:
        """The evaluation in sentences, by name and in reading order."""
        return self.sentences()

    def sentences(self, remedy_text: RemedyText = str, name_text: NameText = str) -> Verdict:
        """Return the verdict, with remedies and names as the caller renders them.

        Parameters
        ----------
        remedy_text : function of Remedy to str
            Renders a remedy; by default as an argument in Python.
        name_text : function of str to str
            Renders the name of a measure or a loss.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet([1, 1], size=(50, 3))
        >>> evaluation = sw.evaluate(probs, [0] * 50, task_loss="log", n_resamples=100)
        >>> shell = evaluation.sentences(remedy_text=lambda r: f"use --{r.argument} {r.value}")
        >>> shell.notes[0].rpartition(";")[0] == evaluation.verdict.notes[0].rpartition(";")[0]
        True
        """
        return verdict_of(self, remedy_text, name_text)

    def __repr__(self) -> str:
        return str(self.verdict)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with a row for each task and measure: its metric and its rank.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet([1, 1], size=(50, 3))
        >>> evaluation = sw.evaluate(probs, [0] * 50, ood=probs, n_resamples=100)
        >>> evaluation.to_frame().groupby("task")["metric"].first().to_dict()
        {'ood': 'auroc', 'selective': 'aulc'}
        """
        parts = [part for part in (self, self.ood, self.learning) if part is not None]
        rows = [
            {"task": part.comparison.task, "metric": part.comparison.metric, **asdict(standing)}
            for part in parts
            for standing in part.comparison.standings
        ]
        return frame(rows, library)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the rejection curves of all measures, and return the display.

        Its parts have displays too: ``comparison.plot()``, ``calibration.plot()``,
        ``uncertainty.plot()``, ``ood.plot()`` and ``learning.plot()``.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        **options
            Those of :meth:`scorewise.plots.RejectionCurveDisplay.plot`: ``view``, ….

        Returns
        -------
        scorewise.plots.RejectionCurveDisplay
        """
        return display("RejectionCurveDisplay", self.distinct_curves, self.unit).plot(ax, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return mappings, lists, arrays and numbers; curves have about 200 coverages."""
        ood, learning, effect = self.ood, self.learning, self.comparison.calibrating
        return {
            "verdict": list(self.verdict),
            "n_rows": self.n_rows,
            "n_members": self.n_members,
            "n_classes": self.n_classes,
            "class_names": list(self.class_names),
            "task_loss": self.task_loss,
            "unit": asdict(self.unit),
            "loss": self.loss,
            "measure": self.measure,
            "confidence": self.confidence,
            "curves": {name: _curve(curve) for name, curve in self.curves.items()},
            "comparison": self.comparison.to_dict(),
            "certificates": [asdict(certificate) for certificate in self.certificates],
            "calibration": asdict(self.calibration),
            "calibrating": effect
            and {
                "method": effect.method,
                "gain": effect.gain,
                "gain_interval": effect.gain_interval,
                "expected_before": effect.expected_before,
                "expected_after": effect.expected_after,
                "before": _curve(effect.before),
                "after": _curve(effect.after),
            },
            "classes": [asdict(summary) for summary in self.classes],
            "uncertain_rows": [asdict(row) for row in self.uncertain_rows],
            "actions": self.actions and asdict(self.actions),
            "ood": ood
            and {
                "measure": ood.measure,
                "metrics": asdict(ood.metrics),
                "comparison": ood.comparison.to_dict(),
            },
            "learning": learning
            and {
                "curves": {
                    name: {"n_labelled": n.tolist(), "losses": losses.tolist()}
                    for name, (n, losses) in learning.curves.items()
                },
                "comparison": learning.comparison.to_dict(),
            },
            "settings": dict(self.settings),
            "notes": [str(note) for note in self.notes],
        }


def choose_headline(certificates: tuple[Certificate, ...]) -> Certificate | None:
    """Return the certificate of the smallest loss that accepts half, or of the largest coverage."""
    useful = [c for c in certificates if c.coverage >= _ENOUGH_COVERAGE]
    if useful:
        return min(useful, key=lambda certificate: certificate.max_loss)
    valid = [c for c in certificates if c.coverage > 0]
    return max(valid, key=lambda certificate: certificate.coverage, default=None)


def _curve(curve: Curve) -> dict[str, Any]:
    k = evenly_spaced(len(curve), _POINTS) + 1
    return {
        "coverage": (k / len(curve)).tolist(),
        "loss": (curve.total_loss_of(k) / k).tolist(),
        "threshold": curve.threshold_of(k).tolist(),
        "aulc": curve.aulc,
        "augrc": curve.augrc,
        "normalized_aulc": curve.normalized_aulc,
    }
