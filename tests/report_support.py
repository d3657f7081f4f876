"""Evaluations to report: an ordinary one, a hostile one, a huge one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

import scorewise as sw
from scorewise.compare import (
    ClassSummary,
    Comparison,
    Evaluation,
    LearningEvaluation,
    Note,
    Standing,
    UncertainRow,
)
from scorewise.curves import rejection_curve

RUN = "window.pwned=1;document.title='pwned'"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"' onmouseover='{RUN}' x='",
    f'<a href="javascript:{RUN}">press</a>',
    f"<!--<script>{RUN}",
    "{{ 7 * 7 }}{% raw %}",
    "%{x}<extra>&lt;b&gt;</extra>",
    "$x_1$ #FFFFFF \u2028\u2029",
    "n" * 10_000,
    "עברית \u202eabc",
]


def members(n: int, k: int, seed: int = 0, m: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, m, k) of a calibrated model, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.3), size=n)
    y = np.array([rng.choice(k, p=p) for p in truth])
    probs = truth[:, None] * np.exp(rng.normal(scale=0.5, size=(n, m, k))) + 1e-9
    return probs / probs.sum(axis=-1, keepdims=True), y


def evaluated(n: int = 300, k: int = 3, ood: bool = False, **options: Any) -> Evaluation:
    """An evaluation of made-up members."""
    probs, y = members(n, k)
    outside = np.random.default_rng(1).dirichlet(np.ones(k), size=(n, 8)) if ood else None
    return sw.evaluate(probs, y, ood=outside, **{"n_resamples": 100, **options})


def standings(names: Iterable[str]) -> tuple[Standing, ...]:
    """The first is the best, the others are worse and worse."""
    return tuple(
        Standing(name, 0.1 + gap, gap, gap - 0.001, gap + 0.001, 0.5, "worse" if gap else "best")
        for name, gap in zip(names, count(0, 0.01), strict=False)
    )


def with_learning(evaluation: Evaluation, *names: str) -> Evaluation:
    """The same with runs of active learning."""
    labels = np.arange(10, 60, 10)
    rng = np.random.default_rng(0)
    curves = {
        name: (labels, 0.2 + 0.1 * rng.random((3, 5)) / (1 + i)) for i, name in enumerate(names)
    }
    comparison = Comparison("active", "zero-one", "mean loss", standings(names), 0.95)
    return replace(evaluation, learning=LearningEvaluation(curves, comparison))


def full(**options: Any) -> Evaluation:
    """An evaluation that fills every section of the page."""
    evaluation = evaluated(ood=True, class_names=["healthy", "doubtful", "ill"], **options)
    return with_learning(evaluation, "epistemic zero-one", "random")


def hostile() -> Evaluation:
    """An evaluation in which every name wants to be more than a name."""
    k = len(HOSTILE)
    rules = dict.fromkeys(HOSTILE, "brier")
    probs, y = members(200, k)
    evaluation = sw.evaluate(
        probs,
        y,
        rules=rules,
        class_names=HOSTILE,
        ood=probs[::-1, :, ::-1],
        n_resamples=100,
        ids=np.array([HOSTILE[i % k] for i in range(200)], dtype=object),
    )
    evaluation = replace(
        evaluation,
        unit=replace(evaluation.unit, noun=HOSTILE[0]),
        notes=tuple(map(Note, HOSTILE)),
        settings={HOSTILE[1]: HOSTILE},
        simplex=(np.full((3, 3), 1 / 3), np.arange(3)),
        class_names=tuple(HOSTILE[:3]),
    )
    return with_learning(evaluation, *HOSTILE)


def huge(n: int = 1_000_000, k: int = 1000, measures: int = 50) -> Evaluation:
    """As large as the page must bear; the curves share their arrays."""
    rng = np.random.default_rng(0)
    small = evaluated(ood=True)
    losses = (rng.random(n) < 0.1).astype(float)
    curve = rejection_curve(losses, rng.random(n))
    names = [f"measure {i} {'of a long name ' * 5}" for i in range(measures)]
    classes = tuple(
        ClassSummary(f"class {i} {'x' * 300}", 1000, i / k, 0.1, 0.05, 0.05, 0.9, 0.01)
        for i in range(k)
    )
    uncertain_rows = tuple(
        UncertainRow(
            i,
            f"row {i} {'y' * 300}",
            classes[0].name,
            classes[1].name,
            True,
            1.0,
            0.9,
            0.4,
            0.5,
            tuple(summary.name for summary in classes[:6]),
            rng.dirichlet(np.ones(6), 1000),
            np.full(6, 1 / 6),
        )
        for i in range(1000)
    )
    assert small.ood is not None
    scores = rng.random(n)
    return replace(
        small,
        n_rows=n,
        n_classes=k,
        measure=names[1],
        curves=dict.fromkeys(names, curve),
        comparison=replace(small.comparison, standings=standings(names)),
        classes=classes,
        class_names=tuple(summary.name for summary in classes),
        simplex=None,
        uncertain_rows=uncertain_rows,
        ood=replace(small.ood, u_in=scores, u_out=scores + 0.5),
    )
