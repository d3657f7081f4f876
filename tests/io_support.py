"""Predictions of all kinds in files of all kinds, and whether two are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

import scorewise as sw
from scorewise.io import _predictions

FORMATS = ["npz", "npy", "parquet", "arrow", "feather", "folder", "csv", "safetensors"]

DTYPES = ["float16", "float32", "float64"]

PER_ROW = ("probs", "logits", "labels", "ids")

examples = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])

fewer = settings(examples, max_examples=15)


def set_chunk_bytes(patch: pytest.MonkeyPatch, size: int) -> None:
    """Make the chunks of rows in which files are read so small that tests have several."""
    patch.setattr(_predictions, "CHUNK_BYTES", size)


def path_of(folder: Path, kind: str) -> Path:
    return folder / ("all" if kind == "folder" else f"all.{kind}")


def read(kind: str, path: Path) -> sw.io.Predictions:
    return sw.read_predictions(path_of(path, kind))


def back(folder: Path, kind: str, *values: Any, **beside: Any) -> sw.io.Predictions:
    """What a file gives back."""
    path = path_of(folder, kind)
    sw.write_predictions(path, *values, **beside)
    assert not [file.name for file in folder.iterdir() if file.name.startswith(".")]
    return sw.read_predictions(path)


def assert_bits(array: Any, other: Any, name: str, payload: bool = True) -> None:
    """The same to the last bit, but that text has array NaN only."""
    assert (array is None) == (other is None), name
    if array is None:
        return
    assert array.dtype == other.dtype, name
    assert array.shape == other.shape, name
    if array.dtype == object:
        assert array.tolist() == other.tolist(), name
        assert {type(x) for x in array} == {type(x) for x in other}, name
        return
    if not payload and array.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(array), np.isnan(other), name)
        array, other = (np.where(np.isnan(x), x.dtype.type(np.nan), x) for x in (array, other))
    assert array.tobytes() == other.tobytes(), name


def assert_same(result: sw.io.Predictions, expected: sw.io.Predictions, kind: str = "") -> None:
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert result.fields == expected.fields
    assert result.class_names == expected.class_names
    payload = kind != "csv"
    for name in PER_ROW:
        if name in expected.fields:
            exact = payload or name in ("labels", "ids")
            assert_bits(getattr(result, name), getattr(expected, name), name, exact)
    shared = expected.member_weights is not None
    assert (result.member_weights is not None) == shared
    # the shared weights are text in Arrow's metadata too
    of_text = not payload or (shared and kind in ("parquet", "arrow", "feather", "folder"))
    assert_bits(result.weights, expected.weights, "weights", not of_text)


SPECIAL = [0.0, -0.0, 1.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 1e-45, 6e-8, 0.1, -1e30]

TEXTS = [
    "",
    " ",
    "\n",
    "\r",
    "\r\n",
    '"',
    ",",
    "a,b",
    "'",
    "007",
    "-1",
    "nan",
    "# scorewise {}",
    "\ufeff",
    "ü",
    "日本",
    "\U0001f984",
    "\u202eleft",
    "<script>",
    "\t",
    "\x1f",
    "\x85",
    "\u2028",
    "NULL",
    "=1+1",
    "'=1+1",
    "''=1+1",
    "+1",
    "-5",
    "'-5",
    "@a",
    " =1",
    "\uff1d1",
    "a,=1",
    "a;=1",
    "a\t=1",
    "x" * 10_000,
]

PLAIN = [name for name in TEXTS if name != "\r"]  # see test_a_carriage_return_survives

text = st.sampled_from(TEXTS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5
)

whole = st.sampled_from([-(2**63), 2**63 - 1, 0, -1]) | st.integers(-(2**63), 2**63 - 1)


def numbers(draw: Any, *shape: int) -> np.ndarray:
    """Any bits at all, and those that are often wrong."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    return np.where(rng.random(shape) < 0.5, bits, rng.choice(special, shape))


@st.composite
def predictions(draw: Any, kind: str = "", n: int | None = None) -> sw.io.Predictions:
    if n is None:
        n = draw(st.sampled_from([0, 1, 2, 5, 19]))
    m, k = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    if kind == "npy":
        return sw.io.Predictions(numbers(draw, n, m, k))
    values = draw(st.sampled_from([("probs",), ("logits",), ("probs", "logits")]))
    source: dict[str, Any] = {name: numbers(draw, n, m, k) for name in values}
    if draw(st.booleans()):
        source["labels"] = draw(st.lists(st.integers(-1, k - 1), min_size=n, max_size=n))
        source["labels_are"] = "indices"
    of = draw(st.sampled_from([None, text, whole]))
    if of is not None:
        ids = draw(st.lists(of, min_size=n, max_size=n))
        if of is text and kind == "csv":  # see test_a_carriage_return_survives
            ids = [name.replace("\r", "") for name in ids]
        source["ids"] = np.array(ids, dtype=object if of is text else np.int64)
    if draw(st.booleans()):
        source["class_names"] = draw(st.lists(text, min_size=k, max_size=k, unique=True))
    weights = draw(st.sampled_from([None, (m,), (n, m)]))
    if weights is not None:
        source["weights"] = numbers(draw, *weights)
    return sw.io.Predictions(**source)


def in_pieces(x: sw.io.Predictions, path: Path, sizes: list[int]) -> None:
    """Written by us, and then divided as others would."""
    sw.write_predictions(path, x)
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        with pq.ParquetWriter(path, table.schema) as writer:
            write_all(table, sizes, lambda part, size: writer.write_table(part, max(1, size)))
    elif path.suffix in (".arrow", ".feather"):
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        options = pa.ipc.IpcWriteOptions(compression="lz4" if path.suffix == ".feather" else None)
        with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
            empty = pa.RecordBatch.from_pylist([], schema=table.schema.remove_metadata())
            empty = empty.replace_schema_metadata(table.schema.metadata)
            write_all(
                table,
                sizes,
                lambda part, _: writer.write(part) if len(part) else writer.write_batch(empty),
            )
    elif not path.suffix:
        (path / "part-00000.parquet").rename(path / "whole")
        table = pq.read_table(path / "whole")
        (path / "whole").unlink()
        (path / "_SUCCESS").touch()
        numbers = iter(range(1000))
        write_all(
            table,
            sizes,
            lambda part, _: pq.write_table(
                part, path / f"{next(numbers):03d}.parquet", row_group_size=2
            ),
        )


def write_all(table: pa.Table, sizes: list[int], write: Any) -> None:
    start = 0
    for size in [*sizes, table.num_rows]:
        write(table.slice(start, size), size)
        start = min(start + size, table.num_rows)


MEGABYTE = 1 << 20

READING = """
import sys, tempfile, tracemalloc
import pandas
import pyarrow as pa
import scorewise as sw
with tempfile.TemporaryDirectory() as folder:
    sw.write_predictions(f"{folder}/small.parquet", [[[0.5, 0.5]]])
    sw.read_predictions(f"{folder}/small.parquet").probs
tracemalloc.start()  # after all that is imported
for path in sys.argv[1:]:
    total = 0.0
    for part in sw.read_predictions(path).chunks(1000):
        total += part.probs.sum()
    print(total)
print(tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory())
"""


def peak_of(*paths: Path) -> tuple[list[float], int]:
    """The sum of the numbers of each file, and how many bytes NumPy and Arrow had at the most."""
    ran = subprocess.run(
        [sys.executable, "-c", READING, *paths], capture_output=True, text=True, check=True
    )
    *totals, peak = ran.stdout.split()
    return [float(total) for total in totals], int(peak)


def write_table(table: pa.Table, path: Path, rows: int = 1 << 20) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, rows)


METADATA = {b"scorewise": json.dumps({"class_names": ["a", "b", "c"]}).encode()}
