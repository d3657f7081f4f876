"""``.csv`` files, and what others read in them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import scorewise as sw


def test_ids_in_text_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("id,probs_0_0,probs_0_1\n007,0.5,0.5\n010,0.5,0.5\n")
    assert sw.read_predictions(tmp_path / "a.csv").ids.tolist() == ["007", "010"]


def test_text_is_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.csv", everything)
    frame = pd.read_csv(tmp_path / "a.csv", comment="#", keep_default_na=False)
    written = [f"'{name}" if "\n" in name else name for name in everything.ids.tolist()]
    assert frame["ids"].tolist() == written
    assert frame["labels"].tolist() == ["0", "1", "2", "", "0"]
    assert frame.filter(like="logits_").shape == (5, 6)
    np.testing.assert_array_equal(frame["logits_1_2"], everything.logits[:, 1, 2])


# -- spreadsheets ----------------------------------------------------------------------------------

FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    " =1",
    "\t=1",
    "\n=1",
    "\r=1",
    "\uff1d1",
    '"=1"',
    "a,=1",
    "a;=1",
    "a\t=1",
    'a",=1',
    "a\x1b[2J",
]
NUMBERS = ["-5", "+5", "-1.5e-3", "7"]


def cells_of(path: Path) -> Iterator[str]:
    """The cells of a CSV file, whatever a spreadsheet takes for the separator."""
    for separator in ",;\t":
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.reader(file, delimiter=separator):
                yield from line


def assert_nothing_runs(path: Path) -> None:
    number = re.compile(r"[-+0-9.,e]+")  # or several, of a spreadsheet with another separator
    for cell in cells_of(path):
        text = cell.strip()
        assert not text.startswith(tuple("=+-@\uff1d")) or number.fullmatch(text), cell
        assert cell.isprintable() or cell.startswith("'"), cell


@pytest.fixture
def hostile() -> sw.io.Predictions:
    ids = FORMULAS + NUMBERS
    probs = np.full((len(ids), 2, 3), 1 / 3)
    return sw.io.Predictions(probs, labels=[0] * len(ids), ids=ids, class_names=FORMULAS[-3:])


def test_a_spreadsheet_runs_nothing_in_predictions(tmp_path, hostile):
    sw.write_predictions(tmp_path / "a.csv", hostile)
    assert_nothing_runs(tmp_path / "a.csv")
    stored = sw.read_predictions(tmp_path / "a.csv")
    assert stored.ids.tolist() == hostile.ids.tolist()
    assert stored.class_names == hostile.class_names


def test_a_spreadsheet_runs_nothing_in_tables_of_results(tmp_path, hostile):
    sw.write_predictions(tmp_path / "a.npz", hostile)
    sw.score_file(tmp_path / "a.npz", ["log"], tmp_path / "U.csv")
    assert_nothing_runs(tmp_path / "U.csv")
    with (tmp_path / "U.csv").open(newline="", encoding="utf-8") as file:
        written = [line["id"] for line in csv.DictReader(file)]
    assert written == [f"'{name}" for name in FORMULAS[:-6]] + written[len(FORMULAS) - 6 :]
    assert written[-4:] == NUMBERS
    sw.score_file(tmp_path / "a.npz", ["log"], tmp_path / "U.parquet")
    assert pq.read_table(tmp_path / "U.parquet")["id"].to_pylist() == hostile.ids.tolist()


def test_apostrophes_in_files_of_others_are_kept(tmp_path):
    (tmp_path / "a.csv").write_text("id,probs_0_0,probs_0_1\n'=1,0.5,0.5\n'a,0.5,0.5\n")
    assert sw.read_predictions(tmp_path / "a.csv").ids.tolist() == ["'=1", "'a"]
