"""Rows for torch modules: the forms in which they come, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
)

import scorewise as sw
from torch_support import ROWS, RemembersRows, build, mlp, rows, samples, sentences

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(autouse=True)
def _same_networks() -> None:
    torch.manual_seed(0)


class Centred(nn.Module):
    """Its rows look at one another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x):
        h = self.drop(torch.tanh(self.first(x)))
        return self.last(h - h.mean(0))


def test_modules_whose_rows_depend_on_one_another_are_refused():
    with pytest.raises(sw.InvalidInput, match="depends on the other rows of its batch"):
        samples(Centred(), rows(6))
    with pytest.raises(sw.InvalidInput, match="depends on the other rows of its batch"):
        samples([Centred(), Centred()], rows(6), 2)


class Pairs(Dataset):
    def __init__(self, X: torch.Tensor) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, i: int):
        return self.X[i], i % 3


class Stream(IterableDataset):
    def __init__(self, X: torch.Tensor) -> None:
        self.X = X

    def __iter__(self):
        return iter(self.X)


def dicts(X: torch.Tensor) -> list[dict[str, Any]]:
    return [{"input": row, "labels": 0} for row in X]


FORMS = {
    "tensor": lambda X: X,
    "float64 array": lambda X: X.numpy().astype(np.float64),
    "read-only array": lambda X: np.frombuffer(X.numpy().tobytes(), np.float32).reshape(X.shape),
    "reversed array": lambda X: X.flip(0).numpy()[::-1],
    "list": lambda X: X.tolist(),
    "mapping": lambda X: {"input": X},
    "mapping of an array": lambda X: {"input": X.numpy()},
    "loader without labels": lambda X: DataLoader(TensorDataset(X), 4),
    "loader with labels": lambda X: DataLoader(TensorDataset(X, torch.arange(len(X))), 4),
    "loader of rows": lambda X: DataLoader(X, 4),
    "loader of mappings": lambda X: DataLoader(dicts(X), 4),
    "loader of single rows": lambda X: DataLoader(TensorDataset(X), 1),
    "loader with batches of its own": lambda X: DataLoader(
        Pairs(X), batch_sampler=[[0, 1], [2, 3, 4, 5, 6], [7, 8]]
    ),
    "data set": Pairs,
    "stream": Stream,
    "loader of a stream": lambda X: DataLoader(Stream(X), 4),
    "generator": lambda X: (part for part in X.split(4)),
    "generator of pairs": lambda X: ((part, None) for part in X.split(4)),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_rows_come_in_many_forms(form):
    model, X = build("mlp")
    np.testing.assert_allclose(samples(model, FORMS[form](X)), samples(model, X), atol=1e-6)
    np.testing.assert_allclose(
        samples(model, FORMS[form](X), batch_size=3), samples(model, X), atol=1e-6
    )


def test_a_loader_that_would_lose_or_mix_rows_is_refused():
    model, X = build("mlp")
    with pytest.raises(sw.InvalidInput, match="drops the last 1 rows"):
        samples(model, DataLoader(TensorDataset(X), 4, drop_last=True))
    with pytest.raises(sw.InvalidInput, match="shuffle=False"):
        samples(model, DataLoader(TensorDataset(X), 4, shuffle=True))
    subset = BatchSampler(SubsetRandomSampler(range(6)), 4, drop_last=False)
    with pytest.raises(sw.InvalidInput, match="shuffle=False"):
        samples(model, DataLoader(TensorDataset(X), batch_sampler=subset))
    whole = DataLoader(TensorDataset(X[:8]), 4, drop_last=True)  # nothing is lost here
    np.testing.assert_allclose(samples(model, whole), samples(model, X[:8]), atol=1e-6)
    some = BatchSampler(range(2, 7), 4, drop_last=False)
    chosen = samples(model, DataLoader(TensorDataset(X), batch_sampler=some))
    np.testing.assert_allclose(chosen, samples(model, X[2:7]), atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 4), (0,)])
def test_no_rows_give_no_samples(shape):
    model, _ = build("mlp")
    if len(shape) == 2:
        assert samples(model, torch.empty(shape)).shape == (0, 6, 3)
    else:
        with pytest.raises(sw.InvalidInput):
            samples(model, torch.empty(shape))


@pytest.mark.parametrize(
    "X", [DataLoader(TensorDataset(torch.empty(0, 4)), 2), iter([])], ids=["loader", "generator"]
)
def test_a_loader_without_a_batch_is_named(X):
    with pytest.raises(sw.InvalidInput, match=r"no (rows|batch)"):
        samples(build("mlp")[0], X)


def test_decompose_takes_the_samples():
    model, X = build("mlp")
    drawn = sw.predict_samples(model, X, 6, 0)
    assert isinstance(drawn, sw.Samples)
    d, expected = sw.decompose(drawn, "log"), sw.decompose(samples(model, X), "log")
    np.testing.assert_array_equal(d.epistemic, expected.epistemic)
    assert (d.epistemic > 1e-4).all()


def test_samples_go_to_files_arrays_and_accumulators(tmp_path):
    model, X = build("mlp")
    options = {"batch_size": 4}
    expected = samples(model, X, **options)
    for name in ("samples.npy", "samples.zarr"):
        np.testing.assert_array_equal(samples(model, X, out=tmp_path / name, **options), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "samples.npy"), expected)
    room = np.empty((9, 6, 3))
    assert sw.predict_samples(model, X, 6, 0, out=room, **options).probs is room
    np.testing.assert_allclose(room, expected, atol=1e-6)
    into = sw.Accumulator(["log", "brier"])
    assert sw.predict_samples(model, X, 6, 0, into=into, **options) is into
    assert into.n_members == 6
    for rule, d in sw.decompose(expected, ["log", "brier"]).items():
        for streamed, whole in zip(into.result()[rule], d, strict=True):
            np.testing.assert_allclose(streamed, whole, rtol=1e-4, atol=1e-6)


def test_a_batch_encoding_is_a_mapping(bert):
    from transformers import BatchEncoding

    X = sentences(4)
    np.testing.assert_array_equal(samples(bert, BatchEncoding(X)), samples(bert, X))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (rows(5, 7), r"Sequential fails on X \(\(2, 7\) of float32\): .*x7 and 4x6"),
        (np.array([["a", "b", "c", "d"]]), "X has dtype <U1"),
        (np.ones((5, 4), complex), "complex128"),
        ("file.csv", "X is str"),
        (None, "X is NoneType"),
        (3, "X is int"),
        ({"nonsense": "text"}, "a torch module takes"),
    ],
)
def test_rows_that_a_module_cannot_take_are_refused(X, words):
    with pytest.raises(sw.InvalidInput, match=words):
        samples(mlp(), X)


class Functionally(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=True)


def test_members_that_are_random_by_themselves_are_refused():
    members = [nn.Linear(6, 3), Functionally(6, 3)]
    with pytest.raises(sw.InvalidInput, match="returns different values for the same rows"):
        sw.predict_samples(members, ROWS)
    with pytest.raises(sw.InvalidInput, match="returns different values for the same rows"):
        sw.predict_dirichlet(Functionally(6, 3), ROWS, output="log-alpha")


class TakesLabels(RemembersRows):
    def forward(self, x, labels=None):
        out = super().forward(x)
        return (F.cross_entropy(out, labels), out) if labels is not None else out


def test_labels_in_a_mapping_are_no_input():
    model, labels = TakesLabels(), torch.arange(11) % 3
    expected = samples(model)
    np.testing.assert_array_equal(samples(model, {"x": ROWS}), expected)
    np.testing.assert_array_equal(samples(model, {"x": ROWS, "labels": labels}), expected)


def test_a_loader_of_ready_batches_must_not_shuffle():
    ready = [ROWS[:4], ROWS[4:]]
    loader = torch.utils.data.DataLoader(ready, batch_size=None)
    np.testing.assert_allclose(samples(RemembersRows(), loader).shape, (11, 6, 3))
    with pytest.raises(sw.InvalidInput, match="shuffle=False"):
        samples(RemembersRows(), torch.utils.data.DataLoader(ready, batch_size=None, shuffle=True))


class Mixed(nn.Module):
    """Half precision for words, full precision for the rest, as models are loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 6).bfloat16()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, ids, x):
        return self.b(self.drop(self.a(x + self.words(ids).float())))


def test_rows_keep_a_precision_that_the_module_has():
    X = {"ids": torch.arange(11) % 9, "x": ROWS}
    assert samples(Mixed(), X).shape == (11, 6, 3)
