"""task_losses: the losses of the mean prediction, and their largest values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import scorewise as sw
from support import all_rules, members, own_brier


def drawn(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by probabilities (n, K)."""
    return (p.cumsum(axis=-1) > rng.uniform(size=(len(p), 1))).argmax(axis=-1)


def test_task_losses_are_those_of_the_mean():
    probs, weights = members(40, 5, 4), np.array([1.0, 0.0, 2.0, 3.0, 0.5])
    y = np.arange(40) % 4
    mean = np.average(probs, axis=1, weights=weights)
    dirichlet = sw.Dirichlet(10 * probs[:, 0] + 0.1)
    for name, rule in all_rules(4).items():
        got = sw.task_losses(probs, y, rule, weights=weights)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, rule.loss(mean, y), rtol=1e-9, err_msg=name)
        again = sw.task_losses(sw.Samples(probs, weights=weights), y, rule)
        np.testing.assert_array_equal(got, again)
        got = sw.task_losses(dirichlet, y, rule)
        alpha = np.asarray(dirichlet.alpha)
        expected = rule.loss(alpha / alpha.sum(axis=-1, keepdims=True), y)
        np.testing.assert_allclose(got, expected, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(sw.task_losses(probs, y), sw.task_losses(probs, y, "zero-one"))
    logits = np.log(probs)
    got = sw.task_losses(logits.transpose(1, 0, 2), y, "brier", from_logits=True, member_axis=0)
    np.testing.assert_allclose(got, sw.task_losses(probs, y, "brier"), rtol=1e-9)


def test_the_mean_loss_of_a_calibrated_model_is_its_total():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 20_000)
    y = drawn(p, rng)
    for name, rule in all_rules(4).items():
        gap = sw.task_losses(p[:, None], y, rule) - sw.decompose(p[:, None], rule).total
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap)), name


def test_task_losses_of_every_array_library(xp):
    probs, y = members(10, 3, 4), np.arange(10) % 4
    for rule in ("log", "zero-one"):
        expected = sw.task_losses(probs, y, rule)
        for dtype in ("float64", "float32"):
            got = sw.task_losses(xp.asarray(probs, dtype), xp.asarray(y), rule)
            assert xp.owns(got)
            assert "float64" in str(got.dtype)
            rtol = 1e-12 if dtype == "float64" else 1e-5
            np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol)


def test_task_losses_of_dask_arrays_are_numpys():
    da = pytest.importorskip("dask.array")
    probs, y = members(10, 3, 4), np.arange(10) % 4
    got = sw.task_losses(da.from_array(probs, chunks=(5, 3, 4)), y, "log")
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, sw.task_losses(probs, y, "log"))


@pytest.mark.parametrize("name", ["log", "brier", "spherical", "tsallis:1.5", "rps", "own"])
def test_task_losses_of_torch_have_a_gradient(name):
    import torch

    rule = own_brier("torch") if name == "own" else name
    z, y = torch.randn(4, 3, 5, dtype=torch.float64), [0, 3, 1, 4]
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    plain = sw.task_losses(z, y, rule, floor=1e-3, from_logits=True, weights=weights)

    def losses(logits):
        return sw.task_losses(logits, y, rule, floor=1e-3, from_logits=True, weights=weights)

    assert not plain.requires_grad
    torch.testing.assert_close(losses(z.requires_grad_()), plain, rtol=1e-12, atol=0)
    assert torch.autograd.gradcheck(losses, (z,))


def test_task_losses_of_jax_have_a_gradient():
    import jax

    y = np.arange(6) % 3
    alpha = jax.numpy.asarray(9 * members(6, 1, 3)[:, 0] + 0.1)

    def mean_loss(a):
        return sw.task_losses(sw.Dirichlet(a), y, "log").mean()

    labels = np.eye(3)[y]
    expected = (1 / alpha.sum(-1, keepdims=True) - labels / alpha) / 6
    np.testing.assert_allclose(jax.jit(jax.grad(mean_loss))(alpha), expected, rtol=1e-5)


def test_curves_and_calibrations_take_losses_of_torch():
    import torch

    probs, y = torch.from_numpy(members(40, 3, 4)).requires_grad_(), np.arange(40) % 4
    losses, total = sw.task_losses(probs, y, "brier"), sw.decompose(probs, "brier").total
    on_host = sw.task_losses(probs.detach().numpy(), y, "brier")
    curve = sw.rejection_curve(losses, total)
    assert np.isclose(curve.aulc, sw.aulc(on_host, total.detach().numpy()), rtol=1e-12)
    sw.loss_calibration(losses, total)
    sw.certify_threshold(losses, total, max_loss=1.5, loss_bound=2)


@pytest.mark.parametrize("xp", ["torch", "jax"], indirect=True)
def test_a_users_rule_gets_arrays_of_the_library_of_the_predictions(xp):
    probs, y, rule = members(10, 3, 4), np.arange(10) % 4, own_brier(xp.name)
    weights = np.array([1.0, 0.0, 2.0])
    for floor in (None, 0.01):
        got = sw.task_losses(xp.asarray(probs), y, rule, floor=floor, weights=weights)
        assert xp.owns(got)
        expected = sw.task_losses(probs, y, "brier", floor=floor, weights=weights)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)
    alpha = 9 * probs[:, 0] + 0.1
    got = sw.task_losses(sw.Dirichlet(xp.asarray(alpha)), xp.asarray(y), rule)
    expected = sw.task_losses(sw.Dirichlet(alpha), y, "brier")
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("floor", [1e-12, 1e-6, 0.01, 0.19])
def test_a_floor_bounds_the_log_loss_at_exactly_minus_its_logarithm(k, floor):
    sure = np.eye(k)[:, None]
    wrong = np.roll(np.arange(k), 1)
    assert np.isinf(sw.task_losses(sure, wrong, "log")).all()
    np.testing.assert_array_equal(sw.task_losses(sure, wrong, "log", floor=floor), -np.log(floor))
    assert sw.rules.log.largest_loss(k, floor) == -np.log(floor)
    right = sw.task_losses(sure, np.arange(k), "log", floor=floor)
    np.testing.assert_allclose(right, -np.log1p(-(k - 1) * floor), rtol=1e-9, atol=1e-15)
    probs, y = members(50, 3, k, concentration=0.1), np.arange(50) % k
    mean = (1 - k * floor) * probs.mean(axis=1) + floor
    got = sw.task_losses(probs, y, "log", floor=floor)
    np.testing.assert_allclose(got, -np.log(mean[np.arange(50), y]), rtol=1e-10)
    assert got.max() <= -np.log(floor)
    got = sw.task_losses(probs, y, "zero-one", floor=floor)
    np.testing.assert_array_equal(got, sw.task_losses(probs, y, "zero-one"))


@pytest.mark.parametrize("rule", ["log", "brier", "spherical", "tsallis:1.5"])
def test_losses_of_single_precision_are_above_the_largest_by_rounding_alone(rule):
    p = np.concatenate([members(1000, 1, 5, concentration=0.05)[:, 0], np.eye(5)])
    p = p.astype(np.float32)[:, None]
    for floor in (1e-6, 1e-3):
        for label in range(5):
            losses = sw.task_losses(p, np.full(len(p), label), rule, floor=floor)
            assert losses.max() <= sw.get_rule(rule).largest_loss(5, floor) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1]}, r"\(2,\).*\(3,\)"),
        ({"y": [0, 1, 4]}, r"labels\[2\] is 4"),
        ({"y": [0, 1, -1]}, r"labels\[2\] is missing"),
        ({"y": [0.0, 1.0, 0.5]}, "regression is not supported"),
        ({"floor": 0}, "above 0 and below 1/4"),
        ({"floor": 0.25}, "above 0 and below 1/4"),
        ({"floor": -1e-6}, "above 0"),
        ({"floor": np.nan}, "floor must be a finite number"),
        ({"rule": "nope"}, "no rule is called"),
        ({"predictions": members(2, 3, 4)[0]}, "one row"),
        ({"predictions": members(6, 3, 4).reshape(3, 2, 3, 4)}, r"are for \(3, 2\)"),
        (
            {"predictions": sw.Samples(members(3, 3, 4)), "weights": [1, 1, 1]},
            "weights cannot be passed with Samples, only with arrays",
        ),
        ({"predictions": sw.Dirichlet(np.ones((3, 4))), "from_logits": True}, "with Dirichlet"),
        ({"predictions": members(3, 3, 4) * 2}, "sum"),
    ],
)
def test_bad_predictions_labels_and_floors_are_refused(change, message):
    full = {"predictions": members(3, 3, 4), "y": [0, 1, 2], **change}
    with pytest.raises(sw.InvalidInput, match=message):
        sw.task_losses(**full)


def test_an_infinite_loss_names_the_row_and_the_floor():
    probs = members(20, 3, 2)
    probs[7] = [1.0, 0.0]
    labels = np.ones(20, int)
    with pytest.raises(sw.InvalidInput, match="log loss of row 7 is infinite") as caught:
        sw.compare(probs, labels, task_loss="log")
    assert [remedy.argument for remedy in caught.value.remedies] == ["floor"]


# -- several labels or pixels per row --------------------------------------------------------------


def test_losses_of_labels_are_those_of_each_label():
    probs = sw.binary(np.random.default_rng(0).random((6, 4, 3)))  # 6 rows, 4 members, 3 labels
    y = np.random.default_rng(1).integers(2, size=(6, 3))
    losses = sw.task_losses(probs, y, "brier", member_axis=1)
    assert losses.shape == (6, 3)
    for j in range(3):
        np.testing.assert_allclose(losses[:, j], sw.task_losses(probs[:, :, j], y[:, j], "brier"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("from_logits", [True, False])
def test_losses_of_pixels_are_those_of_rows(dtype, from_logits):
    rows = members(24, 3, 5)
    rows = (np.log(rows) if from_logits else rows).astype(dtype)
    y = np.random.default_rng(1).integers(5, size=24)
    pixels = np.moveaxis(rows.reshape(4, 6, 3, 5), [2, 3], [0, 1])  # (M, K, H, W)
    losses = sw.task_losses(
        pixels, y.reshape(4, 6), "log", member_axis=0, class_axis=1, from_logits=from_logits
    )
    expected = sw.task_losses(rows, y, "log", from_logits=from_logits)
    np.testing.assert_allclose(losses.ravel(), expected)


def test_ignored_labels_have_no_loss():
    rows, y = members(5, 3, 4), np.array([0, 255, 1, 2, 255], dtype=np.uint8)
    losses = sw.task_losses(rows, y, ignore_label=255)
    counts = y != 255
    np.testing.assert_array_equal(losses[counts], sw.task_losses(rows[counts], y[counts]))
    assert np.isnan(losses[~counts]).all()
    assert np.isnan(sw.task_losses(rows, [255] * 5, ignore_label=255)).all()
    names = sw.task_losses(
        rows, list("abc") + ["void"] * 2, ignore_label="void", class_names=list("abcd")
    )
    assert np.isnan(names).tolist() == [False] * 3 + [True] * 2


def test_losses_of_labels_have_gradients_and_weights():
    z = torch.zeros(2, 3, 4, 2, requires_grad=True)
    losses = sw.task_losses(z, np.zeros((2, 3), int), "log", from_logits=True)
    assert losses.shape == (2, 3)
    losses.sum().backward()
    assert (z.grad[..., 0] < 0).all()
    weights = np.array([1.0, 0.0, 0.0, 0.0])
    probs = sw.binary(np.random.default_rng(0).random((2, 3, 4)))
    np.testing.assert_allclose(
        sw.task_losses(probs, np.zeros((2, 3), int), "brier", weights=weights),
        sw.task_losses(probs[:, :, :1], np.zeros((2, 3), int), "brier"),
    )


def test_losses_of_dirichlets_of_pixels():
    alpha = np.random.default_rng(0).random((2, 3, 4)) + 1
    y = np.array([[0, 1, 2], [3, 0, 1]])
    losses = sw.task_losses(sw.Dirichlet(alpha), y, "brier")
    expected = sw.task_losses(sw.Dirichlet(alpha.reshape(6, 4)), y.ravel(), "brier")
    np.testing.assert_allclose(losses.ravel(), expected)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(6, int), r"y has shape \(6,\), and the predictions are for \(6, 3\)"),
        (np.full((6, 3), 2), r"y\[0, 0\] is 2"),
        (np.where(np.eye(6, 3) > 0, np.nan, 0.0), r"y\[0, 0\] is missing"),
    ],
)
def test_labels_of_labels_that_do_not_fit_are_refused(y, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.task_losses(sw.binary(np.full((6, 3, 2), 0.4)), y)
