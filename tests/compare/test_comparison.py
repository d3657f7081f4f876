"""The result of a comparison: its verdicts hold, its notes are true, its forms agree."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import scorewise as sw
from compare_support import QUICK, labels
from scorewise.compare import Comparison
from support import members

N, SETS, MEASURES, CONFIDENCE = 300, 400, 5, 0.95


# -- the verdicts hold ----------------------------------------------------------------------------


def outcomes(noise: np.ndarray, seed: int) -> list[Comparison]:
    """Comparisons of many data sets.

    All measures see one signal, each with noise of its own; the first is the model's total.
    """
    rng = np.random.default_rng(seed)
    comparisons = []
    for i in range(SETS):
        signal = rng.normal(size=N)
        y = (rng.uniform(size=N) < 1 / (1 + np.exp(1 - 1.5 * signal))).astype(int)
        scores = signal[:, None] + noise * rng.normal(size=(N, len(noise)))
        top = 1 - 0.5 / (1 + np.exp(-scores[:, 0]))  # label 0 is always predicted
        comparisons.append(
            sw.compare(
                np.stack([top, 1 - top], axis=-1)[:, None],
                y,
                rules=[],
                baselines=False,
                scores={f"m{j}": scores[:, j] for j in range(1, len(noise))},
                confidence=CONFIDENCE,
                n_resamples=200,
                random_state=i,
                progress=False,
            )
        )
    return comparisons


def critical_values(comparisons: list[Comparison]) -> list[float]:
    """Half-widths of intervals in standard errors, one of each comparison."""
    rows = [comparison.standings[-1] for comparison in comparisons]
    return [(row.high - row.distance_to_best) / row.standard_error for row in rows]


@pytest.fixture(scope="module")
def equally_good() -> list[Comparison]:
    return outcomes(np.ones(MEASURES), seed=0)


@pytest.fixture(scope="module")
def of_different_quality() -> list[Comparison]:
    return outcomes(np.array([0.5, 0.5, 1.0, 1.5, 6.0]), seed=1)


def test_none_of_equally_good_measures_is_called_worse_more_often_than_stated(equally_good):
    wrong = sum(any(row.verdict == "worse" for row in c.standings) for c in equally_good)
    assert 1 <= wrong <= stats.binom(SETS, 1 - CONFIDENCE).ppf(0.99)  # nor is it too timid


def test_uncorrected_intervals_against_the_best_would_be_wrong_too_often(equally_good):
    wrong = sum(
        any(row.distance_to_best > 1.96 * row.standard_error for row in c.standings)
        for c in equally_good
    )
    assert wrong > stats.binom(SETS, 1 - CONFIDENCE).ppf(0.9999)


def test_critical_values_are_below_bonferronis_and_above_one_tests(equally_good):
    pairs = MEASURES * (MEASURES - 1) / 2
    bonferroni = stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / pairs, N / 6 - 1)
    assert 2.3 < np.mean(critical_values(equally_good)) < bonferroni


@pytest.mark.parametrize("task", ["selective", "ood"])
def test_few_rows_do_not_make_measures_worse_by_chance(task):
    """Scores that are noise, for 50 losses of which many are 1, or for 10 OOD rows."""
    rng = np.random.default_rng(3)
    n_sets, n, n_out, wrong = 150, 50, 10, 0
    options = {"rules": [], "baselines": False, "n_resamples": 200, "progress": False}
    for seed in range(n_sets):
        if task == "selective":
            other = rng.uniform(0, 0.5, size=n)  # class 0 is always predicted
            comparison = sw.compare(
                sw.binary(other)[:, None],
                (rng.uniform(size=n) < 0.4).astype(int),
                scores={f"m{j}": rng.uniform(size=n) for j in range(5)},
                random_state=seed,
                **options,
            )
        else:
            comparison = sw.compare(
                np.full((n, 1, 2), 0.5),
                task="ood",
                ood=np.full((n_out, 1, 2), 0.5),
                scores={f"m{j}": (rng.uniform(size=n), rng.uniform(size=n_out)) for j in range(6)},
                random_state=seed,
                **options,
            )
        assert len(comparison.standings) == 6
        wrong += any(row.verdict == "worse" for row in comparison.standings)
    assert wrong <= stats.binom(n_sets, 1 - CONFIDENCE).ppf(0.999)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_no_measure_is_worse_on_rows_that_are_too_few_for_a_standard_error(n):
    for seed in range(20):
        probs = np.random.default_rng(seed).dirichlet(np.ones(3), (n, 4))
        y = np.random.default_rng(seed + 100).integers(3, size=n)
        comparison = sw.compare(probs, y, task_loss="log", **QUICK)
        assert {row.verdict for row in comparison.standings} <= {"best", "indistinguishable"}


def test_a_truly_worse_measure_is_recognised(of_different_quality):
    assert np.mean([c["m4"].verdict == "worse" for c in of_different_quality]) > 0.9
    assert np.mean([c["m1"].verdict != "worse" for c in of_different_quality]) > 0.97


def test_intervals_cover_the_true_differences_together(of_different_quality):
    names = [row.name for row in of_different_quality[0].standings]
    truth = {n: np.mean([c[n].value for c in of_different_quality]) for n in names}
    covered = sum(
        all(row.low <= truth[row.name] - truth[c.best] <= row.high for row in c.standings)
        for c in of_different_quality
    )
    assert covered >= stats.binom(SETS, CONFIDENCE).ppf(0.01)


def test_standard_errors_are_of_the_size_of_the_noise(of_different_quality):
    """They are those of the differences from data set to data set."""
    first = "total zero-one"  # as good as m1: the best is one of the two, nearly always
    differences = [c["m4"].value - c[first].value for c in of_different_quality]
    errors = [c["m4"].standard_error for c in of_different_quality if c.best in (first, "m1")]
    assert len(errors) > SETS / 2
    assert 0.85 < np.mean(errors) / np.std(differences) < 1.2


def standard_error_of_redrawn_rows(
    metric: Callable[..., float], sets: list[np.ndarray], n_resamples: int = 4000
) -> float:
    """Standard error of a metric by drawing the rows of each set again."""
    rng = np.random.default_rng(0)
    drawn = [metric(*(rng.choice(rows, len(rows)) for rows in sets)) for _ in range(n_resamples)]
    return float(np.std(drawn))


@pytest.mark.parametrize("loss", ["zero-one", "log"])
@pytest.mark.parametrize("decimals", [0, 1, 15])
def test_standard_errors_of_aulc_are_those_of_redrawn_rows(loss, decimals):
    rng = np.random.default_rng(decimals)
    n = 400
    signal = rng.normal(size=n)
    wrong = 1 / (1 + np.exp(1 - 1.5 * signal))
    y = (rng.uniform(size=n) < wrong).astype(int)
    probs = sw.binary(0.9 * wrong / 2)[:, None]
    scores = (signal + rng.normal(size=n)).round(decimals)
    comparison = sw.compare(
        probs, y, task_loss=loss, rules=[], baselines=False, scores={"mine": scores}, **QUICK
    )
    losses, total = sw.task_losses(probs, y, loss), sw.decompose(probs, loss).total

    def difference(rows):
        return sw.aulc(losses[rows], scores[rows]) - sw.aulc(losses[rows], total[rows])

    expected = standard_error_of_redrawn_rows(difference, [np.arange(n)])
    corrected = expected * np.sqrt((n / 6) / (n / 6 - 1))  # as from n/6 rows
    assert comparison.standings[1].standard_error == pytest.approx(corrected, rel=0.05)


@pytest.mark.parametrize("decimals", [0, 15])
def test_standard_errors_of_auroc_are_those_of_redrawn_rows(decimals):
    rng = np.random.default_rng(1)
    n_in, n_out = 300, 200
    first, second = (
        (rng.normal(size=n_in).round(decimals), rng.normal(shift, size=n_out).round(decimals))
        for shift in (1.0, 0.5)
    )
    comparison = sw.compare(
        members(n_in, 1, 2),
        task="ood",
        ood=members(n_out, 1, 2),
        rules=[],
        baselines=False,
        scores={"first": first, "second": second},
        **QUICK,
    )

    def difference(rows_in, rows_out):
        aurocs = [
            sw.ood_metrics(u_in[rows_in], u_out[rows_out]).auroc for u_in, u_out in (first, second)
        ]
        return aurocs[0] - aurocs[1]

    sets = [np.arange(n_in), np.arange(n_out)]
    expected = standard_error_of_redrawn_rows(difference, sets, n_resamples=2000)
    corrected = expected * np.sqrt((n_out / 2) / (n_out / 2 - 1))
    assert comparison.standings[1].standard_error == pytest.approx(corrected, rel=0.06)


# -- notes ---------------------------------------------------------------------------------------


def test_the_notes_say_when_theory_is_right():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), (3000, 1))
    y = labels(probs)
    total = sw.decompose(probs, "zero-one").total
    scores = {"noise": rng.normal(size=3000)}
    comparison = sw.compare(probs, y, rules=[], scores=scores, baselines=False, **QUICK)
    expected = "Theory recommends total zero-one: it is the best of the 2 measures here."
    assert comparison.notes[0] == expected
    assert comparison.notes[1:] == (comparison.calibrating.sentence(),)
    assert comparison["noise"].verdict == "worse"
    losses = sw.task_losses(probs, y)
    noisy = (total + 0.01 * rng.normal(size=3000) for _ in range(50))
    lucky = next(s for s in noisy if sw.aulc(losses, s) < sw.aulc(losses, total))
    comparison = sw.compare(probs, y, rules=[], scores={"mine": lucky}, baselines=False, **QUICK)
    assert comparison.best == "mine"
    assert comparison["total zero-one"].verdict == "indistinguishable"
    expected = expected.replace("the best", "indistinguishable from mine, the best")
    assert comparison.notes[0] == expected


def test_the_notes_blame_miscalibration_where_it_is_to_blame():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), 3000)
    y = labels(truth[:, None])
    # the model is overconfident about rows that look like class 0
    power = np.where(truth.argmax(axis=-1) == 0, 6.0, 1.0)[:, None]
    reported = truth**power / np.sum(truth**power, axis=-1, keepdims=True)
    scores = {"truth": 1 - truth.max(axis=-1)}
    comparison = sw.compare(reported[:, None], y, scores=scores, **QUICK)
    assert comparison.best == "truth"
    assert comparison["total zero-one"].verdict == "worse"
    assert comparison.notes[0].startswith(
        "Theory recommends total zero-one, but here truth is better"
    )
    assert "Miscalibration may explain it" in comparison.notes[1]
    assert comparison.notes[2:] == (comparison.calibrating.sentence(),)
    assert str(comparison).endswith(comparison.notes[2])


def test_the_notes_do_not_blame_miscalibration_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    wrong = rng.uniform(0, 0.5, 4000)
    y = (rng.uniform(size=4000) < wrong).astype(int)
    coarse = np.where(wrong < 0.25, 0.125, 0.375)  # the mean of each half: calibrated
    comparison = sw.compare(
        sw.binary(coarse)[:, None], y, rules=["log"], scores={"fine": wrong}, **QUICK
    )
    assert comparison.best == "fine"
    assert comparison["total zero-one"].verdict == "worse"
    assert comparison.notes[1].startswith("Miscalibration does not explain it: expected loss 0.2")


def test_names_in_the_notes_can_be_rendered_by_the_caller():
    probs = members(100, 5, 4)
    comparison = sw.compare(probs, labels(probs), rules=["log"], **QUICK)
    shouted = comparison.on_recommended(name_text=str.upper)
    assert "TOTAL ZERO-ONE" in shouted[0]
    assert (*comparison.on_recommended(), comparison.calibrating.sentence()) == comparison.notes


# -- forms ---------------------------------------------------------------------------------------


def test_a_comparison_as_a_dictionary_a_frame_and_text():
    probs = members(100, 5, 4)
    comparison = sw.compare(probs, labels(probs), confidence=0.9, **QUICK)
    again = json.loads(json.dumps(comparison.to_dict()))
    assert again["task"] == "selective"
    assert again["confidence"] == 0.9
    assert [row["name"] for row in again["standings"]] == [row.name for row in comparison.standings]
    frame = comparison.to_frame()
    assert frame["name"].tolist() == [row.name for row in comparison.standings]
    assert frame["value"].tolist() == [row.value for row in comparison.standings]
    lines = str(comparison).splitlines()
    assert lines[0] == "Abstaining, by AULC of the zero-one loss (lower is better)"
    assert "90 % interval" in lines[1]
    for line, row in zip(lines[2:], comparison.standings, strict=False):
        assert line.startswith(row.name)
        assert (f"same order as {row.same_order_as}" if row.same_order_as else row.verdict) in line
        assert f"{row.value:.4f}" in line
    assert lines[-1] == comparison.notes[-1]
    with pytest.raises(KeyError, match="nothing"):
        comparison["nothing"]


def test_measures_that_are_equal_in_all_resamples_do_not_spoil_the_intervals_of_others():
    rng = np.random.default_rng(12)
    probs = rng.dirichlet(np.full(3, 0.15), size=(60, 4)).round(1)
    probs[..., 2] = 1 - probs[..., 0] - probs[..., 1]
    probs = np.abs(probs.round(1))
    probs /= probs.sum(-1, keepdims=True)
    y = probs.mean(1).argmax(1)
    y[:2] = (y[:2] + 1) % 3
    comparison = sw.compare(probs, y, n_resamples=200, random_state=0)
    assert all(row.high - row.low < 1 for row in comparison.standings)
