"""Everything about labelled predictions: the numbers are those of the single functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw
from evaluate_support import ACTIONS, MORE, NAMES, PROBS, QUICK, RIGHT, TRIAGE, Y, evaluate
from report_support import members
from scorewise.abstain import Certificate
from support import as_json, is_at_most

parametrize = pytest.mark.parametrize
TEN_DIGITS = 1e-9  # relative error of numbers of ten digits
LADDER = np.array([0.2, 0.1, 0.05, 0.03, 0.02, 0.01])


# -- numbers ---------------------------------------------------------------------------------------

LOSSES = [
    ("zero-one", None, 1.0, LADDER),
    ("brier", None, 2.0, [0.13, 0.067, 0.033, 0.02, 0.013, 0.0067]),
    ("spherical", None, 1.0, None),
    ("top-k:2", None, 1.0, LADDER),
    ("log", 1e-6, -np.log(1e-6), [0.22, 0.11, 0.055, 0.033, 0.022, 0.011]),
    ("tsallis:1.5", None, 3.0, None),
    (TRIAGE, None, 50.0, None),
    (MORE, None, 50.0, None),
]


@parametrize(("rule", "floor", "bound", "targets"), LOSSES, ids=lambda x: str(x)[:12])
@pytest.mark.filterwarnings("ignore:.*cannot certify")  # by hand
def test_numbers_are_those_of_the_single_functions(rule, floor, bound, targets):
    rules = ["log", "zero-one"]
    evaluation = evaluate(task_loss=rule, floor=floor, rules=rules, confidence=0.9)
    name = rule if isinstance(rule, str) else "cost-matrix"
    losses = sw.task_losses(PROBS, Y, rule, floor=floor)
    own = sw.decompose(PROBS, rule)
    assert evaluation.loss == losses.mean()
    assert (evaluation.task_loss, evaluation.measure) == (name, f"total {name}")
    compared = sw.compare(
        PROBS,
        Y,
        "selective",
        rule,
        rules=rules,
        floor=floor,
        confidence=0.9,
        random_state=0,
        **QUICK,
    )
    assert evaluation.comparison == compared
    assert set(evaluation.curves) == {row.name for row in compared.standings}
    for measure, scores in {
        f"total {name}": own.total,
        "epistemic log": sw.decompose(PROBS, "log").epistemic,
        "aleatoric zero-one": sw.decompose(PROBS, "zero-one").aleatoric,
        "max-softmax": 1 - PROBS.mean(axis=1).max(axis=-1),
    }.items():
        curve = sw.rejection_curve(losses, scores)
        np.testing.assert_allclose(evaluation.curves[measure].loss, curve.loss, atol=1e-12)
        assert np.isclose(evaluation.curves[measure].aulc, compared[measure].value, rtol=1e-9)
    blind = (
        sw.get_rule(rule).entropy(np.full(3, 1 / 3)) if name not in ("zero-one", "top-k:2") else 1
    )
    if targets is None:
        targets = [float(f"{t * blind:.2g}") for t in LADDER]
    np.testing.assert_allclose([c.max_loss for c in evaluation.certificates], targets)
    for certificate in evaluation.certificates:
        total = [float(f"{u:.9e}") for u in own.total]  # ten digits
        by_hand = sw.certify_threshold(
            losses,
            total,
            certificate.max_loss,
            1 - (1 - 0.9) / len(targets),
            loss_bound=bound,
            unit=sw.get_rule(rule).unit,
        )
        np.testing.assert_equal(vars(certificate), vars(by_hand))
    mean = PROBS.mean(axis=1)
    raised = mean if floor is None else (1 - 3 * floor) * mean + floor
    expected = sw.get_rule(rule).expected_loss(raised, mean)
    calibration = sw.loss_calibration(losses, expected, confidence=0.9)
    np.testing.assert_allclose(evaluation.calibration.expected, calibration.expected, rtol=1e-9)
    np.testing.assert_allclose(evaluation.calibration.p_value, calibration.p_value, rtol=1e-6)
    if floor is None:
        np.testing.assert_allclose(evaluation.calibration.expected, own.total.mean(), rtol=1e-9)


@parametrize(
    "rule", ["zero-one", "brier", TRIAGE, MORE], ids=["zero-one", "brier", "square", "more"]
)
def test_the_table_of_classes_sums_up(rule):
    evaluation = evaluate(task_loss=rule, max_loss=0.3 if rule != TRIAGE else 20, class_names=NAMES)
    losses, own = sw.task_losses(PROBS, Y, rule), sw.decompose(PROBS, rule)
    n = np.array([summary.n_rows for summary in evaluation.classes])
    assert [summary.name for summary in evaluation.classes] == NAMES
    np.testing.assert_array_equal(n, np.bincount(Y, minlength=3))
    for name, values in {
        "loss": losses,
        **{c: getattr(own, c) for c in ("total", "aleatoric", "epistemic")},
    }.items():
        by_class = np.array([getattr(summary, name) for summary in evaluation.classes])
        np.testing.assert_allclose(by_class @ n / n.sum(), values.mean(), rtol=TEN_DIGITS)
        np.testing.assert_allclose(by_class, [values[k == Y].mean() for k in range(3)])
    best = evaluation.headline
    if best is not None:
        coverage = np.array([summary.coverage for summary in evaluation.classes])
        assert np.isclose(coverage @ n / n.sum(), best.coverage)
        accepted_loss = np.array([summary.accepted_loss or 0.0 for summary in evaluation.classes])
        assert np.isclose(accepted_loss @ (coverage * n), best.loss * best.coverage * n.sum())


def test_the_table_of_classes_sums_up_where_many_rows_are_tied():
    """As the threshold and the table are computed apart."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(4, 0.3), size=20_000)
    y = (truth.cumsum(axis=1) > rng.uniform(size=(20_000, 1))).argmax(axis=1)
    probs = np.stack([rng.multinomial(10, truth) / 10 for _ in range(7)], axis=1)
    evaluation = evaluate(probs.astype(np.float32), y, n_uncertain=0)
    share = sum(s.n_rows * s.coverage for s in evaluation.classes) / len(y)
    assert 0 < evaluation.headline.coverage < 1
    assert np.isclose(share, evaluation.headline.coverage, atol=1e-12)


@parametrize("dtype", [np.float64, np.float32])
def test_rows_of_equal_votes_are_tied_in_curves_certificates_and_areas(dtype):
    """Votes of 40 trees, counted as integers, say which rows are tied.

    With totals that are not rounded, curves reject 16 of 56 rows that are tied at the threshold.
    """
    for seed in range(5):
        X_fit, X, y_fit, y = train_test_split(
            *load_digits(return_X_y=True), test_size=0.5, random_state=seed
        )
        forest = RandomForestClassifier(40, random_state=seed).fit(X_fit, y_fit)
        probs = sw.predict_samples(forest, X).probs
        against = 40 - np.round(probs.sum(axis=1)).max(axis=1)
        evaluation = evaluate(probs.astype(dtype), y, max_loss=0.03, rules=["zero-one"])
        [certificate], curve = evaluation.certificates, evaluation.curves[evaluation.measure]
        assert len(np.unique(curve.threshold)) == len(np.unique(against))
        n_accepted = (against <= round(40 * certificate.threshold)).sum()
        assert certificate.coverage * len(y) == pytest.approx(n_accepted)
        assert (curve.threshold <= certificate.threshold).sum() == n_accepted
        assert certificate.accepts(evaluation.uncertainty.total).sum() == n_accepted
        aulc = sw.aulc(sw.task_losses(probs, y), against)
        assert curve.aulc == pytest.approx(aulc, rel=1e-12)
        assert evaluation.comparison[evaluation.measure].value == pytest.approx(aulc, rel=1e-12)
        assert sw.compare(probs.astype(dtype), y, rules=[], baselines=False, **QUICK).standings[
            0
        ].value == pytest.approx(aulc, rel=1e-12)


def test_a_class_without_rows_has_no_numbers():
    evaluation = evaluate(y=np.where(Y == 1, 0, Y), max_loss=0.5)
    empty = evaluation.classes[1]
    assert empty.n_rows == 0
    assert np.isnan([empty.loss, empty.total, empty.aleatoric, empty.epistemic]).all()
    assert empty.coverage is None
    assert empty.accepted_loss is None
    assert all(summary.coverage is None for summary in evaluate(task_loss="log").classes)
    as_json(evaluation.to_dict())


@parametrize("rule", ["zero-one", "log", "brier", MORE], ids=["zero-one", "log", "brier", "costs"])
def test_uncertain_rows_have_the_largest_totals(rule):
    evaluation = evaluate(
        task_loss=rule, n_uncertain=20, ids=[f"id{i}" for i in range(300)], class_names=NAMES
    )
    own, losses = sw.decompose(PROBS, rule), sw.task_losses(PROBS, Y, rule)
    rows = [row.index for row in evaluation.uncertain_rows]
    assert len(set(rows)) == 20
    assert (np.diff(own.total[rows]) <= TEN_DIGITS).all()
    assert own.total[rows[-1]] >= np.delete(own.total, rows).max() - TEN_DIGITS
    for row in evaluation.uncertain_rows:
        i = row.index
        assert row.id == f"id{i}"
        assert row.label == NAMES[Y[i]]
        numbers = (own.total[i], own.aleatoric[i], own.epistemic[i])
        assert (row.total, row.aleatoric, row.epistemic) == pytest.approx(numbers, rel=TEN_DIGITS)
        assert row.loss == losses[i]
        order = [NAMES.index(name) for name in row.classes]
        assert (np.diff(row.mean) <= 0).all()
        np.testing.assert_array_equal(row.members, PROBS[i][:, order])
        np.testing.assert_allclose(row.mean, PROBS[i].mean(axis=0)[order])
        if rule is MORE:
            assert row.prediction == str(sw.decide(PROBS[i : i + 1], MORE).action[0])
        else:
            assert row.prediction == row.classes[0]


def test_tied_rows_are_in_falling_order_of_their_epistemic_part():
    probs = np.full((40, 2, 2), 0.5)
    probs[[7, 31]] = np.eye(2)
    evaluation = evaluate(probs, np.zeros(40, dtype=int), n_uncertain=5)
    assert [row.index for row in evaluation.uncertain_rows] == [7, 31, 0, 1, 2]
    assert evaluate(probs, np.zeros(40, dtype=int), n_uncertain=0).uncertain_rows == ()
    assert len(evaluate(probs, np.zeros(40, dtype=int), n_uncertain=99).uncertain_rows) == 40


def test_at_most_40_members_and_6_classes_of_a_row_are_stored():
    probs = np.random.default_rng(0).dirichlet(np.ones(12), size=(30, 100))
    row = evaluate(probs, np.zeros(30, dtype=int), n_uncertain=1).uncertain_rows[0]
    assert row.members.shape == (40, 6)
    assert row.mean.shape == (6,)
    np.testing.assert_allclose(row.mean, np.sort(probs[row.index].mean(axis=0))[::-1][:6])


def test_predictions_have_the_names_of_classes_or_actions():
    assert {row.prediction for row in evaluate(class_names=NAMES).uncertain_rows} <= set(NAMES)
    assert {row.prediction for row in evaluate(task_loss=TRIAGE).uncertain_rows} <= set(ACTIONS)
    square = sw.rules.cost_matrix(1 - np.eye(3))
    evaluation = evaluate(task_loss=square, class_names=NAMES)
    assert {row.prediction for row in evaluation.uncertain_rows} <= set(NAMES)
    assert {row.prediction for row in evaluate(task_loss=MORE).uncertain_rows} <= set("0123")


def test_the_action_shown_is_the_one_that_incurs_the_loss():
    costs = sw.rules.cost_matrix([[0, 1], [1000, 0]], ["go", "stop"])
    evaluation = evaluate(sw.binary(np.zeros(5))[:, None], [0] * 5, task_loss=costs, floor=0.01)
    row = evaluation.uncertain_rows[0]
    assert row.loss == 1  # of stopping
    assert row.prediction == "stop"


def test_the_simplex_is_for_three_classes():
    mean, labels = evaluate().simplex
    np.testing.assert_allclose(mean, PROBS.mean(axis=1))
    np.testing.assert_array_equal(labels, Y)
    assert evaluate(*members(50, 2)).simplex is None
    assert evaluate(*members(50, 4)).simplex is None
    many, y = members(5000, 3, m=2)
    mean, labels = evaluate(many, y).simplex
    assert mean.shape == (2000, 3)
    assert labels.shape == (2000,)


def test_ood_rows():
    outside = np.random.default_rng(1).dirichlet(np.ones(3), size=(80, 8))
    evaluation = evaluate(ood=outside, confidence=0.9)
    ood = evaluation.ood
    u_in, u_out = (sw.decompose(rows, "log").epistemic for rows in (PROBS, outside))
    np.testing.assert_allclose(ood.u_in, u_in, rtol=TEN_DIGITS)
    np.testing.assert_allclose(ood.u_out, u_out, rtol=TEN_DIGITS)
    by_hand = sw.ood_metrics(u_in, u_out, 0.9, n_resamples=QUICK["n_resamples"], random_state=0)
    np.testing.assert_equal(vars(ood.metrics), vars(by_hand))
    compared = sw.compare(PROBS, task="ood", ood=outside, confidence=0.9, random_state=0, **QUICK)
    assert ood.comparison == compared
    assert ood.measure == "epistemic log"


def test_the_ood_measure_is_that_of_the_log_rule_whatever_the_rules_are_called():
    outside = np.random.default_rng(1).dirichlet(np.ones(3), size=(80, 8))
    ood = evaluate(ood=outside, rules={"log": "brier"}).ood
    np.testing.assert_allclose(ood.u_out, sw.decompose(outside, "log").epistemic, rtol=TEN_DIGITS)
    compared = sw.compare(
        PROBS, task="ood", ood=outside, rules={"log": "brier"}, random_state=0, **QUICK
    )
    assert ood.comparison == compared


def test_predictions_are_wrong_right_or_actions():
    by_class = evaluate().uncertain_rows
    assert all(row.is_wrong == (row.prediction != row.label) for row in by_class)
    probable = evaluate(task_loss="brier").uncertain_rows
    assert all(row.is_wrong == (row.prediction != row.label) for row in probable)
    shortlist = evaluate(task_loss="top-k:2").uncertain_rows
    assert all(row.is_wrong == (row.loss > 0) for row in shortlist)
    for actions in (TRIAGE, MORE):
        assert {row.is_wrong for row in evaluate(task_loss=actions).uncertain_rows} == {None}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_ood_rows_of_another_dtype_are_refused(dtype):
    message = f"predictions are float64 and the out-of-distribution ones {dtype}"
    outside = PROBS.astype(dtype)
    with pytest.raises(sw.InvalidInput, match=message):
        evaluate(ood=outside)
    with pytest.raises(sw.InvalidInput, match=message):
        sw.compare(PROBS, task="ood", ood=sw.Samples(outside), **QUICK)


def test_ood_rows_of_other_classes_are_refused():
    with pytest.raises(sw.InvalidInput, match="3 classes, and the out-of-distribution ones 2"):
        evaluate(ood=np.full((5, 8, 2), 0.5))
    with pytest.raises(sw.InvalidInput, match="ood must have members"):
        evaluate(ood=sw.Dirichlet(np.ones((5, 3))))


def test_an_empty_ood_is_refused_by_its_name():
    with pytest.raises(sw.InvalidInput, match="ood has no rows"):
        evaluate(ood=PROBS[:0])


def test_two_classes_share_symmetric_totals():
    """All symmetric totals order rows alike, and share one value and one curve."""
    evaluation = evaluate(*members(400, 2))
    alike = [s for s in evaluation.comparison.standings if s.same_order_as is not None]
    assert len(alike) >= 4
    assert {s.value for s in alike if s.name.startswith("total")} == {
        evaluation.comparison["total zero-one"].value
    }
    assert set(evaluation.distinct_curves) == set(evaluation.curves) - {s.name for s in alike}


def test_rules_may_be_none_but_the_task_s_own():
    evaluation = evaluate(rules=[])
    assert "total zero-one" in evaluation.curves
    assert set(evaluation.curves) == {"total zero-one", "max-softmax", "margin", "variation ratio"}


@parametrize("rules", ["log", sw.rules.log, iter(["log"])], ids=["name", "rule", "iterator"])
def test_rules_may_be_one_rule_or_an_iterator(rules):
    assert "total log" in evaluate(rules=rules).curves


def test_half_precision_gives_nearly_the_same_numbers():
    half, double = evaluate(PROBS.astype(np.float16), n_uncertain=300), evaluate()
    assert half.loss == pytest.approx(double.loss, abs=0.01)
    for row in double.comparison.standings:
        assert half.comparison[row.name].value == pytest.approx(row.value, abs=0.01)
    assert half.calibration.expected == pytest.approx(double.calibration.expected, abs=1e-3)


# -- what is carried along -------------------------------------------------------------------------


def test_predictions_bring_labels_ids_names_and_weights():
    weights = np.random.default_rng(0).uniform(size=8)
    file = sw.io.Predictions(
        PROBS, labels=Y, ids=np.arange(300) + 1000, class_names=NAMES, weights=weights
    )
    from_file = sw.evaluate(file, **QUICK)
    from_arrays = evaluate(ids=np.arange(300) + 1000, class_names=NAMES, weights=weights)
    assert as_json(from_file.to_dict()) == as_json(from_arrays.to_dict())
    assert all(
        row.id == row.index + 1000 and type(row.id) is int for row in from_file.uncertain_rows
    )
    assert from_file.class_names == tuple(NAMES)
    other = sw.evaluate(file, y=RIGHT, **QUICK)
    assert other.loss == np.mean(sw.task_losses(file.samples, RIGHT))
    names = sw.evaluate(PROBS, [NAMES[k] for k in Y], class_names=NAMES, **QUICK)
    assert names.loss == evaluate().loss


def test_logits_and_samples_are_accepted():
    logits = np.log(PROBS)
    by_option = evaluate(logits, from_logits=True)
    as_samples = evaluate(sw.Samples(logits, from_logits=True))
    assert by_option.verdict == as_samples.verdict == evaluate().verdict
    assert evaluate(3 * PROBS, normalize=True).verdict == evaluate().verdict


@parametrize(
    "options",
    [
        {},
        {"ood": PROBS[:50, ::-1]},
        {"task_loss": "log"},
        {"task_loss": TRIAGE},
        {"max_loss": 1e-4},
        {"rules": {"mine": "brier"}},
        {"class_names": NAMES},
    ],
)
def test_the_dictionary_is_json(options):
    evaluation = evaluate(**options)
    stored = as_json(evaluation.to_dict())
    assert stored["verdict"] == list(evaluation.verdict)
    assert stored["loss"] == evaluation.loss
    assert len(stored["certificates"]) == len(evaluation.certificates)
    assert stored["uncertain_rows"][0]["members"] == evaluation.uncertain_rows[0].members.tolist()
    for name, curve in stored["curves"].items():
        whole = evaluation.curves[name]
        assert curve["coverage"][-1] == 1
        assert curve["aulc"] == whole.aulc
        assert len(curve["coverage"]) == len(curve["loss"]) == 200
        assert curve["loss"][-1] == whole.loss[-1]
    assert (stored["ood"] is None) == ("ood" not in options)


@parametrize("seed", [0, 7, np.random.default_rng(3)], ids=str)
def test_a_seed_makes_it_again(seed):
    evaluation = evaluate(random_state=seed, ood=PROBS[:50])
    again = evaluate(random_state=evaluation.settings["seed"], ood=PROBS[:50])
    assert as_json(evaluation.to_dict()) == as_json(again.to_dict())
    other = evaluate(random_state=12345, ood=PROBS[:50])
    assert other.comparison.standings != evaluation.comparison.standings


# -- certificates ----------------------------------------------------------------------------------


def test_the_headline_is_the_smallest_loss_at_which_half_is_accepted():
    def headline(*certificates: tuple[float, float]) -> sw.abstain.Certificate | None:
        made = tuple(
            sw.abstain.Certificate(0.1, coverage, 0.1, 0.1, max_loss, 0.95, 100)
            for max_loss, coverage in certificates
        )
        return replace(evaluate(), certificates=made).headline

    assert headline((0.2, 0.9), (0.1, 0.5), (0.05, 0.49)).max_loss == 0.1
    assert headline((0.2, 0.4), (0.1, 0.3), (0.05, 0.0)).max_loss == 0.2
    assert headline((0.2, 0.0)) is None
    assert headline() is None


def test_several_targets_share_the_confidence():
    evaluation = evaluate(max_loss=[0.1, 0.3, 0.3, 0.2], confidence=0.9)
    assert [c.max_loss for c in evaluation.certificates] == [0.3, 0.2, 0.1]
    assert all(np.isclose(c.confidence, 1 - 0.1 / 3) for c in evaluation.certificates)
    (only,) = evaluate(max_loss=0.1, confidence=0.9).certificates
    assert only.confidence == 0.9


@parametrize(
    ("task_loss", "n", "draws"),
    [("zero-one", 150, 300), ("zero-one", 600, 300), ("brier", 1000, 120)],
)
@pytest.mark.filterwarnings("ignore:.*cannot certify")  # by hand
def test_the_guarantee_in_the_headline_holds(task_loss, n, draws):
    """Chosen after seeing the data, of all default targets, for an overconfident model."""
    confidence, any_evaluation = 0.8, evaluate()
    rng = np.random.default_rng(0)
    pool = np.sort(rng.beta(0.4, 2, 50_000)) / 2  # what the model says of the other class
    chance = np.minimum(0.6, 0.01 + 1.2 * pool)  # of that class
    rule = sw.get_rule(task_loss)
    probs = sw.binary(pool)
    losses, scores = rule.loss_vector(probs), rule.entropy(probs)
    incurred = (1 - chance) * losses[:, 0] + chance * losses[:, 1]
    true_mean = np.cumsum(incurred) / np.arange(1, len(pool) + 1)
    bound, blind = (1.0, 1.0) if task_loss == "zero-one" else (2.0, 0.5)
    targets = [float(f"{t * blind:.2g}") for t in LADDER]
    shown = []

    def draw() -> tuple[np.ndarray, np.ndarray, tuple]:
        rows = rng.integers(len(pool), size=n)
        y = (rng.uniform(size=n) < chance[rows]).astype(int)
        return (
            rows,
            y,
            tuple(
                sw.certify_threshold(
                    losses[rows, y], scores[rows], t, 1 - (1 - confidence) / 6, loss_bound=bound
                )
                for t in targets
            ),
        )

    def fails(headline: Certificate | None) -> bool:
        shown.append(headline is not None)
        if headline is None:
            return False
        accepted = np.searchsorted(scores, headline.threshold, side="right")
        return bool(true_mean[accepted - 1] > headline.max_loss)

    def headlines(count: int) -> list[Certificate | None]:
        return [replace(any_evaluation, certificates=draw()[2]).headline for _ in range(count)]

    chunks = (np.array([fails(c) for c in headlines(20)]) for _ in range(draws // 20))
    assert is_at_most(1 - confidence, chunks)
    assert np.mean(shown) > 0.5
    # and these are what evaluate shows
    rows, y, certificates = draw()
    same = evaluate(probs[rows][:, None], y, task_loss=task_loss, confidence=confidence)
    np.testing.assert_allclose(
        [c.threshold for c in same.certificates], [c.threshold for c in certificates], rtol=1e-9
    )


# -- bad input -------------------------------------------------------------------------------------


@parametrize(
    ("options", "message"),
    [
        ({"y": None}, "the predictions have no labels; pass y="),
        ({"y": Y[:-1]}, r"labels have shape \(299,\) for 300 rows"),
        ({"y": Y + 0.5}, "regression is not supported"),
        ({"y": np.r_[Y[:-1], 3]}, r"labels\[299\] is 3"),
        ({"y": np.r_[Y[:4], -1, -1, Y[6:]]}, r"labels\[4\] is missing; 2 of 300 rows"),
        ({"y": ["a"] * 300}, "labels are names"),
        ({"ids": [1, 2]}, "ids have shape"),
        ({"ids": [1.5] * 300}, r"ids\[0\] is 1.5"),
        ({"class_names": ["a"]}, "1 class_names for 3 classes"),
        ({"class_names": ["a", "a", "b"]}, "two classes are called 'a'"),
        ({"confidence": 95}, "confidence must be above 0 and below 1"),
        ({"n_uncertain": -1}, "n_uncertain must be a whole number"),
        ({"n_resamples": 10}, "n_resamples must be a whole number from 100"),
        ({"max_loss": 1.5}, "at most 1.5 cannot be certified"),
        ({"max_loss": [0.1, np.nan]}, "max_loss must be a finite number"),
        ({"max_loss": "0.1"}, "max_loss must be a finite number"),
        ({"task_loss": "nonsense"}, "no rule is called 'nonsense'"),
        ({"task_loss": sw.rules.cost_matrix(np.eye(2))}, "2 classes"),
        ({"rules": ["log", "log"]}, "two rules are called 'log'"),
        ({"rules": {"zero-one": "brier"}}, "both called 'zero-one'"),
        ({"probs": PROBS[:, 0]}, "member"),
        ({"probs": PROBS[:0], "y": Y[:0]}, "there are no rows"),
        ({"probs": sw.Dirichlet(np.ones((300, 3)))}, "must have members"),
        ({"floor": 0.5, "task_loss": "log"}, "floor is 0.5"),
    ],
)
def test_inconsistent_inputs_are_refused(options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        evaluate(**options)


def test_one_missing_label_is_not_several():
    with pytest.raises(sw.InvalidInput) as caught:
        evaluate(y=np.r_[Y[:4], -1, Y[5:]])
    assert "as are 1 of" not in str(caught.value)


def test_predictions_know_their_own_weights():
    with pytest.raises(sw.InvalidInput, match="weights cannot be passed with Predictions"):
        evaluate(sw.io.Predictions(PROBS, labels=Y), weights=np.ones(8))


def test_weights_by_row_need_ood_as_samples():
    weights = np.linspace(1, 2, 300 * 8).reshape(300, 8)
    with pytest.raises(sw.InvalidInput, match="pass ood=…, as Samples"):
        evaluate(weights=weights, ood=PROBS[:50])
    outside = sw.Samples(PROBS[:50], weights[:50])
    evaluation = evaluate(weights=weights, ood=outside)
    by_hand = sw.decompose(outside, "log").epistemic
    np.testing.assert_allclose(evaluation.ood.u_out, by_hand, rtol=TEN_DIGITS)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (np.ones((3, 4)), r"runs must be a mapping of the name of each measure .*, not ndarray"),
        ([[1.0, 0.5]], r"runs must be a mapping of the name of each measure .*, not list"),
        ({"a": np.ones((3, 4))}, r"runs\['a'\] must be a list of runs, each a list of rounds"),
    ],
)
def test_runs_that_are_no_runs_are_refused_in_a_sentence(runs, message):
    probs = np.full((20, 3, 2), 0.5)
    with pytest.raises(sw.InvalidInput, match=message):
        sw.evaluate(probs, np.zeros(20, int), runs=runs)
