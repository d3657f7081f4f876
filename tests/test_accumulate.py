"""The accumulator: as decompose on the stacked members, whatever the order or the split."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import scorewise as sw
from scorewise.decompose import Decomposition
from support import all_rules, fill, members


def assert_same(first, other, **tolerance):
    for name, d in first.items():
        for a, b in zip(d, other[name], strict=True):
            np.testing.assert_allclose(a, b, err_msg=name, **tolerance)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("weighted", ["no", "members", "instances"])
def test_accumulating_equals_decomposing(k, weighted):
    probs = members(30, 12, k)
    rng = np.random.default_rng(0)
    weights = {"no": None, "members": rng.uniform(size=12), "instances": rng.uniform(size=(30, 12))}
    w = weights[weighted]
    acc = fill(probs, all_rules(k), w)
    expected = sw.decompose(probs, all_rules(k), weights=w)
    assert_same(acc.result(), expected, rtol=1e-12, atol=1e-15)


def test_merging_in_any_grouping_equals_decomposing():
    probs = members(30, 12, 4)
    expected = sw.decompose(probs, all_rules(4))
    for cuts in ([6], [1], [11], [3, 5, 9], list(range(1, 12))):
        parts = [fill(part, all_rules(4)) for part in np.split(probs, cuts, axis=1)]
        whole = sw.Accumulator(all_rules(4))
        for part in parts[::-1]:
            whole.merge(part)
        assert whole.n_members == 12
        assert_same(whole.result(), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-50, 1e50, 1e300])
def test_weights_work_in_any_scale(scale: float):
    probs = members(5, 4, 3).astype(np.float32)
    weights = np.array([3.0, 1.0, 2.0, 1.0])
    expected = sw.decompose(probs, all_rules(3), weights=weights)
    acc = fill(probs, all_rules(3), weights * scale)
    assert_same(acc.result(), expected, rtol=1e-4, atol=1e-7)


def test_extremely_unequal_weights_stay_finite():
    rng = np.random.default_rng(0)
    for seed in range(200):
        m = int(rng.integers(2, 6))
        sharp = [np.eye(2)[rng.integers(2, size=(1, m))], members(1, m, 2, seed, 0.02)][seed % 2]
        weights = 10.0 ** rng.uniform(-300, 300, m)
        for dtype in ("float32", "float64"):
            probs = sharp.astype(dtype)
            acc = fill(probs, all_rules(2), weights).result()
            for name, d in sw.decompose(probs, all_rules(2), weights=weights).items():
                for parts in (d, acc[name]):
                    assert all(np.isfinite(x).all() and (x >= 0).all() for x in parts), name


def test_weights_that_overflow_are_refused():
    acc = sw.Accumulator("log")
    for _ in range(3):
        acc.update(np.full((2, 2), 0.5), weight=1e308)
    with pytest.raises(sw.InvalidInput, match="sum to infinity; scale them"):
        acc.result()


def test_results_are_available_at_any_time_and_stay():
    probs = members(5, 6, 3)
    acc = sw.Accumulator("log")
    for m in range(6):
        acc.update(probs[:, m])
        before = acc.result()
        np.testing.assert_allclose(
            before.epistemic, sw.decompose(probs[:, : m + 1], "log").epistemic, atol=1e-16
        )
    copy = before.epistemic.copy()
    acc.update(probs[:, 0])
    np.testing.assert_array_equal(before.epistemic, copy)


def test_logits_moved_classes_and_any_batch_shape():
    logits = np.random.default_rng(0).normal(size=(4, 2, 3, 5))  # (M, N, K, H)
    acc = sw.Accumulator(["log", "zero-one"])
    for member in logits:
        acc.update(member, class_axis=1, from_logits=True)
    expected = sw.decompose(
        logits, ["log", "zero-one"], member_axis=0, class_axis=2, from_logits=True
    )
    assert_same(acc.result(), expected, rtol=1e-12, atol=1e-15)


def test_one_rule_gives_one_result_and_half_precision_gives_float32():
    acc = sw.Accumulator("brier")
    for m in range(3):
        acc.update(members(5, 3, 4)[:, m].astype(np.float16))
    assert isinstance(acc.result(), Decomposition)
    assert acc.result().epistemic.dtype == np.float32


def test_a_buffer_may_be_reused_after_an_update():
    probs = members(5, 3, 4)
    buffer = np.empty((5, 4))
    acc = sw.Accumulator("log")
    for m in range(3):
        buffer[:] = probs[:, m]
        acc.update(buffer)
    np.testing.assert_allclose(acc.result().epistemic, sw.decompose(probs, "log").epistemic)


def test_it_pickles_and_copies():
    acc = fill(members(5, 3, 4), ["log", "zero-one"])
    for twin in (pickle.loads(pickle.dumps(acc)), copy.deepcopy(acc)):
        assert_same(twin.result(), acc.result(), rtol=0)
        twin.update(members(5, 1, 4, seed=3)[:, 0])
        assert twin.n_members == 4
        assert acc.n_members == 3
    assert repr(acc) == "Accumulator([log, zero_one], 3 members)"


def test_memory_does_not_grow_with_members():
    import tracemalloc

    acc = sw.Accumulator(["log", "brier", "zero-one", "spherical"])
    probs = members(2000, 1, 10)[:, 0]
    acc.update(probs)
    acc.update(probs)
    tracemalloc.start()
    for _ in range(20):
        acc.update(probs)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 6 * probs.nbytes


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (
            lambda acc: acc.update(np.full((4, 3), 1 / 3)),
            r"shape \(5, 3\) so far, this one \(4, 3\)",
        ),
        (lambda acc: acc.update(np.full((5, 4), 0.25)), r"shape \(5, 3\) so far"),
        (lambda acc: acc.update(np.full((5, 3), 1 / 3, np.float32)), "dtype float64 so far"),
        (lambda acc: acc.update(np.full((5, 3), 0.4)), r"probs\[0\] sums to 1.2"),
        (lambda acc: acc.update(np.full((5, 3), np.nan)), r"probs\[0, 0\] is nan"),
        (lambda acc: acc.update(np.full((5, 3), 1 / 3), weight=-1), "weight is -1.0"),
        (lambda acc: acc.update(np.full((5, 3), 1 / 3), weight=[1, 2]), "weight has shape"),
        (
            lambda acc: acc.update(np.full((5, 3), 1 / 3), weight=[1, 1, np.nan, 1, 1]),
            r"weight\[2\] is nan",
        ),
        (lambda acc: acc.update(np.full((5, 1), 1.0)), "at least 2"),
        (
            lambda acc: acc.update(np.full((5, 3), 1 / 3), class_axis=2),
            "class_axis=2 is not an axis",
        ),
        (lambda acc: acc.merge(sw.Accumulator("brier")), "rules must be the same"),
        (
            lambda acc: acc.merge(fill(members(5, 2, 3), ["zero-one", "log"])),
            "rules must be the same",
        ),
        (lambda acc: acc.merge(fill(members(4, 2, 3), ["log", "zero-one"])), r"this one \(4, 3\)"),
    ],
)
def test_bad_input_is_refused_and_the_state_is_as_before(update, message):
    acc = fill(members(5, 2, 3), ["log", "zero-one"])
    before = copy.deepcopy(acc.result())
    with pytest.raises(sw.InvalidInput, match=message):
        update(acc)
    assert acc.n_members == 2
    assert_same(acc.result(), before, rtol=0)


def test_nothing_accumulated_is_an_error_and_so_is_no_weight():
    acc = sw.Accumulator("log")
    with pytest.raises(sw.InvalidInput, match="call update first"):
        acc.result()
    acc.merge(sw.Accumulator("log"))
    acc.update(np.full((2, 2), 0.5), weight=[1, 0])
    with pytest.raises(sw.InvalidInput, match=r"instance \[1\] all have weight 0"):
        acc.result()
    acc.update(np.array([[0.4, 0.6], [0.3, 0.7]]), weight=1.0)
    assert acc.result().epistemic[1] == 0


def test_an_accumulator_is_not_merged_into_itself():
    acc = fill(members(3, 2, 4), "log")
    with pytest.raises(sw.InvalidInput, match="into itself"):
        acc.merge(acc)


@pytest.mark.parametrize("n", [1, 5, 16, 37])
def test_a_member_may_follow_chunks_and_a_merge(n):
    probs = members(n, 4, 3)
    acc, other = sw.Accumulator(["log", "zero-one"]), sw.Accumulator(["log", "zero-one"])
    acc.update_chunks([probs[:, :2]])
    acc.update(probs[:, 2])
    other.update(probs[:, 3])
    other.merge(acc)
    stacked = sw.decompose(probs, ["log", "zero-one"])
    for name, d in other.result().items():
        np.testing.assert_allclose(list(d), list(stacked[name]), rtol=1e-11)


def test_a_copy_does_not_see_later_members():
    probs = members(20, 3, 4)
    acc = fill(probs[:, :2], "log")
    before = copy.copy(acc)
    acc.update(probs[:, 2])
    assert before.n_members == 2
    expected = sw.decompose(probs[:, :2], "log")
    np.testing.assert_allclose(list(before.result()), list(expected), rtol=1e-11)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("weighted", ["no", "members", "instances"])
def test_groups_of_members_added_at_once_equal_decomposing(k, weighted):
    probs = members(30, 12, k)
    rng = np.random.default_rng(0)
    weights = {"no": None, "members": rng.uniform(size=12), "instances": rng.uniform(size=(30, 12))}
    w = weights[weighted]
    acc = sw.Accumulator(all_rules(k))
    for part in (slice(0, 5), slice(5, 6), slice(6, 12)):
        acc.update_members(probs[:, part], None if w is None else w[..., part])
    assert acc.n_members == 12
    expected = np.full(30, 12.0) if w is None else np.broadcast_to(w.sum(axis=-1), 30)
    np.testing.assert_allclose(acc.weight, expected, rtol=1e-15)
    of_decompose = sw.decompose(probs, all_rules(k), weights=w)
    assert_same(acc.result(), of_decompose, rtol=1e-12, atol=1e-15)


def test_groups_of_members_have_any_axes_and_any_shape_of_instances():
    probs = members(12, 5, 3).reshape(3, 4, 5, 3)
    acc = sw.Accumulator("log")
    acc.update_members(np.moveaxis(probs, 2, 0), member_axis=0)
    acc.update_members(np.log(probs), from_logits=True)
    acc.update_members(list(np.moveaxis(probs, 2, 0)))
    np.testing.assert_allclose(acc.result().epistemic, sw.decompose(probs, "log").epistemic)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("at_once", [True, False])
def test_members_without_weight_leave_no_epistemic_uncertainty(k, at_once):
    # Classes that only they think possible count for nothing.
    same = np.tile(np.eye(k)[0], (4, 3, 1))
    acc = sw.Accumulator(all_rules(k))
    acc.update_members(same)
    others = members(4, 2, k)
    if at_once:
        acc.update_members(others, np.zeros(2))
    else:
        for m in range(2):
            acc.update(others[:, m], 0.0)
        acc.update_chunks([same])
    for name, d in acc.result().items():
        assert (d.epistemic == 0).all(), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.full((2, 3, 2), 0.6),), r"probs\[0, 0\] sums to 1.2"),
        ((np.full((2, 3, 2), 0.5), [1, -1, 1]), r"weights\[1\] is -1.0"),
        ((np.full((2, 3, 2), 0.5), [[1, 1, 1], [1, np.inf, 1]]), r"weights\[1, 1\] is inf"),
        ((np.full((2, 3, 2), 0.5), [1, 1]), r"weights have shape \(2,\)"),
        ((np.full((3, 3, 2), 0.5),), "must be of the same instances"),
        ((np.full((2, 3, 3), 1 / 3),), "must be of the same instances"),
    ],
)
def test_groups_of_members_that_do_not_fit_are_refused_and_nothing_is_added(arguments, message):
    acc = fill(members(2, 2, 2), "log")
    before = acc.result()
    with pytest.raises(sw.InvalidInput, match=message):
        acc.update_members(*arguments)
    assert acc.n_members == 2
    np.testing.assert_array_equal(acc.result().total, before.total)


def test_copies_of_a_users_rule_are_merged_without_a_check():
    def own(name):
        return sw.rule_from_loss_vector(
            lambda p: 1 - 2 * p + (p**2).sum(-1, keepdims=True), name=name
        )

    probs = members(5, 4, 3)
    first, second = fill(probs[:, :2], own("mine")), fill(probs[:, 2:], own("mine"))
    with pytest.raises(sw.InvalidInput, match="the rules must be the same"):
        first.merge(second)
    first.merge(second, check_rules=False)
    np.testing.assert_allclose(first.result().total, sw.decompose(probs, "brier").total)
    with pytest.raises(sw.InvalidInput, match="the rules must be the same"):
        first.merge(fill(probs, own("yours")), check_rules=False)


def test_accumulators_of_rows_are_joined():
    probs, first = members(30, 7, 4), members(30, 2, 4, seed=1)
    rules = all_rules(4)
    parts = [fill(part, rules) for part in np.split(probs, [10, 10, 25])]
    acc = fill(first, rules)
    acc.merge_rows(parts)
    assert acc.n_members == 9
    assert [part.n_members for part in parts] == [7, 7, 7, 7]
    expected = sw.decompose(np.concatenate([first, probs], axis=1), rules)
    assert_same(acc.result(), expected, rtol=1e-11, atol=1e-14)
    alone = acc.empty()
    alone.merge_rows(parts)
    assert_same(alone.result(), sw.decompose(probs, rules), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "there are no parts"),
        ([sw.Accumulator("log")], "has no members"),
        ([fill(members(3, 2, 4), "brier")], "is not of the rules"),
        ([fill(members(3, 2, 4), "log"), fill(members(2, 3, 4), "log")], "is not of the rules"),
        ([fill(members(3, 2, 4), "log"), fill(members(2, 2, 3), "log")], "all must be alike"),
        ([fill(members(3, 2, 4), "log"), fill(members(3, 2, 4), "log")], "of the same instances"),
        (
            [fill(members(3, 2, 4), "log"), fill(members(2, 2, 4).astype(np.float32), "log")],
            "all must be alike",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_and_nothing_is_added(parts, message):
    acc = fill(members(5, 2, 4), "log")
    with pytest.raises(sw.InvalidInput, match=message):
        acc.merge_rows(parts)
    assert acc.n_members == 2
