"""Predictions as the tasks receive them: misspelt options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from support import members

PROBS = members(20, 4, 3)
Y = np.zeros(20, int)

MISSPELT: dict[str, tuple[Callable[..., Any], str]] = {
    "n_resample": (lambda **options: sw.evaluate(PROBS, Y, **options), "n_resamples"),
    "taskloss": (lambda **options: sw.evaluate(PROBS, Y, **options), "task_loss"),
    "nresamples": (lambda **options: sw.compare(PROBS, Y, **options), "n_resamples"),
    "max_los": (lambda **options: sw.certify(PROBS, Y, **options), "max_loss"),
    "flor": (lambda **options: sw.task_losses(PROBS, Y, "log", **options), "floor"),
    "abstain_cots": (lambda **options: sw.decide(PROBS, np.eye(3), **options), "abstain_cost"),
    "randomstate": (lambda **options: sw.acquire_batch(PROBS, 2, **options), "random_state"),
    "normalise": (lambda **options: sw.fit_calibration(PROBS, Y, **options), "normalize"),
}


@pytest.mark.parametrize("option", MISSPELT)
def test_a_misspelt_option_is_refused_with_the_nearest_one(option):
    call, nearest = MISSPELT[option]
    message = f"there is no option '{option}'; did you mean '{nearest}'"
    with pytest.raises(sw.InvalidInput, match=message):
        call(**{option: 1})


def test_an_option_like_no_other_is_refused():
    with pytest.raises(sw.InvalidInput, match="no option 'zzz'; the options are check, class_a"):
        sw.evaluate(PROBS, Y, zzz=1)
