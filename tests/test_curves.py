"""Rejection curves: the proof's own sum, ties by their expectation, areas as published."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import scorewise as sw


def by_hand(losses):
    return np.mean([np.mean(losses[:k]) for k in range(1, len(losses) + 1)])


def test_aulc_is_the_mean_loss_over_all_coverages():
    rng = np.random.default_rng(0)
    losses, uncertainty = rng.uniform(size=50), rng.uniform(size=50)
    assert np.isclose(sw.aulc(losses, uncertainty), by_hand(losses[np.argsort(uncertainty)]))


def test_ties_count_as_their_expected_value_over_random_orders():
    losses = np.array([0.0, 1.0, 0.5, 2.0, 0.1])
    uncertainty = np.array([1.0, 2.0, 2.0, 2.0, 3.0])
    orders = [(0, *middle, 4) for middle in itertools.permutations((1, 2, 3))]
    expected = np.mean([by_hand(losses[list(order)]) for order in orders])
    assert np.isclose(sw.aulc(losses, uncertainty), expected)
    for order in itertools.permutations(range(5)):
        assert np.isclose(sw.aulc(losses[list(order)], uncertainty[list(order)]), expected)


@pytest.mark.parametrize(
    ("losses", "uncertainty", "message"),
    [
        ([0, 1], [0.5], "2 entries, uncertainty 1"),
        ([], [], "losses is empty"),
        ([0, np.nan], [0, 1], r"losses\[1\] is nan"),
        ([0, -np.inf], [0, 1], r"losses\[1\] is -inf"),
        ([0, 1], [np.nan, 1], r"uncertainty\[0\] is nan"),
        ([[0, 1]], [0, 1], "losses has 2 dimensions"),
    ],
)
def test_bad_input_is_refused(losses, uncertainty, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.aulc(losses, uncertainty)


few_rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 1.0, 0.3, 2.5, -1.0]), st.integers(0, 2)),
    min_size=1,
    max_size=6,
)
zero_one_rows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0]), st.integers(0, 9)), min_size=2, max_size=60
)


def running_means(losses):
    return np.cumsum(losses, axis=-1) / np.arange(1, np.shape(losses)[-1] + 1)


def generalized_areas(losses):
    """The areas under summed losses / n, by the trapezoidal rule from (0, 0), one per row."""
    n = losses.shape[-1]
    heights = np.concatenate([np.zeros((len(losses), 1)), np.cumsum(losses, axis=-1) / n], axis=-1)
    return np.trapezoid(heights, np.arange(n + 1) / n, axis=-1)


def all_orders(losses):
    return np.array(list(itertools.permutations(losses)))


@given(few_rows)
def test_every_point_of_the_curve_is_the_mean_over_all_orders_of_tied_rows(rows):
    losses, u = np.array(rows).T
    orders = [
        list(o) for o in itertools.permutations(range(len(u))) if (np.diff(u[list(o)]) >= 0).all()
    ]
    curve = sw.rejection_curve(losses, u)
    np.testing.assert_allclose(curve.loss, running_means(losses[orders]).mean(0), atol=1e-12)
    np.testing.assert_allclose(curve.total_loss, losses[orders].cumsum(1).mean(0), atol=1e-12)
    np.testing.assert_array_equal(curve.threshold, np.sort(u))
    assert np.isclose(curve.aulc, running_means(losses[orders]).mean())
    assert np.isclose(curve.augrc, generalized_areas(losses[orders]).mean(), atol=1e-12)


@given(few_rows)
def test_the_oracle_is_the_least_and_random_the_mean_of_all_orders(rows):
    losses, u = np.array(rows).T
    curve, orders = sw.rejection_curve(losses, u), all_orders(losses)
    aulcs, augrcs = running_means(orders).mean(1), generalized_areas(orders)
    np.testing.assert_allclose(curve.oracle_aulc, aulcs.min(), atol=1e-12)
    np.testing.assert_allclose(curve.random_aulc, aulcs.mean(), atol=1e-12)
    np.testing.assert_allclose(curve.oracle_augrc, augrcs.min(), atol=1e-12)
    np.testing.assert_allclose(curve.random_augrc, augrcs.mean(), atol=1e-12)
    np.testing.assert_allclose(curve.eaulc, curve.aulc - aulcs.min(), atol=1e-12)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=80),
    st.randoms(use_true_random=False),
)
def test_shuffling_rows_changes_nothing(rows, random):
    before = sw.rejection_curve(*np.array(rows).T)
    random.shuffle(rows)
    after = sw.rejection_curve(*np.array(rows).T)
    np.testing.assert_array_equal(after.threshold, before.threshold)
    np.testing.assert_allclose(after.loss, before.loss, rtol=1e-12, atol=1e-12)
    for name in ("aulc", "augrc", "oracle_aulc", "random_aulc", "oracle_augrc", "random_augrc"):
        assert np.isclose(getattr(after, name), getattr(before, name), rtol=1e-12, atol=1e-12)


@given(zero_one_rows)
def test_augrc_of_errors_is_the_published_closed_form(rows):
    losses, u = np.array(rows).T
    assume(0 < losses.sum() < len(losses))
    accuracy, auroc = 1 - losses.mean(), roc_auc_score(losses, u)
    expected = (1 - auroc) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    assert np.isclose(sw.augrc(losses, u), expected, rtol=1e-12)


def test_augrc_is_the_area_under_the_generalized_loss():
    rng = np.random.default_rng(0)
    losses, u = rng.exponential(size=40), rng.integers(0, 9, 40)
    curve = sw.rejection_curve(losses, u)
    area = np.trapezoid(np.r_[0, curve.generalized_loss], np.r_[0, curve.coverage])
    assert np.isclose(curve.augrc, area, rtol=1e-12)


@given(zero_one_rows)
def test_aurc_is_the_mean_risk_over_all_coverages(rows):
    """As published by Geifman and El-Yaniv (2017), written out with one loop and without ties."""
    losses = np.array(rows)[:, 0]
    risks = [losses[:k].sum() / k for k in range(1, len(losses) + 1)]
    assert np.isclose(sw.aulc(losses, np.arange(len(losses))), np.mean(risks), rtol=1e-12)


def mean_of_risks(risks):
    """MAPIE: the mean over all coverages, of accuracies."""
    return 1 - np.mean(1 - risks)


def area_from_first_coverage(curve):
    """torch-uncertainty, probly: trapezoids from a coverage of 1/n, divided by their length."""
    coverage = np.arange(1, len(curve) + 1) / len(curve)
    return np.trapezoid(curve, coverage) / (1 - 1 / len(curve))


def range_of_orders(area):
    """The range of an area over the orders of three tied rows with the losses 0, 1 and 0."""
    orders = [(0, *tied, 1) for tied in itertools.permutations((0, 1, 0))]
    areas = [area(np.cumsum(losses) / np.arange(1, 6)) for losses in orders]
    return f"{min(areas):.4f} to {max(areas):.4f}"


def test_table_of_areas_in_the_docs_is_correct():
    losses = [0, 0, 1, 0, 1]
    curve = sw.rejection_curve(losses, [0.1, 0.2, 0.3, 0.4, 0.5])
    tied = sw.rejection_curve(losses, [0.1, 0.2, 0.2, 0.2, 0.5])
    risks, generalized = curve.loss, curve.generalized_loss
    # fd-shifts: trapezoids from a coverage of 0, with the risk of the first row and a sum of 0
    fd_shifts = np.trapezoid(np.r_[risks[0], risks], np.r_[0, curve.coverage])
    fd_shifts_tied = np.trapezoid([0, 0, 1 / 4, 2 / 5], [0, 1 / 5, 4 / 5, 1])
    limit = 0.4 + 0.6 * np.log(0.6)  # the best area of many rows, at this error rate
    from_zero = np.trapezoid(np.r_[0, generalized], np.r_[0, curve.coverage])
    from_first = area_from_first_coverage(risks)
    areas = {
        "scorewise": (curve.aulc, curve.eaulc, curve.augrc, tied.aulc),
        "fd-shifts": (fd_shifts, fd_shifts - limit, from_zero, fd_shifts_tied),
        "torch-uncertainty": (
            from_first,
            "",
            area_from_first_coverage(generalized),
            range_of_orders(area_from_first_coverage),
        ),
        "probly": (from_first, "", "", range_of_orders(area_from_first_coverage)),
        "MAPIE": (mean_of_risks(risks), "", "", range_of_orders(mean_of_risks)),
    }
    rows = [
        [library, *(x if isinstance(x, str) else f"{x:.4f}" for x in values)]
        for library, values in areas.items()
    ]
    page = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text()
    table = re.search(r"\| library \| AURC \|.*\n\|[-|]+\|\n((?:\|.*\|\n)+)", page)
    assert table
    lines = table[1].splitlines()
    assert [[cell.strip() for cell in line[1:-1].split("|")] for line in lines] == rows


def test_normalized_areas_are_0_for_the_oracle_and_1_for_a_random_order():
    losses = np.array([0, 1, 0, 0, 1, 0.5])
    best, none = sw.rejection_curve(losses, losses), sw.rejection_curve(losses, np.zeros(6))
    worst = sw.rejection_curve(losses, -losses)
    for name in ("normalized_aulc", "normalized_augrc"):
        assert np.isclose(getattr(best, name), 0, atol=1e-12)
        assert np.isclose(getattr(none, name), 1)
        assert getattr(worst, name) > 1
    assert np.isclose(worst.normalized_augrc, 2)  # as far beyond random as the oracle is before it
    expected = (worst.aulc - best.aulc) / (none.aulc - best.aulc)
    assert np.isclose(worst.normalized_aulc, expected)


@pytest.mark.parametrize("value", [0, 1, 0.1, 1e-300, 1e300, -3])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_where_all_losses_are_equal_every_order_is_the_best(value, n):
    rng = np.random.default_rng(0)
    curve = sw.rejection_curve(np.full(n, value), rng.integers(0, 4, n))
    np.testing.assert_allclose(curve.loss, value, rtol=1e-12)
    assert curve.normalized_aulc == 0
    assert curve.normalized_augrc == 0


@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_where_many_losses_are_equal_every_order_is_the_best(n):
    curve = sw.rejection_curve(np.full(n, 0.1), np.arange(n) % 4)
    assert curve.normalized_aulc == curve.normalized_augrc == 0


def test_views_of_the_curve():
    curve = sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3])
    assert len(curve) == 4
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.rejection, [0.75, 0.5, 0.25, 0])
    np.testing.assert_allclose(curve.loss, [0, 0, 1 / 3, 1 / 2])
    np.testing.assert_allclose(curve.accuracy, [1, 1, 2 / 3, 1 / 2])
    np.testing.assert_allclose(curve.generalized_loss, [0, 0, 0.25, 0.5])
    np.testing.assert_allclose(curve.generalized_loss, curve.loss * curve.coverage)
    assert curve.augrc == 0.125


def test_other_losses_have_no_accuracy():
    for losses in ([0, 0.5], [0, 2], [-1, 1]):
        with pytest.raises(sw.InvalidInput, match="accuracy"):
            _ = sw.rejection_curve(losses, [0, 1]).accuracy
    n = 10**6  # sums of many zeros and ones are exact
    assert sw.rejection_curve(np.arange(n) % 2, np.arange(n) % 1000).accuracy[-1] == 0.5


def test_coverage_at_a_loss():
    curve = sw.rejection_curve([0, 1, 0, 0, 1], [1, 2, 3, 4, 5])  # 0, 1/2, 1/3, 1/4, 2/5
    assert curve.coverage_at(0.3) == 0.8  # the largest, though less of it loses more
    assert curve.coverage_at(0.25) == 0.8
    assert curve.coverage_at(0.2) == 0.2
    assert curve.coverage_at(0) == 0.2
    assert curve.coverage_at(0.4) == 1
    assert curve.coverage_at(7) == 1
    assert curve.coverage_at(-0.1) == 0
    assert sw.rejection_curve([1, 1], [0, 1]).coverage_at(0.9) == 0


def test_loss_at_a_coverage():
    curve = sw.rejection_curve(np.arange(10), np.arange(10))
    for k in range(1, 11):
        assert curve.loss_at(k / 10) == (k - 1) / 2
        assert curve.loss_at(k * 0.1) == (k - 1) / 2  # 3 * 0.1 is a little above 0.3
    assert 0.1 * 3 > 0.3
    assert curve.loss_at(0.31) == 1.5  # four rows: at least this share
    assert curve.loss_at(1e-12) == 0
    assert curve.loss_at(1) == 4.5


@given(st.integers(1, 2000), st.data())
def test_a_share_of_k_rows_is_k_rows(n, data):
    k = data.draw(st.integers(1, n))
    curve = sw.rejection_curve(np.arange(n), np.arange(n))
    assert curve.loss_at(k / n) == pytest.approx((k - 1) / 2)


@pytest.mark.parametrize("coverage", [0, -0.1, 1.0001, np.nan, np.inf, "half", None])
def test_an_impossible_coverage_is_refused(coverage):
    with pytest.raises(sw.InvalidInput, match="coverage"):
        sw.rejection_curve([0, 1], [0, 1]).loss_at(coverage)


@pytest.mark.parametrize("max_loss", [np.nan, np.inf, "all", None])
def test_a_loss_that_is_no_number_is_refused(max_loss):
    with pytest.raises(sw.InvalidInput, match="max_loss"):
        sw.rejection_curve([0, 1], [0, 1]).coverage_at(max_loss)


@pytest.mark.parametrize(
    ("losses", "uncertainty", "message"),
    [
        ([0, 1], [0.5], "2 entries, uncertainty 1"),
        ([], [], "losses is empty"),
        ([0], [], "uncertainty is empty"),
        ([0, np.nan], [0, 1], r"losses\[1\] is nan"),
        ([0, np.inf], [0, 1], r"losses\[1\] is inf.*floor"),
        ([0, 1], [0, np.nan], r"uncertainty\[1\] is nan"),
        ([0, 1], [[0], [1]], "uncertainty has 2 dimensions"),
        (0, 0, "losses has 0 dimensions"),
        ([0, 1j], [0, 1], "losses"),
        (["a", "b"], [0, 1], "losses"),
    ],
)
@pytest.mark.parametrize("function", [sw.rejection_curve, sw.augrc])
def test_no_curve_is_drawn_from_bad_input(function, losses, uncertainty, message):
    with pytest.raises(sw.InvalidInput, match=message):
        function(losses, uncertainty)


def test_infinite_uncertainties_are_legal_and_tied():
    losses = np.array([1.0, 0, 0, 1, 0.5])
    infinite = [np.inf, -np.inf, np.inf, -np.inf, 0]
    expected = sw.rejection_curve(losses, [1, -1, 1, -1, 0])
    curve = sw.rejection_curve(losses, infinite)
    np.testing.assert_array_equal(curve.loss, expected.loss)
    np.testing.assert_array_equal(curve.threshold, np.sort(infinite))


def test_kinds_of_numbers_do_not_matter():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    wrong, u = rng.uniform(size=200) < 0.3, rng.integers(0, 20, 200)
    expected = sw.rejection_curve(wrong.astype(float), u.astype(float)).loss
    pairs = [
        (wrong, u),
        (wrong.astype(int), u.astype(np.uint8)),
        (wrong.tolist(), u.tolist()),
        (wrong.astype(np.float32), u.astype(np.float32)),
        (wrong, u / 32 > -1),
        (torch.from_numpy(wrong), torch.from_numpy(u)),
        (torch.from_numpy(wrong).float(), torch.from_numpy(u).half()),
    ]
    for losses, uncertainty in pairs[:4] + pairs[5:]:
        curve = sw.rejection_curve(losses, uncertainty)
        np.testing.assert_array_equal(curve.loss, expected)
        assert curve.loss.dtype == np.float64
    assert np.allclose(sw.rejection_curve(*pairs[4]).loss, wrong.mean())  # all tied


def test_bfloat16_tensors_are_numbers_too():
    torch = pytest.importorskip("torch")
    assert sw.aulc(torch.tensor([0, 1]), torch.tensor([0.0, 1.0]).bfloat16()) == 0.25


def test_read_only_arrays_are_accepted():
    losses, u = np.array([1.0, 0, 0.5]), np.array([3.0, 1, 2])
    losses.flags.writeable = u.flags.writeable = False
    sw.rejection_curve(losses, u)


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "spherical"])
def test_no_order_has_a_smaller_expected_aulc_than_total_uncertainty(rule):
    """Proposition 4.1 by brute force: all orders, all outcomes, each with its probability."""
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(3, 0.7), (4, 5))
    mean, total = probs.mean(1), sw.decompose(probs, rule).total
    outcomes = np.array(list(itertools.product(range(3), repeat=4)))
    chances = np.prod(mean[np.arange(4), outcomes], axis=1)
    assert np.isclose(chances.sum(), 1)
    losses = [sw.task_losses(probs, y, rule) for y in outcomes]

    def expected_aulc(uncertainty):
        return np.dot(chances, [sw.aulc(x, uncertainty) for x in losses])

    orders = {o: expected_aulc(np.array(o)) for o in itertools.permutations(range(4))}
    ours = expected_aulc(total)
    assert np.isclose(ours, min(orders.values()), rtol=1e-12)
    assert ours < np.sort(list(orders.values()))[1] * (1 - 1e-9)  # and only this order
    assert np.isclose(np.mean(list(orders.values())), np.mean(total))  # a random one


@pytest.mark.parametrize("n_values", [2, 1000, 700_000])
def test_a_million_rows_with_ties_agree_with_a_straightforward_computation(n_values):
    rng = np.random.default_rng(0)
    n = 1_000_000
    u, losses = rng.integers(0, n_values, n), rng.exponential(size=n)
    _, group, sizes = np.unique(u, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=losses) / sizes
    expected = np.cumsum(np.repeat(means, sizes)) / np.arange(1, n + 1)
    curve = sw.rejection_curve(losses, u)
    np.testing.assert_allclose(curve.loss, expected, rtol=1e-9)
    assert np.isclose(curve.aulc, expected.mean(), rtol=1e-12)
    assert np.isclose(curve.oracle_aulc, running_means(np.sort(losses)).mean(), rtol=1e-12)
    assert np.isclose(curve.random_aulc, losses.mean(), rtol=1e-12)


def test_the_short_functions_are_the_curves_areas():
    rng = np.random.default_rng(0)
    losses, u = rng.uniform(size=30), rng.integers(0, 5, 30)
    curve = sw.rejection_curve(losses, u)
    assert (sw.aulc(losses, u), sw.augrc(losses, u)) == (curve.aulc, curve.augrc)
