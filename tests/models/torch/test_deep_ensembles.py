"""Deep ensembles: members one by one or stacked, trained here or elsewhere."""

from __future__ import annotations

import os
import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.datasets import load_digits, load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw
from scorewise.models.torch import _deep_ensembles as ensembles
from support import softmax

CUDA = torch.device("cuda")


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def rows(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *(shape or (4,)), generator=torch.Generator().manual_seed(seed))


def several(make: Any, n: int = 4) -> list[nn.Module]:
    """Members that differ, in batch statistics too."""
    members = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for _ in range(n):
            member = make()
            for part in member.modules():
                if getattr(part, "running_mean", None) is not None:
                    part.running_mean.normal_()
                    part.running_var.uniform_(0.5, 2)
            members.append(member)
    return members


def mlp(activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 3))


def with_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def convolution() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)
    )


class OneLogit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return {"logits": self.last(x)[:, 0]}


class Branches(nn.Module):
    """Decides by what it sees, which vmap cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        z = self.last(x)
        return z if float(z.detach().abs().sum()) > 0 else 2 * z


ARCHITECTURES = {
    "mlp": (mlp, (4,)),
    "batch norm": (with_norm, (4,)),
    "convolution": (convolution, (1, 8, 8)),
    "one logit": (OneLogit, (4,)),
}


def by_hand(members: list[nn.Module], X: torch.Tensor) -> np.ndarray:
    """The members' probabilities, one by one."""
    answers = []
    for member in members:
        modes = {part: part.training for part in member.modules()}
        member.eval()
        with torch.no_grad():
            z = member(X)
        z = torch.stack([0 * z["logits"], z["logits"]], 1) if isinstance(z, dict) else z
        answers.append(softmax(z.double().numpy()))
        for part, training in modes.items():
            part.training = training
    return np.stack(answers, axis=1)


def samples(model: Any, X: Any, *arguments: Any, **options: Any) -> np.ndarray:
    return np.asarray(sw.predict_samples(model, X, *arguments, **options).probs)


@pytest.fixture
def as_on_cuda(monkeypatch) -> None:
    """Members are stacked on the CPU where they would be on a GPU."""
    monkeypatch.setattr(ensembles, "_MANY", 2)
    worth = ensembles.is_worth_stacking
    monkeypatch.setattr(ensembles, "is_worth_stacking", lambda modules, _: worth(modules, CUDA))


@pytest.fixture
def stacked(monkeypatch) -> list[int]:
    """Members are always stacked; how often the stack was calls, by number of rows."""
    calls: list[int] = []
    monkeypatch.setattr(ensembles, "is_worth_stacking", lambda *_: True)
    forward = ensembles.StackedModules.forward

    def counted(self, batch):
        calls.append(len(batch))
        return forward(self, batch)

    monkeypatch.setattr(ensembles.StackedModules, "forward", counted)
    return calls


# -- members that exist ---------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(0, 9), st.integers(1, 10))
def test_members_are_what_their_weights_say(m, n, batch_size):
    members = [member.double() for member in several(mlp, m)]
    X = rows(n).double()
    expected = []
    for first, _, last in members:
        W, b, V, c = (p.detach().numpy() for p in (*first.parameters(), *last.parameters()))
        expected.append(softmax(np.tanh(X.numpy() @ W.T + b) @ V.T + c))
    expected = np.stack(expected, axis=1)
    for options in ({}, {"batch_size": batch_size}):
        np.testing.assert_allclose(samples(members, X, **options), expected, rtol=1e-10)
        np.testing.assert_allclose(samples(tuple(members), X, **options), expected, rtol=1e-10)


def test_members_are_not_changed():
    members = several(with_norm)
    members[0].train()
    members[1].eval()
    members[2][1].eval()
    modes = [[part.training for part in member.modules()] for member in members]
    values = [{k: v.clone() for k, v in member.state_dict().items()} for member in members]
    state = torch.get_rng_state()
    expected = samples(members, rows(6))
    np.testing.assert_allclose(samples(members, rows(6), batch_size=2), expected, atol=1e-6)
    for _ in range(2):
        members[3][0].register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            samples(members, rows(6))
    assert [[part.training for part in member.modules()] for member in members] == modes
    for member, before in zip(members, values, strict=True):
        assert all(torch.equal(v, before[k]) for k, v in member.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_member_may_be_there_twice():
    first, second = several(mlp, 2)
    first.train()
    probs = samples([first, second, first], rows(5))
    np.testing.assert_array_equal(probs[:, 0], probs[:, 2])
    assert np.abs(probs[:, 0] - probs[:, 1]).max() > 1e-3
    assert all(part.training for part in first.modules())


def test_members_may_have_different_architectures():
    members = [*several(mlp, 2), *several(with_norm, 1)]
    probs = samples(members, rows(5))
    for m, member in enumerate(members):
        np.testing.assert_allclose(probs[:, m], samples([member], rows(5))[:, 0], atol=1e-6)


def test_fewer_samples_are_a_random_subset_of_the_members():
    members = several(mlp, 6)
    whole = samples(members, rows(5))
    subsets = set()
    for seed in range(8):
        some = samples(members, rows(5), 3, seed)
        chosen = [np.abs(whole - some[:, [m]]).max(axis=(0, 2)).argmin() for m in range(3)]
        np.testing.assert_allclose(some, whole[:, chosen], atol=1e-6)
        assert chosen == sorted(set(chosen))
        subsets.add(tuple(chosen))
    assert len(subsets) > 2
    with pytest.raises(sw.InvalidInput, match="n_samples=7, but the model has 6 members"):
        samples(members, rows(5), 7)


def nan_member(row: int) -> nn.Module:
    class Bad(nn.Module):
        def forward(self, x):
            return torch.where(x[:, :1] == row, torch.nan, 0) + torch.zeros(3)

    return Bad()


@pytest.mark.parametrize("batch_size", [None, 2])
def test_the_member_and_row_of_a_bad_logit_are_named(batch_size):
    X = torch.arange(7.0)[:, None].expand(7, 4)
    members = [*several(mlp, 2), nan_member(5)]
    with pytest.raises(sw.InvalidInput, match=r"member 2 \(Bad\), row 5.* logit.* nan"):
        samples(members, X, batch_size=batch_size)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (nn.Linear(4, 5), r"member 2 \(Linear\) returns 5 classes, member 0 \(Sequential\) 3"),
        (nn.Linear(7, 3), r"member 2 \(Linear\) fails on X"),
        (nn.Flatten(0), r"member 2 \(Flatten\)"),
        (nn.Sequential(mlp(), nn.Softmax(-1)), "member 2 .*could be probabilities"),
    ],
)
def test_a_member_that_does_not_fit_is_named(odd, words):
    with pytest.raises(sw.InvalidInput, match=words):
        samples([*several(mlp, 2), odd], rows(5))


def test_probabilities_are_taken_as_such_only_where_said():
    members = several(lambda: nn.Sequential(mlp(), nn.Softmax(-1)), 2)
    expected = samples([member[0] for member in members], rows(5))
    np.testing.assert_allclose(samples(members, rows(5), output="probs"), expected, atol=1e-6)
    with pytest.raises(sw.InvalidInput, match=r"member 0 .*, row 0.* not probabilities"):
        samples(several(mlp), rows(5), output="probs")


# -- stacked --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_stacked_modules_return_what_their_members_return(name):
    make, shape = ARCHITECTURES[name]
    members, X = [member.eval() for member in several(make)], rows(5, *shape)
    with torch.inference_mode():
        together = ensembles.StackedModules(members)(X)
        apart = [member(X) for member in members]
    if name == "one logit":
        apart = [output["logits"][:, None] for output in apart]
    np.testing.assert_allclose(together, torch.cat(apart), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
@pytest.mark.parametrize("double", [False, True], ids=["float32 rows", "float64 array"])
def test_stacked_predictions_are_those_of_the_members(name, double, stacked):
    make, shape = ARCHITECTURES[name]
    members, X = several(make), rows(7, *shape)
    expected = by_hand(members, X)
    X = X.numpy().astype(np.float64) if double else X
    for options in ({}, {"batch_size": 3}):
        np.testing.assert_allclose(samples(members, X, **options), expected, atol=1e-5)
    assert sum(stacked) >= 14, "the stack was not calls"


def test_modules_that_cannot_be_vectorised_are_called_one_by_one(stacked):
    members = several(Branches)
    X = rows(6)
    probs = samples(members, X, batch_size=6)
    np.testing.assert_allclose(probs, by_hand(members, X), atol=1e-6)
    assert not [n for n in stacked if n != 3]


def without_statistics() -> nn.Sequential:
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    return nn.Sequential(nn.Linear(4, 8), norm, nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    "others", [with_norm, mlp, lambda: mlp(nn.ReLU)], ids=["norm", "mlp", "activation"]
)
def test_members_that_cannot_be_stacked_are_called_one_by_one(others, as_on_cuda):
    X = rows(6)
    X[:3] = 0  # on which activations agree
    for make in (with_norm, mlp):
        members = [*several(make, 2), *several(others, 1)]
        for member in members:
            nn.init.zeros_(member[0].bias)
        probs = samples(members, X, batch_size=6)
        np.testing.assert_allclose(probs, by_hand(members, X), atol=1e-5)


def test_members_without_statistics_are_refused(as_on_cuda):
    members = [*several(with_norm, 2), *several(without_statistics, 1)]
    with pytest.raises(sw.InvalidInput, match="batch norm without running statistics"):
        samples(members, rows(6))


def test_stacked_modules_name_the_member_and_row_of_a_bad_logit(stacked):
    members = several(lambda: nn.Linear(4, 3), 3)
    X = rows(6)
    with torch.no_grad():
        members[1].weight[0, 0] = 1e30
    X[4, 0] = 1e30
    with pytest.raises(sw.InvalidInput, match=r"member 1 \(Linear\), row 4.* logit.* inf"):
        samples(members, X, batch_size=5)


def test_stacking_is_for_many_small_modules_without_convolutions_on_a_gpu():
    members = several(mlp, 10)
    assert ensembles.is_worth_stacking(members, CUDA)
    assert not ensembles.is_worth_stacking(several(convolution, 10), CUDA)
    assert not ensembles.is_worth_stacking(members, torch.device("cpu"))
    assert not ensembles.is_worth_stacking(members[:9], CUDA)
    large = several(lambda: nn.Linear(1024, 1025), 10)
    assert not ensembles.is_worth_stacking(large, CUDA)


@pytest.mark.parametrize(
    "odd",
    [
        nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3)),
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)),
        nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)),
        with_norm(),
        nn.Linear(4, 3),
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),  # the same parameters
    ],
    ids=["width", "classes", "layers", "norm", "type", "activation"],
)
def test_different_architectures_are_not_worth_stacking(odd):
    assert not ensembles.is_worth_stacking([*several(mlp, 10), odd], CUDA)
    assert not ensembles.is_worth_stacking([odd, *several(mlp, 10)], CUDA)


# -- trained here ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


def ensemble(make: Any = mlp, n_members: int = 3, **options: Any) -> sw.DeepEnsemble:
    options = {"epochs": 10, "batch_size": 32, "lr": 0.05, "random_state": 0} | options
    return sw.DeepEnsemble(make, n_members, **options)


def assert_same_members(first: sw.DeepEnsemble, other: sw.DeepEnsemble) -> None:
    assert len(first.members_) == len(other.members_)
    for a, b in zip(first.members_, other.members_, strict=True):
        for (name, value), (_, expected) in zip(
            a.state_dict().items(), b.state_dict().items(), strict=True
        ):
            assert torch.equal(value, expected), name


class TakesNames(nn.Module):
    """As mlp, with a dict of two parts as input and an object as output."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, left, right):
        return {"logits": self.inner(torch.cat([left, right], 1))}


def parts_of(X: Any) -> dict[str, Any]:
    return {"left": X[:, :1], "right": X[:, 1:]}


def test_it_learns_iris_from_arrays_tensors_loaders_and_mappings(iris):
    X, y = iris
    T, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    items = [parts_of(T[i : i + 1]) for i in range(150)]
    items = [{k: v[0] for k, v in item.items()} | {"labels": y[i]} for i, item in enumerate(items)]
    loaders = [
        DataLoader(TensorDataset(T, labels), 32, shuffle=True),
        DataLoader([(T[i], y[i]) for i in range(150)], 32, shuffle=True),
        [(T[i::5], labels[i::5]) for i in range(5)],
    ]
    fits = [ensemble().fit(X, y), ensemble().fit(T, labels), *(ensemble().fit(s) for s in loaders)]
    for fitted in fits:
        assert np.mean(fitted.predict(X) == y) > 0.93
        assert fitted.predict_samples(X).probs.shape == (150, 3, 3)
    by_name = [
        ensemble(TakesNames).fit(parts_of(X), y),
        ensemble(TakesNames).fit(DataLoader(items, 32, shuffle=True)),
    ]
    for fitted in by_name:
        assert np.mean(fitted.predict(parts_of(T)) == y) > 0.93
    assert_same_members(fits[0], fits[1])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_it_learns_digits(optimizer):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    fitted = sw.DeepEnsemble(
        lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        2,
        epochs=20,
        optimizer=optimizer,
        lr=0.01 if optimizer == "adam" else None,
        batch_size=64,
        weight_decay=1e-4,
        random_state=0,
    ).fit(X[:1200], y[:1200])
    assert np.mean(fitted.predict(X[1200:]) == y[1200:]) > 0.9
    probs = fitted.predict_samples(X[1200:]).probs
    np.testing.assert_allclose(fitted.predict_proba(X[1200:]), probs.mean(axis=1), atol=1e-6)
    assert sw.decompose(fitted.predict_samples(X[1200:]), "log").epistemic.mean() > 1e-4


def test_labels_may_be_words(iris):
    X, y = iris
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = ensemble().fit(X, words)
    np.testing.assert_array_equal(fitted.classes_, np.unique(words))
    assert np.mean(fitted.predict(X) == words) > 0.93
    assert_same_members(fitted, ensemble().fit(X, y))


def test_one_logit_learns_two_classes(iris):
    X, y = iris
    fitted = ensemble(OneLogit, 2).fit(X, y == 0)
    assert fitted.predict_samples(X).probs.shape == (150, 2, 2)
    assert np.mean(fitted.predict(X) == (y == 0)) > 0.95


def test_the_same_seed_gives_the_same_members_and_they_differ(iris):
    X, y = iris
    torch.manual_seed(3)
    first = ensemble(epochs=2).fit(X, y)
    torch.manual_seed(4)
    assert_same_members(first, ensemble(epochs=2).fit(X, y))
    other = ensemble(epochs=2, random_state=1).fit(X, y)
    weights = [m[0].weight for m in (*first.members_, *other.members_)]
    for i, a in enumerate(weights):
        for b in weights[:i]:
            assert (a - b).abs().max() > 1e-2
    # a member's seed is its own, however many there are
    few = ensemble(epochs=2, n_members=2).fit(X, y)
    first.members_.pop()
    assert_same_members(first, few)


def test_the_random_states_are_restored(iris):
    X, y = iris
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fitted = ensemble(epochs=2).fit(X, y)
    fitted.predict(X)
    loader = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y)), 32, shuffle=True)
    ensemble(epochs=2).fit(loader)
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_finished_members_are_on_the_cpu_in_evaluation_mode(iris):
    X, y = iris
    fitted = ensemble(with_norm, 2, epochs=1).fit(X, y)
    assert not any(part.training for member in fitted.members_ for part in member.modules())
    assert repr(fitted) == "DeepEnsemble(2 members, 2 finished)"
    assert repr(ensemble()) == "DeepEnsemble(3 members, 0 finished)"


class Interrupted:
    """Makes networks until it is interrupted once, in the middle of a member's training."""

    def __init__(self, at: int) -> None:
        self.at, self.made = at, -1  # the first is only calls for its number of logits

    def __call__(self) -> nn.Module:
        made = self.made
        self.made += 1
        model = mlp()
        if made == self.at:
            calls = []

            def interrupt(*_: Any) -> None:
                calls.append(1)
                if len(calls) == 7:
                    raise KeyboardInterrupt

            model.register_forward_hook(interrupt)
        return model


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("seed", [5, None])
def test_an_interruption_keeps_the_finished_and_a_warm_start_completes_them(at, seed, iris):
    X, y = iris
    state = torch.get_rng_state()
    cut = ensemble(Interrupted(at), 4, epochs=2, random_state=seed, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        cut.fit(X, y)
    assert len(getattr(cut, "members_", [])) == at
    assert torch.equal(torch.get_rng_state(), state)
    weights = [m.state_dict() for m in getattr(cut, "members_", [])]
    if at:
        assert cut.predict_samples(X).probs.shape == (150, at, 3)
    cut.fit(X, y)
    assert len(cut.members_) == 4
    for member, before in zip(cut.members_, weights, strict=False):
        assert all(torch.equal(v, before[k]) for k, v in member.state_dict().items())
    if seed is not None:
        undisturbed = ensemble(mlp, 4, epochs=2, random_state=seed).fit(X, y)
        assert_same_members(cut, undisturbed)


def test_without_a_warm_start_all_members_are_new(iris):
    X, y = iris
    first = ensemble(epochs=1, n_members=2, random_state=np.random.default_rng(0)).fit(X, y)
    old = list(first.members_)
    first.fit(X, y)
    assert all(a is not b for a, b in zip(old, first.members_, strict=True))
    assert (old[0][0].weight - first.members_[0][0].weight).abs().max() > 1e-2


def test_a_warm_start_adds_members(iris):
    X, y = iris
    grown = ensemble(epochs=1, n_members=1, warm_start=True).fit(X, y)
    grown.n_members = 3
    assert_same_members(grown.fit(X, y), ensemble(epochs=1).fit(X, y))


def test_members_from_elsewhere_can_be_added_to(iris):
    X, y = iris
    states = [m.state_dict() for m in ensemble(epochs=1, n_members=2).fit(X, y).members_]
    grown = sw.DeepEnsemble.from_state_dicts(mlp, states)
    grown.n_members, grown.warm_start, grown.epochs = 3, True, 1
    assert len(grown.fit(X, y).members_) == 3


def test_a_last_batch_of_one_row_does_not_stop_batch_norm(iris):
    X, y = iris
    fitted = ensemble(with_norm, 2, epochs=1, batch_size=32).fit(X[:129], y[:129])
    assert len(fitted.members_) == 2


def test_batches_that_come_only_once_are_refused(iris):
    X, y = iris
    batches = ((X[i : i + 30], y[i : i + 30]) for i in range(0, 150, 30))
    with pytest.raises(sw.InvalidInput, match=r"once|no batch|DataLoader"):
        ensemble(epochs=2, n_members=2).fit(batches)


@pytest.mark.parametrize("lr", [1e37, 1e38])
def test_a_loss_that_is_not_finite_is_named(lr, iris):
    X, y = iris
    with pytest.raises(sw.InvalidInput, match=r"the loss of member 0 is (nan|inf) in epoch \d"):
        ensemble(lr=lr, optimizer="sgd").fit(X * 1e6, y)


def test_rows_that_are_not_finite_are_named(iris):
    X, y = iris
    X = X.copy()
    X[3, 1] = np.nan
    with pytest.raises(sw.InvalidInput, match="the loss of member 0 is nan in epoch 0"):
        ensemble().fit(X, y)


T = torch.zeros(6, 4)


@pytest.mark.parametrize(
    ("training_data", "words"),
    [
        ((T, np.arange(6) % 5), "the model returns 3 logits, but y has 5 classes"),
        ((T, np.array(list("ababab"))), "the model returns 3 logits, but y has 2 classes"),
        ((T, np.arange(5)), r"y has shape \(5,\) for 6 rows"),
        ((T, np.zeros((6, 1), int)), r"y has shape .* for 6 rows|y must"),
        ((T,), "pass labels y"),
        (({"x": T},), "pass labels y"),
        ((np.zeros((6, 4)),), "pass labels y"),
        ((DataLoader(TensorDataset(T), 2),), "yields no labels"),
        ((DataLoader(TensorDataset(T, torch.arange(6)), 2),), "class indices .* from 0 to 2"),
        ((DataLoader(TensorDataset(T, torch.arange(6) - 1), 2),), "class indices .* from 0 to 2"),
        ((DataLoader(TensorDataset(T, torch.zeros(6)), 2),), "class indices .* from 0 to 2"),
        ((DataLoader(TensorDataset(T, torch.zeros(6, 1).long()), 2),), "class indices"),
        ((DataLoader(TensorDataset(T[:0], torch.zeros(0)), 2),), "no (rows|batch)"),
        ((torch.zeros(6, 7), np.zeros(6, int)), "the model fails on X"),
    ],
)
def test_data_that_cannot_be_learnt_from_are_refused(training_data, words):
    with pytest.raises(sw.InvalidInput, match=words):
        ensemble(epochs=1).fit(*training_data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_members": 0}, "n_members"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"optimizer": "lion"}, "optimizer must be one of 'adam', 'sgd', not 'lion'"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"lr": "fast"}, "lr='fast'"),
        ({"weight_decay": -1}, "weight_decay=-1"),
    ],
)
def test_invalid_options_are_refused(options, words):
    with pytest.raises(sw.InvalidInput, match=words):
        ensemble(**options)


def test_a_make_model_that_makes_no_module_is_refused(iris):
    with pytest.raises(sw.InvalidInput, match="make_model returned int"):
        ensemble(lambda: 3).fit(*iris)
    with pytest.raises(sw.InvalidInput, match="device='abacus'"):
        ensemble(device="abacus").fit(*iris)
    with pytest.raises(sw.InvalidInput, match="not fitted"):
        ensemble().predict_samples(iris[0])


# -- trained elsewhere ----------------------------------------------------------------------------


def test_state_dicts_and_files_make_an_ensemble(tmp_path):
    members, X = several(with_norm, 3), rows(5)
    expected = samples(members, X)
    states = [member.state_dict() for member in members]
    files = [tmp_path / f"{i}.pt" for i in range(3)]
    for state, file in zip(states, files, strict=True):
        torch.save(state, file)
    for given_states in (states, files, [str(file) for file in files], [states[0], *files[1:]]):
        loaded = sw.DeepEnsemble.from_state_dicts(with_norm, given_states)
        np.testing.assert_array_equal(samples(loaded, X), expected)
        np.testing.assert_array_equal(loaded.predict(X), expected.mean(axis=1).argmax(axis=-1))
    named = sw.DeepEnsemble.from_state_dicts(with_norm, states, classes=["a", "b", "c"])
    assert set(named.predict(X)) <= {"a", "b", "c"}


def test_loading_restores_the_random_state():
    states = [member.state_dict() for member in several(mlp, 2)]
    before = torch.get_rng_state()
    sw.DeepEnsemble.from_state_dicts(mlp, states)
    assert torch.equal(torch.get_rng_state(), before)


class Malicious:
    def __init__(self, path: Any) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", ["torch", "torch, old format", "pickle"])
def test_a_malicious_file_is_refused_and_runs_nothing(write, tmp_path):
    trap, file = tmp_path / "trapped", tmp_path / "member.pt"
    state = mlp().state_dict() | {"0.weight": Malicious(trap)}
    if write == "pickle":
        file.write_bytes(pickle.dumps(state, protocol=2))
    else:
        torch.save(state, file, _use_new_zipfile_serialization="old" not in write)
    with pytest.raises(sw.InvalidInput, match="the state of member 1 cannot be loaded"):
        sw.DeepEnsemble.from_state_dicts(mlp, [mlp().state_dict(), file])
    assert not trap.exists()
    torch.load(file, weights_only=False) if write != "pickle" else pickle.loads(file.read_bytes())
    assert trap.exists(), "the trap does not work, so the test shows nothing"


@pytest.mark.parametrize("kind", ["missing file", "empty file", "text", "a tensor", "wrong", "net"])
def test_a_state_that_does_not_fit_names_the_member(kind, tmp_path):
    file = tmp_path / "member.pt"
    odd: Any = file
    if kind == "empty file":
        file.write_bytes(b"")
    elif kind == "text":
        file.write_text("weights: 1, 2, 3")
    elif kind == "a tensor":
        torch.save(torch.zeros(3), file)
    elif kind == "wrong":
        odd = with_norm().state_dict()
    elif kind == "net":
        torch.save(mlp(), file)
    with pytest.raises(sw.InvalidInput, match="the state of member 1 cannot be loaded"):
        sw.DeepEnsemble.from_state_dicts(mlp, [mlp().state_dict(), odd])
    with pytest.raises(sw.InvalidInput, match="no state dicts"):
        sw.DeepEnsemble.from_state_dicts(mlp, [])


# -- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_trains_in_mixed_precision_and_stacks_what_it_trained(iris):
    X, y = iris
    seen = set()

    def make() -> nn.Module:
        model = mlp()
        model[0].register_forward_hook(lambda m, i, o: seen.add(o.dtype))
        return model

    state = torch.cuda.get_rng_state()
    fitted = ensemble(make, device="cuda").fit(X, y)
    assert torch.float16 in seen
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert all(p.device.type == "cpu" for member in fitted.members_ for p in member.parameters())
    assert np.mean(fitted.predict(X) == y) > 0.93
    for members in (fitted.members_, fitted.members_ * 4):  # one by one, and stacked
        on_gpu = samples(members, X, device="cuda")
        np.testing.assert_allclose(on_gpu, samples(members, X, device="cpu"), atol=1e-3)
    assert all(p.device.type == "cpu" for member in fitted.members_ for p in member.parameters())


def test_one_module_is_no_ensemble(iris):
    X, y = iris
    net = mlp()
    with pytest.raises(sw.InvalidInput, match="a new module each time"):
        ensemble(lambda: net, 2, epochs=1).fit(X, y)
    with pytest.raises(sw.InvalidInput, match="make_model must be a function"):
        ensemble(net, 2)


def test_class_indices_with_a_gap_stay_in_their_columns(iris):
    X, y = iris
    seen = y != 1
    fitted = ensemble(epochs=40, lr=0.05, batch_size=32).fit(X[seen], y[seen])
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    assert np.mean(fitted.predict(X[seen]) == y[seen]) > 0.95


def test_labels_of_an_earlier_fit_are_forgotten(iris):
    X, y = iris
    fitted = ensemble(epochs=1).fit(X, np.array(list("abc"))[y])
    assert set(fitted.predict(X)) <= set("abc")
    fitted.fit(DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y)), 32))
    assert set(fitted.predict(X)) <= {0, 1, 2}


def test_no_rows_have_no_mean(iris):
    X, y = iris
    fitted = ensemble(epochs=1).fit(X, y)
    assert fitted.predict_proba(X[:0]).shape == (0, 3)
    assert fitted.predict(X[:0]).shape == (0,)


def test_one_logit_that_was_trained_here_is_a_logit(iris):
    X, y = iris
    fitted = ensemble(lambda: nn.Linear(4, 1), epochs=1).fit(X, (y > 0).astype(int))
    for i in range(5):
        assert fitted.predict_proba(X[i : i + 1]).shape == (1, 2)


def test_other_classes_are_no_warm_start(iris):
    X, y = iris
    fitted = ensemble(epochs=1, n_members=1, warm_start=True).fit(X, np.array(list("abc"))[y])
    fitted.n_members = 2
    with pytest.raises(sw.InvalidInput, match="finished members have the classes"):
        fitted.fit(X, np.array(list("xyz"))[y])
    assert len(fitted.members_) == 1
