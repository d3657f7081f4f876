"""Out-of-distribution detection: how well a measure of uncertainty detects other images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import scorewise as sw
from scorewise_paper import datasets
from scorewise_paper.published import published_auroc
from scorewise_paper.results import Stored
from scorewise_paper.sections import (
    COMPONENTS,
    NO,
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
    results: Sequence[Stored],
    experiment: str,
    data: str,
    stand_in: str | None = None,
    *,
    sets: Sequence[str],
    methods: Sequence[str],
    tables: tuple[str, ...],
    needs_weights: bool = False,
) -> Section:
    """Return the paper's AUROC, ours, and the difference; also for stand-ins of the paper's sets.

    Parameters
    ----------
    data, stand_in : str
        The data in distribution, and those that are used if they are missing.
    sets, methods : sequences of str
        Those of the paper's table.
    tables : tuple of str
        The labels of the paper's tables.
    needs_weights : bool
        Whether the network is pretrained.
    """
    place = {name: i for i, name in enumerate(sets)}
    settings = sorted(
        (
            group
            for name in (data, stand_in)
            if name is not None
            for group in groups(results, experiment, name)
        ),
        key=lambda group: (group.is_shortened, place.get(group.setting["ood"], len(sets))),
    )
    by_network: dict[tuple[str, str], list[Group]] = {}
    for group in settings:
        by_network.setdefault((group.setting["data"], group.stand_in_network), []).append(group)
    if not settings:
        by_network[data, ""] = []
    networks = sorted(by_network.items(), key=lambda item: (item[0][0] != data, item[0][1]))
    paper = _Paper(sets, methods, tables)
    claims = [
        claim for group in settings for method in methods for claim in _log_is_best(group, method)
    ]
    return Section(
        [
            *_contradictions(claims),
            *(
                paragraph
                for _, of_network in networks
                for paragraph in _network_paragraphs(of_network, paper)
            ),
        ],
        [_table(of_network, name, paper, needs_weights) for (name, _), of_network in networks],
        claims=claims,
    )


@dataclass(frozen=True)
class _Paper:
    """The sets and methods of a table of the paper, and its labels."""

    sets: Sequence[str]
    methods: Sequence[str]
    tables: tuple[str, ...]

    def aurocs(self, ood: str, method: str) -> dict[str, tuple[float, float]]:
        return published_auroc(self.tables, ood, method)


def _table(settings: Sequence[Group], data: str, paper: _Paper, needs_weights: bool) -> Table:
    """Return the table of one network in distribution; sets that were not run come last."""
    rows = [
        [
            group.title("ood"),
            method,
            rule,
            *_compared(
                paper.aurocs(group.setting["ood"], method).get(rule),
                _aurocs(group.paper_runs, method, rule),
            ),
        ]
        for group in settings
        for method in paper.methods
        if group.select(method=method)
        for rule in RULES
    ]
    were_run = {group.setting["ood"] for group in settings}
    missing = [name for name in paper.sets if name not in were_run]
    rows += [
        [datasets.describe(ood).title, method, rule, _pair(pair), "not run", "–"]
        for ood in missing
        for method in paper.methods
        for rule, pair in paper.aurocs(ood, method).items()
    ]
    notes = list(dict.fromkeys(mark for group in settings for mark in group.marks))
    more_runs = [x.shown_runs for x in settings if len(x.runs) > len(x.paper_runs.runs)]
    notes += [f"The table has {runs}." for runs in dict.fromkeys(more_runs)]
    if missing and needs_weights and not settings:
        notes.append(
            "Not run: the in-distribution data or the network's weights were not available."
        )
    elif missing:
        titles = ", ".join(datasets.describe(name).title for name in missing)
        notes.append(f"Not run, because the data were not available: {titles}.")
    title = datasets.describe(data).title
    network = settings[0].stand_in_network if settings else ""
    return Table(
        f"{title} in distribution{f', {network}' if network else ''}: AUROC of epistemic "
        "uncertainty",
        ["out of distribution", "method", "rule", "paper", "ours", "difference"],
        rows,
        notes=notes,
    )


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


def _contradictions(claims: Sequence[Claim]) -> list[str]:
    """Return sentences that name where the outcome speaks against the paper."""
    beginnings = {
        BEST: "Against the paper, log is not the best measure of epistemic uncertainty",
        BEYOND: "Against detecting by epistemic uncertainty under log, as the paper does, total or "
        "aleatoric uncertainty is better",
    }
    sentences = []
    for text, beginning in beginnings.items():
        against = [
            f"{claim.where}: {claim.evidence}"
            for claim in claims
            if claim.claim == text and claim.counts and claim.verdict == NO
        ]
        if against:
            sentences.append(f"{beginning}. {'; '.join(against)}.")
    return sentences


def _network_paragraphs(settings: Sequence[Group], paper: _Paper) -> list[str]:
    """Return what there is to say about the results of one network in distribution."""
    paragraphs = [
        *_other_orders(settings, paper),
        *_accuracy(settings, paper.methods),
        *_largest_probability(settings),
    ]
    network = settings[0].stand_in_network if settings else ""
    return [f"The numbers below are of {network}.", *paragraphs] if network else paragraphs


def _other_orders(settings: Sequence[Group], paper: _Paper) -> list[str]:
    """Return a sentence that names where the paper's rules are in another order than here."""
    differences = []
    for group in settings:
        for method in paper.methods:
            published = paper.aurocs(group.setting["ood"], method)
            if not published or group.is_shortened or not group.select(method=method):
                continue
            means = {
                rule: np.mean(list(_aurocs(group, method, rule).values())) for rule in published
            }
            ours = sorted(means, key=lambda rule: -means[rule])
            papers = sorted(published, key=lambda rule: -published[rule][0])
            if ours != papers:
                differences.append(
                    f"{group.title('ood')}, {method}: {', '.join(ours)}; the paper's: "
                    f"{', '.join(papers)}"
                )
    sentence = "The rules, best first, are in another order than in the paper against "
    return [f"{sentence}{' – '.join(differences)}."] if differences else []


def _accuracy(settings: Sequence[Group], methods: Sequence[str]) -> list[str]:
    """Return the networks' accuracy by method, for those that were trained in full."""
    parts = []
    for method in methods:
        for group in [x for x in settings if not x.is_shortened and x.select(method=method)][:1]:
            values = group.by_run(lambda stored: stored.numbers["accuracy"], method=method).values()
            parts.append(f"{method} {mean_and_deviation(list(values))}")
    sentence = f"Accuracy of the mean prediction in distribution: {', '.join(parts)}."
    return [sentence] if parts else []


def _largest_probability(settings: Sequence[Group]) -> list[str]:
    """Return how well a pretrained network detects without members, by its largest probability."""
    aurocs_by_set: dict[str, dict[int, float]] = {}
    accuracies: dict[int, float] = {}
    worse = []
    for group in settings:
        if group.is_shortened or not all("single" in x.numbers for x in group.results):
            continue
        title = group.title("ood")
        aurocs = group.by_run(lambda stored: stored.numbers["single"]["auroc"])
        aurocs_by_set[title] = aurocs_by_set.get(title, {}) | aurocs
        accuracies |= group.by_run(lambda stored: stored.numbers["single"]["accuracy"])
        for method in dict.fromkeys(stored.cell.setting["method"] for stored in group.results):
            advantage = Advantage.larger(_aurocs(group, method, "log"), aurocs)
            if advantage.verdict == NO:
                worse.append(f"{title}, {method}, {advantage}")
    if not aurocs_by_set:
        return []
    parts = ", ".join(
        f"{title} {mean_and_deviation(list(aurocs.values()))}"
        for title, aurocs in aurocs_by_set.items()
    )
    sentence = (
        "For comparison, the network alone, without members, has an accuracy of "
        f"{mean_and_deviation(list(accuracies.values()))}, and one minus its largest probability "
        f"an AUROC of: {parts}."
    )
    if worse:
        sentence += f" Epistemic uncertainty under log detects worse than that: {'; '.join(worse)}."
    return [sentence]
