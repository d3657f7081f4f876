"""Clusters by their names and addresses, and checks of their workers."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed.comm import CommClosedError

import scorewise as sw
from scale_support import (
    HANG,
    contents,
    forget_scorewise,
    held_process,
    held_scores,
    let_go,
    local_cluster,
    other_scorewise,
    process,
    scheduler_process,
    wait_until,
    worker_process,
    write_dataset,
)
from scorewise.scale import Dataset, cluster, evaluate_dataset, score_dataset, write_partitions

MISSING = "raise ModuleNotFoundError('scorewise')"
OLD = "__version__ = '0.0.1'"


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


@pytest.mark.parametrize("has_nanny", [False, True])
def test_a_worker_without_scorewise_that_joins_a_waiting_comparison_is_named(tmp_path, has_nanny):
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(40, 5))
    lazy = da.from_array(probs, chunks=(20, 5, 3))
    compared = partial(sw.compare, y=np.zeros(40, int), rules="log", baselines=False)
    without = other_scorewise(tmp_path, MISSING)
    with (
        ThreadPoolExecutor(1) as others,
        local_cluster(0) as client,
        warnings.catch_warnings(record=True, action="always") as warned,
        cluster(client),
    ):
        run = others.submit(compared, lazy)
        scheduler = client.cluster.scheduler
        wait_until(lambda: len(scheduler.tasks) > 0)
        with worker_process(scheduler.address, has_nanny=has_nanny, path=without) as worker:
            worker.wait(HANG)  # it is closed
        wait_until(lambda: any("cannot import scorewise" in str(x.message) for x in warned))
        assert {task.suspicious for task in scheduler.tasks.values()} == {0}
        client.cluster.scale(1)
        assert run.result().best == compared(probs).best
    named = [str(x.message) for x in warned if "cannot import scorewise" in str(x.message)]
    assert len(named) == 1
    assert named[0].startswith("the worker tcp://127.0.0.1:")
    assert named[0].endswith("and start it again; it was closed, and got no work")


def test_a_worker_with_another_version_begins_no_task(tmp_path):
    def who(folder: Path) -> int:
        (folder / f"{os.getpid()}.txt").touch()
        return os.getpid()

    old = other_scorewise(tmp_path, OLD)
    (tmp_path / "ran").mkdir()
    with (
        local_cluster(0) as client,
        warnings.catch_warnings(record=True, action="always") as warned,
        cluster(client),
    ):
        tasks = client.map(who, [tmp_path / "ran"] * 20, pure=False)
        with worker_process(client.scheduler.address, path=old) as worker:
            worker.wait(HANG)
        wait_until(lambda: any("has scorewise 0.0.1" in str(x.message) for x in warned))
        assert not [*(tmp_path / "ran").iterdir()]
        client.cluster.scale(1)
        assert worker.pid not in client.gather(tasks)


def test_a_worker_with_another_version_that_joins_a_run_writes_nothing(tmp_path):
    dataset = Dataset.of(write_dataset(tmp_path / "in"))
    work = held_scores(tmp_path / "held", 4)
    with ThreadPoolExecutor(1) as others, local_cluster(1) as client:
        run = others.submit(
            write_partitions, dataset, work, tmp_path / "disturbed", scheduler=client
        )
        held_process(tmp_path / "held", run)
        with (
            pytest.warns(match=r"worker tcp\S+ has scorewise 0\.0\.1, and this process .* closed"),
            worker_process(client.scheduler.address, path=other_scorewise(tmp_path, OLD)) as worker,
        ):
            worker.wait(HANG)
        let_go(tmp_path / "held")
        run.result()
        write_partitions(dataset, work, tmp_path / "undisturbed", scheduler=client)
    assert contents(tmp_path / "disturbed") == contents(tmp_path / "undisturbed")


def test_blocks_at_the_same_time_share_the_check_of_workers():
    def plugins() -> list[str]:
        return [name for name in scheduler.worker_plugins if name.startswith("scorewise")]

    with local_cluster(1) as client, ExitStack() as first, ExitStack() as second:
        scheduler = client.cluster.scheduler
        first.enter_context(cluster(client))
        second.enter_context(cluster(client))
        first.close()
        assert len(plugins()) == 1
        second.close()
        assert plugins() == []


@pytest.mark.parametrize("code", ["raise OSError", "raise AttributeError('_ARRAY_API')", ""])
def test_a_worker_whose_scorewise_is_damaged_is_closed_when_it_joins(tmp_path, code):
    with (
        local_cluster(0) as client,
        warnings.catch_warnings(record=True, action="always") as warned,
        cluster(client),
        worker_process(client.scheduler.address, path=other_scorewise(tmp_path, code)) as worker,
    ):
        worker.wait(HANG)
        wait_until(lambda: any("cannot import scorewise" in str(x.message) for x in warned))


def test_a_worker_that_lives_and_does_not_answer_is_an_error(client, monkeypatch):
    [worker] = list(client.nthreads())[:1]
    answers = {worker: OSError("Timed out")}
    monkeypatch.setattr("scorewise.scale._cluster._LOOK_EVERY", 0.1)
    monkeypatch.setattr(client, "run", lambda *_, **__: answers)
    message = f"{worker} could not say its versions: Timed out"
    with pytest.raises(sw.InvalidInput, match=message), cluster(client):
        pass
    answers.clear()
    answers["tcp://127.0.0.1:1"] = OSError("it has died")
    with cluster(client):
        pass


def test_a_client_that_is_gone_closes_no_worker(tmp_path):
    code = """
import sys, time
from scorewise.scale import cluster
with cluster(sys.argv[1]):
    time.sleep(1000)
"""
    with local_cluster(1) as client:
        scheduler = client.cluster.scheduler
        clients = {*scheduler.clients}

        def has_plugin() -> bool:
            return any(name.startswith("scorewise") for name in scheduler.worker_plugins)

        with process("-c", code, scheduler.address):
            wait_until(has_plugin)
        wait_until(lambda: {*scheduler.clients} == clients)
        assert has_plugin()  # it was killed
        with worker_process(scheduler.address, path=other_scorewise(tmp_path, OLD)):
            client.wait_for_workers(2, timeout=HANG)
            submitted = client.map(abs, [-1] * 20, pure=False)
            assert client.gather(submitted) == [1] * 20
            assert len(client.nthreads()) == 2
        with cluster(client):
            pass
        assert not has_plugin()


def test_workers_of_a_client_that_computes_nothing_are_not_asked(monkeypatch, client):
    monkeypatch.setattr(sw, "__version__", "0.0.1")
    with client.as_current(), dask.config.set(scheduler="synchronous"):
        assert len(sw.acquire(da.arange(40, chunks=20), 1)) == 1


def test_work_on_dask_arrays_names_a_worker_with_another_version_first(monkeypatch, client):
    monkeypatch.setattr(sw, "__version__", "0.0.1")
    with (
        client.as_current(),
        pytest.raises(sw.InvalidInput, match=r"worker tcp.* has scorewise .* process 0\.0\.1"),
    ):
        sw.acquire(da.arange(40, chunks=20), 1)


def test_a_scheduler_without_scorewise_is_named_where_it_needs_it(tmp_path):
    source = write_dataset(tmp_path / "in", labels=True)
    with scheduler_process(tmp_path, path=other_scorewise(tmp_path, MISSING)) as (_, address):
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


def test_an_address_where_another_program_answers_is_an_error():
    code = """
import socket, threading
from scorewise import ScorewiseError
from scorewise.scale import cluster
web = socket.create_server(("127.0.0.1", 0))
def answer():
    while True:
        connection, _ = web.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request")
threading.Thread(target=answer, daemon=True).start()
try:
    with cluster(f"tcp://127.0.0.1:{web.getsockname()[1]}"):
        print("connected")
except ScorewiseError as error:
    text = str(error)
    print(text[: text.index("tcp")], text[text.index(": ") :])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANG
    )
    assert result.stdout.startswith("there is no Dask scheduler at ' : another program answers;")
    assert result.stderr == ""


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
