"""What an evaluation of saved predictions found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scorewise._numerics import spread
from scorewise.abstain import Certificate
from scorewise.calibrate import LossCalibration
from scorewise.compare._comparison import Comparison
from scorewise.curves import Curve
from scorewise.decompose import Decomposition
from scorewise.detect import OODMetrics

_ENOUGH = 0.5  # of the rows should still be accepted by the certificate that is shown first
_POINTS = 200  # of a curve in a dictionary


@dataclass(frozen=True)
class ClassSummary:
    """How the rows of one class came out.

    Attributes
    ----------
    name : str
    n_rows : int
    loss, total, aleatoric, epistemic : float
        Means under the task's loss; NaN where there are no rows.
    accepted : float or None
        Share of the rows that the certificate in the headline accepts; None without one, or rows.
    accepted_loss : float or None
        Their mean loss; None where none is accepted.
    """

    name: str
    n_rows: int
    loss: float
    total: float
    aleatoric: float
    epistemic: float
    accepted: float | None
    accepted_loss: float | None


@dataclass(frozen=True, eq=False)
class DoubtfulRow:
    """A row of large total uncertainty, and what its members say.

    Attributes
    ----------
    index : int
    id : int or str
        As in the file, else the index.
    label, prediction : str
        Names of classes; the prediction is the likeliest class, or the action of a cost matrix.
    loss, total, aleatoric, epistemic : float
        Under the task's loss.
    classes : tuple of str
        The likeliest ones, from the likeliest on.
    members : array (m, c)
        Probabilities of those classes, of some members evenly spread.
    mean : array (c,)
        θ̄ of those classes, over all members.
    """

    index: int
    id: int | str
    label: str
    prediction: str
    loss: float
    total: float
    aleatoric: float
    epistemic: float
    classes: tuple[str, ...]
    members: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True, eq=False)
class ForeignRows:
    """How well foreign rows can be told.

    Attributes
    ----------
    measure : str
        What theory recommends, such as ``"epistemic log"``.
    metrics : OODMetrics
        Of that measure.
    inside, outside : arrays (n,), (m,)
        That measure of the rows that are not foreign, and of those that are.
    comparison : Comparison
        Of all measures.
    """

    measure: str
    metrics: OODMetrics
    inside: np.ndarray
    outside: np.ndarray
    comparison: Comparison


@dataclass(frozen=True, eq=False)
class LabelsBought:
    """What labels bought in runs of active learning.

    Attributes
    ----------
    curves : dict of str to (array (T,), array (R, T))
        By the measure that chose: numbers of labels, and the losses of R runs there.
    comparison : Comparison
    """

    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    comparison: Comparison


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """All that was found about one set of predictions; made by :func:`scorewise.evaluate`.

    Printing it gives the verdict in plain words.

    Attributes
    ----------
    n_rows, n_members, n_classes : int
    class_names : tuple of str
    task_loss : str
    loss_name : str
        What it is called in a sentence: "error", "cost", "brier loss".
    is_share : bool
        Whether losses are 0 and 1, and their means shares that read well in per cent.
    loss : float
        Mean loss of all rows.
    measure : str
        What theory recommends for abstaining: the total of the task's loss.
    curves : dict of str to Curve
        Rejection curves, by measure.
    comparison : Comparison
        Of these measures.
    certificates : tuple of Certificate
        Thresholds of ``measure``, from the largest ``max_loss`` to the smallest; they hold together
        with ``confidence``.
    calibration : LossCalibration
        Whether the model means what it says, under the task's loss.
    classes : tuple of ClassSummary
    doubtful : tuple of DoubtfulRow
        The most uncertain rows, the most uncertain first.
    confidence : float
    uncertainty : Decomposition or None
        Of all rows, under the task's loss.
    ood : ForeignRows or None
    learning : LabelsBought or None
    simplex : tuple of arrays (n, 3) and (n,), or None
        θ̄ and the label of some rows, where there are three classes.
    settings : dict
        What it was made with: seeds, rules, resamples, …
    notes : tuple of str
        What could not be done, and why.
    verdict : tuple of str
        All of it in plain words.
    """

    n_rows: int
    n_members: int
    n_classes: int
    class_names: tuple[str, ...]
    task_loss: str
    loss_name: str
    is_share: bool
    loss: float
    measure: str
    curves: dict[str, Curve]
    comparison: Comparison
    certificates: tuple[Certificate, ...]
    calibration: LossCalibration
    classes: tuple[ClassSummary, ...]
    doubtful: tuple[DoubtfulRow, ...]
    confidence: float
    uncertainty: Decomposition | None = None
    ood: ForeignRows | None = None
    learning: LabelsBought | None = None
    simplex: tuple[np.ndarray, np.ndarray] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> Certificate | None:
        """The certificate that is worth most: the least loss at which half is still accepted."""
        return headline(self.certificates)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What was found, in sentences."""
        from scorewise.compare._verdicts import sentences

        return sentences(self)

    def __repr__(self) -> str:
        return "\n".join(self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """All of it in mappings, lists, arrays and numbers; curves at some 200 coverages."""
        return {
            "verdict": list(self.verdict),
            "n_rows": self.n_rows,
            "n_members": self.n_members,
            "n_classes": self.n_classes,
            "class_names": list(self.class_names),
            "task_loss": self.task_loss,
            "loss_name": self.loss_name,
            "loss": self.loss,
            "measure": self.measure,
            "confidence": self.confidence,
            "curves": {name: _curve(curve) for name, curve in self.curves.items()},
            "comparison": self.comparison.to_dict(),
            "certificates": [asdict(one) for one in self.certificates],
            "calibration": asdict(self.calibration),
            "classes": [asdict(one) for one in self.classes],
            "doubtful": [asdict(one) for one in self.doubtful],
            "ood": self.ood
            and {
                "measure": self.ood.measure,
                "metrics": asdict(self.ood.metrics),
                "comparison": self.ood.comparison.to_dict(),
            },
            "learning": self.learning
            and {
                "curves": {
                    name: {"n_labelled": n.tolist(), "losses": losses.tolist()}
                    for name, (n, losses) in self.learning.curves.items()
                },
                "comparison": self.learning.comparison.to_dict(),
            },
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }


def headline(certificates: tuple[Certificate, ...]) -> Certificate | None:
    """The certificate of the least loss at which half is still accepted, or else of the most."""
    useful = [one for one in certificates if one.coverage >= _ENOUGH]
    if useful:
        return min(useful, key=lambda one: one.max_loss)
    some = [one for one in certificates if one.coverage > 0]
    return max(some, key=lambda one: one.coverage, default=None)


def _curve(curve: Curve) -> dict[str, Any]:
    k = spread(len(curve), _POINTS)
    return {
        "coverage": curve.coverage[k].tolist(),
        "loss": curve.loss[k].tolist(),
        "threshold": curve.threshold[k].tolist(),
        "aulc": curve.aulc,
        "augrc": curve.augrc,
        "normalized_aulc": curve.normalized_aulc,
    }
