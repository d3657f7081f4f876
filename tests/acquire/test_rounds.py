"""Rounds: what they hold, when they stop, and the curves of several runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import scorewise as sw
from active_support import X, Y, assert_adds_up, rounds_of
from scorewise.acquire import Round

# -- a round ---------------------------------------------------------------------------------------


def test_a_round_copies_its_arrays_and_freezes_them():
    rows = np.arange(3)
    finished = Round(0, rows, [1, 2, 3], None, 3, None)
    rows[0] = 7
    assert finished.rows.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        finished.rows[0] = 1
    assert replace(finished, model=None).labels.tolist() == [1, 2, 3]


def test_without_test_rows_there_is_no_loss():
    rounds = rounds_of(X_test=None, y_test=None)
    assert_adds_up(rounds)
    assert all(r.loss is None for r in rounds)
    assert repr(rounds[-1]) == "Round(3: 30 labels, stopped by budget)"
    assert repr(rounds_of()[0]).startswith("Round(0: 12 labels, loss 0.")


# -- when to stop ----------------------------------------------------------------------------------


def scripted(losses: list[float]) -> Any:
    """The model of round i is wrong about so large a part of 10 test rows."""

    class Says(GaussianNB):
        def predict_proba(self, X: Any) -> np.ndarray:
            if len(X) != 10 or X[0, 0] != -1:
                return super().predict_proba(X)
            wrong = np.arange(10) < 10 * losses[min((len(self.y_) - 12) // 8, len(losses) - 1)]
            return np.eye(2)[np.where(wrong, 1, 0)]

        def fit(self, X: Any, y: Any) -> Any:
            self.y_ = y
            return super().fit(X, y)

    return Says()


@pytest.mark.parametrize(
    ("losses", "options", "stop", "n_rounds"),
    [
        ([0.5, 0.4, 0.3, 0.2], {"target_loss": 0.3}, "target", 3),
        ([0.5, 0.4, 0.3, 0.2], {"target_loss": 0.29}, "target", 4),
        ([0.5, 0.5, 0.4], {"patience": 1}, "plateau", 2),
        ([0.5, 0.5, 0.4, 0.4, 0.4], {"patience": 2}, "plateau", 5),
        ([0.5, 0.6, 0.5, 0.4], {"patience": 2}, "plateau", 3),
        ([0.5, 0.4, 0.4, 0.3, 0.1], {"patience": 2, "tolerance": 0.15}, "plateau", 3),
        ([0.5, 0.4, 0.3, 0.1, 0.1, 0.1], {"patience": 2, "tolerance": 0.15}, "plateau", 6),
        ([0.5, 0.4, 0.3], {"patience": 3}, "plateau", 6),
        ([0.5, 0.4, 0.1], {"target_loss": 0.1, "budget": 28}, "target", 3),
        ([0.5, 0.4, 0.1], {"patience": 1, "budget": 28}, "budget", 3),
        ([0.5], {}, "budget", 12),
    ],
)
def test_a_run_stops_at_the_target_the_budget_or_a_plateau(losses, options, stop, n_rounds):
    y, tests = (Y == 1).astype(int), np.full((10, 4), -1.0)
    rounds = rounds_of(
        scripted(losses),
        X,
        y,
        X_test=tests,
        y_test=[0] * 10,
        component="total",
        **({"budget": None} | options),
    )
    measured = [r.loss for r in rounds]
    np.testing.assert_allclose(measured[: len(losses)], losses[:n_rounds], atol=1e-12)
    assert (rounds[-1].stop, len(rounds)) == (stop, n_rounds)
    assert not any(r.stop for r in rounds[:-1])
    if "budget" not in options and stop == "budget":
        assert rounds[-1].n_labelled == 100


# -- runs that are compared ------------------------------------------------------------------------


def test_runs_are_compared_at_the_numbers_of_labels_that_all_reached():
    runs = {
        "fast": [rounds_of(per_round=8, budget=36, random_state=s) for s in range(2)],
        "slow": [rounds_of(per_round=4, budget=20, random_state=s) for s in range(2)],
    }
    shared = {
        name: [[r.loss for r in run if r.n_labelled in (12, 20)] for run in several]
        for name, several in runs.items()
    }
    actual, expected = (sw.compare(task="active", runs=losses) for losses in (runs, shared))
    assert str(actual) == str(expected)
    runs["slow"] = [[replace(r, n_labelled=r.n_labelled + 1) for r in run] for run in runs["slow"]]
    with pytest.raises(sw.InvalidInput, match=r"no number of labels in common.*13"):
        sw.compare(task="active", runs=runs)
