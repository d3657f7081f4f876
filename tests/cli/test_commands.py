"""The commands: what they print and write, JSON, exit codes, help, errors."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import scorewise as sw
from scorewise._json import dumps
from scorewise.cli import app, demo
from scorewise.io import _predictions as io_predictions
from scorewise.io import read_cost_matrix
from scorewise.kernels.cpu._loading import load

COMMANDS = ["demo", "evaluate", "score", "certify", "apply", "label", "decide", "advise", "compare"]
NAMES = ["healthy", "doubtful", "ill"]
COSTS = ",dismiss,wait,treat\nill,50,20,0\nhealthy,0,1,5\ndoubtful,4,2,3\n"  # in another order
FAST = ("--resamples", "100")
SCOREWISE = Path(sys.executable).with_name("scorewise")


def run(*args: object, **env: str) -> Result:
    """A command in this process, with what is not a mistake of the user raised."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", **env})
    found = runner.invoke(app, [str(one) for one in args])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def real(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The real command."""
    return subprocess.run(
        [SCOREWISE, *map(str, args)], capture_output=True, text=True, timeout=120, **options
    )


def fine(found: Result, code: int = 0) -> Result:
    assert found.exit_code == code, found.output
    return found


def strictly(text: str) -> Any:
    """One JSON document in one line, without NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert text.endswith("\n")
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=refuse)


def from_json(found: Result, code: int = 0) -> Any:
    fine(found, code)
    assert found.stderr == ""
    return strictly(found.stdout)


def sentence_of(found: Result) -> str:
    """The complaint about a mistake: one sentence, on stderr, and no trace of Python."""
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert "Traceback" not in found.stderr
    text = " ".join(found.stderr.split())
    assert text.startswith("Error: ")
    assert len(text) > 20
    return text.removeprefix("Error: ")


def made(n: int = 250, m: int = 4, k: int = 3, seed: int = 0, sharp: float = 0.3) -> Any:
    """Members that mean what they say, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, sharp), size=n)
    labels = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    probs = truth[:, None] * np.exp(rng.normal(scale=0.5, size=(n, m, k))) + 1e-9
    return probs / probs.sum(axis=-1, keepdims=True), labels


def kept(n: int = 250, seed: int = 0, **options: Any) -> sw.Predictions:
    probs, labels = made(n, seed=seed, **options)
    names = NAMES if probs.shape[-1] == 3 else None
    ids = [f"row-{i}" for i in range(n)]
    return sw.Predictions(probs, labels=labels, ids=ids, class_names=names)


OWN = kept()


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """After an installation the kernels are compiled, which is told on stderr, once."""
    for dtype in ("float32", "float64"):
        load(dtype)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with predictions and costs."""
    monkeypatch.chdir(tmp_path)
    sw.write_predictions("test.npz", OWN)
    Path("costs.csv").write_text(COSTS)
    return tmp_path


def table_of(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path)
    if path.suffix == ".parquet":
        return pq.read_table(path)
    return pa.ipc.open_file(str(path)).read_all()


# -- every command does what the public function does ---------------------------------------------


@pytest.mark.parametrize("out", ["U.parquet", "U.arrow", "U.csv"])
@pytest.mark.parametrize(
    "source",
    [
        "test.npz",
        "test.parquet",
        "test",
        "test.csv",
        "test.arrow",
        "test.safetensors",
        "test.feather",
    ],
)
def test_score_writes_what_decompose_gives(source: str, out: str, here: Path):
    sw.write_predictions(source, OWN)
    told = from_json(
        run("score", source, "--rules", "log,zero-one,tsallis:1.5", "--out", out, "--json")
    )
    found = table_of(here / out)
    expected = sw.decompose(OWN.samples, ["log", "zero-one", "tsallis:1.5"])
    columns = [
        f"{part}_{rule}" for rule in expected for part in ("total", "aleatoric", "epistemic")
    ]
    assert found.column_names == told["columns"] == ["id", *columns]
    assert found["id"].to_pylist() == OWN.ids.tolist()
    for name in columns:
        part, rule = name.split("_")
        np.testing.assert_array_equal(found[name].to_numpy(), getattr(expected[rule], part))
    assert (told["n_rows"], told["rows"], told["members"], told["classes"]) == (250, 250, 4, 3)
    assert (told["version"], told["input"], told["resumed"]) == (sw.__version__, source, 0)
    assert list(told["rules"]) == ["log", "zero-one", "tsallis:1.5"]
    if source != "test":
        assert told["sha256"] == hashlib.sha256(Path(source).read_bytes()).hexdigest()
    if out != "U.csv":
        inside = json.loads(found.schema.metadata[b"scorewise"])
        assert inside == {key: told[key] for key in inside}
        assert set(inside) >= {"version", "rules", "sha256", "input"}
    assert sorted(p.name for p in here.iterdir() if p.name.startswith(".")) == []


def test_score_in_words_and_where_it_is_written_unless_told(here: Path):
    found = fine(run("score", "test.npz"))
    assert "250 rows scored: id, total_log, aleatoric_log" in found.stdout
    assert "Written to test-scores.parquet" in found.stdout
    assert found.stderr == ""
    assert pq.read_metadata("test-scores.parquet").num_rows == 250


def test_rows_without_ids_are_numbered_and_ids_may_be_numbers(here: Path):
    np.save("test.npy", OWN.probs)
    fine(run("score", "test.npy", "--rules", "log", "--out", "U.parquet"))
    assert pq.read_table("U.parquet")["row"].to_pylist() == list(range(250))
    sw.write_predictions("test.parquet", OWN.probs, ids=np.arange(250) * 7)
    fine(run("score", "test.parquet", "--rules", "log", "--out", "U.parquet"))
    assert pq.read_table("U.parquet")["id"].to_pylist() == [7 * i for i in range(250)]


def test_logits_and_weights_count(here: Path):
    rng = np.random.default_rng(0)
    logits, weights = rng.normal(size=(40, 4, 3)), rng.random((40, 4)) + 0.1
    sw.write_predictions("test.npz", logits=logits, weights=weights)
    fine(run("score", "test.npz", "--rules", "brier", "--out", "U.parquet", "--normalize"))
    samples = sw.Samples(logits, weights, from_logits=True)
    np.testing.assert_array_equal(
        pq.read_table("U.parquet")["epistemic_brier"], sw.decompose(samples, "brier").epistemic
    )
    chosen = from_json(run("label", "test.npz", "--rule", "brier", "-n", "3", "--json"))
    assert chosen["rows"] == sw.acquire(sw.decompose(samples, "brier").epistemic, 3).tolist()


def test_normalize_rescales(here: Path):
    np.save("test.npy", OWN.probs * 3)
    assert "--normalize" in sentence_of(run("score", "test.npy"))
    fine(run("score", "test.npy", "--rules", "log", "--out", "U.parquet", "--normalize"))
    expected = sw.decompose(sw.Samples(OWN.probs * 3, normalize=True), "log").total
    np.testing.assert_array_equal(pq.read_table("U.parquet")["total_log"], expected)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        (
            ("--task-loss", "brier", "--rules", "log,brier", "--seed", "3"),
            {"task_loss": "brier", "rules": ["log", "brier"], "random_state": 3},
        ),
        (
            ("--task-loss", "log", "--floor", "1e-6", "--confidence", "0.9"),
            {"task_loss": "log", "floor": 1e-6, "confidence": 0.9},
        ),
        (("--task-loss", "costs.csv"), {"task_loss": "costs"}),
        (("--ood", "ood.npz"), {"ood": kept(60, seed=5, sharp=3.0)}),
        (("--max-loss", "0.3", "--max-loss", "0.2"), {"max_loss": [0.3, 0.2]}),
    ],
)
def test_evaluate_is_evaluate(args: tuple[str, ...], options: dict[str, Any], here: Path):
    sw.write_predictions("ood.npz", kept(60, seed=5, sharp=3.0))
    if options.get("task_loss") == "costs":
        options = {
            "task_loss": sw.rules.cost_matrix(*read_cost_matrix(Path("costs.csv"), tuple(NAMES)))
        }
    found = from_json(run("evaluate", "test.npz", *args, *FAST, "--no-report", "--json"))
    assert found.pop("written") == []
    expected = sw.evaluate(OWN, **{"n_resamples": 100, "random_state": 0, **options}).to_dict()
    assert found == json.loads(dumps(expected))
    assert not Path("report.html").exists()


def test_evaluate_in_words_with_page_and_figures(here: Path):
    found = fine(run("evaluate", "test.npz", *FAST, "--figures", "figures"))
    assert found.stderr == ""
    words = " ".join(found.stdout.split())
    for sentence in sw.evaluate(OWN, n_resamples=100).verdict:
        assert " ".join(sentence.split()) in words
    assert "Written to report.html" in found.stdout
    page = Path("report.html").read_text()
    assert hashlib.sha256(Path("test.npz").read_bytes()).hexdigest() in page
    suffixes = {file.suffix for file in Path("figures").iterdir()}
    assert suffixes == {".png", ".svg"}
    assert all(file.stat().st_size > 500 for file in Path("figures").iterdir())


def test_a_promise_that_cannot_be_kept_is_exit_code_1(here: Path):
    found = run("evaluate", "test.npz", *FAST, "--no-report", "--max-loss", "0.001")
    fine(found, 1)
    assert "nothing" in found.stdout
    both = ("--max-loss", "0.3", "--max-loss", "0.001")
    from_json(run("evaluate", "test.npz", *FAST, "--no-report", *both, "--json"), 1)
    assert (
        from_json(run("certify", "test.npz", "--max-loss", "0.001", "--json"), 1)["certificate"][
            "coverage"
        ]
        == 0
    )
    nothing = run("apply", "cert.json", "test.npz")
    fine(nothing, 1)
    assert "0 of 250 rows accepted" in nothing.stdout
    assert not any(pq.read_table("decisions.parquet")["accept"].to_pylist())
    assert from_json(run("apply", "cert.json", "test.npz", "--json"), 1)["guaranteed"] is False


@pytest.mark.parametrize("args", [("--task-loss", "log"), ("--task-loss", "costs.csv")])
def test_a_promise_that_cannot_even_be_tried_is_exit_code_1(args: tuple[str, ...], here: Path):
    Path("costs.csv").write_text(COSTS.replace("0,1,5", "-9,1,5"))
    found = run("evaluate", "test.npz", *FAST, "--no-report", "--max-loss", "0.01", *args)
    assert "No certificate" in found.stdout
    fine(found, 1)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("--max-loss", "0.2"), {"max_loss": 0.2}),
        (("--max-loss", "0.3", "--confidence", "0.8"), {"max_loss": 0.3, "confidence": 0.8}),
        (
            ("--max-loss", "0.9", "--task-loss", "log", "--floor", "1e-3"),
            {"max_loss": 0.9, "task_loss": "log", "floor": 1e-3},
        ),
        (("--max-loss", "8", "--task-loss", "costs.csv"), {"max_loss": 8, "task_loss": "costs"}),
    ],
)
@pytest.mark.parametrize("out", ["decisions.parquet", "decisions.csv"])
def test_certify_and_apply_are_certify_and_apply(
    args: tuple[str, ...], options: dict[str, Any], out: str, here: Path
):
    if options.get("task_loss") == "costs":
        costs = sw.rules.cost_matrix(*read_cost_matrix(Path("costs.csv"), tuple(NAMES)))
        options = {**options, "task_loss": costs}
    found = from_json(run("certify", "test.npz", *args, "--json"))
    metadata = found.pop("metadata")
    policy = sw.certify(OWN, **options)
    expected = json.loads(dumps(policy.to_dict()))
    del expected["metadata"]
    assert found == expected
    assert metadata["sha256"] == hashlib.sha256(Path("test.npz").read_bytes()).hexdigest()
    assert json.loads(Path("cert.json").read_text())["metadata"] == metadata

    new = kept(120, seed=9)
    sw.write_predictions("new.parquet", new)
    applied = from_json(run("apply", "cert.json", "new.parquet", "--out", out, "--json"))
    result = policy.apply(new)
    table = table_of(here / out)
    assert table.column_names == ["id", "prediction", "uncertainty", "accept"]
    assert table["id"].to_pylist() == new.ids.tolist()
    np.testing.assert_array_equal(table["uncertainty"], result.uncertainty)
    np.testing.assert_array_equal(table["accept"].to_pylist(), result.accepted)
    names = [result.prediction_names[i] for i in result.prediction]
    assert table["prediction"].to_pylist() == names
    assert set(names) <= ({"dismiss", "wait", "treat"} if "costs.csv" in args else set(NAMES))
    assert applied["n_accepted"] == result.accepted.sum() > 0
    assert applied["drift"]["p_value"] == result.drift.p_value
    assert (applied["guaranteed"], applied["drift"]["has_drifted"]) == (True, False)
    words = fine(run("apply", "cert.json", "new.parquet", "--out", out))
    assert f"{int(result.accepted.sum())} of 120 rows accepted" in words.stdout
    assert words.stderr == ""


def test_changed_inputs_are_a_warning_and_exit_code_1(here: Path):
    assert "95% confidence" in fine(run("certify", "test.npz", "--max-loss", "0.2")).stdout
    sw.write_predictions("new.npz", kept(200, seed=4, sharp=5.0))
    found = fine(run("apply", "cert.json", "new.npz"), 1)
    said = " ".join(found.stdout.split())
    assert said.startswith("WARNING: new inputs do not look like the calibration data")
    assert "Written to decisions.parquet" in found.stdout
    told = from_json(run("apply", "cert.json", "new.npz", "--json"), 1)
    assert told["drift"]["has_drifted"] is True
    tolerant = ("--false-alarm-rate", "1e-300")
    assert fine(run("apply", "cert.json", "new.npz", *tolerant)).stderr == ""


def test_a_certificate_is_for_the_same_members_and_classes(here: Path):
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    sw.write_predictions("new.npz", made(20, m=5)[0])
    assert "5 members and 3 classes" in sentence_of(run("apply", "cert.json", "new.npz"))
    sw.write_predictions("new.npz", OWN.probs, class_names=["a", "b", "c"])
    assert "'a'" in sentence_of(run("apply", "cert.json", "new.npz"))
    assert not Path("decisions.parquet").exists()


def test_label_is_acquire(here: Path):
    scores = sw.decompose(OWN.samples, "zero-one").epistemic
    found = from_json(run("label", "test.npz", "-n", "7", "--json"))
    top = sw.acquire(scores, 7)
    assert found == {
        "rows": top.tolist(),
        "ids": OWN.ids[top].tolist(),
        "epistemic_zero-one": scores[top].tolist(),
    }
    args = ("--method", "power", "--seed", "4", "--rule", "log", "--component", "total")
    found = from_json(run("label", "test.npz", "-n", "7", *args, "--json"))
    total = sw.decompose(OWN.samples, "log").total
    assert found["rows"] == sw.acquire(total, 7, "power", random_state=4).tolist()
    assert found["total_log"] == total[found["rows"]].tolist()
    found = from_json(run("label", "test.npz", "-n", "3", "--method", "joint", "--json"))
    batch = sw.acquire_batch(OWN.samples, 3, "zero-one", random_state=0)
    assert found["rows"] == batch.rows.tolist()
    assert found["joint_gain_zero-one"] == batch.gains.tolist()


def test_label_as_a_table_and_as_a_file(here: Path):
    top = sw.acquire(sw.decompose(OWN.samples, "zero-one").epistemic, 30)
    found = fine(run("label", "test.npz", "-n", "30"))
    lines = [line.split() for line in found.stdout.splitlines() if "row-" in line]
    assert [(int(rank), name, int(row)) for rank, name, row, _ in lines] == [
        (i + 1, f"row-{row}", row) for i, row in enumerate(top[:20].tolist())
    ]
    assert "and 10 more" in found.stdout
    fine(run("label", "test.npz", "-n", "30", "--out", "next.csv"))
    with Path("next.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [int(line["row"]) for line in written] == top.tolist()
    assert [line["id"] for line in written] == OWN.ids[top].tolist()


def test_rows_with_a_label_are_left_out(here: Path):
    labels = np.where(np.arange(250) < 200, OWN.labels, -1)
    sw.write_predictions("pool.parquet", OWN.probs, labels=labels)
    found = fine(run("label", "pool.parquet", "-n", "50"))
    assert "200 rows have a label already" in found.stdout
    rows = from_json(run("label", "pool.parquet", "-n", "50", "--json"))["rows"]
    assert sorted(rows) == list(range(200, 250))
    assert "only 50 rows to choose from" in sentence_of(run("label", "pool.parquet", "-n", "51"))


@pytest.mark.parametrize("chunk", [None, 1000])
def test_decide_is_decide(chunk: int | None, here: Path, monkeypatch: pytest.MonkeyPatch):
    if chunk:
        monkeypatch.setattr(io_predictions, "CHUNK_BYTES", chunk)
    matrix = np.array([[0, 1, 5], [4, 2, 3], [50, 20, 0]], dtype=float)  # by class, as NAMES are
    expected = sw.decide(OWN.samples, matrix, 1.5, action_names=["dismiss", "wait", "treat"])
    args = ("--costs", "costs.csv", "--abstain-cost", "1.5")
    told = from_json(run("decide", "test.npz", *args, "--json"))
    table = pq.read_table("test-decisions.parquet")
    assert table.column_names == ["id", "action", "total", "aleatoric", "epistemic"]
    names = [expected.action_names[i] for i in expected.action]
    assert table["action"].to_pylist() == names
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(table[part], getattr(expected, part))
    assert told["costs"] == matrix.tolist()
    assert {one["action"]: one["rows"] for one in told["summary"]} == {
        name: names.count(name) for name in set(names)
    }
    shown = fine(run("decide", "test.npz", *args, "--out", "d.csv"))
    assert re.search(rf"abstain +{names.count('abstain')} ", shown.stdout)
    assert "Written to d.csv" in shown.stdout
    assert table_of(here / "d.csv").column_names == table.column_names


def test_costs_by_the_names_of_classes_that_are_numbers(here: Path):
    sw.write_predictions("digits.npz", OWN.probs, class_names=["0", "1", "2"])
    Path("costs.csv").write_text("class,dismiss,treat\n0,10,15\n1,10,12\n2,90,10\n")
    told = from_json(run("decide", "digits.npz", "--costs", "costs.csv", "--json"))
    assert told["actions"] == ["dismiss", "treat"]
    assert told["costs"] == [[10, 15], [10, 12], [90, 10]]


@pytest.mark.parametrize(
    ("task", "loss"),
    [
        ("selective", "brier"),
        ("ood", "zero-one"),
        ("active", "zero-one"),
        ("selective", "costs.csv"),
    ],
)
def test_advise_is_advise(task: str, loss: str, here: Path):
    rule = (
        sw.rules.cost_matrix(*read_cost_matrix(Path(loss), ordered=False))
        if loss == "costs.csv"
        else loss
    )
    expected = sw.advise(task, rule)
    found = from_json(run("advise", task, "--task-loss", loss, "--json"))
    assert (found["rule"], found["component"]) == (expected.rule, expected.component)
    assert found["measure"] == expected.measure
    said = " ".join(fine(run("advise", task, "--task-loss", loss)).stdout.split())
    assert said == " ".join(str(expected).split())


@pytest.mark.parametrize("task", ["selective", "ood"])
def test_compare_is_compare(task: str, here: Path):
    ood = kept(60, seed=5, sharp=3.0)
    sw.write_predictions("ood.npz", ood)
    args = ("--ood", "ood.npz") if task == "ood" else ("--task-loss", "brier")
    found = from_json(run("compare", "test.npz", "--task", task, *args, *FAST, "--json"))
    expected = sw.compare(
        OWN.samples,
        OWN.labels if task == "selective" else None,
        task,
        "zero-one" if task == "ood" else "brier",
        n_resamples=100,
        random_state=0,
        ood=ood.samples if task == "ood" else None,
        rules=["log", "brier", "zero-one", "spherical"],
    )
    assert found == json.loads(dumps(expected.to_dict()))
    shown = fine(run("compare", "test.npz", "--task", task, *args, *FAST)).stdout
    order = [row.name for row in expected.standings]
    lines = [line.strip() for line in shown.splitlines()]
    assert [
        next(n for n in order if re.match(rf"{re.escape(n)}  ", line))
        for line in lines
        if any(re.match(rf"{re.escape(n)}  ", line) for n in order)
    ] == order


# -- the demo -------------------------------------------------------------------------------------


@functools.cache
def small_demo() -> demo.DemoResult:
    """The same with few trees, and few runs of active learning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_RUNS", 2)
        patch.setattr(demo, "_LABELS", {"initial": 20, "per_round": 20, "budget": 40})
        return demo.run_demo(n_trees=4)


@pytest.fixture
def quick_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with a demo that has been run already."""
    found = small_demo()
    monkeypatch.setattr(demo, "run_demo", lambda trees, seed, progress: found)


def test_demo_for_machines(tmp_path: Path):
    out = tmp_path / "new folder" / "aüß"
    found = real("demo", "--out", out, "--trees", "10", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    printed = strictly(found.stdout)
    files = printed.pop("written")
    assert files == [
        str(out / name) for name in ("report.html", "evaluation.json", "digits.npz", "ood.npz")
    ]
    assert {str(path) for path in out.iterdir()} == set(files)
    assert printed == json.loads((out / "evaluation.json").read_text())
    assert printed["loss"] < 0.2
    assert printed["ood"]["metrics"]["auroc"] > 0.7
    assert printed["n_members"] == 10
    assert set(printed["learning"]["curves"]) == {"epistemic zero-one", "random"}
    own, ood = (sw.read_predictions(out / name) for name in ("digits.npz", "ood.npz"))
    assert own.class_names == tuple("01234567")
    assert sw.evaluate(own, n_resamples=100).loss == printed["loss"]
    assert ood.labels is None


@pytest.mark.usefixtures("quick_demo")
def test_demo_in_words_and_what_it_suggests(here: Path):
    found = fine(run("demo", "--trees", "8"))
    assert found.stderr == ""
    assert "A forest of 8 trees" in found.stdout
    assert "Written to out/report.html: open it in a browser" in found.stdout
    page = Path("out/report.html").read_text()
    assert "handwritten digits" in page
    suggested = re.findall(r"^  scorewise (.*)$", found.stdout, re.MULTILINE)
    assert len(suggested) == 3
    for line in suggested:
        assert run(*shlex.split(line), *(FAST if "evaluate" in line else ())).exit_code in (0, 1)


@pytest.mark.usefixtures("quick_demo")
def test_what_demo_suggests_can_be_copied_where_names_have_spaces(here: Path):
    found = fine(run("demo", "--trees", "2", "--out", "my demo"))
    suggested = re.findall(r"^  scorewise (label .*)$", found.stdout, re.MULTILINE)
    fine(run(*shlex.split(suggested[0])))


def test_demo_is_reproducible():
    one = small_demo()
    small_demo.cache_clear()
    two = small_demo()
    assert one is not two
    assert dumps(one.evaluation.to_dict()) == dumps(two.evaluation.to_dict())
    assert one.predictions.probs.tobytes() == two.predictions.probs.tobytes()


# -- help -----------------------------------------------------------------------------------------


def examples() -> list[Any]:
    """All examples of all commands' help."""
    found = []
    for name in COMMANDS:
        text = fine(run(name, "--help")).stdout
        lines = re.findall(r"^ +(scorewise .*)$", text.partition("Examples:")[2], re.MULTILINE)
        assert len(lines) >= 2, name
        found += lines
    return found


@pytest.mark.usefixtures("quick_demo")
@pytest.mark.parametrize("line", examples())
def test_the_examples_run(line: str, here: Path):
    for name in ("test.parquet", "held_out.npz", "new.npz", "new.parquet"):
        sw.write_predictions(name, OWN)
    sw.write_predictions("folder_of_parquet_files", OWN)
    np.save("test.npy", made(50, k=6)[0])
    for name in ("ood.npz", "ood.parquet"):
        sw.write_predictions(name, kept(60, seed=5, sharp=3.0))
    for name in ("pool.npz", "pool.parquet"):
        sw.write_predictions(name, OWN.probs, ids=OWN.ids)
    fine(run("certify", "held_out.npz", "--max-loss", "0.2"))
    command, _, printed_to = line.partition(" > ")
    program, *args = shlex.split(command)
    assert program == "scorewise"
    if "evaluate" in args or "compare" in args:
        args += FAST
    found = run(*args)
    # promises of other data may not be kept on these
    fine(found, 1 if found.exit_code == 1 and "--max-loss" in args else 0)
    if "--json" in args:
        strictly(found.stdout)
    if "--out" in args:
        assert Path(args[args.index("--out") + 1]).is_file()
    assert printed_to in ("", "demo.json")


def test_the_costs_in_the_help_can_be_used(here: Path):
    text = fine(run("decide", "--help")).stdout
    lines = [line.strip() for line in text.partition("costs.csv has")[2].splitlines()[1:4]]
    Path("costs.csv").write_text("\n".join(lines) + "\n")
    sw.write_predictions("two.npz", made(30, k=2)[0], class_names=["healthy", "ill"])
    told = from_json(run("decide", "two.npz", "--costs", "costs.csv", "--json"))
    assert told["actions"] == ["dismiss", "treat"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_on_the_screen_and_explains_every_option(name: str):
    text = fine(run(name, "-h", COLUMNS="80")).stdout
    assert text == fine(run(name, "--help", COLUMNS="80")).stdout
    options = text.partition("Options:")[2]
    for option in re.findall(r"^  (--[a-z-]+)", options, re.MULTILINE):
        assert re.search(
            rf"{option}(, --n)?( (<.*?>|[A-Z,…]+))? {{2,}}\S|{option} .*\n +\S", options
        )
    for word in ("--json", "--debug", "Examples:"):
        assert word in text
    said = [line for line in text.splitlines() if not line.strip().startswith("scorewise ")]
    assert max(map(len, said)) <= 80


def test_without_a_command_there_is_help(here: Path):
    found = run()
    assert found.exit_code == 2
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", found.output, re.MULTILINE)
    assert "Exit codes: 0 success, 1 no guarantee, 2 wrong usage or input" in found.output
    assert fine(run("--version")).stdout == f"scorewise {sw.__version__}\n"


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        "nonsense",
        "score",
        "score test.npz --nonsense",
        "label test.npz -n 0",
        "certify test.npz",
        "certify test.npz --max-loss much",
        "demo --trees 1",
        "evaluate test.npz --resamples 5",
        "label test.npz --seed -1",
        "decide test.npz",
        "advise",
        "apply cert.json",
        "score test.npz again.npz",
    ],
)
def test_wrong_usage_is_exit_code_2(args: str, here: Path):
    found = run(*args.split())
    assert found.exit_code == 2
    assert found.stdout == ""
    assert "Error: " in found.stderr
    assert "for help" in found.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("score missing.npz", "there is no file 'missing.npz'"),
        ("score test.npz --rules foo", "no rule is called 'foo'"),
        ("score test.npz --rules brie", "did you mean 'brier'"),
        ("score test.npz --rules ,", "--rules log,zero-one"),
        ("score test.npz --rules top-k:5", "needs at least 5 classes"),
        ("score test.npz --rules beta:0.5,2", "is for 2 classes"),
        ("score test.npz --out U.txt", "must end in .parquet"),
        ("score test.npz --out no/U.csv", "there is no folder 'no'"),
        ("score test.npz --out folder.csv", "is a folder"),
        ("score costs.txt", "of no known format"),
        ("score folder.csv", "no Parquet files"),
        ("evaluate test.npz --report folder.csv", "is a folder"),
        ("evaluate test.npz --ood missing.npz", "there is no file 'missing.npz'"),
        ("evaluate test.npz --confidence 95", "above 0 and below 1"),
        ("evaluate test.npz --task-loss nope", "no rule is called 'nope'"),
        ("evaluate test.npz --task-loss missing.csv", "missing.csv"),
        ("evaluate test.npz --figures test.npz --no-report", "is a file"),
        ("evaluate bare.npz", "no labels"),
        ("evaluate part.npz", "labels[1] (row 1) is missing"),
        ("evaluate empty.npz", "no rows"),
        ("certify test.npz --max-loss nan", "finite"),
        ("certify test.npz --max-loss 2", "from 0 to 1"),
        ("certify test.npz --max-loss 0.1 --task-loss log", "--floor 1e-"),
        ("certify test.npz --max-loss 0.1 --task-loss log --floor 0.9", "below 1/3"),
        ("certify bare.npz --max-loss 0.1", "no labels"),
        ("certify empty.npz --max-loss 0.1", "no rows"),
        ("apply missing.json test.npz", "missing.json"),
        ("apply costs.csv test.npz", "is not a JSON file"),
        ("apply test.npz test.npz", "is not a JSON file"),
        ("apply list.json test.npz", "is not a policy"),
        ("label test.npz -n 251", "only 250"),
        ("label test.npz --component some", "'total', 'aleatoric', 'epistemic'"),
        ("label test.npz --method best", "'power'"),
        ("label empty.npz", "no unlabelled rows"),
        ("decide test.npz --costs missing.csv", "missing.csv"),
        ("decide test.npz --costs test.npz", "is no CSV file"),
        ("decide test.npz --costs costs.csv --abstain-cost nan", "finite"),
        ("advise sleeping", "'selective', 'ood', 'active'"),
        ("compare test.npz --task active", "active_learning"),
        ("compare test.npz --task ood", "ood"),
        ("compare test.npz --task nothing", "'selective', 'ood'"),
        ("compare bare.npz", "no labels"),
        ("demo --out test.npz", "test.npz"),
    ],
)
def test_mistakes_are_one_sentence(args: str, words: str, here: Path):
    Path("folder.csv").mkdir()
    Path("costs.txt").write_text(COSTS)
    Path("list.json").write_text("[1, 2]")
    np.savez("bare.npz", probs=OWN.probs)
    np.savez("part.npz", probs=OWN.probs[:3], labels=[0, -1, -1])
    sw.write_predictions("empty.npz", np.empty((0, 4, 3)))
    before = sorted(here.iterdir())
    assert words in sentence_of(run(*args.split()))
    assert sorted(here.iterdir()) == before
    debug = run(*args.split(), "--debug")
    assert debug.exit_code == 2
    assert "Traceback" in debug.stderr


def broken_files() -> dict[str, tuple[bytes, str]]:
    """Files that are not what they must be, and what is said of them."""
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"scorewise-broken-{os.getpid()}"
    folder.mkdir(exist_ok=True)

    def saved(name: str, save: Any) -> bytes:
        path = folder / name
        save(path)
        data = path.read_bytes()
        path.unlink()
        return data

    def changed(index: Any, value: Any) -> bytes:
        probs = OWN.probs.copy()
        probs[index] = value
        return saved("x.npy", lambda path: np.save(path, probs))

    npz = saved("x.npz", lambda path: sw.write_predictions(path, OWN))
    parquet = saved("x.parquet", lambda path: sw.write_predictions(path, OWN))
    arrow = saved("x.arrow", lambda path: sw.write_predictions(path, OWN))
    tensors = saved("x.safetensors", lambda path: sw.write_predictions(path, OWN))
    npy = saved("x.npy", lambda path: np.save(path, OWN.probs))
    found = {
        "sum.npy": (changed((7, 2), 0.5), "probs[7, 2] sums to 1.5"),
        "negative.npy": (changed((7, 2, 0), -0.5), "probs[7, 2, 0] is -0.5"),
        "nan.npy": (changed((7, 2, 0), np.nan), "probs[7, 2, 0] is nan"),
        "whole.npy": (saved("x.npy", lambda p: np.save(p, np.ones((3, 2, 2), int))), "int64"),
        "flat.npy": (saved("x.npy", lambda p: np.save(p, OWN.probs[:, 0])), "(N, M, K)"),
        "objects.npy": (
            saved("x.npy", lambda p: np.save(p, np.array([{}], object), allow_pickle=True)),
            "unpickled",
        ),
        "text.csv": (b"probs_0_0,probs_0_1\n0.5,half\n", "'half'"),
        "ragged.csv": (b"probs_0_0,probs_0_1\n0.5\n", "1 cells"),
        "other.csv": (b"x,y\n1,2\n", "no columns of predictions"),
        "bytes.csv": (b"\xff\xfe\x00", "UTF-8"),
        "other.npz": (saved("x.npz", lambda p: np.savez(p, x=OWN.probs)), "no array 'probs'"),
        "labels.npz": (
            saved("x.npz", lambda p: np.savez(p, probs=OWN.probs, labels=np.full(250, 7))),
            "labels[0] is 7",
        ),
        "cut.npy": (npy[:-100], "cut off"),
        "cut.npz": (npz[:-100], "no .npz file"),
        "cut.parquet": (parquet[:-100], "cut off"),
        "cut.arrow": (arrow[:-100], "cut off"),
        "cut.safetensors": (tensors[:-100], "cut off"),
        "wrong.parquet": (npz, "no Parquet file"),
        "wrong.npz": (parquet, "no .npz file"),
    }
    for kind in ("npy", "npz", "parquet", "arrow", "csv", "safetensors"):
        found[f"empty.{kind}"] = (b"", f"empty.{kind}")
    folder.rmdir()
    return found


BROKEN = broken_files()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_one_sentence(name: str, here: Path):
    data, words = BROKEN[name]
    Path(name).write_bytes(data)
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    for args in (
        ("score", name, "--out", "U.csv"),
        ("evaluate", name, "--no-report"),
        ("label", name),
        ("certify", name, "--max-loss", "0.1", "--out", "again.json"),
        ("compare", name),
        (
            "decide",
            name,
            "--costs",
            "costs.csv",
            "--out",
            "U.csv",
            "--class-names",
            "healthy,doubtful,ill",
        ),
        ("apply", "cert.json", name, "--out", "U.csv"),
        ("evaluate", "test.npz", "--ood", name),
    ):
        assert words in sentence_of(run(*args)), args
    for written in ("U.csv", "again.json", "report.html"):
        assert not Path(written).exists()


def test_advice_about_logits_is_a_sentence(here: Path):
    np.save("logits.npy", np.log(OWN.probs))
    said = sentence_of(run("score", "logits.npy"))
    assert '"logits"' in said
    assert "pass call" not in said


def with_a_late_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    probs = OWN.probs.copy()
    probs[200, 1] *= 2
    sw.write_predictions("late.parquet", probs)
    monkeypatch.setattr(io_predictions, "CHUNK_BYTES", 50 * 4 * 3 * 8)


@pytest.mark.parametrize("args", [("score", "late.parquet"), ("label", "late.parquet")])
def test_a_mistake_far_down_is_named_by_its_place(
    args: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    with_a_late_mistake(monkeypatch)
    said = sentence_of(run(*args))
    assert "'late.parquet': row 200 (row group 0, row 200 there): probs[200, 1] sums to" in said


@pytest.mark.parametrize(
    "args", [("decide", "late.parquet", "--costs", "c.csv"), ("apply", "cert.json", "late.parquet")]
)
def test_a_mistake_far_down_is_named_by_its_row(
    args: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    Path("c.csv").write_text("dismiss,treat\n0,5\n2,2\n50,0\n")
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    with_a_late_mistake(monkeypatch)
    assert "probs[200, 1] sums to 2" in sentence_of(run(*args))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names of the actions"),
        ("a,b\n1,2\n", "names of the actions"),
        (",a,b\nhealthy,1,2\ndoubtful,1\nill,1,2\n", "same length"),
        (",a,b\nhealthy,1,2\ndoubtful,1,x\nill,1,2\n", "the action 'b' is 'x'"),
        (",a,b\nhealthy,1,2\ndoubtful,1,nan\nill,1,2\n", "finite"),
        (",a,a\nhealthy,1,2\ndoubtful,1,1\nill,1,2\n", "two actions are called 'a'"),
        (",a,b\nhealthy,1,2\nhealthy,1,1\nill,1,2\n", "two lines for the same class"),
        (",a,b\nhealthy,1,2\nunsure,1,1\nill,1,2\n", "a line for 'unsure'"),
        ("a,b\n1,2\n1,2\n", "2 classes, but the predictions have 3"),
        ('"', "no CSV file"),
    ],
)
def test_wrong_costs_are_one_sentence(text: str, words: str, here: Path):
    Path("costs.csv").write_text(text)
    for args in (
        ("decide", "test.npz", "--costs", "costs.csv"),
        ("evaluate", "test.npz", "--task-loss", "costs.csv"),
        ("certify", "test.npz", "--max-loss=1", "--task-loss", "costs.csv"),
    ):
        assert words in sentence_of(run(*args))


DAMAGE: dict[str, Any] = {
    "kind": "other",
    "members": None,
    "certificate": {},
    "class_names": 5,
    "metadata": 5,
    "rule": 5,
    "calibration_uncertainty": [],
    "classes": 2,
}
WORSE: dict[str, Any] = {
    "members": "abc",
    "metadata": "ab",
    "rule": {"costs": [[1, 2], [3]], "actions": None},
    "certificate.threshold": "abc",
    "certificate.coverage": None,
    "certificate.max_loss": "x",
}


def apply_damaged(key: str, value: Any) -> Result:
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    kept = json.loads(Path("cert.json").read_text())
    outer, _, inner = key.partition(".")
    if inner:
        kept[outer][inner] = value
    else:
        kept[outer] = value
    Path("cert.json").write_text(json.dumps(kept))
    return run("apply", "cert.json", "test.npz")


@pytest.mark.parametrize("key", DAMAGE)
def test_a_damaged_certificate_is_one_sentence(key: str, here: Path):
    sentence_of(apply_damaged(key, DAMAGE[key]))


@pytest.mark.parametrize("key", WORSE)
def test_a_certificate_with_wrong_values_is_one_sentence(key: str, here: Path):
    sentence_of(apply_damaged(key, WORSE[key]))


def test_a_certificate_does_not_take_the_place_of_a_folder(here: Path):
    precious = here / "results" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("the only copy")
    found = run("certify", "test.npz", "--max-loss", "0.2", "--out", "results")
    assert precious.is_file()
    assert "is a folder" in sentence_of(found)


def test_a_certificate_needs_a_folder(here: Path):
    said = sentence_of(run("certify", "test.npz", "--max-loss", "0.2", "--out", "no/cert.json"))
    assert "there is no folder 'no'" in said
    assert "partial" not in said


@pytest.mark.parametrize(
    "args",
    [
        "score test.parquet",
        "decide test.parquet --costs costs.csv",
        "label test.parquet",
        "apply cert.json test.parquet",
        "certify test.parquet --max-loss 0.3",
    ],
)
def test_the_input_is_not_overwritten(args: str, here: Path):
    sw.write_predictions("test.parquet", OWN)
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    before = Path("test.parquet").read_bytes()
    found = run(*args.split(), "--out", "test.parquet")
    assert Path("test.parquet").read_bytes() == before
    sentence_of(found)


def test_the_result_is_not_put_among_the_input(here: Path):
    sw.write_predictions("folder", OWN)
    for _ in range(2):
        run("score", "folder", "--out", "folder/U.parquet")
        assert len(sw.read_predictions("folder")) == 250


@pytest.mark.parametrize("args", ["evaluate --no-report", "compare", "certify --max-loss 0.9"])
def test_half_precision_is_good_enough(args: str, here: Path):
    sw.write_predictions("half.npz", OWN.probs.astype(np.float16), labels=OWN.labels)
    fine(run("score", "half.npz"))
    command, *more = args.split()
    fine(run(command, "half.npz", *more))


def test_a_seed_that_is_too_large_is_one_sentence(here: Path):
    found = run("demo", "--trees", "2", "--seed", 2**32)
    assert found.exit_code == 2
    assert "Traceback" not in found.output


@pytest.mark.parametrize(
    ("args", "python"),
    [
        ("compare test.npz --task ood", "ood="),
        ("compare test.npz --ood test.npz", "ood="),
        ("score test.npz --rules log,log", "mapping"),
        ("evaluate test.npz --max-loss nan --no-report --resamples 100", "np.float64"),
        ("evaluate test.npz --ood four.npz --no-report --resamples 100", "Samples("),
    ],
)
def test_messages_are_for_those_who_type_commands(args: str, python: str, here: Path):
    sw.write_predictions("four.npz", made(20, k=4)[0])
    assert python not in sentence_of(run(*args.split()))


def test_debug_shows_the_trace_and_nothing_else_does(here: Path):
    plain, debug = (real("score", "missing.npz", *more) for more in ((), ("--debug",)))
    assert plain.returncode == 2
    assert plain.stdout == ""
    assert plain.stderr == "Error: there is no file 'missing.npz'\n"
    assert "Traceback" in debug.stderr
    assert "FileNotFoundError: there is no file 'missing.npz'" in debug.stderr


def test_a_mistake_has_the_same_exit_code_with_debug(here: Path):
    assert real("score", "missing.npz", "--debug").returncode == 2


# -- names that want to be more -------------------------------------------------------------------

NASTY = "\x1b[31mRED\x1b[0m [red]markup[/red] \x07\x9b31m\x08\r"
HOSTILE = [f"{NASTY}\nnew line", "b\u202ebidi\u2066", f"c[bold]{'n' * 10_000}"]


@pytest.fixture
def hostile(here: Path) -> Path:
    ids = np.array([HOSTILE[i % 3] + str(i) for i in range(250)], dtype=object)
    options = {"labels": OWN.labels, "ids": ids, "class_names": HOSTILE}
    sw.write_predictions("hostile.npz", OWN.probs, **options)
    with Path("hostile.csv").open("w", newline="") as file:
        rows = [
            ["", f"act {NASTY}", "[blue]go[/blue]"],
            *([name, i, 1] for i, name in enumerate(HOSTILE)),
        ]
        csv.writer(file).writerows(rows)
    return here


def assert_harmless(text: str) -> None:
    wrong = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert not wrong


@pytest.mark.parametrize(
    "args",
    [
        "score hostile.npz",
        "label hostile.npz -n 9",
        "label hostile.npz -n 3 --method joint",
        "evaluate hostile.npz --resamples 100 --no-report",
        "compare hostile.npz --resamples 100",
        "certify hostile.npz --max-loss 0.2",
        "decide hostile.npz --costs hostile.csv",
        "evaluate hostile.npz --task-loss hostile.csv --resamples 100 --no-report",
        "certify hostile.npz --max-loss 1.9 --task-loss hostile.csv",
        "advise selective --task-loss hostile.csv",
    ],
)
def test_names_never_reach_the_terminal_raw(args: str, hostile: Path):
    found = fine(run(*args.split()))
    assert found.stderr == ""
    assert_harmless(found.stdout)
    assert len(found.stdout) < 5000
    colored = run(*args.split(), NO_COLOR="", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "RED" not in colored or "\x1b[31mRED" not in colored
    assert_harmless(re.sub(r"\x1b\[[\d;]*m", "", colored))


def test_markup_is_shown_as_it_is(hostile: Path):
    assert "[red]" in run("label", "hostile.npz", "-n", "50").stdout
    assert "[blue]go[/blue]" in run("decide", "hostile.npz", "--costs", "hostile.csv").stdout


def test_names_are_kept_whole_in_files_and_json(hostile: Path):
    ids = sw.read_predictions("hostile.npz").ids.tolist()
    for out in ("U.parquet", "U.arrow"):
        fine(run("score", "hostile.npz", "--rules", "log", "--out", out))
        assert table_of(Path(out))["id"].to_pylist() == ids
    fine(run("score", "hostile.npz", "--rules", "log", "--out", "U.csv"))
    with Path("U.csv").open(newline="", encoding="utf-8") as file:
        assert [line["id"] for line in csv.DictReader(file)] == ids
    fine(run("certify", "hostile.npz", "--max-loss", "0.2"))
    told = from_json(run("apply", "cert.json", "hostile.npz", "--json"))
    assert told["n_rows"] == 250
    assert set(table_of(Path("decisions.parquet"))["prediction"].to_pylist()) <= set(HOSTILE)
    found = from_json(run("label", "hostile.npz", "--json"))
    assert found["ids"] == [ids[row] for row in found["rows"]]


@pytest.mark.parametrize(
    "args", ["apply cert.json hostile.npz", "decide hostile.npz --costs costs.csv"]
)
def test_names_in_complaints_are_harmless(args: str, hostile: Path):
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    found = run(*args.split())
    sentence_of(found)
    assert_harmless(found.stderr)


@pytest.mark.parametrize(
    "args", ["apply cert.json hostile.npz", pytest.param("decide hostile.npz --costs costs.csv")]
)
def test_names_in_complaints_are_cut(args: str, hostile: Path):
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    assert len(sentence_of(run(*args.split()))) < 1000


def test_file_names_are_names_too(here: Path):
    name = f"{NASTY[:16]} [red]x ü.npz"
    Path("test.npz").rename(name)
    for args in (
        ("score", name),
        ("label", name, "-n", "2"),
        ("certify", name, "--max-loss=0.3"),
        ("evaluate", name, *FAST),
    ):
        assert_harmless(fine(run(*args)).stdout)
    missing = run("score", "\x1b[31mno.npz")
    sentence_of(missing)
    assert_harmless(missing.stderr)
    found = from_json(run("score", name, "--out", "U.parquet", "--json"))
    assert found["input"] == name


def test_paths_are_not_broken_by_the_width_of_the_screen(here: Path):
    long = here / ("folder of a long name " * 5) / ("and another " * 8)
    long.mkdir(parents=True)
    found = real("score", "test.npz", "--rules", "log", "--out", long / "U.parquet")
    assert found.returncode == 0
    assert f"Written to {long / 'U.parquet'}" in found.stdout.splitlines()


# -- as it is really used -------------------------------------------------------------------------


def test_from_another_folder_with_spaces_and_letters_of_all_kinds(here: Path):
    folder = here / "my räksmörgås 日本"
    folder.mkdir()
    data, elsewhere = folder / "tést data.parquet", here / "else where"
    elsewhere.mkdir()
    sw.write_predictions(data, OWN)
    relative = os.path.relpath(data, elsewhere)
    found = real(
        "score",
        relative,
        "--rules",
        "log",
        "--out",
        f"../{folder.name}/Ü.csv",
        "--json",
        cwd=elsewhere,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert strictly(found.stdout)["input"] == "tést data.parquet"
    assert (folder / "Ü.csv").is_file()
    found = real("certify", relative, "--max-loss", "0.3", cwd=elsewhere)
    assert (found.returncode, found.stderr) == (0, "")
    assert (elsewhere / "cert.json").is_file()


def test_what_goes_where_in_real_life(here: Path):
    fine(run("certify", "test.npz", "--max-loss", "0.2"))
    sw.write_predictions("new.npz", kept(200, seed=4, sharp=5.0))
    found = real("apply", "cert.json", "new.npz")
    assert found.returncode == 1
    assert "WARNING" in found.stdout
    assert "rows accepted" in found.stdout
    found = real("evaluate", "test.npz", "--max-loss", "0.001", *FAST, "--json")
    assert (found.returncode, found.stderr) == (1, "")
    assert strictly(found.stdout)["written"] == ["report.html"]
    assert "scorewise evaluate test.npz --max-loss 0.001" in Path("report.html").read_text()
    found = real("label", "test.npz", "-n")
    assert (found.returncode, found.stdout) == (2, "")


def test_a_pipe_that_closes_early_is_no_accident(here: Path):
    line = f"{shlex.quote(str(SCOREWISE))} label test.npz -n 200 --json | head -c 5"
    found = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert found.stdout == '{"row'
    assert "Traceback" not in found.stderr


def test_a_full_disk_behind_stdout_is_told(here: Path):
    with Path("/dev/full").open("w") as full:
        found = subprocess.run([SCOREWISE, "label", "test.npz"], stdout=full, stderr=-1, text=True)
    assert found.returncode == 2
    assert "No space left on device" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_terminal_that_cannot_show_every_letter(here: Path):
    found = real("label", "test.npz", "-n", "30", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "Traceback" not in found.stderr
    assert found.returncode == 0


# -- without what is optional ---------------------------------------------------------------------

HIDE = """
import json, sys
from importlib.machinery import PathFinder
hidden, commands = json.loads(sys.argv[1])
find = PathFinder.find_spec.__func__
def found(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else find(cls, name, path, target)
PathFinder.find_spec = classmethod(found)
from typer.testing import CliRunner
from scorewise.cli import app
told = []
for command in commands:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, command.split())
    told.append([result.exit_code, result.stdout, result.stderr, repr(result.exception)])
print(json.dumps(told))
"""


def without(hidden: list[str], *commands: str) -> Iterator[tuple[int, str, str, str]]:
    """What commands say where some libraries are not installed."""
    found = subprocess.run(
        [sys.executable, "-c", HIDE, json.dumps([hidden, commands])],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    yield from json.loads(found.stdout)


def test_without_pyarrow(here: Path):
    sw.write_predictions("test.parquet", OWN)
    sw.write_predictions("test.safetensors", OWN)
    sw.write_predictions("test.csv", OWN)
    needing = [
        "score test.npz",
        "score test.parquet",
        "label test.npz --out next.csv",
        "decide test.npz --costs costs.csv",
        "evaluate test.parquet",
        "label test.safetensors",
        "apply cert.json test.npz",
    ]
    others = [
        "certify test.npz --max-loss 0.2",
        "label test.npz",
        "label test.csv --json",
        "compare test.npz --resamples 100",
        "advise ood",
        "score --help",
        "evaluate test.npz --resamples 100",
    ]
    found = list(without(["pyarrow", "safetensors"], *others, *needing))
    for command, (code, _, stderr, error) in zip(others, found, strict=False):
        assert (code, stderr) == (0, ""), (command, error)
    for command, (code, stdout, stderr, error) in zip(needing, found[len(others) :], strict=True):
        assert (code, stdout) == (2, ""), (command, error)
        assert stderr.startswith("Error: "), command
        assert "pip install 'scorewise[io]'" in stderr
        assert stderr.count("\n") == 1


def test_without_plotly_jinja_and_matplotlib(here: Path):
    needing = {
        "evaluate test.npz --resamples 100": "report",
        "demo --trees 2": "report",
        "evaluate test.npz --resamples 100 --no-report --figures f": "plots",
    }
    others = [
        "evaluate test.npz --no-report --resamples 100",
        "score test.npz --rules log",
        "certify test.npz --max-loss 0.2",
    ]
    found = list(without(["plotly", "jinja2", "matplotlib"], *others, *needing))
    for command, (code, _, stderr, error) in zip(others, found, strict=False):
        assert (code, stderr) == (0, ""), (command, error)
    for (command, extra), (code, stdout, stderr, error) in zip(
        needing.items(), found[len(others) :], strict=True
    ):
        assert (code, stdout) == (2, ""), (command, error)
        assert f"pip install 'scorewise[{extra}]'" in stderr
        assert stderr.count("\n") == 1
    assert not Path("report.html").exists()


@pytest.mark.parametrize(
    "text",
    [
        "class,stay,go\n0,0,5\n1,50,0\n2,1,1\n",
        "class,stay,go\n2,1,1\n1,50,0\n0,0,5\n",
        "stay,go\n0,5\n50,0\n1,1\n",
        ",stay,go\nill,1,1\nhealthy,0,5\ndoubtful,50,0\n",
    ],
)
def test_costs_by_number_by_name_and_in_order_are_the_same(text: str, here: Path):
    Path("costs.csv").write_text(text)
    told = from_json(run("decide", "test.npz", "--costs", "costs.csv", "--json"))
    assert (told["costs"], told["actions"]) == ([[0, 5], [50, 0], [1, 1]], ["stay", "go"])


def test_classes_named_by_hand(here: Path):
    labels = np.array(NAMES, dtype=object)[OWN.labels]
    np.savez("named.npz", probs=OWN.probs, y=labels.astype(str))
    said = sentence_of(run("evaluate", "named.npz", "--no-report"))
    assert "--class-names" in said
    names = ("--class-names", ",".join(NAMES))
    told = from_json(run("evaluate", "named.npz", *names, "--no-report", *FAST, "--json"))
    assert told["class_names"] == NAMES
    assert told["loss"] == pytest.approx((OWN.probs.mean(1).argmax(1) != OWN.labels).mean())


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_who_stops_reading_has_not_met_a_broken_promise(how: list[str], here: Path):
    command = shlex.join([str(SCOREWISE), "compare", "test.npz", *FAST, *how])
    found = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
