"""Active learning beats random labels: on digits, with a small network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import scorewise as sw

SEEDS = range(4)


def train(X: np.ndarray, y: np.ndarray, seed: int) -> torch.nn.Module:
    """As the paper's network for grey images: dropout before the last layer."""

    def make() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(64, 100),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(100, 10),
        )

    ensemble = sw.DeepEnsemble(
        make, 1, epochs=50, batch_size=32, lr=0.01, device="cpu", random_state=seed
    )
    return ensemble.fit(X, y).members_[0]


def errors(**query: str) -> np.ndarray:
    """The test error after each round ``(R, T)``; seeds are other splits, rows and networks."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    runs = []
    for seed in SEEDS:
        X_pool, X_test, y_pool, y_test = train_test_split(
            X, y, test_size=797, stratify=y, random_state=seed
        )
        rounds = sw.active_learning(
            train,
            X_pool,
            y_pool,
            X_test=X_test,
            y_test=y_test,
            initial=20,
            per_round=40,
            budget=300,
            random_state=seed,
            **query,
        )
        runs.append([r.loss for r in rounds])
    return np.array(runs)


@pytest.fixture(scope="module")
def random() -> np.ndarray:
    return errors(method="random")


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "spherical"])
def test_epistemic_acquisition_beats_random_by_more_than_the_spread_over_seeds(rule, random):
    actual = errors(rule=rule)
    np.testing.assert_array_equal(actual[:, 0], random[:, 0])  # runs are paired
    gain = random[:, -1] - actual[:, -1]
    spread = max(random[:, -1].std(ddof=1), actual[:, -1].std(ddof=1))
    assert gain.mean() > spread, (actual[:, -1], random[:, -1])
    assert (gain > 0).all()
