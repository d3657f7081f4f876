"""Predictions a part at a time, and fields that do not fit."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import scorewise as sw
from io_support import (
    FORMATS,
    assert_bits,
    assert_same,
    back,
    fewer,
    in_pieces,
    path_of,
    predictions,
)
from support import members
from wrong_files_support import GOOD


@pytest.mark.parametrize("kind", FORMATS)
@fewer
@given(
    data=st.data(),
    n=st.integers(0, 12),
    sizes=st.lists(st.integers(0, 5), max_size=5),
    rows=st.integers(1, 14),
)
def test_chunks_together_are_the_whole_from_everywhere_to_everywhere(
    tmp_path, kind, data, n, sizes, rows
):
    x = data.draw(predictions(kind, n).filter(lambda x: kind != "safetensors" or not x.from_logits))
    path = path_of(tmp_path, kind)
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
    in_pieces(x, path, sizes)
    stored = sw.read_predictions(path)
    assert_same(stored, x, kind)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    parts = list(stored.chunks(rows, start=start, stop=stop))
    assert parts
    assert all(0 < len(part) <= rows for part in parts) or (start == stop and len(parts) == 1)
    for name in x.fields:
        together = np.concatenate([getattr(part, name) for part in parts])
        assert_bits(together, getattr(x, name)[start:stop], name, kind != "csv" or name == "ids")
    assert all(part.class_names == x.class_names for part in parts)
    assert all(part.fields == x.fields for part in parts)


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv"])
@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (0, 6), (3, 2), (0, -1)])
def test_rows_that_are_not_there_are_refused(tmp_path, kind, start, stop):
    # more rows after the array in the .npz, so that the map does not reach the end of the file
    more = {} if kind == "npy" else {"labels": np.zeros(5, int), "weights": np.ones((5, 2))}
    stored = back(tmp_path, kind, members(5, 2, 3), **more)
    with pytest.raises(sw.InvalidInput, match=r"start|stop"):
        list(stored.chunks(2, start=start, stop=stop))


@pytest.mark.parametrize("rows", [0, -1, 2.5, "2"])
def test_chunks_have_a_row_at_least(tmp_path, rows):
    with pytest.raises(sw.InvalidInput, match="n_rows"):
        list(back(tmp_path, "npy", members(3, 2, 2)).chunks(rows))


# -- fields that do not fit

MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"probs": None}, "neither probs nor logits"),
    "one model": (
        {"probs": GOOD[:, 0]},
        r"\(7, 3\); it must be \(N, M, K\).*one model have shape \(7, 1, 3\)",
    ),
    "whole numbers": ({"probs": GOOD.astype(int)}, "dtype int64"),
    "no members": ({"probs": GOOD[:, :0]}, "no members"),
    "other logits": ({"logits": GOOD[1:]}, r"probs have shape \(7, 2, 3\), logits \(6, 2, 3\)"),
    "labels of other rows": ({"labels": [0, 1]}, r"labels have shape \(2,\) for 7 rows"),
    "a label too large": ({"labels": [0, 1, 2, 0, 3, 0, 0]}, r"labels\[4\] is 3"),
    "a label too small": ({"labels": [0, -2, 2, 0, 3, 0, 0]}, r"labels\[1\] is -2"),
    "broken labels": ({"labels": np.full(7, 0.5)}, "regression is not supported"),
    "names without classes": (
        {"labels": list("abcabca")},
        "the predictions have no class names; pass class_names=",
    ),
    "unknown names": (
        {"labels": list("xyzqxyz"), "class_names": list("xyz")},
        r"labels\[3\] is .*'q'.*, which is not one of the classes 'x', 'y', 'z'",
    ),
    "ids of other rows": ({"ids": [1]}, r"ids have shape \(1,\) for 7 rows"),
    "broken ids": ({"ids": [0.5] * 7}, r"ids\[0\] is 0.5"),
    "mixed ids": ({"ids": [1, 2, "3", 4, 5, 6, 7]}, r"ids\[0\] is 1; .* whole numbers, or strings"),
    "large ids": ({"ids": [2**63] * 7}, "ids are too large"),
    "large unsigned ids": ({"ids": np.full(7, 2**63, np.uint64)}, "ids are too large"),
    "a null in an id": ({"ids": ["a\0", *"bcdefg"]}, r"ids\[0\] has a null character"),
    "half a character": ({"ids": [*"abcdef", "\ud800"]}, r"ids\[6\] is not valid text"),
    "too few names": ({"class_names": ["a"]}, "there are 1 class_names for 3 classes"),
    "a name for all": ({"class_names": "abc"}, "class_names must be 3 names"),
    "the same name twice": ({"class_names": list("aba")}, "two classes are called 'a'"),
    "weights of others": ({"weights": [1, 2, 3]}, r"weights have shape \(3,\)"),
    "weights of text": ({"weights": ["a", "b"]}, "must be floating-point numbers"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_inconsistent_inputs_are_refused(case):
    source, message = MISFITS[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.io.Predictions(**{"probs": GOOD} | source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"weights": [[1], [1, 2]]}, id="ragged weights: ValueError"),
        pytest.param({"labels": [[1], [1, 2], 0, 0, 0, 0, 0]}, id="ragged labels: ValueError"),
        pytest.param({"class_names": np.array("abc")}, id="0-d class_names: TypeError"),
    ],
)
def test_sources_without_a_shape_are_refused(source):
    with pytest.raises(sw.InvalidInput):
        sw.io.Predictions(GOOD, **source)


def test_no_rows_may_have_labels_by_name(tmp_path):
    none = np.array([], dtype="U1")
    assert sw.io.Predictions(GOOD[:0], labels=none, class_names=list("abc")).labels.shape == (0,)


def test_minus_one_is_no_label_where_labels_are_indices_whatever_classes_are_called():
    predictions = sw.io.Predictions(
        np.full((2, 1, 2), 0.5), labels=[-1, 1], labels_are="indices", class_names=["-1", "1"]
    )
    assert predictions.labels.tolist() == [-1, 1]
