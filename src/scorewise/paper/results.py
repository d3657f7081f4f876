"""Stored results put together: runs of one setting, and what is to be said of that setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scorewise import datasets
from scorewise._json import dumps
from scorewise.paper.cells import Stored
from scorewise.paper.setup import Protocol, shortened

_OF_A_CELL = {"run", "measure", "method", "members"}


@dataclass(frozen=True)
class Group:
    """Results that differ by run, measure and method alone."""

    results: Sequence[Stored]

    @property
    def setting(self) -> Any:
        """What they have in common (and, of the rest, that of the first)."""
        return self.results[0].cell.setting

    def of(self, **wanted: Any) -> list[Stored]:
        """Those with the given values in their setting, by run."""
        found = [
            one
            for one in self.results
            if all(one.cell.setting.get(name) == value for name, value in wanted.items())
        ]
        return sorted(found, key=lambda one: int(one.cell.setting["run"]))

    def by_run(self, value: Callable[[Stored], float], **wanted: Any) -> dict[int, float]:
        """A number of each run."""
        return {int(one.cell.setting["run"]): float(value(one)) for one in self.of(**wanted)}

    def values(self, name: str) -> list[Any]:
        """The different values of a setting, in their order."""
        return list(dict.fromkeys(one.cell.setting[name] for one in self.results))

    @cached_property
    def papers_runs(self) -> Group:
        """The first runs, as many as the paper has."""
        few = [one for one in self.results if one.cell.setting["run"] < Protocol().runs]
        return Group(few or self.results)

    @property
    def over_runs(self) -> str:
        """What numbers and lines are of, in words."""
        n = len(self.values("run"))
        return f"mean and standard deviation of {n} runs" if n > 1 else "one run"

    @property
    def is_shortened(self) -> bool:
        """Whether it is smaller than the paper's."""
        return bool(shortened(self.setting))

    @cached_property
    def _unofficial(self) -> dict[str, int]:
        """Rows of the data sets that were not the official ones."""
        found: dict[str, int] = {}
        for name, described in self.setting["sets"].items():
            data = name.partition("/")[0]
            if not described["official"]:
                found[data] = found.get(data, 0) + described["rows"]
        return found

    def title(self, name: str = "data") -> str:
        """What the data set is called, with what must be said beside every number."""
        data = self.setting[name]
        known = datasets.describe(data)
        doubts = ["shortened"] * self.is_shortened
        if data in self._unofficial:
            doubts.append("not official" if known.files else "stands in")
        return f"{known.title} ({', '.join(doubts)})" if doubts else known.title

    @property
    def marks(self) -> list[str]:
        """The same in full, and whether there are fewer runs than the paper's."""
        found = []
        title = self.title("ood" if "ood" in self.setting else "data")
        if self.is_shortened:
            found.append(f"{title} is shortened: {shortened(self.setting)}.")
        for data, rows in self._unofficial.items():
            known = datasets.describe(data)
            kind = "not the official files" if known.files else "in place of a set of the paper"
            found.append(f"{known.title}: {rows:,} rows, {kind}.")
        if not self.setting.get("weights", {}).get("official", True):
            found.append("The weights are not the published ones.")
        for method in dict.fromkeys(one.cell.setting.get("method") for one in self.results):
            runs = len({one.cell.setting["run"] for one in self.of(method=method)})
            if runs < Protocol().runs:
                who = f"{title}, {method}" if method else title
                found.append(f"{who}: {runs} run{'s' * (runs > 1)} instead of {Protocol().runs}.")
        return found


def groups(results: Iterable[Stored], kind: str, data: str) -> list[Group]:
    """The results of a kind and a data set, those of one setting together.

    Those as large as the paper's come first.
    """
    found: dict[str, list[Stored]] = {}
    for one in results:
        setting = one.cell.setting
        if (one.cell.kind, setting["data"]) == (kind, data):
            common = {name: value for name, value in setting.items() if name not in _OF_A_CELL}
            found.setdefault(dumps(common), []).append(one)
    made = [Group(one) for one in found.values()]
    return sorted(made, key=lambda group: (group.is_shortened, -len(group.results)))
