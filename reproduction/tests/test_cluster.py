"""Cells on a Dask cluster, through joblib."""

from __future__ import annotations

from pathlib import Path

import joblib
from distributed import Client

from paper_support import SMALL, Maker
from scorewise_paper import Setup, Store, run


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
    on_cluster, on_this_machine = (
        Store(tmp_path / name).results("figure-1") for name in ("cluster", "here")
    )
    assert [x.cell.key for x in on_cluster] == [x.cell.key for x in on_this_machine]
    assert [x.numbers for x in on_cluster] == [x.numbers for x in on_this_machine]
