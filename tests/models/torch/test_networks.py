"""Calling torch modules: nothing is left changed, and outputs become probabilities."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

import scorewise as sw
from torch_support import (
    ARCHITECTURES,
    AWKWARD,
    ROWS,
    RemembersRows,
    architectures,
    assert_unchanged,
    build,
    mlp,
    parameters,
    rows,
    samples,
    state_of,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(autouse=True)
def _same_networks() -> None:
    torch.manual_seed(0)


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
def test_the_module_and_the_random_states_are_restored(name, seed, which):
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
def test_everything_is_restored_after_an_error(at, error):
    model = nn.Sequential(nn.BatchNorm1d(4), mlp(), Fails(at, error("cut off")))
    unsettle(model, at)
    before = state_of(model)
    wrapped = error is RuntimeError  # torch's word for wrong input
    expected = sw.InvalidInput if wrapped else error
    message = r"Sequential fails on X \(.*\): cut off" if wrapped else "cut off"
    with pytest.raises(expected, match=message):
        samples(model, rows(20), batch_size=2)
    assert_unchanged(model, before)


def test_everything_is_restored_after_a_loader_or_a_destination_fails(tmp_path):
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
def test_logits_may_be_in_tuples_mappings_and_objects(make):
    X = rows(5)
    np.testing.assert_array_equal(samples(Returns(make), X), samples(Returns(lambda z: z), X))


@pytest.mark.parametrize("make", [lambda z: z[:, :1], lambda z: z[:, 0]], ids=["(n, 1)", "(n,)"])
def test_one_logit_is_that_of_class_one(make):
    X = rows(5)
    two = samples(Returns(lambda z: torch.stack([0 * z[:, 0], z[:, 0]], 1)), X)
    np.testing.assert_allclose(samples(Returns(make), X), two, atol=1e-6)
    sigmoid = Returns(lambda z: make(z).sigmoid())
    np.testing.assert_allclose(samples(sigmoid, X, output="probs"), two, atol=1e-6)


def test_probabilities_are_passed_on():
    X = rows(5)
    probs = samples(Returns(lambda z: z.softmax(-1)), X, output="probs")
    np.testing.assert_allclose(probs, samples(Returns(lambda z: z), X), atol=1e-6)


def test_a_masked_class_has_probability_zero():
    def masked(z):
        return torch.cat([z[:, :1], torch.full_like(z[:, :1], -torch.inf), z[:, 1:]], 1)

    probs, X = samples(Returns(masked), rows(5)), rows(5)
    assert (probs[..., 1] == 0).all()
    np.testing.assert_allclose(
        probs[..., [0, 2, 3]], samples(Returns(lambda z: z), X), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_samples_have_the_precision_of_the_module(dtype):
    model, X = build("mlp")
    expected = samples(model, X)
    probs = samples(model.to(dtype), X.numpy().astype(np.float64))
    assert probs.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    tolerance = {torch.float64: 1e-6, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    np.testing.assert_allclose(probs, expected, atol=tolerance)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 4e-2), (torch.float16, 5e-3)])
def test_probabilities_in_half_precision_are_passed_on_in_single(dtype, bound):
    X = rows(50)
    model = Returns(lambda z: (4 * z).softmax(-1))
    exact = samples(model, X, output="probs")
    half = sw.predict_samples(model.to(dtype), X, 6, 0, output="probs")
    assert half.probs.dtype == np.float32
    assert 0 < np.abs(half.probs - exact).max() < bound  # rounded by the module, not renormalised
    epistemic, expected = (sw.decompose(p, "log").epistemic for p in (half, exact))
    np.testing.assert_allclose(epistemic, expected, atol=bound)
    assert expected.max() > 5 * bound


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Linear(4, 3), "Linear has no members: it has no dropout layer.*list of modules"),
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
def test_modules_that_cannot_be_sampled_are_refused(model, words):
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
        ({"output": "log-probs"}, "output must be one of 'logits', 'probs', .*, not 'log-probs'"),
        ({"output": "probs"}, "draw 0, row 0.* not probabilities; pass output='logits'"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
        ({"device": "cuda:77"}, "device='cuda:77' cannot be used"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1"),
        ({"n_samples": 0}, "n_samples must be a whole number from 1"),
        ({"seed": -1}, "random_state must be a whole number from 0"),
    ],
)
def test_invalid_options_are_refused(options, words):
    model = mlp()
    before = state_of(model)
    with pytest.raises(sw.InvalidInput, match=words):
        samples(model, rows(5), **options)
    assert_unchanged(model, before)


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
        passed = self.drop(torch.ones(len(x), 1))
        return self.last(x) * 0 + torch.where(passed > 0, torch.nan, 1.0)


def test_the_first_draw_with_a_bad_logit_is_named():
    named = set()
    for seed in range(12):
        with pytest.raises(sw.InvalidInput, match=r"BadDraw, draw \d+, row 0") as error:
            samples(BadDraw(), rows(4), 20, seed)
        named.add(str(error.value).split(",")[1])
    assert len(named) > 1


class OwnTrain(nn.Module):
    """Merges weights when it changes to evaluation mode, as adapters of large models do."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.bn = nn.Linear(6, 3), nn.Dropout(0.5), nn.BatchNorm1d(3)
        self.merged = False

    def train(self, mode: bool = True):
        super().train(mode)
        if not mode and not self.merged:
            self.a.weight.data += 1
            self.merged = True
        return self

    def forward(self, x):
        return self.bn(self.a(self.drop(x)))


def test_what_a_module_does_when_it_changes_its_mode_is_not_done():
    model = OwnTrain()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    samples(model)
    samples([model, model], n_samples=2)
    assert model.training
    assert not model.merged
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


class Caches(nn.Module):
    """Keeps what it made in its first pass, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)
        self.table: Any = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(8.0).cos()
        return self.b(self.drop(self.a(x) * self.table))


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("several", [False, True])
def test_a_module_that_keeps_tensors_can_be_trained_afterwards(batch_size, several):
    model = Caches()
    samples([model, model] if several else model, n_samples=2, batch_size=batch_size)
    model(ROWS).sum().backward()
    assert model.a.weight.grad is not None


def test_a_device_without_values_is_refused_and_the_weights_stay():
    model = RemembersRows()
    with pytest.raises(sw.InvalidInput, match="device='meta' cannot be used"):
        samples(model, device="meta")
    assert model.a.weight.device.type == "cpu"


def test_a_module_that_is_not_initialised_is_refused():
    lazy = nn.Sequential(nn.LazyLinear(5), nn.Dropout(0.5), nn.Linear(5, 3))
    with pytest.raises(sw.InvalidInput, match="not initialised"):
        samples(lazy)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripted_members_are_sampled():
    members = [nn.Linear(6, 3) for _ in range(2)]
    scripted = [torch.jit.trace(member, ROWS) for member in members]
    scripted.append(torch.jit.script(members[0]))
    expected = samples([*members, members[0]], n_samples=3)
    np.testing.assert_allclose(samples(scripted, n_samples=3), expected, atol=1e-6)


def test_threads_that_share_a_module_wait_for_each_other():
    model = AWKWARD["always on"]()
    expected, results = samples(model), []
    work = [threading.Thread(target=lambda: results.append(samples(model))) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(results) == 4
    for probs in results:
        np.testing.assert_array_equal(probs, expected)
    assert model.training


class Sigmoid(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid())


def test_one_value_between_0_and_1_needs_output():
    model = Sigmoid()
    for batch_size in (None, 1):
        with pytest.raises(sw.InvalidInput, match="could be probabilities"):
            samples(model, batch_size=batch_size)
    probs, logits = (samples(model, output=word) for word in ("probs", "logits"))
    np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(
        np.log(logits[..., 1] / logits[..., 0]), probs[..., 1], atol=1e-5
    )  # output='logits' was passed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision_are_no_logits(dtype):
    members = [nn.Sequential(nn.Linear(6, 10), nn.Softmax(-1)).to(dtype) for _ in range(3)]
    with pytest.raises(sw.InvalidInput, match="could be probabilities"):
        sw.predict_samples(members, ROWS)


def test_one_draw_that_is_no_probability_shows_that_all_are_logits():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    assert samples(model, ROWS[:1], n_samples=200).shape == (1, 200, 2)
