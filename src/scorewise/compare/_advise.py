"""What the theory says about which measure to use."""

from __future__ import annotations

from dataclasses import dataclass

from scorewise import _validate as validate
from scorewise.decompose import RuleLike, rule_name
from scorewise.rules import ScoringRule, brier, get_rule, zero_one

TASKS = ("selective", "ood", "active")

_TWO_CLASSES = (
    "With two classes the totals of all symmetric rules (log, Brier, zero-one, spherical) order "
    "rows alike, so that choosing among them changes nothing."
)
_ALWAYS_ALIKE = "The totals of Brier and spherical order rows alike for any number of classes."
_MISCALIBRATED = (
    "All this presumes that the model means what it says: where it is badly calibrated, another "
    "measure can do better; see scorewise.loss_calibration, and scorewise.compare on your own data."
)
_MEMBERS = (
    "Epistemic uncertainty is what members disagree about: with few or much alike members there is "
    "little of it to see."
)
_ZEROS = (
    "It is exactly 0 wherever all members prefer the same class: break ties at random, or a batch "
    "is the first rows of the pool."
)


@dataclass(frozen=True, repr=False)
class Advice:
    """What to use and why; made by :func:`scorewise.advise`.

    Attributes
    ----------
    task, task_loss : str
    rule : str
        The rule whose uncertainty to use.
    component : str
        ``"total"``, ``"aleatoric"`` or ``"epistemic"``.
    reason : str
        Why, in a sentence.
    caveats : tuple of str
        When it may not hold, or not matter.
    """

    task: str
    task_loss: str
    rule: str
    component: str
    reason: str
    caveats: tuple[str, ...]

    @property
    def measure(self) -> str:
        """The name that :func:`scorewise.compare` gives the measure."""
        return measure_name(self.rule, self.component)

    def __repr__(self) -> str:
        lines = [f"Use {self.measure} uncertainty. {self.reason}"]
        return "\n".join([*lines, *(f"- {caveat}" for caveat in self.caveats)])


def measure_name(rule: str, component: str) -> str:
    """What a measure is called."""
    return f"{component} {rule}"


def advise(task: str, task_loss: RuleLike = "zero-one") -> Advice:
    """Which uncertainty to use for a task, by the theory, and why.

    Use it before :func:`scorewise.compare`, which has the evidence on your own data.

    Parameters
    ----------
    task : "selective", "ood" or "active"
        Abstaining, detecting what is out of distribution, or choosing what to label next.
    task_loss : str or ScoringRule
        The loss that is paid; it decides for ``"selective"``.

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
    What is foreign shows in how much members disagree, and mutual information ranks that best in
    the paper's experiments: with the losses that are paid afterwards it has nothing to do.
    """
    loss = get_rule(task_loss)
    name = rule_name(task_loss)
    match validate.choice(task, "task", TASKS):
        case "selective":
            return Advice(
                "selective",
                name,
                name,
                "total",
                "The total uncertainty of the loss is the loss that the model itself expects to "
                "pay, so accepting the rows of the least total first gives the smallest expected "
                "area under the loss-rejection curve (Proposition 4.1 of the paper).",
                (_MISCALIBRATED, *_alike(loss)),
            )
        case "ood":
            return Advice(
                "ood",
                name,
                "log",
                "epistemic",
                "What is foreign shows in how much members disagree, and mutual information ranks "
                "that best in the paper's experiments: with the losses that are paid afterwards it "
                "has nothing to do.",
                (_MEMBERS, _MISCALIBRATED),
            )
    return Advice(
        "active",
        name,
        "zero-one",
        "epistemic",
        "A label is worth the wrong decisions that it can correct: epistemic uncertainty under "
        "zero-one is the error that knowing the truth would save, and it learnt fastest in the "
        "paper's experiments.",
        (_ZEROS, _MEMBERS, _MISCALIBRATED),
    )


def _alike(loss: ScoringRule) -> tuple[str, ...]:
    """Which other totals would do as well."""
    return tuple(
        caveat
        for caveat, rule, n_classes in ((_TWO_CLASSES, zero_one, 2), (_ALWAYS_ALIKE, brier, 3))
        if loss.total_order(n_classes) == rule.total_order(n_classes)
    )
