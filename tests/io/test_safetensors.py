"""``.safetensors`` files, also those that others wrote."""

from __future__ import annotations

import numpy as np
import safetensors.numpy
from hypothesis import given

import scorewise as sw
from io_support import assert_bits, assert_same, back, examples, predictions
from support import members


@examples
@given(x=predictions().filter(lambda x: not x.from_logits))
def test_read_is_the_inverse_of_write_for_safetensors(tmp_path, x):
    assert_same(back(tmp_path, "safetensors", x), x)


def test_tensors_of_safetensors_are_read(tmp_path):
    values = members(4, 2, 3).astype("f2")
    safetensors.numpy.save_file(
        {"logits": values, "labels": np.array([0, 1, 2, 0], np.uint8), "other": np.ones(3)},
        tmp_path / "a.safetensors",
    )
    stored = sw.read_predictions(str(tmp_path / "a.safetensors"))
    assert stored.from_logits
    assert_bits(stored.logits, values, "logits")
    assert stored.labels.tolist() == [0, 1, 2, 0]


def test_tensors_may_have_the_other_names_too(tmp_path):
    tensors = {"proba": members(3, 2, 2), "y": np.array([0, 1, 1]), "id": np.arange(3)}
    safetensors.numpy.save_file(tensors, tmp_path / "a.safetensors")
    stored = sw.read_predictions(tmp_path / "a.safetensors")
    assert (stored.labels.tolist(), stored.ids.tolist()) == ([0, 1, 1], [0, 1, 2])
