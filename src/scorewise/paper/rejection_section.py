"""What selective prediction came to: areas, curves, and whether the paper's claims hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from scorewise.decompose import COMPONENTS, RULES
from scorewise.paper.drawing import rejection_figure
from scorewise.paper.rejection import FLOOR, LOSSES
from scorewise.paper.results import Group
from scorewise.paper.statistics import Advantage, least, mean_and_spread
from scorewise.paper.tables import Claim, Figure, Section, Table

ALIGNED = "For each task loss, its own rule is the best measure of total uncertainty to reject by"
TOTAL = "To reject, total uncertainty beats aleatoric and epistemic"
_ALIKE = {"brier": "spherical", "spherical": "brier"}  # their totals order rows alike


def rejection_section(
    title: str,
    found: Sequence[Group],
    components: Sequence[str],
    name: str,
    paragraphs: Sequence[str] = (),
) -> Section:
    """Areas under the curves of some components, for each setting that was run."""
    tables, figures = [], []
    claims: list[Claim] = []
    paragraphs = [*paragraphs, *(_certain_and_wrong(group) for group in found)]
    for i, group in enumerate(found):
        tables.append(_table(group, components))
        figures.append(
            Figure(
                name if i == 0 else f"{name}-{i + 1}",
                f"{group.title()}: loss of what is accepted against the share that is rejected, by "
                f"{' and '.join(components)} uncertainty; {group.papers_runs.over_runs}.",
                partial(rejection_figure, group.papers_runs.results, components),
            )
        )
        if "total" in components:
            claims += _aligned(group)
        if set(components) & {"aleatoric", "epistemic"}:
            claims += _total_is_best(group)
    return Section(title, paragraphs if found else ["Not run here."], tables, figures, claims)


def _losses(group: Group) -> list[str]:
    """The task losses that all results have."""
    return [loss for loss in LOSSES if all(loss in x.numbers["aulc"] for x in group.results)]


def _areas(group: Group, loss: str, component: str, rule: str) -> dict[int, float]:
    """The areas under the loss-rejection curve, by run."""
    return group.by_run(lambda one: one.numbers["aulc"][loss][component][rule])


def _table(group: Group, components: Sequence[str]) -> Table:
    few = group.papers_runs
    rows, best = [], set()
    for i, (loss, component) in enumerate(product(_losses(few), components)):
        by_rule = [list(_areas(few, loss, component, rule).values()) for rule in RULES]
        means = np.array([np.mean(values) for values in by_rule])
        best |= {(i, 2 + int(j)) for j in np.flatnonzero(means == means.min())}
        digits = 4 if means.min() > 0.1 else 5
        rows.append([loss, component, *(mean_and_spread(x, digits) for x in by_rule)])
    runs, all_runs = len(few.values("run")), len(group.values("run"))
    which = f"the first {runs} of {all_runs} runs" if runs < all_runs else few.over_runs
    return Table(
        f"{group.title()}: area under the loss-rejection curve, lower is better ({which})",
        ["task loss", "component", *(f"{rule} uncertainty" for rule in RULES)],
        rows,
        frozenset(best),
        group.marks,
    )


def _certain_and_wrong(group: Group) -> str:
    """How much hangs on what the paper does not say of the log loss."""
    share = np.mean([one.numbers["certain_and_wrong"] for one in group.results])
    return (
        f"{group.title()}: in {share:.2%} of the rows all members gave probability 0 to the class "
        f"that came; the log loss counts that as {FLOOR:.2g}, or as the floor that is named."
    )


def _aligned(group: Group) -> Iterator[Claim]:
    for loss in _losses(group):
        own, _ = LOSSES[loss]
        ours = _areas(group, loss, "total", own)
        others = {
            rule: Advantage.smaller(ours, _areas(group, loss, "total", rule))
            for rule in RULES
            if rule not in {own, _ALIKE.get(own)}
        }
        yield from _claim(ALIGNED, group, loss, others)


def _total_is_best(group: Group) -> Iterator[Claim]:
    for loss in _losses(group):
        ours = _areas(group, loss, "total", LOSSES[loss][0])
        others = {
            f"{component} under {rule}": Advantage.smaller(
                ours, _areas(group, loss, component, rule)
            )
            for component in COMPONENTS
            if component != "total"
            for rule in RULES
        }
        yield from _claim(TOTAL, group, loss, others)


def _claim(claim: str, group: Group, loss: str, others: dict[str, Advantage]) -> Iterator[Claim]:
    rival = least(others)
    if rival is not None:
        yield Claim(
            claim,
            f"{group.title()}, {loss} loss",
            others[rival].verdict,
            f"{others[rival]}, against the best other, {rival}",
            "area under the curve",
            counts=not group.is_shortened and loss in RULES,
        )
