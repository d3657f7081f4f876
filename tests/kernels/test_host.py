"""Small tensors on a device take the CPU kernel; here tensors in host memory count as elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import scorewise as sw
from scorewise.kernels import Usability, cpu
from support import all_rules, members

pytestmark = pytest.mark.skipif(not cpu.is_compiled(), reason="needs the CPU kernel")


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors are on a device that has no kernel."""
    monkeypatch.setattr("scorewise._array.is_on_device", lambda x: isinstance(x, torch.Tensor))
    monkeypatch.setattr(cpu, "is_usable", lambda raw, weights: Usability(False, "elsewhere"))


def draw(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(members(30, 5, 4)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("has_weights", [False, True])
def test_components_are_those_of_the_cpu_kernel(dtype: torch.dtype, has_weights: bool):
    probs, rules = draw(dtype), all_rules(4)
    weights = torch.arange(1.0, 6.0) if has_weights else None
    explanation = sw.explain_kernel(probs, rules, weights=weights)
    assert str(explanation).startswith("host: a small tensor is copied to host memory")
    results = sw.decompose(probs, rules, weights=weights)
    raw = sw.Samples(probs).raw()
    expected = cpu.compute(raw, weights, list(rules.values()), sw.kernels.Extras())
    assert expected is not None
    for i, d in enumerate(results.values()):
        for part, right in zip(d, expected[3 * i : 3 * i + 3], strict=True):
            assert part.dtype == dtype
            assert torch.equal(part, right)


def test_the_jackknife_is_there_too():
    probs = draw()
    results = sw.decompose(probs, "log", unbiased=True, standard_errors=True)
    expected = sw.decompose(probs.numpy(), "log", unbiased=True, standard_errors=True)
    np.testing.assert_allclose(results.epistemic, expected.epistemic, 1e-12)
    np.testing.assert_allclose(
        results.standard_error.epistemic, expected.standard_error.epistemic, 1e-9
    )


def test_invalid_members_are_named():
    probs = draw()
    probs[7, 2, 1] = -1
    with pytest.raises(sw.InvalidInput) as error:
        sw.decompose(probs, "log")
    assert error.value.index == (7, 2, 1)


def test_what_is_large_recorded_or_not_waited_for_stays_on_the_device():
    probs = draw()
    assert "not a small" in sw.explain_kernel(probs.expand(9_000, 30, 5, 4), "log").reason
    assert "check=False" in sw.explain_kernel(probs, "log", check=False).reason
    weights = torch.ones(5, requires_grad=True)
    assert "differentiated" in sw.explain_kernel(probs, "log", weights=weights).reason
    with torch.no_grad():
        assert sw.explain_kernel(probs, "log", weights=weights).path == "host"


def test_gradients_are_those_of_the_array_path():
    probs = draw().requires_grad_()
    sw.decompose(probs, "log").epistemic.sum().backward()
    same = draw().requires_grad_()
    sw.decompose(same, "log", check=False).epistemic.sum().backward()
    assert probs.grad is not None
    torch.testing.assert_close(probs.grad, same.grad)
