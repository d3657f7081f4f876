"""Policies and calibrations from a folder are those of the same rows in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

import scorewise as sw
from scorewise.scale import Dataset, calibrate_dataset, certify_dataset


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as client:
        yield client


def held_out(n: int, seed: int = 0, m: int = 4, sharpness: float = 1.0):
    """Members and labels of rows whose mean is roughly calibrated, if the sharpness is 1."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(3, 0.3), size=n)
    y = (truth.cumsum(axis=-1) > rng.uniform(size=(n, 1))).argmax(axis=-1)
    probs = truth[:, None] ** sharpness * np.exp(rng.normal(scale=0.2, size=(n, m, 3))) + 1e-9
    return probs / probs.sum(axis=-1, keepdims=True), y


def write(folder: Path, probs: np.ndarray, y: np.ndarray, cuts=(300, 310, 900), **fields) -> Path:
    """Files of uneven sizes; the second one has few rows."""
    folder.mkdir()
    parts = np.split(np.arange(len(y)), cuts)
    for i, rows in enumerate(parts):
        of_rows = {name: np.asarray(x)[rows] for name, x in fields.items()}
        sw.write_predictions(folder / f"{i}.parquet", probs[rows], labels=y[rows], **of_rows)
    return folder


@pytest.mark.parametrize("task_loss", ["zero-one", "brier"])
def test_policy_of_a_folder_is_that_of_its_rows(client, tmp_path, task_loss):
    probs, y = held_out(2000)
    folder = write(tmp_path / "rows", probs, y)
    policy = certify_dataset(folder, max_loss=0.3, task_loss=task_loss, scheduler=client)
    expected = sw.certify(probs, y, max_loss=0.3, task_loss=task_loss)
    assert policy.certificate == expected.certificate
    np.testing.assert_array_equal(policy.calibration_losses, expected.calibration_losses)
    np.testing.assert_array_equal(policy.calibration_uncertainty, expected.calibration_uncertainty)
    assert policy.metadata["rows"] == 2000
    policy.save(tmp_path / "policy.json")
    accepted = sw.load_policy(tmp_path / "policy.json").apply(probs).accepted
    np.testing.assert_array_equal(accepted, expected.apply(probs).accepted)


def test_policy_of_many_rows_is_from_a_uniform_sample(client, tmp_path):
    probs, y = held_out(2000)
    policies = [
        certify_dataset(
            write(tmp_path / f"{len(cuts)}", probs, y, cuts),
            max_loss=0.3,
            max_rows=500,
            random_state=seed,
            scheduler=client,
        )
        for cuts, seed in (((300, 310, 900), 0), ((300, 310, 900, 1500), 1))
    ]
    all_pairs = set(zip(*numbers(sw.certify(probs, y, max_loss=0.3)), strict=True))
    samples = [set(zip(*numbers(policy), strict=True)) for policy in policies]
    for policy, pairs in zip(policies, samples, strict=True):
        assert policy.certificate.n_calibration == 500
        assert policy.metadata["rows"] == 2000
        assert pairs < all_pairs
    assert samples[0] != samples[1]


def numbers(policy):
    return policy.calibration_uncertainty, policy.calibration_losses


def test_policy_applies_its_calibration(client, tmp_path):
    probs, y = held_out(3000, sharpness=3.0)
    calibration = sw.fit_calibration(probs[:1000], y[:1000])
    folder = write(tmp_path / "rows", probs[1000:], y[1000:])
    policy = certify_dataset(folder, max_loss=0.3, calibration=calibration, scheduler=client)
    expected = sw.certify(probs[1000:], y[1000:], max_loss=0.3, calibration=calibration)
    assert policy.certificate == expected.certificate


def test_rows_of_the_calibration_are_refused_as_certification_rows(client, tmp_path):
    probs, y = held_out(1000, sharpness=3.0)
    folder = write(tmp_path / "rows", probs, y)
    calibration = calibrate_dataset(folder, scheduler=client)
    for max_rows in (1000, 400):
        with pytest.raises(sw.InvalidInput, match="was fitted on these rows or most of them"):
            certify_dataset(
                folder, max_loss=0.3, calibration=calibration, max_rows=max_rows, scheduler=client
            )


def test_calibration_of_a_folder_is_that_of_its_rows(client, tmp_path):
    probs, y = held_out(1500, sharpness=3.0)
    folder = write(tmp_path / "rows", probs, y)
    calibration = calibrate_dataset(folder, scheduler=client)
    expected = sw.fit_calibration(probs, y)
    assert str(calibration) == str(expected)
    np.testing.assert_array_equal(calibration.weights, expected.weights)
    assert calibration.mixed_share == expected.mixed_share


def test_calibration_of_many_rows_is_from_a_sample(client, tmp_path):
    probs, y = held_out(1500, sharpness=3.0)
    folder = write(tmp_path / "rows", probs, y)
    calibration = calibrate_dataset(folder, max_rows=700, scheduler=client)
    assert calibration.n_rows == 700
    assert calibration.method == "temperature"


def test_unlabelled_row_is_named(client, tmp_path):
    probs, y = held_out(1000)
    y[305] = -1
    folder = write(tmp_path / "rows", probs, y)
    for fit in (calibrate_dataset, lambda *a, **o: certify_dataset(*a, max_loss=0.3, **o)):
        with pytest.raises(sw.InvalidInput, match=r"'1.parquet': row 5 .*there is no label"):
            fit(folder, scheduler=client, labels_are="indices")


def test_invalid_row_is_named(client, tmp_path):
    probs, y = held_out(1000)
    probs[305] *= 0.9
    folder = write(tmp_path / "rows", probs, y)
    with pytest.raises(sw.InvalidInput, match=r"'1.parquet': row 5 .*sums to 0.9"):
        certify_dataset(folder, max_loss=0.3, scheduler=client)
    policy = certify_dataset(folder, max_loss=0.3, normalize=True, scheduler=client)
    assert policy.certificate.n_calibration == 1000


def test_folder_without_labels_is_refused_before_any_work(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    sw.write_predictions(folder / "0.parquet", held_out(10)[0])
    with pytest.raises(sw.InvalidInput, match=r"'0.parquet' has no labels; pass labels"):
        certify_dataset(folder, max_loss=0.3, scheduler="tcp://127.0.0.1:1")
    assert "labels" not in Dataset.of(folder).fields


def test_class_names_and_logits_are_those_of_the_files(client, tmp_path):
    probs, y = held_out(1000)
    names = np.array(["ant", "bee", "cat"])
    folder = tmp_path / "rows"
    folder.mkdir()
    for i, rows in enumerate(np.split(np.arange(1000), [400])):
        sw.write_predictions(
            folder / f"{i}.parquet",
            logits=np.log(probs[rows]),
            labels=names[y[rows]],
            class_names=names.tolist(),
        )
    policy = certify_dataset(folder, max_loss=0.3, scheduler=client)
    expected = sw.certify(sw.read_predictions(folder), max_loss=0.3)
    assert policy.certificate == expected.certificate
    assert policy.class_names == ("ant", "bee", "cat")
    assert policy.stored_as == expected.stored_as
