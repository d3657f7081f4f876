"""Fixtures of the tests of calibration."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def small_problems(one_blas_thread: None) -> None:
    """Fits are of few numbers, for which threads of BLAS only wait for one another."""
