"""Files that are wrong, cut off or damaged, and writes that fail half way."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

import scorewise as sw
from support import members

FORMATS = ["npz", "npy", "parquet", "arrow", "feather", "folder", "csv", "safetensors"]
GOOD = members(7, 2, 3)
MORE: dict[str, Any] = {
    "labels": [0, 1, 2, -1, 0, 1, 2],
    "ids": ["a", "bb\n", "c", "ü", "", "f", "g"],
    "class_names": ["x", "y", "z"],
    "weights": members(7, 1, 2)[:, 0],
}


def path_of(folder: Path, kind: str) -> Path:
    return folder / ("all" if kind == "folder" else f"all.{kind}")


def use(path: Path) -> sw.io.Predictions:
    """All that can be read of a file, in every way."""
    kept = sw.read_predictions(path)
    for part in kept.chunks(2):
        _ = part.probs if "probs" in part.fields else part.logits
    for name in (*kept.fields, "weights"):
        getattr(kept, name)
    return kept


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


# -- writes that fail ------------------------------------------------------------------------------


class BreaksOff:
    """Rows of which the first part only can be had."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.shape, self.dtype, self.fields = (100, 2, 3), np.dtype("f8"), frozenset({"probs"})

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Any]:
        yield {"probs": members(min(n, 50), 2, 3)}
        if n > 1:
            raise self.error

    def locate(self, row: int) -> None:
        return None


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("older", [True, False])
def test_a_source_that_breaks_off_leaves_all_as_it_was(tmp_path, kind, error, older):
    path = path_of(tmp_path, kind)
    if older:
        sw.write_predictions(path, GOOD)
    before = contents(tmp_path)
    with pytest.raises(error, match="dried up"):
        sw.write_predictions(path, sw.io.Predictions.from_source(BreaksOff(error("dried up"))))
    assert contents(tmp_path) == before
    assert path.exists() == older


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_cannot_take_its_place_leaves_the_old_one(tmp_path, kind, monkeypatch):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, GOOD)
    before = contents(tmp_path)
    replace = os.replace

    def fails(source: Any, target: Any) -> None:
        if str(source).endswith(".partial"):
            raise PermissionError("not here")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(PermissionError, match="not here"):
        sw.write_predictions(path, GOOD[:3])
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", FORMATS)
def test_a_newer_file_replaces_an_older_one(tmp_path, kind):
    path = path_of(tmp_path, kind)
    for rows in (7, 2, 5):
        sw.write_predictions(path, GOOD[:rows])
        np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD[:rows])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# In another process: the limit holds for all of it, and root is not stopped by permissions.
STOPPED = """
import json, os, resource, signal, sys
from pathlib import Path
import numpy as np
import scorewise as sw
import pyarrow.parquet, safetensors.numpy, scorewise.io._arrow_tables, scorewise.io._csv
import scorewise.io._numpy, scorewise.io._parquet, scorewise.io._safetensors

how, folder, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
small, large = np.full((3, 2, 3), 0.25), np.random.default_rng(0).random((9000, 2, 3))
for name in names:
    sw.write_predictions(folder / name, small)
    sw.read_predictions(folder / name).probs  # all that is imported on the way
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
else:
    os.chmod(folder, 0o555)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
found = {}
for name in names:
    try:
        if how != "full":
            os.seteuid(user)
        sw.write_predictions(folder / name, large)
        error = "nothing"
    except OSError as raised:
        error = "OSError" if str(raised) else "an OSError that says nothing"
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    finally:
        os.seteuid(os.getuid())
    found[name] = error, sorted(os.listdir(folder)), sw.read_predictions(folder / name).shape
print(json.dumps(found))
"""


@pytest.fixture(scope="module", params=["full", "read-only"])
def stopped(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        folder = Path(outer, "to")
        folder.mkdir()
        names = [path_of(folder, kind).name for kind in FORMATS]
        ran = subprocess.run(
            [sys.executable, "-c", STOPPED, request.param, folder, *names],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        folder.chmod(0o755)
        assert ran.returncode == 0, ran.stderr
        yield json.loads(ran.stdout)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_is_full_or_read_only_keeps_the_old_file(stopped, kind):
    error, there, shape = stopped[path_of(Path(), kind).name]
    assert error.startswith("OSError") or kind == "safetensors"
    assert shape == [3, 2, 3]
    assert there == sorted(path_of(Path(), kind).name for kind in FORMATS)


def test_safetensors_that_cannot_be_written_are_an_oserror(stopped):
    assert stopped["all.safetensors"][0] == "OSError"


KILLED = """
import os, signal, sys
sys.path.append("..")
import numpy as np
import scorewise as sw
from test_io_errors import BreaksOff

class Kills(BreaksOff):
    def parts(self, fields, start, stop, n):
        yield from ({"probs": np.full((50, 2, 3), 0.5)} for _ in range(2))
        if n > 1:
            os.kill(os.getpid(), signal.SIGKILL)

sw.write_predictions(sys.argv[1], sw.io.Predictions.from_source(Kills(KeyError())))
"""


@pytest.mark.parametrize("kind", ["npy", "folder"])
def test_a_killed_run_leaves_the_old_file(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, GOOD)
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, path], cwd=Path(__file__).parent, check=False
    )
    assert ran.returncode == -9
    np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD)
    assert all(name.startswith(".") for name in os.listdir(tmp_path) if name != path.name)
    sw.write_predictions(path, GOOD[:3])
    assert len(sw.read_predictions(path)) == 3


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "folder"])
def test_a_folder_in_the_way_stays(tmp_path, kind):
    path = path_of(tmp_path, kind)
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(sw.InvalidInput, match="is a folder; a file cannot take its place"):
        sw.write_predictions(path, GOOD)
    assert (path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("name", ["thesis.txt", "deep/er/thesis.txt", "notes.parquet.txt"])
def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path, name):
    precious = tmp_path / "results" / name
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(sw.InvalidInput):
        sw.write_predictions(tmp_path / "results", GOOD)
    assert precious.read_text() == "years of work"


def test_the_working_folder_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "thesis.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises((OSError, sw.InvalidInput)):
        sw.write_predictions(".", GOOD)
    assert (tmp_path / "here" / "thesis.txt").exists()


def test_a_file_in_the_way_of_a_folder_stays(tmp_path):
    (tmp_path / "all").write_text("years of work")
    with pytest.raises((OSError, sw.InvalidInput)):
        sw.write_predictions(tmp_path / "all", GOOD)
    assert contents(tmp_path) == {"all": b"years of work"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/all.npy", "there is no folder .*nowhere' to write 'all.npy' to"),
        ("all.txt", "'all.txt' is of no known format; .*npz"),
        ("all.json", "of no known format"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path, name, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.write_predictions(tmp_path / name, GOOD)
    assert contents(tmp_path) == {}


def test_npy_holds_probabilities_alone(tmp_path):
    for more in ({"labels": MORE["labels"]}, {"class_names": list("abc")}, {"weights": [1, 2]}):
        with pytest.raises(sw.InvalidInput, match=f"{next(iter(more))} too; use .npz"):
            sw.write_predictions(tmp_path / "a.npy", GOOD, **more)
    with pytest.raises(sw.InvalidInput, match="logits too"):
        sw.write_predictions(tmp_path / "a.npy", logits=GOOD)
    assert contents(tmp_path) == {}


def test_what_predictions_have_is_not_given_twice(tmp_path):
    for kept, more in (
        (sw.io.Predictions(GOOD), {"labels": MORE["labels"]}),
        (sw.Samples(GOOD), {"weights": [1, 1]}),
    ):
        with pytest.raises(sw.InvalidInput, match="have their own already"):
            sw.write_predictions(tmp_path / "a.npz", kept, **more)


# -- what fits together ----------------------------------------------------------------------------

MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"probs": None}, "neither probs nor logits"),
    "one model": (
        {"probs": GOOD[:, 0]},
        r"\(7, 3\); it must be \(N, M, K\).*pass probs\[:, None\]",
    ),
    "whole numbers": ({"probs": GOOD.astype(int)}, "dtype int64"),
    "no members": ({"probs": GOOD[:, :0]}, "no members"),
    "other logits": ({"logits": GOOD[1:]}, r"probs have shape \(7, 2, 3\), logits \(6, 2, 3\)"),
    "labels of other rows": ({"labels": [0, 1]}, r"labels have shape \(2,\) for 7 rows"),
    "a label too large": ({"labels": [0, 1, 2, 0, 3, 0, 0]}, r"labels\[4\] is 3"),
    "a label too small": ({"labels": [0, -2, 2, 0, 3, 0, 0]}, r"labels\[1\] is -2"),
    "broken labels": ({"labels": np.zeros(7)}, "labels have dtype float64"),
    "names without classes": (
        {"labels": list("abcabca")},
        "nothing says which classes they are; pass class_names=",
    ),
    "unknown names": (
        {"labels": list("xyzqxyz"), "class_names": list("xyz")},
        r"labels\[3\] is .*'q'.*, which is none of the classes x, y, z",
    ),
    "ids of other rows": ({"ids": [1]}, r"ids have shape \(1,\) for 7 rows"),
    "broken ids": ({"ids": [0.5] * 7}, r"ids\[0\] is 0.5"),
    "mixed ids": ({"ids": [1, 2, "3", 4, 5, 6, 7]}, r"ids\[0\] is 1; .* whole numbers, or strings"),
    "large ids": ({"ids": [2**63] * 7}, "ids are too large"),
    "large unsigned ids": ({"ids": np.full(7, 2**63, np.uint64)}, "ids are too large"),
    "a null in an id": ({"ids": ["a\0", *"bcdefg"]}, r"ids\[0\] has a null character"),
    "half a character": ({"ids": [*"abcdef", "\ud800"]}, r"ids\[6\] is no valid text"),
    "too few names": ({"class_names": ["a"]}, "there are 1 class_names for 3 classes"),
    "a name for all": ({"class_names": "abc"}, "class_names must be 3 names"),
    "the same name twice": ({"class_names": list("aba")}, "two classes are called 'a'"),
    "weights of others": ({"weights": [1, 2, 3]}, r"weights have shape \(3,\)"),
    "weights of text": ({"weights": ["a", "b"]}, "must be floating-point numbers"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_refused(case):
    given, message = MISFITS[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.io.Predictions(**{"probs": GOOD} | given)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"weights": [[1], [1, 2]]}, id="ragged weights: ValueError"),
        pytest.param({"labels": [[1], [1, 2], 0, 0, 0, 0, 0]}, id="ragged labels: ValueError"),
        pytest.param({"class_names": np.array("abc")}, id="0-d class_names: TypeError"),
    ],
)
def test_what_has_no_shape_is_refused(given):
    with pytest.raises(sw.InvalidInput):
        sw.io.Predictions(GOOD, **given)


def test_no_rows_may_have_labels_by_name(tmp_path):
    none = np.array([], dtype="U1")
    assert sw.io.Predictions(GOOD[:0], labels=none, class_names=list("abc")).labels.shape == (0,)


# -- files that are wrong --------------------------------------------------------------------------


def table(path: Path, rows: int = 2, metadata: Any = None, **columns: Any) -> None:
    """In row groups of two rows."""
    columns = {"probs": GOOD.tolist()} | columns
    made = pa.table({name: column for name, column in columns.items() if column is not None})
    pq.write_table(made.replace_schema_metadata(metadata), path, row_group_size=rows)


def nested(at: int, row: Any) -> pa.Array:
    rows: list[Any] = GOOD.tolist()
    rows[at] = row
    return pa.array(rows, pa.list_(pa.list_(pa.float64())))


def tensors(at: int, permutation: list[int] | None = None) -> pa.Array:
    shape = [2, 3] if permutation is None else [3, 2]
    kind = pa.fixed_shape_tensor(pa.float64(), shape, permutation=permutation)
    flat = GOOD.ravel().tolist()
    flat[at] = None
    storage = pa.FixedSizeListArray.from_arrays(pa.array(flat), 6)
    return pa.ExtensionArray.from_storage(kind, storage)


def text(content: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(content, encoding="utf-8")


def npz(mode: int = zipfile.ZIP_STORED, **arrays: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", mode) as archive:
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, array)
                archive.writestr(f"{name}.npy", buffer.getvalue())

    return write


def npy(header: str, data: bytes = bytes(48)) -> Callable[[Path], Any]:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    return lambda path: path.write_bytes(start + header.encode("latin1") + data)


def shaped(shape: Any, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n"


def columns(**given: Any) -> Callable[[Path], None]:
    return lambda path: table(path, **given)


def tensors_file(metadata: dict[str, str] | None = None, **given: Any) -> Callable[[Path], None]:
    return lambda path: safetensors.numpy.save_file(given, path, metadata)


PLACE = r"row 3 \(row group 1, row 1 there\)"
CELLS = "probs_0_0,probs_0_1\n0.5,0.5\n"
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
        f"{PLACE}, member 1: probs has 2 entries, and the first row has 3",
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
        "'a.parquet': .*'probs' is of type list<",
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
    "an empty first row": ("a.parquet", columns(probs=nested(0, [])), "'a.parquet': row 0 of"),
    "a missing column": (
        "a.parquet",
        columns(probs=None, p_0_0=[0.5] * 7, p_0_1=[0.5] * 7, p_1_0=[0.5] * 7),
        "'a.parquet': there is no column for member 1 and class 1",
    ),
    "two sets of columns": (
        "a.parquet",
        columns(probs=None, **{f"{x}_0_{k}": [0.5] * 7 for x in "pq" for k in (0, 1)}),
        "'a.parquet': which columns are the probs: 'p_0_0', … or 'q_0_0', …",
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
    "no Parquet": ("a.parquet", text("PAR1 but for the rest"), "'a.parquet' is no Parquet file"),
    "empty Parquet": ("a.parquet", text(""), "'a.parquet' is no Parquet file"),
    "no Arrow": ("a.arrow", text("ARROW1 but for the rest"), "'a.arrow' is no Arrow file"),
    "empty Arrow": ("a.arrow", text(""), "'a.arrow' is no Arrow file"),
    "an empty folder": ("a", Path.mkdir, "the folder 'a' has no Parquet files"),
    "no array": ("a.npy", text("x" * 100), "'a.npy' is no array"),
    "empty": ("a.npy", text(""), "'a.npy' is no array"),
    "too short": ("a.npy", npy(shaped((3, 2, 3))), r"'a.npy' is cut off: .* 144 bytes, and 48"),
    "two dimensions": ("a.npy", npy(shaped((2, 3))), r"probs has shape \(2, 3\)"),
    "one class": ("a.npy", npy(shaped((2, 3, 1))), r"a.npy"),
    "ints": ("a.npy", npy(shaped((1, 2, 3), "'<i8'")), "'a.npy': probs has dtype int64"),
    "records": ("a.npy", npy(shaped((1, 2, 3), "[('a', '<f8')]")), "'a.npy': probs has dtype"),
    "no zip": ("a.npz", text("PK but for the rest"), "'a.npz' is no .npz file"),
    "empty zip": ("a.npz", text(""), "'a.npz' is no .npz file"),
    "other arrays": ("a.npz", npz(arr_0=GOOD), "'a.npz' has no array 'probs' .*, only 'arr_0'"),
    "no arrays": ("a.npz", npz(), "'a.npz' has no array 'probs' .*, only nothing"),
    "no text": ("a.csv", lambda path: path.write_bytes(b"\xff\xfe"), "'a.csv' is no text in UTF-8"),
    "no lines": ("a.csv", text(""), "'a.csv' is empty"),
    "a comment alone": ("a.csv", text("# scorewise {}"), "'a.csv' is empty"),
    "a bad comment": ("a.csv", text("# scorewise {\n" + CELLS), "first line of 'a.csv' is no JSON"),
    "too many cells": (
        "a.csv",
        text(CELLS + "0.5,0.5,0.5\n"),
        "'a.csv': row 1 has 3 cells, and the first",
    ),
    "an empty cell": ("a.csv", text(CELLS + "0.5,\n"), "'a.csv': row 1, column 'probs_0_1' is ''"),
    "a word": ("a.csv", text(CELLS + "half,0.5\n"), "'a.csv': row 1, column 'probs_0_0' is 'half'"),
    "an open quote": ("a.csv", text(CELLS + '"0.5,0.5\n'), "'a.csv' is no CSV"),
    "a column twice": ("a.csv", text("a,a\n1,2\n"), "'a.csv' has two columns 'a'"),
    "no predictions": ("a.csv", text("a,b\n1,2\n"), "'a.csv' has no columns of .*has a, b"),
    "no safetensors": ("a.safetensors", text("x" * 100), "'a.safetensors' is no .safetensors file"),
    "empty safetensors": ("a.safetensors", text(""), "'a.safetensors' is no .safetensors file"),
    "other tensors": ("a.safetensors", tensors_file(x=GOOD), "no tensor 'probs' .*, only 'x'"),
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
    with pytest.raises(sw.InvalidInput, match=r"'a.txt' is of no known format"):
        sw.read_predictions(tmp_path / "a.txt")


def test_a_file_of_a_folder_is_named(tmp_path):
    (tmp_path / "all").mkdir()
    table(tmp_path / "all" / "a.parquet")
    table(tmp_path / "all" / "b.parquet", probs=nested(5, None))
    with pytest.raises(
        sw.InvalidInput, match=r"row 12 \(row group 2 of 'b.parquet', row 1 there\): probs is mis"
    ):
        use(tmp_path / "all")
    table(tmp_path / "all" / "b.parquet", labels=[0] * 7)
    with pytest.raises(
        sw.InvalidInput, match=r"'b.parquet' has other columns than 'a.parquet': labels \(int64\)"
    ):
        use(tmp_path / "all")
    (tmp_path / "all" / "b.parquet").write_bytes(b"")
    with pytest.raises(sw.InvalidInput, match=r"'b.parquet' is no Parquet file"):
        use(tmp_path / "all")


@pytest.mark.parametrize(
    "told",
    [
        [{"class_names": ["a", "b", "c"]}, {"class_names": ["c", "b", "a"]}],
        [{"weights": {"values": [v, 1], "dtype": "float64"}} for v in (1, 2)],
    ],
    ids=["names", "weights"],
)
def test_files_of_a_folder_that_contradict_each_other_are_refused(tmp_path, told):
    (tmp_path / "all").mkdir()
    for name, metadata in zip("ab", told, strict=True):
        table(tmp_path / "all" / f"{name}.parquet", metadata={"scorewise": json.dumps(metadata)})
    with pytest.raises(sw.InvalidInput, match=r"b\.parquet"):
        use(tmp_path / "all")


DEEP = "[" * 100_000
HUGE = "9" * 5000
ESCAPES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "csv told a list": ("a.csv", text("# scorewise [1]\n" + CELLS), "TypeError"),
    "csv told a number": ("a.csv", text("# scorewise 5\n" + CELLS), "TypeError"),
    "csv told a dtype": ("a.csv", text('# scorewise {"probs": "f9"}\n' + CELLS), "TypeError"),
    "csv told weights": ("a.csv", text('# scorewise {"weights": "x"}\n' + CELLS), "ValueError"),
    "csv told deeply": ("a.csv", text(f"# scorewise {DEEP}\n" + CELLS), "RecursionError"),
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
        r"row 3 .*row group 1, row 1 there",
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


# -- nothing is unpickled --------------------------------------------------------------------------


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


# -- cut off and damaged ---------------------------------------------------------------------------


def write_kind(kind: str, path: Path) -> None:
    """A small file of a kind, ours or somebody else's."""
    with_lists = pa.table(
        {
            "probs": GOOD.tolist(),
            "ids": MORE["ids"],
            "labels": pa.array(["x", "y", None, "z", "x", "y", "x"]).dictionary_encode(),
        }
    ).replace_schema_metadata({"scorewise": '{"class_names": ["x", "y", "z"]}'})
    if kind == "nested.parquet":
        pq.write_table(with_lists, path, row_group_size=3)
    elif kind in ("nested.arrow", "lz4.arrow"):
        options = pa.ipc.IpcWriteOptions(compression="lz4" if kind == "lz4.arrow" else None)
        with pa.ipc.new_file(str(path), with_lists.schema, options=options) as writer:
            writer.write_table(with_lists, 3)
    elif kind == "compressed.npz":
        np.savez_compressed(path, probs=GOOD, labels=np.zeros(7, int))
    else:
        sw.write_predictions(path, GOOD, **{} if kind == "npy" else MORE)


KINDS = [
    "npy",
    "npz",
    "compressed.npz",
    "csv",
    "safetensors",
    "parquet",
    "nested.parquet",
    "arrow",
    "nested.arrow",
    "lz4.arrow",
]


@pytest.mark.parametrize("kind", [pytest.param(kind) for kind in KINDS])
def test_a_file_that_is_cut_off_is_refused(tmp_path, kind):
    path = tmp_path / f"a.{kind.split('.')[-1]}"
    write_kind(kind, path)
    content = path.read_bytes()
    step = max(1, len(content) // 150)
    for length in {*range(0, len(content), step), *range(len(content) - 12, len(content))}:
        path.write_bytes(content[:length])
        with pytest.raises((sw.InvalidInput, OSError), match=r"a\."):
            use(path)


SEED = 6  # with which Arrow crashes soonest


def flip(kind: str, folder: str, n: int) -> dict[str, str]:
    """What damaged files raise that they must not, with the first message."""
    warnings.simplefilter("error")
    path = Path(folder, f"a.{kind.split('.')[-1]}")
    write_kind(kind, path)
    content = path.read_bytes()
    rng = np.random.default_rng(SEED)
    found: dict[str, str] = {}
    for _ in range(n):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[at] = rng.integers(256) if rng.random() < 0.5 else damaged[at] ^ 1 << at % 8
        path.write_bytes(damaged)
        try:
            use(path)
        except sw.InvalidInput:
            pass
        except Exception as error:
            found.setdefault(type(error).__name__, str(error))
    return found


FLIPS = {
    "npy": "TokenError, SyntaxError",
    "npz": "NotImplementedError, OSError, UnicodeDecodeError",
    "compressed.npz": "NotImplementedError, OSError",
    "csv": "TypeError (np.dtype of the comment)",
    "safetensors": "",
    "parquet": "OSError without the file's name, UnicodeDecodeError, ArrowException",
    "nested.parquet": "OSError without the file's name, UnicodeDecodeError, ArrowIndexError",
    "arrow": "CRASH (bus error): offsets of text are trusted; RecordBatch.validate(full=True)",
    "nested.arrow": "CRASH (segmentation fault) in dictionary_decode and flatten",
    "lz4.arrow": "CRASH (abort) in _one_column",
}


@pytest.mark.parametrize("kind", [pytest.param(kind) for kind, what in FLIPS.items()])
def test_a_damaged_file_is_read_or_refused(tmp_path, kind):
    if not kind.endswith(("arrow", "parquet")):
        assert flip(kind, str(tmp_path), 800) == {}
        return
    n = 100
    code = "import sys; sys.path.append('..'); from test_io_errors import flip; "
    code += f"print(flip({kind!r}, {str(tmp_path)!r}, {n}))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        timeout=600,  # it must not hang
    )
    assert ran.returncode == 0, ran.stderr[-500:]
    assert ran.stdout.strip() == "{}"


def test_what_is_no_file_does_not_give_way_to_one(tmp_path):
    pipe = tmp_path / "a.npz"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="a device is where a file is to be written"):
        sw.write_predictions(pipe, GOOD)
    assert pipe.is_fifo()
    assert [x.name for x in tmp_path.iterdir()] == ["a.npz"]


def test_an_id_that_would_inflate_the_file_is_refused(tmp_path):
    ids = ["a" * 100_000, *map(str, range(999))]
    with pytest.raises(sw.InvalidInput, match=r"100,000 characters.*use \.parquet"):
        sw.write_predictions(tmp_path / "a.npz", np.full((1000, 1, 2), 0.5), ids=ids)
