"""Truncation to the most likely classes: what is stored, and bounds that hold and are attained."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import scorewise as sw
from scorewise.io import truncate, truncation_bounds
from support import members, softmax

RULES = {
    "log": sw.rules.log,
    "brier": sw.rules.brier,
    "tsallis:1.5": sw.rules.tsallis(1.5),
    "tsallis:3": sw.rules.tsallis(3),
    "spherical": sw.rules.spherical,
    "pseudospherical:1.3": sw.rules.pseudospherical(1.3),
    "pseudospherical:4": sw.rules.pseudospherical(4),
    "zero-one": sw.rules.zero_one,
    "top-k:2": sw.rules.top_k(2),
}
DECISIONS = ("zero-one", "top-k:2")
# The even spread has the least epistemic uncertainty under these.
JOINTLY_CONVEX = {"log", "brier", "tsallis:1.5", *DECISIONS}
TOLERANCE = 1e-12  # rounding in float64


def draw_members(kind: str, n: int, m: int, k: int, seed: int) -> np.ndarray:
    """Random members, one-hot ones, nearly the same ones, or many small probabilities."""
    rng = np.random.default_rng(seed)
    if kind == "one-hot":
        return np.eye(k)[rng.integers(k, size=(n, m))]
    if kind == "near-agreeing":
        return softmax(2 * rng.normal(size=(n, 1, k)) + 1e-3 * rng.normal(size=(n, m, k)))
    return members(n, m, k, seed, 0.1 if kind == "peaked" else 1.0)


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Members of all kinds, weights or none, and how many classes to store."""
    kind = draw(st.sampled_from(["random", "peaked", "one-hot", "near-agreeing"]))
    m, k = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    probs = draw_members(kind, 4, m, k, draw(st.integers(0, 2**32 - 1)))
    is_weighted = draw(st.booleans())
    weights = np.random.default_rng(0).uniform(0, 3, (4, m)) + 0.1 if is_weighted else None
    return probs, weights, draw(st.integers(1, k - 1))


@settings(max_examples=100)
@given(drawn=predictions(), name=st.sampled_from(list(RULES)))
def test_every_component_is_between_the_bounds(drawn, name):
    probs, weights, k = drawn
    rule = RULES[name]
    if name == "top-k:2" and k == 1:
        return
    true = sw.decompose(probs, rule, weights=weights)
    low, high = truncation_bounds(truncate(probs, k, weights=weights), rule)
    for lowest, value, highest in zip(low, true, high, strict=True):
        assert (lowest >= 0).all()
        assert (lowest <= highest).all()
        assert (value >= lowest - TOLERANCE).all()
        assert (value <= highest + TOLERANCE).all()


@settings(max_examples=30)
@given(drawn=predictions())
def test_lumping_lowers_every_log_component_by_at_most_the_rest_times_the_log_of_its_classes(drawn):
    probs, weights, k = drawn
    truncated = truncate(probs, k, weights=weights)
    stored = sw.decompose(truncated.predictions.samples, "log")
    rest = truncated.predictions.samples.mean[:, -1]
    most = rest * np.log(probs.shape[-1] - k)
    for value, of_stored in zip(sw.decompose(probs, "log", weights=weights), stored, strict=True):
        assert (value >= of_stored - TOLERANCE).all()
        assert (value <= of_stored + most + TOLERANCE).all()


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_equal_and_right_where_the_rest_has_no_probability(name):
    probs = np.zeros((20, 5, 12))
    probs[..., [1, 4, 7]] = members(20, 5, 3)
    low, high = truncation_bounds(truncate(probs, 3), RULES[name])
    for lowest, value, highest in zip(low, sw.decompose(probs, RULES[name]), high, strict=True):
        np.testing.assert_array_equal(lowest, highest)
        np.testing.assert_allclose(lowest, value, rtol=1e-9, atol=TOLERANCE)


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_equal_and_right_where_the_rest_is_one_class(name):
    probs = members(20, 5, 4)
    low, high = truncation_bounds(truncate(probs, 3), RULES[name])
    for lowest, value, highest in zip(low, sw.decompose(probs, RULES[name]), high, strict=True):
        np.testing.assert_array_equal(lowest, highest)
        np.testing.assert_allclose(lowest, value, rtol=1e-9, atol=TOLERANCE)


@pytest.mark.parametrize("name", DECISIONS)
def test_totals_of_decisions_are_exact(name):
    probs = members(50, 5, 12)
    low, high = truncation_bounds(truncate(probs, 2), RULES[name])
    np.testing.assert_array_equal(low.total, high.total)
    np.testing.assert_allclose(low.total, sw.decompose(probs, RULES[name]).total, atol=TOLERANCE)


def with_rest(rest: np.ndarray) -> np.ndarray:
    """Members (N, M, 3 + R) whose three likely classes have what the others leave."""
    n, m, _ = rest.shape
    likely = 0.2 + 0.4 * members(n, m, 3)
    likely *= (1 - rest.sum(axis=-1, keepdims=True)) / likely.sum(axis=-1, keepdims=True)
    return np.concatenate([likely, rest], axis=-1)


def bounds_of(probs: np.ndarray, name: str):
    truncated = truncate(probs, 3)
    assert (truncated.classes < 3).all()
    return sw.decompose(probs, RULES[name]), *truncation_bounds(truncated, RULES[name])


def masses(n: int, m: int) -> np.ndarray:
    """The rest of each member."""
    return np.random.default_rng(1).uniform(0.02, 0.1, (n, m, 1))


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_attained_by_a_rest_that_is_spread_evenly(name):
    true, low, high = bounds_of(with_rest(masses(10, 4) * np.full(6, 1 / 6)), name)
    np.testing.assert_allclose(true.total, high.total, rtol=1e-10)
    np.testing.assert_allclose(true.aleatoric, high.aleatoric, rtol=1e-10)
    if name in JOINTLY_CONVEX:
        np.testing.assert_allclose(true.epistemic, low.epistemic, rtol=1e-10, atol=TOLERANCE)


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_attained_by_a_rest_in_one_class(name):
    true, low, _ = bounds_of(with_rest(masses(10, 4) * np.eye(6)[0]), name)
    np.testing.assert_allclose(true.total, low.total, rtol=1e-10)
    np.testing.assert_allclose(true.aleatoric, low.aleatoric, rtol=1e-10)


@pytest.mark.parametrize("name", RULES)
def test_bounds_are_attained_by_members_whose_rests_are_in_different_classes(name):
    true, low, high = bounds_of(with_rest(masses(10, 4) * np.eye(6)[:4]), name)
    np.testing.assert_allclose(true.aleatoric, low.aleatoric, rtol=1e-10)
    np.testing.assert_allclose(true.epistemic, high.epistemic, rtol=1e-10, atol=TOLERANCE)


def test_total_is_lowest_where_the_rest_fills_classes_up_to_the_smallest_that_is_stored():
    probs = np.array([[[0.4, 0.15, 0.15, 0.15, 0.15, 0.0, 0.0]]])
    truncated = truncate(probs, 2)
    for rule in RULES.values():
        low, _ = truncation_bounds(truncated, rule)
        np.testing.assert_allclose(low.total, sw.decompose(probs, rule).total, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", RULES)
def test_bounds_hold_up_to_the_rounding_of_what_is_stored(name, dtype):
    probs = draw_members("peaked", 50, 5, 40, 0)
    truncated = truncate(probs, 4, dtype=dtype)
    assert truncated.predictions.dtype == dtype
    rounding = {"float16": 5e-3, "float32": 1e-6}[dtype]
    low, high = truncation_bounds(truncated, RULES[name])
    for lowest, value, highest in zip(low, sw.decompose(probs, RULES[name]), high, strict=True):
        assert (value >= lowest - rounding).all()
        assert (value <= highest + rounding).all()


def test_the_classes_with_the_largest_weighted_mean_are_stored_with_the_sum_of_the_others():
    probs = members(30, 4, 9)
    weights = np.array([0.0, 1.0, 2.0, 3.0])
    truncated = truncate(sw.Samples(probs, weights), 3)
    mean = np.average(probs, axis=1, weights=weights)
    np.testing.assert_array_equal(truncated.classes, np.argsort(-mean, axis=-1)[:, :3])
    stored = truncated.predictions.probs
    expected = np.take_along_axis(probs, truncated.classes[:, None, :], axis=-1)
    np.testing.assert_array_equal(stored[..., :3], expected)
    np.testing.assert_allclose(stored.sum(axis=-1), 1.0)
    assert truncated.n_classes == 9


def test_labels_become_columns_and_ids_and_weights_stay():
    probs = np.array([[[0.1, 0.2, 0.7]], [[0.5, 0.4, 0.1]], [[0.5, 0.4, 0.1]], [[0.5, 0.4, 0.1]]])
    complete = sw.io.Predictions(
        probs, labels=[2, 2, 1, -1], ids=list("abcd"), weights=[1.0], class_names=list("xyz")
    )
    stored = truncate(complete, 2).predictions
    assert stored.labels.tolist() == [0, 2, 1, -1]
    assert stored.ids.tolist() == ["a", "b", "c", "d"]
    assert stored.weights.tolist() == [1.0]
    assert stored.class_names is None


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_bounds_of_predictions_that_were_stored_are_the_same(tmp_path, suffix):
    truncated = truncate(members(20, 4, 9), 3)
    sw.write_predictions(tmp_path / f"all{suffix}", truncated.predictions)
    stored = sw.read_predictions(tmp_path / f"all{suffix}")
    direct, from_file = (
        truncation_bounds(truncated, "log"),
        truncation_bounds(stored, "log", n_classes=9),
    )
    for d, other in zip(direct, from_file, strict=True):
        np.testing.assert_array_equal(np.stack(list(d)), np.stack(list(other)))


def test_logits_are_truncated_as_probabilities():
    logits = np.random.default_rng(0).normal(size=(5, 3, 8))
    from_logits = truncate(sw.io.Predictions(logits=logits), 2)
    np.testing.assert_allclose(
        from_logits.predictions.probs, truncate(softmax(logits), 2).predictions.probs
    )


def test_no_rows_are_truncated_to_no_rows():
    truncated = truncate(np.empty((0, 3, 8)), 2)
    assert truncated.predictions.shape == (0, 3, 3)
    low, high = truncation_bounds(truncated, "log")
    assert low.total.shape == high.epistemic.shape == (0,)


@pytest.mark.parametrize(
    ("work", "match"),
    [
        (lambda t: truncate(members(5, 3, 4), 4), "k is 4, and there are 4 classes"),
        (lambda t: truncate(members(5, 3, 4), 0), "k"),
        (lambda t: truncate(2 * members(5, 3, 4), 2), "sums to 2"),
        (lambda t: truncate(sw.Samples(members(5, 3, 4)), 2, weights=[1, 1, 1]), "weights"),
        (lambda t: truncate(members(5, 3, 4), 2, dtype="int8"), "int8"),
        (lambda t: truncation_bounds(t, "rps"), "'rps' has no bounds"),
        (lambda t: truncation_bounds(t, np.ones((4, 2))), "has no bounds"),
        (lambda t: truncation_bounds(t, "top-k:3"), "needs 3 classes, and 2 are stored"),
        (lambda t: truncation_bounds(t, "log", n_classes=7), "n_classes is 7"),
        (lambda t: truncation_bounds(t.predictions, "log"), "pass n_classes"),
        (lambda t: truncation_bounds(t.predictions, "log", n_classes=2), "n_classes is 2"),
    ],
)
def test_what_does_not_fit_is_refused(work, match):
    with pytest.raises(sw.InvalidInput, match=match):
        work(truncate(members(5, 3, 4), 2))


def test_stored_classes_that_cannot_be_the_most_likely_are_refused_with_the_row():
    stored = np.array([[[0.5, 0.3, 0.2]], [[0.1, 0.1, 0.8]]])
    with pytest.raises(sw.InvalidInput, match=r"row 1: the rest has a mean of 0\.8"):
        truncation_bounds(stored, "log", n_classes=4)


def test_blocks_of_rows_give_the_same_bounds_as_each_row_alone():
    probs = members(600, 4, 2500)  # more than one block
    truncated = truncate(probs, 5)
    low, _ = truncation_bounds(truncated, "brier")
    for row in (0, 599):
        alone, _ = truncation_bounds(truncate(probs[row : row + 1], 5), "brier")
        np.testing.assert_allclose(low.aleatoric[row], alone.aleatoric[0], rtol=1e-12)


def test_log_aleatoric_cannot_be_as_low_as_with_every_rest_in_one_class_if_totals_are_high():
    rest = np.full((1, 2, 40), 0.4 / 40)  # no class of the rest has more than 0.01 on average
    probs = np.concatenate([np.full((1, 2, 60), 0.01), rest], axis=-1)
    truncated = truncate(probs, 60)
    low, _ = truncation_bounds(truncated, "log")
    in_one_class = sw.decompose(truncated.predictions.samples, "log").aleatoric
    assert low.aleatoric[0] > in_one_class[0] + 1.0
    assert low.aleatoric[0] <= sw.decompose(probs, "log").aleatoric[0]
