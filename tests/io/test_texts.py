"""Texts of rows, from the file of the predictions or from another one."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from answers_support import write_answers
from scorewise.io import Predictions, TextColumn
from support import members

N = 9
PROBS = members(N, 3, 2, seed=1)
IDS = [f"row-{i}" for i in range(N)]
TEXTS = [f"text {i}, ü" for i in range(N)]
ROWS = [7, 0, 3]
KINDS = ["csv", "parquet", "arrow", "npz", "folder"]


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Columns in a file of any format that has them."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([[*columns], *zip(*columns.values(), strict=True)])
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    elif path.suffix == ".jsonl":
        rows = (dict(zip(columns, x, strict=True)) for x in zip(*columns.values(), strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".arrow":
        table = pa.table(columns)
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, row_group_size=4)
    else:
        path.mkdir()
        for start in (0, 5):
            part = {name: values[start : start + 5] for name, values in columns.items()}
            pq.write_table(pa.table(part), path / f"{start}.parquet")


def path_of(folder: Path, kind: str) -> Path:
    return folder / ("texts" if kind == "folder" else f"texts.{kind}")


def pool(folder: Path, kind: str, **columns: Any) -> Predictions:
    """Predictions with further columns in their file."""
    names = [f"probs_{m}_{k}" for m in range(3) for k in range(2)]
    probs = dict(zip(names, PROBS.reshape(N, -1).T.tolist(), strict=True))
    path = path_of(folder, kind)
    write_table(path, {**({"probs": PROBS} if kind == "npz" else probs), **columns})
    return sw.read_predictions(path)


def test_rows_are_taken_in_any_order(tmp_path: Path):
    sw.write_predictions(tmp_path / "a.parquet", PROBS, ids=IDS, labels=[0, 1, -1] * 3)
    weights = np.linspace(1, 2, N * 3).reshape(N, 3)
    in_memory = Predictions(PROBS, ids=IDS, class_names=["a", "b"], weights=weights)
    for predictions in (sw.read_predictions(tmp_path / "a.parquet"), in_memory):
        taken = predictions.take(ROWS)
        assert taken.fields == predictions.fields
        assert taken.class_names == predictions.class_names
        for name in taken.fields:
            expected = getattr(predictions, name)[ROWS]
            np.testing.assert_array_equal(getattr(taken, name), expected)
    with pytest.raises(sw.InvalidInput, match="there are 9 rows"):
        in_memory.take([9])
    assert in_memory.take([]).shape == (0, 3, 2)


@pytest.mark.parametrize("ids", [None, IDS])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_a_column_of_the_predictions_own_file(kind, ids, tmp_path: Path):
    columns = {"text": TEXTS} if ids is None else {"text": TEXTS, "id": ids}
    predictions = pool(tmp_path, kind, **columns)
    texts = TextColumn(predictions.path, "text", predictions)
    assert texts.take(ROWS) == [TEXTS[row] for row in ROWS]


@pytest.mark.parametrize("kind", [*KINDS, "jsonl"])
def test_rows_of_another_file_are_matched_by_id(kind, tmp_path: Path):
    for ids in (IDS, list(range(100, 100 + N))):
        predictions = Predictions(PROBS, ids=ids)
        folder = tmp_path / str(ids[0])
        folder.mkdir()
        path = path_of(folder, kind)
        write_table(path, {"text": TEXTS[::-1], "row_id": ids[::-1]})
        assert TextColumn(path, "text", predictions).take(ROWS) == [TEXTS[row] for row in ROWS]


def test_the_column_of_ids_can_be_named(tmp_path: Path):
    path = tmp_path / "texts.csv"
    write_table(path, {"text": TEXTS, "ids": TEXTS, "key": IDS})
    predictions = Predictions(PROBS, ids=IDS)
    assert TextColumn(path, "text", predictions, ids="key").take([2]) == [TEXTS[2]]
    write_table(path, {"text": TEXTS, "id": IDS})  # where there is no such column
    assert TextColumn(path, "text", predictions, ids="key").take([2]) == [TEXTS[2]]


@pytest.mark.parametrize("kind", [*KINDS, "jsonl"])
def test_without_ids_rows_are_in_the_same_order(kind, tmp_path: Path):
    path = path_of(tmp_path, kind)
    write_table(path, {"text": TEXTS})
    texts = TextColumn(path, "text", Predictions(PROBS))
    assert texts.take(ROWS) == [TEXTS[row] for row in ROWS]
    for n in (N - 1, N + 1):
        with pytest.raises(sw.InvalidInput, match=f"it has 9 rows, and the predictions have {n}"):
            TextColumn(path, "text", Predictions(members(n, 3, 2))).take([0])


def test_answers_have_texts_beside_them(tmp_path: Path):
    path = tmp_path / "answers.jsonl"
    write_answers(path, Predictions(PROBS, ids=IDS, labels=[0, 1, 0] * 3), ["yes", "no"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) > N  # one for each member
    for line in lines:
        line["text"] = TEXTS[IDS.index(line["id"])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    texts = TextColumn(path, "text", sw.read_predictions(path, ["yes", "no"]))
    assert texts.take(ROWS) == [TEXTS[row] for row in ROWS]


def response(p: float) -> dict[str, Any]:
    top = [{"token": token, "logprob": np.log(q)} for token, q in (("yes", p), ("no", 1 - p))]
    content = [{**top[0], "top_logprobs": top}]
    return {"id": "chatcmpl-1", "choices": [{"logprobs": {"content": content}}]}


def test_answers_are_matched_without_the_member_in_their_ids(tmp_path: Path):
    path = tmp_path / "answers.jsonl"
    lines = [
        {"custom_id": f"{row}/prompt-{m}", "text": f"text {row}", "response": response(0.3)}
        for row in "ab"
        for m in range(2)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers = sw.read_predictions(path, ["yes", "no"], id_separator="/")
    assert answers.shape == (2, 2, 3)
    texts = TextColumn(path, "text", answers, id_separator="/")
    assert texts.take([1, 0]) == ["text b", "text a"]
    lines[1]["text"] = "another prompt"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(sw.InvalidInput, match=r"'answers.jsonl': the id 'a' has two texts"):
        texts.take([0])


def test_an_id_of_the_response_itself_identifies_no_row(tmp_path: Path):
    path = tmp_path / "answers.jsonl"
    lines = [response(p) | {"text": f"text {p}"} for p in (0.2, 0.7)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers = sw.read_predictions(path, ["yes", "no"])
    assert answers.ids is None
    assert TextColumn(path, "text", answers).take([1]) == ["text 0.7"]


@pytest.mark.parametrize(
    ("columns", "ids", "message"),
    [
        ({"Text": TEXTS, "id": IDS}, IDS, "no column 'text', only 'Text', 'id'; did you mean 'Te"),
        ({"text": TEXTS}, IDS, "either it or the predictions have ids, and not both"),
        ({"text": TEXTS, "id": IDS}, None, "either it or the predictions have ids, and not both"),
        ({"text": TEXTS, "id": [*IDS[1:], "x"]}, IDS, "'texts.parquet': there is no id 'row-0'"),
        ({"text": [*TEXTS, "x"], "id": [*IDS, "row-0"]}, IDS, "id 'row-0' has two texts"),
        ({"text": [None, *TEXTS[1:]], "id": IDS}, IDS, "id 'row-0' has None where its text, pa"),
        ({"text": ["", *TEXTS[1:]]}, None, "row 0 has '' where its text, path or URL should be"),
        ({"text": list(range(N))}, None, "row 0 has 0 where its text, path or URL should be"),
    ],
)
def test_what_cannot_be_matched_is_refused(columns, ids, message, tmp_path: Path):
    path = tmp_path / "texts.parquet"
    write_table(path, columns)
    with pytest.raises(sw.InvalidInput, match=message):
        TextColumn(path, "text", Predictions(PROBS, ids=ids)).take([0, 1])


def test_only_files_with_columns_have_texts(tmp_path: Path):
    predictions = Predictions(PROBS)
    np.save(tmp_path / "a.npy", PROBS)
    with pytest.raises(sw.InvalidInput, match=r"'a.npy' has no columns of text; a .csv or"):
        TextColumn(tmp_path / "a.npy", "text", predictions)
    np.savez(tmp_path / "a.npz", text=np.array([TEXTS]))
    with pytest.raises(sw.InvalidInput, match=r"arrays of the shapes {'text': \(1, 9\)}"):
        TextColumn(tmp_path / "a.npz", "text", predictions).take([0])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        TextColumn(tmp_path / "b.csv", "text", predictions)
    (tmp_path / "a.jsonl").write_text("[1]\n")
    with pytest.raises(sw.InvalidInput, match=r"'a.jsonl': line 1 is .* must be a mapping"):
        TextColumn(tmp_path / "a.jsonl", "text", predictions)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"tex')
    with pytest.raises(sw.InvalidInput, match=r"'a.jsonl': line 2 is not valid JSON"):
        TextColumn(tmp_path / "a.jsonl", "text", predictions).take([0])


def test_two_columns_of_one_name_are_refused(tmp_path: Path):
    table = pa.table([TEXTS, TEXTS], names=["text", "text"])
    pq.write_table(table, tmp_path / "texts.parquet")
    with pytest.raises(sw.InvalidInput, match=r"'texts.parquet': there are two columns 'text'"):
        TextColumn(tmp_path / "texts.parquet", "text", Predictions(PROBS))


def test_the_own_file_is_recognised_by_another_path(tmp_path: Path):
    pool(tmp_path, "parquet", text=TEXTS, id=["the same"] * N)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "texts.parquet")
    predictions = sw.read_predictions(tmp_path / "link.parquet")
    texts = TextColumn(tmp_path / "texts.parquet", "text", predictions)
    assert texts.take(ROWS) == [TEXTS[row] for row in ROWS]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npz"])
def test_a_damaged_file_is_named(kind, tmp_path: Path):
    path = path_of(tmp_path, kind)
    path.write_bytes(b"damaged")
    with pytest.raises(sw.InvalidInput, match=f"'texts.{kind}' is not a valid"):
        TextColumn(path, "text", Predictions(PROBS))
