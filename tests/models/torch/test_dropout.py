"""Monte-Carlo dropout: a draw is one thinned network for all rows."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw
from support import softmax
from torch_support import (
    ARCHITECTURES,
    Skip,
    architectures,
    assert_unchanged,
    build,
    mlp,
    rows,
    samples,
    sentences,
    state_of,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def returned_by(model: nn.Module, X: Any, n_samples: int = 6, **options: Any) -> np.ndarray:
    """What the module itself returned for all draws (M, N, ...), seen by a hook of the user's."""
    seen: list[torch.Tensor] = []
    hook = model.register_forward_hook(lambda _, inputs, result: seen.append(result.clone()))
    sw.predict_samples(model, X, n_samples, 0, batch_size=len(X), **options)
    hook.remove()
    if len(seen[-1]) == len(X) * n_samples:
        return seen[-1].numpy().reshape(n_samples, len(X), -1)
    return np.stack([output.numpy() for output in seen[-n_samples:]])


def assert_every_draw_has_a_mask(probs: np.ndarray, p: float, width: int, head: Any) -> None:
    """Every draw is ``head`` of the same 0/1 mask over ``width`` units, for all rows."""
    masks = np.array(list(itertools.product([0.0, 1.0], repeat=width))) / (1 - p)
    expected = np.stack([softmax(head(mask)) for mask in masks])  # (2^width, N, K)
    tolerance = 1e-10 if probs.dtype == np.float64 else 1e-5
    for m in range(probs.shape[1]):
        errors = np.abs(expected - probs[:, m]).max(axis=(1, 2))
        assert errors.min() < tolerance, f"draw {m} is no thinned network: {errors.min()}"


each_architecture = pytest.mark.parametrize("name", sorted(ARCHITECTURES))


@settings(max_examples=40)
@given(st.floats(0.05, 0.9), st.integers(0, 2**64), st.integers(1, 6), st.booleans())
def test_every_draw_is_the_network_with_one_mask_for_all_rows(p, seed, n, frozen):
    model, X = mlp(p).double(), rows(n).double()
    if frozen:  # batch norm, by its running statistics
        model.insert(2, nn.BatchNorm1d(6).double())
        model[2].running_mean.normal_()
        model[2].running_var.uniform_(0.5, 2)
    probs = samples(model, X, 5, seed)
    assert probs.dtype == np.float64
    with torch.no_grad():
        h = torch.tanh(model[0](X)).numpy()
        if frozen:
            norm = model[2]
            h = (h - norm.running_mean.numpy()) / np.sqrt(norm.running_var.numpy() + norm.eps)
        W, b = model[-1].weight.numpy(), model[-1].bias.numpy()
    assert_every_draw_has_a_mask(probs, p, 6, lambda mask: h * mask @ W.T + b)


def test_a_skip_around_the_dropout_keeps_what_goes_around():
    model, X = Skip().double(), rows(5).double()
    with torch.no_grad():
        h = torch.tanh(model.first(X)).numpy()
        W, b = model.last.weight.numpy(), model.last.bias.numpy()
    assert_every_draw_has_a_mask(samples(model, X), 0.4, 6, lambda mask: (h + h * mask) @ W.T + b)


class Ones(nn.Module):
    """One logit, below 0: the share of 500 units that a dropout layer keeps, minus 1."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(p)
        self.none = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        passed = self.drop(x.new_ones(len(x), 500))
        return passed.mean(1) * (1 - self.drop.p) + self.none - 1


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_the_share_that_is_dropped_is_p(p):
    probs = samples(Ones(p), rows(2), 60)[..., 1]
    passed = 1 + np.log(probs / (1 - probs))
    np.testing.assert_allclose(passed[0], passed[1], rtol=1e-9)
    assert abs(1 - passed[0].mean() - p) < 5 * np.sqrt(p * (1 - p) / (60 * 500))
    # and no draw is like another: each is binomial on its own
    assert 0.5 < passed[0].std() / np.sqrt(p * (1 - p) / 500) < 1.6


LAYERS = {
    "Dropout": (nn.Dropout(0.3), (4, 5)),
    "Dropout1d": (nn.Dropout1d(0.3), (4, 5)),
    "Dropout2d": (nn.Dropout2d(0.3), (4, 2, 3)),
    "Dropout3d": (nn.Dropout3d(0.3), (4, 2, 3, 2)),
    "AlphaDropout": (nn.AlphaDropout(0.3), (4, 5)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(0.3), (4, 2, 3)),
    "certain Dropout": (nn.Dropout(1.0), (4, 5)),
}


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_every_layer_takes_the_two_values_that_torch_takes(layer):
    drop, shape = LAYERS[layer]
    X = rows(3, *shape).double()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        own = torch.stack([drop.train()(X) for _ in range(100)]).flatten(2).numpy()
    low, high = own.min(0), own.max(0)
    if drop.p < 1:
        assert (high - low > 1e-6).all(), "torch did not show both values"
    drawn = returned_by(nn.Sequential(drop, nn.Flatten()), X, 40)
    is_low = np.isclose(drawn, low, rtol=1e-6, atol=1e-9)
    is_high = np.isclose(drawn, high, rtol=1e-6, atol=1e-9)
    assert (is_low | is_high).all()
    # the mask is the same for all rows, and of channels where the layer drops channels
    dropped = (~np.isclose(drawn, (own[0] * 0 + X.flatten(1).numpy()) / 0.7)).reshape(40, 3, *shape)
    if isinstance(drop, nn.AlphaDropout | nn.FeatureAlphaDropout):
        passed_value = np.where(np.median(own, 0) == high, high, low)  # passed more often than not
        dropped = (~np.isclose(drawn, passed_value)).reshape(40, 3, *shape)
    assert (dropped == dropped[:, :1]).all()
    if layer not in {"Dropout", "AlphaDropout", "certain Dropout"}:
        channels = dropped.reshape(40, 3, 4, -1)
        assert (channels == channels[..., :1]).all()
    if drop.p < 1:
        assert 0.15 < dropped.mean() < 0.45


@settings(max_examples=50)
@given(architectures, st.integers(0, 2**40), st.integers(1, 12), st.integers(1, 13))
def test_the_same_seed_gives_the_same_samples_whatever_the_batch_size(name, seed, n, batch_size):
    model, X = build(name, n)
    whole = samples(model, X, 4, seed)
    assert whole.shape == (n, 4, 3)
    batched = samples(model, X, 4, seed, batch_size=batch_size)
    np.testing.assert_allclose(batched, whole, atol=1e-6)
    loaded = samples(model, DataLoader(TensorDataset(X), batch_size), 4, seed)
    np.testing.assert_allclose(loaded, whole, atol=1e-6)


@each_architecture
def test_different_seeds_and_draws_differ(name):
    model, X = build(name)
    first, second = samples(model, X, 4, 1), samples(model, X, 4, 2)
    assert np.abs(first - second).max(axis=(0, 2)).min() > 1e-4
    for a, b in itertools.combinations(range(4), 2):
        assert np.abs(first[:, a] - first[:, b]).max() > 1e-4, (a, b)


@each_architecture
def test_more_draws_begin_with_the_fewer(name):
    model, X = build(name)
    many = samples(model, X, 7)
    for fewer in (1, 2, 5):
        np.testing.assert_allclose(samples(model, X, fewer), many[:, :fewer], atol=1e-6)


@each_architecture
def test_a_row_does_not_depend_on_the_other_rows(name):
    model, X = build(name)
    whole = samples(model, X)
    order = torch.tensor([8, 3, 3, 0])
    np.testing.assert_allclose(samples(model, X[order]), whole[order], atol=1e-6)


def test_without_a_seed_predictions_differ():
    model, X = build("mlp")
    first, second = (sw.predict_samples(model, X).probs for _ in range(2))
    assert first.shape == (9, 20, 3)
    assert np.abs(first - second).max() > 1e-3


def test_a_generator_and_a_random_state_are_seeds():
    model, X = build("mlp")
    for make in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(
            samples(model, X, seed=make(3)), samples(model, X, seed=make(3))
        )
        rng = make(3)
        assert np.abs(samples(model, X, seed=rng) - samples(model, X, seed=rng)).max() > 1e-3


class Chain(nn.Module):
    """Registered in one order, run in the other; on ones, values tell which layers dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.b, self.a = nn.Dropout(0.9), nn.Dropout(0.75), nn.Dropout(0.5)
        self.idle = nn.Dropout(0.5)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


@pytest.mark.parametrize(
    ("which", "scale"),
    [("all", 80), ("last", 10), (["a"], 2), (["b"], 4), (("a", "b"), 8), ({"c", "a"}, 20)],
)
def test_only_the_chosen_layers_drop(which, scale):
    drawn = returned_by(Chain(), torch.ones(3, 200).double(), 30, dropout=which)
    assert {round(v, 4) for v in np.unique(drawn)} == {0, scale}
    assert (drawn == drawn[:, :1]).all()
    assert abs((drawn > 0).mean() - 1 / scale) < 5 / np.sqrt(scale * 30 * 200)


def test_the_mode_of_a_layer_does_not_decide_whether_it_drops():
    X = torch.ones(3, 200).double()
    expected = returned_by(Chain().eval(), X, dropout=["b"])
    for training in (True, False):
        model = Chain().train(training)
        model.b.train(not training)
        np.testing.assert_array_equal(returned_by(model, X, dropout=["b"]), expected)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return torch.cat([self.drop(x), self.drop(x)], dim=1)


def test_a_layer_that_is_called_twice_drops_other_units_each_time():
    X = torch.ones(3, 50).double()
    first, second = np.split(returned_by(Twice(), X), 2, axis=-1)
    assert (first != second).any(axis=-1).all()
    assert {*np.unique(first), *np.unique(second)} == {0, 2}
    first, second = np.split(returned_by(Twice(), X, dropout="last"), 2, axis=-1)
    assert (first == 1).all()
    assert {*np.unique(second)} == {0, 2}


def test_layers_with_p_zero_are_no_last_layer():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.0))
    drawn = returned_by(model, torch.ones(3, 50).double(), dropout="last")
    assert {*np.unique(drawn)} == {0, 2}


class Counted(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


def trunk_calls(n_samples: int, n: int, **options: Any) -> int:
    trunk = Counted(nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Tanh()))
    model = nn.Sequential(trunk, nn.Dropout(0.5), nn.Linear(6, 3))
    samples(model, rows(n), n_samples, **options)
    return trunk.calls


@pytest.mark.parametrize("which", ["last", ["1"]])
def test_the_trunk_runs_once_per_batch_however_many_draws(which):
    calls = trunk_calls(2, 4, batch_size=4, dropout=which)
    assert trunk_calls(50, 4, batch_size=4, dropout=which) == calls
    assert trunk_calls(50, 40, batch_size=4, dropout=which) == calls + 9


def test_layers_before_a_dropout_in_the_trunk_run_once():
    calls = trunk_calls(2, 4, batch_size=4)
    assert trunk_calls(50, 40, batch_size=4) == calls + 9  # its first layer hands on all draws


def test_a_trunk_with_a_skip_connection_runs_once_per_draw():
    model = Skip()
    model.first = Counted(model.first)
    samples(model, rows(8), 5, batch_size=4)
    few = model.first.calls
    samples(model, rows(8), 25, batch_size=4)
    assert model.first.calls - 2 * few == 5 * 20  # two batches, and three trials


def test_bert_drops_units_of_its_pooled_output(bert):
    X = sentences(5, [7, 3, 5, 7, 2])
    with torch.no_grad():
        h = bert.bert(**X).pooler_output.numpy()
        W, b = bert.classifier.weight.numpy(), bert.classifier.bias.numpy()
    for which in ("last", ["dropout"]):
        probs = samples(bert, X, dropout=which)
        assert_every_draw_has_a_mask(probs, 0.4, 8, lambda mask: h * mask @ W.T + b)


@pytest.mark.parametrize("lengths", [7, [2, 3, 4, 5, 6, 7, 7, 2], [7, 7, 7, 7, 7, 7, 2, 3]])
def test_bert_does_not_depend_on_the_batch_size(bert, lengths):
    X = sentences(8, lengths)
    whole = samples(bert, X)
    assert np.abs(whole[:, 0] - whole[:, 1]).max() > 1e-3
    before = state_of(bert)
    for batch_size in (1, 3):
        np.testing.assert_allclose(samples(bert, X, batch_size=batch_size), whole, atol=1e-5)
    items = [{name: value[i] for name, value in X.items()} | {"labels": i % 3} for i in range(8)]
    np.testing.assert_allclose(samples(bert, DataLoader(items, 3)), whole, atol=1e-5)
    labelled = X | {"labels": torch.arange(8) % 3}  # which make it compute a loss too
    np.testing.assert_allclose(samples(bert, labelled), whole, atol=1e-5)
    assert_unchanged(bert, before)


def test_a_layer_that_does_not_run_is_named():
    with pytest.raises(sw.InvalidInput, match=r"\['idle'\] do not run"):
        samples(Chain(), torch.ones(3, 5), dropout=["a", "idle"])
