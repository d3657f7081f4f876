"""Wrong files: the message says what is wrong and where; nothing is unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scorewise as sw
from wrong_files_support import (
    CELLS,
    GOOD,
    PLACE,
    columns,
    nested,
    npy,
    npz,
    shaped,
    table,
    tensors,
    tensors_file,
    text,
    use,
)

WRONG: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a row without members": ("a.parquet", columns(probs=nested(3, None)), f"{PLACE}: probs is m"),
    "a member less": (
        "a.parquet",
        columns(probs=nested(3, [[0.5, 0.2, 0.3]])),
        f"{PLACE}: probs has 1 entries",
    ),
    "a class less": (
        "a.parquet",
        columns(probs=nested(3, [[0.5, 0.2, 0.3], [0.5, 0.5]])),
        f"{PLACE}, member 1: probs has 2 entries, not 3",
    ),
    "a member that is none": (
        "a.parquet",
        columns(probs=nested(3, [[0.5, 0.2, 0.3], None])),
        f"{PLACE}, member 1: probs",
    ),
    "a number that is none": (
        "a.parquet",
        columns(probs=nested(3, [[0.5, 0.2, 0.3], [0.5, None, 0.5]])),
        f"{PLACE}, member 1: probs is missing",
    ),
    "a number of a tensor": (
        "a.parquet",
        columns(probs=tensors(3 * 6 + 4)),
        f"{PLACE}, member 1: probs is missing",
    ),
    "an id that is none": (
        "a.parquet",
        columns(ids=["a", "b", "c", None, "e", "f", "g"]),
        f"{PLACE}: ids is missing",
    ),
    "a cell of a column": (
        "a.parquet",
        columns(probs=None, p_0_0=pa.array([0.5] * 3 + [None] * 4), p_0_1=[0.5] * 7),
        f"{PLACE}: p_0_0 is missing",
    ),
    "a weight that is none": (
        "a.parquet",
        columns(weights=[[1.0, 1.0]] * 3 + [[1.0, None]] * 4),
        f"{PLACE}: weights is",
    ),
    "weights of other members": (
        "a.parquet",
        columns(weights=[[1.0, 1.0]] * 3 + [[1.0]] * 4),
        f"{PLACE}: weights has 1 en",
    ),
    "flat lists": (
        "a.parquet",
        columns(probs=[[0.5, 0.5]] * 7),
        "'a.parquet': each row of 'probs' holds 2 numbers, and no members.* pass one_model=True",
    ),
    "one number": ("a.parquet", columns(probs=[0.5] * 7), "'a.parquet': column 'probs' is of type"),
    "whole numbers": (
        "a.parquet",
        columns(probs=[[[1, 0]]] * 7),
        "'a.parquet': column 'probs' holds int64",
    ),
    "text in a column": (
        "a.parquet",
        columns(probs=None, p_0_0=["x"] * 7, p_0_1=[0.5] * 7),
        "'a.parquet': column 'p_0_0' holds string",
    ),
    "an empty first row": (
        "a.parquet",
        columns(probs=nested(0, [])),
        r"'a.parquet': row 0 \(row 0 of row group 0\): probs has 0 entries, not 2",
    ),
    "a missing column": (
        "a.parquet",
        columns(probs=None, p_0_0=[0.5] * 7, p_0_1=[0.5] * 7, p_1_0=[0.5] * 7),
        "'a.parquet': there is no column for member 1 and class 1",
    ),
    "two sets of columns": (
        "a.parquet",
        columns(probs=None, **{f"{x}_0_{k}": [0.5] * 7 for x in "pq" for k in (0, 1)}),
        "'a.parquet': several sets of columns could be the probs: 'p_0_0', … or 'q_0_0', …",
    ),
    "no columns of predictions": (
        "a.parquet",
        columns(probs=None, x=[1] * 7),
        "'a.parquet': there is no column 'probs' or",
    ),
    "weights of the metadata": (
        "a.parquet",
        columns(metadata={"scorewise": '{"weights": {"values": [1], "dtype": "f8"}}'}),
        r"'a.parquet': weights have shape \(1,\)",
    ),
    "no Parquet": (
        "a.parquet",
        text("PAR1 but for the rest"),
        "'a.parquet' is not a valid Parquet file",
    ),
    "empty Parquet": ("a.parquet", text(""), "'a.parquet' is not a valid Parquet file"),
    "no Arrow": ("a.arrow", text("ARROW1 but for the rest"), "'a.arrow' is not a valid Arrow file"),
    "empty Arrow": ("a.arrow", text(""), "'a.arrow' is not a valid Arrow file"),
    "an empty folder": ("a", Path.mkdir, "the folder 'a' has no Parquet files"),
    "no array": ("a.npy", text("x" * 100), "'a.npy' is not an array"),
    "empty": ("a.npy", text(""), "'a.npy' is not an array"),
    "too short": (
        "a.npy",
        npy(shaped((3, 2, 3))),
        r"'a.npy' is truncated: .* 144 bytes, but the file has 48",
    ),
    "two dimensions": ("a.npy", npy(shaped((2, 3))), r"probs has shape \(2, 3\)"),
    "one class": ("a.npy", npy(shaped((2, 3, 1))), r"a.npy"),
    "ints": ("a.npy", npy(shaped((1, 2, 3), "'<i8'")), "'a.npy': probs has dtype int64"),
    "records": ("a.npy", npy(shaped((1, 2, 3), "[('a', '<f8')]")), "'a.npy': probs has dtype"),
    "no zip": ("a.npz", text("PK but for the rest"), "'a.npz' is not a valid .npz file"),
    "empty zip": ("a.npz", text(""), "'a.npz' is not a valid .npz file"),
    "other arrays": ("a.npz", npz(arr_0=GOOD), "'a.npz': .* no array 'probs' .*, only 'arr_0'"),
    "no arrays": ("a.npz", npz(), "'a.npz': there is no array 'probs' .*, only nothing"),
    "no text": ("a.csv", lambda path: path.write_bytes(b"\xff\xfe"), "'a.csv' is not UTF-8 text"),
    "no lines": ("a.csv", text(""), "'a.csv' is empty"),
    "a comment alone": ("a.csv", text("# scorewise {}"), "'a.csv' is empty"),
    "a bad comment": (
        "a.csv",
        text("# scorewise {\n" + CELLS),
        "first line of 'a.csv' is not valid JSON",
    ),
    "too many cells": (
        "a.csv",
        text(CELLS + "0.5,0.5,0.5\n"),
        "'a.csv': row 1 has 3 cells, and the first",
    ),
    "an empty cell": ("a.csv", text(CELLS + "0.5,\n"), "'a.csv': row 1, column 'probs_0_1' is ''"),
    "a word": ("a.csv", text(CELLS + "half,0.5\n"), "'a.csv': row 1, column 'probs_0_0' is 'half'"),
    "an open quote": ("a.csv", text(CELLS + '"0.5,0.5\n'), "'a.csv' is not valid CSV"),
    "a column twice": ("a.csv", text("a,a\n1,2\n"), "'a.csv' has two columns 'a'"),
    "no predictions": ("a.csv", text("a,b\n1,2\n"), "'a.csv': there are no columns .*has 'a', 'b'"),
    "no safetensors": (
        "a.safetensors",
        text("x" * 100),
        "'a.safetensors' is not a valid .safetensors file",
    ),
    "empty safetensors": (
        "a.safetensors",
        text(""),
        "'a.safetensors' is not a valid .safetensors file",
    ),
    "other tensors": ("a.safetensors", tensors_file(x=GOOD), "no array 'probs' .*, only 'x'"),
    "bad names": (
        "a.safetensors",
        tensors_file({"ids": "{"}, probs=GOOD),
        "'ids' in the metadata of 'a",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_says_what_is_wrong_and_where(tmp_path, case):
    name, write, message = WRONG[case]
    write(tmp_path / name)
    with pytest.raises(sw.InvalidInput, match=message):
        use(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("a.npz", "a.parquet", "folder"):
        with pytest.raises(FileNotFoundError, match=name):
            sw.read_predictions(tmp_path / name)
    (tmp_path / "a.txt").touch()
    with pytest.raises(sw.InvalidInput, match=r"'a.txt' has an unknown format"):
        sw.read_predictions(tmp_path / "a.txt")


def test_a_file_of_a_folder_is_named(tmp_path):
    (tmp_path / "all").mkdir()
    table(tmp_path / "all" / "a.parquet")
    table(tmp_path / "all" / "b.parquet", probs=nested(5, None))
    with pytest.raises(
        sw.InvalidInput, match=r"row 12 \(row 1 of row group 2 of 'b.parquet'\): probs is mis"
    ):
        use(tmp_path / "all")
    table(tmp_path / "all" / "b.parquet", labels=[0] * 7)
    with pytest.raises(
        sw.InvalidInput,
        match=r"'b.parquet' has different columns from 'a.parquet': 'labels \(int64\)'",
    ):
        use(tmp_path / "all")
    (tmp_path / "all" / "b.parquet").write_bytes(b"")
    with pytest.raises(sw.InvalidInput, match=r"'b.parquet' is not a valid Parquet file"):
        use(tmp_path / "all")


@pytest.mark.parametrize(
    "metadata",
    [
        [{"class_names": ["a", "b", "c"]}, {"class_names": ["c", "b", "a"]}],
        [{"weights": {"values": [v, 1], "dtype": "float64"}} for v in (1, 2)],
    ],
    ids=["names", "weights"],
)
def test_files_of_a_folder_that_contradict_each_other_are_refused(tmp_path, metadata):
    (tmp_path / "all").mkdir()
    for name, of_file in zip("ab", metadata, strict=True):
        table(tmp_path / "all" / f"{name}.parquet", metadata={"scorewise": json.dumps(of_file)})
    with pytest.raises(sw.InvalidInput, match=r"b\.parquet"):
        use(tmp_path / "all")


DEEP = "[" * 100_000

HUGE = "9" * 5000

ESCAPES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "csv metadata a list": ("a.csv", text("# scorewise [1]\n" + CELLS), "TypeError"),
    "csv metadata a number": ("a.csv", text("# scorewise 5\n" + CELLS), "TypeError"),
    "csv metadata a dtype": ("a.csv", text('# scorewise {"probs": "f9"}\n' + CELLS), "TypeError"),
    "csv metadata weights": ("a.csv", text('# scorewise {"weights": "x"}\n' + CELLS), "ValueError"),
    "csv metadata deeply": ("a.csv", text(f"# scorewise {DEEP}\n" + CELLS), "RecursionError"),
    "csv out of range": (
        "a.csv",
        text('# scorewise {"probs": "float16"}\nprobs_0_0,probs_0_1\n1e9,0.5\n'),
        "RuntimeWarning, and inf without a word where warnings are off",
    ),
    "csv large label": ("a.csv", text(f"y,probs_0_0,probs_0_1\n{2**63},1,0\n"), "OverflowError"),
    "csv huge label": ("a.csv", text(f"y,probs_0_0,probs_0_1\n{HUGE},1,0\n"), "ValueError"),
    "metadata deep": ("a.parquet", columns(metadata={"scorewise": DEEP}), "RecursionError"),
    "metadata weight": (
        "a.parquet",
        columns(metadata={"scorewise": '{"weights": {"values": 5, "dtype": "f8"}}'}),
        "TypeError",
    ),
    "metadata weights of text": (
        "a.parquet",
        columns(metadata={"scorewise": '{"weights": {"values": ["a", "b"], "dtype": "U1"}}'}),
        "nothing: the weights are text",
    ),
    "metadata name": (
        "a.parquet",
        columns(metadata={"scorewise": '{"class_names": "abc"}'}),
        "nothing: 'abc' is taken for three names",
    ),
    "tensors deep": ("a.safetensors", tensors_file({"ids": DEEP}, probs=GOOD), "RecursionError"),
    "npy overflow": ("a.npy", npy(shaped((2**62, 2, 2))), "ValueError, as its size wraps to 0"),
    "npy too large": ("a.npy", npy(shaped((2**70, 2, 2))), "OverflowError"),
    "npy of one row by a truth value": ("a.npy", npy(shaped((True, 2, 2))), "TypeError"),
    "npy negative": ("a.npy", npy(shaped((-1, 2, 3))), "ValueError"),
    "npy of Python 2": ("a.npy", npy(shaped("(1L, 2L, 3L")), "TokenError"),
    "npy indented": ("a.npy", npy("  a\n b\n"), "IndentationError"),
    "npy descr": ("a.npy", npy(shaped((1, 2, 3), "()")), "IndexError"),
    "npy set": ("a.npy", npy("{1, []}\n"), "TypeError"),
    "npz labels": (
        "a.npz",
        npz(probs=GOOD[:0], labels=np.array([], "U1"), class_names=np.array(list("abc"))),
        "UFuncTypeError (or no error at all: there are no rows)",
    ),
    "npz one name": ("a.npz", npz(probs=GOOD, class_names=np.array("abc")), "TypeError"),
}


MUCH = "x" * 10_000_000

LONG: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "csv header": ("a.csv", text(f"{MUCH},b\n1,2\n")),
    "csv headers": ("a.csv", text(",".join(f"a{i}" for i in range(100_000)) + "\n1,2\n")),
    "csv repeated header": ("a.csv", text(f"{MUCH},{MUCH}\n1,2\n")),
    "csv cell": ("a.csv", text(f"probs_0_0,probs_0_1\n0.5,{MUCH}\n")),
    "csv column": ("a.csv", text(f"probs_0_a{MUCH},probs_0_b{MUCH}\n0.5,y\n")),
    "csv comment": ("a.csv", text(f'# scorewise "{MUCH}"\n{CELLS}')),
    "csv label": ("a.csv", text(f"y,probs_0_0,probs_0_1\n{MUCH},1,0\n")),
    "npz names": ("a.npz", npz(**{f"array{i}": GOOD[:0] for i in range(1000)})),
    "npz class names": ("a.npz", npz(probs=GOOD, class_names=np.array(["x" * 100_000] * 3))),
    "npy shape": ("a.npy", npy(shaped((True,) * 1000))),
    "parquet column": ("a.parquet", columns(probs=None, **{MUCH: [1] * 7})),
    "parquet two columns": ("a.parquet", columns(probs=None, **{"probs_0_" + MUCH: [1] * 7})),
    "parquet label": ("a.parquet", columns(labels=["x" * 1_000_000] * 7)),
    "parquet metadata": ("a.parquet", columns(metadata={"scorewise": f'{{"weights": "{MUCH}"}}'})),
    "tensors": ("a.safetensors", tensors_file(None, **{"y" * 100_000: GOOD})),
    "tensors id": ("a.safetensors", tensors_file({"ids": json.dumps([[MUCH]] * 7)}, probs=GOOD)),
}


@pytest.mark.parametrize("case", LONG)
def test_a_message_is_short_whatever_it_quotes(tmp_path, case):
    name, write = LONG[case]
    write(tmp_path / name)
    with pytest.raises(sw.InvalidInput, match=name) as caught:
        use(tmp_path / name)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "call",
    [
        lambda: sw.get_rule(MUCH),
        lambda: sw.get_rule(f"tsallis:{MUCH}"),
        lambda: sw.decompose(GOOD, {"a": MUCH}),
        lambda: sw.advise(MUCH),
        lambda: sw.io.Predictions(GOOD, class_names=[MUCH] * 3),
        lambda: sw.io.Predictions(GOOD, labels=[MUCH] * 7, class_names=list("abc")),
        lambda: sw.decide(GOOD, np.ones((3, 2)), action_names=[MUCH, MUCH]),
        lambda: sw.compare(GOOD, [0] * 7, scores={MUCH: [1]}),
        lambda: sw.evaluate(GOOD, [0] * 7, **{MUCH: 1}),
    ],
)
def test_a_message_about_an_argument_is_short(call):
    with pytest.raises(sw.InvalidInput) as caught:
        call()
    assert len(str(caught.value)) < 2500


def test_a_long_header_of_an_array_is_refused_without_advice_to_unpickle(tmp_path):
    description = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 2)}".ljust(59_999)
    beginning = b"\x93NUMPY\x01\x00" + (60_000).to_bytes(2, "little")
    (tmp_path / "a.npy").write_bytes(beginning + description + b"\n" + bytes(32))
    with pytest.raises(sw.InvalidInput, match=r"its header has 60,000 bytes$"):
        sw.read_predictions(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "cell", ["0.1_5", "1_000", "\u0661", "\uff11", "0x1p-1", "1,5", "½", "1e", "1e400", "-1e400"]
)
def test_only_numbers_that_every_program_reads_are_numbers(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f'probs_0_0,probs_0_1\n0.5,0.5\n0.5,"{cell}"\n', "utf-8")
    with pytest.raises(sw.InvalidInput, match=r"row 1, column 'probs_0_1' is .* is not a number"):
        sw.read_predictions(tmp_path / "a.csv")
    (tmp_path / "c.csv").write_text(f'class,dismiss,treat\na,0,"{cell}"\nb,1,0\n', "utf-8")
    with pytest.raises(sw.InvalidInput, match=r"a cost of the action 'treat' is .*not a number"):
        sw.io.read_cost_matrix(tmp_path / "c.csv")


@pytest.mark.parametrize("case", [pytest.param(case) for case, (_, _, what) in ESCAPES.items()])
def test_no_other_error_escapes(tmp_path, case):
    name, write, _ = ESCAPES[case]
    write(tmp_path / name)
    if case == "npz labels":
        assert use(tmp_path / name).labels.shape == (0,)
        return
    with pytest.raises(sw.InvalidInput, match=name):
        use(tmp_path / name)


def patched(change: Callable[[bytearray, int], None]) -> Callable[[Path], None]:
    """A .npz whose directory says something else."""

    def write(path: Path) -> None:
        npz(probs=GOOD)(path)
        content = bytearray(path.read_bytes())
        change(content, content.find(b"PK\1\2"))
        path.write_bytes(content)

    return write


@pytest.mark.parametrize(
    ("at", "value"),
    [
        pytest.param(8, 1, id="encrypted: RuntimeError"),
        pytest.param(10, 1, id="an old compression: NotImplementedError"),
        pytest.param(10, 12, id="bzip2 that is none: OSError 'Invalid data stream'"),
        pytest.param(6, 200, id="a new version: NotImplementedError"),
    ],
)
def test_an_archive_that_cannot_be_read_says_so(tmp_path, at, value):
    def change(content: bytearray, start: int) -> None:
        content[start + at] = value

    patched(change)(tmp_path / "a.npz")
    with pytest.raises(sw.InvalidInput, match=r"a\.npz"):
        use(tmp_path / "a.npz")


UNPLACED: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a wrong label of a table": (
        "a.parquet",
        columns(labels=[0, 1, 2, 7, 0, 0, 0]),
        r"row 3 .*row 1 of row group 1",
    ),
    "labels of a wrong type": ("a.parquet", columns(labels=[0.5] * 7), "a.parquet"),
    "ids of a wrong type": ("a.parquet", columns(ids=[0.5] * 7), "a.parquet"),
    "large ids": ("a.parquet", columns(ids=pa.array([2**63] * 7, pa.uint64())), "a.parquet"),
    "names of the metadata": (
        "a.parquet",
        columns(metadata={"scorewise": '{"class_names": ["a"]}'}),
        "a.parquet",
    ),
    "weights of members that are not there": (
        "a.parquet",
        columns(weights_3=[1.0] * 7, weights_7=[1.0] * 7),
        "weights_3|member",
    ),
    "the metadata": ("a.parquet", columns(metadata={"scorewise": "{"}), "a.parquet"),
    "the member of a permuted tensor": (
        "a.parquet",
        columns(probs=tensors(3 * 6 + 1, [1, 0])),
        f"{PLACE}, member 1",
    ),
    "a wrong label of text": (
        "a.csv",
        text("y,p_0_0,p_0_1\n0,1,0\n7,1,0\n"),
        r"a\.csv.*labels\[1\]",
    ),
    "two dimensions": ("a.npz", npz(probs=GOOD[0]), "a.npz"),
    "a label of arrays": ("a.npz", npz(probs=GOOD, labels=np.full(7, 9)), "a.npz"),
    "a label of tensors": (
        "a.safetensors",
        tensors_file(probs=GOOD, labels=np.full(7, 9)),
        "a.safetensors",
    ),
}


@pytest.mark.parametrize("case", UNPLACED)
def test_every_message_names_file_and_row(tmp_path, case):
    name, write, message = UNPLACED[case]
    write(tmp_path / name)
    with pytest.raises(sw.InvalidInput, match=message):
        use(tmp_path / name)


class Trap:
    """Creates a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("field", ["probs", "labels", "ids", "class_names", "weights"])
def test_nothing_is_unpickled(tmp_path, field, compressed):
    trap = np.empty(7, dtype=object)
    trap[:] = [Trap(tmp_path / "sprung")] * 7
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "a.npz", allow_pickle=True, **{"probs": GOOD} | {field: trap})
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    for name in ("a.npz", "a.npy"):
        with pytest.raises(sw.InvalidInput, match=f"{name}' holds Python objects"):
            sw.read_predictions(tmp_path / name)
    assert not (tmp_path / "sprung").exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)  # it is a trap
    assert (tmp_path / "sprung").exists()
