"""What new users type, line by line; each line once gave a wrong answer, a riddle or a dead end.

The parts of the library are tested in detail elsewhere; here they are used together.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

import scorewise as sw
from cli_support import FAST, from_json, run, sentence_of, succeeded
from scorewise.errors import ScorewiseWarning

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.3), size=(200, 5))  # (N, M, K)
Y = PROBS.mean(axis=1).argmax(axis=-1)
Y[:20] = (Y[:20] + 1) % 3
ERROR = 0.1
COVTYPE = Path(__file__).parents[1] / ".data/covtype/covtype.data"


@pytest.fixture(scope="module")
def cancer():
    """A forest whose classes are names, with test rows and their labels."""
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    forest = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    return forest.fit(X[::2], names[::2]), X[1::2], names[1::2]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_in(path: object, *options: object) -> float:
    """The error that the command line reports for a file."""
    return from_json(run("evaluate", path, "--no-report", "--json", *FAST, *options))["loss"]


# -- silent wrong answers --------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {"send home": [103.0, 0.0], "biopsy": [0.0, 5.0]}, index=["malignant", "benign"]
)


def test_a_frame_of_costs_is_read_by_name_wherever_costs_are_taken(cancer):
    forest, X, y = cancer
    samples = sw.predict_samples(forest, X)  # benign, malignant
    by_hand = samples.mean @ FRAME.loc[["benign", "malignant"]].to_numpy()
    decisions = sw.decide(samples, FRAME)
    np.testing.assert_array_equal(decisions.action, by_hand.argmin(axis=-1))
    assert "biopsy" in repr(decisions)
    expected = [
        FRAME.loc[label].iloc[action] for label, action in zip(y, decisions.action, strict=True)
    ]
    for loss in (FRAME, sw.rules.cost_matrix(FRAME)):
        np.testing.assert_allclose(sw.task_losses(samples, y, loss), expected)
        assert sw.evaluate(samples, y, task_loss=loss, n_resamples=100).loss == np.mean(expected)
    frame = FRAME.set_axis(["benign", "malignant"], axis=1)  # the label that each action gives
    model = sw.SelectiveClassifier(forest, rule=frame, max_loss=20, random_state=0).fit(X, y)
    own = sw.predict_samples(model.estimator_, X)
    cheapest = (own.mean @ frame.loc[own.classes_].to_numpy()).argmin(axis=-1)
    np.testing.assert_array_equal(model.predict(X), np.array(frame.columns)[cheapest])


def test_a_plain_list_of_costs_works_and_names_of_costs_without_classes_are_asked_about():
    two = sw.binary(PROBS[..., 0])
    assert sw.decide(two, [[0, 5], [100, 0]]).action_names == ("0", "1")
    sw.task_losses(two, np.zeros(200, int), [[0, 5], [100, 0]])
    with pytest.raises(sw.InvalidInput, match="class_names"):
        sw.decide(two, FRAME)


@pytest.mark.real_data
@pytest.mark.skipif(not COVTYPE.exists(), reason="needs the real data sets in .data/")
def test_cover_types_are_numbered_from_1_to_7():
    rows = np.loadtxt(COVTYPE, delimiter=",", max_rows=6000)[:, [*range(10), -1]]
    (X, y), (X_new, y_new) = (
        (part[:, :-1], part[:, -1].astype(int)) for part in (rows[::2], rows[1::2])
    )
    forest = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(X, y)
    evaluation = sw.evaluate(sw.predict_samples(forest, X_new), y_new, n_resamples=100)
    assert evaluation.loss == pytest.approx(np.mean(forest.predict(X_new) != y_new), abs=0.005)


def test_labels_from_1_are_names_where_classes_are_and_asked_about_where_they_may_be_either():
    samples = sw.Samples(PROBS, class_names=[1, 2, 3])
    assert sw.task_losses(samples, Y + 1).mean() == pytest.approx(ERROR)
    with pytest.raises(sw.InvalidInput, match="labels_are"):
        sw.task_losses(samples[Y < 2], Y[Y < 2] + 1)
    with pytest.raises(sw.InvalidInput, match="numbered from 1"):
        sw.task_losses(PROBS, Y + 1)


def test_the_usual_layout_of_an_ensemble(folder):
    members = [PROBS[:, m] for m in range(5)]
    expected = sw.decompose(PROBS, "log").epistemic
    np.testing.assert_array_equal(sw.decompose(members, "log").epistemic, expected)
    np.savez("stacked.npz", probs=np.stack(members), labels=Y)
    assert "use --member-axis 0" in sentence_of(run("evaluate", "stacked.npz"))
    assert error_in("stacked.npz", "--member-axis", 0) == pytest.approx(ERROR)
    np.savez("ood.npz", probs=PROBS[:, :4])
    np.savez("test.npz", probs=PROBS, labels=Y)
    message = sentence_of(run("evaluate", "test.npz", "--ood", "ood.npz"))
    assert "test.npz" in message
    assert "ood.npz" in message
    assert "5 members and 'ood.npz' 4" in message


def test_one_model_is_asked_about(folder):
    np.savez("one.npz", probs=PROBS[:, 0], labels=Y)
    assert "--one-model" in sentence_of(run("evaluate", "one.npz"))
    wrong = np.mean(PROBS[:, 0].argmax(axis=-1) != Y)
    assert error_in("one.npz", "--one-model") == pytest.approx(wrong)
    for predictions in (PROBS[:, 0], pd.DataFrame(PROBS[:, 0])):
        with pytest.raises(sw.InvalidInput, match="rows of one model"):
            sw.compare(predictions, Y)
    with pytest.warns(ScorewiseWarning, match="rows of one model"):
        sw.decompose(np.full((3000, 2), 0.5), "log")


def test_one_model_detects_ood_inputs_by_its_total_uncertainty():
    certain = sw.binary(np.full((50, 1), 0.01))
    doubtful = sw.binary(np.linspace(0.3, 0.5, 50)[:, None])
    evaluation = sw.evaluate(certain, np.zeros(50), ood=doubtful, n_resamples=100)
    assert evaluation.ood.metrics.auroc == 1
    assert evaluation.ood.component == "total"
    assert "single member" in str(evaluation.notes[-1])


def test_a_model_is_no_prediction(cancer):
    with pytest.raises(sw.InvalidInput, match="predict_samples"):
        sw.evaluate(cancer[0], cancer[2])


def test_the_action_is_a_column_of_the_costs_as_they_were_passed(cancer):
    forest, X, _ = cancer
    frame = FRAME.set_axis(["malignant", "benign"], axis=1)
    action = sw.decide(sw.predict_samples(forest, X), frame).action
    swapped = sw.decide(sw.predict_samples(forest, X), frame[["benign", "malignant"]]).action
    np.testing.assert_array_equal(action, 1 - swapped)


def test_applied_policies_have_labels():
    policy = sw.certify(PROBS, Y + 1, max_loss=0.2, class_names=[1, 2, 3])
    labels = policy.apply(PROBS, class_names=[1, 2, 3]).labels
    assert np.mean(labels != (Y + 1).astype(str)) == pytest.approx(ERROR)


def test_probabilities_called_logits_are_not_taken_for_logits(folder):
    np.savez("test.npz", logits=PROBS, labels=Y)
    assert "--probs logits" in sentence_of(run("evaluate", "test.npz"))
    assert error_in("test.npz", "--probs", "logits") == pytest.approx(ERROR)
    with pytest.raises(sw.InvalidInput, match="these are probabilities"):
        sw.decompose(PROBS, "log", from_logits=True)


# -- dead ends and riddles -------------------------------------------------------------------------


def test_labels_are_names_in_every_task():
    names = np.array(["cat", "dog", "eel"])
    options = {"class_names": names}
    assert sw.task_losses(PROBS, names[Y], **options).mean() == pytest.approx(ERROR)
    assert sw.evaluate(PROBS, names[Y], n_resamples=100, **options).loss == pytest.approx(ERROR)
    assert sw.certify(PROBS, names[Y], max_loss=0.2, **options).class_names == tuple(names)
    by_index = sw.compare(PROBS, Y, random_state=0)
    assert sw.compare(PROBS, names[Y], random_state=0, **options) == by_index


def test_files_as_other_programs_write_them(folder):
    np.savez("own.npz", preds=PROBS, targets=Y)
    assert error_in("own.npz") == pytest.approx(ERROR)
    np.savez("odd.npz", softmax_outputs=PROBS, answers=Y)
    named = ("--probs", "softmax_outputs", "--labels", "answers")
    assert error_in("odd.npz", *named) == pytest.approx(ERROR)
    np.savez("trainer.npz", predictions=np.log(PROBS[:, 0]), label_ids=Y)
    wrong = np.mean(PROBS[:, 0].argmax(axis=-1) != Y)
    assert error_in("trainer.npz", "--one-model", "--logits") == pytest.approx(wrong)
    np.save("logits.npy", np.log(PROBS))
    succeeded(run("score", "logits.npy", "--logits", "--out", "scores.csv"))
    scores = pd.read_csv("scores.csv", comment="#")
    np.testing.assert_allclose(scores["total_log"], sw.decompose(PROBS, "log").total)


def test_a_spreadsheet_with_semicolons_and_decimal_commas(folder):
    columns = {f"model{m}_{c}": PROBS[:, m, k] for m in range(5) for k, c in enumerate("abc")}
    labels = np.array(list("abc"))[Y]
    frame = pd.DataFrame({"patient": np.arange(200), "label": labels, **columns})
    frame.to_csv("excel.csv", sep=";", decimal=",", index=False)
    assert error_in("excel.csv") == pytest.approx(ERROR, abs=1e-9)
    succeeded(run("score", "excel.csv", "--id-column", "patient", "--out", "scores.csv"))
    assert pd.read_csv("scores.csv", comment="#").iloc[5, 0] == 5


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomForestRegressor(2).fit([[0.0], [1.0]], [0.0, 1.0]), "[Rr]egress"),
        (
            MultiOutputClassifier(GaussianNB()).fit([[0.0], [1.0]], [[0, 1], [1, 0]]),
            "several labels or outputs",
        ),
    ],
)
def test_models_that_cannot_be_taken_apart_get_a_sentence(model, words):
    with pytest.raises(sw.InvalidInput, match=words):
        sw.predict_samples(model, [[0.0]])


def test_names_that_people_type_are_understood():
    assert sw.get_rule("0-1") == sw.get_rule("zero-one")
    assert sw.get_rule("entropy") == sw.get_rule("cross-entropy") == sw.get_rule("log")
    assert "zero-one" in succeeded(run("advise", "abstain")).stdout
    with pytest.raises(sw.InvalidInput, match="did you mean 'spherical'"):
        sw.get_rule("sperical")
    with pytest.raises(sw.InvalidInput, match="did you mean 'from_logits'"):
        sw.compare(PROBS, Y, form_logits=True)


@pytest.mark.parametrize("convert", [lambda y: 2 * y - 1, lambda y: y == 1, lambda y: y * 1.0])
def test_signed_bool_and_float_labels_work(convert):
    two = sw.binary(PROBS[..., 0])
    y = two.mean(axis=1).argmax(axis=-1)
    assert sw.evaluate(two, convert(y), n_resamples=100).loss == 0


# -- warnings that save a day ----------------------------------------------------------------------


def test_fully_grown_trees_warn(cancer):
    _, X, y = cancer
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.warns(ScorewiseWarning, match="min_samples_leaf"):
        sw.predict_samples(forest, X)


def test_members_that_are_copies_warn(cancer):
    forest, X, _ = cancer
    with pytest.warns(ScorewiseWarning, match="same"):
        sw.predict_samples([forest.estimators_[0]] * 4, X)


def test_a_classifier_that_accepts_nothing_warns(cancer):
    forest, X, y = cancer
    with pytest.warns(ScorewiseWarning):
        sw.SelectiveClassifier(forest, max_loss=0.0001, random_state=0).fit(X, y)


def test_too_few_calibration_rows_warn():
    with pytest.warns(ScorewiseWarning, match="59"):
        sw.certify(PROBS[:30], PROBS[:30].mean(axis=1).argmax(axis=-1), max_loss=0.05)


def test_a_good_certificate_is_not_replaced_by_one_that_accepts_nothing(folder):
    np.savez("test.npz", probs=PROBS, labels=Y)
    succeeded(run("certify", "test.npz", "--max-loss", "0.3", "--out", "policy.json"))
    good = Path("policy.json").read_bytes()
    result = run("certify", "test.npz", "--max-loss", "0.0001", "--out", "policy.json")
    assert result.exit_code
    assert Path("policy.json").read_bytes() == good


# -- at home in a notebook -------------------------------------------------------------------------


def test_results_are_at_home_in_a_notebook():
    samples = sw.Samples(PROBS, class_names=["cat", "dog", "eel"])
    assert (samples.shape, len(samples), samples[:3].shape) == ((200, 5, 3), 200, (3, 5, 3))
    assert samples.classes_.tolist() == ["cat", "dog", "eel"]
    np.testing.assert_array_equal(np.asarray(samples), PROBS)
    evaluation = sw.evaluate(samples, Y, n_resamples=100)
    for result in (sw.decompose(samples, "log"), evaluation, evaluation.comparison):
        assert "<" in result._repr_html_()
        assert len(result.to_frame()) > 1
    assert sw.decompose(samples, "log").plot() is not None


# -- the report ------------------------------------------------------------------------------------


def test_the_report_starts_with_three_plain_sentences():
    evaluation = sw.evaluate(PROBS, Y, n_resamples=100)
    assert len(evaluation.verdict.plain) == 3
    assert not any(
        word in str(evaluation.verdict.plain) for word in ("p =", "AUROC", "AULC", "sw.")
    )
