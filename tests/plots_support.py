"""What the tests of the displays share: small inputs, and drawing without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import scorewise as sw
from scorewise.compare import Comparison, Standing
from scorewise.decide import Decisions
from scorewise.plots import OODDisplay
from support import members

HOSTILE = ["$x_", "_hidden", "$a$ b^{", "two\nlines", "n" * 150 + "a" * 50, "n" * 150 + "b" * 50]
COSTS = [[0, 5, 1], [50, 0, 2]]
GAINS = [[-10, 30, -2], [40, -90, -2]]
MOST_POINTS = 2000  # more than any figure resolves


def predictions(n: int = 60, m: int = 5, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(k, 0.7), size=(n, m)), rng.integers(k, size=n)


def standing(
    name: str, behind: float, half: float, verdict: str, same: str | None = None
) -> Standing:
    return Standing(name, 0.1 + behind, behind, behind - half, behind + half, 0.5, verdict, same)


def comparison(names: Sequence[str] = ("best one", "twin", "close", "far", "far twin")) -> Any:
    a, b, c, d, e = names
    rows = (
        standing(a, 0.0, 0.0, "best"),
        standing(b, 0.0, 0.0, "indistinguishable", a),
        standing(c, 0.01, 0.02, "indistinguishable"),
        standing(d, 0.05, 0.02, "worse"),
        standing(e, 0.05, 0.02, "worse", d),
    )
    return Comparison("selective", "zero-one", "aulc", rows, 0.95)


def curve(n_runs: int = 5, n_rounds: int = 15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels, and noisy losses that fall."""
    noise = np.random.default_rng(seed).uniform(0, 0.05, (n_runs, n_rounds))
    return 10 * np.arange(1, n_rounds + 1), 0.5 * 0.8 ** np.arange(n_rounds) + noise


def curves(names: Sequence[str] = ("total", "epistemic", "random", "BALD", "entropy")) -> Any:
    return {name: curve(seed=i) for i, name in enumerate(names)}


def decisions(costs: Any = COSTS, **options: Any) -> Decisions:
    return sw.decide(members(60, 5, 2, concentration=0.7), costs, **options)


def draw(display: Any) -> Any:
    """The display on Axes of a figure that pyplot does not know."""
    figure = Figure(figsize=(9, 5))
    return display.plot(
        figure.subplots(1, 2) if isinstance(display, OODDisplay) else figure.subplots()
    )


def render(display: Any) -> Any:
    """The same, with all artists in their places."""
    draw(display).figure_.canvas.draw()
    return display


def legend_texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]
