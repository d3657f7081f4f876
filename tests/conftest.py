"""Fixtures for all tests, and the law that a skipped test is a failure."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Threads of OpenMP and OpenBLAS that wait for work sleep: while they spin, other workers of pytest
# wait too. The libraries read this when they are loaded, here and in child processes; OpenBLAS
# spins for 2 to this power of clock cycles, 4 being the least.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import hypothesis
import numpy as np
import pytest

from support import LIBRARIES, Library

hypothesis.settings.register_profile("scorewise", deadline=None, derandomize=True)
hypothesis.settings.load_profile("scorewise")


# In the background of a shell Ctrl-C is ignored, also by all that is started from there; some tests
# are about it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=LIBRARIES)
def xp(request: pytest.FixtureRequest) -> Any:
    """Runs a test once for every array library."""
    if request.param == "jax":
        import jax

        with jax.enable_x64(True):
            yield Library(request.param)
    else:
        yield Library(request.param)


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """For networks so small that they only wait for one another on several."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def one_blas_thread() -> Iterator[None]:
    """For problems so small that the threads of BLAS only wait for one another."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture
def no_screen() -> Iterator[None]:
    """Draw without a screen, and leave no figure and no setting behind."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    plt.switch_backend("Agg")
    before = dict(mpl.rcParams)
    yield
    changed = [key for key in before if mpl.rcParams[key] != before[key]]
    plt.close("all")
    assert not changed


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window, driven by Selenium; see browser_support.py."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs chromium and chromedriver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        "disable-background-networking",
        "window-size=1100,900",
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driven = webdriver.Chrome(options=options, service=Service(driver))
    driven.get("about:blank")
    yield driven
    driven.quit()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Only tests marked gpu see one where there is one; the others are about the CPU.

    Generators that a test does not seed give the same numbers in each run, whatever ran before.
    """
    np.random.seed(0)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
        global cuda_is_available
        cuda_is_available = cuda_is_available or torch.cuda.is_available
        marked = any(item.iter_markers("gpu"))
        torch.cuda.is_available = cuda_is_available if marked else lambda: False


cuda_is_available: Any = None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """In CI a skipped test is a failure, unless it needs a GPU or the real data."""
    outcome = yield
    report = outcome.get_result()
    excused = any(item.iter_markers("gpu")) or any(item.iter_markers("real_data"))
    if os.environ.get("CI") and report.skipped and not excused and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure in CI: {report.longrepr}"
