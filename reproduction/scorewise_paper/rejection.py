"""Selective prediction: the loss of the accepted rows, for every task loss, rule and component."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import PercentFormatter
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw
from scorewise_paper._files import progress_bar
from scorewise_paper.results import Cell, Result, Stored
from scorewise_paper.runs import Setup, drawn_rows, labels_of
from scorewise_paper.sections import (
    COMPONENTS,
    RULES,
    Advantage,
    Claim,
    Figure,
    Group,
    Section,
    Table,
    best_rival,
    draw_mean,
    mean_and_deviation,
)
from scorewise_paper.workers import in_parallel

POINTS = 100  # of a stored curve
# A forest can give probability 0 to the class that occurs, and the log loss is then infinite. The
# paper does not say how it counts that. Here the floor is the machine epsilon, as in scikit-learn;
# a larger floor is computed too, to show how much it matters.
FLOOR, LARGER_FLOOR = float(np.finfo(np.float64).eps), 1e-6
LARGER_LOG = f"log (floor {LARGER_FLOOR:g})"
LOSSES = {**{rule: (rule, FLOOR) for rule in RULES}, LARGER_LOG: ("log", LARGER_FLOOR)}

ALIGNED = (
    "For each task loss, total uncertainty under its own rule is the best measure to reject by"
)
TOTAL = "Total uncertainty is better to reject by than aleatoric and epistemic uncertainty"
_SAME_ORDER = {"brier": "spherical", "spherical": "brier"}  # of their totals, always


Numbers = Callable[[np.ndarray, np.ndarray], dict[str, Any]]  # of members' probabilities and labels


# -- results ---------------------------------------------------------------------------------------


def rejection_numbers(probs: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return areas and curves: by task loss, then component, then the rule of the measure.

    A curve has the mean loss of the most certain 1 %, 2 %, … of the rows.
    """
    parts = sw.decompose(probs, list(RULES))
    points = -(-len(y) * np.arange(1, POINTS + 1) // POINTS) - 1
    aulc: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for loss, (rule_of_loss, floor) in LOSSES.items():
        losses = sw.task_losses(probs, y, rule_of_loss, floor=floor)
        by_component = {
            component: curves_by_rule(losses, parts, component) for component in COMPONENTS
        }
        aulc[loss] = {
            component: {rule: curve.aulc for rule, curve in by_rule.items()}
            for component, by_rule in by_component.items()
        }
        curves[loss] = {
            component: {rule: curve.loss[points].round(5) for rule, curve in by_rule.items()}
            for component, by_rule in by_component.items()
        }
    mean = probs.mean(1)
    return {
        "rows": len(y),
        "accuracy": float((mean.argmax(1) == y).mean()),
        "certain_and_wrong": float((mean[np.arange(len(y)), y] == 0).mean()),
        "aulc": aulc,
        "curves": curves,
    }


def curves_by_rule(
    losses: np.ndarray, parts: Mapping[str, sw.Decomposition], component: str
) -> dict[str, Any]:
    """Return the rejection curves of a component of the uncertainty, under each rule."""
    return {rule: sw.rejection_curve(losses, getattr(parts[rule], component)) for rule in RULES}


def forest_cells(
    setup: Setup, experiment: str, revision: int, data: str, *, trees: int, depth: int
) -> list[Cell]:
    """Return a cell for each run: a forest with these sizes; none without the data."""
    if not setup.has(data):
        return []
    return [
        Cell(
            experiment,
            revision,
            {
                "data": data,
                "trees": trees,
                "depth": depth,
                "run": run,
                **setup.protocol.sizes("test_rows", "train_rows"),
                "sets": setup.described((data, "train"), (data, "test")),
            },
        )
        for run in range(setup.protocol.runs)
    ]


def compute_forests(
    setup: Setup, cells: Sequence[Cell], numbers_of: Numbers = rejection_numbers
) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of cells; forests are trained in parallel, on the setup's cluster if any.

    ``numbers_of`` returns the numbers of a result from members' probabilities and labels.
    """
    work = partial(_forest, numbers_of)
    with progress_bar("forests", len(cells), setup.progress) as bar:
        for result in in_parallel(setup, work, cells):
            yield result
            bar.update(1)


def _forest(numbers_of: Numbers, setup: Setup, cell: Cell) -> tuple[Cell, Result]:
    started = time.perf_counter()
    setting = cell.setting
    run = setting["run"]
    train = setup.load(setting["data"], "train", run)
    test = setup.load(setting["data"], "test", run)
    rows = drawn_rows(test, setting["test_rows"], run)
    x, y = test.x[rows], labels_of(test)[rows]
    forest = RandomForestClassifier(
        n_estimators=setting["trees"], max_depth=setting["depth"], random_state=run
    )
    most = setting["train_rows"]
    forest.fit(train.x[:most], labels_of(train)[:most])
    members = np.asarray(sw.predict_samples(forest, x).probs)
    probs = np.zeros((*members.shape[:-1], train.n_classes))
    probs[..., forest.classes_] = members  # a small training set may lack classes
    numbers = numbers_of(probs, y)
    return cell, Result(numbers, {"probs": probs, "y": y}, time.perf_counter() - started)


# -- the page --------------------------------------------------------------------------------------


def rejection_section(
    settings: Sequence[Group], components: Sequence[str], name: str, paragraphs: Sequence[str] = ()
) -> Section:
    """Return the areas under the curves of some components, for each setting that was run."""
    if not settings:
        return Section(["Not run."])
    tables, figures = [], []
    claims: list[Claim] = []
    for i, group in enumerate(settings):
        tables.append(_table(group, components))
        figures.append(
            Figure(
                name if i == 0 else f"{name}-{i + 1}",
                f"{group.title()}: loss of the accepted rows against the proportion rejected, by "
                f"{' and '.join(components)} uncertainty; {group.paper_runs.over_runs}.",
                partial(rejection_figure, group.paper_runs.results, components),
            )
        )
        if "total" in components:
            claims += _aligned(group)
        if set(components) & {"aleatoric", "epistemic"}:
            claims += _total_is_best(group)
    paragraphs = [*paragraphs, *map(_certain_and_wrong, settings)]
    return Section(paragraphs, tables, figures, claims)


def _losses(group: Group) -> list[str]:
    """Return the task losses that all results have."""
    return [loss for loss in LOSSES if all(loss in x.numbers["aulc"] for x in group.results)]


def _areas(group: Group, loss: str, component: str, rule: str) -> dict[int, float]:
    """Return the areas under the loss-rejection curve, by run."""
    return group.by_run(lambda stored: stored.numbers["aulc"][loss][component][rule])


def _table(group: Group, components: Sequence[str]) -> Table:
    first = group.paper_runs
    rows, best = [], set()
    for i, (loss, component) in enumerate(product(_losses(first), components)):
        by_rule = [list(_areas(first, loss, component, rule).values()) for rule in RULES]
        means = np.array([np.mean(values) for values in by_rule])
        best |= {(i, 2 + int(j)) for j in np.flatnonzero(means == means.min())}
        digits = 4 if means.min() > 0.1 else 5
        rows.append([loss, component, *(mean_and_deviation(x, digits) for x in by_rule)])
    return Table(
        f"{group.title()}: area under the loss-rejection curve, lower is better "
        f"({group.shown_runs})",
        ["task loss", "component", *(f"{rule} uncertainty" for rule in RULES)],
        rows,
        frozenset(best),
        group.marks,
    )


def _certain_and_wrong(group: Group) -> str:
    """Say how many rows depend on the floor of the log loss, which the paper does not state."""
    share = np.mean([stored.numbers["certain_and_wrong"] for stored in group.results])
    return (
        f"{group.title()}: for {100 * share:.2f} % of the rows all members gave probability 0 to "
        f"the class that occurred; the log loss counts that as {FLOOR:.2g}, or as the floor that "
        "is named."
    )


def _aligned(group: Group) -> Iterator[Claim]:
    for loss in _losses(group):
        own, _ = LOSSES[loss]
        areas = {rule: _areas(group, loss, "total", rule) for rule in RULES}
        yield from _claim(ALIGNED, group, loss, advantages_of_own_rule(own, areas))


def advantages_of_own_rule(
    own: str, areas: Mapping[str, Mapping[int, float]]
) -> dict[str, Advantage]:
    """Return the advantage of the total under one rule over those that may order otherwise.

    ``areas`` has the areas under the loss-rejection curves, by the rule of the total and by run.
    """
    return {
        rule: Advantage.smaller(areas[own], by_run)
        for rule, by_run in areas.items()
        if rule not in {own, _SAME_ORDER.get(own)}
    }


def _total_is_best(group: Group) -> Iterator[Claim]:
    for loss in _losses(group):
        values = _areas(group, loss, "total", LOSSES[loss][0])
        rivals = {
            f"{component} under {rule}": Advantage.smaller(
                values, _areas(group, loss, component, rule)
            )
            for component in COMPONENTS
            if component != "total"
            for rule in RULES
        }
        yield from _claim(TOTAL, group, loss, rivals)


def _claim(claim: str, group: Group, loss: str, rivals: dict[str, Advantage]) -> Iterator[Claim]:
    rival = best_rival(rivals)
    if rival is not None:
        yield Claim(
            claim,
            f"{group.title()}, {loss} loss",
            rivals[rival].verdict,
            f"{rivals[rival]}, against the best rival, {rival}",
            "AULC",
            counts=not group.is_shortened and loss in RULES,
        )


def rejection_figure(results: Sequence[Stored], components: Sequence[str]) -> Canvas:
    """Return a figure: a row per component, a panel per task loss, a line per rule."""
    size = (3 * len(RULES), 2.7 * len(components))
    canvas = Canvas(figsize=size, layout="constrained")
    panels = canvas.subplots(len(components), len(RULES), squeeze=False, sharex=True, sharey="col")
    for row, component in zip(panels, components, strict=True):
        for ax, loss in zip(row, RULES, strict=True):
            for i, rule in enumerate(RULES):
                curves = [x.numbers["curves"][loss][component][rule] for x in results]
                losses = np.array(curves)[:, ::-1]  # from all accepted to the most certain alone
                rejected = 1 - np.arange(losses.shape[1], 0, -1) / losses.shape[1]
                draw_mean(ax, rejected, losses, i, rule)
            ax.set_title(f"{loss} loss, {component}", fontsize=9)
            ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        row[0].set_ylabel("loss of accepted rows")
    for ax in panels[-1]:
        ax.set_xlabel("rejected")
    panels[0][0].legend(fontsize=8, frameon=False)
    return canvas
