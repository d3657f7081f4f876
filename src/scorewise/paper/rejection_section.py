"""What selective prediction came to: areas, curves, and whether the paper's claims hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from scorewise import datasets
from scorewise.decompose import COMPONENTS
from scorewise.paper.drawing import rejection_figure
from scorewise.paper.rejection import RULES
from scorewise.paper.results import Group
from scorewise.paper.statistics import Advantage, mean_and_spread
from scorewise.paper.tables import Claim, Figure, Section, Table

ALIGNED = "For each task loss, its own rule is the best measure of total uncertainty to reject by"
TOTAL = "To reject, total uncertainty beats aleatoric and epistemic"
_ALIKE = {"brier": "spherical", "spherical": "brier"}  # their totals order rows alike


def rejection_section(
    title: str, found: Sequence[Group], components: Sequence[str], name: str,
    paragraphs: Sequence[str] = (),
) -> Section:  # fmt: skip
    """Areas under the curves of some components, for each setting that was run."""
    tables, figures, claims = [], [], []
    if not found:
        paragraphs = [*paragraphs, "Not run here."]
    for i, group in enumerate(found):
        few = group.papers_runs
        tables.append(_areas(few, components))
        file = name if i == 0 else f"{name}-{i + 1}"
        where = _where(group)
        figures.append(
            Figure(
                file,
                f"{where}: loss of what is accepted against the share that is rejected, by "
                f"{', '.join(components)} uncertainty. Mean and standard deviation over runs."
                + "".join(f" {mark}" for mark in group.marks),
                lambda few=few: rejection_figure(few.results, components),  # type: ignore[misc]
            )
        )
        if "total" in components:
            claims += [_aligned(group, loss, where) for loss in RULES]
        if set(components) & {"aleatoric", "epistemic"}:
            claims += [_total_is_best(group, loss, where) for loss in RULES]
    return Section(title, paragraphs, tables, figures, claims)


def _where(group: Group) -> str:
    title = datasets.describe(group.setting["data"]).title
    return f"{title} (shortened)" if group.is_shortened else title


def areas(group: Group, loss: str, component: str, rule: str) -> list[float]:
    """The areas under the loss-rejection curve, run by run."""
    return [float(one.numbers["aulc"][loss][component][rule]) for one in group.of()]


def _areas(group: Group, components: Sequence[str]) -> Table:
    rows, best = [], set()
    pairs = list(product(RULES, components))
    for i, (loss, component) in enumerate(pairs):
        by_rule = [areas(group, loss, component, rule) for rule in RULES]
        means = np.array([np.mean(values) for values in by_rule])
        best |= {(i, 2 + int(j)) for j in np.flatnonzero(means == means.min())}
        rows.append([loss, component, *(mean_and_spread(values, 4) for values in by_rule)])
    return Table(
        f"{_where(group)}: area under the loss-rejection curve (lower is better)",
        ["task loss", "component", *(f"{rule} uncertainty" for rule in RULES)],
        rows,
        frozenset(best),
        group.marks,
    )


def _better(group: Group, loss: str, ours: tuple[str, str], other: tuple[str, str]) -> Advantage:
    """By how much the area of one component and rule is smaller than that of another."""
    pairs = zip(areas(group, loss, *other), areas(group, loss, *ours), strict=True)
    return Advantage(tuple(theirs - own for theirs, own in pairs))


def _aligned(group: Group, loss: str, where: str) -> Claim:
    others = [rule for rule in RULES if rule not in {loss, _ALIKE.get(loss)}]
    advantages = {rule: _better(group, loss, ("total", loss), ("total", rule)) for rule in others}
    rival = min(advantages, key=lambda rule: advantages[rule].mean)
    return _claim(ALIGNED, f"{where}, {loss} loss", advantages[rival], f"the best other, {rival}")


def _total_is_best(group: Group, loss: str, where: str) -> Claim:
    rivals: dict[str, Any] = {
        f"{component} under {rule}": _better(group, loss, ("total", loss), (component, rule))
        for component in COMPONENTS if component != "total"
        for rule in RULES
    }  # fmt: skip
    rival = min(rivals, key=lambda name: rivals[name].mean)
    return _claim(TOTAL, f"{where}, {loss} loss", rivals[rival], f"the best other, {rival}")


def _claim(claim: str, where: str, advantage: Advantage, rival: str) -> Claim:
    return Claim(
        claim, where, advantage.verdict, f"{advantage}, against {rival}", "area under the curve"
    )
