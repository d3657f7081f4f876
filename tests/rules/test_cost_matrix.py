"""Cost matrices: names of classes and actions, and the forms in which costs are passed."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import scorewise as sw
from scorewise.rules import CostMatrix, get_rules, rule_from_json

COSTS = [[50, 0], [0, 5]]
FRAME = pd.DataFrame(COSTS, index=["ill", "healthy"], columns=["dismiss", "treat"])
NAMED = sw.rules.cost_matrix(FRAME)
ALIGNED = sw.rules.cost_matrix([[0, 5], [50, 0]], ["dismiss", "treat"])
CLASSES = np.array(["healthy", "ill"])


@dataclass
class Polars:
    """A data frame that has columns and no index."""

    columns: list[str]
    cells: list[list[object]]

    def to_numpy(self) -> np.ndarray:
        return np.array(self.cells, dtype=object)


# -- data frames ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.reset_index(),
        FRAME.rename_axis("class").reset_index(),
        FRAME.astype("Int64"),
        Polars(["kind", "dismiss", "treat"], [["ill", 50, 0], ["healthy", 0, 5]]),
    ],
    ids=["index", "first column", "named first column", "nullable", "polars"],
)
def test_a_frame_names_its_classes_and_actions(frame):
    rule = sw.rules.cost_matrix(frame)
    assert rule == NAMED
    assert rule.class_names == ("ill", "healthy")
    assert rule.actions == ("dismiss", "treat")
    assert rule.for_classes(CLASSES) == ALIGNED


def test_a_frame_without_names_is_an_array():
    assert sw.rules.cost_matrix(pd.DataFrame(COSTS)) == sw.rules.cost_matrix(COSTS)
    only_actions = sw.rules.cost_matrix(FRAME.reset_index(drop=True))
    assert (only_actions.class_names, only_actions.actions) == (None, ("dismiss", "treat"))
    assert sw.rules.cost_matrix(FRAME, ["no", "yes"]).actions == ("no", "yes")


def test_a_column_of_numbers_that_may_be_classes_is_asked_about():
    ambiguous = pd.DataFrame({"digit": [1, 2], "dismiss": [50, 0], "treat": [0, 5]})
    with pytest.raises(sw.InvalidInput, match="'digit', may number the classes or hold costs"):
        sw.rules.cost_matrix(ambiguous)
    named = sw.rules.cost_matrix(ambiguous.rename(columns={"digit": "class"}))
    assert named.class_names == ("1", "2")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.astype(str), "must hold real numbers"),
        (FRAME.replace(50, np.nan), r"\[0, 0\] is nan"),
        (FRAME.iloc[[0, 0]], "two classes are called 'ill'"),
        (FRAME.iloc[:, [0, 0]], "two actions are called 'dismiss'"),
    ],
)
def test_a_wrong_frame_says_why(frame, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.rules.cost_matrix(frame)


def test_class_names_are_given_once():
    with pytest.raises(sw.InvalidInput, match="name the classes once"):
        sw.rules.cost_matrix(FRAME, class_names=["healthy", "ill"])
    assert sw.rules.cost_matrix(FRAME, class_names=["ill", "healthy"]) == NAMED
    with pytest.raises(sw.InvalidInput, match="3 class names for 2 classes"):
        sw.rules.cost_matrix(COSTS, class_names=list("abc"))
    with pytest.raises(sw.InvalidInput, match="sequence of names, one per class"):
        sw.rules.cost_matrix(COSTS, class_names="ab")


# -- the order of the classes ---------------------------------------------------------------------


def test_integers_and_their_text_are_the_same_class():
    costs = np.arange(49.0).reshape(7, 7)
    classes = np.arange(1, 8)
    rule = sw.rules.cost_matrix(pd.DataFrame(costs, index=classes[::-1], columns=list("abcdefg")))
    for labels in (classes, classes.astype(str), classes.astype(float)):
        np.testing.assert_array_equal(rule.for_classes(labels).costs, costs[::-1])
    with pytest.raises(sw.InvalidInput, match="a row for '7', and there is no such class"):
        rule.for_classes(range(7))


def test_columns_stay_in_the_order_of_the_user():
    frame = pd.DataFrame([[0, 9, 1], [4, 0, 1]], ["b", "a"], ["b", "a", "refer"])
    aligned = sw.rules.cost_matrix(frame).for_classes(["a", "b"])
    expected = [[4, 0, 1], [0, 9, 1]], ["b", "a", "refer"]
    assert aligned == sw.rules.cost_matrix(*expected, rows_in_order=True)
    assert aligned.for_classes(["a", "b"]) is aligned.for_classes(None) is aligned
    for back in (pickle.loads(pickle.dumps(aligned)), rule_from_json(aligned.to_json())):
        assert back.for_classes(["a", "b"]) is back
        assert back == aligned
    without_actions = sw.rules.cost_matrix([[0, 9], [4, 0]], class_names=["b", "a"])
    assert without_actions.for_classes(["a", "b"]).actions == ("b", "a")


@pytest.mark.parametrize(
    "costs",
    [
        pd.DataFrame(COSTS, columns=["ill", "healthy"]),
        sw.rules.cost_matrix(COSTS, ["ill", "healthy"]),
        sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1]], ["ill", "refer", "healthy"]),
    ],
    ids=["frame", "array", "one more action"],
)
def test_rows_without_names_under_columns_in_another_order_are_asked_about(costs):
    samples = sw.Samples([[[0.9, 0.1]], [[0.2, 0.8]]] * 50, class_names=CLASSES)
    y = ["healthy", "ill"] * 50
    for use in (
        lambda: sw.decide(samples, costs),
        lambda: sw.decide(sw.Dirichlet([1.0, 2.0], class_names=CLASSES), costs),
        lambda: sw.decompose(samples, costs),
        lambda: sw.task_losses(samples, y, costs),
        lambda: sw.certify(samples, y, task_loss=costs, max_loss=9),
        lambda: sw.evaluate(samples, y, task_loss=costs),
        lambda: sw.compare(samples, y, task_loss=costs),
        lambda: sw.SelectiveClassifier(GaussianNB(), costs, 4).fit(
            np.eye(2).repeat(50, 0), y[::2] + y[1::2]
        ),
    ):
        with pytest.raises(sw.InvalidInput, match=r"classes in another order.*rows have no names"):
            use()
    sw.decide(np.asarray(samples.probs), costs)  # the names of the classes are not known


def test_numbers_in_another_order_are_names():
    frame = pd.DataFrame(1 - np.eye(3))
    probs = np.eye(3)[:, None]
    for costs in (
        frame,
        frame.iloc[[0, 2, 1]],
        frame.iloc[:, [2, 0, 1]],
        frame.iloc[[1, 2, 0], [2, 0, 1]],
    ):
        for classes in (None, [0, 1, 2], ["0", "1", "2"], ["a", "b", "c"]):
            decisions = sw.decide(probs, costs, class_names=classes)
            names = decisions.action_names
            if costs is not frame:
                assert names == tuple(map(str, costs.columns))
                assert decisions.to_frame()["action"].tolist() == ["0", "1", "2"]
            np.testing.assert_array_equal(np.array(costs.columns)[decisions.action], [0, 1, 2])
    explicit = pd.DataFrame([[0, 9, 9], [1, 0, 1], [4, 4, 0]], index=[0, 1, 2])
    rule = sw.rules.cost_matrix(explicit)
    assert rule.for_classes([2, 0, 1]).costs.tolist() == [[4, 4, 0], [0, 9, 9], [1, 0, 1]]
    assert rule.entropy([1.0, 0.0, 0.0]) == 0


@pytest.mark.parametrize("names", [["a", "b"], [0, 1]])
def test_a_policy_names_the_action_of_each_column_whatever_their_order(names, tmp_path):
    frame = pd.DataFrame([[0, 1], [9, 0]], names, names)
    samples = sw.Samples([[[0.95, 0.05]], [[0.8, 0.2]]] * 100, class_names=names)
    y = [names[0]] * 200
    for costs in (frame, frame.iloc[::-1], frame.iloc[:, ::-1], frame.iloc[::-1, ::-1]):
        policy = sw.certify(samples, y, task_loss=costs, max_loss=0.9)
        policy.save(tmp_path / "policy.json")
        for each in (policy, sw.load_policy(tmp_path / "policy.json")):
            labels = each.apply(samples).labels
            assert labels[:2].tolist() == [str(name) for name in names]


def test_rows_may_be_numbered_from_zero():
    rule = sw.rules.cost_matrix(COSTS, ["dismiss", "treat"], class_names=[1, 0])
    assert rule.for_classes(None) == rule.for_classes(CLASSES) == ALIGNED
    assert rule.for_classes(["1", "0"]).costs.tolist() == COSTS  # by name
    with pytest.raises(sw.InvalidInput, match="a row for '0', and there is no such class"):
        rule.for_classes([1, 2])
    from_one = sw.rules.cost_matrix(COSTS, class_names=[1, 2])
    with pytest.raises(sw.InvalidInput, match="a row for '2', and there is no such class"):
        from_one.for_classes([0, 1])
    with pytest.raises(sw.InvalidInput, match="the predictions do not"):
        from_one.for_classes(None)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["healty", "ill"], "a row for 'healthy', .* did you mean 'healty'"),
        (["healthy", "ill", "dead"], "no row for the class 'dead'"),
        (["dismiss", "treat"], "a row for 'ill', .*transpose the costs"),
        (None, "name their classes, such as 'ill', .* pass class_names=…, the names in the order"),
    ],
)
def test_other_classes_are_refused(classes, message):
    with pytest.raises(sw.InvalidInput, match=message):
        NAMED.for_classes(classes)


def test_rules_without_names_of_classes_fit_any():
    for rule in (ALIGNED, sw.rules.log):
        assert rule.for_classes(["a", "b"]) is rule.for_classes(None) is rule


def test_a_matrix_with_names_is_never_used_in_the_order_of_its_rows():
    message = r"the order of the classes is not known; pass rule.for_classes\(names\)"
    with pytest.raises(sw.InvalidInput, match=message):
        NAMED.entropy([0.5, 0.5])
    with pytest.raises(sw.InvalidInput, match=message):
        sw.Accumulator(FRAME).update([[0.5, 0.5]])
    with pytest.raises(sw.InvalidInput, match="the predictions do not"):
        sw.decompose(sw.Dirichlet([1.0, 1.0]), FRAME)
    evidence = sw.Dirichlet([9.0, 1.0], class_names=CLASSES)
    assert sw.decompose(evidence, FRAME).total == sw.decompose(evidence, ALIGNED).total
    assert sw.decide(evidence, FRAME).total == sw.decide(evidence, ALIGNED).total
    acc = sw.Accumulator(NAMED.for_classes(CLASSES))
    acc.update([[0.5, 0.5]])
    assert acc.result().total == 2.5


def test_rows_of_a_file_are_scored_by_the_names_of_its_classes(tmp_path):
    probs = np.array([[[0.9, 0.1]], [[0.2, 0.8]]])
    sw.write_predictions(tmp_path / "p.npz", probs, class_names=["healthy", "ill"])
    scored = sw.score_file(tmp_path / "p.npz", {"own": FRAME}, tmp_path / "u.csv")
    totals = pd.read_csv(scored.path)["total_own"]
    np.testing.assert_allclose(totals, sw.decompose(probs, ALIGNED).total)
    predictions = sw.read_predictions(tmp_path / "p.npz")
    np.testing.assert_allclose(sw.io.row_uncertainties(predictions, FRAME), totals)


# -- values ---------------------------------------------------------------------------------------


def test_names_of_classes_are_part_of_the_value():
    assert sw.rules.cost_matrix(COSTS, ["dismiss", "treat"]) != NAMED
    assert hash(NAMED) == hash(sw.rules.cost_matrix(FRAME))
    for back in (
        pickle.loads(pickle.dumps(NAMED)),
        rule_from_json(json.loads(json.dumps(NAMED.to_json()))),
    ):
        assert back == NAMED
        assert back.class_names == ("ill", "healthy")
    assert repr(NAMED).endswith("('dismiss', 'treat'), ('ill', 'healthy'))")
    assert "class_names" not in ALIGNED.to_json()  # as policies of earlier versions have it


# -- costs in place of a rule ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "costs",
    [COSTS, tuple(map(tuple, COSTS)), np.array(COSTS), [np.array(row) for row in COSTS]],
    ids=["lists", "tuples", "array", "list of arrays"],
)
def test_a_table_of_numbers_is_one_cost_matrix(costs):
    rule = sw.rules.cost_matrix(COSTS)
    assert sw.get_rule(costs) == rule
    assert get_rules(costs) == {"cost-matrix": rule}
    assert get_rules(["log", costs]) == {"log": sw.rules.log, "cost-matrix": rule}
    assert get_rules([costs]) == {"cost-matrix": rule}
    assert sw.decompose([[0.5, 0.5]], costs).total == 2.5
    assert list(sw.decompose([[0.5, 0.5]], [costs])) == ["cost-matrix"]


def test_a_frame_is_a_rule():
    assert sw.get_rule(FRAME) == NAMED
    assert get_rules({"triage": FRAME, "accuracy": "0-1"}) == {
        "triage": NAMED,
        "accuracy": sw.rules.zero_one,
    }
    assert isinstance(sw.get_rule(FRAME), CostMatrix)


@pytest.mark.parametrize(
    "value", [3, None, [0, 1], [], ["log", "brier"], [["log"]], np.ones(3), np.ones((2, 2, 2))]
)
def test_what_is_neither_a_rule_nor_costs_is_refused(value):
    with pytest.raises(sw.InvalidInput, match=r"not a scoring rule; .*or costs \(K, A\)"):
        sw.get_rule(value)
