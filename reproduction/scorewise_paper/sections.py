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

_DIFFER = {"run", "measure", "method", "members", "predictions"}  # within a group
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


# -- the parts of a section ------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table of text; ``best`` has the (row, column) of the best values."""

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
    """A statement, of the paper unless it says otherwise, and whether it holds.

    Attributes
    ----------
    claim : str
        The statement.
    where : str
        The data and setting on which it was tested.
    verdict, evidence : str
        Whether it holds there, and the numbers that show it.
    unit : str
        The unit of the numbers.
    counts : bool
        Whether the verdict counts; those of shortened runs are only shown.
    is_tabulated : bool
        Whether the page tabulates the evidence with that of other claims; if not, the experiment's
        own section does.
    """

    claim: str
    where: str
    verdict: str
    evidence: str
    unit: str
    counts: bool = True
    is_tabulated: bool = True


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

    def select(self, **values: Any) -> list[Stored]:
        """Return the results whose settings have these values, in the order of their runs."""
        chosen = [
            stored
            for stored in self.results
            if all(stored.cell.setting.get(name) == value for name, value in values.items())
        ]
        return sorted(chosen, key=lambda stored: int(stored.cell.setting["run"]))

    def by_run(self, number: Callable[[Stored], float], **values: Any) -> dict[int, float]:
        """Return a number for each run."""
        chosen = self.select(**values)
        return {int(stored.cell.setting["run"]): float(number(stored)) for stored in chosen}

    @property
    def runs(self) -> set[int]:
        """The runs that have results."""
        return {int(stored.cell.setting["run"]) for stored in self.results}

    @cached_property
    def paper_runs(self) -> Group:
        """The first runs, as many as in the paper."""
        first = [x for x in self.results if x.cell.setting["run"] < Protocol().runs]
        return Group(first or self.results)

    @property
    def over_runs(self) -> str:
        """How many runs a number or a line is the mean of, in words."""
        n = len(self.runs)
        return f"mean and standard deviation of {n} runs" if n > 1 else "one run"

    @property
    def shown_runs(self) -> str:
        """The runs that a table shows, in words."""
        n, n_shown = len(self.runs), len(self.paper_runs.runs)
        return f"the first {n_shown} of {n} runs" if n_shown < n else self.over_runs

    @property
    def stand_in_network(self) -> str:
        """The network and that of the paper, in words, if they differ; else empty."""
        weights = self.setting.get("weights", {})
        if "in_place_of" not in weights:
            return ""
        return f"{weights['network']} in place of {weights['in_place_of']}"

    @property
    def is_shortened(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return bool(shortened(self.setting))

    @cached_property
    def _unofficial(self) -> dict[str, int]:
        """The number of rows of each data set whose files were not official."""
        rows: dict[str, int] = {}
        for name, described in self.setting["sets"].items():
            data = name.partition("/")[0]
            if not described["official"]:
                rows[data] = rows.get(data, 0) + described["rows"]
        return rows

    def title(self, name: str = "data") -> str:
        """Return the data set's title, with its marks, such as "shortened".

        A network that stands in for that of the paper is a mark of the data in distribution.
        """
        data = self.setting[name]
        described = datasets.describe(data)
        marks = ["shortened"] * self.is_shortened
        if data in self._unofficial:
            marks.append("stand-in" if described.is_stand_in else "not official")
        if name == "data" and self.stand_in_network:
            marks.append(self.stand_in_network)
        return f"{described.title} ({', '.join(marks)})" if marks else described.title

    @property
    def marks(self) -> list[str]:
        """The marks as sentences, and sentences about methods with fewer runs than in the paper."""
        sentences = []
        title = self.title("ood" if "ood" in self.setting else "data")
        if self.is_shortened:
            sentences.append(f"{title} is shortened: {shortened(self.setting)}.")
        for data, rows in self._unofficial.items():
            described = datasets.describe(data)
            stand_in = "a stand-in for a set of the paper"
            kind = stand_in if described.is_stand_in else "not the official files"
            sentences.append(f"{described.title}: {rows:,} rows, {kind}.")
        if self.stand_in_network:
            sentences.append(f"The network is {self.stand_in_network}.")
        elif not self.setting.get("weights", {}).get("official", True):
            sentences.append("The weights are not the published ones.")
        if "set_aside" in self.setting:
            sentences.append(
                f"There are no training images: in each run, {self.setting['set_aside']:,} rows "
                f"of {datasets.describe(self.setting['data']).title} are set aside at random for "
                "the Laplace approximation, and all methods are tested on the others."
            )
        if "curvature_rows" in self.setting:
            sentences.append(
                "The curvature of the Laplace approximation is scaled to the "
                f"{self.setting['curvature_rows']:,} images that the network was trained on, and "
                "its prior precision, elsewhere 1, maximises the marginal likelihood."
            )
        for method in dict.fromkeys(stored.cell.setting.get("method") for stored in self.results):
            runs = len(Group(self.select(method=method)).runs)
            if runs < Protocol().runs:
                subject = f"{title}, {method}" if method else title
                plural = "s" if runs > 1 else ""
                sentences.append(f"{subject}: {runs} run{plural} instead of {Protocol().runs}.")
        return sentences


def groups(results: Iterable[Stored], experiment: str, data: str) -> list[Group]:
    """Return the results of an experiment and a data set by setting, shortened ones last."""
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


def mean_and_deviation(values: Sequence[float], digits: int = 3) -> str:
    """Return "mean ± standard deviation" over runs; of a single run, its number."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


@dataclass(frozen=True)
class Advantage:
    """How much better one choice was than another, run by run.

    Attributes
    ----------
    values : tuple of float
        One number for each run, positive where the choice was better.
    """

    values: tuple[float, ...]

    @classmethod
    def smaller(cls, values: Mapping[int, float], rival_values: Mapping[int, float]) -> Advantage:
        """Return the advantage of smaller numbers, over the runs that both have."""
        shared = [run for run in values if run in rival_values]
        return cls(tuple(rival_values[run] - values[run] for run in shared))

    @classmethod
    def larger(cls, values: Mapping[int, float], rival_values: Mapping[int, float]) -> Advantage:
        """Return the advantage of larger numbers, over the runs that both have."""
        return cls.smaller(rival_values, values)

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
        """Whether the choice is better; undecided after a single run, which has no interval."""
        if self.interval is None:
            return f"{UNDECIDED}: one run, {YES if self.mean > 0 else NO}"
        low, high = self.interval
        return YES if low > 0 else NO if high < 0 else UNDECIDED

    @property
    def text(self) -> str:
        """The mean, with its interval if there is one."""
        if self.interval is None:
            return f"{self.mean:+.2g}"
        low, high = self.interval
        return f"{self.mean:+.2g} [{low:+.2g}, {high:+.2g}]"

    def __str__(self) -> str:
        return f"{self.text} ({len(self.values)} run{'s' * (len(self.values) > 1)})"


def best_rival(advantages: Mapping[str, Advantage]) -> str | None:
    """Return the rival over which the advantage is smallest; None if there is no rival."""
    means = {name: advantage.mean for name, advantage in advantages.items() if advantage.values}
    return min(means, key=lambda name: means[name]) if means else None


def draw_mean(ax: Any, x: np.ndarray, values: np.ndarray, i: int, label: str) -> None:
    """Draw the mean and standard deviation of curves ``(runs, points)``, as the i-th line."""
    mean = values.mean(0)
    color = f"C{i}"
    ax.plot(x, mean, linewidth=1.3, color=color, linestyle=_DASHES[i % len(_DASHES)], label=label)
    if len(values) > 1:
        deviation = values.std(0, ddof=1)
        ax.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
