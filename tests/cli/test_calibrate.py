"""``scorewise calibrate``, and ``score`` and ``certify`` with ``--calibration``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from calibrate_support import draw_labels, scaled
from cli_support import COSTS, NAMES, from_json, run, sentence_of, succeeded, table_of
from io_support import set_chunk_bytes
from scorewise.calibrate import Calibration
from scorewise.io import read_cost_matrix
from support import as_json, softmax

pytestmark = pytest.mark.usefixtures("one_blas_thread")
parametrize = pytest.mark.parametrize


def overconfident(n: int, seed: int, **options: Any) -> sw.io.Predictions:
    """Predictions of three classes that are mixed up and too certain."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, 1, 3)) + rng.normal(size=(n, 4, 3))
    probs = softmax(logits)
    labels = draw_labels(scaled(probs.mean(axis=1), 0.4 * np.eye(3) + 0.2, [0.5, 0, -0.5]), rng)
    ids = [f"row-{i}" for i in range(n)]
    fields = {"labels": labels, "ids": ids, "class_names": NAMES} | options
    return sw.io.Predictions(probs, **fields)


FIRST, SECOND, NEW = overconfident(400, 0), overconfident(500, 1), overconfident(120, 2)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sw.write_predictions("first.npz", FIRST)
    sw.write_predictions("second.parquet", SECOND)
    sw.write_predictions("new.parquet", NEW)
    Path("costs.csv").write_text(COSTS)
    return tmp_path


@parametrize(
    ("args", "options"),
    [
        ((), {}),
        (("--method", "temperature"), {"method": "temperature"}),
        (("--method", "none"), {"method": "none"}),
        (
            ("--method", "matrix", "--task-loss", "brier", "--floor", "1e-4", "--cv", "3"),
            {"method": "matrix", "task_loss": "brier", "floor": 1e-4, "cv": 3},
        ),
        (("--task-loss", "costs.csv", "--seed", "7"), {"task_loss": "costs", "random_state": 7}),
    ],
)
def test_calibrate_does_what_the_function_does(files, args, options):
    if options.get("task_loss") == "costs":
        options = {**options, "task_loss": read_cost_matrix(Path("costs.csv")).for_classes(NAMES)}
    expected = sw.fit_calibration(FIRST, **options)
    printed = from_json(run("calibrate", "first.npz", *args, "--out", "c.json", "--json"))
    content = as_json(expected.to_dict())
    loaded = sw.load_calibration("c.json")
    assert as_json(loaded.to_dict()) == content
    del content["weights"], content["bias"], content["row_digests"]
    assert printed == content
    assert loaded.class_names == tuple(NAMES)


def test_calibrate_says_what_it_gains(files):
    result = succeeded(run("calibrate", "first.npz"))
    said = " ".join(result.stdout.split())
    calibration = sw.load_calibration("calibration.json")
    assert said == f"{calibration} Written to calibration.json"
    assert "calibrating lowers it to" in said
    assert result.stderr == ""


def test_what_needs_no_calibration_is_left_as_it_is(files):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=(500, 1))
    labels = draw_labels(probs[:, 0], rng)
    sw.write_predictions("good.npz", probs, labels=labels)
    result = succeeded(run("calibrate", "good.npz"))
    assert result.stdout.startswith("Predictions are left as they are")
    assert sw.load_calibration("calibration.json").method == "none"
    succeeded(run("score", "good.npz", "--calibration", "calibration.json", "--out", "U.parquet"))
    expected = sw.decompose(probs, "log").total
    np.testing.assert_array_equal(pq.read_table("U.parquet")["total_log"], expected)


# -- score -----------------------------------------------------------------------------------------


@parametrize("out", ["U.parquet", "U.csv"])
@parametrize("method", ["temperature", "matrix"])
def test_score_writes_what_decompose_gives_after_transform(files, method, out):
    succeeded(run("calibrate", "first.npz", "--method", method))
    rules = ["log", "zero-one", "tsallis:1.5"]
    printed = from_json(
        run(
            *("score", "new.parquet", "--calibration", "calibration.json"),
            *("--rules", ",".join(rules), "--out", out, "--json"),
        )
    )
    calibration = sw.load_calibration("calibration.json")
    moved = calibration.transform(NEW)
    table = table_of(files / out)
    assert table["id"].to_pylist() == NEW.ids.tolist()
    for rule, d in sw.decompose(moved, rules).items():
        for part in ("total", "aleatoric", "epistemic"):
            np.testing.assert_allclose(
                table[f"{part}_{rule}"], getattr(d, part), rtol=1e-12, atol=1e-15
            )
    raw = sw.decompose(NEW.samples, "log").total
    assert np.abs(table["total_log"].to_numpy() - raw).max() > 0.1
    digest = printed["calibration_sha256"]
    assert re.fullmatch("[0-9a-f]{64}", digest)
    if out == "U.parquet":
        inside = json.loads(table.schema.metadata[b"scorewise"])
        assert inside["calibration_sha256"] == digest
    succeeded(run("score", "new.parquet", "--rules", "log", "--out", "raw.parquet"))
    assert b"calibration" not in pq.read_schema("raw.parquet").metadata[b"scorewise"]


def test_score_of_logits_with_weights(files):
    rng = np.random.default_rng(0)
    logits, weights = 2 * rng.normal(size=(60, 4, 3)), rng.random((60, 4)) + 0.1
    names = NEW.class_names
    sw.write_predictions("logits.npz", logits=logits, weights=weights, class_names=names)
    succeeded(run("calibrate", "first.npz", "--method", "vector"))
    succeeded(
        run(
            *("score", "logits.npz", "--calibration", "calibration.json"),
            *("--rules", "brier", "--out", "U.parquet"),
        )
    )
    calibration = sw.load_calibration("calibration.json")
    moved = calibration.transform(logits, weights=weights, from_logits=True, class_names=names)
    expected = sw.decompose(moved, "brier").epistemic
    np.testing.assert_allclose(pq.read_table("U.parquet")["epistemic_brier"], expected, rtol=1e-9)


def test_the_chunks_of_a_file_do_not_matter(files, monkeypatch):
    succeeded(run("calibrate", "first.npz", "--method", "matrix"))
    args = ("score", "second.parquet", "--calibration", "calibration.json", "--rules", "log")
    succeeded(run(*args, "--out", "whole.parquet"))
    set_chunk_bytes(monkeypatch, 13 * 4 * 3 * 8)
    succeeded(run(*args, "--out", "chunks.parquet"))
    whole, chunks = (pq.read_table(f"{name}.parquet") for name in ("whole", "chunks"))
    for name in ("total_log", "epistemic_log"):
        np.testing.assert_allclose(chunks[name], whole[name], rtol=1e-11, atol=1e-14)


def interrupted_score(monkeypatch: pytest.MonkeyPatch, *args: str) -> None:
    """A run that stops after half of its chunks."""
    transform, n_chunks = Calibration.transform, 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal n_chunks
        n_chunks += 1
        if n_chunks == 25:
            raise KeyboardInterrupt
        return transform(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Calibration, "transform", interrupted)
        result = run("score", "second.parquet", *args)
    assert "Interrupted. Repeat the command to resume." in result.stderr


@parametrize("second", ["other.json", "none", "same"])
def test_a_run_does_not_resume_one_with_another_calibration(files, monkeypatch, second):
    set_chunk_bytes(monkeypatch, 10 * 4 * 3 * 8)
    monkeypatch.setattr("scorewise.io._score._PART_BYTES", 20 * 4 * 3 * 8)
    succeeded(run("calibrate", "first.npz", "--method", "matrix"))
    succeeded(run("calibrate", "first.npz", "--method", "temperature", "--out", "other.json"))
    begun = ("--rules", "log", "--calibration", "calibration.json", "--out", "U.parquet")
    interrupted_score(monkeypatch, *begun)
    assert list(Path(".U.parquet.parts").glob("*.part"))
    calibration = {
        "other.json": ("--calibration", "other.json"),
        "none": (),
        "same": ("--calibration", "calibration.json"),
    }[second]
    args = ("score", "second.parquet", "--rules", "log", *calibration)
    printed = from_json(run(*args, "--out", "U.parquet", "--json"))
    assert (printed["resumed"] > 0) == (second == "same")
    from_json(run(*args, "--out", "undisturbed.parquet", "--json"))
    assert Path("U.parquet").read_bytes() == Path("undisturbed.parquet").read_bytes()


# -- certify and apply -----------------------------------------------------------------------------


@parametrize("task_loss", ["zero-one", "brier", "costs.csv"])
def test_certify_and_apply_do_what_the_functions_do(files, task_loss):
    max_loss = {"zero-one": 0.45, "brier": 0.6, "costs.csv": 6}[task_loss]
    loss = task_loss
    if loss == "costs.csv":
        loss = read_cost_matrix(Path(loss)).for_classes(NAMES)
    succeeded(run("calibrate", "first.npz", "--method", "matrix"))
    calibration = sw.load_calibration("calibration.json")
    policy = sw.certify(SECOND, max_loss=max_loss, task_loss=loss, calibration=calibration)
    args = ("--max-loss", max_loss, "--task-loss", task_loss, "--calibration", "calibration.json")
    printed = from_json(run("certify", "second.parquet", *args, "--json"))
    assert printed["certificate"] == as_json(policy.to_dict())["certificate"]
    assert printed["guarantee"] == repr(policy)
    assert "after matrix scaling" in repr(policy)
    assert not [name for name in printed if name.startswith("calibration")]
    # the policy holds its calibration, so the file of the calibration is not needed any more
    Path("calibration.json").unlink()
    applied = from_json(run("apply", "policy.json", "new.parquet", "--out", "d.parquet", "--json"))
    result, table = policy.apply(NEW), table_of(files / "d.parquet")
    np.testing.assert_array_equal(table["accept"].to_pylist(), result.accepted)
    np.testing.assert_array_equal(table["uncertainty"], result.uncertainty)
    assert table["prediction"].to_pylist() == result.labels.tolist()
    assert applied["n_accepted"] == result.accepted.sum() > 0


def test_certify_in_words(files):
    succeeded(run("calibrate", "first.npz", "--method", "vector"))
    args = ("second.parquet", "--max-loss", "0.45", "--calibration", "calibration.json")
    said = " ".join(succeeded(run("certify", *args)).stdout.split())
    assert said.startswith("By total zero-one uncertainty after vector scaling: Accept where")
    assert said.endswith("Written to policy.json")


@parametrize("kind", ["npz", "parquet", "csv", "arrow"])
def test_the_rows_of_the_calibration_cannot_certify(files, kind):
    """Whatever their format."""
    succeeded(run("calibrate", "first.npz"))
    sw.write_predictions(f"again.{kind}", FIRST)
    args = (f"again.{kind}", "--max-loss", "0.45", "--calibration", "calibration.json")
    said = sentence_of(run("certify", *args))
    assert "the calibration was fitted on these rows" in said
    assert "split the held-out rows into two parts" in said
    assert not Path("policy.json").exists()


# -- mistakes --------------------------------------------------------------------------------------


@parametrize("command", ["score", "certify"])
@parametrize(
    ("content", "message"),
    [
        (None, "no.json"),
        ("{}", "'c.json' is not a calibration; scorewise calibrate makes them"),
        ("nonsense", "'c.json' is not a JSON file"),
        ("edited", "'c.json' is a damaged calibration: bias does not match its digest"),
        ("other classes", "have 3 classes, and the calibration was fitted on 4"),
        ("other names", "class 0 is called 'healthy' here and 'ill' in the calibration: it is"),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(files, command, content, message):
    path = Path("no.json" if content is None else "c.json")
    if content == "edited":
        sw.fit_calibration(FIRST, method="vector").save(path)
        fields = json.loads(path.read_text())
        path.write_text(json.dumps(fields | {"bias": [0.0] * 3}))
    elif content == "other classes":
        four = np.full((30, 2, 4), 0.25)
        sw.fit_calibration(four, np.arange(30) % 4, method="vector").save(path)
    elif content == "other names":
        named = overconfident(50, 3, class_names=NAMES[::-1])
        sw.fit_calibration(named, method="vector").save(path)
    elif content is not None:
        path.write_text(content)
    options = ("--max-loss", "0.4") if command == "certify" else ("--out", "U.parquet")
    said = sentence_of(run(command, "second.parquet", "--calibration", path, *options))
    assert message in said
    assert not Path("U.parquet").exists()
    assert not list(files.glob(".*"))


@parametrize(
    ("args", "message"),
    [
        (("first.npz", "--method", "platt"), "method must be one of"),
        (("first.npz", "--floor", "0.9"), "floor is 0.9"),
        (("first.npz", "--cv", "1"), "--cv"),
        (("first.npz", "--task-loss", "nonsense"), "nonsense"),
        (("bare.npz",), "no labels"),
        (("one.npz",), "there is one row; calibration needs at least two"),
        (("first.npz", "--out", "no/calibration.json"), "there is no folder 'no'"),
        (("first.npz", "--out", "first.npz"), "first.npz"),
    ],
)
def test_mistakes_are_said_in_a_sentence(files, args, message):
    sw.write_predictions("bare.npz", FIRST.probs)
    sw.write_predictions("one.npz", FIRST.probs[:1], labels=FIRST.labels[:1])
    before = Path("first.npz").read_bytes()
    result = run("calibrate", *args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert Path("first.npz").read_bytes() == before
    assert not Path("calibration.json").exists()
