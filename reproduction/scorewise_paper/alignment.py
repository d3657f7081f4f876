"""Beyond the paper: alignment needs calibration.

The paper's theorem says that total uncertainty under the task's own loss is the best order for
abstaining. It presumes that predictions are calibrated. Here the loss-rejection curves are computed
before and after the mean prediction is calibrated, by temperature, vector and matrix scaling of its
log probabilities, and by the one of them (or none) that cross-validation chooses.

The forests are those of Figure 1, 20 trees of depth 5, and for Poker Hand those of its figure, of
depth 20. The eight sets that are not the paper's were chosen before any result was seen. Each run
splits a set 70 to 30 by its seed and draws up to 10,000 test rows. The first half of them fits the
calibrations, the second half gives all numbers. The ensemble of CIFAR-10 is that of its figure,
whose members must be stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

import scorewise as sw
from scorewise_paper import datasets
from scorewise_paper.errors import MissingData
from scorewise_paper.rejection import (
    FLOOR,
    LARGER_FLOOR,
    advantages_of_own_rule,
    compute_forests,
    curves_by_rule,
    forest_cells,
)
from scorewise_paper.results import Cell, Result, Stored
from scorewise_paper.runs import Setup, experiment
from scorewise_paper.sections import (
    NO,
    RULES,
    UNDECIDED,
    YES,
    Advantage,
    Claim,
    Figure,
    Group,
    Section,
    Table,
    best_rival,
    groups,
)
from scorewise_paper.workers import in_parallel

EXPERIMENT = "alignment"
REVISION = 1  # raise it when the numbers change: results of another revision do not count
TREES = 20
DEPTHS = {
    "covtype": 5,
    "poker-hand": 20,
    "letter": 5,
    "penbased": 5,
    "satimage": 5,
    "optdigits": 5,
    "texture": 5,
    "fars": 5,
    "kr-vs-k": 5,
    "nursery": 5,
}
ENSEMBLE, ENSEMBLE_DATA = "figure-sp-cifar10", "cifar-10"

BEFORE, MATRIX, CHOSEN = "none", "matrix", "chosen"
METHODS = (BEFORE, "temperature", "vector", MATRIX)  # those that are fitted
SHOWN = (*METHODS, CHOSEN)
# A forest can give probability 0 to the class that occurs; the log loss then has the larger floor.
FLOORS = {rule: LARGER_FLOOR if rule == "log" else FLOOR for rule in RULES}
_ALIGNED = "total uncertainty under the task's own rule is best to reject by (beyond the paper)"
CLAIMS = {
    BEFORE: f"Without calibration, {_ALIGNED}",
    MATRIX: f"After matrix scaling, {_ALIGNED}",
    CHOSEN: f"After the calibration that cross-validation chooses, {_ALIGNED}",
}
_NAMES = {BEFORE: "as it is", CHOSEN: "chosen by cross-validation"}


# -- results ---------------------------------------------------------------------------------------


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each data set and run: a forest, or the stored ensemble."""
    forests = [
        cell
        for data, depth in DEPTHS.items()
        for cell in forest_cells(setup, EXPERIMENT, REVISION, data, trees=TREES, depth=depth)
    ]
    return [*forests, *_ensemble_cells(setup)]


def _ensemble_cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run whose ensemble has stored members; without any, note the gap."""
    stored = {x.cell.key: x for x in setup.store.read(ENSEMBLE)[0]}
    ensembles = [
        stored[cell.key]
        for cell in experiment(ENSEMBLE).cells(setup)
        if cell.key in stored and setup.store.members_path(cell).is_file()
    ]
    if not ensembles:
        setup.gaps["the ensemble of CIFAR-10"] = MissingData(
            f"the members of the ensemble of CIFAR-10 are not in {setup.store.folder}; get them "
            f"with: scorewise-paper {ENSEMBLE}"
        )
    return [
        Cell(
            EXPERIMENT,
            REVISION,
            {
                **x.cell.setting,
                "ensemble_revision": x.cell.revision,
                "predictions": x.provenance["members"],
            },
        )
        for x in ensembles
    ]


def compute(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of cells: of forests, which are trained, and of stored ensembles."""
    forests = [cell for cell in cells if "trees" in cell.setting]
    yield from compute_forests(setup, forests, alignment_numbers)
    ensembles = [cell for cell in cells if cell not in forests]
    # read here, as workers may not reach the results
    members = [_stored_members(setup, cell) for cell in ensembles]
    yield from in_parallel(setup, _ensemble_result, ensembles, members)


def _ensemble_result(
    _: Setup, cell: Cell, members: tuple[np.ndarray, np.ndarray]
) -> tuple[Cell, Result]:
    started = time.perf_counter()
    probs, y = members
    probs = probs.astype(np.float64)
    probs /= probs.sum(-1, keepdims=True)  # they are stored in half precision
    return cell, Result(alignment_numbers(probs, y), seconds=time.perf_counter() - started)


def _stored_members(setup: Setup, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Return the members of an ensemble, as they are stored, and the labels."""
    setting = dict(cell.setting)
    del setting["predictions"]
    ensemble = Cell(ENSEMBLE, setting.pop("ensemble_revision"), setting)
    path = setup.store.members_path(ensemble)
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["probs"], arrays["y"]


def alignment_numbers(probs: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the areas under the loss-rejection curves before and after calibration.

    The first half of the rows is calibrated on, the second gives the numbers: areas by method of
    calibration, task loss, and rule of the total; errors of calibration under the task's own rule.
    """
    n = len(y) // 2
    held_out, test, y_test = (probs[:n], y[:n]), probs[n:], y[n:]
    numbers: dict[str, Any] = {
        "rows": len(y_test),
        "calibration_rows": n,
        "chosen": sw.fit_calibration(*held_out, progress=False).method,
        "certain_and_wrong": float((test.mean(1)[np.arange(len(y_test)), y_test] == 0).mean()),
        **{name: {} for name in ("accuracy", "aulc", "calibration_error")},
    }
    for method in METHODS:
        mean = sw.Samples(test).mean
        if method != BEFORE:
            calibration = sw.fit_calibration(*held_out, method=method, progress=False)
            mean = calibration.predict_proba(test)
        # the total depends on the mean alone, so it takes the place of the members
        parts = sw.decompose(mean[:, None], list(RULES))
        numbers["accuracy"][method] = float((mean.argmax(1) == y_test).mean())
        numbers["aulc"][method], numbers["calibration_error"][method] = {}, {}
        for rule, floor in FLOORS.items():
            losses = sw.task_losses(mean[:, None], y_test, rule, floor=floor)
            curves = curves_by_rule(losses, parts, "total")
            numbers["aulc"][method][rule] = {x: curve.aulc for x, curve in curves.items()}
            error = sw.loss_calibration(losses, parts[rule].total).calibration_error
            numbers["calibration_error"][method][rule] = error
    return numbers


# -- the page --------------------------------------------------------------------------------------


def section(results: Sequence[Stored]) -> Section:
    """Return the advantage of the task's own rule before and after calibration, and the areas."""
    settings = [
        group for data in (*DEPTHS, ENSEMBLE_DATA) for group in groups(results, EXPERIMENT, data)
    ]
    not_run = _not_run({group.setting["data"] for group in settings})
    if not settings:
        return Section(["Not run."])
    comparisons = [_Comparison(group, loss) for group in settings for loss in RULES]
    tables = [
        _summary(comparisons),
        *(_trial(group) for group in settings if group.setting["data"] == "covtype"),
        _advantages(comparisons),
        _areas(comparisons),
        _sets(settings),
    ]
    figure = Figure(
        EXPERIMENT,
        "Advantage of total uncertainty under the task's own rule over the best other rule, in "
        "percent of its area under the loss-rejection curve, with Student's 95 % interval over "
        "runs; to the right of 0 the own rule is better. The scales of the panels differ.",
        partial(alignment_figure, comparisons),
    )
    paragraphs = [*_PARAGRAPHS, *_findings(comparisons), *not_run]
    return Section(paragraphs, tables, [figure], list(_claims(comparisons)))


_PARAGRAPHS = (
    "That total uncertainty under the task's own rule is the best order for abstaining is a "
    "theorem about calibrated predictions. Here the mean prediction of each model is calibrated by "
    "temperature, vector and matrix scaling of its log probabilities "
    "(`scorewise.fit_calibration`), on one half of up to 10,000 held-out rows; the other half "
    "gives all numbers. Cross-validated log loss on the first half chooses one of these methods, "
    "or none. The models are random forests of 20 trees, of depth 5, for Poker Hand of depth 20 as "
    "in the paper. Categorical columns are numbered in the order of the file's list of values. A "
    "run is a new split into 70 % training and 30 % held-out rows, and a new forest.",
    "A positive advantage means that rejecting by the task's own rule leaves a smaller area under "
    "the loss-rejection curve (AULC) than rejecting by the best other rule. The best other rule "
    "is selected after seeing the results, for each comparison and method, which favours the "
    "answer no. With so many comparisons a few answers are due to chance. The log loss has the "
    "floor 1e-6.",
)


def _findings(comparisons: Sequence[_Comparison]) -> list[str]:
    """Return sentences on how much the choice of the rule matters, and what calibrating changes."""
    counted = [x for x in comparisons if not x.group.is_shortened]
    if not counted:
        return []
    before, matrix = (
        float(np.median([abs(_point(x, method)[0]) for x in counted]))
        for method in (BEFORE, MATRIX)
    )
    changes = [x.change(MATRIX).mean for x in counted]
    smaller = sum(change < 0 for change in changes)
    return [
        f"The advantage or disadvantage of the own rule is {before:.2g} % of its AULC as it is and "
        f"{matrix:.2g} % after matrix scaling (medians over data sets and losses). Matrix scaling "
        f"lowers the AULC in {smaller} of {len(changes)} comparisons; the change is between "
        f"{min(changes):+.0f} % and {max(changes):+.0f} %. That is not due to the order of rows "
        "alone, as calibrating also changes their losses and predicted classes."
    ]


def _not_run(data: set[str]) -> list[str]:
    """Return sentences about data sets without results."""
    sentences = []
    missing = [datasets.describe(name).title for name in DEPTHS if name not in data]
    if missing:
        names = ", ".join(missing)
        sentences.append(f"Not run, because the data were not available: {names}.")
    if ENSEMBLE_DATA not in data:
        sentences.append(
            "Not run: the ensemble of ResNets on CIFAR-10. The predictions of its members are not "
            "stored, and computing them takes a GPU: "
            f"`scorewise-paper {ENSEMBLE} --runs 3 --device cuda`, and then `scorewise-paper "
            f"{EXPERIMENT}` with the same folder of results."
        )
    return sentences


class _Comparison:
    """Total uncertainty under a task's own rule against the others, on one data set."""

    def __init__(self, group: Group, loss: str) -> None:
        self.group, self.loss = group, loss

    @property
    def names(self) -> list[str]:
        return [self.group.title(), self.loss]

    def areas(self, method: str, rule: str | None = None) -> dict[int, float]:
        """Return the areas under the loss-rejection curve by run; by default of the own rule."""
        return self.group.by_run(
            lambda x: x.numbers["aulc"][_fitted(x, method)][self.loss][rule or self.loss]
        )

    def rival(self, method: str) -> tuple[str, Advantage]:
        """Return the best other rule, and the advantage of the own rule over it."""
        areas = {rule: self.areas(method, rule) for rule in RULES}
        advantages = advantages_of_own_rule(self.loss, areas)
        rival = best_rival(advantages)
        assert rival is not None  # every result has the areas of all rules
        return rival, advantages[rival]

    def advantage(self, method: str) -> Advantage:
        """Return the advantage of the own rule over the best other rule."""
        return self.rival(method)[1]

    def change(self, method: str) -> Advantage:
        """Return the relative change of the own rule's area by calibration, in percent."""
        before, after = self.areas(BEFORE), self.areas(method)
        return Advantage(tuple(100 * (after[run] / before[run] - 1) for run in before))


def _fitted(stored: Stored, method: str) -> str:
    """Return the method whose numbers are shown: the chosen one is another for each run."""
    return str(stored.numbers["chosen"]) if method == CHOSEN else method


def _claims(comparisons: Sequence[_Comparison]) -> Iterator[Claim]:
    for method, claim in CLAIMS.items():
        for x in comparisons:
            rival, advantage = x.rival(method)
            yield Claim(
                claim,
                f"{x.group.title()}, {x.loss} loss",
                advantage.verdict,
                f"{advantage}, against the best rival, {rival}",
                "AULC",
                counts=not x.group.is_shortened,
                is_tabulated=False,
            )


def _summary(comparisons: Sequence[_Comparison]) -> Table:
    """Return the number of data sets with each verdict, by method and task loss."""
    counted = [x for x in comparisons if not x.group.is_shortened] or comparisons
    rows = []
    for method in SHOWN:
        verdicts = {x: x.advantage(method).verdict.partition(":")[0] for x in counted}
        row = [_NAMES.get(method, method)]
        for losses in (*((rule,) for rule in RULES), RULES):
            those = [verdict for x, verdict in verdicts.items() if x.loss in losses]
            row.append(" / ".join(str(those.count(v)) for v in (YES, UNDECIDED, NO)))
        rows.append(row)
    return Table(
        "Is the task's own rule best to reject by? Number of data sets: yes / undecided / no",
        ["predictions", *(f"{rule} loss" for rule in RULES), "all"],
        rows,
    )


def _trial(group: Group) -> Table:
    """Return what matrix scaling changes on one set, a column for each task loss."""
    by_loss = [_Comparison(group, loss) for loss in RULES]
    return Table(
        f"{group.title()}: AULC of the best other rule minus that of the task's own",
        ["predictions", *(f"{loss} loss" for loss in RULES)],
        [
            [_NAMES[BEFORE], *(x.advantage(BEFORE).text for x in by_loss)],
            ["matrix scaling", *(x.advantage(MATRIX).text for x in by_loss)],
            [
                "AULC under the own rule, as it is → matrix scaling",
                *(f"{_mean(x, BEFORE)} → {_mean(x, MATRIX)}" for x in by_loss),
            ],
        ],
        notes=group.marks,
    )


def _mean(x: _Comparison, method: str) -> str:
    return f"{np.mean(list(x.areas(method).values())):.4f}"


def _advantages(comparisons: Sequence[_Comparison]) -> Table:
    rows = []
    for x in comparisons:
        advantages = [x.advantage(method) for method in SHOWN]
        rows.append([*x.names, *(f"{a.verdict}: {a.text}" for a in advantages)])
    return Table(
        "Is the task's own rule best to reject by, and its advantage over the best other (AULC, "
        f"{_runs(comparisons)})",
        ["data", "task loss", *(_NAMES.get(method, method) for method in SHOWN)],
        rows,
        frozenset((i, j) for i, row in enumerate(rows) for j, x in enumerate(row) if _is_yes(x)),
        [*dict.fromkeys(mark for x in comparisons for mark in x.group.marks)],
    )


def _is_yes(text: str) -> bool:
    return text.startswith(f"{YES}:")


def _areas(comparisons: Sequence[_Comparison]) -> Table:
    rows, best = [], set()
    for i, x in enumerate(comparisons):
        means = [float(np.mean(list(x.areas(method).values()))) for method in SHOWN]
        best |= {(i, 2 + int(j)) for j in np.flatnonzero(np.array(means) == min(means))}
        after = (
            f"{mean:.4f} ({_percent(x.change(method))})"
            for mean, method in zip(means[1:], SHOWN[1:], strict=True)
        )
        rows.append([*x.names, f"{means[0]:.4f}", *after])
    return Table(
        "AULC when rejecting by the task's own rule, and its change by calibration "
        f"({_runs(comparisons)})",
        ["data", "task loss", *(_NAMES.get(method, method) for method in SHOWN)],
        rows,
        frozenset(best),
    )


def _percent(change: Advantage) -> str:
    if change.interval is None:
        return f"{change.mean:+.1f} %"
    low, high = change.interval
    return f"{change.mean:+.1f} % [{low:+.1f}, {high:+.1f}]"


def _runs(comparisons: Sequence[_Comparison]) -> str:
    """Return the number of runs of each set, in words."""
    numbers = sorted({len(x.group.runs) for x in comparisons})
    return f"{' or '.join(map(str, numbers))} run{'s' * (numbers[-1] > 1)}"


def _sets(settings: Sequence[Group]) -> Table:
    """Return sizes, accuracies, the methods that were chosen, and errors of calibration."""
    rows = []
    for group in settings:
        first, data = group.results[0].numbers, group.setting["data"]
        chosen = [x.numbers["chosen"] for x in group.results]
        counts = {method: chosen.count(method) for method in METHODS}
        rows.append(
            [
                group.title(),
                str(datasets.describe(data).n_classes),
                f"{first['calibration_rows']:,} + {first['rows']:,}",
                _over_methods(group, "accuracy"),
                ", ".join(f"{_NAMES.get(m, m)} {n}" for m, n in counts.items() if n),
                *(_over_methods(group, "calibration_error", rule) for rule in RULES),
            ]
        )
    return Table(
        "The data sets: accuracy and error of calibration as it is → matrix scaling → chosen "
        "(means over runs)",
        [
            "data",
            "classes",
            "rows that calibrate + test",
            "accuracy",
            "chosen (runs)",
            *(f"calibration error, {rule} loss" for rule in RULES),
        ],
        rows,
        notes=[
            "The error of calibration is the root of the mean squared gap between expected and "
            "incurred loss over bins of equal mass, corrected for noise, in units of the loss."
        ],
    )


def _over_methods(group: Group, name: str, *keys: str) -> str:
    """Return the mean of a number as it is, after matrix scaling, and after the chosen method."""
    means = []
    for method in (BEFORE, MATRIX, CHOSEN):
        values = []
        for stored in group.results:
            value = stored.numbers[name][_fitted(stored, method)]
            for key in keys:
                value = value[key]
            values.append(value)
        means.append(f"{np.mean(values):.3f}")
    return " → ".join(means)


def alignment_figure(comparisons: Sequence[_Comparison]) -> Canvas:
    """Return a figure: a panel per task loss, a row per data set, a point per calibration."""
    titles = list(dict.fromkeys(x.group.title() for x in comparisons))
    canvas = Canvas(figsize=(3.2 * len(RULES), 0.55 * len(titles) + 1.6), layout="constrained")
    panels = canvas.subplots(1, len(RULES), sharey=True, squeeze=False)[0]
    for ax, loss in zip(panels, RULES, strict=True):
        ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        for i, (method, marker) in enumerate(zip((BEFORE, MATRIX, CHOSEN), "osD", strict=True)):
            of_loss = [x for x in comparisons if x.loss == loss]
            points = [_point(x, method) for x in of_loss]
            places = [titles.index(x.group.title()) + 0.24 * (i - 1) for x in of_loss]
            means, lows, highs = np.transpose(points)
            ax.errorbar(
                means,
                places,
                xerr=[means - lows, highs - means],
                fmt=marker,
                markersize=4,
                capsize=2,
                linewidth=1,
                color=f"C{i}",
                markerfacecolor="white" if method == BEFORE else f"C{i}",
                label=_FIGURE_NAMES[method],
            )
        ax.set_title(f"{loss} loss", fontsize=10)
        ax.set_xlabel("advantage of the own rule, % of AULC")
        ax.grid(axis="y", color="0.93")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(titles)), titles)
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return canvas


_FIGURE_NAMES = {
    BEFORE: "as it is",
    MATRIX: "after matrix scaling",
    CHOSEN: "after the calibration chosen by cross-validation",
}


def _point(x: _Comparison, method: str) -> tuple[float, float, float]:
    """Return the advantage and the ends of its interval, in percent of the own rule's area."""
    advantage = x.advantage(method)
    low, high = advantage.interval or (advantage.mean, advantage.mean)
    scale = 100 / float(np.mean(list(x.areas(method).values())))
    return scale * advantage.mean, scale * low, scale * high
