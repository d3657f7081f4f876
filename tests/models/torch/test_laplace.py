"""Laplace approximations: draws of weights, each one network for all rows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw
from scorewise.models import has_joint_rows
from support import softmax

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    X, y = load_iris(return_X_y=True)
    return torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32), torch.tensor(y)


def train(model: nn.Module, X: Any, y: torch.Tensor) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=1e-3)
    for _ in range(60):
        optimizer.zero_grad()
        returned = model(**X) if isinstance(X, dict) else model(X)
        logits = returned["logits"] if isinstance(returned, dict) else returned
        nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


@pytest.fixture(scope="module")
def net(data) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3))
        return train(model, *data)


@pytest.fixture(scope="module")
def fitted(net, data) -> Any:
    return sw.fit_laplace(net, *data)


def samples(model: Any, X: Any, n_samples: int = 6, seed: int = 0, **options: Any) -> np.ndarray:
    return np.asarray(sw.predict_samples(model, X, n_samples, seed, **options).probs)


def state_of(model: nn.Module) -> tuple[Any, ...]:
    return (
        [part.training for part in model.modules()],
        [value.clone() for value in model.state_dict().values()],
        [parameter.requires_grad for parameter in model.parameters()],
        [parameter.grad for parameter in model.parameters()],
        [len(part._forward_hooks) for part in model.modules()],
        torch.get_rng_state(),
        np.random.get_state()[1].copy(),  # noqa: NPY002  (the global one, which must not move)
    )


def assert_unchanged(model: nn.Module, before: tuple[Any, ...]) -> None:
    after = state_of(model)
    assert after[0] == before[0]
    assert all(torch.equal(a, b) for a, b in zip(after[1], before[1], strict=True))
    assert after[2:5] == before[2:5]
    assert torch.equal(after[5], before[5]), "torch's random state"
    np.testing.assert_array_equal(after[6], before[6])


def test_a_draw_is_a_last_layer_with_weights_of_the_posterior(fitted, net, data):
    X = data[0][:20]
    probs = samples(fitted, X, 5, seed=11)
    assert type(fitted).__name__ == "KronLLLaplace"
    weights = fitted.sample(5, torch.Generator().manual_seed(11)).detach().double().numpy()
    assert np.ptp(weights, axis=0).min() > 1e-3
    with torch.no_grad():
        h = torch.tanh(net[0](X)).double().numpy()
    for m, w in enumerate(weights):
        W, b = w[:18].reshape(3, 6), w[18:]
        np.testing.assert_allclose(probs[:, m], softmax(h @ W.T + b), atol=1e-5)


def test_the_mean_of_many_draws_is_the_predictive_of_laplace(fitted, data):
    X = data[0][::10]
    mean = samples(fitted, X, 4000).mean(axis=1)
    torch.manual_seed(1)
    expected = fitted(X, pred_type="glm", link_approx="mc", n_samples=20000).numpy()
    np.testing.assert_allclose(mean, expected, atol=0.02)
    certain = fitted(X, pred_type="glm", link_approx="probit").numpy()
    np.testing.assert_allclose(mean, certain, atol=0.05)


STRUCTURES = [
    ("last_layer", "full"),
    ("last_layer", "kron"),
    ("last_layer", "diag"),
    ("last_layer", "gp"),
    ("all", "full"),
    ("all", "kron"),
    ("all", "diag"),
    ("all", "gp"),
    ("subnetwork", "full"),
    ("subnetwork", "diag"),
]


@pytest.mark.parametrize(("subset", "structure"), STRUCTURES)
def test_every_approximation_gives_draws_that_keep_the_laws(subset, structure, net, data):
    options: dict[str, Any] = {}
    if subset == "subnetwork":
        options["subnetwork_indices"] = torch.tensor([0, 3, 7, 30, 45])
    if structure == "gp":
        options["n_subset"] = 60
    model = copy.deepcopy(net)
    model.train()
    model[0].eval()
    before = state_of(model)
    torch.manual_seed(2)
    laplace = sw.fit_laplace(
        model, *data, subset_of_weights=subset, hessian_structure=structure, **options
    )
    torch.set_rng_state(before[5])
    assert_unchanged(model, before)

    X = data[0][::7]
    inside, state = laplace.model, state_of(laplace.model)
    probs = samples(laplace, X)
    assert probs.shape == (22, 6, 3)
    assert_unchanged(inside, state)
    np.testing.assert_allclose(samples(laplace, X, batch_size=5), probs, atol=1e-5)
    loader = DataLoader(TensorDataset(X, torch.zeros(22)), 4)
    np.testing.assert_allclose(samples(laplace, loader), probs, atol=1e-5)
    assert np.abs(samples(laplace, X, seed=1) - probs).max() > 1e-3
    assert has_joint_rows(laplace) == (structure != "gp")
    what = "of the outputs" if structure == "gp" else "of the weights"
    assert what in str(sw.explain_model(laplace))
    for m in range(1, 6):
        assert np.abs(probs[:, m] - probs[:, 0]).max() > 1e-3
    epistemic = sw.decompose(probs, "log").epistemic
    assert epistemic.mean() > 1e-4
    if subset != "subnetwork":  # draws are about the network itself
        with torch.no_grad():
            own = model.eval()(X).softmax(-1).numpy()
        assert np.abs(samples(laplace, X, 300).mean(axis=1) - own).mean() < 0.15


def test_weights_outside_the_subnetwork_are_those_of_the_network(net, data):
    laplace = sw.fit_laplace(
        net,
        *data,
        subset_of_weights="subnetwork",
        hessian_structure="full",
        subnetwork_indices=torch.tensor([49, 50]),  # two biases of the last layer
    )
    X = data[0][:10]
    with torch.no_grad():
        own = net.eval()(X).double().log_softmax(-1).numpy()
    drawn = np.log(samples(laplace, X, 5))
    offsets = (drawn - own[:, None]) - (drawn - own[:, None])[..., :1]
    # the same for all rows
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[:1], offsets.shape), atol=1e-3)
    assert np.abs(offsets).max() > 1e-2


def test_fitting_restores_the_random_state(net, data):
    loader = DataLoader(TensorDataset(*data), 50, shuffle=True)
    for training_data in (data, (loader,)):
        before = state_of(net)
        sw.fit_laplace(net, *training_data)
        assert_unchanged(net, before)


def test_a_loader_and_arrays_give_the_same_approximation(fitted, net, data):
    X, y = data
    expected = samples(fitted, X)
    array = sw.fit_laplace(net, X.numpy().astype(np.float64), y.numpy())
    np.testing.assert_allclose(samples(array, X.numpy().astype(np.float64)), expected, atol=1e-5)
    loaded = sw.fit_laplace(net, DataLoader(TensorDataset(X, y), 150))
    np.testing.assert_allclose(samples(loaded, X), expected, atol=1e-5)


def test_a_network_in_double_precision_stays_so(net, data):
    X, y = data
    double = copy.deepcopy(net).double()
    for training_data in ((X.double(), y), (X.numpy(), y.numpy())):
        probs = samples(sw.fit_laplace(double, *training_data), X[:5])
        assert probs.dtype == np.float64


def test_tuning_finds_a_prior_of_larger_marginal_likelihood(fitted, net, data):
    tuned = sw.fit_laplace(net, *data, prior_precision="marglik")
    assert abs(float(tuned.prior_precision.mean()) - 1) > 0.05
    assert float(tuned.log_marginal_likelihood()) > float(fitted.log_marginal_likelihood())
    strict = sw.fit_laplace(net, *data, prior_precision=1000.0)
    spread = [samples(la, data[0], 20).std(axis=1).mean() for la in (strict, fitted)]
    assert spread[0] < spread[1] / 2


def test_a_laplace_object_of_the_users_own_works(net, data):
    from laplace import Laplace

    la = Laplace(copy.deepcopy(net), "classification", "last_layer", "full")
    with pytest.raises(sw.InvalidInput, match="not fitted; call its fit"):
        samples(la, data[0])
    la.fit(DataLoader(TensorDataset(*data), 64))
    la.model.train()
    before = state_of(la.model)
    assert samples(la, data[0]).shape == (150, 6, 3)
    assert_unchanged(la.model, before)
    assert sw.predict_samples(la, data[0]).probs.shape == (150, 20, 3)
    assert samples(la, data[0][:0]).shape == (0, 6, 3)


def test_an_unfitted_or_regression_approximation_is_refused(net, data):
    from laplace import Laplace

    for structure in ("kron", "gp"):
        options = {"n_subset": 10} if structure == "gp" else {}
        la = Laplace(copy.deepcopy(net), "classification", "all", structure, **options)
        with pytest.raises(sw.InvalidInput, match="not fitted"):
            samples(la, data[0])
    la = Laplace(nn.Linear(4, 1), "regression", "all", "full")
    la.fit(DataLoader(TensorDataset(data[0], data[1][:, None].float()), 64))
    with pytest.raises(sw.InvalidInput, match="regression, not classification"):
        samples(la, data[0])


class TakesNames(nn.Module):
    """In the manner of Hugging Face: words by name in, a mapping with logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, input_ids, attention_mask, labels=None):
        mask = attention_mask[..., None]
        h = torch.tanh((self.words(input_ids) * mask).sum(1) / mask.sum(1))
        return {"logits": self.last(h)}


def test_loaders_may_yield_mappings():
    random = torch.Generator().manual_seed(0)
    X = {
        "input_ids": torch.randint(20, (60, 5), generator=random),
        "attention_mask": (torch.arange(5) < torch.arange(60)[:, None] % 5 + 1).long(),
    }
    y = X["input_ids"][:, 0] % 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = train(TakesNames(), X, y)
    items = [{name: value[i] for name, value in X.items()} | {"labels": y[i]} for i in range(60)]
    before = state_of(model)
    la = sw.fit_laplace(model, DataLoader(items, 16))
    torch.set_rng_state(before[5])
    assert_unchanged(model, before)
    weights = la.sample(6, torch.Generator().manual_seed(0)).double().numpy()
    mask = X["attention_mask"][..., None]
    with torch.no_grad():
        h = torch.tanh((model.words(X["input_ids"]) * mask).sum(1) / mask.sum(1)).double().numpy()
    expected = [softmax(h @ w[:18].reshape(3, 6).T + w[18:]) for w in weights]
    for rows in (X, DataLoader(items, 7)):
        np.testing.assert_allclose(samples(la, rows), np.stack(expected, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("training_data", "words"),
    [
        ((torch.zeros(6, 4),), "pass arrays X and y"),
        ((torch.zeros(6, 4), np.zeros(5, int)), "y must be class indices, one for each of the 6"),
        ((torch.zeros(6, 4), np.zeros(6)), "y must be class indices"),
        ((torch.zeros(6, 4), np.full(6, 7)), r"class indices \(n,\) from 0 to 2"),
        (({"x": torch.zeros(6, 4)}, np.zeros(6, int)), "DataLoader"),
        ((DataLoader(TensorDataset(torch.zeros(6, 4)), 2),), "yields no labels"),
        ((torch.zeros(6, 7), np.zeros(6, int)), "Sequential fails on X"),
    ],
)
def test_data_that_cannot_be_fitted_are_refused(training_data, words, net):
    with pytest.raises(sw.InvalidInput, match=words):
        sw.fit_laplace(net, *training_data)


def test_invalid_requests_for_samples_are_refused(fitted, data):
    with pytest.raises(sw.InvalidInput, match="one number per row; Laplace"):
        sw.fit_laplace(nn.Linear(4, 1), *data)
    with pytest.raises(sw.InvalidInput, match=r"KronLLLaplace of .* fails on X"):
        samples(fitted, torch.zeros(3, 7))
    with pytest.raises(sw.InvalidInput, match=r"KronLLLaplace of .*, draw 0, row 2.* logit"):
        samples(fitted, torch.tensor([[0.0] * 4, [0.0] * 4, [torch.nan] * 4]))
    with pytest.raises(sw.InvalidInput, match="device='abacus'"):
        samples(fitted, data[0], device="abacus")


class Scaled(nn.Module):
    """Does more after its last layer."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x) * 5


def test_what_a_network_does_after_its_last_layer_is_done(net, data):
    X = torch.as_tensor(data[0])
    network = Scaled(net)
    la = sw.fit_laplace(network, *data, prior_precision=1e8)  # so that all draws are near the mean
    with torch.no_grad():
        expected = copy.deepcopy(network).eval()(X.float()).softmax(-1).numpy()
    np.testing.assert_allclose(samples(la, X).mean(1), expected, atol=5e-3)
