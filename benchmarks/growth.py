"""How does `decompose` grow? Time per number for few and many instances, few and many classes.

    python benchmarks/growth.py [--quick] [--write]

Prints two tables and draws `benchmarks/growth.png` (`out/growth.png` with --quick). The unit is
the time that `np.sum` takes per number of a large array, measured by turns with everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import track

import scorewise as sw
from measuring import (
    HERE,
    N_MEMBERS,
    RULES,
    Others,
    Sheet,
    Work,
    fastest,
    fill_with_members,
    machine,
    options,
    write_between,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGE = 20_000_000  # numbers, far more than caches hold
FEW_CLASSES = 10
QUICK = 500_000

INSTANCES = [c * 10**e for e in range(6) for c in (1, 2, 5)] + [1_000_000]
CLASSES = [2, 3, 5, 10, 20, 50, 100, 150, 200, 500, 1_000, 2_000, 5_000, 10_000]

COLOURS = {"float32": "#0072B2", "float64": "#D55E00"}
STYLES = {"doubtful": ("o", "-"), "near-agreeing": ("s", "--")}
SERIES = [(dtype, kind) for dtype in COLOURS for kind in STYLES]


@dataclass(frozen=True)
class Setting:
    """An array to measure on."""

    sweep: str  # what grows: N or K
    n: int
    k: int
    dtype: str
    kind: str

    @property
    def x(self) -> int:
        """What grows."""
        return self.n if self.sweep == "N" else self.k


@dataclass(frozen=True)
class Point:
    """Times per number, over that of np.sum on a large array."""

    setting: Setting
    decompose: float
    np_sum: float  # on the same array

    def is_of(self, dtype: str, kind: str) -> bool:
        """Whether it was measured on such members."""
        return (self.setting.dtype, self.setting.kind) == (dtype, kind)


def all_settings(quick: bool) -> list[Setting]:
    """N grows with K fixed, then K with the size fixed."""
    size = QUICK if quick else LARGE
    shapes = [("N", n, FEW_CLASSES) for n in INSTANCES if n <= 100_000 or not quick]
    shapes += [("K", size // (N_MEMBERS * k), k) for k in CLASSES]
    return [Setting(*shape, dtype, kind) for shape in shapes for dtype, kind in SERIES]


def measure(setting: Setting, large: np.ndarray) -> Point:
    """One point of the picture."""
    array = np.empty((setting.n, N_MEMBERS, setting.k), setting.dtype)
    fill_with_members(array, setting.kind)
    works: list[Work] = [lambda: sw.decompose(array, RULES), array.sum, large.sum]
    ours, same, unit = fastest(works, rounds=5 if array.size >= LARGE else 9)
    unit *= array.size / large.size
    return Point(setting, ours / unit, same / unit)


def sheet(sweep: str, points: Sequence[Point]) -> Sheet:
    """The numbers behind one half of the picture."""
    by_place = {(p.setting.x, p.setting.dtype, p.setting.kind): p for p in points}
    xs = sorted({p.setting.x for p in points if p.setting.sweep == sweep})
    rows = []
    for x in xs:
        row = [by_place[x, *series] for series in SERIES]
        rows.append([f"{x:,}", *(f"{p.decompose:.2f}" for p in row)])
    title = {
        "N": f"N grows, {N_MEMBERS} members, {FEW_CLASSES} classes",
        "K": f"K grows, {N_MEMBERS} members, as many numbers in all",
    }[sweep]
    return Sheet(title, [sweep, *map(", ".join, SERIES)], rows, n_labels=1)


def draw(points: Sequence[Point], path: Path) -> None:
    """Both sweeps side by side, in one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, sweep in ((left, "N"), (right, "K")):
        draw_sweep(axes, [p for p in points if p.setting.sweep == sweep])
    left.set(xlabel="instances N", title=f"{N_MEMBERS} members, {FEW_CLASSES} classes")
    size = max(p.setting.n * N_MEMBERS * p.setting.k for p in points if p.setting.sweep == "K")
    right.set(xlabel="classes K", title=f"{N_MEMBERS} members, {size / 1e6:.0f} million numbers")
    left.set_ylabel("time per number / that of np.sum on a large array")
    title = "Time per number of decompose (4 rules, 3 components) as arrays grow"
    figure.suptitle(f"{title}; {machine()}")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_sweep(axes: Axes, points: Sequence[Point]) -> None:
    """The lines of one half."""
    for kind in STYLES:
        for dtype in COLOURS:
            draw_decompose(axes, [p for p in points if p.is_of(dtype, kind)], dtype, kind)
    for dtype in COLOURS:
        draw_np_sum(axes, [p for p in points if p.is_of(dtype, "doubtful")], dtype)
    axes.set(xscale="log", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def draw_decompose(axes: Axes, points: Sequence[Point], dtype: str, kind: str) -> None:
    """One line."""
    marker, line = STYLES[kind]
    axes.plot(
        [p.setting.x for p in points],
        [p.decompose for p in points],
        color=COLOURS[dtype],
        linestyle=line,
        marker=marker,
        markersize=5,
        label=f"{dtype}, {kind}",
    )


def draw_np_sum(axes: Axes, points: Sequence[Point], dtype: str) -> None:
    """The yardstick itself on the same arrays: not 1 where they are small."""
    xs, ys = [p.setting.x for p in points], [p.np_sum for p in points]
    axes.plot(xs, ys, color=COLOURS[dtype], linestyle=":", label=f"{dtype}, np.sum itself")


def main() -> None:
    chosen = options(__doc__)
    large = {dtype: np.ones(LARGE, dtype) for dtype in COLOURS}
    others = Others()
    points = [
        measure(setting, large[setting.dtype])
        for setting in track(all_settings(chosen.quick), description="Growing")
    ]
    console = Console(width=128)
    sheets = [sheet(sweep, [p for p in points if p.setting.sweep == sweep]) for sweep in "NK"]
    for table in sheets:
        console.print(table.rich())
    console.print(str(others))
    draw(points, HERE.parent / "out/growth.png" if chosen.quick else HERE / "growth.png")
    if chosen.write:
        text = f"Measured on {machine()}. {others}"
        write_between("growth", "\n\n".join([text, *(table.markdown() for table in sheets)]))


if __name__ == "__main__":
    main()
