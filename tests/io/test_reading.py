"""Files that look different: names, axes, logits, one model, labels, and what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

import scorewise as sw
from io_support import set_chunk_bytes
from scorewise.errors import ScorewiseWarning
from support import members

PROBS = members(6, 3, 4)
LABELS = np.array([0, 1, 2, 3, 0, 1])
ARRAY_FILES = ["npz", "npy", "safetensors", "compressed"]


def save(folder: Path, kind: str, **arrays: Any) -> Path:
    """Arrays in a file of this kind; a ``.npy`` file has the first."""
    path = folder / f"a.{'npz' if kind == 'compressed' else kind}"
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if kind == "npy":
        np.save(path, next(iter(arrays.values())))
    elif kind == "safetensors":
        save_file(arrays, path)
    else:
        (np.savez_compressed if kind == "compressed" else np.savez)(path, **arrays)
    return path


@pytest.mark.parametrize("kind", ARRAY_FILES)
@pytest.mark.parametrize(("axis", "order"), [(0, (1, 0, 2)), (1, (0, 1, 2)), (2, (0, 2, 1))])
def test_members_may_be_on_any_axis(tmp_path, kind, axis, order, monkeypatch):
    path = save(tmp_path, kind, probs=PROBS.transpose(order), labels=LABELS)
    stored = sw.read_predictions(path, member_axis=axis)
    assert stored.shape == PROBS.shape
    np.testing.assert_array_equal(stored.probs, PROBS)
    set_chunk_bytes(monkeypatch, 2 * PROBS[0].nbytes)
    chunks = list(sw.read_predictions(path, member_axis=axis).chunks())
    assert [len(chunk) for chunk in chunks] == [2, 2, 2]
    np.testing.assert_array_equal(np.concatenate([chunk.probs for chunk in chunks]), PROBS)


def test_members_on_the_first_axis_stay_in_the_file(tmp_path):
    path = save(tmp_path, "npy", probs=PROBS.transpose(1, 0, 2))
    chunk = next(sw.read_predictions(path, member_axis=0).chunks(2)).probs
    while chunk.base is not None and not isinstance(chunk, np.memmap):
        chunk = chunk.base
    assert isinstance(chunk, np.memmap)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_labels_show_that_the_first_axis_has_the_members(tmp_path, kind):
    path = save(tmp_path, kind, probs=PROBS.transpose(1, 0, 2), labels=LABELS)
    with pytest.raises(
        sw.InvalidInput, match=r"'a\..*there are 6 labels.*\(3, 6, 4\).*pass member_axis=0 "
    ):
        sw.read_predictions(path)
    path = save(tmp_path, kind, probs=PROBS, labels=LABELS)
    with pytest.raises(sw.InvalidInput, match=r"6 labels.*pass member_axis=None"):
        sw.read_predictions(path, member_axis=0)


@pytest.mark.parametrize("axis", [3, -1, True, "0"])
def test_another_axis_is_refused(tmp_path, axis):
    path = save(tmp_path, "npy", probs=PROBS)
    with pytest.raises(sw.InvalidInput, match="member_axis must be 0, 1 or 2"):
        sw.read_predictions(path, member_axis=axis)


@pytest.mark.parametrize("kind", ARRAY_FILES)
def test_many_members_without_labels_may_be_rows(tmp_path, kind):
    probs = np.full((9, 100, 2), 0.5)
    path = save(tmp_path, kind, probs=probs)
    with pytest.warns(ScorewiseWarning, match="as 9 rows, 100 members.*pass member_axis=0 if"):
        sw.score_file(path, "log", tmp_path / "out.csv")
    assert sw.read_predictions(path, member_axis=1).shape == probs.shape
    path = save(tmp_path, kind, probs=np.full((10, 100, 2), 0.5))
    assert len(sw.read_predictions(path)) == 10


# -- one model -------------------------------------------------------------------------------------

ONE = PROBS[:, 0]


def one_model_file(folder: Path, kind: str) -> Path:
    columns = {f"probs_{k}": ONE[:, k] for k in (2, 0, 1, 3)}
    named = {f"p_{name}": ONE[:, k] for k, name in enumerate(["cat", "dog", "cow", "owl"])}
    if kind in ARRAY_FILES:
        return save(folder, kind, probs=ONE)
    if kind == "lists":
        pq.write_table(pa.table({"probs": list(ONE)}), folder / "a.parquet")
        return folder / "a.parquet"
    if kind == "tensors":
        storage = pa.FixedSizeListArray.from_arrays(pa.array(ONE.ravel()), 4)
        tensor = pa.fixed_shape_tensor(pa.float64(), [4])
        array = pa.ExtensionArray.from_storage(tensor, storage)
        pq.write_table(pa.table({"probs": array}), folder / "a.parquet")
        return folder / "a.parquet"
    table = pa.table(columns if kind.startswith("numbered") else named)
    path = folder / f"a.{kind.partition(' ')[2]}"
    if path.suffix == ".csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "kind", [*ARRAY_FILES, "lists", "tensors", "numbered csv", "numbered parquet", "named csv"]
)
def test_predictions_of_one_model_are_never_read_as_members(tmp_path, kind):
    path = one_model_file(tmp_path, kind)
    with pytest.raises(sw.InvalidInput, match=r"members.*pass one_model=True if"):
        sw.read_predictions(path)
    stored = sw.read_predictions(path, one_model=True)
    np.testing.assert_array_equal(stored.probs, ONE[:, None])
    assert stored.class_names == (("cat", "dog", "cow", "owl") if "named" in kind else None)
    assert next(stored.chunks(2)).probs.shape == (2, 1, 4)


def test_columns_called_like_the_classes_are_those_of_one_model(tmp_path):
    (tmp_path / "a.csv").write_text("label,dog,cat\ncat,0.25,0.75\n")
    stored = sw.read_predictions(tmp_path / "a.csv", ["cat", "dog"], one_model=True)
    assert stored.probs.tolist() == [[[0.75, 0.25]]]
    assert stored.labels.tolist() == [0]


def test_several_members_are_not_one_model(tmp_path):
    paths = [save(tmp_path, "npz", probs=PROBS), tmp_path / "b.parquet", tmp_path / "c.csv"]
    for path in paths[1:]:
        sw.write_predictions(path, PROBS)
    for path in paths:
        with pytest.raises(sw.InvalidInput, match=r"3 members; pass one_model=False"):
            sw.read_predictions(path, one_model=True)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels"),
    [("preds", "targets"), ("predictions", "label_ids"), ("y_prob", "y_test"), ("y_proba", "y")],
)
def test_names_of_others_are_known(tmp_path, name, labels):
    stored = sw.read_predictions(save(tmp_path, "npz", **{name: PROBS, labels: LABELS}))
    assert stored.fields == {"probs", "labels"}
    assert stored.labels.tolist() == LABELS.tolist()


def test_arrays_and_columns_can_be_named(tmp_path):
    fields = {"p": PROBS, "truth": LABELS, "case": np.arange(6) + 7}
    path = save(tmp_path, "npz", **fields)
    names = {"probs": "p", "labels": "truth", "ids": "case"}
    pq.write_table(pa.table(fields | {"p": [x.tolist() for x in PROBS]}), tmp_path / "a.parquet")
    for file in (path, tmp_path / "a.parquet"):
        stored = sw.read_predictions(file, **names)
        np.testing.assert_array_equal(stored.probs, PROBS)
        assert stored.labels.tolist() == LABELS.tolist()
        assert stored.ids.tolist() == [7, 8, 9, 10, 11, 12]


def test_a_misspelt_name_is_answered_with_the_nearest(tmp_path):
    path = save(tmp_path, "npz", probs=PROBS, truth=LABELS)
    with pytest.raises(
        sw.InvalidInput,
        match=r"'a.npz': there is no 'trut', only 'probs', 'truth'; pass labels='truth' if you",
    ):
        sw.read_predictions(path, labels="trut")


@pytest.mark.parametrize(
    ("arrays", "advice"),
    [
        ({"prob": PROBS, "proba": PROBS}, "'prob', 'proba' could .* pass probs='prob', or pass"),
        ({"probs": PROBS, "label": LABELS, "y": LABELS}, "pass labels='label', or pass labels='y'"),
        ({"x": PROBS}, "only 'x'; pass probs='NAME' for the array with the predictions"),
    ],
)
def test_which_array_is_meant_is_asked(tmp_path, arrays, advice):
    with pytest.raises(sw.InvalidInput, match=advice):
        sw.read_predictions(save(tmp_path, "npz", **arrays))


def test_several_sets_of_columns_are_chosen_by_the_beginning_of_their_names(tmp_path):
    columns = {f"{of}_{m}_{k}": PROBS[:, m, k] for of in ("a", "b") for m in (0, 1) for k in (0, 1)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(sw.InvalidInput, match="pass probs='NAME' for the beginning of the names"):
        sw.read_predictions(tmp_path / "a.parquet")
    stored = sw.read_predictions(tmp_path / "a.parquet", probs="b_")
    np.testing.assert_array_equal(stored.probs, PROBS[:, :2, :2])


# -- logits ----------------------------------------------------------------------------------------

LOGITS = np.log(PROBS)


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors"])
def test_logits_of_any_name_are_read_as_logits(tmp_path, kind):
    stored = sw.read_predictions(save(tmp_path, kind, probs=LOGITS), from_logits=True)
    assert stored.fields == {"logits"}
    np.testing.assert_allclose(stored.probs, PROBS)


def test_an_array_called_logits_can_be_read_as_probabilities(tmp_path):
    path = save(tmp_path, "npz", logits=PROBS)
    np.testing.assert_array_equal(sw.read_predictions(path, probs="logits").probs, PROBS)
    sw.write_predictions(tmp_path / "a.csv", logits=PROBS)
    stored = sw.read_predictions(tmp_path / "a.csv", probs="logits")
    assert (stored.fields, stored.shape) == ({"probs"}, PROBS.shape)


# -- labels ----------------------------------------------------------------------------------------

NUMBERS = [str(k) for k in range(1, 5)]


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv", "arrow", "safetensors"])
def test_labels_of_classes_called_by_numbers_survive_a_file(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    options = {"labels": [1, 2, 3], "labels_are": "indices", "class_names": NUMBERS}
    sw.write_predictions(path, PROBS[:3], **options)
    assert sw.read_predictions(path).labels.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_all_rows_decide_what_labels_are(tmp_path, kind):
    path = tmp_path / f"a.{kind}"

    def write(labels: list[int]) -> None:
        if kind == "npz":
            np.savez(path, probs=PROBS, labels=labels)
        else:
            columns = {"probs": [x.tolist() for x in PROBS], "labels": labels}
            pq.write_table(pa.table(columns), path, row_group_size=1)

    write([1, 2, 3, 4, 1, 1])  # only 4 shows that these are names
    chunks = sw.read_predictions(path, NUMBERS).chunks(2)
    assert next(chunks).labels.tolist() in ([0, 1], [0])
    assert sw.read_predictions(path, NUMBERS).labels.tolist() == [0, 1, 2, 3, 0, 0]
    write([1, 2, 3, 3, 1, 1])
    with pytest.raises(sw.InvalidInput, match=r"'a.*pass labels_are='names', or"):
        assert sw.read_predictions(path, NUMBERS).labels is None
    for labels_are, first in (("names", 0), ("indices", 1)):
        assert sw.read_predictions(path, NUMBERS, labels_are=labels_are).labels[0] == first


@pytest.mark.parametrize("text", ["probs_0_1,probs_0_2,label\n0.5,0.5,2\n0.5,0.5,1\n"])
def test_labels_are_numbered_as_the_columns_are(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert sw.read_predictions(tmp_path / "a.csv").labels.tolist() == [1, 0]
    assert sw.read_predictions(tmp_path / "a.csv", ["no", "yes"]).labels.tolist() == [1, 0]
    (tmp_path / "a.csv").write_text(text.replace(",1\n", ",0\n"))
    with pytest.raises(sw.InvalidInput, match=r"is 0, which is not one of the classes '1', '2'"):
        sw.read_predictions(tmp_path / "a.csv")


@pytest.mark.parametrize("cells", ["True False True", "1.0 0.0 1.0", "1 0 1", "TRUE FALSE TRUE"])
def test_labels_in_text_may_be_booleans_and_whole_floats(tmp_path, cells):
    lines = "".join(f"0.5,0.5,{cell}\n" for cell in cells.split())
    (tmp_path / "a.csv").write_text(f"probs_0_0,probs_0_1,y\n{lines}")
    assert sw.read_predictions(tmp_path / "a.csv").labels.tolist() == [1, 0, 1]


# -- separators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [";", "\t"])
def test_european_csv_is_read(tmp_path, separator):
    text = "id;label;probs_0_0;probs_0_1\na,b;1;0,25;0,75\nc;0;1;0\nd;0;5e-1;0,5\n"
    text = text.replace("5e-1", "0,5").replace(";", separator)
    (tmp_path / "a.csv").write_text(text)
    stored = sw.read_predictions(tmp_path / "a.csv")
    assert stored.probs[:, 0].tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]
    assert stored.ids.tolist() == ["a,b", "c", "d"]
    assert stored.labels.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("probs_0_0;probs_0_1\n0,5;0.5\n", "'0.5', and other numbers have a decimal comma"),
        ("probs_0_0|probs_0_1\n0.5|0.5\n", "with the separator ',' it has 'probs_0_0|probs_0_1'"),
        ("probs_0_0,probs_0_1\n0,5,0,5\n", "row 0 has 4 cells"),
    ],
)
def test_an_ambiguous_separator_is_refused(tmp_path, text, problem):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(sw.InvalidInput) as error:
        sw.read_predictions(tmp_path / "a.csv")
    assert problem in str(error.value)


def test_tables_have_their_members_within_rows(tmp_path):
    for suffix in ("csv", "parquet"):
        sw.write_predictions(tmp_path / f"a.{suffix}", PROBS)
        with pytest.raises(sw.InvalidInput, match="each row of a table has members and classes"):
            sw.read_predictions(tmp_path / f"a.{suffix}", member_axis=0)


# -- advice that leads somewhere -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_called_like_classes_are_answered_with_both_options(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    columns = {"cat": [0.5], "dog": [0.25], "cow": [0.25], "label": ["dog"]}
    table = pa.table(columns)
    table.to_pandas().to_csv(path, index=False) if kind == "csv" else pq.write_table(table, path)
    advice = r"pass one_model=True, class_names=\('cat', 'dog', 'cow'\) if these are the classes"
    with pytest.raises(sw.InvalidInput, match=advice):
        sw.read_predictions(path)
    stored = sw.read_predictions(path, one_model=True, class_names=("cat", "dog", "cow"))
    assert stored.labels.tolist() == [1]


@pytest.mark.parametrize("probs", [None, "model"])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"model0_time": [3.0]}, "'model0_time' and no 'model1_time'"),
        ({"model9_cow": None}, "'model0_cow' and no 'model9_cow'"),
    ],
)
def test_a_column_that_is_missing_or_too_many_is_named(tmp_path, change, names, probs):
    columns = {f"model{m}_{name}": [0.5] for m in range(10) for name in ("cat", "dog", "cow")}
    columns = {name: cells for name, cells in (columns | change).items() if cells is not None}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(sw.InvalidInput, match=f"there is a column {names}"):
        sw.read_predictions(tmp_path / "a.parquet", probs=probs)


def test_labels_belong_in_the_same_file(tmp_path):
    path = save(tmp_path, "npy", probs=PROBS)
    with pytest.raises(sw.InvalidInput, match=r"np.savez\(\"test.npz\", probs=…, labels=…\)"):
        sw.read_predictions(path, labels="y.npy")
    np.save(tmp_path / "y.npy", LABELS)
    other = save(tmp_path, "npz", probs=PROBS)
    with pytest.raises(sw.InvalidInput, match=r"y.npy' is another file; save both in one: np.sav"):
        sw.read_predictions(other, labels=str(tmp_path / "y.npy"))


@pytest.mark.parametrize("kind", ["npz", "npy"])
@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_probabilities_of_class_1_alone_are_recognised(tmp_path, kind, shape):
    path = save(tmp_path, kind, probs=np.full(shape, 0.7))
    with pytest.raises(sw.InvalidInput, match=r"two classes need two probabilities.*binary"):
        sw.read_predictions(path)
    if len(shape) == 2:
        stored = sw.read_predictions(path, one_model=True)
        with pytest.raises(sw.InvalidInput, match=r"sums to 2.1.*scorewise.binary.*normalize"):
            sw.decompose(stored.samples, "log")
