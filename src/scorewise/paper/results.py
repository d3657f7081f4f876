"""Stored results put together: runs of one setting, and what is to be said of that setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scorewise import datasets
from scorewise._json import dumps
from scorewise.paper.cells import Stored
from scorewise.paper.setup import Protocol, shortened

_OF_A_CELL = {"run", "measure", "method", "members", "sets"}


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
            one for one in self.results
            if all(one.cell.setting.get(name) == value for name, value in wanted.items())
        ]  # fmt: skip
        return sorted(found, key=lambda one: int(one.cell.setting["run"]))

    def values(self, name: str) -> list[Any]:
        """The different values of a setting, in their order."""
        return list(dict.fromkeys(one.cell.setting[name] for one in self.results))

    @property
    def papers_runs(self) -> Group:
        """The first runs, as many as the paper has."""
        few = [one for one in self.results if one.cell.setting["run"] < Protocol().runs]
        return Group(few or self.results)

    @property
    def is_shortened(self) -> bool:
        """Whether it is smaller than the paper's."""
        return bool(shortened(self.setting))

    @property
    def marks(self) -> list[str]:
        """What must be said beside every number: data that are not official, a shorter run."""
        found = []
        short = shortened(self.setting)
        if short:
            found.append(f"Shortened: {short}.")
        found += unofficial(self.results)
        if not self.setting.get("weights", {}).get("official", True):
            found.append("The weights are not the published ones.")
        runs = len(self.values("run"))
        if runs < Protocol().runs:
            found.append(f"{runs} run{'s' * (runs > 1)} instead of {Protocol().runs}.")
        return found


def groups(results: Iterable[Stored], kind: str, data: str) -> list[Group]:
    """The results of a kind and a data set, those of one setting together.

    Other data, official or not, make another setting. Those as large as the paper's come first.
    """
    found: dict[str, list[Stored]] = {}
    for one in results:
        setting = one.cell.setting
        if (one.cell.kind, setting["data"]) == (kind, data):
            common = {name: value for name, value in setting.items() if name not in _OF_A_CELL}
            common["sets"] = {
                # the digest of a set that was split by the run's seed is another for each run
                name: (described["official"], described["rows"])
                for name, described in setting["sets"].items()
            }
            found.setdefault(dumps(common), []).append(one)
    made = [Group(one) for one in found.values()]
    return sorted(made, key=lambda group: (group.is_shortened, -len(group.results)))


def unofficial(results: Sequence[Stored]) -> list[str]:
    """A sentence for each data set that was not the official one."""
    rows: dict[str, dict[str, int]] = {}
    for one in results:
        for name, described in one.cell.setting["sets"].items():
            if not described["official"]:
                data, _, split = name.partition("/")
                rows.setdefault(data, {})[split] = described["rows"]
    return [
        f"{datasets.describe(data).title}: {sum(by_split.values()):,} rows, "
        f"{'not the official files' if datasets.describe(data).files else 'a stand-in'}."
        for data, by_split in rows.items()
    ]
