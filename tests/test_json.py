"""Numbers that JSON cannot hold become null, and arrays lists."""

from __future__ import annotations

import json

import numpy as np

from scorewise._json import dumps


def test_arrays_and_numbers_that_are_not_finite_become_plain_json():
    value = {
        1: np.float64("nan"),
        "a": [np.inf, -np.inf, np.array([1.0, np.nan]), np.bool_(True)],
        "b": (np.int64(3), None, "ü", float("nan")),
    }
    assert json.loads(dumps(value)) == {
        "1": None,
        "a": [None, None, [1.0, None], True],
        "b": [3, None, "ü", None],
    }
