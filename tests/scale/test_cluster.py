"""Clusters by their names and addresses, and checks of their workers."""

from __future__ import annotations

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from distributed.comm import CommClosedError

import scorewise as sw
from scale_support import (
    HANG,
    forget_scorewise,
    local_cluster,
    scheduler_process,
    wait_until,
    write_dataset,
)
from scorewise.scale import cluster, evaluate_dataset, score_dataset


@pytest.fixture
def threads():
    """A cluster whose worker is in this process, which tests change."""
    with local_cluster(1, processes=False) as client:
        yield client


def kernel_threads() -> int:
    return sw.get_num_threads()


def test_local_starts_processes_with_one_thread_each():
    with cluster("local:2") as client:
        assert list(client.nthreads().values()) == [1, 1]
        assert set(client.run(kernel_threads).values()) == {1}


def test_a_client_is_not_closed(threads):
    with cluster(threads) as client:
        assert client is threads
    assert threads.submit(abs, -1).result() == 1


def test_an_address_is_connected_to(threads):
    with cluster(threads.scheduler.address) as client:
        assert client.submit(abs, -1).result() == 1
    assert threads.submit(abs, -2).result() == 2


@pytest.mark.parametrize("name", ["local:", "local:x", "remote", "", 3, None])
def test_other_names_are_errors(name):
    with pytest.raises(sw.InvalidInput, match="must be 'local', 'local:N'"), cluster(name):
        pass


def test_there_is_at_least_one_worker():
    with pytest.raises(sw.InvalidInput, match="number of workers"), cluster("local:0"):
        pass


def test_an_address_without_a_scheduler_is_an_error():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(sw.ScorewiseError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:1'"),
        cluster("tcp://127.0.0.1:1"),
    ):
        pass


def test_an_address_of_an_unknown_kind_is_an_error():
    with pytest.raises(sw.ScorewiseError, match="no Dask scheduler at"), cluster("nowhere://x"):
        pass


@pytest.mark.parametrize(
    ("module", "name"), [("scorewise", "scorewise"), ("numpy", "NumPy"), ("pyarrow", "pyarrow")]
)
def test_a_worker_with_another_version_is_named(monkeypatch, client, module, name):
    import importlib

    # this process has another version than the workers, which are others
    monkeypatch.setattr(importlib.import_module(module), "__version__", "0.0.1")
    worker = min(client.nthreads())
    message = rf"worker {worker} has {name} .*, and this process 0\.0\.1"
    with pytest.raises(sw.InvalidInput, match=message), cluster(client):
        pass


def test_another_patch_of_numpy_is_the_same(monkeypatch, client):
    import numpy as np

    monkeypatch.setattr(np, "__version__", f"{np.__version__.split('.')[0]}.999.0")
    with cluster(client):
        pass


def test_a_worker_without_scorewise_is_named():
    with local_cluster(1) as client:
        client.run(forget_scorewise)
        (worker,) = client.nthreads()
        message = f"worker {worker} cannot import scorewise: install it"
        with pytest.raises(sw.InvalidInput, match=message), cluster(client):
            pass


def test_a_scheduler_without_workers_is_a_warning():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as started,
        Client(started) as client,
        pytest.warns(match="has no workers; waiting for one"),
        cluster(client),
    ):
        pass


def test_work_without_workers_is_waited_for_with_one_warning(monkeypatch):
    monkeypatch.setattr("scorewise.scale._cluster._LOOK_EVERY", 0.1)
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(40, 5))
    lazy = da.from_array(probs, chunks=(20, 5, 3))
    compared = partial(sw.compare, y=np.zeros(40, int), rules="log", baselines=False)
    with (
        local_cluster(1, processes=False) as threads,
        warnings.catch_warnings(record=True, action="always") as warned,
        ThreadPoolExecutor(1) as others,
        cluster(threads),
    ):
        threads.cluster.scale(0)
        wait_until(lambda: not threads.nthreads())
        run = others.submit(compared, lazy)
        wait_until(lambda: len(warned) > 0)
        threads.cluster.scale(1)
        assert run.result().best == compared(probs).best
    assert ["has no workers; waiting for one" in str(x.message) for x in warned] == [True]


def test_work_on_dask_arrays_that_nobody_computes_is_not_silent(monkeypatch):
    monkeypatch.setattr("scorewise.scale._cluster._LOOK_EVERY", 0.1)
    scores = da.arange(40, chunks=20)
    with (
        local_cluster(0, processes=False) as threads,
        warnings.catch_warnings(record=True, action="always") as warned,
        ThreadPoolExecutor(1) as others,
    ):
        run = others.submit(sw.acquire, scores, 1)
        wait_until(lambda: len(warned) > 0)
        assert "has no workers; waiting for one" in str(warned[0].message)
        threads.cluster.scale(1)
        assert run.result().tolist() == [39]


def test_a_scheduler_without_scorewise_is_named_where_it_needs_it(tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "without/scorewise.py").write_text("raise ModuleNotFoundError('scorewise')")
    source = write_dataset(tmp_path / "in", labels=True)
    with scheduler_process(tmp_path, path=[tmp_path / "without"]) as (_, address):
        assert score_dataset(source, "log", tmp_path / "out", scheduler=address).n_rows == 320
        message = f"the scheduler {address} cannot import scorewise: install it where it runs"
        with pytest.raises(sw.InvalidInput, match=message):
            evaluate_dataset(source, rules="log", scheduler=address)


def test_a_scheduler_that_is_lost_while_workers_are_checked_is_an_error(threads, monkeypatch):
    def lost(*_: object, **__: object) -> None:
        raise CommClosedError("the other end is closed")

    monkeypatch.setattr(type(threads), "run", lost)
    with pytest.raises(sw.ScorewiseError, match="the scheduler was lost"), cluster(threads):
        pass


def test_ctrl_c_while_a_client_connects_ends_it_at_once():
    code = """
import os, signal, socket, threading, time
from scorewise.scale import cluster
mute = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
def interrupt():
    connection, _ = mute.accept()
    connection.recv(1)
    time.sleep(0.5)  # the client waits for the answer
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
try:
    with cluster(f"tcp://127.0.0.1:{mute.getsockname()[1]}"):
        print("connected")
except KeyboardInterrupt:
    print("interrupted")
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANG
    )
    assert (result.stdout, result.stderr) == ("interrupted\n", "")
