"""Fixtures of the tests of files."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw
from support import members


@pytest.fixture
def everything() -> sw.io.Predictions:
    return sw.io.Predictions(
        members(5, 2, 3).astype("f4"),
        labels=[0, 1, 2, -1, 0],
        ids=["a", "b\n", '"c"', "ü,", ""],
        class_names=["x", "y", "z"],
        weights=members(5, 1, 2)[:, 0],
        logits=np.log(members(5, 2, 3)),
    )
