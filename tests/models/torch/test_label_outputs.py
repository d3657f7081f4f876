"""Networks with an output for each of several labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import scorewise as sw
from torch_support import mlp, rows

X = rows(40)
torch.manual_seed(0)
NETS = [mlp().eval() for _ in range(3)]


def logits(module: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return module(X)


class Sigmoid(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).sigmoid()


def test_each_logit_is_a_problem_of_two_classes():
    samples = sw.predict_samples(NETS, X, output="label-logits")
    assert samples.shape == (40, 3, 3, 2)
    for m, module in enumerate(NETS):
        expected = sw.binary(logits(module).sigmoid())
        np.testing.assert_allclose(samples.probs[:, :, m], expected, rtol=1e-5)


def test_probabilities_of_labels_are_taken_as_they_are():
    of_logits = sw.predict_samples(NETS, X, output="label-logits")
    of_probs = sw.predict_samples([Sigmoid(m) for m in NETS], X, output="label-probs")
    np.testing.assert_allclose(of_probs.probs, of_logits.probs, atol=1e-6)


def test_draws_of_dropout_do_not_depend_on_batches():
    options = {"n_samples": 5, "random_state": 0, "output": "label-logits"}
    whole = sw.predict_samples(mlp_with_dropout := mlp(), X, **options)
    assert whole.shape == (40, 3, 5, 2)
    assert (sw.decompose(whole, "log").epistemic > 0).any()
    parts = sw.predict_samples(mlp_with_dropout, X, batch_size=7, **options)
    np.testing.assert_allclose(parts.probs, whole.probs, atol=1e-6)


def test_sigmoid_outputs_are_not_read_as_logits_of_classes():
    with pytest.raises(sw.InvalidInput, match="pass output='label-probs' if they are"):
        sw.predict_samples([Sigmoid(m) for m in NETS], X)
    with pytest.raises(sw.InvalidInput, match=r"label-probs.* if each is the probability"):
        sw.predict_samples([Sigmoid(m) for m in NETS], X, output="probs")


def test_an_output_that_is_no_probability_is_named_with_its_label():
    outputs = logits(NETS[0])
    row, label = torch.nonzero((outputs < 0) | (outputs > 1))[0].tolist()
    place = rf"member 0 \(Sequential\), row {row}, label {label}: .*not pro"
    with pytest.raises(sw.InvalidInput, match=place):
        sw.predict_samples(NETS, X, output="label-probs")
