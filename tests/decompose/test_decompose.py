"""decompose: shapes, axes, several rules at once, and the paper's own statements."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import KERNELS, Usability
from support import all_rules, by_array, members

FOUR = ["log", "brier", "zero-one", "spherical"]


def test_components_have_the_shape_of_the_instances():
    for batch in [(), (3,), (2, 3), (0,), (2, 0, 3)]:
        probs = np.full((*batch, 4, 5), 0.2)
        for part in sw.decompose(probs, "log"):
            assert part.shape == batch


def test_unpacking_and_repr():
    d = sw.decompose(members(3, 2, 2), "brier")
    tu, au, eu = d
    assert tu is d.total
    assert au is d.aleatoric
    assert eu is d.epistemic
    assert repr(d).startswith("Decomposition(\n  total     = [")
    assert "tensor" in repr(sw.decompose(__import__("torch").full((2, 2, 2), 0.5), "brier"))


@pytest.mark.parametrize("wrap", [np.asarray, sw.Samples], ids=["array", "Samples"])
def test_few_functions_run_beside_the_kernel(wrap, monkeypatch):
    """A small decomposition takes as long as the functions that it calls."""
    kernel = SimpleNamespace(
        is_usable=lambda raw, weights: Usability(True, "it computes nothing"),
        supports=lambda rule, jackknife: True,
        compute=lambda raw, weights, rules, jackknife: [np.zeros(1)] * 3 * len(rules),
    )
    monkeypatch.setitem(KERNELS, "cpu", kernel)
    predictions, calls = wrap(members(1, 20, 10)), []
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    d = sw.decompose(predictions, "log")
    sys.setprofile(None)
    assert (d.total == 0).all()
    assert 10 < len(calls) <= 60


def test_several_rules_are_named_as_written():
    probs = members(3, 4, 6)
    rules = ["log", "top-k:5", "tsallis:1.50", sw.rules.tsallis(3), sw.rules.cost_matrix(np.eye(6))]
    results = sw.decompose(probs, rules)
    assert list(results) == ["log", "top-k:5", "tsallis:1.50", "tsallis:3", "cost-matrix"]
    own = sw.decompose(probs, {"triage": sw.rules.cost_matrix(np.eye(6)), "accuracy": "zero-one"})
    assert list(own) == ["triage", "accuracy"]
    assert sw.decompose(probs, []) == {}
    assert list(sw.decompose(probs, own.keys() - {"triage", "accuracy"} | {"log"})) == ["log"]
    for name, rule in zip(results, rules, strict=True):
        for a, b in zip(results[name], sw.decompose(probs, rule), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


def test_two_rules_of_one_name_need_a_mapping():
    twins = [sw.rules.cost_matrix(np.eye(2)), sw.rules.cost_matrix(1 - np.eye(2))]
    with pytest.raises(sw.InvalidInput, match="two rules are called 'cost-matrix'; pass a mapping"):
        sw.decompose(members(2, 2, 2), twins)


@pytest.mark.parametrize(
    ("member_axis", "class_axis"), list(itertools.permutations(range(-5, 0), 2))
)
def test_members_and_classes_may_sit_on_any_axis(member_axis, class_axis):
    probs = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3, 5, 6))
    probs = np.moveaxis(probs, (3, 4), (member_axis, class_axis))
    original = probs.copy()
    view = probs.view()
    view.flags.writeable = False
    got = sw.decompose(view, FOUR, member_axis=member_axis, class_axis=class_axis)
    expected = sw.decompose(np.moveaxis(probs, (member_axis, class_axis), (-2, -1)), FOUR)
    for name in FOUR:
        for a, b in zip(got[name], expected[name], strict=True):
            assert a.shape == (2, 3, 5)
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-16)
    np.testing.assert_array_equal(probs, original)


def test_segmentation_layout():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), (7, 2, 5, 6))  # (M, N, H, W, K)
    d = sw.decompose(np.moveaxis(probs, -1, 2), "log", member_axis=0, class_axis=2)
    np.testing.assert_allclose(d.epistemic, sw.decompose(probs, "log", member_axis=0).epistemic)


def test_stacked_members_are_not_copied():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), (7, 20))
    assert np.shares_memory(sw.Samples(probs, member_axis=0).probs, probs)


def test_large_input_needs_little_more_memory_than_it_has():
    import tracemalloc

    probs = members(20_000, 10, 20).astype(np.float32)
    tracemalloc.start()
    by_array(probs, FOUR)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < probs.nbytes


def test_normalize_rescales_and_nothing_else_does():
    counts = np.random.default_rng(0).integers(1, 9, (5, 4, 3)).astype(float)
    got = sw.decompose(counts, "log", normalize=True).epistemic
    expected = sw.decompose(counts / counts.sum(-1, keepdims=True), "log").epistemic
    np.testing.assert_allclose(got, expected)


def test_logits_may_be_huge_or_masked():
    logits = np.array(
        [[[1e4, 0.0, -np.inf], [0.0, 1e4, -np.inf]], [[1e30, 1e30, 0.0], [3, 3, -1e30]]]
    )
    d = sw.decompose(logits, "brier", from_logits=True)
    np.testing.assert_allclose(d.total, [0.5, 0.5])
    np.testing.assert_allclose(d.epistemic, [0.5, 0.0])
    np.testing.assert_allclose(
        sw.decompose(logits.astype(np.float32)[:1], "log", from_logits=True).total, np.log(2)
    )


def test_samples_and_arrays_give_the_same():
    probs, w = members(10, 5, 3), np.arange(5.0)
    q = sw.Samples(probs, w)
    for a, b in zip(sw.decompose(q, "log"), sw.decompose(probs, "log", weights=w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_allclose(q.mean, np.average(probs, axis=1, weights=w))
    np.testing.assert_allclose(
        q.expect(lambda theta: theta**2), np.average(probs**2, axis=1, weights=w)
    )
    with pytest.raises(sw.InvalidInput, match=r"weights, from_logits: pass to Samples"):
        sw.decompose(q, "log", weights=w, from_logits=True)


def test_binary_probabilities():
    p = members(1, 6, 2)[0][:, 1].reshape(2, 3)
    two = sw.binary(p)
    assert two.shape == (2, 3, 2)
    np.testing.assert_array_equal(two[..., 1], p)
    for bad in ([1.1], [np.nan], [-0.1]):
        with pytest.raises(sw.InvalidInput, match=r"p\[0\] is"):
            sw.binary(bad)


def test_integer_weights_and_lists_are_welcome():
    probs = [[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]]
    repeated = [[[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]]]
    got = sw.decompose(probs, "log", weights=[2, 1, 0])
    for a, b in zip(got, sw.decompose(repeated, "log"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


# -- the paper ------------------------------------------------------------------------------------


def test_table_2_of_the_paper():
    theta = members(50, 20, 6)
    bar = theta.mean(axis=1)
    picked = np.take_along_axis(theta, bar.argmax(-1)[:, None, None], axis=-1)[..., 0]
    norm = np.linalg.norm
    kl = (theta * np.log(theta / bar[:, None])).sum(-1)
    table = {
        "log": (-(bar * np.log(bar)).sum(-1), -(theta * np.log(theta)).sum(-1).mean(1), kl.mean(1)),
        "brier": (
            1 - (bar**2).sum(-1),
            (1 - (theta**2).sum(-1)).mean(1),
            ((bar[:, None] - theta) ** 2).sum(-1).mean(1),
        ),
        "zero-one": (
            1 - bar.max(-1),
            (1 - theta.max(-1)).mean(1),
            (theta.max(-1) - picked).mean(1),
        ),
        "spherical": (
            1 - norm(bar, axis=-1),
            (1 - norm(theta, axis=-1)).mean(1),
            (
                norm(theta, axis=-1) - (theta * bar[:, None]).sum(-1) / norm(bar, axis=-1)[:, None]
            ).mean(1),
        ),
    }
    for name, d in sw.decompose(theta, FOUR).items():
        for a, b in zip(d, table[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, err_msg=name)


def test_the_papers_last_brier_line_has_the_wrong_sign():
    theta = members(50, 20, 6)
    bar = theta.mean(axis=1, keepdims=True)
    epistemic = sw.decompose(theta, "brier").epistemic
    np.testing.assert_allclose(epistemic, (theta**2 - bar**2).sum(-1).mean(1), rtol=1e-10)


def test_totals_of_two_classes_order_instances_alike():
    probs = members(500, 5, 2)
    results = sw.decompose(probs, [*FOUR, "tsallis:3", "pseudospherical:4"])
    doubt = -np.abs(probs.mean(axis=1)[:, 0] - 0.5)
    order = np.argsort(doubt)
    for name, d in results.items():
        assert (np.diff(d.total[order]) >= -1e-15).all(), name


def test_totals_of_brier_and_spherical_order_instances_alike():
    results = sw.decompose(members(500, 5, 7), ["brier", "spherical", "log"])
    order = np.argsort(results["brier"].total)
    assert (np.diff(results["spherical"].total[order]) >= -1e-15).all()
    assert (np.diff(results["log"].total[order]) < 0).any()  # the check can fail


def test_proposition_4_1_by_brute_force():
    """No order of acceptance has a lower expected AULC than rising expected loss."""
    rng = np.random.default_rng(0)
    for rule in all_rules(3).values():
        theta_bar = rng.dirichlet(np.ones(3), 6)
        expected_loss = rule.entropy(theta_bar)
        areas = {
            order: sw.aulc(expected_loss[list(order)], np.arange(6.0))
            for order in itertools.permutations(range(6))
        }
        total = sw.decompose(theta_bar[:, None], rule).total
        by_total = areas[tuple(np.argsort(total, kind="stable"))]
        assert by_total <= min(areas.values()) + 1e-12
        assert max(areas.values()) > by_total
