"""What out-of-distribution detection came to, beside the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scorewise import datasets
from scorewise.paper.cells import Stored
from scorewise.paper.published import published_auroc
from scorewise.paper.rejection import RULES
from scorewise.paper.results import Group, groups
from scorewise.paper.statistics import Advantage, mean_and_spread
from scorewise.paper.tables import Claim, Section, Table

BEST = "Epistemic uncertainty under log (mutual information) detects best"


def detection_section(
    title: str, results: Iterable[Stored], kind: str, data: str, *, sets: Sequence[str],
    methods: Sequence[str], papers: tuple[str, ...], paragraphs: Sequence[str] = (),
) -> Section:  # fmt: skip
    """The paper's AUROC, ours, and the difference; for sets of the paper and those in their place.

    Parameters
    ----------
    sets, methods : sequences of str
        Those of the paper's table.
    papers : tuple of str
        The labels of the paper's tables.
    """
    order = [*sets, None]
    found = sorted(
        groups(results, kind, data),
        key=lambda group: (group.is_shortened, order.index(_known(group.setting["ood"], sets))),
    )
    rows, marks, claims = [], [], []
    there = {group.setting["ood"] for group in found}
    for group in found:
        ood = group.setting["ood"]
        name = datasets.describe(ood).title + ("" if ood in sets else " (stands in)")
        name += " (shortened)" if group.is_shortened else ""
        for method in [m for m in methods if group.of(method=m)]:
            paper = published_auroc(papers, ood, method)
            for rule in RULES:
                ours = _aurocs(group, method, rule)
                rows.append([name, method, rule, *_compared(paper.get(rule), ours)])
            claims.append(_log_is_best(group, method, name))
        marks += [mark for mark in group.marks if mark not in marks]
    for ood in [name for name in sets if name not in there]:
        for method in methods:
            paper = published_auroc(papers, ood, method)
            rows += [
                [datasets.describe(ood).title, method, rule, _pair(paper[rule]), "not run", "–"]
                for rule in RULES if rule in paper
            ]  # fmt: skip
    missing = [datasets.describe(name).title for name in sets if name not in there]
    if missing:
        marks.append(
            f"Not run, for want of the data{' or the weights' * (kind == 'pretrained-ood')}: "
            f"{', '.join(missing)}."
        )
    table = Table(
        f"{datasets.describe(data).title} in distribution: AUROC of epistemic uncertainty",
        ["out of distribution", "method", "rule", "paper", "ours", "difference"],
        rows,
        notes=marks,
    )
    return Section(title, [*paragraphs, *_accuracy(found)], [table], claims=claims)


def _known(ood: str, sets: Sequence[str]) -> str | None:
    """The set itself, None for one that stands in for another."""
    return ood if ood in sets else None


def _aurocs(group: Group, method: str, rule: str) -> list[float]:
    return [float(one.numbers["auroc"]["epistemic"][rule]) for one in group.of(method=method)]


def _compared(paper: tuple[float, float] | None, ours: Sequence[float]) -> list[str]:
    shown = mean_and_spread(ours)
    if paper is None:
        return ["–", shown, "–"]
    return [_pair(paper), shown, f"{np.mean(ours) - paper[0]:+.3f}"]


def _pair(paper: tuple[float, float]) -> str:
    return f"{paper[0]:.3f} ± {paper[1]:.3f}"


def _log_is_best(group: Group, method: str, name: str) -> Claim:
    ours = _aurocs(group, method, "log")
    advantages = {
        rule: Advantage(tuple(np.subtract(ours, _aurocs(group, method, rule)).tolist()))
        for rule in RULES if rule != "log"
    }  # fmt: skip
    rival = min(advantages, key=lambda rule: advantages[rule].mean)
    return Claim(
        BEST,
        f"{datasets.describe(group.setting['data']).title} against {name}, {method}",
        advantages[rival].verdict,
        f"{advantages[rival]}, against the best other, {rival}",
        "AUROC",
    )


def _accuracy(found: Sequence[Group]) -> list[str]:
    """How well the networks classify, by method."""
    whole = [group for group in found if not group.is_shortened]
    if not whole or "accuracy" not in whole[0].results[0].numbers:
        return []
    by_method = {
        method: [one.numbers["accuracy"] for one in whole[0].of(method=method)]
        for method in sorted(whole[0].values("method"))
    }
    parts = [f"{method} {mean_and_spread(values)}" for method, values in by_method.items()]
    return [f"Accuracy of the mean prediction in distribution: {', '.join(parts)}."]
