"""NVRTC compiles the CUDA kernel for every rule, layout and type of numbers; it needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from cuda_support import FIRST_FOUR, LAYOUTS, MOST_SHARED_BYTES, awkward, emulated_gpu, supported
from scorewise.kernels.cuda import _launch
from support import all_rules, softmax

try:
    from cuda.bindings import nvrtc
except ImportError:
    nvrtc = None

pytestmark = pytest.mark.skipif(nvrtc is None, reason="needs cuda-bindings and NVRTC")
SMALL, LARGE = 6, 130  # classes for which a warp works alone, and for which a block works together


@pytest.fixture
def constants(tmp_path) -> Iterator[set[Any]]:
    """What kernels are compiled for; none of them runs."""
    launched: set[Any] = set()
    with emulated_gpu(tmp_path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_launch, "launch", lambda constants, *_: launched.add(constants))
        yield launched


def draw(k: int) -> torch.Tensor:
    return torch.as_tensor(softmax(awkward(20, k, n_each=50)).astype(np.float32))


def assert_compiles(constants: set[Any], capability: str = "90") -> None:
    assert constants
    for each in constants:
        code = _launch.compiled(_launch.definitions(each), capability)
        assert b".entry decompose" in code


@pytest.mark.parametrize(
    ("k", "others"), [(2, {"TwoClass", "Costs"}), (SMALL, {"Costs"}), (LARGE, set())]
)
def test_every_rule(k: int, others: set[str], constants):
    sw.decompose(draw(k), supported(all_rules(k)), check=False)
    classes = {dict(each)["RULE"].split("<")[0] for each in constants}
    assert (
        classes == {"FirstFour", "Separable", "Norm", "Largest", "Quadratic", "Cumulative"} | others
    )
    assert_compiles(constants)


@pytest.mark.parametrize("k", [SMALL, LARGE])
def test_kinds_of_numbers_and_weights(k: int, constants):
    probs = draw(k)
    for options in ({"from_logits": True}, {"normalize": True}, {"weights": np.ones(20)}):
        sw.decompose(probs, FIRST_FOUR, check=False, **options)
    sw.decompose(probs, FIRST_FOUR, check=False, weights=np.ones(probs.shape[:2]))
    for dtype in (torch.float16, torch.bfloat16):
        sw.decompose(probs.to(dtype), FIRST_FOUR, check=False)
    assert len(constants) == 6
    assert_compiles(constants)


@pytest.mark.parametrize("k", [SMALL, LARGE])
def test_layouts(k: int, constants):
    for lay_out in LAYOUTS.values():
        array, axes = lay_out(draw(k).numpy())
        sw.decompose(torch.as_tensor(array), FIRST_FOUR, check=False, **axes)
    assert len({dict(each)["ORDER"] for each in constants}) == (3 if k == SMALL else 2)
    assert_compiles(constants)


def test_members_in_stages(constants):
    wide = torch.full((1, 3 * MOST_SHARED_BYTES // 400, 100), 0.01)
    sw.decompose(wide, FIRST_FOUR, check=False)
    assert all(dict(each)["HAS_STAGES"] for each in constants)
    assert_compiles(constants)


@pytest.mark.parametrize("rules", [FIRST_FOUR, ["log"]])
@pytest.mark.parametrize("k", [SMALL, 40, LARGE, 1100])
def test_gradients(k: int, rules: list[str], constants):
    for options in ({}, {"from_logits": True}, {"weights": np.ones(20)}):
        x = draw(k).requires_grad_()
        results = sw.decompose(x, rules, check=False, **options)
        constants.clear()  # of the forward pass
        sum(d.epistemic.sum() for d in results.values()).backward()
        assert [dict(each)["GRADIENT"] for each in constants] == [1]
        assert_compiles(constants)


@pytest.mark.parametrize("capability", ["75", "80", "120"])
def test_gpus_of_other_generations(capability: str, constants):
    for k in (SMALL, LARGE):
        sw.decompose(draw(k), FIRST_FOUR, check=False)
    assert_compiles(constants, capability)


def test_what_does_not_compile_is_said():
    with pytest.raises(_launch.CannotCompile, match=r"prelude\.cuh|decompose\.cu"):
        _launch.compiled("#define WORK NoSuchClass\n", "90")
