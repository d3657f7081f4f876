"""``.csv`` files, and what others read in them."""

from __future__ import annotations

import numpy as np
import pandas as pd

import scorewise as sw


def test_ids_in_text_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("id,probs_0_0,probs_0_1\n007,0.5,0.5\n010,0.5,0.5\n")
    assert sw.read_predictions(tmp_path / "a.csv").ids.tolist() == ["007", "010"]


def test_text_is_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.csv", everything)
    frame = pd.read_csv(tmp_path / "a.csv", comment="#", keep_default_na=False)
    assert frame["ids"].tolist() == everything.ids.tolist()
    assert frame["labels"].tolist() == ["0", "1", "2", "", "0"]
    assert frame.filter(like="logits_").shape == (5, 6)
    np.testing.assert_array_equal(frame["logits_1_2"], everything.logits[:, 1, 2])
