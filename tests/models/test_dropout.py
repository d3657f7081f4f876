"""MC dropout: a draw is one thinned network for all rows, and the module is left as it was."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
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
from support import softmax

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def rows(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *(shape or (4,)), generator=torch.Generator().manual_seed(seed))


def samples(model: nn.Module, X: Any, n_samples: int = 6, seed: int = 0, **options: Any):
    return np.asarray(sw.predict_samples(model, X, n_samples, seed, **options).probs)


def mlp(p: float = 0.5, width: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(p), nn.Linear(width, 3))


def returned_by(model: nn.Module, X: Any, n_samples: int = 6, **options: Any) -> np.ndarray:
    """What the module itself returned for all draws (M, N, ...), seen by a hook of the user's."""
    seen: list[torch.Tensor] = []
    hook = model.register_forward_hook(lambda _, given, result: seen.append(result.clone()))
    sw.predict_samples(model, X, n_samples, 0, batch_size=len(X), **options)
    hook.remove()
    if len(seen[-1]) == len(X) * n_samples:
        return seen[-1].numpy().reshape(n_samples, len(X), -1)
    return np.stack([one.numpy() for one in seen[-n_samples:]])


def assert_every_draw_has_a_mask(probs: np.ndarray, p: float, width: int, head: Any) -> None:
    """Every draw is ``head`` of the same 0/1 mask over ``width`` units, for all rows."""
    masks = np.array(list(itertools.product([0.0, 1.0], repeat=width))) / (1 - p)
    expected = np.stack([softmax(head(mask)) for mask in masks])  # (2^width, N, K)
    tolerance = 1e-10 if probs.dtype == np.float64 else 1e-5
    for m in range(probs.shape[1]):
        errors = np.abs(expected - probs[:, m]).max(axis=(1, 2))
        assert errors.min() < tolerance, f"draw {m} is no thinned network: {errors.min()}"


# -- architectures --------------------------------------------------------------------------------


class Skip(nn.Module):
    """Goes around its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.4), nn.Linear(6, 3)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(h + self.drop(h))


class Transformer(nn.Module):
    """Rows of (4, 8), on axis 0 or on axis 1 of what its layers see."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.layer(x if self.batch_first else x.transpose(0, 1))
        return self.head(h.mean(1 if self.batch_first else 0))


class Folded(nn.Module):
    """Treats the 5 parts of a row as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.4), nn.Linear(6, 3)

    def forward(self, x):
        h = self.drop(torch.tanh(self.part(x.flatten(0, 1))))
        return self.last(h.unflatten(0, (-1, 5)).mean(1))


class FoldedElsewhere(Folded):
    """Has the parts of all rows on the last axis."""

    def forward(self, x):
        h = torch.tanh(self.part(x.flatten(0, 1)))
        h = self.drop(h.mT.contiguous()).mT
        return self.last(h.unflatten(0, (-1, 5)).mean(1))


class Positions(nn.Module):
    """Drops some of an embedding that is the same for all rows, and some of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Parameter(torch.randn(5, 4))
        self.drop_where, self.drop = nn.Dropout(0.5), nn.Dropout(0.3)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(x + self.drop_where(self.where))).mean(1))


class Shared(nn.Module):
    """One dropout layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        h = self.drop(torch.tanh(self.first(x)))
        return self.last(self.drop(torch.tanh(self.second(h))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.rnn, self.last = nn.Dropout(0.3), nn.GRU(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.rnn(self.drop(x.transpose(0, 1)))[0][-1])


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout2d(0.4),
        nn.Conv2d(4, 3, 3),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.LazyLinear(3),
    )


ARCHITECTURES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (4,)),
    "batch norm": (lambda: nn.Sequential(nn.BatchNorm1d(4), mlp()), (4,)),
    "convolution": (convolution, (2, 5, 5)),
    "skip": (Skip, (4,)),
    "transformer": (lambda: Transformer(True), (4, 8)),
    "transformer, rows on axis 1": (lambda: Transformer(False), (4, 8)),
    "folded": (Folded, (5, 4)),
    "folded elsewhere": (FoldedElsewhere, (5, 4)),
    "positions": (Positions, (5, 4)),
    "shared": (Shared, (4,)),
    "recurrent": (Recurrent, (7, 4)),
    "self-normalizing": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(6, 3)),
        (4,),
    ),
}


def build(name: str, n: int = 9, seed: int = 0) -> tuple[nn.Module, torch.Tensor]:
    """A network with lively batch statistics, and rows for it."""
    make, shape = ARCHITECTURES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make()
        model(rows(4, *shape))  # materializes what is lazy
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return model, rows(n, *shape, seed=seed + 1)


architectures = st.sampled_from(sorted(ARCHITECTURES))
each_architecture = pytest.mark.parametrize("name", sorted(ARCHITECTURES))


# -- what a draw is -------------------------------------------------------------------------------


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
        kept = self.drop(x.new_ones(len(x), 500))
        return kept.mean(1) * (1 - self.drop.p) + self.none - 1


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_the_share_that_is_dropped_is_p(p):
    probs = samples(Ones(p), rows(2), 60)[..., 1]
    kept = 1 + np.log(probs / (1 - probs))
    np.testing.assert_allclose(kept[0], kept[1], rtol=1e-9)
    assert abs(1 - kept[0].mean() - p) < 5 * np.sqrt(p * (1 - p) / (60 * 500))
    # and no draw is like another: each is binomial on its own
    assert 0.5 < kept[0].std() / np.sqrt(p * (1 - p) / 500) < 1.6


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
        kept_value = np.where(np.median(own, 0) == high, high, low)  # kept more often than not
        dropped = (~np.isclose(drawn, kept_value)).reshape(40, 3, *shape)
    assert (dropped == dropped[:, :1]).all()
    if layer not in {"Dropout", "AlphaDropout", "certain Dropout"}:
        channels = dropped.reshape(40, 3, 4, -1)
        assert (channels == channels[..., :1]).all()
    if drop.p < 1:
        assert 0.15 < dropped.mean() < 0.45


# -- the same seed --------------------------------------------------------------------------------


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
    one, other = samples(model, X, 4, 1), samples(model, X, 4, 2)
    assert np.abs(one - other).max(axis=(0, 2)).min() > 1e-4
    for a, b in itertools.combinations(range(4), 2):
        assert np.abs(one[:, a] - one[:, b]).max() > 1e-4, (a, b)


@each_architecture
def test_more_draws_begin_with_the_fewer(name):
    model, X = build(name)
    many = samples(model, X, 7)
    for fewer in (1, 2, 5):
        np.testing.assert_allclose(samples(model, X, fewer), many[:, :fewer], atol=1e-6)


@each_architecture
def test_a_row_is_answered_alike_in_any_company(name):
    model, X = build(name)
    whole = samples(model, X)
    order = torch.tensor([8, 3, 3, 0])
    np.testing.assert_allclose(samples(model, X[order]), whole[order], atol=1e-6)


def test_without_a_seed_no_two_predictions_are_alike():
    model, X = build("mlp")
    one, other = (sw.predict_samples(model, X).probs for _ in range(2))
    assert one.shape == (9, 20, 3)
    assert np.abs(one - other).max() > 1e-3


def test_a_generator_and_a_random_state_are_seeds():
    model, X = build("mlp")
    for make in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(
            samples(model, X, seed=make(3)), samples(model, X, seed=make(3))
        )
        rng = make(3)
        assert np.abs(samples(model, X, seed=rng) - samples(model, X, seed=rng)).max() > 1e-3


class Centred(nn.Module):
    """Its rows look at one another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x):
        h = self.drop(torch.tanh(self.first(x)))
        return self.last(h - h.mean(0))


def test_rows_that_look_at_one_another_are_refused():
    with pytest.raises(sw.InvalidInput, match="depends on the other rows of its batch"):
        samples(Centred(), rows(6))
    with pytest.raises(sw.InvalidInput, match="depends on the other rows of its batch"):
        samples([Centred(), Centred()], rows(6), 2)


# -- all is as before -----------------------------------------------------------------------------


def state_of(model: nn.Module) -> dict[str, Any]:
    parts = list(model.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    numpy_state = np.random.get_state()  # noqa: NPY002  (the global one, which must not move)
    return {
        "modes": {name: part.training for name, part in parts},
        "values": {name: value.clone() for name, value in model.state_dict().items()},
        "grads": {n: p.grad if p.grad is None else p.grad.clone() for n, p in parameters(model)},
        "needs grad": {name: p.requires_grad for name, p in parameters(model)},
        "hooks": {(name, kind): len(getattr(part, kind)) for name, part in parts for kind in hooks},
        "torch": torch.get_rng_state(),
        "numpy": (numpy_state[1].copy(), numpy_state[2:]),
        "grad mode": torch.is_grad_enabled(),
    }


def parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def assert_unchanged(model: nn.Module, before: dict[str, Any]) -> None:
    after = state_of(model)
    for kind in ("modes", "needs grad", "hooks", "grad mode"):
        assert after[kind] == before[kind], kind
    for kind in ("values", "grads"):
        for name, value in before[kind].items():
            now = after[kind][name]
            same = now is None if value is None else torch.equal(now, value)
            assert same, f"{kind} of {name}"
    assert torch.equal(after["torch"], before["torch"]), "torch's random state"
    np.testing.assert_array_equal(after["numpy"][0], before["numpy"][0])
    assert after["numpy"][1] == before["numpy"][1]


def unsettle(model: nn.Module, seed: int) -> None:
    """Modes at random, gradients for some parameters, some of them frozen."""
    rng = np.random.default_rng(seed)
    for part in model.modules():
        part.training = bool(rng.integers(2))
    for _, parameter in parameters(model):
        parameter.grad = torch.ones_like(parameter) if rng.integers(2) else None
        parameter.requires_grad_(bool(rng.integers(2)))
    next(model.modules()).register_forward_hook(lambda *_: None)


@settings(max_examples=30)
@given(architectures, st.integers(0, 2**32), st.sampled_from(["all", "last"]))
def test_the_module_and_the_random_states_are_as_before(name, seed, which):
    model, X = build(name)
    unsettle(model, seed)
    before = state_of(model)
    samples(model, X, seed=seed, dropout=which, batch_size=4)
    assert_unchanged(model, before)


class Fails(nn.Module):
    """Passes on what it gets, until some call."""

    def __init__(self, at: int, error: BaseException) -> None:
        super().__init__()
        self.at, self.error, self.calls = at, error, 0

    def forward(self, x):
        self.calls += 1
        if self.calls >= self.at:
            raise self.error
        return x


class Broken(Exception):
    pass


# a trial takes 5 calls, then come the batches: 10 is in the middle of them
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 7, 10])
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, MemoryError, RuntimeError])
def test_all_is_as_before_also_after_an_error(at, error):
    model = nn.Sequential(nn.BatchNorm1d(4), mlp(), Fails(at, error("cut off")))
    unsettle(model, at)
    before = state_of(model)
    wrapped = error is RuntimeError  # torch's word for wrong input
    expected = sw.InvalidInput if wrapped else error
    message = r"Sequential refuses X \(.*\): cut off" if wrapped else "cut off"
    with pytest.raises(expected, match=message):
        samples(model, rows(20), batch_size=2)
    assert_unchanged(model, before)


def test_all_is_as_before_after_a_loader_or_a_destination_fails(tmp_path):
    model, X = build("batch norm")
    unsettle(model, 0)
    before = state_of(model)

    def broken():
        yield X
        yield X
        raise Broken

    with pytest.raises(Broken):
        samples(model, broken())
    with pytest.raises(sw.InvalidInput, match=r"must be \(9, M, K\)"):
        samples(model, X, out=np.empty((4, 6, 3), np.float32), batch_size=3)
    into = sw.Accumulator("log")
    with pytest.raises(Broken):
        sw.predict_samples(model, broken(), 6, into=into)
    assert into.n_members == 0
    path = tmp_path / "samples.npy"
    with pytest.raises(KeyboardInterrupt):
        samples(nn.Sequential(model, Fails(9, KeyboardInterrupt())), X, out=path, batch_size=2)
    assert list(tmp_path.iterdir()) == []
    assert_unchanged(model, before)


def test_a_module_can_be_trained_afterwards():
    for name in ARCHITECTURES:
        model, X = build(name)
        samples(model, X)
        model.train()(X).sum().backward()
        assert all(p.grad is not None for p in model.parameters()), name


# -- which layers ---------------------------------------------------------------------------------


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


def test_the_mode_of_a_layer_does_not_matter_for_which_drop():
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


# -- once -----------------------------------------------------------------------------------------


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


def test_with_dropout_in_the_trunk_what_stands_before_it_runs_once():
    calls = trunk_calls(2, 4, batch_size=4)
    assert trunk_calls(50, 40, batch_size=4) == calls + 9  # its first layer hands on all draws


def test_a_trunk_that_the_head_looks_back_at_runs_once_per_draw():
    model = Skip()
    model.first = Counted(model.first)
    samples(model, rows(8), 5, batch_size=4)
    few = model.first.calls
    samples(model, rows(8), 25, batch_size=4)
    assert model.first.calls - 2 * few == 5 * 20  # two batches, and three trials


# -- what goes in and comes out -------------------------------------------------------------------


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


class Returns(nn.Module):
    """A network and what is made of its logits."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.inner = mlp()
        self.make = make

    def forward(self, x):
        return self.make(self.inner(x))


class Output:
    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


@pytest.mark.parametrize(
    "make",
    [
        lambda z: (z, None),
        lambda z: [z],
        lambda z: {"loss": None, "logits": z},
        lambda z: OrderedDict(logits=z),
        Output,
    ],
    ids=["tuple", "list", "mapping", "ordered mapping", "object"],
)
def test_logits_are_found_in_what_a_module_returns(make):
    X = rows(5)
    np.testing.assert_array_equal(samples(Returns(make), X), samples(Returns(lambda z: z), X))


@pytest.mark.parametrize("make", [lambda z: z[:, :1], lambda z: z[:, 0]], ids=["(n, 1)", "(n,)"])
def test_one_logit_is_that_of_class_one(make):
    X = rows(5)
    two = samples(Returns(lambda z: torch.stack([0 * z[:, 0], z[:, 0]], 1)), X)
    np.testing.assert_allclose(samples(Returns(make), X), two, atol=1e-6)
    one = Returns(lambda z: make(z).sigmoid())
    np.testing.assert_allclose(samples(one, X, output="probs"), two, atol=1e-6)


def test_probabilities_are_passed_on():
    X = rows(5)
    given = samples(Returns(lambda z: z.softmax(-1)), X, output="probs")
    np.testing.assert_allclose(given, samples(Returns(lambda z: z), X), atol=1e-6)


def test_a_masked_class_has_probability_zero():
    def masked(z):
        return torch.cat([z[:, :1], torch.full_like(z[:, :1], -torch.inf), z[:, 1:]], 1)

    probs, X = samples(Returns(masked), rows(5)), rows(5)
    assert (probs[..., 1] == 0).all()
    np.testing.assert_allclose(
        probs[..., [0, 2, 3]], samples(Returns(lambda z: z), X), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_modules_answer_in_their_own_precision(dtype):
    model, X = build("mlp")
    expected = samples(model, X)
    probs = samples(model.to(dtype), X.numpy().astype(np.float64))
    assert probs.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    tolerance = {torch.float64: 1e-6, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    np.testing.assert_allclose(probs, expected, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision_are_probabilities(dtype):
    X = rows(50)
    model = Returns(lambda z: (4 * z).softmax(-1)).to(dtype)
    probs = sw.predict_samples(model, X, 6, 0, output="probs")
    assert np.isfinite(sw.decompose(probs, "log").epistemic).all()


def test_decompose_takes_the_samples_as_they_are():
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


# -- Hugging Face ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=12,
        num_labels=3,
        classifier_dropout=0.4,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.5)
    return model


def sentences(n: int, lengths: Any = 7) -> dict[str, torch.Tensor]:
    ids = torch.randint(1, 50, (n, 7), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(7) < torch.as_tensor(lengths).reshape(-1, 1)).long().expand(n, 7)
    return {"input_ids": ids * mask, "attention_mask": mask.contiguous()}


def test_bert_drops_units_of_its_pooled_output(bert):
    X = sentences(5, [7, 3, 5, 7, 2])
    with torch.no_grad():
        h = bert.bert(**X).pooler_output.numpy()
        W, b = bert.classifier.weight.numpy(), bert.classifier.bias.numpy()
    for which in ("last", ["dropout"]):
        probs = samples(bert, X, dropout=which)
        assert_every_draw_has_a_mask(probs, 0.4, 8, lambda mask: h * mask @ W.T + b)


@pytest.mark.parametrize("lengths", [7, [2, 3, 4, 5, 6, 7, 7, 2], [7, 7, 7, 7, 7, 7, 2, 3]])
def test_bert_answers_alike_whatever_the_batch_size(bert, lengths):
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


def test_a_batch_encoding_is_a_mapping(bert):
    from transformers import BatchEncoding

    X = sentences(4)
    np.testing.assert_array_equal(samples(bert, BatchEncoding(X)), samples(bert, X))


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Linear(4, 3), "Linear has no dropout layer.*list of modules"),
        (mlp(0.0), "no dropout layer with p > 0 runs"),
        (Returns(lambda z: z.argmax(-1)), "returns torch.int64"),
        (Returns(lambda z: None), "returns NoneType"),
        (Returns(lambda z: z[None]), r"returns shape \(1, .*must be \(rows, classes\)"),
        (Returns(lambda z: z.sum(0)), "must be"),
        (Returns(lambda z: z[:, :0]), r"returns shape \(.*, 0\)"),
        (Returns(lambda z: z.softmax(-1)), "could be probabilities.*output='probs'"),
        (Returns(lambda z: z + torch.nan), "Returns, draw 0, row 0.* logit.* nan"),
        (Returns(lambda z: z + torch.inf), "draw 0, row 0.* logit.* inf"),
        (Returns(lambda z: z - torch.inf), "draw 0, row 0.* logit.* -inf"),
    ],
)
def test_modules_that_cannot_be_drawn_from_are_named(model, words):
    with pytest.raises(sw.InvalidInput, match=words):
        samples(model, rows(5))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dropout": ["3"]}, r"list of these layers: \['2'\]"),
        ({"dropout": ["2", "top"]}, r"list of these layers: \['2'\]"),
        ({"dropout": []}, r"list of these layers: \['2'\]"),
        ({"dropout": "first"}, "'all', 'last' or a list"),
        ({"dropout": None}, "'all', 'last' or a list"),
        ({"dropout": 2}, "'all', 'last' or a list"),
        ({"output": "log-probs"}, "output='log-probs' must be 'logits' or 'probs'"),
        ({"output": "probs"}, "draw 0, row 0.* no probabilities; pass output='logits'"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
        ({"device": "cuda:77"}, "device='cuda:77' cannot be used"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1"),
        ({"n_samples": 0}, "n_samples must be a whole number from 1"),
        ({"seed": -1}, "random_state must be a whole number from 0"),
    ],
)
def test_options_that_mean_nothing_are_named(options, words):
    model = mlp()
    before = state_of(model)
    with pytest.raises(sw.InvalidInput, match=words):
        samples(model, rows(5), **options)
    assert_unchanged(model, before)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (rows(5, 7), r"Sequential refuses X \(\(2, 7\) of float32\): .*x7 and 4x6"),
        (np.array([["a", "b", "c", "d"]]), "X has dtype <U1"),
        (np.ones((5, 4), complex), "complex128"),
        ("file.csv", "X is str"),
        (None, "X is NoneType"),
        (3, "X is int"),
        ({"nonsense": "text"}, "a torch module takes"),
    ],
)
def test_rows_that_a_module_cannot_take_are_named(X, words):
    with pytest.raises(sw.InvalidInput, match=words):
        samples(mlp(), X)


def test_a_layer_that_does_not_run_is_named():
    with pytest.raises(sw.InvalidInput, match=r"\['idle'\] do not run"):
        samples(Chain(), torch.ones(3, 5), dropout=["a", "idle"])


@settings(max_examples=20)
@given(st.integers(0, 9), st.integers(1, 10), st.sampled_from([float("nan"), float("inf")]))
def test_the_row_of_a_bad_logit_is_named(row, batch_size, value):
    X = rows(10)
    X[row, 0] = value
    X[row, 1:] = 0
    model = nn.Sequential(nn.Dropout(1e-9), nn.Linear(4, 3))
    with pytest.raises(sw.InvalidInput, match=f"draw 0, row {row}.* logit"):
        samples(model, X, batch_size=batch_size)


class BadDraw(nn.Module):
    """Not finite where a dropout layer keeps its only unit."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x):
        kept = self.drop(torch.ones(len(x), 1))
        return self.last(x) * 0 + torch.where(kept > 0, torch.nan, 1.0)


def test_the_first_draw_with_a_bad_logit_is_named():
    named = set()
    for seed in range(12):
        with pytest.raises(sw.InvalidInput, match=r"BadDraw, draw \d+, row 0") as error:
            samples(BadDraw(), rows(4), 20, seed)
        named.add(str(error.value).split(",")[1])
    assert len(named) > 1
