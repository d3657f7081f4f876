"""What out-of-distribution detection came to, beside the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scorewise import datasets
from scorewise.decompose import RULES
from scorewise.paper.cells import Stored
from scorewise.paper.kinds import PRETRAINED_OOD
from scorewise.paper.published import published_auroc
from scorewise.paper.results import Group, groups
from scorewise.paper.statistics import Advantage, least, mean_and_spread
from scorewise.paper.tables import Claim, Section, Table

BEST = "Of the measures of epistemic uncertainty, log (mutual information) detects best"
BEYOND = "Beyond the paper: it also detects better than total and aleatoric uncertainty"


def detection_section(
    title: str,
    results: Iterable[Stored],
    kind: str,
    data: str,
    *,
    sets: Sequence[str],
    methods: Sequence[str],
    papers: tuple[str, ...],
    paragraphs: Sequence[str] = (),
) -> Section:
    """The paper's AUROC, ours, and the difference; for sets of the paper and those in their place.

    Parameters
    ----------
    sets, methods : sequences of str
        Those of the paper's table.
    papers : tuple of str
        The labels of the paper's tables.
    """
    places = {name: i for i, name in enumerate(sets)}
    found = sorted(
        groups(results, kind, data),
        key=lambda group: (group.is_shortened, places.get(group.setting["ood"], len(sets))),
    )
    rows = [
        [
            group.title("ood"),
            method,
            rule,
            *_compared(
                published_auroc(papers, group.setting["ood"], method).get(rule),
                _aurocs(group, method, rule),
            ),
        ]
        for group in found
        for method in methods
        if group.of(method=method)
        for rule in RULES
    ]
    there = {group.setting["ood"] for group in found}
    lacking = [name for name in sets if name not in there]
    rows += [
        [datasets.describe(ood).title, method, rule, _pair(pair), "not run", "–"]
        for ood in lacking
        for method in methods
        for rule, pair in published_auroc(papers, ood, method).items()
    ]
    marks = list(dict.fromkeys(mark for group in found for mark in group.marks))
    if lacking and kind == PRETRAINED_OOD and not found:
        marks.append("Not run, for want of the data in distribution or the network's weights.")
    elif lacking:
        names = ", ".join(datasets.describe(name).title for name in lacking)
        marks.append(f"Not run, for want of the data: {names}.")
    table = Table(
        f"{datasets.describe(data).title} in distribution: AUROC of epistemic uncertainty",
        ["out of distribution", "method", "rule", "paper", "ours", "difference"],
        rows,
        notes=marks,
    )
    claims = [
        claim for group in found for method in methods for claim in _log_is_best(group, method)
    ]
    return Section(title, [*paragraphs, *_accuracy(found, methods)], [table], claims=claims)


def _aurocs(group: Group, method: str, rule: str, component: str = "epistemic") -> dict[int, float]:
    return group.by_run(lambda one: one.numbers["auroc"][component][rule], method=method)


def _compared(paper: tuple[float, float] | None, ours: dict[int, float]) -> list[str]:
    values = list(ours.values())
    shown = mean_and_spread(values)
    if paper is None:
        return ["–", shown, "–"]
    return [_pair(paper), shown, f"{np.mean(values) - paper[0]:+.3f}"]


def _pair(paper: tuple[float, float]) -> str:
    return f"{paper[0]:.3f} ± {paper[1]:.3f}"


def _log_is_best(group: Group, method: str) -> Iterator[Claim]:
    ours = _aurocs(group, method, "log")
    rivals = {
        BEST: {rule: ("epistemic", rule) for rule in RULES if rule != "log"},
        BEYOND: {
            f"{component} under {rule}": (component, rule)
            for component in ("total", "aleatoric")
            for rule in RULES
        },
    }
    for claim, others in rivals.items():
        advantages = {
            name: Advantage.larger(ours, _aurocs(group, method, rule, component))
            for name, (component, rule) in others.items()
        }
        rival = least(advantages)
        if rival is not None:
            yield Claim(
                claim,
                f"{group.title()} against {group.title('ood')}, {method}",
                advantages[rival].verdict,
                f"{advantages[rival]}, against the best other, {rival}",
                "AUROC",
                counts=not group.is_shortened,
            )


def _accuracy(found: Sequence[Group], methods: Sequence[str]) -> list[str]:
    """How well the networks classify, by method, where they were trained in full."""
    parts = []
    for method in methods:
        for group in [x for x in found if not x.is_shortened and x.of(method=method)][:1]:
            values = group.by_run(lambda one: one.numbers["accuracy"], method=method).values()
            parts.append(f"{method} {mean_and_spread(list(values))}")
    whole = f"Accuracy of the mean prediction in distribution: {', '.join(parts)}."
    return [whole] if parts else []
