"""LossRecalibrator: a monotone map that recalibrates totals on other rows, as an estimator."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import scorewise as sw


def overconfident(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Totals that are half of what they should be, and losses of 0 and 1."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0, 0.8, n)
    return chance / 2, (rng.uniform(size=n) < chance).astype(float)


def test_the_map_never_falls_and_is_level_beyond_what_was_seen():
    total, losses = overconfident(400)
    recalibrator = sw.LossRecalibrator(random_state=0).fit(total[:, None], losses)
    x = np.linspace(total.min(), total.max(), 1000)
    mapped = recalibrator.transform(x[:, None])[:, 0]
    assert (np.diff(mapped) >= 0).all()
    assert mapped[-1] - mapped[0] > 0.5
    outside = recalibrator.transform([[-5.0], [total.min()], [total.max()], [99.0]])[:, 0]
    assert outside[0] == outside[1]
    assert outside[2] == outside[3]
    assert losses.min() <= mapped.min() <= mapped.max() <= losses.max()


def test_it_is_the_mean_of_isotonic_maps_that_each_leave_out_a_fold():
    total, losses = overconfident(200)
    recalibrator = sw.LossRecalibrator(cv=4, random_state=0).fit(total[:, None], losses)
    assert [len(maps) for maps in recalibrator.maps_] == [4]
    expected = np.mean([m.predict(total) for m in recalibrator.maps_[0]], axis=0)
    np.testing.assert_allclose(recalibrator.transform(total[:, None])[:, 0], expected)


def test_an_overconfident_total_is_recalibrated_on_other_rows():
    total, losses = overconfident()
    fit, rest = slice(0, 2000), slice(2000, None)
    recalibrator = sw.LossRecalibrator(random_state=0).fit(total[fit, None], losses[fit])
    recalibrated = recalibrator.transform(total[rest, None])[:, 0]
    before = sw.loss_calibration(losses[rest], total[rest])
    after = sw.loss_calibration(losses[rest], recalibrated)
    assert before.calibration_error > 0.15
    assert after.calibration_error < 0.05
    assert abs(after.gap) < 0.04
    # the order stays the same up to ties, and so does the rejection curve
    order = np.argsort(total[rest])
    assert (np.diff(recalibrated[order]) >= 0).all()
    first, second = (sw.aulc(losses[rest], u) for u in (total[rest], recalibrated))
    assert second == pytest.approx(first, rel=0.02)
    assert first < 0.8 * losses.mean()


def test_cross_fitted_rows_never_saw_their_own_loss():
    total, losses = overconfident(300)
    recalibrator = sw.LossRecalibrator(random_state=7)
    plain = recalibrator.cross_fit(total[:, None], losses)
    for row in (0, 131, 299):
        heavy = losses.copy()
        heavy[row] = 1e6
        mapped = sw.LossRecalibrator(random_state=7).cross_fit(total[:, None], heavy)
        assert mapped[row, 0] == plain[row, 0]
        assert mapped.max() > 1e3  # others did see it
        seen = sw.LossRecalibrator(random_state=7).fit(total[:, None], heavy)
        assert seen.transform(total[[row], None])[0, 0] > 1e3


def test_cross_fitting_is_not_optimistic():
    """Isotonic maps of pure noise look good on their own rows; cross-fitted ones do not."""
    rng = np.random.default_rng(0)
    on_itself, cross_fitted = [], []
    for seed in range(30):
        total, losses = rng.uniform(size=60), rng.normal(size=60)
        recalibrator = sw.LossRecalibrator(random_state=seed)
        cross_fitted.append(
            np.mean((recalibrator.cross_fit(total[:, None], losses)[:, 0] - losses) ** 2)
        )
        on_itself.append(np.mean((recalibrator.transform(total[:, None])[:, 0] - losses) ** 2))
    assert np.mean(cross_fitted) > 1
    assert np.mean(on_itself) < 0.97


def test_a_seed_gives_the_same_map_and_columns_are_mapped_by_themselves():
    total, losses = overconfident(200)
    both = np.stack([total, 1 - total], axis=1)
    first = sw.LossRecalibrator(random_state=3).fit(both, losses).transform(both)
    second = sw.LossRecalibrator(random_state=3).fit(both, losses).transform(both)
    np.testing.assert_array_equal(first, second)
    alone = sw.LossRecalibrator(random_state=3).fit(both[:, :1], losses).transform(both[:, :1])
    np.testing.assert_array_equal(first[:, 0], alone[:, 0])
    other = sw.LossRecalibrator(random_state=4).fit(both, losses).transform(both)
    assert not np.array_equal(first, other)


def test_few_rows_and_bad_losses():
    recalibrator = sw.LossRecalibrator(random_state=0).fit([[0.1], [0.2]], [0.0, 1.0])
    assert len(recalibrator.maps_[0]) == 2
    for y in ([0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(ValueError, match=r"NaN|nan|inf"):
            sw.LossRecalibrator().fit([[0.1], [0.2]], y)
    with pytest.raises(ValueError, match=r"minimum of 2|at least two|1 sample"):
        sw.LossRecalibrator().fit([[0.1]], [0.0])
    with pytest.raises(sw.InvalidInput, match="cv"):
        sw.LossRecalibrator(cv=1).fit([[0.1], [0.2]], [0.0, 1.0])
    with pytest.raises(ValueError, match="features"):
        recalibrator.transform([[0.1, 0.2]])


def totals(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overconfident totals, and losses of 0 and 1."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0, 0.5, n)
    return np.c_[chance / 2, chance**2], (rng.uniform(size=n) < chance).astype(float)


def test_a_recalibrator_keeps_order_and_stays_among_the_losses():
    X, y = totals()
    model = sw.LossRecalibrator(random_state=0).fit(X, y)
    grid = np.repeat(np.linspace(-1, 2, 500)[:, None], 2, axis=1)
    mapped = model.transform(grid)
    assert (np.diff(mapped, axis=0) >= 0).all()
    assert mapped.min() >= 0
    assert mapped.max() <= 1
    assert mapped[0, 0] == model.transform(X.min(axis=0)[None])[0, 0]
    assert len(model.maps_) == 2
    assert all(len(maps) == 5 for maps in model.maps_)
    by_hand = np.mean([m.predict(X[:, 1]) for m in model.maps_[1]], axis=0)
    np.testing.assert_allclose(model.transform(X)[:, 1], by_hand, rtol=1e-12)
    alone = sw.LossRecalibrator(random_state=0).fit(X[:, 1:], y)
    np.testing.assert_array_equal(alone.transform(X[:, 1:])[:, 0], model.transform(X)[:, 1])


def test_a_recalibrator_calibrates_an_overconfident_total():
    X, y = totals(6000)
    recalibrated = sw.LossRecalibrator(random_state=0).fit(X[:3000], y[:3000]).transform(X[3000:])
    for column in range(2):
        before = sw.loss_calibration(y[3000:], X[3000:, column]).calibration_error
        after = sw.loss_calibration(y[3000:], recalibrated[:, column]).calibration_error
        assert before > 0.08
        assert after < 0.03


def test_a_recalibrator_names_its_columns():
    X, y = totals()
    frame = pd.DataFrame(X, columns=["log", "brier"], index=range(9, 309))
    model = sw.LossRecalibrator(random_state=0).set_output(transform="pandas").fit(frame, y)
    np.testing.assert_array_equal(model.feature_names_in_, ["log", "brier"])
    np.testing.assert_array_equal(model.get_feature_names_out(), ["log", "brier"])
    mapped = model.transform(frame)
    assert isinstance(mapped, pd.DataFrame)
    assert list(mapped.columns) == ["log", "brier"]
    np.testing.assert_array_equal(mapped.index, frame.index)
    plain = sw.LossRecalibrator(random_state=0).fit(X, y)
    np.testing.assert_array_equal(mapped, plain.transform(X))
    assert isinstance(plain.transform(X), np.ndarray)
    np.testing.assert_array_equal(
        model.set_output(transform="default").fit_transform(frame, pd.Series(y)), mapped
    )


def test_a_recalibrator_is_cloned_pickled_searched_and_part_of_a_pipeline():
    X, y = totals()
    model = sw.LossRecalibrator(3, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert not hasattr(clone(model), "maps_")
    chain = make_pipeline(sw.LossRecalibrator(random_state=0), LinearRegression())
    search = GridSearchCV(chain, {"lossrecalibrator__cv": [2, 4]}, cv=2).fit(X, y)
    assert len(search.best_estimator_[0].maps_[0]) == search.best_params_["lossrecalibrator__cv"]
    assert search.predict(X).std() > 0.05


def test_the_seed_of_a_recalibrator_decides():
    X, y = totals()

    def mapped(seed: Any) -> np.ndarray:
        return sw.LossRecalibrator(random_state=seed).fit(X, y).transform(X)

    np.testing.assert_array_equal(mapped(1), mapped(1))
    np.testing.assert_array_equal(
        mapped(np.random.RandomState(1)), mapped(np.random.RandomState(1))
    )
    assert (mapped(1) != mapped(2)).any()
    assert (mapped(None) != mapped(None)).any()


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows_are_enough_to_recalibrate(n):
    model = sw.LossRecalibrator().fit(np.arange(n)[:, None], np.arange(n))
    assert len(model.maps_[0]) == n
    assert np.isfinite(model.transform([[0.5]])).all()


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"cv": 1}, lambda X, y: (X, y), "cv must be a whole number from 2 on, not 1"),
        ({"cv": 2.5}, lambda X, y: (X, y), "cv must be a whole number"),
        ({"random_state": "x"}, lambda X, y: (X, y), "random_state"),
        ({}, lambda X, y: (X[:1], y[:1]), "minimum of 2"),
        ({}, lambda X, y: (X, np.where(y > 0, np.inf, y)), "infinity"),
        ({}, lambda X, y: (X, np.where(y > 0, np.nan, y)), "NaN"),
        ({}, lambda X, y: (X.where(X > 0.1), y), "NaN"),
        ({}, lambda X, y: (X, y[1:]), "inconsistent numbers of samples"),
    ],
)
def test_a_refused_fit_leaves_the_recalibrator_unchanged(options, change, message):
    X, y = totals()
    frame = pd.DataFrame(X, columns=["log", "brier"])
    model = sw.LossRecalibrator(random_state=0).fit(frame, y)
    before = model.transform(frame)
    others = pd.DataFrame(np.c_[X, X[:, 0]], columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        model.set_params(**options).fit(*change(others, y))
    np.testing.assert_array_equal(model.transform(frame), before)
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.feature_names_in_, ["log", "brier"])


def test_cross_fitting_maps_no_row_by_its_own_loss():
    X, y = totals(60)
    model = sw.LossRecalibrator(cv=60, random_state=0)
    mapped = model.cross_fit(X, y)
    other = y.copy()
    other[7] = 1 - other[7]
    changed = clone(model).cross_fit(X, other)
    np.testing.assert_array_equal(changed[7], mapped[7])
    assert (changed != mapped).any()
    np.testing.assert_array_equal(model.transform(X), clone(model).fit(X, y).transform(X))
