"""The CUDA kernel on a GPU, by the public API: accuracy, laws, libraries, bad input, memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from cuda_support import (
    FIRST_FOUR,
    LAYOUTS,
    OF_ANY_CLASSES,
    OTHERS,
    ROUNDING,
    SPOILED,
    KernelForNumpy,
    amid_nan,
    assert_right,
    awkward,
    exact,
    identical,
    supported,
)
from scorewise.decompose import Decomposition
from support import all_rules, members, softmax

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most memory

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
LIBRARIES = ["torch", "cupy", "jax"]


@pytest.fixture
def device() -> None:
    """A GPU, without which the test is skipped."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture
def put(request: pytest.FixtureRequest, device: None) -> Callable[[np.ndarray], Any]:
    """A function that copies an array to the GPU, by the library that is the parameter."""
    library = request.param
    if library == "torch":
        return lambda x: torch.asarray(x, device="cuda")
    module = pytest.importorskip(library, exc_type=ImportError)
    if library == "cupy":
        return module.asarray
    try:
        gpu = module.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")
    return lambda x: module.device_put(x, gpu)


def on_host(x: Any) -> torch.Tensor:
    return x.cpu() if isinstance(x, torch.Tensor) else torch.from_dlpack(x).cpu()


def decompose(x: Any, rules: Any, **options: Any) -> dict[str, Any]:
    """As ``sw.decompose``, by the kernel, with results on the host."""
    arguments = {key: value for key, value in options.items() if key != "check"}
    explanation = sw.explain_kernel(x, rules, **arguments)
    assert str(explanation) == "cuda: the members are on an NVIDIA GPU"
    results = sw.decompose(x, rules, **options)
    for d in results.values():
        for part in d:
            assert type(part) is type(x)
            assert part.device == x.device
    return {name: Decomposition(*map(on_host, d)) for name, d in results.items()}


def from_torch(probs: np.ndarray, dtype: str | None = None) -> torch.Tensor:
    return amid_nan(probs, dtype, "cuda")


@pytest.mark.parametrize(("m", "k"), [(20, 2), (7, 10), (20, 100)])
def test_every_rule_is_as_accurate_as_stated_and_obeys_the_laws(m: int, k: int):
    probs = softmax(awkward(m, k, n_each=300)).astype(np.float32)
    rules = supported(all_rules(k))
    results = decompose(from_torch(probs), rules)
    assert_right(results, exact(probs, rules))
    for name, d in results.items():
        assert (d.epistemic[identical(300)] == 0).all(), name


@pytest.mark.parametrize(("m", "k"), [(3, 1000), (3000, 100), (20_000, 2)])
def test_many_classes_and_many_members(m: int, k: int):
    probs = softmax(awkward(m, k)).astype(np.float32)
    rules = [*FIRST_FOUR, *OTHERS]
    assert_right(decompose(from_torch(probs), rules), exact(probs, rules), m=m)


@pytest.mark.parametrize("k", [2, 10])
def test_many_instances(k: int):
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.uniform(-4, 0.5, (100_000, 1, 1))
    base, noise = rng.normal(size=(100_000, 1, k)), rng.normal(size=(100_000, 20, k))
    probs = softmax(2 * base + spread * noise).astype(np.float32)
    rules = [*FIRST_FOUR, "tsallis:1.5", "tsallis:3", "pseudospherical:1.2", "pseudospherical:3"]
    assert_right(decompose(from_torch(probs), rules), exact(probs, rules))


@pytest.mark.parametrize("put", LIBRARIES, indirect=True)
def test_arrays_of_a_library_give_its_own_arrays(put: Callable[[np.ndarray], Any]):
    probs = softmax(awkward(6, 10)).astype(np.float32)
    weights = np.random.default_rng(0).uniform(size=(len(probs), 6)).astype(np.float32)
    x = put(probs)
    assert_right(decompose(x, FIRST_FOUR), exact(probs, FIRST_FOUR))
    assert_right(
        decompose(x, FIRST_FOUR, weights=put(weights)), exact(probs, FIRST_FOUR, weights=weights)
    )
    transposed = put(np.ascontiguousarray(probs.swapaxes(0, 1)))
    assert_right(decompose(transposed, FIRST_FOUR, member_axis=0), exact(probs, FIRST_FOUR))
    bad = probs.copy()
    bad[7, 2, 3] = np.nan
    with pytest.raises(sw.InvalidInput) as error:
        sw.decompose(put(bad), FIRST_FOUR)
    assert error.value.index == (7, 2, 3)


@pytest.mark.parametrize("put", ["cupy"], indirect=True)
def test_arrays_that_run_backwards(put: Callable[[np.ndarray], Any]):
    probs = softmax(awkward(6, 10)).astype(np.float32)
    backwards = put(np.ascontiguousarray(probs[::-1, ::-1, ::-1]))[::-1, ::-1, ::-1]
    assert_right(decompose(backwards, FIRST_FOUR), exact(probs, FIRST_FOUR))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [6, 40])
def test_layouts(layout: str, k: int):
    probs = softmax(awkward(9, k, n_each=100)).astype(np.float32)
    array, axes = LAYOUTS[layout](probs)
    tensor = from_torch(array)
    if layout == "shifted":
        tensor = torch.nn.functional.pad(tensor.reshape(-1), (1, 0))[1:].reshape(tensor.shape)
    assert_right(decompose(tensor, FIRST_FOUR, **axes), exact(probs, FIRST_FOUR))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [10, 100])
def test_half_precision(dtype: str, k: int):
    logits = awkward(7, k, n_each=100)
    rounded = from_torch(softmax(logits), dtype)
    assert_right(decompose(rounded, FIRST_FOUR), exact(rounded.cpu(), FIRST_FOUR))
    rounded = from_torch(logits, dtype)
    right = exact(softmax(rounded.double().cpu().numpy()), FIRST_FOUR)
    assert_right(decompose(rounded, FIRST_FOUR, from_logits=True), right, ROUNDING)


@pytest.mark.parametrize("k", [10, 100])
def test_logits_masses_and_weights(k: int):
    logits = awkward(6, k, n_each=100).astype(np.float32)
    logits[0, :, 1] = -np.inf
    wide = softmax(logits.astype(float))
    weights = np.random.default_rng(1).uniform(size=6) ** 4
    weights[[0, 4]] = 0
    right = exact(wide, FIRST_FOUR, weights=weights)
    results = decompose(from_torch(logits), FIRST_FOUR, from_logits=True, weights=weights)
    assert_right(results, right, ROUNDING)
    masses = (5 * wide).astype(np.float32)
    results = decompose(from_torch(masses), FIRST_FOUR, normalize=True, weights=weights)
    assert_right(results, right, ROUNDING)


def test_the_kernel_agrees_with_the_array_path_on_awkward_arrays():
    kernel = KernelForNumpy("cuda")
    sw.check_kernel(kernel, FIRST_FOUR, n_trials=30)
    sw.check_kernel(kernel, ["tsallis:20", "top-k:2", "rps", *OF_ANY_CLASSES], n_trials=8)


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("k", [3, 40])
def test_bad_entries_are_found_wherever_they_are(kind: str, k: int):
    options, values = SPOILED[kind]
    logits = 2 * np.random.default_rng(0).normal(size=(5000, 4, k))
    good = (logits if kind == "logits" else softmax(logits)).astype(np.float32)
    for value in values:
        for place in [(0, 0, 0), (4999, 3, k - 1), (1700, 2, 1)]:
            bad = good.copy()
            bad[place] = value
            with pytest.raises(sw.InvalidInput) as error:
                sw.decompose(from_torch(bad), FIRST_FOUR, **options)
            assert error.value.index[:2] == place[:2]
    decompose(from_torch(good), FIRST_FOUR, **options)  # nothing is left of the last error


def test_members_are_not_copied():
    x = torch.rand(20_000, 20, 100, device="cuda").softmax(-1)
    moved = x.swapaxes(0, 1).contiguous()
    sw.decompose(x, FIRST_FOUR)
    for values, axis in [(x, -2), (moved, 0), (x[::2], -2)]:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        results = sw.decompose(values, FIRST_FOUR, member_axis=axis)
        torch.cuda.synchronize()
        assert torch.cuda.max_memory_allocated() - before < 0.02 * x.nbytes
        assert len(results) == 4


def test_the_kernel_runs_on_the_current_stream():
    probs = torch.as_tensor(members(100, 5, 10).astype(np.float32), device="cuda")
    expected = sw.decompose(probs, "log").epistemic
    late = torch.zeros_like(probs)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(100_000_000)  # cycles; other streams see zeros meanwhile
        late.copy_(probs)
        epistemic = sw.decompose(late, "log").epistemic
    torch.cuda.synchronize()
    assert torch.equal(epistemic, expected)


def test_what_the_kernel_does_not_compute_runs_on_the_gpu_too():
    probs = members(50, 5, 4)
    wide = torch.as_tensor(probs, device="cuda")
    assert "float64" in sw.explain_kernel(wide, "log", check=False).reason
    single = wide.float()
    assert sw.explain_kernel(single, "log", unbiased=True).path == "array"
    own = sw.rule_from_loss_vector(
        lambda p: (p * p).sum(dim=-1, keepdim=True) + 1 - 2 * p, name="own"
    )
    assert (
        "by the array path: 'own'" in sw.explain_kernel(single, {"log": "log", "own": own}).reason
    )
    for x in (wide, single):
        for unbiased in (False, True):
            d = sw.decompose(x, "log", unbiased=unbiased)
            right = sw.decompose(probs, "log", unbiased=unbiased)
            for a, b in zip(d, right, strict=True):
                assert a.device == x.device
                np.testing.assert_allclose(a.cpu(), b, rtol=1e-5, atol=1e-6)
    results = sw.decompose(single, {"brier": "brier", "own": own})
    for a, b in zip(results["own"], results["brier"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("k", [100, 130, 1000, 1025])
def test_gradients_of_many_tiles(k: int, from_logits: bool):
    noise = torch.Generator("cuda").manual_seed(0)
    values = 2 * torch.randn(10_000, 5, k, device="cuda", generator=noise)
    values = values if from_logits else values.softmax(-1)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        x = values.to(dtype, copy=True).requires_grad_()
        results = sw.decompose(x, FIRST_FOUR, check=False, from_logits=from_logits)
        parts = [part.sum() for d in results.values() for part in d]
        (gradient,) = torch.autograd.grad(sum(i * x for i, x in enumerate(parts, 1)), x)
        gradients.append(gradient.double() - gradient.double().mean(-1, keepdim=True))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("k", [100, 130, 1000, 1025])
def test_logits_of_many_tiles(k: int):
    noise = torch.Generator("cuda").manual_seed(0)
    logits = 2 * torch.randn(10_000, 5, k, device="cuda", generator=noise)
    logits[::3] = logits[::3, :1]  # members that agree
    results = decompose(logits, FIRST_FOUR, from_logits=True)
    right = sw.decompose(logits.double(), FIRST_FOUR, from_logits=True, check=False)
    expected = {name: [part.cpu().numpy() for part in d] for name, d in right.items()}
    assert_right(results, expected, ROUNDING)
    for d in results.values():
        assert (d.epistemic[::3] == 0).all()


def test_a_small_batch_that_the_kernel_does_not_take_is_copied_to_host_memory():
    probs = softmax(awkward(20, 10, n_each=10))
    x = torch.tensor(probs, device="cuda")
    rules = all_rules(10)
    assert sw.explain_kernel(x, rules).path == "host"
    expected = sw.decompose(probs, rules)
    for name, d in sw.decompose(x, rules).items():
        for a, b in zip(d, expected[name], strict=True):
            assert (a.device, a.dtype) == (x.device, x.dtype)
            np.testing.assert_allclose(a.cpu(), b, 1e-12, 1e-15, err_msg=name)
    x[7, 2, 3] = float("nan")
    with pytest.raises(sw.InvalidInput) as error:
        sw.decompose(x, "log")
    assert error.value.index == (7, 2, 3)
    assert sw.explain_kernel(x, rules, check=False).path == "array"
