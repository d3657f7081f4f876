"""Invalid rows are set aside before work that writes no folder, which uses the others."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

import scorewise as sw
from scale_support import contents
from scorewise.errors import ScorewiseWarning
from scorewise.scale import (
    Dataset,
    calibrate_dataset,
    certify_dataset,
    compare_dataset,
    evaluate_dataset,
    label_dataset,
    score_dataset,
)

N = 60  # rows of a file
BAD = {0: (0, 7, 8, 59), 1: (3,), 2: tuple(range(N))}  # by file; the third has no valid row
CORRUPT = "4.parquet"


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as client:
        yield client


def rows_of(file: int) -> dict[str, list[Any]]:
    """Columns of a file, all of whose rows are valid."""
    rng = np.random.default_rng(file)
    probs = rng.dirichlet(np.full(3, 0.4), size=(N, 4))
    y = (probs.mean(axis=1).cumsum(axis=-1) > rng.uniform(size=(N, 1))).argmax(axis=-1)
    names = [f"{file}-{row}" for row in range(N)]
    return {"probs": probs.tolist(), "labels": y.tolist(), "ids": names}


def spoil(columns: dict[str, list[Any]], rows: tuple[int, ...]) -> None:
    """Make rows invalid in several ways."""
    for i, row in enumerate(rows):
        if i % 4 == 0:
            columns["probs"][row][2] = [2.0, 2.0, 2.0]
        elif i % 4 == 1:
            columns["probs"][row][1][0] = float("nan")
        elif i % 4 == 2:
            columns["probs"][row] = None
        else:
            columns["labels"][row] = 3


def write(folder: Path, *, is_valid: bool, ids: bool = True) -> Path:
    """Files with invalid rows, or the same without them."""
    folder.mkdir()
    for file in range(4):
        columns, bad = rows_of(file), BAD.get(file, ())
        if is_valid:
            valid_rows = [row for row in range(N) if row not in bad]
            columns = {name: [x[row] for row in valid_rows] for name, x in columns.items()}
            if not valid_rows:
                continue
        else:
            spoil(columns, bad)
        if not ids:
            del columns["ids"]
        # files keep their names, on which random numbers depend
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=25)
    if not is_valid:
        (folder / CORRUPT).write_bytes(b"PAR1 and nothing else")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "in", is_valid=False)


def of_policy(folder: Path, **options: Any) -> Any:
    policy = certify_dataset(folder, max_loss=0.4, **options)
    return policy.certificate, policy.calibration_losses.tolist()


def of_calibration(folder: Path, **options: Any) -> Any:
    calibration = calibrate_dataset(folder, **options)
    return calibration.method, calibration.n_rows, calibration.score.loss


def of_labels(folder: Path, **options: Any) -> Any:
    chosen = label_dataset(folder, 20, **options)
    return chosen.ids.tolist(), chosen.files, chosen.scores.tolist(), chosen.n_rows


def of_comparison(folder: Path, **options: Any) -> Any:
    comparison = compare_dataset(folder, n_resamples=200, random_state=0, **options)
    return [(row.name, row.value) for row in comparison.standings]


def of_evaluation(folder: Path, **options: Any) -> Any:
    evaluation = evaluate_dataset(folder, n_resamples=200, **options)
    ids = [row.id for row in evaluation.uncertain_rows]
    return evaluation.n_rows, evaluation.loss, ids, evaluation.certificates


def checks(folder: Path) -> list[Path]:
    """The folders of all checks of data sets."""
    return sorted(folder.iterdir())


WORK: dict[str, Callable[..., Any]] = {
    "certify": of_policy,
    "calibrate": of_calibration,
    "label": of_labels,
    "compare": of_comparison,
    "evaluate": of_evaluation,
}


@pytest.fixture
def aside(client: Client, tmp_path: Path) -> dict[str, Any]:
    """The options that set invalid rows aside."""
    return {
        "scheduler": client,
        "on_bad_rows": "quarantine",
        "quarantine": tmp_path / "bad",
        "progress": False,
    }


@pytest.mark.parametrize("name", WORK)
def test_results_are_those_of_the_valid_rows(name, folder, tmp_path, client, aside):
    valid = write(tmp_path / "valid", is_valid=True)
    message = r"65 invalid rows of 3 files are in .*bad/in-\w{8}/_quarantine .*probs sums to …"
    with pytest.warns(ScorewiseWarning) as caught:
        results = WORK[name](folder, **aside)
    about_rows, about_file = (str(warning.message) for warning in caught)
    assert re.search(message, about_rows)
    assert re.match(f"'{CORRUPT}' could not be read", about_file)
    assert results == WORK[name](valid, scheduler=client, progress=False)


@pytest.mark.parametrize("name", WORK)
def test_first_invalid_row_stops_the_work_otherwise(name, folder, client):
    (folder / CORRUPT).unlink()
    with pytest.raises(sw.InvalidInput, match=r"'\d\.parquet'.*row"):
        WORK[name](folder, scheduler=client, progress=False)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_every_invalid_row_is_in_the_folder_with_its_reason(folder, aside, tmp_path):
    of_policy(folder, **aside)
    [check] = checks(tmp_path / "bad")
    files = contents(check)
    assert [name for name in files if name.startswith("_quarantine")] == [
        f"_quarantine/part-{i:05d}.parquet" for i in range(3)
    ]
    assert not [name for name in files if name.startswith("part")]
    table = pq.read_table(check / "_quarantine/part-00000.parquet")
    assert table["row"].to_pylist() == list(BAD[0])
    assert table["ids"].to_pylist() == [f"0-{row}" for row in BAD[0]]
    for reason, text in zip(
        table["reason"].to_pylist(), ("sums to 6", "nan", "missing", "3"), strict=True
    ):
        assert text in reason
    summary = json.loads(files["_manifest/summary.json"])
    assert (summary["rows"], summary["quarantined_rows"]) == (4 * N - 65, 65)
    assert sum(summary["quarantined_reasons"].values()) == 65
    assert len(summary["quarantined_reasons"]) == 4
    assert [x["input"] for x in summary["quarantined"]][-1] == CORRUPT
    assert "reason" in summary["quarantined"][-1]


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_policy_says_on_which_rows_it_rests(folder, aside, tmp_path):
    policy = certify_dataset(folder, max_loss=0.4, **aside)
    sentence = (
        "rests on 175 valid rows, and holds for valid rows only; 65 invalid rows and 1 unreadable "
        "file were left out."
    )
    assert str(policy).endswith(sentence)
    left_out = policy.metadata["left_out"]
    assert (policy.n_left_out, left_out["rows"], left_out["files"]) == (65, 65, 1)
    assert left_out["folder"] == str(checks(tmp_path / "bad")[0])
    assert sum(left_out["reasons"].values()) == 65
    policy.save(tmp_path / "policy.json")
    loaded = sw.load_policy(tmp_path / "policy.json")
    assert str(loaded) == str(policy)
    assert (loaded.n_left_out, loaded.n_files_left_out) == (65, 1)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_files_that_cannot_be_read_are_not_kept_silent(tmp_path, aside):
    folder = write(tmp_path / "in", is_valid=True)
    (folder / CORRUPT).write_bytes(b"PAR1 and nothing else")
    policy = certify_dataset(folder, max_loss=0.4, **aside)
    sentence = "175 valid rows, and holds for valid rows only; 1 unreadable file was left out."
    assert str(policy).endswith(sentence)
    calibration = calibrate_dataset(folder, **aside)
    assert str(calibration).endswith(" 1 unreadable file was left out.")
    calibration.save(tmp_path / "calibration.json")
    loaded = sw.load_calibration(tmp_path / "calibration.json")
    chosen = label_dataset(folder, 20, **aside)
    for result in (policy, calibration, loaded, chosen):
        assert (result.n_left_out, result.n_files_left_out) == (0, 1)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_evaluation_and_comparison_say_what_was_left_out(folder, aside):
    sentence = "for valid rows only; left out: 65 invalid rows and 1 unreadable file, see"
    evaluation = evaluate_dataset(folder, n_resamples=200, **aside)
    assert any(sentence in str(note) for note in evaluation.notes)
    assert any(sentence in note for note in compare_dataset(folder, n_resamples=200, **aside).notes)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_rows_keep_their_numbers(tmp_path, aside):
    folder = write(tmp_path / "in", is_valid=False, ids=False)
    probs = {file: rows_of(file)["probs"] for file in range(4)}
    chosen = label_dataset(folder, 20, "log", **aside | {"quarantine": tmp_path / "of labels"})
    for file, row, score in zip(chosen.files, chosen.rows, chosen.scores, strict=True):
        members = np.array([probs[int(file[0])][row]])
        np.testing.assert_allclose(sw.decompose(members, "log").epistemic[0], score, rtol=1e-9)
    evaluation = evaluate_dataset(folder, n_resamples=200, n_uncertain=30, **aside)
    for uncertain in evaluation.uncertain_rows:
        file, row = divmod(uncertain.index, N)
        total = sw.decompose(np.array([probs[file][row]]), "zero-one").total[0]
        np.testing.assert_allclose(total, uncertain.total, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_rows_are_checked_once_for_functions_that_read_the_same(folder, aside, tmp_path):
    expected = of_policy(folder, **aside)
    before = contents(tmp_path / "bad")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "bad").rglob("*.parquet")}
    of_calibration(folder, **aside)
    of_comparison(folder, **aside)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert contents(tmp_path / "bad") == before
    [check] = checks(tmp_path / "bad")
    (check / "_quarantine/part-00000.parquet").write_bytes(b"damaged")
    assert of_policy(folder, **aside) == expected
    assert contents(tmp_path / "bad") == before


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_all_work_can_share_a_folder(folder, aside, client, tmp_path):
    valid = write(tmp_path / "valid", is_valid=True)
    for name in [*WORK, *reversed(WORK)]:
        expected = WORK[name](valid, scheduler=client, progress=False)
        assert WORK[name](folder, **aside) == expected
    of_policy(folder, **aside, normalize=True)
    before = contents(tmp_path / "bad")
    of_evaluation(folder, **aside, ood=valid)
    of_policy(folder, **aside)
    assert {name: contents(tmp_path / "bad")[name] for name in before} == before


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_each_set_of_ood_detection_is_checked_once(folder, aside, tmp_path):
    compare_dataset(folder, "ood", ood=folder, n_resamples=200, **aside)
    assert len(checks(tmp_path / "bad")) == 1
    compare_dataset(folder, "ood", ood=write(tmp_path / "ood", is_valid=True), **aside)
    assert [path.name.rpartition("-")[0] for path in checks(tmp_path / "bad")] == ["in", "ood"]


def test_labels_and_ids_that_are_not_read_are_not_checked(tmp_path, client, aside):
    valid = write(tmp_path / "valid", is_valid=True)
    (tmp_path / "in").mkdir()
    for file in range(2):
        columns = rows_of(file)
        columns["ids"][3] = None
        columns["labels"] = [9] * N if file else columns["labels"]
        pq.write_table(pa.table(columns), tmp_path / f"in/{file}.parquet")
    without_ids = {"dataset": tmp_path / "in/0.parquet", "max_loss": 0.4}
    options = {"dataset": valid, "n_resamples": 200, "ood": tmp_path / "in/1.parquet"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert certify_dataset(**without_ids, **aside).certificate.n_calibration == N
        metrics = evaluate_dataset(**options, **aside).ood.metrics
        compared = compare_dataset(**options, task="ood", random_state=0, **aside)
    assert metrics == evaluate_dataset(**options, scheduler=client).ood.metrics
    again = compare_dataset(**options, task="ood", random_state=0, scheduler=client)
    assert [x.value for x in compared.standings] == [x.value for x in again.standings]


def test_valid_rows_alone_are_used_without_a_warning(tmp_path, client, aside):
    valid = write(tmp_path / "valid", is_valid=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy = certify_dataset(valid, max_loss=0.4, **aside)
    assert str(policy) == str(certify_dataset(valid, max_loss=0.4, scheduler=client))
    assert policy.n_left_out == 0
    assert "left_out" not in policy.metadata


@pytest.mark.parametrize("name", WORK)
def test_options_that_do_not_fit_are_refused(name, folder, client, tmp_path):
    work, options = WORK[name], {"scheduler": client, "progress": False}
    with pytest.raises(sw.InvalidInput, match=r"need a folder; pass quarantine=.* new folder"):
        work(folder, on_bad_rows="quarantine", **options)
    with pytest.raises(sw.InvalidInput, match="pass on_bad_rows='quarantine'"):
        work(folder, quarantine=tmp_path / "bad", **options)
    with pytest.raises(sw.InvalidInput, match="on_bad_rows"):
        work(folder, on_bad_rows="drop", **options)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_files_of_others_in_the_folder_stay(folder, aside, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/letter.txt").write_text("dear")
    of_policy(folder, **aside)
    of_policy(folder, **aside)
    assert (tmp_path / "bad/letter.txt").read_text() == "dear"


def test_outputs_of_another_command_are_not_mixed_with_invalid_rows(tmp_path, client, aside):
    valid = write(tmp_path / "valid", is_valid=True)
    score_dataset(valid, "log", tmp_path / "bad", scheduler=client)
    before = contents(tmp_path / "bad")
    with pytest.raises(sw.InvalidInput, match="has outputs of another command; choose another"):
        of_policy(valid, **aside)
    assert contents(tmp_path / "bad") == before


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
def test_no_valid_row_is_an_error(tmp_path, aside):
    (tmp_path / "in").mkdir()
    columns = rows_of(0)
    columns["probs"] = [[[2.0, 2.0, 2.0]] * 4] * N
    pq.write_table(pa.table(columns), tmp_path / "in/a.parquet")
    with pytest.raises(sw.InvalidInput, match="has no valid rows; left out: 60 invalid rows"):
        of_policy(Dataset.of(tmp_path / "in"), **aside)
