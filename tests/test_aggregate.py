"""Uncertainties and losses of rows and images, from those of their labels and pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import scorewise as sw

RNG = np.random.default_rng(0)
VALUES = RNG.random((4, 6, 5))


def test_the_mean_is_over_the_chosen_axes():
    np.testing.assert_allclose(sw.aggregate(VALUES, -1), VALUES.mean(axis=-1))
    np.testing.assert_allclose(sw.aggregate(VALUES, (-1, -2)), VALUES.mean(axis=(1, 2)))
    np.testing.assert_allclose(sw.aggregate(VALUES, [0, 2], "sum"), VALUES.sum(axis=(0, 2)))


def test_weights_and_where_choose_what_counts():
    weights, where = RNG.random(5), VALUES > 0.3
    expected = [
        [np.average(v[w], weights=weights[w]) for v, w in zip(*rows, strict=True)]
        for rows in zip(VALUES, where, strict=True)
    ]
    np.testing.assert_allclose(sw.aggregate(VALUES, -1, weights=weights, where=where), expected)
    np.testing.assert_allclose(
        sw.aggregate(VALUES, -1, "sum", weights=weights, where=where),
        (VALUES * weights * where).sum(axis=-1),
    )


@pytest.mark.parametrize("top", [0.01, 0.1, 0.35, 0.99])
def test_top_is_the_mean_of_the_largest_share(top):
    ranked = np.sort(VALUES.reshape(4, -1))[:, ::-1]
    n = max(1, int(np.ceil(top * 30 - 1e-9)))
    np.testing.assert_allclose(sw.aggregate(VALUES, (1, 2), top=top), ranked[:, :n].mean(axis=1))


def test_top_takes_its_share_of_what_counts():
    where = np.zeros((2, 10), dtype=bool)
    where[0, :4] = where[1, 5:] = True
    values = np.arange(20.0).reshape(2, 10)
    np.testing.assert_allclose(sw.aggregate(values, 1, where=where, top=0.5), [2.5, 18.0])


def test_booleans_give_shares():
    np.testing.assert_allclose(sw.aggregate(VALUES > 0.7, (1, 2)), (VALUES > 0.7).mean(axis=(1, 2)))


def test_decompositions_add_up_for_rows_as_for_labels():
    probs = sw.binary(RNG.random((7, 3, 5)))  # 7 rows, 3 labels, 5 members
    labels = sw.decompose(probs, ["log", "zero-one"])
    rows = sw.aggregate(labels, -1, weights=[1, 2, 3])
    for name, of_rows in rows.items():
        np.testing.assert_allclose(of_rows.total, of_rows.aleatoric + of_rows.epistemic)
        np.testing.assert_allclose(
            of_rows.epistemic, labels[name].epistemic @ np.array([1, 2, 3]) / 6
        )
        assert (of_rows.epistemic >= 0).all()


def test_the_total_of_a_row_is_the_expected_hamming_loss():
    probs = sw.binary(RNG.random((5, 3, 4)))
    total = sw.aggregate(sw.decompose(probs, "zero-one"), -1).total
    theta_bar = probs.mean(axis=-2)[..., 1]
    y = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T  # all label sets, independent
    chance = np.where(y == 1, theta_bar[:, None], 1 - theta_bar[:, None]).prod(axis=-1)
    hamming = (y != (theta_bar > 0.5)[:, None]).mean(axis=-1)
    np.testing.assert_allclose(total, (chance * hamming).sum(axis=-1))


def test_tensors_give_tensors_in_their_dtype():
    values = torch.rand(3, 4, dtype=torch.float32, requires_grad=True)
    mean = sw.aggregate(values, -1, where=np.array([True, True, False, True]))
    assert mean.dtype == torch.float32
    mean.sum().backward()
    torch.testing.assert_close(values.grad[0], torch.tensor([1 / 3, 1 / 3, 0, 1 / 3]))
    largest = sw.aggregate(values.detach(), -1, top=0.5)
    torch.testing.assert_close(largest, values.detach().topk(2).values.mean(-1))


def test_float32_maps_are_summed_in_float64():
    values = np.full((2048, 1024), 0.1, dtype=np.float32)
    mean = sw.aggregate(values, (0, 1))
    assert mean.dtype == np.float32
    assert float(mean) == pytest.approx(0.1, rel=1e-7)


def test_infinite_losses_count_and_ignored_ones_do_not():
    losses = np.array([[np.inf, 1.0], [2.0, np.nan]])
    where = ~np.isnan(losses)
    np.testing.assert_array_equal(sw.aggregate(losses, -1, where=where), [np.inf, 2.0])


D = sw.decompose(sw.binary(RNG.random((2, 3, 4))), "brier")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (VALUES, {"axis": 3}, "axis=3 must be one or several axes of 3"),
        (VALUES, {"axis": (1, -2)}, "must be one or several axes"),
        (VALUES, {"axis": ()}, "must be one or several axes"),
        (VALUES, {"axis": -1, "how": "median"}, "how"),
        (VALUES, {"axis": -1, "weights": [1, 2]}, r"weights has shape \(2,\), which does not"),
        (VALUES, {"axis": -1, "weights": [1, 1, 1, 1, -1]}, "not negative"),
        (VALUES, {"axis": -1, "weights": [1, 1, 1, 1, np.nan]}, "finite"),
        (VALUES, {"axis": -1, "where": np.ones(5)}, "where must be a boolean array"),
        (VALUES, {"axis": -1, "where": np.zeros(5, bool)}, "nothing counts in a row"),
        (VALUES, {"axis": -1, "where": np.zeros(5, bool), "top": 0.5}, "nothing counts in a row"),
        (VALUES, {"axis": -1, "top": 1}, "top must be above 0 and below 1"),
        (VALUES, {"axis": -1, "top": 0.5, "how": "sum"}, "leave out how and weights"),
        (VALUES, {"axis": -1, "top": 0.5, "weights": np.ones(5)}, "leave out how and weights"),
        (np.array([1.0, np.nan]), {"axis": 0}, "values have NaN, as the losses of ignored pixels"),
        (D, {"axis": -1, "top": 0.5}, "would not add up; pass one of them"),
        (
            sw.decompose(sw.binary(RNG.random((2, 3, 4))), "brier", standard_errors=True),
            {"axis": -1},
            "decompose without standard_errors",
        ),
    ],
)
def test_what_does_not_fit_is_refused(values, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.aggregate(values, **options)
