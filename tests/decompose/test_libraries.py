"""The core runs on every array library, on its own arrays."""

import importlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from support import Library, all_rules, by_array, may_rechunk, members


@pytest.mark.parametrize("k", [2, 4])
def test_every_library_gives_numpys_numbers_in_its_own_arrays(xp: Library, k: int):
    probs = members(6, 5, k)
    weights = np.random.default_rng(1).uniform(size=(6, 5))
    expected = sw.decompose(probs, all_rules(k), weights=weights)
    got = sw.decompose(xp.asarray(probs), all_rules(k), weights=xp.asarray(weights))
    for name, d in got.items():
        for ours, reference in zip(d, expected[name], strict=True):
            assert xp.owns(ours)
            np.testing.assert_allclose(xp.to_numpy(ours), reference, rtol=1e-12, atol=1e-15)


def test_one_block_or_many_give_the_same_numbers():
    probs = members(4000, 10, 20)
    whole = sw.decompose(probs, list(all_rules(20).values())[:5])
    for start in (0, 1234, 3999):
        part = sw.decompose(probs[start : start + 1], list(all_rules(20).values())[:5])
        for name in whole:
            for a, b in zip(whole[name], part[name], strict=True):
                np.testing.assert_allclose(a[start : start + 1], b, rtol=1e-13, atol=1e-16)


def test_all_options_on_every_library(xp: Library):
    probs = members(6, 5, 3)
    x = xp.asarray(np.moveaxis(probs, 1, 0))
    smooth = {n: r for n, r in all_rules(3).items() if not isinstance(r, sw.rules.DecisionRule)}
    weights = np.arange(1.0, 6)
    options = {"unbiased": True, "standard_errors": True}
    expected = sw.decompose(probs, smooth, weights=weights, **options)
    got = sw.decompose(x, smooth, member_axis=0, weights=xp.asarray(weights), **options)
    for name, d in got.items():
        for a, b in zip(d, expected[name], strict=True):
            np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-11)
        for a, b in zip(d.standard_error, expected[name].standard_error, strict=True):
            np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-9)


def test_logits_on_every_library(xp: Library):
    logits = np.random.default_rng(0).normal(size=(4, 3, 5)) * 3
    logits[0, 0, 1] = -np.inf
    p = np.exp(logits - logits.max(-1, keepdims=True))
    expected = sw.decompose(p, "log", normalize=True)
    got = sw.decompose(xp.asarray(logits), "log", from_logits=True)
    np.testing.assert_allclose(xp.to_numpy(got.epistemic), expected.epistemic, rtol=1e-12)


def test_accumulator_on_every_library(xp: Library):
    probs = members(6, 5, 4)
    acc = sw.Accumulator(all_rules(4))
    for m in range(5):
        acc.update(xp.asarray(probs[:, m]), weight=m + 1.0)
    expected = sw.decompose(probs, all_rules(4), weights=np.arange(1.0, 6))
    for name, d in acc.result().items():
        for a, b in zip(d, expected[name], strict=True):
            np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-11, atol=1e-14)


def test_dirichlet_on_every_library(xp: Library):
    alpha = np.random.default_rng(0).uniform(0.5, 9, (3, 4))
    for name, rule in all_rules(4).items():
        expected = sw.decompose(sw.Dirichlet(alpha), rule)
        got = sw.decompose(sw.Dirichlet(xp.asarray(alpha)), rule)
        for a, b in zip(got, expected, strict=True):
            assert xp.owns(a), name
            np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-11, err_msg=name)


def test_rule_methods_on_every_library(xp: Library):
    p, q = members(2, 6, 4)
    y = np.array([0, 3, 1, 2, 2, 0])
    for name, rule in all_rules(4).items():
        for got, expected in (
            (rule.loss_vector(xp.asarray(p)), rule.loss_vector(p)),
            (rule.loss(xp.asarray(p), xp.asarray(y)), rule.loss(p, y)),
            (rule.divergence(xp.asarray(q), xp.asarray(p)), rule.divergence(q, p)),
            (rule.expected_loss(xp.asarray(q), xp.asarray(p)), rule.expected_loss(q, p)),
        ):
            np.testing.assert_allclose(xp.to_numpy(got), expected, rtol=1e-12, err_msg=name)


def test_half_precision_computes_in_float32_and_returns_it():
    import torch

    probs = members(5, 4, 3)
    for x in (
        probs.astype(np.float16),
        torch.asarray(probs).to(torch.bfloat16),
        torch.asarray(probs).to(torch.float16),
    ):
        d = sw.decompose(x, "log")
        assert str(d.epistemic.dtype).endswith("float32")
        np.testing.assert_allclose(
            np.asarray(d.epistemic), sw.decompose(probs, "log").epistemic, atol=0.02
        )


def test_torch_gradients_flow_and_are_right():
    import torch

    for name, rule in all_rules(3).items():
        logits = torch.asarray(members(1, 3, 3)[0]).log().requires_grad_()

        def uncertainty(z, rule=rule):
            d = sw.decompose(z, rule, from_logits=True)
            return d.total + 2 * d.aleatoric + 3 * d.epistemic

        assert torch.autograd.gradcheck(uncertainty, (logits,)), name


def test_torch_gradients_are_finite_at_corners_and_for_identical_members():
    import torch

    corner = torch.eye(3, dtype=torch.float64)[None].repeat(2, 1, 1)
    same = torch.full((2, 4, 3), 1 / 3, dtype=torch.float64)
    for name, rule in all_rules(3).items():
        for p in (corner.clone(), same.clone()):
            p.requires_grad_()
            d = sw.decompose(p, rule)
            (d.aleatoric.sum() + d.epistemic.sum()).backward()
            if not name.endswith("log"):  # −log p has an infinite slope at 0
                assert torch.isfinite(p.grad).all(), name


def test_standard_errors_have_gradients_where_members_are_identical():
    import torch

    probs = torch.full((3, 4), 0.25, dtype=torch.float64, requires_grad=True)
    for name, rule in all_rules(4).items():
        errors = sw.decompose(probs, rule, standard_errors=True).standard_error
        (slope,) = torch.autograd.grad(sum(errors), probs)
        assert torch.isfinite(slope).all(), name


def test_torch_autocast_does_not_lower_the_precision():
    import torch

    probs = torch.asarray(members(50, 5, 4).astype(np.float32))
    expected = sw.decompose(probs, all_rules(4))
    with torch.autocast("cpu", torch.bfloat16):
        for name, d in sw.decompose(probs, all_rules(4)).items():
            for a, b in zip(d, expected[name], strict=True):
                assert a.dtype == torch.float32
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_list_of_members_keeps_its_library_and_its_gradients():
    import torch

    logits = torch.zeros(7, 3, requires_grad=True)
    outputs = [torch.softmax(logits * (m + 1), dim=-1) for m in range(3)]
    d = sw.decompose(outputs, "log", member_axis=0)
    assert isinstance(d.total, torch.Tensor)
    assert d.total.requires_grad
    with pytest.raises(sw.InvalidInput, match="must have the same rows"):
        sw.decompose([outputs[0], outputs[1][:3]], "log", member_axis=0)


def test_a_single_image_is_taken_apart_in_blocks_too():
    probs = np.moveaxis(members(128 * 256, 5, 10).astype(np.float32), 0, -1)
    probs = np.ascontiguousarray(probs.reshape(5, 1, 10, 128, 256))
    tracemalloc.start()
    d = by_array(probs, ["log", "brier"], member_axis=0, class_axis=2)["log"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert d.total.shape == (1, 128, 256)
    assert peak < 2 * probs.nbytes


@pytest.mark.parametrize("option", ["normalize", "from_logits"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rows_stay_equal_over_a_strided_class_axis(option: str, dtype: str):
    import torch

    for k in (3, 17, 33, 100):
        rows = np.random.default_rng(k).uniform(0.1, 3, (k, 7, 1)).astype(dtype)
        probs = torch.asarray(np.repeat(rows, 5, axis=2))
        for name in ("log", "brier", "spherical", "tsallis:1.5"):
            d = sw.decompose(probs, name, class_axis=0, member_axis=2, **{option: True})
            assert (d.epistemic == 0).all(), (name, k)


def test_memory_maps_and_lists_of_arrays_are_welcome(tmp_path):
    probs = members(6, 5, 4)
    stored = np.memmap(tmp_path / "probs", dtype=np.float64, mode="w+", shape=probs.shape)
    stored[:] = probs
    expected = sw.decompose(probs, "log").epistemic
    for predictions in (stored, list(probs.swapaxes(0, 1)), probs.tolist()):
        got = sw.decompose(predictions, "log").epistemic
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, expected)


@may_rechunk
def test_dask_arrays_stay_lazy_and_agree():
    import dask.array as da

    probs = members(50, 6, 3)
    weights = np.random.default_rng(0).uniform(size=(50, 6))
    lazy = da.from_array(probs, chunks=(16, 2, 2))
    choices = [
        {},
        {"weights": weights},
        {"weights": weights[0]},
        {"weights": da.from_array(weights, chunks=(7, 3))},
        {"weights": da.from_array(weights[0], chunks=4)},
        {"standard_errors": True},
    ]
    for options in choices:
        got = sw.decompose(lazy, all_rules(3), **options)
        eager = {k: np.asarray(v) if k == "weights" else v for k, v in options.items()}
        expected = sw.decompose(probs, all_rules(3), **eager)
        for name, d in got.items():
            assert isinstance(d.total, da.Array)
            for a, b in zip(d, expected[name], strict=True):
                np.testing.assert_allclose(a.compute(), b, rtol=1e-12, atol=1e-15)
    moved = da.from_array(np.moveaxis(probs, 1, 0), chunks=(6, 10, 3))
    np.testing.assert_allclose(
        sw.decompose(moved, "log", member_axis=0).epistemic.compute(),
        sw.decompose(probs, "log").epistemic,
    )


def test_dask_refuses_at_once_what_needs_no_values():
    import dask.array as da

    lazy = da.from_array(members(50, 6, 3), chunks=(16, 6, 3))
    with pytest.raises(sw.InvalidInput, match="is for 2 classes"):
        sw.decompose(lazy, sw.rules.cost_matrix(np.eye(2)))
    with pytest.raises(sw.InvalidInput, match="no members"):
        sw.decompose(lazy[:, :0], "log")
    with pytest.raises(sw.InvalidInput, match="member_axis=5 is not an axis of probs"):
        sw.decompose(lazy, "log", member_axis=5)


def test_dask_reports_a_bad_row_when_its_block_is_computed():
    import dask.array as da

    probs = members(50, 6, 3)
    probs[37, 2, 1] = np.nan
    d = sw.decompose(da.from_array(probs, chunks=(16, 6, 3)), "log")
    with pytest.raises(sw.InvalidInput, match=r"probs\[37, 2, 1\] is nan"):
        d.epistemic.compute()


def as_blocks_of(put: Callable[..., Any], values: np.ndarray, chunks: tuple[int, ...]) -> Any:
    """A Dask array whose blocks are arrays of another library."""
    import dask.array as da

    meta = np.empty((0,) * values.ndim, values.dtype)
    return da.from_array(values, chunks=chunks).map_blocks(put, dtype=values.dtype, meta=meta)


def computed_blocks(lazy: Any) -> list[Any]:
    """The blocks of a Dask array, which are not joined."""
    return [block.compute(scheduler="synchronous") for block in lazy.to_delayed().ravel()]


@pytest.mark.parametrize(("library", "path"), [("torch", "cpu"), ("array_api_strict", "array")])
@pytest.mark.parametrize("member_chunk", [6, 2])
def test_each_block_of_a_dask_array_takes_the_path_of_its_own_library(
    library: str, path: str, member_chunk: int
):
    module = importlib.import_module(library)
    probs, weights = members(50, 6, 3), np.arange(1.0, 7)
    lazy = as_blocks_of(module.asarray, probs, (16, member_chunk, 3))
    rules = ["log", "brier", "zero-one", "spherical"]
    for block in computed_blocks(lazy):
        assert sw.explain_kernel(block, rules).path == path
    for options in ({}, {"weights": weights}):
        expected = sw.decompose(probs, rules, **options)
        for name, d in sw.decompose(lazy, rules, **options).items():
            for ours, reference in zip(d, expected[name], strict=True):
                blocks = computed_blocks(ours)
                assert all(type(block) is type(module.asarray([1.0])) for block in blocks)
                joined = np.concatenate([np.asarray(block) for block in blocks])
                np.testing.assert_allclose(joined, reference, rtol=1e-12, atol=1e-15)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("member_chunk", [20, 5])
def test_blocks_of_cupy_are_decomposed_on_the_gpu(member_chunk: int, dtype: str):
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no CUDA device")
    import dask
    import dask.array as da

    probs = members(3000, 20, 10).astype(dtype)
    weights = np.arange(1.0, 21).astype(dtype)
    lazy = da.from_array(cupy.asarray(probs), chunks=(1000, member_chunk, 10), asarray=False)
    torch = pytest.importorskip("torch")
    has_kernel = torch.version.cuda is not None and torch.cuda.is_available()
    rules = ["log", "brier", "zero-one", "spherical"]
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if dtype == "float32" else {"rtol": 1e-11}
    with dask.config.set(scheduler="synchronous"):
        for block in computed_blocks(lazy):
            assert type(block) is cupy.ndarray
            path = "cuda" if dtype == "float32" and has_kernel else "array"
            assert sw.explain_kernel(block, rules).path == path
        for options in ({}, {"weights": weights}, {"weights": cupy.asarray(weights)}):
            on_host = dict.fromkeys(options, weights)
            expected = sw.decompose(probs, rules, **on_host)
            for name, d in sw.decompose(lazy, rules, **options).items():
                for ours, reference in zip(d, expected[name], strict=True):
                    assert ours.chunks == ((1000, 1000, 1000),)
                    assert all(type(block) is cupy.ndarray for block in computed_blocks(ours))
                    got = ours.compute()
                    assert type(got) is cupy.ndarray
                    np.testing.assert_allclose(got.get(), reference, err_msg=name, **tolerance)
        same = cupy.asarray(np.repeat(probs[:, :1], 20, axis=1))
        agreeing = da.from_array(same, chunks=(1000, member_chunk, 10), asarray=False)
        assert (sw.decompose(agreeing, "log").epistemic.compute() == 0).all()


@pytest.mark.gpu
def test_dask_arrays_of_cupy_are_evaluated_and_acquired_from():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no CUDA device")
    import dask
    import dask.array as da

    probs = members(3000, 20, 4)
    y = probs.mean(1).argmax(-1)
    y[::7] = (y[::7] + 1) % 4
    lazy = da.from_array(cupy.asarray(probs), chunks=(1000, 20, 4), asarray=False)
    on_host = da.from_array(probs, chunks=(1000, 20, 4))
    quick = {"n_resamples": 200, "progress": False}
    with dask.config.set(scheduler="synchronous"):
        expected = sw.evaluate(on_host, y, **quick)
        for labels in (y, cupy.asarray(y)):
            evaluation = sw.evaluate(lazy, labels, **quick)
            assert evaluation.loss == pytest.approx(expected.loss, rel=1e-12)
            for name, curve in expected.curves.items():
                assert evaluation.curves[name].aulc == pytest.approx(curve.aulc, rel=1e-9)
        scores, scores_on_host = (sw.decompose(x, "log").epistemic for x in (lazy, on_host))
        for method in ("top", "power", "softrank"):
            rows = sw.acquire(scores, 20, method, random_state=0)
            expected_rows = sw.acquire(scores_on_host, 20, method, random_state=0)
            np.testing.assert_array_equal(rows, expected_rows)
        batch, expected_batch = (
            sw.acquire_batch(x, 5, "log", random_state=0) for x in (lazy, on_host)
        )
        np.testing.assert_array_equal(batch.rows, expected_batch.rows)


@pytest.fixture(params=["torch", "cupy"])
def gpu(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], Callable[..., np.ndarray]]:
    """Functions that put an array on the GPU, and get one from there."""
    library = request.param
    module = pytest.importorskip(library)
    if not module.cuda.is_available():
        pytest.skip("no CUDA device")

    def put(x):
        return module.asarray(x, device="cuda") if library == "torch" else module.asarray(x)

    def get(x):
        assert type(x) is type(put(np.ones(1)))
        assert x.device == put(np.ones(1)).device
        return x.cpu().numpy() if library == "torch" else x.get()

    return put, get


@pytest.mark.gpu
def test_labels_on_a_gpu_give_losses_there_and_policies(gpu):
    put, get = gpu
    probs = members(200, 5, 4)
    y = probs.mean(1).argmax(-1)
    y[:20] = (y[:20] + 1) % 4
    for rule in ("log", "zero-one"):
        losses = get(sw.task_losses(put(probs), put(y), rule))
        np.testing.assert_allclose(losses, sw.task_losses(probs, y, rule), rtol=1e-12)
    policy = sw.certify(put(probs), put(y), max_loss=0.3)
    assert policy.certificate == sw.certify(probs, y, max_loss=0.3).certificate
    np.testing.assert_array_equal(policy.apply(put(probs)).accepted, policy.apply(probs).accepted)


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there_and_keep_the_laws(gpu):
    put, get = gpu
    probs, weights = members(6, 5, 4), np.arange(1.0, 6)
    same = np.repeat(members(50, 1, 4), 5, axis=1)
    acc = sw.Accumulator(all_rules(4))
    for m in range(5):
        acc.update(put(probs[:, m]), weight=weights[m])
    accumulated = acc.result()
    for name, d in sw.decompose(put(probs), all_rules(4), weights=put(weights)).items():
        expected = sw.decompose(probs, all_rules(4)[name], weights=weights)
        for a, b, c in zip(d, expected, accumulated[name], strict=True):
            np.testing.assert_allclose(get(a), b, rtol=1e-11, atol=1e-14, err_msg=name)
            np.testing.assert_allclose(get(c), b, rtol=1e-11, atol=1e-14, err_msg=name)
        assert (get(sw.decompose(put(same), all_rules(4)[name]).epistemic) == 0).all(), name
    alpha = np.random.default_rng(0).uniform(0.3, 90, (5, 4))
    for name, rule in all_rules(4).items():
        on_host = sw.decompose(sw.Dirichlet(alpha), rule)
        for a, b in zip(sw.decompose(sw.Dirichlet(put(alpha)), rule), on_host, strict=True):
            np.testing.assert_allclose(get(a), b, rtol=1e-11, err_msg=name)
    probs[3, 1, 2] = np.nan
    with pytest.raises(sw.InvalidInput, match=r"probs\[3, 1, 2\] is nan"):
        sw.decompose(put(probs), "log")
