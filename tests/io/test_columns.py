"""One column per member and class, by the names of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scorewise as sw
from io_support import write_table

MEMBER_FIRST = [
    "probs_{m}_{k}",
    "prob_m{m}_c{k}",
    "tree{m}_class{k}",
    "p[{m},{k}]",
    "{m}_{k}",
    "model_{m}_proba_{k}",
    "member{m}.class{k}.prob",
    "Probs-{m}-{k}",
    "m{m:02d}_c{k:03d}",
]

CLASS_FIRST = ["class{k}_tree{m}", "prob_class_{k}_member_{m}", "label{k}_model{m}"]


def wide(folder: Path, names: list[str], suffix: str, **more: Any) -> tuple[Any, dict[str, Any]]:
    """A table whose columns have these names, and what is read from it."""
    rng = np.random.default_rng(0)
    columns = {name: rng.random(4) for name in names}
    path = folder / f"a.{suffix}"
    table = pa.table({name: columns[name] for name in rng.permutation(names)} | more)
    if suffix == "csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        write_table(table, path)
    return sw.read_predictions(path), columns


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("pattern", MEMBER_FIRST + CLASS_FIRST)
def test_wide_columns_by_number(tmp_path, suffix, first, pattern):
    names = [[pattern.format(m=m + first, k=k + first) for k in range(11)] for m in range(3)]
    stored, columns = wide(
        tmp_path, [name for of_member in names for name in of_member], suffix, note=list("abcd")
    )
    assert stored.shape == (4, 3, 11)
    assert stored.class_names is None
    for m in range(3):
        for k in range(11):
            np.testing.assert_array_equal(stored.probs[:, m, k], columns[names[m][k]])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("pattern", ["tree{m}_{k}", "probs_{m}_{k}", "model {m}: {k}", "m{m}.{k}"])
def test_wide_columns_by_name(tmp_path, suffix, pattern):
    classes = ["cat", "big dog", "a_b", "covid-19", "ü"]
    names = [pattern.format(m=m, k=k) for m in range(3) for k in classes]
    stored, columns = wide(tmp_path, names, suffix, id=[7, 8, 9, 10])
    assert stored.shape == (4, 3, 5)
    assert set(stored.class_names) == set(classes)
    for m in range(3):
        for k, name in enumerate(stored.class_names):
            expected = columns[pattern.format(m=m, k=name)]
            np.testing.assert_array_equal(stored.probs[:, m, k], expected)


def test_wide_logits_beside_wide_probabilities_and_weights(tmp_path):
    names = [f"{of}_{m}_{k}" for of in ("probs", "logits") for m in range(2) for k in range(3)]
    names += ["weights_1", "weights_0"]
    for suffix in ("parquet", "csv"):
        stored, columns = wide(tmp_path, names, suffix, y=[0, 1, 2, 0])
        for of in ("probs", "logits"):
            np.testing.assert_array_equal(getattr(stored, of)[:, 1, 2], columns[f"{of}_1_2"])
        np.testing.assert_array_equal(stored.weights[:, 1], columns["weights_1"])
        assert stored.labels.tolist() == [0, 1, 2, 0]


def test_probabilities_by_number_are_distinguished_from_features(tmp_path):
    names = [f"{of}_{m}_{k}" for of in ("pixel", "probs") for m in range(3) for k in range(3)]
    stored, columns = wide(tmp_path, names, "parquet")
    np.testing.assert_array_equal(stored.probs[:, 2, 1], columns["probs_2_1"])


# what people have, which is read as something else without a word
MISREAD = {
    "the word classifier": (
        [f"classifier{m}_prob{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "'class' within 'classifier' is taken for a class: members and classes are exchanged",
    ),
    "predicted label": (
        [f"label_probs_{m}_{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "'label' anywhere before the numbers exchanges members and classes",
    ),
    "classes by other words": (
        [f"digit{k}_fold{m}" for m in range(4) for k in range(3)],
        (4, 3),
        "digit0_fold1 is read as member 0, class 1, though 'fold', 'tree', 'model', 'member', "
        "'seed' after the first number say the opposite",
    ),
    "classes with and without numbers": (
        [f"m{m}_{k}" for m in range(2) for k in ("healthy", "type1", "type2")],
        (2, 3),
        "the class 'healthy' is dropped: the numbered columns alone are a grid",
    ),
    "features by number beside probabilities by name": (
        [f"pixel_{i}_{j}" for i in range(4) for j in range(4)]
        + [f"probs_{m}_{k}" for m in range(2) for k in ("cat", "dog", "cow")],
        (2, 3),
        "the pixels are read as the probabilities, since numbers are tried before names",
    ),
    "a number before": (
        [f"v1_m{m}_c{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "one member with 12 classes, called m0_c0, m0_c1, …",
    ),
    "the same column twice": (
        ["probs_0_0", "probs_0_1", "probs_00_1"],
        None,
        "one of probs_0_1 and probs_00_1 is left out without a word",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case) for case, (_, _, reason) in MISREAD.items()])
def test_wide_columns_are_understood_or_refused(tmp_path, case):
    names, shape, _ = MISREAD[case]
    try:
        stored, _ = wide(tmp_path, names, "parquet")
    except sw.InvalidInput:
        return
    assert stored.shape[1:] == shape


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_classes_from_1_have_labels_from_1(tmp_path, suffix):
    names = [f"probs_{m}_{k}" for m in (1, 2) for k in (1, 2, 3)]
    stored, _ = wide(tmp_path, names, suffix, label=[1, 2, 3, 1])
    assert stored.labels.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("classes", [[-1, 0, 1], [-1, 1]])
def test_a_class_may_have_a_sign(tmp_path, classes):
    names = [f"p_{m}_{k}" for m in range(2) for k in classes]
    stored, columns = wide(tmp_path, names, "csv", label=[1, -1, -1, 1])
    assert stored.class_names == tuple(map(str, classes))
    assert stored.labels.tolist() == [len(classes) - 1, 0, 0, len(classes) - 1]
    np.testing.assert_array_equal(stored.probs[:, 1, 0], columns["p_1_-1"])


def test_the_sign_of_a_class_is_never_lost(tmp_path):
    with pytest.raises(sw.InvalidInput, match=r"class_-1_tree_.' and 'class_1_tree_.' differ"):
        wide(tmp_path, [f"class_{k}_tree_{m}" for m in range(2) for k in (-1, 0, 1)], "csv")
    path = tmp_path / "one.csv"
    path.write_text("p_-1,p_0,p_1\n0.5,0.25,0.25\n")
    assert sw.read_predictions(path, one_model=True).class_names == ("-1", "0", "1")
