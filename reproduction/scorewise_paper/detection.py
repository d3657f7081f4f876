"""Out-of-distribution detection: how well a measure of uncertainty detects other images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import scorewise as sw
from scorewise_paper import datasets
from scorewise_paper.published import published_auroc
from scorewise_paper.results import Stored
from scorewise_paper.sections import (
    COMPONENTS,
    RULES,
    Advantage,
    Claim,
    Group,
    Section,
    Table,
    best_rival,
    groups,
    mean_and_deviation,
)

BEST = (
    "Of the measures of epistemic uncertainty, log (mutual information) detects "
    "out-of-distribution inputs best"
)
BEYOND = (
    "Epistemic uncertainty under log detects out-of-distribution inputs better than total and "
    "aleatoric uncertainty (not a claim of the paper)"
)


def detection_numbers(members_in: np.ndarray, members_out: np.ndarray) -> dict[str, Any]:
    """Return the AUROC by component and rule, of members ``(n, M, K)`` in and out of distribution.

    For epistemic uncertainty, which the paper's tables report, also the false-positive rate at
    95 % true positives.
    """
    parts = [sw.decompose(members, list(RULES)) for members in (members_in, members_out)]
    metrics = {
        component: {
            rule: sw.ood_metrics(*(getattr(part[rule], component) for part in parts))
            for rule in RULES
        }
        for component in COMPONENTS
    }
    return {
        "rows": [len(members_in), len(members_out)],
        "auroc": {
            component: {rule: x.auroc for rule, x in by_rule.items()}
            for component, by_rule in metrics.items()
        },
        "fpr95": {rule: x.fpr95 for rule, x in metrics["epistemic"].items()},
    }


def detection_section(
    results: Iterable[Stored],
    experiment: str,
    data: str,
    *,
    sets: Sequence[str],
    methods: Sequence[str],
    tables: tuple[str, ...],
    needs_weights: bool = False,
) -> Section:
    """Return the paper's AUROC, ours, and the difference; also for stand-ins of the paper's sets.

    Parameters
    ----------
    sets, methods : sequences of str
        Those of the paper's table.
    tables : tuple of str
        The labels of the paper's tables.
    needs_weights : bool
        Whether the network is pretrained.
    """
    place = {name: i for i, name in enumerate(sets)}
    settings = sorted(
        groups(results, experiment, data),
        key=lambda group: (group.is_shortened, place.get(group.setting["ood"], len(sets))),
    )
    rows = [
        [
            group.title("ood"),
            method,
            rule,
            *_compared(
                published_auroc(tables, group.setting["ood"], method).get(rule),
                _aurocs(group, method, rule),
            ),
        ]
        for group in settings
        for method in methods
        if group.select(method=method)
        for rule in RULES
    ]
    were_run = {group.setting["ood"] for group in settings}
    missing = [name for name in sets if name not in were_run]
    rows += [
        [datasets.describe(ood).title, method, rule, _pair(pair), "not run", "–"]
        for ood in missing
        for method in methods
        for rule, pair in published_auroc(tables, ood, method).items()
    ]
    notes = list(dict.fromkeys(mark for group in settings for mark in group.marks))
    if missing and needs_weights and not settings:
        notes.append(
            "Not run: the in-distribution data or the network's weights were not available."
        )
    elif missing:
        titles = ", ".join(datasets.describe(name).title for name in missing)
        notes.append(f"Not run, because the data were not available: {titles}.")
    table = Table(
        f"{datasets.describe(data).title} in distribution: AUROC of epistemic uncertainty",
        ["out of distribution", "method", "rule", "paper", "ours", "difference"],
        rows,
        notes=notes,
    )
    claims = [
        claim for group in settings for method in methods for claim in _log_is_best(group, method)
    ]
    return Section(_accuracy(settings, methods), [table], claims=claims)


def _aurocs(group: Group, method: str, rule: str, component: str = "epistemic") -> dict[int, float]:
    return group.by_run(lambda stored: stored.numbers["auroc"][component][rule], method=method)


def _compared(paper: tuple[float, float] | None, by_run: dict[int, float]) -> list[str]:
    values = list(by_run.values())
    shown = mean_and_deviation(values)
    if paper is None:
        return ["–", shown, "–"]
    return [_pair(paper), shown, f"{np.mean(values) - paper[0]:+.3f}"]


def _pair(paper: tuple[float, float]) -> str:
    return f"{paper[0]:.3f} ± {paper[1]:.3f}"


def _log_is_best(group: Group, method: str) -> Iterator[Claim]:
    values = _aurocs(group, method, "log")
    rivals_of_claims = {
        BEST: {rule: ("epistemic", rule) for rule in RULES if rule != "log"},
        BEYOND: {
            f"{component} under {rule}": (component, rule)
            for component in ("total", "aleatoric")
            for rule in RULES
        },
    }
    for claim, rivals in rivals_of_claims.items():
        advantages = {
            name: Advantage.larger(values, _aurocs(group, method, rule, component))
            for name, (component, rule) in rivals.items()
        }
        rival = best_rival(advantages)
        if rival is not None:
            yield Claim(
                claim,
                f"{group.title()} against {group.title('ood')}, {method}",
                advantages[rival].verdict,
                f"{advantages[rival]}, against the best rival, {rival}",
                "AUROC",
                counts=not group.is_shortened,
            )


def _accuracy(settings: Sequence[Group], methods: Sequence[str]) -> list[str]:
    """Return the networks' accuracy by method, for those that were trained in full."""
    parts = []
    for method in methods:
        for group in [x for x in settings if not x.is_shortened and x.select(method=method)][:1]:
            values = group.by_run(lambda stored: stored.numbers["accuracy"], method=method).values()
            parts.append(f"{method} {mean_and_deviation(list(values))}")
    sentence = f"Accuracy of the mean prediction in distribution: {', '.join(parts)}."
    return [sentence] if parts else []
