"""``scorewise label --format``: tasks for labelling tools, in the order of the choice."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from cli_support import NAMES, PREDICTIONS, from_json, run, sentence_of, succeeded

TEXTS = [f"<b>text {i}</b>" for i in range(250)]  # as in texts.csv
TOOLS = {
    "label-studio": ("tasks.json", lambda content: [task["data"] for task in content]),
    "argilla": (
        "tasks.json",
        lambda content: [{**r["fields"], **r["metadata"], "row_id": r["id"]} for r in content],
    ),
    "fiftyone": (
        "labels.json",
        lambda content: [
            {"text": image, **label["attributes"]} for image, label in content["labels"].items()
        ],
    ),
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("method", ["top", "power", "joint"])
def test_tasks_are_the_chosen_rows_in_their_order(tool, method, here: Path):
    out, tasks_in = TOOLS[tool]
    args = ("label", "test.npz", "-n", "7", "--method", method, "--json")
    plain = from_json(run(*args))
    to_tool = ("--format", tool, "--data", "texts.csv", "--data-column", "text", "--out", out)
    assert from_json(run(*args, *to_tool)) == {"path": out, **plain}
    name = next(key for key in plain if key.endswith("zero-one"))
    tasks = tasks_in(json.loads(Path(out).read_text()))
    assert [task["rank"] for task in tasks] == [*range(1, 8)]
    assert [task["row_id"] for task in tasks] == plain["ids"]
    if tool != "fiftyone":  # which has paths without suffix
        assert [task["text"] for task in tasks] == [TEXTS[row] for row in plain["rows"]]
    assert [task["score"] for task in tasks] == plain[name]
    assert {task["measure"] for task in tasks} == {name}
    d = sw.decompose(PREDICTIONS.samples, "zero-one")
    for component in ("total", "aleatoric", "epistemic"):
        values = [task[component] for task in tasks]
        np.testing.assert_allclose(values, getattr(d, component)[plain["rows"]], rtol=1e-12)


def test_the_data_may_be_in_the_file_of_predictions(here: Path):
    sw.write_predictions("pool.parquet", PREDICTIONS)
    table = pq.read_table("pool.parquet")
    pq.write_table(table.append_column("image", pa.array(TEXTS)), "pool.parquet")
    args = ("--format", "label-studio", "--data-column", "image", "--out", "tasks.json")
    result = succeeded(run("label", "pool.parquet", "-n", "3", *args))
    assert "Written to tasks.json" in result.stdout
    top = sw.acquire(sw.decompose(PREDICTIONS.samples, "zero-one").epistemic, 3)
    mean = PREDICTIONS.samples.mean[top]
    for row, p, task in zip(top, mean, json.loads(Path("tasks.json").read_text()), strict=True):
        assert task["data"]["image"] == TEXTS[row]
        (prediction,) = task["predictions"]
        assert prediction["score"] == pytest.approx(p.max())
        (region,) = prediction["result"]
        assert (region["from_name"], region["to_name"]) == ("choice", "image")
        assert region["value"] == {"choices": [NAMES[p.argmax()]]}


def test_names_in_the_tool_are_options(here: Path):
    data = ("--data", "texts.csv", "--data-column", "text", "--out", "tasks.json")
    names = ("--field", "sentence", "--question", "topic", "--model", "forest")
    succeeded(run("label", "test.npz", "--format", "argilla", *data, *names))
    record, *_ = json.loads(Path("tasks.json").read_text())
    assert [*record["fields"]] == ["sentence"]
    assert record["suggestions"]["topic"]["agent"] == "forest"


def test_csv_and_rows_without_ids_and_names(here: Path):
    np.savez("pool.npz", probs=PREDICTIONS.probs)
    result = from_json(run("label", "pool.npz", "--format", "csv", "--out", "t.csv", "--json"))
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == result["rows"] == result["ids"]
    mean = PREDICTIONS.samples.mean[result["rows"]]
    assert [row["label"] for row in rows] == [str(k) for k in mean.argmax(axis=-1)]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--format prodigy --out a.json", "--format must be one of 'argilla', 'csv'"),
        ("--format argilla", "--format needs --out"),
        ("--format argilla --out a.csv", "'a.csv' must end in .json, for argilla"),
        ("--format argilla --out a.json", "use --data-column, with the text, path"),
        ("--format csv --out test.csv --data texts.csv", "--data needs --data-column"),
        ("--format csv --out a.csv --question q", "csv has no question; leave out --question"),
        ("--data-column text", "--data-column is for --format"),
        ("--model forest", "--model is for --format"),
        (
            "--format argilla --out a.json --data texts.csv --data-column txt",
            "'texts.csv': there is no column 'txt', only 'id', 'text'; did you mean 'text'?",
        ),
        (
            "--format argilla --out a.json --data-column text",
            "'test.npz': there is no column 'text', only",
        ),
        (
            "--format label-studio --out a.json --data texts.csv --data-column text --field a",
            "no template of Label Studio has the tag 'a'; use --question",
        ),
        (
            "--format argilla --out texts.csv --data texts.csv --data-column text",
            "'texts.csv' is, or is in, the input 'texts.csv'",
        ),
    ],
)
def test_what_a_tool_needs_is_asked_for(args, message, here: Path):
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    assert message in sentence_of(run("label", "test.npz", *args.split()))
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_labels_that_people_have_made_are_not_replaced(here: Path):
    args = ("label", "test.npz", "--format", "csv", "--out", "tasks.csv")
    succeeded(run(*args))
    Path("tasks.csv").write_text("with labels")
    assert "may have labels by now, so it is not replaced" in sentence_of(run(*args))
    assert Path("tasks.csv").read_text() == "with labels"
