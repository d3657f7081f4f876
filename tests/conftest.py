"""Fixtures for all tests, and the law that a skipped test is a failure."""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import pytest

from support import LIBRARIES, Library

hypothesis.settings.register_profile("scorewise", deadline=None, derandomize=True)
hypothesis.settings.load_profile("scorewise")


@pytest.fixture(params=LIBRARIES)
def xp(request: pytest.FixtureRequest) -> Any:
    """Runs a test once for every array library."""
    if request.param == "jax":
        import jax

        with jax.enable_x64(True):
            yield Library(request.param)
    else:
        yield Library(request.param)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """In CI a skipped test is a failure, unless it needs a GPU or the real data."""
    outcome = yield
    report = outcome.get_result()
    excused = any(item.iter_markers("gpu")) or any(item.iter_markers("real_data"))
    if os.environ.get("CI") and report.skipped and not excused and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure in CI: {report.longrepr}"
