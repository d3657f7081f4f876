"""Bad input gets a clear error that names what, where and what to do; nothing is touched."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import scorewise as sw
from support import Library, all_rules, members

SUM_TOLERANCE = {"float16": 1e-3, "float32": 1e-4, "float64": 1e-6}  # of a row of probabilities


def poisoned(index, value, dtype="float64", shape=(20, 5, 4)) -> np.ndarray:
    probs = np.full(shape, 1 / shape[-1], dtype=dtype)
    probs[index] = value
    return probs


@pytest.mark.parametrize(
    ("probs", "options", "message"),
    [
        (poisoned((17, 3, 2), np.nan), {}, r"probs\[17, 3, 2\] is nan; .*must be finite"),
        (poisoned((17, 3, 2), np.inf), {}, r"probs\[17, 3, 2\] is inf"),
        (poisoned((17, 3, 2), -np.inf), {}, r"probs\[17, 3, 2\] is -inf"),
        (poisoned((17, 3, 2), -0.25), {}, r"probs\[17, 3, 2\] is -0.25.*from_logits=True"),
        (
            poisoned((17, 3, 2), 0.18),
            {},
            r"probs\[17, 3\] sums to 0.93, not 1; pass normalize=True to rescale rows, or "
            r"pass from_logits=True if these are logits",
        ),
        (poisoned((0, 0), [-1e-9, 0.5, 0.5, 1e-9]), {}, r"probs\[0, 0, 0\] is -1e-09"),
        (poisoned((17, 3, 2), np.nan), {"normalize": True}, r"probs\[17, 3, 2\] is nan"),
        (poisoned((17, 3, 2), -1.0), {"normalize": True}, r"probs\[17, 3, 2\] is -1"),
        (poisoned((17, 3), 0.0), {"normalize": True}, r"probs\[17, 3\] sums to 0 and cannot be"),
        (poisoned((17, 3, 2), np.nan), {"from_logits": True}, r"logits\[17, 3, 2\] is nan"),
        (poisoned((17, 3, 2), np.inf), {"from_logits": True}, r"logits\[17, 3, 2\] is inf"),
        (poisoned((17, 3), -np.inf), {"from_logits": True}, r"logits\[17, 3\] is -inf for every"),
        (poisoned((1, 3), 1e308), {}, r"probs\[1, 3\] sums to inf, not 1"),
        (poisoned((1, 3), 1e308), {"normalize": True}, r"probs\[1, 3\] sums to inf and cannot"),
        (np.full((3, 2), 0.5), {"from_logits": True, "normalize": True}, "already normalises"),
        (np.full(4, 0.25), {}, "has 1 dimension; .*scorewise.binary"),
        (np.float64(0.5), {}, "has 0 dimensions"),
        (np.ones((5, 3, 1)), {}, r"1 class\(es\).*scorewise.binary"),
        (np.ones((5, 3, 0)), {}, r"0 class\(es\)"),
        (np.ones((5, 0, 3)), {}, "no members"),
        (np.ones((5, 3, 2), dtype=int), {}, "dtype int64"),
        (np.ones((5, 3, 2), dtype=bool), {}, "dtype bool"),
        (np.ones((5, 3, 2), dtype=complex), {}, "dtype complex128"),
        (np.ones((5, 3, 2), dtype=object), {}, "dtype object"),
        ([[0.5, 0.5], [1.0]], {}, "not a rectangular array"),
        (np.ma.masked_array(np.full((3, 2), 0.5)), {}, "masked array"),
        (members(4, 3, 2), {"member_axis": 3}, "member_axis=3 is not an axis of probs"),
        (members(4, 3, 2), {"class_axis": -4}, "class_axis=-4 is not an axis of probs"),
        (members(4, 3, 2), {"member_axis": None}, "member_axis=None is not an axis"),
        (members(4, 3, 2), {"class_axis": 1.0}, r"class_axis=1.0 is not an axis"),
        (members(4, 3, 2), {"member_axis": 2}, "are the same"),
        (members(4, 3, 2), {"weights": [1, 2]}, r"weights have shape \(2,\).*\(3,\) or \(4, 3\)"),
        (members(4, 3, 2), {"weights": [1, -2, 1]}, r"weights\[1\] is -2.0"),
        (members(4, 3, 2), {"weights": [1, np.nan, 1]}, r"weights\[1\] is nan"),
        (members(4, 3, 2), {"weights": [1, np.inf, 1]}, r"weights\[1\] is inf"),
        (members(4, 3, 2), {"weights": [0, 0, 0]}, "weights sums to 0"),
        (members(4, 3, 2), {"weights": "abc"}, "weights has dtype str"),
        (members(4, 3, 2), {"weights": [1, 2j, 3]}, "weights has dtype complex128"),
        (members(4, 3, 2), {"weights": [1, None, 3]}, "weights has dtype object"),
        (members(4, 3, 2), {"weights": [[1], [1, 2]]}, "weights is not a rectangular array"),
        (members(4, 3, 2), {"weights": np.ma.ones(3)}, "weights is a masked array"),
        (
            members(2, 3, 2),
            {"weights": [[1, 1, 1], [0, 0, 0]]},
            r"weights\[1\] sums to 0; at least one member",
        ),
    ],
)
def test_bad_input_is_refused(probs, options, message):
    before = np.array(probs, copy=True) if isinstance(probs, np.ndarray) else None
    with pytest.raises(sw.InvalidInput, match=message) as error:
        sw.decompose(probs, "log", **options)
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, sw.ScorewiseError)
    if before is not None:
        np.testing.assert_array_equal(probs, before)


def test_the_place_is_named_in_the_callers_own_axes():
    probs = poisoned((17, 3, 2), np.nan)
    with pytest.raises(sw.InvalidInput, match=r"probs\[3, 17, 2\] is nan"):
        sw.decompose(np.moveaxis(probs, 1, 0), "log", member_axis=0)
    image = np.full((3, 2, 4, 5, 6), 0.25)  # (M, N, K, H, W)
    image[2, 1, 0, 3, 5] = 0.5
    with pytest.raises(sw.InvalidInput, match=r"probs\[2, 1, :, 3, 5\] sums to 1.25"):
        sw.decompose(image, "log", member_axis=0, class_axis=2)


def test_the_first_offender_is_named():
    probs = poisoned((slice(5, None), 2, 1), np.nan)
    with pytest.raises(sw.InvalidInput, match=r"probs\[5, 2, 1\]"):
        sw.decompose(probs, "log")


@pytest.mark.parametrize("message", [r"probs\[1, 1, 0\] is nan", r"probs\[1, 1\] sums to"])
def test_every_library_names_the_place(xp: Library, message: str):
    probs = np.full((3, 2, 2), 0.5)
    probs[1, 1, 0] = np.nan if "nan" in message else 0.7
    with pytest.raises(sw.InvalidInput, match=message):
        sw.decompose(xp.asarray(probs), "log")


@pytest.mark.parametrize(
    ("dtype", "fine", "bad"),
    [("float64", 5e-7, 2e-6), ("float32", 5e-5, 2e-4), ("float16", 5e-4, 2e-3)],
)
def test_tolerance_follows_the_precision(dtype, fine, bad):
    for sign in (-1, 1):
        sw.decompose(np.array([[0.5, 0.5 + sign * fine]], dtype=dtype), "log")
        with pytest.raises(sw.InvalidInput, match="sums to"):
            sw.decompose(np.array([[0.5, 0.5 + sign * bad]], dtype=dtype), "log")


def test_bfloat16_is_allowed_one_percent():
    import torch

    sw.decompose(torch.tensor([[0.5, 0.496]], dtype=torch.bfloat16), "log")
    with pytest.raises(sw.InvalidInput, match="sums to"):
        sw.decompose(torch.tensor([[0.5, 0.48]], dtype=torch.bfloat16), "log")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("k", [2, 10, 1000])
def test_rounded_softmax_outputs_are_accepted(dtype, k):
    rng = np.random.default_rng(0)
    for scale in (0.01, 1, 20):
        z = (rng.normal(size=(200, 3, k)) * scale).astype(dtype)
        e = np.exp((z - z.max(-1, keepdims=True)).astype(np.float64))
        sw.decompose((e / e.sum(-1, keepdims=True)).astype(dtype), "brier")


def test_check_false_trusts_the_caller():
    assert sw.decompose(np.full((2, 3, 2), 0.6), "brier", check=False).total.shape == (2,)
    assert np.isnan(sw.decompose(np.full((2, 3, 2), np.nan), "brier", check=False).total).all()


def test_rules_that_do_not_fit_the_classes_are_refused_before_any_work():
    with pytest.raises(sw.InvalidInput, match="this cost matrix is for 2 classes"):
        sw.decompose(members(3, 2, 3), ["log", sw.rules.cost_matrix(np.eye(2))])
    with pytest.raises(sw.InvalidInput, match="neither a scoring rule nor a list"):
        sw.decompose(members(3, 2, 3), 7)


PROBS = members(5, 4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: sw.rules.brier.divergence(p[:3], p[:4]), r"\(3, 3\), the truth \(4, 3\)"),
        (lambda p: sw.rules.brier.expected_loss(p[:3], p[:4]), "must be of the same instances"),
        (lambda p: sw.rules.brier.divergence(p, [0.5, 0.5]), "3 classes, the truth 2"),
        (lambda p: sw.rules.log.loss(p[:2], [[0], [1, 2]]), "labels is not a rectangular array"),
        (lambda p: sw.rules.log.loss(p[:2], ["a", "b"]), "not names"),
        (lambda p: sw.rules.log.loss(p[:2], [0.0, 1.0]), "labels have dtype float64"),
        (lambda p: sw.rules.log.loss(p[:2], np.ma.array([0, 1])), "labels is a masked array"),
        (lambda p: sw.rules.log.loss(p[:2], np.uint64([0, 3])), r"labels\[1\] is 3; .* 0 to 2"),
        (lambda p: sw.rules.tsallis(10**400), "must be a finite number above 1"),
        (lambda p: sw.rules.tsallis(-(10**5000)), "must be a finite number above 1"),
        (lambda p: sw.rules.tsallis(np.complex128(2 + 1j)), "must be a finite number above 1"),
        (lambda p: sw.get_rule(f"tsallis:{10**400}"), "must be a finite number above 1"),
        (lambda p: sw.rules.cost_matrix(np.eye(3) * 1j), "cost matrix has dtype complex128"),
        (lambda p: sw.rules.quadratic(np.eye(3) * (1 + 1j)), "matrix has dtype complex128"),
        (lambda p: sw.rules.weighted_log([1, 2j, 3]), "class weights has dtype complex128"),
        (lambda p: sw.rules.cost_matrix([[1], [1, 2]]), "cost matrix is not a rectangular"),
        (lambda p: sw.check_rule("log", 0), "n_classes must be a whole number from 2 on, not 0"),
        (lambda p: sw.check_rule("log", 2.5), "n_classes must be a whole number"),
        (lambda p: sw.check_rule("log", n_samples=0), "n_samples must be a whole number from 1"),
        (lambda p: sw.check_rule("log", random_state=-1), "random_state must be a whole number"),
        (lambda p: sw.rule_from_loss_vector(7, name="own"), "fn must be a function.*not 7"),
        (lambda p: sw.rule_from_entropy(np.sum, None, name="own"), "gradient must be a function"),
        (lambda p: sw.binary([[0.1], [0.1, 0.2]]), "p is not a rectangular array"),
        (lambda p: sw.binary("a"), "p has dtype str"),
        (lambda p: sw.Dirichlet([[1.0], [1.0, 2.0]]), "alpha is not a rectangular array"),
        (lambda p: sw.aulc(["a"], [1]), "losses has dtype str"),
        (lambda p: sw.aulc([1], [1j]), "uncertainty has dtype complex128"),
        (lambda p: sw.aulc([1, 2], np.ma.ones(2)), "uncertainty is a masked array"),
        (lambda p: sw.Accumulator("log").update(p, weight=None), "weight has dtype object"),
        (lambda p: sw.Accumulator("log").update(p, weight=1j), "weight has dtype complex128"),
        (
            lambda p: sw.Accumulator("log").update(p, class_axis=None),
            "class_axis=None is not an axis",
        ),
        (lambda p: sw.Accumulator("log").update(0.5), "probs, which has 0 dimensions"),
    ],
)
def test_every_entry_point_refuses_what_it_cannot_use(call, message):
    with pytest.raises(sw.InvalidInput, match=message):
        call(PROBS[:, 0])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda p: [0.5] * 3, "is a list; it must be a ndarray"),
        (lambda p: None, "is a NoneType"),
        (lambda p: p[..., :2], r"has shape \(5, (\d, )?2\); it must be \(5, (\d, )?3\)"),
        (lambda p: p * 1j, "has dtype complex128"),
    ],
)
def test_a_rule_of_the_users_must_return_arrays(made, message):
    with pytest.raises(sw.InvalidInput, match=f"the loss vector of rule 'own' {message}"):
        sw.decompose(PROBS, sw.rule_from_loss_vector(made, name="own"))
    with pytest.raises(sw.InvalidInput, match=f"the gradient of rule 'own' {message}"):
        sw.decompose(PROBS, sw.rule_from_entropy(lambda p: 1 - p.max(-1), made, name="own"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: sw.decompose(p.to_sparse(), "log"), r"probs is sparse; call .to_dense\(\)"),
        (lambda p: sw.decompose(p, "log", weights=p[0, :, 0].to_sparse()), "weights is sparse"),
        (lambda p: sw.rules.log.loss(p[0], p[0, :, 0].to_sparse()), "labels is sparse"),
    ],
)
def test_sparse_tensors_are_refused(call, message):
    import torch

    with pytest.raises(sw.InvalidInput, match=message):
        call(torch.asarray(PROBS))


def test_libraries_are_not_mixed():
    import torch

    numpy_only = sw.rule_from_loss_vector(lambda p: 1 - np.asarray(p), name="own")
    with pytest.raises(sw.InvalidInput, match="is a ndarray; it must be a Tensor"):
        numpy_only.entropy(torch.asarray(PROBS))
    first, other = sw.Accumulator("log"), sw.Accumulator("log")
    first.update(PROBS[:, 0])
    other.update(torch.asarray(PROBS[:, 0]))
    with pytest.raises(sw.InvalidInput, match="different libraries, numpy and torch"):
        first.merge(other)


@pytest.mark.parametrize("measure", [sw.pairwise_epistemic, sw.reverse_epistemic])
def test_measures_of_members_say_what_they_need(measure):
    with pytest.raises(sw.InvalidInput, match=r"weights, check: pass to Samples\(...\)"):
        measure(sw.Samples(PROBS), "log", weights=[1, 2, 3, 4], check=False)
    with pytest.raises(sw.InvalidInput, match="needs members, and a Dirichlet has none"):
        measure(sw.Dirichlet([1.0, 2.0]), "log")


@pytest.mark.parametrize(
    "options",
    [{"check": False}, {"weights": [1.0], "member_axis": 0}, {"normalize": True, "unbiased": True}],
)
def test_options_that_a_dirichlet_cannot_use_are_named(options):
    with pytest.raises(sw.InvalidInput, match=f"^{', '.join(options)}: a Dirichlet has no members"):
        sw.decompose(sw.Dirichlet([1.0, 2.0]), "log", **options)


def test_arrays_that_run_backwards_are_taken_by_every_library(xp: Library):
    weights, labels = np.arange(1.0, 5)[::-1], np.array([0, 1, 2, 0, 1])[::-1]
    got = sw.decompose(xp.asarray(PROBS), "brier", weights=weights)
    expected = sw.decompose(PROBS, "brier", weights=weights.copy())
    np.testing.assert_allclose(xp.to_numpy(got.epistemic), expected.epistemic, rtol=1e-6)
    np.testing.assert_allclose(
        xp.to_numpy(sw.rules.brier.loss(xp.asarray(PROBS[:, 0]), labels)),
        sw.rules.brier.loss(PROBS[:, 0], labels.copy()),
        rtol=1e-6,
    )


def test_logits_may_be_as_far_apart_as_floats_go():
    huge = np.array([[1.7e308, -1.7e308], [-1.7e308, 1.7e308]])
    assert sw.decompose(huge, "zero-one", from_logits=True).epistemic == 0.5


POISONS = [np.nan, np.inf, -np.inf, -1e-3, -0.0, 0.0, 1.0, 2.0, 1e30, 1e-30, 5e-324]


@settings(max_examples=300)
@given(data=st.data())
def test_fuzz_decompose_either_refuses_or_keeps_the_laws(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    ndim = data.draw(st.integers(0, 4))
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=ndim, max_size=ndim)))
    dtype = data.draw(st.sampled_from(["float16", "float32", "float64", "int32", "longdouble"]))
    if ndim and shape[-1] and data.draw(st.booleans()):
        probs = rng.dirichlet(np.full(shape[-1], 0.5), shape[:-1])
    else:
        probs = rng.uniform(0, 1, shape)
    probs = np.asarray(probs).astype(dtype)
    for _ in range(data.draw(st.integers(0, 2))):
        if probs.size:
            with np.errstate(all="ignore"):
                value = np.asarray(data.draw(st.sampled_from(POISONS)))
                if dtype != "int32" or np.isfinite(value):
                    probs[tuple(rng.integers(shape))] = (
                        np.clip(value, -1e4, 1e4)
                        if (dtype in {"int32", "float16"} and np.isfinite(value))
                        else value
                    )
    layout = data.draw(
        st.sampled_from(["plain", "fortran", "reversed", "every other", "read-only"])
    )
    if layout == "fortran":
        probs = np.asfortranarray(probs)
    elif layout == "reversed" and ndim:
        probs = probs[::-1]
    elif layout == "every other" and ndim:
        probs = np.repeat(probs, 2, axis=0)[::2]
    elif layout == "read-only":
        probs.flags.writeable = False
    options = {
        **data.draw(st.sampled_from([{}, {"from_logits": True}, {"normalize": True}])),
        "member_axis": data.draw(st.sampled_from([-2, -2, 0, 1])),
        "class_axis": data.draw(st.sampled_from([-1, -1, 0, 1])),
    }
    axes = [options[axis] % ndim if ndim else 0 for axis in ("member_axis", "class_axis")]
    if ndim and max(axes) < ndim and data.draw(st.booleans()):
        weights = rng.uniform(size=shape[axes[0]]) ** 8
        if len(weights) and data.draw(st.booleans()):
            poison = data.draw(st.sampled_from([0.0, 1e-300, 1e300, -1.0, np.nan, np.inf]))
            weights[rng.integers(len(weights))] = poison
        options["weights"] = weights
    if data.draw(st.booleans()):
        options["standard_errors"] = True
    before = probs.copy()
    k = shape[axes[1]] if ndim > max(axes) else 2
    rules = all_rules(max(k, 2))
    try:
        results = sw.decompose(probs, rules, **options)
    except sw.InvalidInput:
        pass
    else:
        batch = tuple(np.delete(shape, axes))
        # A row may be off by the tolerance of its dtype, and the parts of a rule by as much.
        off = 5 * SUM_TOLERANCE[dtype] * max(k, 3)
        for name, d in results.items():
            for part in (*d, *(d.standard_error or ())):
                assert part.shape == batch, name
                assert (part >= 0).all(), name
            parts = d.aleatoric + d.epistemic
            np.testing.assert_allclose(d.total, parts, atol=off, rtol=off, err_msg=name)
    np.testing.assert_array_equal(probs, before)


def test_predictions_of_a_file_are_answered_with_their_samples():
    predictions = sw.io.Predictions([[[0.5, 0.5]]])
    for function in (sw.decompose, sw.decide):
        with pytest.raises(sw.InvalidInput, match=r"pass their samples: predictions\.samples"):
            function(predictions, "zero-one" if function is sw.decompose else [[0, 1], [1, 0]])
