"""What active learning came to: errors, curves, and whether zero-one is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scorewise import datasets
from scorewise.paper.cells import Stored
from scorewise.paper.drawing import learning_figure
from scorewise.paper.results import Group, groups
from scorewise.paper.statistics import Advantage, mean_and_spread
from scorewise.paper.tables import Claim, Figure, Section, Table

BEST = "For active learning, epistemic uncertainty under zero-one is best"
KIND = "active-learning"
_OURS = {"optimizer": "adam", "batch": 64, "wide": True}
_WORDS = {"optimizer": "optimizer {}", "batch": "batches of {}", "wide": "784-wide layer: {}"}


def learning_section(
    title: str, results: Iterable[Stored], sets: Sequence[str], measures: Sequence[str], name: str,
) -> Section:  # fmt: skip
    """Mean errors over all rounds for each set that was run, and what the others lack."""
    results = list(results)
    found = [group for data in sets for group in groups(results, KIND, data)]
    main = [group for group in found if not _other_choices(group)]
    rows, marks, figures, claims, best = [], [], [], [], set()
    for i, group in enumerate(main):
        where = _title(group)
        means = [float(np.mean(_areas(group, measure))) for measure in measures]
        best.add((i, 1 + int(np.argmin(means))))
        rows.append([where, *(mean_and_spread(_areas(group, measure), 4) for measure in measures)])
        claims += [_zero_one_beats(group, m, where) for m in measures if m != "zero-one"]
        file = f"{name}-{group.setting['data']}{'-short' * group.is_shortened}"
        figures.append(_figure(file, where, group, measures))
        marks += [f"{where}: {mark}" for mark in group.marks]
    there = {group.setting["data"] for group in main}
    lacking = [datasets.describe(data).title for data in sets if data not in there]
    if lacking:
        marks.append(f"Not run, for want of the data: {', '.join(lacking)}.")
    columns = ["data", *measures]
    tables = [
        Table(
            "Zero-one loss on the test set, mean over all rounds (lower is better)",
            columns, rows, frozenset(best), marks,
        ),
        Table(
            "Zero-one loss after the last round", columns,
            [
                [_title(group), *(mean_and_spread(_last(group, m), 4) for m in measures)]
                for group in main
            ],
        ),
    ]  # fmt: skip
    varied = [group for group in found if _other_choices(group) and not group.is_shortened]
    return Section(title, (), [*tables, *_how_much(varied, measures)], figures, claims)


def _title(group: Group) -> str:
    title = datasets.describe(group.setting["data"]).title
    return f"{title} (shortened)" if group.is_shortened else title


def _areas(group: Group, measure: str) -> list[float]:
    return [float(np.mean(one.numbers["error"])) for one in group.of(measure=measure)]


def _last(group: Group, measure: str) -> list[float]:
    return [float(one.numbers["error"][-1]) for one in group.of(measure=measure)]


def _figure(file: str, name: str, group: Group, measures: Sequence[str]) -> Figure:
    caption = f"{name}: zero-one loss on the test set against labels. Mean and spread over runs."
    return Figure(file, caption, lambda: learning_figure(group, measures))


def _zero_one_beats(group: Group, measure: str, name: str) -> Claim:
    advantage = Advantage(
        tuple(np.subtract(_areas(group, measure), _areas(group, "zero-one")).tolist())
    )
    return Claim(
        BEST, f"{name}, against {measure}", advantage.verdict,
        str(advantage), "mean error over all rounds",
    )  # fmt: skip


def _other_choices(group: Group) -> str:
    """Where the group's choices are not ours, in words."""
    return ", ".join(
        _WORDS[name].format("yes" if value is True else "no" if value is False else value)
        for name in _OURS
        if (value := group.setting[name]) != _OURS[name]
    )


def _how_much(varied: Sequence[Group], measures: Sequence[str]) -> list[Table]:
    """What comes out by the choices that the paper leaves open, if others are made."""
    if not varied:
        return []
    rows = [
        [
            f"{_title(group)}, {_other_choices(group)}",
            *(mean_and_spread(_areas(group, measure), 4) for measure in measures),
        ]
        for group in varied
    ]
    title = "How much our choices matter: the same with others, mean over all rounds"
    return [Table(title, ["data and choice", *measures], rows)]
