"""Cells on a Dask cluster, through joblib."""

from __future__ import annotations

from pathlib import Path

import joblib
from distributed import Client

from paper_support import SMALL, Maker
from scorewise.paper import Setup, Store, run


def test_forests_grow_on_a_cluster(tmp_path: Path):
    Maker(tmp_path / "data", 90, 40).tables()

    def setup(name: str) -> Setup:
        return Setup(Store(tmp_path / name), SMALL, tmp_path / "data", as_is=True)

    with (
        Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None),
        joblib.parallel_config(backend="dask"),
    ):
        assert run(["figure-1"], setup("cluster")).computed == SMALL.runs
    run(["figure-1"], setup("here"))
    found = {name: list(Store(tmp_path / name).results()) for name in ("cluster", "here")}
    assert [one.cell.key for one in found["cluster"]] == [one.cell.key for one in found["here"]]
    for there, here in zip(found["cluster"], found["here"], strict=True):
        assert there.numbers == here.numbers
