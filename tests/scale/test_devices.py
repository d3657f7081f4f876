"""Dask arrays whose blocks are on a device that NumPy cannot read; a stand-in for CuPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import dask
import dask.array as da
import numpy as np
import pytest

import scorewise as sw
from support import members

DEVICE, HOST = array_api_strict.Device("device1"), array_api_strict.Device("CPU_DEVICE")
RULES = ["log", "brier", "zero-one", "spherical"]
PROBS = members(300, 6, 4)
Y = np.where(np.arange(300) % 7, PROBS.mean(1).argmax(-1), (PROBS.mean(1).argmax(-1) + 1) % 4)
QUICK = {"n_resamples": 200, "progress": False}


@pytest.fixture(autouse=True)
def like_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the device come to the host by ``get`` alone, as CuPy's do."""
    kind = type(array_api_strict.asarray([1.0]))
    monkeypatch.setattr(kind, "get", lambda self: np.asarray(self.to_device(HOST)), raising=False)
    monkeypatch.setattr("array_api_compat.is_cupy_array", lambda x: isinstance(x, kind))


def put(values: np.ndarray) -> Any:
    return array_api_strict.asarray(values, device=DEVICE)


def lazy(values: np.ndarray, *chunks: int) -> Any:
    """A Dask array whose blocks are on the device."""
    meta = np.empty((0,) * values.ndim, values.dtype)
    on_host = da.from_array(values, chunks=chunks)
    return on_host.map_blocks(put, dtype=values.dtype, meta=meta)


@pytest.fixture(autouse=True)
def in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def test_numpy_cannot_read_them():
    with pytest.raises(RuntimeError, match="device"):
        np.asarray(put(PROBS))


@pytest.mark.parametrize("member_chunk", [6, 2])
@pytest.mark.parametrize("options", [{}, {"weights": np.arange(1.0, 7)}])
def test_blocks_are_decomposed_on_their_device(member_chunk: int, options: dict[str, Any]):
    expected = sw.decompose(PROBS, RULES, **options)
    pool = lazy(PROBS, 100, member_chunk, 4)
    for name, d in sw.decompose(pool, RULES, **options).items():
        for ours, reference in zip(d, expected[name], strict=True):
            blocks = [block.compute() for block in ours.to_delayed()]
            assert all(block.device == DEVICE for block in blocks)
            joined = np.concatenate([block.get() for block in blocks])
            np.testing.assert_allclose(joined, reference, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("put_labels", [np.asarray, put, lambda y: lazy(y, 100)])
def test_they_are_evaluated_as_on_the_host(put_labels: Callable[..., Any]):
    expected = sw.evaluate(da.from_array(PROBS, chunks=(100, 6, 4)), Y, **QUICK)
    evaluation = sw.evaluate(lazy(PROBS, 100, 6, 4), put_labels(Y), **QUICK)
    assert str(evaluation) == str(expected)
    assert evaluation.loss == expected.loss


def test_own_scores_on_the_device_are_compared():
    own = PROBS[:, 0, 0]
    on_host = da.from_array(PROBS, chunks=(100, 6, 4))
    expected = sw.compare(on_host, Y, scores={"own": own}, random_state=0, **QUICK)
    pool = lazy(PROBS, 100, 6, 4)
    for scores in (put(own), lazy(own, 100)):
        comparison = sw.compare(pool, Y, scores={"own": scores}, random_state=0, **QUICK)
        assert comparison["own"].value == expected["own"].value


@pytest.mark.parametrize("method", ["top", "power", "softmax", "softrank", "random"])
def test_rows_are_acquired_as_on_the_host(method: str):
    on_host = da.from_array(PROBS, chunks=(100, 6, 4))
    scores, expected = (
        sw.acquire(sw.decompose(pool, "log").epistemic, 20, method, random_state=0)
        for pool in (lazy(PROBS, 100, 6, 4), on_host)
    )
    np.testing.assert_array_equal(scores, expected)
