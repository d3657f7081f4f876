"""Members on a GPU, added one at a time, shown without one: tensors count as on a device."""

from copy import deepcopy

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import cpu
from support import all_rules, members, torch_peak

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    for module in ("scorewise._array", "scorewise.accumulate"):
        monkeypatch.setattr(f"{module}.is_on_device", lambda x: isinstance(x, torch.Tensor))
    monkeypatch.setattr("scorewise._array._DEVICE_ELEMENTS", 64)
    monkeypatch.setattr(cpu, "_native", None)


def filled(probs, rules, **options):
    accumulator = sw.Accumulator(rules)
    for m in range(probs.shape[-2]):
        accumulator.update(probs[..., m, :], **options)
    return accumulator


def assert_same(results, expected, rtol, atol):
    for name, decomposition in expected.items():
        for part, other in zip(results[name], decomposition, strict=True):
            np.testing.assert_allclose(part, other, rtol, atol, err_msg=name)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("shape", [(40,), (10, 4)])
@pytest.mark.parametrize("from_logits", [False, True])
def test_members_added_in_place_give_the_decomposition_of_all(k, shape, from_logits):
    probs = members(40, 6, k).reshape(*shape, 6, k)
    probs[3] = probs[3, ..., :1, :]
    rules = all_rules(k)
    values = torch.tensor(np.log(probs) if from_logits else probs)
    accumulator = filled(values, rules, from_logits=from_logits)
    assert accumulator.n_members == 6
    results = accumulator.result()
    assert_same(results, sw.decompose(probs, rules), 1e-10, 1e-13)
    assert all((result.epistemic[3] == 0).all() for result in results.values())


def test_weights_of_each_instance_are_those_of_its_members():
    probs = members(40, 5, 3)
    weights = np.random.default_rng(0).uniform(0, 2, (40, 5))
    accumulator = sw.Accumulator(["log", "zero-one"])
    for m in range(5):
        accumulator.update(torch.tensor(probs[:, m]), torch.tensor(weights[:, m]))
    expected = sw.decompose(probs, ["log", "zero-one"], weights=weights)
    assert_same(accumulator.result(), expected, 1e-10, 1e-13)


def test_results_do_not_change_when_members_are_added_in_place():
    probs = torch.tensor(members(40, 4, 3))
    accumulator = filled(probs[:, :3], ["log", "zero-one"])
    before = accumulator.result(), accumulator.mean, accumulator.weight
    copied = deepcopy(before)
    accumulator.update(probs[:, 3])
    assert (before[1] == copied[1]).all()
    assert (before[2] == copied[2]).all()
    assert_same(before[0], copied[0], 0, 0)


def test_an_accumulator_that_was_merged_into_another_does_not_change():
    probs = torch.tensor(members(40, 4, 3))
    other = filled(probs[:, :2], ["log", "zero-one"])
    before = deepcopy(other.result())
    for join in ("merge", "merge_rows"):
        accumulator = sw.Accumulator(["log", "zero-one"])
        getattr(accumulator, join)(other if join == "merge" else [other])
        accumulator.update(probs[:, 2])
        assert_same(other.result(), before, 0, 0)
        expected = sw.decompose(probs[:, :3], ["log", "zero-one"])
        assert_same(accumulator.result(), expected, 1e-10, 1e-13)


def test_an_invalid_member_is_named_and_adds_nothing():
    probs = torch.tensor(members(40, 2, 3))
    accumulator = filled(probs, "log")
    before = deepcopy(accumulator.result())
    bad = probs[:, 0].clone()
    bad[33] *= 2
    with pytest.raises(sw.InvalidInput, match=r"probs\[33\] sums to 2"):
        accumulator.update(bad)
    assert accumulator.n_members == 2
    assert (accumulator.result().total == before.total).all()


def test_an_interrupted_update_is_noticed(monkeypatch):
    probs = torch.tensor(members(40, 3, 3))
    accumulator = filled(probs[:, :2], "log")
    merge, n_calls = sw.accumulate._merge, []

    def interrupted(*arguments):
        n_calls.append(1)
        if len(n_calls) == 2:
            raise KeyboardInterrupt
        return merge(*arguments)

    monkeypatch.setattr("scorewise.accumulate._merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        accumulator.update(probs[:, 2])
    with pytest.raises(sw.ScorewiseError, match="interrupted"):
        accumulator.result()


def test_an_update_holds_few_arrays_of_its_size():
    probs = torch.tensor(members(2000, 3, 100).astype(np.float32))
    accumulator = filled(probs[:, :2], ["log", "brier", "zero-one", "spherical"])
    member = probs[:, 2].contiguous()
    assert torch_peak(lambda: accumulator.update(member)) < 2.5 * member.nbytes


@pytest.mark.parametrize("modes", [(True, False), (False, True), (True, False, True), (True, True)])
def test_members_may_come_in_inference_mode_and_outside_of_it(modes):
    probs = torch.tensor(members(40, len(modes) + 1, 3))
    accumulator = sw.Accumulator(["log", "zero-one"])
    for m, is_inference in enumerate(modes):
        with torch.inference_mode(is_inference):
            accumulator.update(probs[:, m].clone())
    accumulator.update(probs[:, -1])
    assert_same(accumulator.result(), sw.decompose(probs, ["log", "zero-one"]), 1e-10, 1e-13)


def test_chunks_that_were_made_in_inference_mode_may_be_followed_by_members():
    probs = torch.tensor(members(40, 3, 3))
    accumulator = sw.Accumulator("log")
    with torch.inference_mode():
        chunks = [probs[:15, :2].clone(), probs[15:, :2].clone()]
        accumulator.update_chunks(chunks, n_instances=40)
    accumulator.update(probs[:, 2])
    expected = sw.decompose(probs, "log").epistemic
    np.testing.assert_allclose(accumulator.result().epistemic, expected, 1e-10, 1e-13)


def test_a_rule_that_fails_on_a_member_leaves_the_accumulator_as_it_was():
    probs = torch.tensor(members(40, 3, 3))

    def losses(p):
        if is_broken:
            raise TypeError
        return (p * p).sum(-1, keepdims=True) + 1 - 2 * p

    is_broken = False
    accumulator = sw.Accumulator(sw.rule_from_loss_vector(losses, name="own"))
    accumulator.update(probs[:, 0])
    accumulator.update(probs[:, 1])
    before = deepcopy(accumulator.result())
    is_broken = True
    with pytest.raises(sw.InvalidInput, match="fails on"):
        accumulator.update(probs[:, 2])
    is_broken = False
    assert accumulator.n_members == 2
    assert (accumulator.result().total == before.total).all()


@pytest.mark.parametrize("n", [7, 9, 100])
def test_a_member_is_added_in_a_few_blocks_of_instances(n, monkeypatch):
    monkeypatch.setattr("scorewise._array._DEVICE_ELEMENTS", 1)
    probs = torch.tensor(members(n, 2, 3))
    accumulator = filled(probs[:, :1], "log")
    merge, n_calls = sw.accumulate._merge, []
    monkeypatch.setattr(
        "scorewise.accumulate._merge", lambda *arguments: (n_calls.append(1), merge(*arguments))[1]
    )
    accumulator.update(probs[:, 1])
    assert len(n_calls) <= 8
