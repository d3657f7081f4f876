"""What active learning came to: errors, curves, and whether zero-one is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from scorewise import datasets
from scorewise.paper.cells import Stored
from scorewise.paper.drawing import learning_figure
from scorewise.paper.kinds import LEARNING, Choices
from scorewise.paper.results import Group, groups
from scorewise.paper.statistics import Advantage, mean_and_spread
from scorewise.paper.tables import Claim, Figure, Section, Table

BEST = "For active learning, epistemic uncertainty under zero-one is best"
_ZERO_ONE = "zero-one"


def learning_section(
    title: str, results: Iterable[Stored], sets: Sequence[str], measures: Sequence[str], name: str
) -> Section:
    """Mean errors over all rounds for each set that was run, and what the others lack."""
    results = list(results)
    found = [group for data in sets for group in groups(results, LEARNING, data)]
    found.sort(key=lambda group: (_choices(group) != Choices(), str(_choices(group))))
    there = {group.setting["data"] for group in found}
    lacking = [datasets.describe(data).title for data in sets if data not in there]
    marks = list(dict.fromkeys(mark for group in found for mark in group.marks))
    if lacking:
        marks.append(f"Not run, for want of the data: {', '.join(lacking)}.")
    tables = [
        _table("Zero-one loss on the test set, mean over rounds", found, measures, _mean, marks),
        _table("Zero-one loss after the last round", found, measures, _last, marks),
    ]
    main = [group for group in found if _choices(group) == Choices()]
    figures = [
        Figure(
            "-".join([name, group.setting["data"], *([str(i + 1)] if _is_again(main, i) else [])]),
            f"{_title(group)}: zero-one loss on the test set against labels; {group.over_runs}.",
            partial(learning_figure, group, measures),
        )
        for i, group in enumerate(main)
    ]
    claims = [claim for group in found for claim in _zero_one_is_best(group, measures)]
    return Section(title, () if found else marks, tables if found else (), figures, claims)


def _choices(group: Group) -> Choices:
    return Choices(*(group.setting[name] for name in ("optimizer", "batch", "wide")))


def _title(group: Group) -> str:
    return f"{group.title()}: {_choices(group)}"


def _is_again(main: Sequence[Group], i: int) -> bool:
    """Whether the same data set came before, in another size or version."""
    return main[i].setting["data"] in {group.setting["data"] for group in main[:i]}


def _mean(one: Stored) -> float:
    return float(np.mean(one.numbers["error"]))


def _last(one: Stored) -> float:
    return float(one.numbers["error"][-1])


def _table(
    title: str,
    found: Sequence[Group],
    measures: Sequence[str],
    value: Callable[[Stored], float],
    marks: Sequence[str],
) -> Table:
    rows, best = [], set()
    for i, group in enumerate(found):
        by_measure = [list(group.by_run(value, measure=measure).values()) for measure in measures]
        means = [float(np.mean(values)) if values else np.inf for values in by_measure]
        best.add((i, 1 + int(np.argmin(means))))
        shown = (mean_and_spread(values, 4) if values else "not run" for values in by_measure)
        rows.append([_title(group), *shown])
    columns = ["data and choices", *measures]
    return Table(f"{title} (lower is better)", columns, rows, frozenset(best), marks)


def _zero_one_is_best(group: Group, measures: Sequence[str]) -> Iterator[Claim]:
    ours = group.by_run(_mean, measure=_ZERO_ONE)
    for measure in [one for one in measures if one != _ZERO_ONE]:
        advantage = Advantage.smaller(ours, group.by_run(_mean, measure=measure))
        if advantage.values:
            yield Claim(
                BEST,
                f"{_title(group)}; against {measure}",
                advantage.verdict,
                str(advantage),
                "mean error over all rounds",
                counts=not group.is_shortened and _choices(group) == Choices(),
            )
