"""The array path on a GPU, shown without one: tensors in host memory that count as on a device.

An operation on a small tensor takes as long as its call, and a value that Python reads takes
longer, so both are counted.
"""

import numpy as np
import pytest

import scorewise as sw
from scorewise.decompose import gradient_by_arrays
from support import all_rules, by_array, softmax, torch_peak

torch = pytest.importorskip("torch")
Counted = pytest.importorskip("torch_support").Counted

# At most: operations without views, and readings; the check of the members has 4 and 1.
OPERATIONS = {
    "log": (36, 40),  # in float32 and in float64, whose series are longer
    "brier": (15, 15),
    "zero-one": (14, 14),
    "spherical": (37, 37),
    "tsallis:1.5": (43, 47),
    "rps": (18, 18),
    "top-k:5": (35, 35),
}
READINGS = {"top-k:5": 2}  # the second shows whether two classes are tied


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    monkeypatch.setattr("scorewise._array.is_on_device", lambda x: isinstance(x, torch.Tensor))


def logits(noise: float, n: int = 64, m: int = 20, k: int = 100) -> np.ndarray:
    """Logits of members; those of the first half of the rows differ by a part of the noise."""
    rng = np.random.default_rng(0)
    spread = np.where(np.arange(n) < n // 2, 0.01 * noise, noise)[:, None, None]
    return 2 * rng.normal(size=(n, 1, k)) + spread * rng.normal(size=(n, m, k))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [0.05, 0.3, 2.0])
def test_a_small_batch_takes_few_operations_and_is_waited_for_once(noise, dtype):
    probs = torch.tensor(softmax(logits(noise)).astype(dtype))
    for name, most in OPERATIONS.items():
        by_array(probs, name)  # constants are put on a device once
        with Counted() as counts:
            by_array(probs, name)
        assert counts.operations.total() <= most[dtype == "float64"], name
        assert counts.readings.total() <= READINGS.get(name, 1), name


def test_four_rules_are_waited_for_once():
    probs = torch.tensor(softmax(logits(0.3)))
    with Counted() as counts:
        by_array(probs, ["log", "brier", "zero-one", "spherical"])
    assert counts.readings.total() == 1
    assert counts.operations.total() <= 90


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [1e-4, 0.3, 4.0])
@pytest.mark.parametrize("k", [2, 10])
def test_a_small_batch_is_as_accurate_as_in_host_memory(k, noise, dtype):
    probs = softmax(logits(noise, 40, 5, k)).astype(dtype)
    probs[5] = probs[5, 0]
    probs[6] = np.eye(k)[[0, 1, 1, 0, 0]]  # impossible classes
    rules = all_rules(k)
    results = by_array(torch.tensor(probs), rules)
    expected = by_array(probs.astype(np.float64), rules)
    rtol, atol = (2e-5, 1e-12) if dtype == "float32" else (1e-12, 1e-18)
    for name in rules:
        assert results[name].epistemic[5] == 0, name
        for a, b in zip(results[name], expected[name], strict=True):
            np.testing.assert_allclose(a, b, rtol, 1e-6 * (dtype == "float32") + atol, name)


@pytest.mark.parametrize("options", ["weights", "unbiased", "standard_errors", "predictor"])
def test_options_give_the_same_in_a_small_batch_as_in_host_memory(options):
    probs = softmax(logits(0.3, 20, 5, 4))
    rng = np.random.default_rng(1)
    values = {
        "weights": rng.uniform(0.1, 1, (20, 5)),
        "unbiased": True,
        "standard_errors": True,
        "predictor": rng.dirichlet(np.ones(4), 20),
    }
    rules = ["log", "brier", "spherical", "tsallis:1.5", "rps"]
    results = by_array(torch.tensor(probs), rules, **{options: values[options]})
    expected = by_array(probs, rules, **{options: values[options]})
    for name in rules:
        for a, b in zip(results[name], expected[name], strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-15, err_msg=name)
    if options == "standard_errors":
        a, b = results["log"].standard_error, expected["log"].standard_error
        np.testing.assert_allclose(a.epistemic, b.epistemic, 1e-10)


def test_classes_that_a_predictor_rules_out_cost_infinitely_much_on_a_device_too():
    probs = torch.tensor([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    predictor = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    epistemic = by_array(probs, "log", predictor=predictor).epistemic
    assert epistemic.tolist() == [np.inf, 0]
    tsallis = by_array(probs, "tsallis:1.5", predictor=predictor).epistemic
    expected = by_array(probs.numpy(), "tsallis:1.5", predictor=predictor.numpy()).epistemic
    np.testing.assert_allclose(tsallis, expected, rtol=1e-5)


@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("noise", [0.05, 2.0])
def test_a_large_array_needs_a_tenth_of_it_besides_it_and_its_results(k, noise, monkeypatch):
    monkeypatch.setattr("scorewise._array._DEVICE_ELEMENTS", 1 << 12)
    monkeypatch.setattr("scorewise._array._SMALL_DEVICE_ELEMENTS", 0)
    probs = torch.tensor(softmax(logits(noise, 80_000 // k, 20, k)).astype(np.float32))
    for rules in [["log", "brier", "zero-one", "spherical"], ["tsallis:1.5"], ["rps"], ["top-k:2"]]:
        results = by_array(probs, rules)
        n_bytes = sum(part.nbytes for result in results.values() for part in result)
        peak = torch_peak(lambda rules=rules: by_array(probs, rules))
        assert peak - n_bytes < probs.nbytes / 10, rules


@pytest.mark.parametrize("rule", ["log", "pseudospherical:3", "beta:0.5,2"])
def test_a_block_needs_twelve_times_its_memory_under_any_rule(rule, monkeypatch):
    monkeypatch.setattr("scorewise._array._DEVICE_ELEMENTS", 1 << 14)
    monkeypatch.setattr("scorewise._array._SMALL_DEVICE_ELEMENTS", 0)
    probs = torch.tensor(softmax(logits(0.05, 1_000, 20, 2)).astype(np.float32))
    raw, rules, upstream = sw.Samples(probs).raw(), [sw.get_rule(rule)], [torch.ones(1_000)] * 3
    block = (1 << 14) * 4
    assert torch_peak(lambda: by_array(probs, rules)) < 12 * block
    peak = torch_peak(lambda: gradient_by_arrays(raw, None, rules, upstream))
    assert peak - probs.nbytes < 12 * block


def test_tensors_without_values_and_inference_mode_leave_nothing_to_later_calls():
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    xp = pytest.importorskip("array_api_compat.torch")
    q, p = torch.tensor(softmax(logits(0.3, 2, 5, 4)))
    expected = sw.rules.log._divergence(xp, q, p, p - q)
    for mode in (fake.FakeTensorMode(), torch.inference_mode()):
        sw._array._number_on_device.cache_clear()
        with mode:
            thirds = torch.full((5, 3), 1 / 3, dtype=q.dtype)
            sw.rules.log._divergence(xp, thirds, thirds, thirds - thirds)
        assert torch.equal(sw.rules.log._divergence(xp, q, p, p - q), expected)
