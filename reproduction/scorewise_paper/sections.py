"""A section of the page: stored results grouped by setting, compared over runs, in tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit

from scorewise_paper import datasets
from scorewise_paper.results import Stored
from scorewise_paper.runs import Protocol, shortened

RULES = ("log", "brier", "zero-one", "spherical")  # those of the paper
COMPONENTS = ("total", "aleatoric", "epistemic")
CONFIDENCE = 0.95
YES, NO, UNDECIDED = "yes", "no", "undecided"

_DIFFER = {"run", "measure", "method", "members"}  # within a group
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


# -- the parts of a section ------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A title, columns and rows of text; ``best`` has the (row, column) of the best values."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: frozenset[tuple[int, int]] = frozenset()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """The name of a drawing's file, its caption, and a function that draws it."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it was tested, the verdict, and the evidence with its unit.

    Verdicts of shortened runs are shown, and do not count.
    """

    claim: str
    where: str
    verdict: str
    evidence: str
    unit: str
    counts: bool = True


@dataclass(frozen=True)
class Section:
    """The part of the page that one experiment fills."""

    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = ()


# -- results of one setting ------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Results that differ by run, measure and method alone."""

    results: Sequence[Stored]

    @property
    def setting(self) -> Any:
        """The setting that they share (with the run, measure and method of the first)."""
        return self.results[0].cell.setting

    def where(self, **values: Any) -> list[Stored]:
        """The results whose settings have these values, by run."""
        chosen = [
            stored
            for stored in self.results
            if all(stored.cell.setting.get(name) == value for name, value in values.items())
        ]
        return sorted(chosen, key=lambda stored: int(stored.cell.setting["run"]))

    def by_run(self, number: Callable[[Stored], float], **values: Any) -> dict[int, float]:
        """A number of each run."""
        chosen = self.where(**values)
        return {int(stored.cell.setting["run"]): float(number(stored)) for stored in chosen}

    @property
    def runs(self) -> set[int]:
        """The runs that there are results of."""
        return {int(stored.cell.setting["run"]) for stored in self.results}

    @cached_property
    def papers_runs(self) -> Group:
        """The first runs, as many as the paper has."""
        first = [x for x in self.results if x.cell.setting["run"] < Protocol().runs]
        return Group(first or self.results)

    @property
    def over_runs(self) -> str:
        """The runs that a number or a line is the mean of, in words."""
        n = len(self.runs)
        return f"mean and standard deviation of {n} runs" if n > 1 else "one run"

    @property
    def is_shortened(self) -> bool:
        """Whether it is smaller than the paper's experiment."""
        return bool(shortened(self.setting))

    @cached_property
    def _unofficial(self) -> dict[str, int]:
        """Rows of the data sets whose files were not official."""
        rows: dict[str, int] = {}
        for name, described in self.setting["sets"].items():
            data = name.partition("/")[0]
            if not described["official"]:
                rows[data] = rows.get(data, 0) + described["rows"]
        return rows

    def title(self, name: str = "data") -> str:
        """The data set's title, with its marks, such as "shortened"."""
        data = self.setting[name]
        described = datasets.describe(data)
        marks = ["shortened"] * self.is_shortened
        if data in self._unofficial:
            marks.append("not official" if described.files else "stand-in")
        return f"{described.title} ({', '.join(marks)})" if marks else described.title

    @property
    def marks(self) -> list[str]:
        """The marks as sentences, and whether there are fewer runs than the paper's."""
        sentences = []
        title = self.title("ood" if "ood" in self.setting else "data")
        if self.is_shortened:
            sentences.append(f"{title} is shortened: {shortened(self.setting)}.")
        for data, rows in self._unofficial.items():
            described = datasets.describe(data)
            kind = "not the official files" if described.files else "in place of a set of the paper"
            sentences.append(f"{described.title}: {rows:,} rows, {kind}.")
        if not self.setting.get("weights", {}).get("official", True):
            sentences.append("The weights are not the published ones.")
        for method in dict.fromkeys(stored.cell.setting.get("method") for stored in self.results):
            runs = len(Group(self.where(method=method)).runs)
            if runs < Protocol().runs:
                subject = f"{title}, {method}" if method else title
                plural = "s" if runs > 1 else ""
                sentences.append(f"{subject}: {runs} run{plural} instead of {Protocol().runs}.")
        return sentences


def groups(results: Iterable[Stored], experiment: str, data: str) -> list[Group]:
    """The results of an experiment and a data set, grouped by setting; those in full size first."""
    by_setting: dict[str, list[Stored]] = {}
    for stored in results:
        setting = stored.cell.setting
        if (stored.cell.experiment, setting["data"]) == (experiment, data):
            shared = {name: value for name, value in setting.items() if name not in _DIFFER}
            by_setting.setdefault(json.dumps(shared), []).append(stored)
    return sorted(
        map(Group, by_setting.values()), key=lambda group: (group.is_shortened, -len(group.results))
    )


# -- numbers over runs -----------------------------------------------------------------------------


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation over runs; the number alone where there was one run."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


@dataclass(frozen=True)
class Advantage:
    """By how much one choice was better than another, run by run.

    Attributes
    ----------
    values : tuple of float
        One number for each run, positive where the choice was better.
    """

    values: tuple[float, ...]

    @classmethod
    def smaller(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Advantage:
        """The advantage of smaller numbers, over the runs that both have."""
        return cls(tuple(theirs[run] - ours[run] for run in ours if run in theirs))

    @classmethod
    def larger(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Advantage:
        """The advantage of larger numbers, over the runs that both have."""
        return cls.smaller(theirs, ours)

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean; None for a single run."""
        n = len(self.values)
        if n < 2:
            return None
        half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * np.std(self.values, ddof=1) / np.sqrt(n)
        return self.mean - half, self.mean + half

    @property
    def verdict(self) -> str:
        """Whether the choice is better; a single run does not show how much runs vary."""
        if self.interval is None:
            return f"{UNDECIDED}: one run, {YES if self.mean > 0 else NO}"
        low, high = self.interval
        return YES if low > 0 else NO if high < 0 else UNDECIDED

    def __str__(self) -> str:
        runs = f"{len(self.values)} run{'s' * (len(self.values) > 1)}"
        if self.interval is None:
            return f"{self.mean:+.2g} ({runs})"
        low, high = self.interval
        return f"{self.mean:+.2g} [{low:+.2g}, {high:+.2g}] ({runs})"


def best_rival(advantages: Mapping[str, Advantage]) -> str | None:
    """The rival with the least advantage over it; None if there is no rival."""
    means = {name: advantage.mean for name, advantage in advantages.items() if advantage.values}
    return min(means, key=lambda name: means[name]) if means else None


def draw_mean(ax: Any, x: np.ndarray, values: np.ndarray, i: int, label: str) -> None:
    """Draw the mean of curves ``(runs, points)`` and their spread, as the i-th line."""
    mean = values.mean(0)
    color = f"C{i}"
    ax.plot(x, mean, linewidth=1.3, color=color, linestyle=_DASHES[i % len(_DASHES)], label=label)
    if len(values) > 1:
        spread = values.std(0, ddof=1)
        ax.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
