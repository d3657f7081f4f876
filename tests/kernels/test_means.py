"""Means and variances by class of the CPU kernel: as the array path, and which path ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import cpu
from support import members

SHAPES = [(1, 1, 2), (7, 3, 2), (33, 5, 3), (17, 300, 4), (5, 20, 49), (3, 4, 130), (0, 3, 4)]
TOLERANCE = {"float32": 2e-7, "float64": 1e-14}


@contextmanager
def calls_of(name: str) -> Iterator[list[bool]]:
    """The answers of a function of the compiled module."""
    answers: list[bool] = []

    class Spy:
        def __getattr__(self, other: str) -> Any:
            function = getattr(native, other)

            def call(*arguments: Any) -> Any:
                answer = function(*arguments)
                if other == name:
                    answers.append(answer)
                return answer

            return call

    with pytest.MonkeyPatch.context() as patch:
        native = cpu._native
        patch.setattr(cpu, "_native", Spy())
        yield answers


def by_arrays(function: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "_native", None)
        return function(*arguments, **options)


def layouts(probs: np.ndarray) -> list[tuple[np.ndarray, dict[str, Any]]]:
    return [
        (probs, {}),
        (np.ascontiguousarray(probs.swapaxes(0, 1)), {"member_axis": 0}),
        (np.ascontiguousarray(probs.transpose(1, 2, 0)), {"member_axis": 0, "class_axis": 1}),
        (np.repeat(probs, 2, axis=2)[:, :, ::2], {}),
        (probs[::-1, :, ::-1], {}),
        (np.log(probs), {"from_logits": True}),
        (probs * probs.dtype.type(3), {"normalize": True}),
    ]


def weights_of(n: int, m: int) -> list[np.ndarray | None]:
    rng = np.random.default_rng(1)
    return [None, np.arange(m) + 0.5, rng.uniform(size=(n, m)) ** 4]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_label_wise_is_that_of_the_array_path(shape, dtype):
    for values, options in layouts(members(*shape, concentration=2.0).astype(dtype)):
        for w in weights_of(*shape[:2]):
            with calls_of("average") as answers:
                got = sw.label_wise(values, weights=w, **options)
            assert all(answers)
            assert answers or not shape[0]
            expected = by_arrays(sw.label_wise, values, weights=w, **options)
            for a, b in zip(got, expected, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=50 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_variances_are_exactly_zero_for_identical_members_and_keep_their_digits(dtype):
    same = np.repeat(members(20, 1, 5), 7, axis=1).astype(dtype)
    for w in (None, np.arange(7.0)):
        assert (sw.label_wise(same, weights=w).epistemic == 0).all()
    near = same.astype(np.float64) * (1 + 1e-5 * np.random.default_rng(0).normal(size=same.shape))
    near = (near / near.sum(axis=-1, keepdims=True)).astype(dtype)
    exact = near.astype(np.longdouble).var(axis=1)
    rtol = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(sw.label_wise(near).epistemic, exact.astype(float), rtol=rtol)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0]])
def test_losses_are_those_of_the_array_path(shape, dtype):
    y = np.arange(shape[0]) % shape[2]
    for values, options in layouts(members(*shape, concentration=2.0).astype(dtype)):
        for w in weights_of(*shape[:2]):
            for rule in ("log", "zero-one"):
                with calls_of("average") as answers:
                    got = sw.task_losses(values, y, rule, weights=w, **options)
                assert answers
                assert all(answers)
                expected = by_arrays(sw.task_losses, values, y, rule, weights=w, **options)
                np.testing.assert_allclose(got, expected, rtol=10 * TOLERANCE[dtype])
    samples = sw.Samples(values, weights=w, **options)
    with calls_of("average") as answers:
        sw.task_losses(samples, y)
    assert bool(answers) == (shape[1] > 1)  # a single member is the mean


def test_means_of_single_precision_have_the_digits_of_double():
    probs = members(50, 20, 7).astype(np.float32)
    y = probs.mean(axis=1).argmax(axis=-1)
    exact = -np.log(probs.astype(np.float64).mean(axis=1)[np.arange(50), y])
    np.testing.assert_allclose(sw.task_losses(probs, y, "log"), exact, rtol=1e-13)


def test_a_class_that_a_member_gives_less_than_any_normal_number_stays_possible():
    probs = np.array([[[1.0, 0.0], [1.0, 5e-324]]])
    assert np.isfinite(sw.task_losses(probs, [1], "log")).all()
    assert np.isinf(sw.task_losses(probs[:, :1], [1], "log")).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_actions_are_those_of_the_array_path(shape, dtype):
    costs = np.random.default_rng(0).uniform(0, 3, (shape[2], 5))
    costs[:, 3] = costs[:, 1]  # tied for every member
    for values, options in layouts(members(*shape).astype(dtype)):
        for w in weights_of(*shape[:2]):
            for matrix in (costs, 1 - np.eye(shape[2])):
                with calls_of("decompose") as answers:
                    got = sw.decide(values, matrix, weights=w, **options)
                assert all(answers)
                assert answers or not shape[0]
                expected = by_arrays(sw.decide, values, matrix, weights=w, **options)
                np.testing.assert_array_equal(got.action, expected.action)
                assert got.action.dtype == expected.action.dtype
                np.testing.assert_allclose(
                    got.epistemic, expected.epistemic, rtol=1e-4, atol=10 * TOLERANCE[dtype]
                )


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries_get_their_own_arrays_back(library):
    probs, costs = members(9, 4, 3).astype(np.float32), np.ones((3, 3)) - np.eye(3)
    array = __import__(library).asarray(probs) if library == "torch" else None
    if array is None:
        import jax

        array = jax.numpy.asarray(probs)
    parts, decisions = sw.label_wise(array), sw.decide(array, costs)
    assert type(parts.epistemic) is type(array)
    assert type(decisions.action) is type(array)
    np.testing.assert_array_equal(np.asarray(decisions.action), sw.decide(probs, costs).action)
    np.testing.assert_array_equal(np.asarray(parts.total), sw.label_wise(probs).total)


def test_instances_of_several_axes_that_do_not_lie_evenly():
    probs = np.moveaxis(members(3 * 8 * 9, 4, 5).reshape(3, 8, 9, 4, 5), (3, 4), (0, 2))
    crop, options = probs[:, :, :, 1:7, 2:8], {"member_axis": 0, "class_axis": 2}
    for w in (None, np.random.default_rng(0).uniform(size=(3, 6, 6, 4))):
        got = sw.label_wise(crop, weights=w, **options)
        expected = by_arrays(sw.label_wise, crop, weights=w, **options)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.5, 3.0])
@pytest.mark.parametrize("k", [3, 60])
def test_bad_members_raise_the_errors_of_the_array_path(k, bad):
    probs, y = members(20, 3, k), np.zeros(20, int)
    probs[13, 1, 2] = bad
    calls = [
        lambda: sw.label_wise(probs),
        lambda: sw.decide(probs, 1 - np.eye(k)),
        lambda: sw.task_losses(probs, y),
    ]
    for call in calls:
        with pytest.raises(sw.InvalidInput) as by_kernel:
            call()
        with pytest.raises(sw.InvalidInput) as right:
            by_arrays(call)
        assert str(by_kernel.value) == str(right.value)
        assert "13" in str(right.value)


def test_a_last_slab_of_one_row_is_averaged():
    probs = np.zeros((2098, 20, 100), np.float16)
    probs[..., 0] = 1
    assert (sw.label_wise(probs).total == 0).all()
    assert (sw.task_losses(probs, np.zeros(2098, int), "zero-one") == 0).all()


@pytest.mark.parametrize("use", [sw.label_wise, lambda p, **how: sw.task_losses(p, [0, 1], **how)])
def test_weights_of_a_wrong_shape_are_refused_unchecked_too(use):
    with pytest.raises(sw.InvalidInput, match="weights"):
        use(members(2, 4, 3), weights=np.ones(3), check=False)
