"""How fast is calibrating, and does it find the best map? Ratios measured in one run.

    python benchmarks/calibrate.py [--quick] [--write]

Matrix scaling with its five folds is compared with one fit of scikit-learn's multinomial logistic
regression on the log probabilities, which is the same model without a prior. Moving the members is
compared with decomposing them under the four rules of the paper.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.linear_model import LogisticRegression

import scorewise as sw
from measuring import (
    Others,
    Sheet,
    draw_logits,
    fastest,
    machine,
    options,
    peak_memory,
    softmax,
    write_between,
)

SECONDS = 60  # "well under a minute" for 100,000 rows of 20 members and 10 classes
FOUR = ["log", "brier", "zero-one", "spherical"]


def overconfident(n: int, m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Members whose mean is too certain and favours some classes, and labels."""
    rng = np.random.default_rng(1)
    logits = 0.5 * draw_logits("doubtful", n, m, k).astype(np.float32)
    truth = softmax(logits.mean(1) + np.linspace(-1, 1, k))
    y = (truth.cumsum(axis=-1) > rng.uniform(size=(n, 1))).argmax(axis=-1)
    return softmax(2 * logits), y


def measure(n: int, m: int, k: int, method: str) -> list[str]:
    probs, y = overconfident(n, m, k)
    fit = partial(sw.fit_calibration, probs, y, method=method, progress=False)
    calibration = fit()
    transform = partial(calibration.transform, probs)
    decompose = partial(sw.decompose, probs, FOUR)
    seconds, moving, decomposing = fastest([fit, transform, decompose], rounds=1)
    share = (seconds + moving) / SECONDS
    return [
        f"({n:,}, {m}, {k:,})",
        f"{method}: {calibration.method}" if method == "auto" else method,
        *(rival(probs, y, calibration, seconds) if method == "matrix" else ("", "")),
        f"{moving / decomposing:.0f}",
        f"{peak_memory(transform) / probs.nbytes:.1f}",
        f"{100 * share:.0f} %",
        "yes" if share <= 1 else f"no: {100 * share:.0f} % of {SECONDS} s",
    ]


def rival(
    probs: np.ndarray, y: np.ndarray, calibration: sw.calibrate.Calibration, seconds: float
) -> tuple[str, str]:
    """Time over that of a logistic regression, and how much smaller its log loss is."""
    features = np.log(np.maximum(probs.mean(1, dtype=np.float64), 1e-6))
    regression = LogisticRegression(max_iter=1000)
    [regression_seconds] = fastest([partial(regression.fit, features, y)], rounds=1)
    predicted = regression.predict_proba(features)[np.arange(len(y)), y]
    loss = sw.task_losses(calibration.predict_proba(probs)[:, None], y, "log").mean()
    return f"{seconds / regression_seconds:.2f}", f"{loss + np.log(predicted).mean():+.5f}"


def main() -> None:
    chosen = options(__doc__)
    cases = [
        (100_000, 20, 10, "auto"),
        (100_000, 20, 10, "matrix"),
        (20_000, 20, 100, "auto"),
        (5_000, 20, 1_000, "vector"),
    ]
    if chosen.quick:
        cases = [(2_000, 5, 10, "matrix"), (1_000, 5, 100, "vector")]
    others = Others()
    rows = [measure(*case) for case in track(cases, description="Measuring")]
    sheet = Sheet(
        "Calibrating: fit_calibration with five folds, and transform",
        [
            "members",
            "method",
            "fit, over LogisticRegression",
            "log loss less that of LogisticRegression",
            "transform, over decomposing under four rules",
            "memory of transform, over the members",
            f"share of {SECONDS} s, fit and transform",
            "met",
        ],
        rows,
        2,
    )
    text = f"Measured on {machine()}. {others}"
    console = Console(width=128)
    console.print(sheet.rich())
    console.print(text)
    if chosen.write:
        write_between("calibrate", f"{text}\n\n{sheet.markdown()}")


if __name__ == "__main__":
    main()
