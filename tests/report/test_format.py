"""Numbers as the page writes them."""

from __future__ import annotations

import numpy as np

import scorewise as sw
from scorewise.report import _format as text

ERROR, COST = sw.rules.zero_one.unit, sw.rules.cost_matrix([[0, 1], [1, 0]]).unit


def test_numbers_in_columns():
    assert text.loss_cell(0.0264, ERROR) == "2.64\u00a0%"
    assert text.loss_cell(0.000012, ERROR) == "0.0012\u00a0%"
    assert text.loss_cell(-0.5, COST) == "−0.5000"
    assert text.share_cell(0.99999) == "more than 99.9\u00a0%"
    assert text.share_cell(1) == "100.0\u00a0%"
    assert text.share_cell(float("nan")) == text.loss_cell(None, ERROR) == text.number(np.inf)
    assert text.plain_data({"a": np.array([1.0, np.nan, np.inf]), "b": np.int64(3)}) == {
        "a": [1.0, None, None],
        "b": 3,
    }
