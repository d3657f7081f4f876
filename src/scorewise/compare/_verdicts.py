"""What an evaluation found, in plain words."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from scorewise.compare._comparison import Comparison

if TYPE_CHECKING:
    from scorewise.compare._evaluation import Evaluation, ForeignRows, LabelsBought

_SEVERAL = 4  # names in one sentence


def sentences(found: Evaluation) -> tuple[str, ...]:
    """The verdict: what to do about abstaining, by which measure, and what else was seen."""
    said = [_abstaining(found), _measures(found.comparison, "For abstaining")]
    if found.ood is not None:
        said += [_foreign(found.ood), _measures(found.ood.comparison, "For telling foreign rows")]
    if found.learning is not None:
        said.append(_labels(found, found.learning))
    return (*said, _honesty(found), *found.notes)


def loss_text(value: float, is_share: bool) -> str:
    """A mean loss, in per cent where it is a share."""
    return f"{100 * value:.3g} %" if is_share else f"{value:.4g}"


def promise_text(value: float, is_share: bool) -> str:
    """The same of what is promised, which is never rounded to less."""
    return f"{100 * value:.12g} %" if is_share else f"{value:.12g}"


def share_text(value: float) -> str:
    """A share in per cent, never rounded to all or nothing."""
    percent = 100 * value
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    if 99.9 < percent < 100:
        return "more than 99.9 %"
    return f"{percent:.3g} %"


def _abstaining(found: Evaluation) -> str:
    loss = loss_text(found.loss, found.is_share)
    name, best = found.loss_name, found.headline
    confidence = f"with {100 * found.confidence:.12g} % confidence"
    rows = f"on {found.n_rows:,} rows" if found.n_rows != 1 else "on one row"
    if not found.certificates:
        return f"The {name} is {loss} {rows}."
    if best is None:
        least = max(found.certificates, key=lambda one: one.max_loss)
        if least.needed is None:
            more = "More rows may not help: use a better model, or allow a larger loss."
        elif least.needed == 1:
            more = "About one more labelled row would be needed."
        else:
            more = f"About {least.needed:,} more labelled rows would be needed."
        return (
            f"The {name} is {loss} {rows}, and nothing can be promised: not even a part can be "
            f"accepted with {'an' if name[0] in 'aeiou' else 'a'} {name} of at most "
            f"{promise_text(least.max_loss, found.is_share)}, {confidence}. {more}"
        )
    target = promise_text(best.max_loss, found.is_share)
    if loss == target:  # but for rounding
        loss = promise_text(found.loss, found.is_share)
    if best.coverage == 1:
        return f"Accept everything: the {name} is {loss}, and under {target} {confidence}."
    abstained = share_text(1 - best.coverage)
    if best.max_loss < found.loss:
        change = f"the {name} falls from {loss} to under {target}"
    else:
        return (
            f"The {name} is {loss} {rows}; to promise at most {target}, {confidence}, abstain on "
            f"{abstained}."
        )
    return f"Abstain on {abstained} and {change}, {confidence}."


def _measures(comparison: Comparison, task: str) -> str:
    if len({row.value for row in comparison.standings}) == 1 < len(comparison.standings):
        return f"{task}, all measures come out the same here, and cannot be compared."
    others = [name for name in comparison.as_good if name != comparison.best]
    found = f"{task}, {comparison.best} uncertainty is best here"
    if not others:
        return f"{found}, and better than every other measure."
    are = "is" if len(others) == 1 else "are"
    return f"{found}; {listed(others)} {are} indistinguishable from it."


def listed(names: list[str]) -> str:
    """Names in a sentence, the first few of them."""
    if len(names) > _SEVERAL + 1:
        names = [*names[:_SEVERAL], f"{len(names) - _SEVERAL} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _foreign(found: ForeignRows) -> str:
    low, high = found.metrics.auroc_interval
    auroc = f"AUROC {found.metrics.auroc:.3f} [{low:.3f}, {high:.3f}]"
    by = f"{found.measure} uncertainty"
    if high < 0.5:
        return f"Foreign rows look more certain than the others by {by} ({auroc}): do not use it."
    if low <= 0.5:
        return f"Foreign rows cannot be told from the others by {by} ({auroc})."
    return (
        f"Foreign rows are told from the others by {by} ({auroc}); to find 95 % of them, "
        f"{share_text(found.metrics.fpr95)} of the others are called foreign too."
    )


def _labels(found: Evaluation, learning: LabelsBought) -> str:
    comparison = learning.comparison
    best = comparison.best
    ends = {
        name: loss_text(float(losses[:, -1].mean()), found.is_share)
        for name, (_, losses) in learning.curves.items()
    }
    labels = f"{learning.curves[best][0][-1]:,.0f} labels"
    if best == "random":
        said = f"Labels chosen at random did best here: {found.loss_name} {ends[best]} at {labels}"
        others = [name for name in comparison.as_good if name != best]
        if others:
            return f"{said}, though {listed(others)} could be as good by chance."
        return f"{said}."
    said = f"Choosing labels by {best} ends with {found.loss_name} {ends[best]} at {labels}"
    if "random" in ends:
        said += f", choosing at random with {ends['random']}"
        if comparison["random"].verdict != "worse":
            said += "; over all rounds the difference could be chance"
    return said + "."


def _p_text(p_value: float) -> str:
    return f"p = {p_value:.2g}" if p_value > 1e-300 else "p < 1e-300"


def _honesty(found: Evaluation) -> str:
    calibration = found.calibration
    expected = loss_text(calibration.predicted, found.is_share)
    paid = loss_text(calibration.realized, found.is_share)
    compared = f"it expected a mean {found.loss_name} of {expected} and paid {paid}"
    if calibration.is_calibrated:
        return f"Nothing speaks against what the model expects of itself: {compared}."
    low, high = calibration.gap_interval
    if low > 0:
        how = "The model is too sure of itself"
    elif high < 0:
        how = "The model is less sure of itself than it could be"
    else:
        how = "The model is miscalibrated" + ", though not on average" * isfinite(high - low)
    holds = "Rankings and certificates hold" if found.certificates else "Rankings hold"
    return (
        f"{how}: {compared} ({_p_text(calibration.p_value)}). {holds} all the same; expected "
        "losses need scorewise.fit_temperature or LossRecalibrator, from Python."
    )
