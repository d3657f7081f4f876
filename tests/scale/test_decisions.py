"""Policies and costs applied to data sets: the same as to rows in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import scorewise as sw
from scale_support import N_MEMBERS, N_PARTITIONS, N_ROWS, contents, random_members, write_dataset
from scorewise.scale import Dataset, apply_to_dataset, decide_dataset

COSTS = sw.rules.cost_matrix(
    [[0, 5, 3], [20, 0, 3], [20, 3, 3]], actions=["dismiss", "treat", "refer"]
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "in")


@pytest.fixture(scope="module")
def policy() -> Any:
    probs = random_members(100, 500)
    labels = probs.mean(axis=1).argmax(axis=-1)
    return sw.certify(probs, labels, max_loss=0.1)


def test_a_policy_decides_the_same_as_in_memory(tmp_path, source, policy, client):
    applied = apply_to_dataset(policy, source, tmp_path / "out", scheduler=client)
    expected = policy.apply(sw.read_predictions(source))
    frame = pd.read_parquet(tmp_path / "out")
    assert [*frame.columns] == ["id", "prediction", "uncertainty", "accept"] == [*applied.columns]
    np.testing.assert_array_equal(frame["accept"], expected.accepted)
    np.testing.assert_array_equal(frame["uncertainty"], expected.uncertainty)
    np.testing.assert_array_equal(frame["prediction"], expected.labels)
    assert applied.n_accepted == expected.accepted.sum()
    assert applied.n_rows == N_PARTITIONS * N_ROWS


def test_drift_is_that_of_all_rows_together(tmp_path, source, policy, client):
    applied = apply_to_dataset(policy, source, tmp_path / "out", scheduler=client)
    drift, expected = applied.drift, policy.apply(sw.read_predictions(source)).drift
    assert (drift.p_value, drift.n_now) == (expected.p_value, expected.n_now)
    assert drift.mean_now == pytest.approx(expected.mean_now, rel=1e-12)
    assert not drift

    sharper = write_dataset(
        tmp_path / "sharper", change=lambda _, probs: np.copyto(probs, np.eye(3, dtype="f4")[0])
    )
    applied = apply_to_dataset(policy, sharper, tmp_path / "drifted", scheduler=client)
    assert applied.drift
    assert "do not look like" in repr(applied)


def test_a_policy_for_another_model_is_refused(tmp_path, source, client):
    probs = random_members(0, 100)[:, : N_MEMBERS - 1]
    policy = sw.certify(probs, np.zeros(100, int), max_loss=0.9)
    with pytest.raises(sw.InvalidInput, match="4 members and 3 classes"):
        apply_to_dataset(policy, source, tmp_path / "out", scheduler=client)
    with pytest.raises(sw.InvalidInput, match="policy must be a Policy"):
        apply_to_dataset("policy.json", source, tmp_path / "out", scheduler=client)
    assert not (tmp_path / "out").exists()


def test_another_policy_needs_another_folder(tmp_path, source, policy, client):
    apply_to_dataset(policy, source, tmp_path / "out", scheduler=client)
    before = contents(tmp_path / "out")
    probs = random_members(101, 500)
    other = sw.certify(probs, probs.mean(axis=1).argmax(axis=-1), max_loss=0.2)
    with pytest.raises(sw.InvalidInput, match="policy_sha256 was"):
        apply_to_dataset(other, source, tmp_path / "out", scheduler=client)
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("abstain_cost", [None, 2.8])
def test_actions_are_the_same_as_in_memory(tmp_path, source, client, abstain_cost):
    decided = decide_dataset(
        source, COSTS, tmp_path / "out", abstain_cost=abstain_cost, scheduler=client
    )
    expected = sw.decide(sw.read_predictions(source).samples, COSTS, abstain_cost)
    frame = pd.read_parquet(tmp_path / "out")
    expected_frame = expected.to_frame()
    assert [*frame.columns] == ["id", *expected_frame.columns]
    assert (frame["action"].to_numpy() == expected_frame["action"].to_numpy()).all()
    for name in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(frame[name], expected_frame[name])
    for row, expected_row in zip(decided.by_action(), expected.by_action(), strict=True):
        assert (row["action"], row["rows"]) == (expected_row["action"], expected_row["rows"])
        for name in ("total", "aleatoric", "epistemic"):
            assert row[name] == pytest.approx(expected_row[name], rel=1e-5, nan_ok=True)
    assert decided.resumed == 0
    assert "treat" in repr(decided)


def test_costs_that_do_not_fit_are_refused(tmp_path, source, client):
    with pytest.raises(sw.InvalidInput):
        decide_dataset(source, [[0, 1], [1, 0]], tmp_path / "out", scheduler=client)
    decide_dataset(source, COSTS, tmp_path / "out", scheduler=client)
    with pytest.raises(sw.InvalidInput, match="costs was"):
        decide_dataset(source, COSTS.costs + 1, tmp_path / "out", scheduler=client)


def test_a_data_set_is_read_once_for_several_works(tmp_path, source, policy, client):
    dataset = Dataset.of(source)
    for i, work in enumerate((apply_to_dataset, decide_dataset)):
        arguments = (policy, dataset) if work is apply_to_dataset else (dataset, COSTS)
        result = work(*arguments, tmp_path / f"out{i}", scheduler=client)
        assert result.n_partitions == N_PARTITIONS


def make_all_bad(partition: int, probs: np.ndarray) -> None:
    probs[:, 0] = 2


@pytest.mark.parametrize("corrupt", [False, True])
def test_a_result_says_that_all_rows_are_quarantined(tmp_path, policy, client, corrupt):
    source = write_dataset(tmp_path / "in", change=make_all_bad)
    dataset = Dataset.of(source)
    for path in source.iterdir() if corrupt else ():
        path.write_bytes(path.read_bytes()[:-100])
    options: Any = {"scheduler": client, "on_bad_rows": "quarantine"}
    applied = apply_to_dataset(policy, dataset, tmp_path / "applied", **options)
    decided = decide_dataset(dataset, COSTS, tmp_path / "decided", **options)
    assert (applied.n_rows, applied.n_accepted, applied.drift) == (0, 0, None)
    assert decided.n_rows == 0
    assert applied.quarantine_lines() == decided.quarantine_lines()
    expected = "5 more files could not" if corrupt else "320 invalid rows of 8 files"
    assert expected in repr(applied)
    assert "No row is valid" in repr(applied)
