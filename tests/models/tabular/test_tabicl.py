"""TabICL's own package, with a small network of random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from classifier_support import IRIS, NAMES

SIZES = {"embed_dim": 16, "row_num_cls": 2, "col_num_inds": 4, "zero_init": False}
SIZES |= {"col_num_blocks": 1, "row_num_blocks": 1, "icl_num_blocks": 1}
SIZES |= {"col_nhead": 2, "row_nhead": 2, "icl_nhead": 2}


@pytest.fixture
def fitted(tmp_path: Path) -> Any:
    from tabicl import TabICLClassifier
    from tabicl._model.tabicl import TabICL  # the network has no public name

    torch.manual_seed(0)
    checkpoint = {"config": SIZES, "state_dict": TabICL(**SIZES).state_dict()}
    torch.save(checkpoint, tmp_path / "weights.ckpt")

    def fit(**options: Any) -> Any:
        options |= {"model_path": tmp_path / "weights.ckpt", "allow_auto_download": False}
        return TabICLClassifier(5, device="cpu", **options).fit(IRIS[::2], NAMES[::2])

    return fit


@pytest.mark.parametrize("kv_cache", [False, True])
def test_members_are_its_estimators_and_their_mean_is_its_prediction(fitted, kv_cache):
    model = fitted(average_logits=False, kv_cache=kv_cache)
    samples = sw.predict_samples(model, IRIS[1::2])
    assert samples.shape == (75, 5, 3)
    assert samples.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert np.ptp(samples.probs, axis=1).max() > 1e-3
    np.testing.assert_allclose(samples.mean, model.predict_proba(IRIS[1::2]), atol=1e-6)
    by_batches = sw.predict_samples(model, IRIS[1::2], batch_size=7)
    np.testing.assert_allclose(by_batches.probs, samples.probs, atol=1e-6)
    assert sw.explain_model(model).reason.endswith("their mean is predict_proba")


def test_where_it_averages_logits_the_explanation_says_so(fitted):
    model = fitted()
    samples = sw.predict_samples(model, IRIS[1::2])
    logits = np.log(samples.probs).mean(axis=1)
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(IRIS[1::2]), expected, atol=1e-5)
    assert "which averages logits" in sw.explain_model(model).reason
