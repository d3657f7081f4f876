"""The uncertainty measure that theory recommends for a task, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scorewise import _validate as validate
from scorewise._notebook import TextInNotebooks
from scorewise.distributions import Dirichlet, Samples
from scorewise.rules import DEFAULT_RULES, RuleLike, ScoringRule, get_rule

_TASKS = ("selective", "ood", "active")
_ALIASES = {
    **dict.fromkeys(("abstain", "abstention", "abstaining", "reject", "rejection"), "selective"),
    **dict.fromkeys(("selective-prediction", "selective-classification"), "selective"),
    **dict.fromkeys(("detect", "detection", "ood-detection", "out-of-distribution"), "ood"),
    **dict.fromkeys(("label", "labels", "labelling", "acquire", "active-learning"), "active"),
}

_MISCALIBRATED = (
    "All this assumes a calibrated model. For a badly calibrated model another measure can do "
    "better: evaluate the model, and compare the measures on your own data."
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
    """

    task: str
    task_loss: str
    rule: str
    component: str
    reason: str
    caveats: tuple[str, ...]

    @property
    def measure(self) -> str:
        """The measure's name in :func:`scorewise.compare`."""
        return measure_name(self.rule, self.component)

    def __repr__(self) -> str:
        lines = [f"Use {self.measure} uncertainty. {self.reason}"]
        return "\n".join([*lines, *(f"- {caveat}" for caveat in self.caveats)])


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


def advise(task: str, task_loss: RuleLike = "zero-one") -> Advice:
    """Return the uncertainty measure that theory recommends for a task, with the reason.

    Use it before :func:`scorewise.compare`, which compares measures on your own data.

    Parameters
    ----------
    task : "selective", "ood" or "active"
        Abstaining (also ``"abstain"``), out-of-distribution (OOD) detection (also ``"detect"``), or
        choosing what to label next (also ``"label"``).
    task_loss : str, ScoringRule, or costs (K, A)
        The loss that predictions incur; it decides for ``"selective"``.

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
    """
    loss = get_rule(task_loss)
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
                (_MISCALIBRATED, *_order_caveats(loss)),
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
                (_MEMBERS, _MISCALIBRATED),
            )
    return Advice(
        "active",
        name,
        "zero-one",
        "epistemic",
        "A label is most useful where it corrects a wrong decision. Epistemic uncertainty under "
        "zero-one is the error that knowing the true probabilities would save. Choosing labels "
        "by it did best in the paper's experiments.",
        (_ZEROS, _MEMBERS, _MISCALIBRATED),
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
