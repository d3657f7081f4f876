"""Cells on a Dask cluster: forests, and networks that learn side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError

from paper_support import SMALL, Maker, contents, reproduce
from scorewise_paper import Cell, Result, Setup, Store, learning, run
from scorewise_paper._files import marked, progress_bar
from scorewise_paper.errors import CorruptData, InvalidInput, ScorewiseError
from scorewise_paper.learning import _learn_together
from scorewise_paper.workers import in_groups, in_parallel

# Dask leaves connections open that it was making to workers when they died.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.usefixtures("one_torch_thread"),  # as on workers
]
LEARNERS = "active learning on mnist, 10 learners"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    maker = Maker(folder, 90, 40)
    for write in (maker.tables, maker.grey, maker.cifar, maker.out_of_distribution):
        write()
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of the scheduler of two worker processes."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    ) as started:
        yield started.scheduler_address


@pytest.fixture
def setup(data: Path, tmp_path: Path) -> Callable[..., Setup]:
    def make(name: str, scheduler: str | None = None, **options: object) -> Setup:
        return Setup(
            Store(tmp_path / name), SMALL, data, as_is=True, scheduler=scheduler, **options
        )

    return make


def test_forests_grow_on_a_cluster_that_joblib_is_configured_for(setup, tmp_path):
    with (
        Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"),
        joblib.parallel_config(backend="dask"),
    ):
        assert run(["figure-1"], setup("cluster")).computed == SMALL.runs
    run(["figure-1"], setup("here"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


@pytest.mark.parametrize("name", ["figure-1", "figure-2", "table-1"])
def test_results_of_worker_processes_are_those_of_this_process(name, setup, tmp_path, address):
    n_cells = run([name], setup("cluster", address)).computed
    assert n_cells == run([name], setup("here")).computed
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")
    assert not list(tmp_path.glob("cluster/unfinished/*"))


def test_stored_ensembles_are_aligned_on_workers_too(setup, address):
    numbers = []
    for here in (setup("cluster", address), setup("here")):
        run(["figure-sp-cifar10"], here)
        assert run(["alignment"], here).computed == 6  # forests and ensembles
        numbers.append({x.cell.name: x.numbers for x in here.store.results("alignment")})
    assert numbers[0] == numbers[1]


def test_stored_results_start_no_cluster(setup):
    run(["figure-1"], setup("results"))
    nobody = "tcp://127.0.0.1:9"
    assert run(["figure-1"], setup("results", nobody)).computed == 0


def test_command_trains_on_a_cluster_of_this_machine(data, tmp_path):
    options = ("--quick", "--as-is", "--data-dir", data, "--results", tmp_path / "results")
    result = reproduce("figure-1", *options, "--scheduler", "local:1", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["computed"] == 2


def test_relative_data_folder_becomes_absolute_as_workers_run_elsewhere(
    data, tmp_path, monkeypatch
):
    monkeypatch.chdir(data.parent)
    setup = Setup(tmp_path / "results", data_dir=Path("data"), scheduler="local:1")
    assert setup.data_dir == data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("figure-1", "--scheduler", "local:1", "--jobs", "2"), "leave out --jobs"),
        (("figure-1", "--scheduler", "here"), "'here'"),
        (("figure-1", "--scheduler", "local:0"), "local:"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(data, tmp_path, options, message):
    paths = ("--quick", "--as-is", "--data-dir", data, "--results", tmp_path)
    result = reproduce(*options, *paths)
    assert result.exit_code == 2
    assert message in result.output


def test_missing_distributed_is_named_with_the_way_to_install_it(setup, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'scorewise\[dask\]'"):
        run(["figure-1"], setup("results", "local:1"))


def test_data_that_workers_lack_is_named(setup, address, data, monkeypatch):
    here = setup("results", address)
    monkeypatch.setattr(Setup, "described", lambda *_: {})
    monkeypatch.setattr(Setup, "has", lambda *_: True)
    object.__setattr__(here, "data_dir", data / "nowhere")
    with pytest.raises(ScorewiseError, match=r"the worker tcp://.* is not in .*same path"):
        run(["figure-1"], here)


@pytest.mark.parametrize("name", ["figure-1", "table-1"])
def test_worker_with_other_data_is_named(name, setup, address, monkeypatch):
    here, described = setup("results", address), Setup.described

    def of_older_files(self, *sets):
        return {name: x | {"digest": "old"} for name, x in described(self, *sets).items()}

    monkeypatch.setattr(Setup, "described", of_older_files)
    with pytest.raises(CorruptData, match=r"the worker tcp://.*/train has other content"):
        run([name], here)


def test_worker_without_the_device_is_named(setup, address):
    missing = r"the worker tcp://.*the device 'abacus' cannot be used"
    with pytest.raises(InvalidInput, match=missing):
        run(["figure-2"], setup("results", address, device="abacus"))


@pytest.mark.parametrize(
    ("package", "name"), [("scorewise_paper", "figure-1"), ("torch", "figure-2")]
)
def test_worker_without_a_package_is_named(package, name, setup, address):
    def forget(name: str) -> None:
        sys.modules[f"hidden {name}"] = sys.modules.get(name)
        sys.modules[name] = None

    def import_again(name: str) -> None:
        sys.modules[name] = sys.modules.pop(f"hidden {name}")

    with Client(address) as client:
        client.run(forget, package)
        with pytest.raises(InvalidInput, match=f"the worker tcp://.* cannot import {package}"):
            run([name], setup("results", address))
        client.run(import_again, package)


def test_scheduler_decides_how_many_forests_are_trained_in_parallel():
    with pytest.raises(InvalidInput, match="n_jobs=2 is for this machine"):
        Setup("results", scheduler="local", n_jobs=2)


# -- networks --------------------------------------------------------------------------------------


def _dies_after_a_round(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Learn, and note the steps; the process dies after the first of all."""
    notes = setup.data_dir.parent / "notes"

    def report(task: str, done: int, total: int) -> None:
        is_first = not notes.exists()
        with notes.open("a") as file:
            file.write(f"{done} of {total}\n")
        if is_first:
            os._exit(1)

    yield from _learn_together(replace(setup, progress=report), cells)


def test_networks_of_a_lost_worker_continue_from_their_checkpoint(
    setup, tmp_path, data, address, monkeypatch
):
    notes = data.parent / "notes"
    notes.unlink(missing_ok=True)
    with monkeypatch.context() as patch:
        patch.setattr(learning, "_learn_together", _dies_after_a_round)
        run(["figure-al-more"], setup("cluster", address))
    run(["figure-al-more"], setup("here"))
    assert notes.read_text().splitlines()[:3] == ["1 of 3", "1 of 2", "2 of 2"]
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


def test_workers_that_cannot_reach_the_results_write_no_files_there(
    setup, tmp_path, address, monkeypatch
):
    nowhere = nullcontext(tmp_path / "another machine" / "mark")
    with monkeypatch.context() as patch:
        patch.setattr("scorewise_paper.workers.marked", lambda _: nowhere)
        run(["figure-sp-cifar10"], setup("cluster", address))
    run(["figure-sp-cifar10"], setup("here"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")
    assert list(tmp_path.glob("here/networks/*"))
    assert not list(tmp_path.glob("cluster/networks/*"))


def test_steps_of_workers_are_shown(setup, address, capsys):
    run(["figure-2"], setup("results", address, progress=True))
    assert f"{LEARNERS}: 1 of 3" in capsys.readouterr().err


def _steps_until_cancelled(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    if not cells[0].setting["run"]:
        yield cells[0], Result({})
        return
    try:
        with progress_bar("steps", None, setup.progress) as bar:
            while True:
                bar.update(1)
                (setup.store.folder / "begun").touch()
                time.sleep(0.01)
    finally:
        (setup.store.folder / "ended").touch()


def _wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < until, "it hangs"
        time.sleep(0.01)


def test_networks_of_a_run_that_has_ended_stop_at_their_next_step(setup, address):
    here = setup("results", address, progress=False)
    groups = [[Cell("figure-2", 1, {"run": i, "sets": {}})] for i in range(2)]
    results = in_groups(here, _steps_until_cancelled, groups)
    next(results)
    _wait_until((here.store.folder / "begun").exists)
    results.close()
    _wait_until((here.store.folder / "ended").exists)


_at_once: list[int] = []


def _alone(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    _at_once.append(1)
    time.sleep(0.2)
    yield cells[0], Result({"at once": len(_at_once)})
    _at_once.pop()


def test_worker_of_several_threads_takes_one_group_at_a_time(setup):
    groups = [[Cell("figure-2", 1, {"run": i, "sets": {}})] for i in range(3)]
    with LocalCluster(**_THREADS | {"threads_per_worker": 3}) as started:
        here = setup("results", started.scheduler_address, progress=False)
        assert [x.numbers["at once"] for _, x in in_groups(here, _alone, groups)] == [1, 1, 1]


_THREADS: dict[str, Any] = {
    "n_workers": 1,
    "threads_per_worker": 1,
    "processes": False,
    "host": "127.0.0.1",
    "protocol": "tcp",
    "dashboard_address": "127.0.0.1:0",
}


def _run_of(_: Setup, cell: Cell) -> int:
    return cell.setting["run"]


@pytest.mark.parametrize("kind", ["cells", "groups"])
def test_work_that_waits_for_workers_says_so(kind, setup, monkeypatch):
    monkeypatch.setattr("scorewise.scale._cluster._LOOK_EVERY", 0.1)
    cells = [Cell("figure-2", 1, {"run": i, "sets": {}}) for i in range(3)]
    with (
        LocalCluster(**_THREADS) as started,
        warnings.catch_warnings(record=True, action="always") as warned,
        ThreadPoolExecutor(1) as threads,
    ):
        here = setup("results", started.scheduler_address, progress=False)
        if kind == "cells":
            results = in_parallel(here, _run_of, cells)
        else:
            results = in_groups(here, _alone, [[cell] for cell in cells])
        next(results)
        started.scale(0)
        _wait_until(lambda: not started.scheduler.workers)
        rest = threads.submit(list, results)
        _wait_until(lambda: len(warned) > 0)
        assert "has no workers; waiting for one" in str(warned[0].message)
        started.scale(1)
        assert len(rest.result()) == 2


def test_steps_of_workers_are_passed_to_a_function(setup):
    steps: list[tuple[str, int, int]] = []
    groups = [[Cell("figure-2", 1, {"run": i, "sets": {}})] for i in range(2)]
    with LocalCluster(**_THREADS) as started:
        here = setup("results", started.scheduler_address, progress=lambda *x: steps.append(x))
        assert len([*in_groups(here, _three_steps, groups)]) == 2
        _wait_until(lambda: len(steps) == 6)
    assert sorted(steps) == sorted([("steps", done, 3) for done in (1, 2, 3)] * 2)


def _three_steps(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    with progress_bar("steps", 3, setup.progress) as bar:
        for _ in range(3):
            bar.update(1)
    yield cells[0], Result({})


def test_each_task_gets_the_values_of_its_cell_alone(setup):
    cells = [Cell("figure-2", 1, {"run": i, "sets": {}}) for i in range(3)]
    with LocalCluster(**_THREADS) as started:
        for here in (setup("here"), setup("cluster", started.scheduler_address)):
            results = in_parallel(here, lambda _, cell, *x: (cell.setting["run"], x), cells, "abc")
            assert sorted(results) == [(0, ("a",)), (1, ("b",)), (2, ("c",))]


def test_scheduler_needs_no_package(setup, tmp_path):
    (tmp_path / "without").mkdir()
    for name in ("scorewise", "scorewise_paper"):
        (tmp_path / f"without/{name}.py").write_text(f"raise ModuleNotFoundError('{name}')")
    file = tmp_path / "scheduler.json"
    options = ("--scheduler-file", file, "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    with _process("dask_scheduler", *options, path=tmp_path / "without"):
        _wait_until(lambda: file.exists() and bool(file.read_text()))
        address = json.loads(file.read_text())["address"]
        with _process("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"):
            with Client(address) as probe:
                probe.wait_for_workers(1)
            assert run(["figure-1"], setup("results", address)).computed == SMALL.runs
            with pytest.raises(InvalidInput, match="the device 'abacus' cannot be used"):
                run(["figure-2"], setup("results", address, device="abacus"))


@contextmanager
def _process(program: str, *arguments: object, path: Path | None = None) -> Iterator[None]:
    paths = [*filter(None, [path, *sys.path])]
    with subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{program}", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as started:
        try:
            yield
        finally:
            started.kill()


def _forget_this_project(_: Setup, cell: Cell) -> int:
    for name in [name for name in sys.modules if name.partition(".")[0] == "scorewise_paper"]:
        del sys.modules[name]
    sys.modules["scorewise_paper"] = None
    return cell.setting["run"]


def test_worker_that_joins_without_a_package_is_named(setup):
    cells = [Cell("figure-2", 1, {"run": i, "sets": {}}) for i in range(2)]
    with LocalCluster(**_THREADS | {"processes": True}) as started:
        results = in_parallel(
            setup("results", started.scheduler_address), _forget_this_project, cells
        )
        next(results)
        with pytest.raises(InvalidInput, match=r"worker tcp://.* cannot import scorewise_paper"):
            next(results)


def test_scheduler_that_is_lost_while_packages_are_checked_is_an_error(setup, address, monkeypatch):
    def lost(*_: object) -> None:
        raise CommClosedError("the other end is closed")

    monkeypatch.setattr("scorewise_paper.workers._check_packages", lost)
    with pytest.raises(ScorewiseError, match="the scheduler was lost"):
        run(["figure-2"], setup("results", address))


def test_marks_of_killed_processes_are_removed(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from scorewise_paper._files import marked\n"
        "with marked(Path(sys.argv[1])): os._exit(1)"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, tmp_path / "run"], check=False)
        assert len([*tmp_path.iterdir()]) == 1
    with marked(tmp_path / "run") as mark, marked(tmp_path / "run") as other:
        assert len([*tmp_path.iterdir()]) == 2
        assert mark.is_file()
        assert other.is_file()
    assert not [*tmp_path.iterdir()]


def _die(*_: object) -> None:
    os._exit(1)


def test_workers_that_die_are_reported(setup, address, monkeypatch):  # the last: none is left
    monkeypatch.setattr("scorewise_paper.rejection._forest", _die)
    with pytest.raises(ScorewiseError, match="workers of the cluster died"):
        run(["figure-1"], setup("results", address))
