"""The uncertainty measure that theory recommends for a task, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scorewise import _validate as validate
from scorewise._notebook import TextInNotebooks
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import DEFAULT_RULES, RuleLike, ScoringRule, get_rule

_TASKS = ("selective", "ood", "active")
_ALIASES = {
    **dict.fromkeys(("abstain", "abstention", "abstaining", "reject", "rejection"), "selective"),
    **dict.fromkeys(("selective-prediction", "selective-classification"), "selective"),
    **dict.fromkeys(("detect", "detection", "ood-detection", "out-of-distribution"), "ood"),
    **dict.fromkeys(("label", "labels", "labelling", "acquire", "active-learning"), "active"),
}

_CALIBRATE = (
    "It is the best order only if the probabilities are calibrated. Otherwise another measure can "
    "do better, and calibrating first often gains more than any choice of measure: fit a "
    "calibration on held-out rows (fit_calibration), and compare the measures on your own data."
)
_UNTESTED = (
    "This is what experiments showed, not a theorem: compare the measures on your own data before "
    "you rely on it."
)
_DEPENDS_ON_MODEL = (
    "Which component detects OOD inputs best depends on the model. For boosted trees and for some "
    "deep ensembles the total under log did better than the epistemic part: compare both on your "
    "own OOD inputs."
)
_MEMBERS = (
    "Epistemic uncertainty measures how much members disagree: few or very similar members show "
    "little of it."
)
_ZEROS = (
    "It is exactly 0 wherever all members predict the same class. Break ties at random, otherwise "
    "a batch may be just the first rows of the pool."
)


@dataclass(frozen=True, repr=False)
class Advice(TextInNotebooks):
    """The measure to use for a task, and the reason; made by :func:`scorewise.advise`.

    Attributes
    ----------
    task, task_loss : str
    rule : str
        The rule whose uncertainty to use.
    component : str
        ``"total"``, ``"aleatoric"`` or ``"epistemic"``.
    reason : str
        Why, in a sentence or two.
    caveats : tuple of str
        When the advice may not hold, or makes no difference.
    evidence : tuple of str
        Whether it holds for the predictions that were passed, and what calibrating would change.

    Examples
    --------
    >>> import scorewise as sw
    >>> advice = sw.advise("active")
    >>> advice.measure
    'epistemic zero-one'
    >>> advice.caveats[-1]
    'This is what experiments showed, not a theorem: compare the measures on your own data before
    you rely on it.'
    """

    task: str
    task_loss: str
    rule: str
    component: str
    reason: str
    caveats: tuple[str, ...]
    evidence: tuple[str, ...] = ()

    @property
    def measure(self) -> str:
        """The measure's name in :func:`scorewise.compare`."""
        return measure_name(self.rule, self.component)

    def __repr__(self) -> str:
        lines = [f"Use {self.measure} uncertainty. {self.reason}"]
        lines += [f"- {caveat}" for caveat in self.caveats]
        return "\n".join([*lines, *self.evidence])


def measure_name(rule: str, component: str) -> str:
    """Return the name of a measure, such as ``"total brier"``."""
    return f"{component} {rule}"


def advise_ood(predictions: Samples | Dirichlet) -> Advice:
    """Return the advice for OOD detection by these predictions."""
    advice = advise("ood")
    if isinstance(predictions, Dirichlet) or predictions.shape[-2] > 1:
        return advice
    reason = "A single model has no epistemic uncertainty, so its total has to do."
    return replace(advice, component="total", reason=reason)


@validate.takes_options_of(Samples)
def advise(
    task: str,
    task_loss: RuleLike = "zero-one",
    predictions: Any = None,
    y: Any = None,
    *,
    ood: Any = None,
    floor: float | None = None,
    labels_are: str | None = None,
    **options: Any,
) -> Advice:
    """Return the uncertainty measure that theory recommends for a task, with the reason.

    With predictions it also says whether the advice holds for them. :func:`scorewise.compare` ranks
    all measures.

    Parameters
    ----------
    task : "selective", "ood" or "active"
        Abstaining (also ``"abstain"``), out-of-distribution (OOD) detection (also ``"detect"``), or
        choosing what to label next (also ``"label"``).
    task_loss : str, ScoringRule, or costs (K, A)
        The loss that predictions incur; it decides for ``"selective"``.
    predictions : array (n, M, K), Samples or Predictions, optional
        Predictions for held-out rows, to test the advice on them.
    y : array (n,), optional
        Their labels, for ``"selective"``.
    ood : array (m, M, K), Samples or Predictions, optional
        Predictions for out-of-distribution rows, for ``"ood"``.
    floor : float, optional
        The smallest probability that counts in the loss; see :func:`scorewise.task_losses`.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    **options
        Options of :class:`scorewise.Samples`: ``class_names``, ``weights``, ``from_logits``, …

    Returns
    -------
    Advice

    Raises
    ------
    InvalidInput
        If the task or the loss is not known.

    Examples
    --------
    >>> import scorewise as sw
    >>> advice = sw.advise("selective", "brier")
    >>> advice.rule, advice.component
    ('brier', 'total')
    >>> print(sw.advise("ood").reason)
    Members disagree on out-of-distribution inputs, and mutual information (epistemic uncertainty
    under log) detected them best in the paper's experiments. The loss that predictions incur does
    not matter here.

    Here the model is overconfident: the advice holds, and calibrating gains more than any measure.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(3, 0.5), size=5000)
    >>> y = (truth.cumsum(axis=-1) > rng.uniform(size=(5000, 1))).argmax(axis=-1)
    >>> probs = (truth**4 / (truth**4).sum(axis=-1, keepdims=True))[:, None]
    >>> for sentence in sw.advise("selective", "log", probs, y, floor=1e-6).evidence:
    ...     print(sentence)
    Theory recommends total log: it is the best of the 4 measures here.
    Calibrate first (scorewise.fit_calibration, or scorewise calibrate): temperature scaling would
    change the AULC of abstaining from 1.035 to 0.4418, a gain of 0.59 [0.52, 0.67] (cross-fitted),
    the expected log loss from 0.2245 to 0.664, the incurred one from 1.199 to 0.6647, and no
    decision.
    """
    advice = _theory(task, get_rule(task_loss))
    arguments = {"y": y, "ood": ood, "floor": floor, "labels_are": labels_are, **options}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if predictions is None:
        for name in arguments:
            raise InvalidInput(f"{name} has no effect without predictions; pass them too")
        return advice
    from scorewise.compare._compare import compare

    if advice.task == "selective":
        arguments = {"components": "total", "baselines": False, **arguments}
    comparison = compare(predictions, task=advice.task, task_loss=task_loss, **arguments)
    return replace(advice, evidence=comparison.notes)


def _theory(task: str, loss: ScoringRule) -> Advice:
    """Return the advice without evidence."""
    name = loss.name
    match validate.choice(task, "task", _TASKS, _ALIASES):
        case "selective":
            return Advice(
                "selective",
                name,
                name,
                "total",
                "The total uncertainty under a loss is the loss that the model expects to incur. "
                "Accepting rows in rising order of it gives the smallest expected area under the "
                "loss-rejection curve (Proposition 4.1 of the paper).",
                (_CALIBRATE, *_order_caveats(loss)),
            )
        case "ood":
            return Advice(
                "ood",
                name,
                "log",
                "epistemic",
                "Members disagree on out-of-distribution inputs, and mutual information "
                "(epistemic uncertainty under log) detected them best in the paper's experiments. "
                "The loss that predictions incur does not matter here.",
                (_DEPENDS_ON_MODEL, _MEMBERS),
            )
    return Advice(
        "active",
        name,
        "zero-one",
        "epistemic",
        "A label is most useful where it corrects a wrong decision. Epistemic uncertainty under "
        "zero-one is the error that knowing the true probabilities would save. Choosing labels "
        "by it did best in the paper's experiments.",
        (_ZEROS, _MEMBERS, _UNTESTED),
    )


def _order_caveats(loss: ScoringRule) -> tuple[str, ...]:
    """Return caveats on rules whose totals order rows as the total of the loss does."""
    caveats = []
    for n_classes, classes in ((2, "With two classes"), (3, "For any number of classes")):
        order = loss.total_order(n_classes)
        names = [name for name in DEFAULT_RULES if get_rule(name).total_order(n_classes) == order]
        if order is not None and len(names) > 1:
            caveats.append(
                f"{classes} the totals of {', '.join(names[:-1])} and {names[-1]} order rows "
                "alike, so choosing among them changes nothing."
            )
    return tuple(caveats)
