"""Evidential and prior networks: Dirichlet distributions straight from a module."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw


class Table(nn.Module):
    """Answers row i with line i of a table; rows are their own indices."""

    def __init__(self, table: object) -> None:
        super().__init__()
        self.register_buffer("table", torch.as_tensor(table))

    def forward(self, x):
        return self.table[x.long().flatten()]


def index(n: int) -> torch.Tensor:
    return torch.arange(n).reshape(n, 1)


MEANINGS = {
    "alpha": lambda z: np.log1p(np.exp(z)),
    "evidence": lambda z: np.maximum(z, 0),
    "log-alpha": lambda z: z,
}
ALPHA = {"alpha": lambda v: v, "evidence": lambda v: v + 1, "log-alpha": np.exp}


@pytest.mark.parametrize("output", sorted(MEANINGS))
@settings(max_examples=20)
@given(n=st.integers(0, 9), k=st.integers(2, 5), size=st.integers(1, 10), seed=st.integers(0, 99))
def test_parameters_are_what_the_module_says(output, n, k, size, seed):
    returned = MEANINGS[output](np.random.default_rng(seed).normal(size=(n, k)) * 2)
    for options in ({}, {"batch_size": size}):
        dirichlet = sw.predict_dirichlet(Table(returned), index(n), output=output, **options)
        assert isinstance(dirichlet, sw.Dirichlet)
        assert dirichlet.alpha.shape == (n, k)
        np.testing.assert_allclose(dirichlet.alpha, ALPHA[output](returned), rtol=1e-12)


def test_parameters_of_a_network_by_hand():
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Softplus()).double()
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(0.5, 2)
    X = np.random.default_rng(0).normal(size=(6, 4))
    W, b = (p.detach().numpy() for p in net[0].parameters())
    z = X @ W.T + b - net[1].running_mean.numpy()
    expected = np.log1p(np.exp(z / np.sqrt(net[1].running_var.numpy() + net[1].eps))) + 1
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    dirichlet = sw.predict_dirichlet(net, X, output="evidence")
    np.testing.assert_allclose(dirichlet.alpha, expected, rtol=1e-12)
    assert all(part.training for part in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    loader = DataLoader(TensorDataset(torch.tensor(X), torch.zeros(6)), 4)
    again = sw.predict_dirichlet(net, loader, output="evidence")
    np.testing.assert_allclose(again.alpha, expected, rtol=1e-12)
    d = sw.decompose(dirichlet, "log")
    assert ((d.epistemic > 0) & (d.epistemic < d.total)).all()


def test_half_precision_becomes_single():
    dirichlet = sw.predict_dirichlet(Table(torch.ones(3, 2, dtype=torch.bfloat16)), index(3))
    assert dirichlet.alpha.dtype == np.float32


@pytest.mark.parametrize(
    ("output", "value", "shown"),
    [
        ("alpha", 0.0, "0"),
        ("alpha", -2.5, "-2.5"),
        ("alpha", np.nan, "nan"),
        ("alpha", np.inf, "inf"),
        ("evidence", -1e-3, "-0.001"),
        ("evidence", np.nan, "nan"),
        ("evidence", np.inf, "inf"),
        ("log-alpha", np.nan, "nan"),
        ("log-alpha", 1e4, "10000"),
        ("log-alpha", -np.inf, "-inf"),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_values_that_are_no_parameters_are_named_by_row_and_class(output, value, shown, batch_size):
    returned = np.ones((9, 3))
    returned[7, 2] = value
    words = f"Table returns {shown} for row 7, class 2, which is not a valid {output}"
    with pytest.raises(sw.InvalidInput, match=words):
        sw.predict_dirichlet(Table(returned), index(9), batch_size, output=output)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_evidence_may_be_zero_and_small(value):
    dirichlet = sw.predict_dirichlet(Table(np.full((2, 3), value)), index(2), output="evidence")
    assert (dirichlet.alpha == value + 1).all()


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (Table(np.ones((3, 2))), {"output": "logits"}, "must be one of 'alpha', 'evidence'"),
        (Table(np.ones((3, 2))), {"batch_size": 0}, "batch_size"),
        (Table(np.ones((3, 2))), {"device": "abacus"}, "device='abacus'"),
        (Table(np.ones((3, 2, 2))), {}, r"returns shape \(3, 2, 2\) for 3 rows"),
        (Table(np.ones((3, 1))), {}, "class"),
        (Table(np.ones((3, 2), int)), {}, "returns torch.int64"),
        (nn.Linear(7, 2), {}, "Linear fails on X"),
        ("a model", {}, "takes a torch module, not str"),
    ],
)
def test_models_and_options_that_do_not_fit_are_refused(model, options, words):
    with pytest.raises(sw.InvalidInput, match=words):
        sw.predict_dirichlet(model, index(3), **options)


def test_a_loader_without_a_batch_is_named():
    with pytest.raises(sw.InvalidInput, match=r"no (rows|batch)"):
        sw.predict_dirichlet(Table(np.ones((3, 2))), iter([]))
