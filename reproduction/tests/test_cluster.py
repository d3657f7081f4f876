"""Cells on a Dask cluster, through joblib."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import joblib
import pytest
from distributed import Client, LocalCluster

from paper_support import SMALL, Maker, contents, reproduce
from scorewise_paper import EXPERIMENTS, Setup, Store, experiment, run
from scorewise_paper.errors import InvalidInput, ScorewiseError
from scorewise_paper.runs import FORESTS

# Dask leaves connections open that it was making to workers when they died.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    Maker(folder, 90, 40).tables()
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


def test_results_of_worker_processes_are_those_of_this_process(setup, tmp_path, address):
    assert run(["figure-1"], setup("cluster", address)).computed == SMALL.runs
    run(["figure-1"], setup("here"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


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


def test_experiments_with_forests_are_those_that_train_some():
    names = {
        name
        for name in EXPERIMENTS
        if "compute_forests" in vars(sys.modules[experiment(name).compute.__module__])
    }
    assert names == set(FORESTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("figure-2", "--scheduler", "local:1"), "figure-2: no forests are trained"),
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
    with pytest.raises(ScorewiseError, match="is not in"):
        run(["figure-1"], here)


def test_worker_without_the_package_is_named(setup, address):
    def forget(name: str) -> None:
        sys.modules[name] = None

    def import_again(name: str) -> None:
        del sys.modules[name]

    with Client(address) as client:
        client.run(forget, "scorewise_paper")
        with pytest.raises(InvalidInput, match="cannot import scorewise_paper"):
            run(["figure-1"], setup("results", address))
        client.run(import_again, "scorewise_paper")


def test_scheduler_decides_how_many_forests_are_trained_in_parallel():
    with pytest.raises(InvalidInput, match="n_jobs=2 is for this machine"):
        Setup("results", scheduler="local", n_jobs=2)


def _die(*_: object) -> None:
    os._exit(1)


def test_workers_that_die_are_reported(setup, address, monkeypatch):  # the last: none is left
    monkeypatch.setattr("scorewise_paper.rejection._forest", _die)
    with pytest.raises(ScorewiseError, match="workers of the cluster died"):
        run(["figure-1"], setup("results", address))
