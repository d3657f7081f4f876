"""Names of classes, labels and axes travel with the predictions; what is ambiguous is asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw
from scorewise.errors import ScorewiseWarning

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), size=(40, 5))  # (N, M, K)
Y = PROBS.mean(axis=1).argmax(axis=-1)
Y[:4] = (Y[:4] + 1) % 3  # errs in 4 of 40 rows
ERROR = 0.1


def error_of(predictions, y, **options):
    return sw.task_losses(predictions, y, **options).mean()


# -- classes ---------------------------------------------------------------------------------------


def test_samples_of_a_model_know_its_classes():
    X = RNG.normal(size=(60, 2))
    labels = np.array(["well", "ill"])[(X[:, 0] > 0).astype(int)]
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, labels)
    samples = sw.predict_samples(forest, X)
    assert samples.classes_.tolist() == ["ill", "well"]
    assert error_of(samples, labels) < 0.2


def test_samples_are_indexed_by_rows_and_keep_their_classes():
    samples = sw.Samples(PROBS, np.ones((40, 5)), class_names=list("abc"))
    part = samples[[3, 1]]
    assert part.shape == (2, 5, 3)
    assert len(part) == 2
    assert part.classes_.tolist() == list("abc")
    np.testing.assert_array_equal(np.asarray(part), PROBS[[3, 1]])
    np.testing.assert_array_equal(part.weights, samples.weights[[3, 1]])


def test_samples_of_one_row_have_no_length_and_members_are_not_indexed():
    with pytest.raises(TypeError, match="one row"):
        len(sw.Samples(PROBS[0]))
    with pytest.raises(IndexError, match="rows"):
        sw.Samples(PROBS)[:, 0]


def test_classes_go_to_a_file_and_back(tmp_path):
    path = tmp_path / "test.npz"
    sw.write_predictions(path, sw.Samples(PROBS, class_names=["a", "b", "c"]))
    assert sw.read_predictions(path).samples.classes_.tolist() == ["a", "b", "c"]


def test_other_names_than_those_of_the_predictions_raise():
    samples = sw.Samples(PROBS, class_names=["a", "b", "c"])
    with pytest.raises(sw.InvalidInput, match="class 0 is called 'a' in the predictions and 'c'"):
        sw.certify(samples, Y, max_loss=0.5, class_names=["c", "b", "a"])


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda probs, y, **options: sw.certify(probs, y, max_loss=0.3, **options).certificate.loss,
        lambda probs, y, **options: sw.compare(probs, y, **options).calibration.incurred,
        lambda probs, y, **options: sw.evaluate(probs, y, n_resamples=100, **options).loss,
        lambda probs, y, **options: sw.task_losses(probs, y, **options).mean(),
        lambda probs, y, **options: sw.fit_calibration(probs, y, **options).scores[0].loss,
    ],
)
def test_labels_are_names_or_indices_in_every_task(function):
    names = np.array(["cat", "dog", "eel"])
    expected = function(PROBS, Y)
    assert function(PROBS, names[Y], class_names=names) == expected
    assert function(sw.Samples(PROBS, class_names=names), names[Y].tolist()) == expected
    assert function(sw.Samples(PROBS, class_names=[1, 2, 3]), Y + 1) == expected


def test_integers_that_are_class_names_are_names():
    samples = sw.Samples(PROBS, class_names=[1, 2, 3])
    assert error_of(samples, Y + 1) == pytest.approx(ERROR)
    assert error_of(samples, (Y + 1).astype(float)) == pytest.approx(ERROR)
    assert error_of(samples, (Y + 1).astype(str)) == pytest.approx(ERROR)


def test_integers_that_may_be_names_or_indices_are_asked_about():
    samples = sw.Samples(PROBS, class_names=[1, 2, 3])
    ones = np.ones(40, dtype=int)
    with pytest.raises(sw.InvalidInput, match="labels_are='names', or pass labels_are='indices'"):
        sw.task_losses(samples, ones)
    by_name = sw.task_losses(samples, ones, labels_are="names")
    np.testing.assert_array_equal(by_name, sw.task_losses(PROBS, ones - 1))
    by_index = sw.task_losses(samples, ones, labels_are="indices")
    np.testing.assert_array_equal(by_index, sw.task_losses(PROBS, ones, labels_are="indices"))


def test_an_integer_that_is_no_class_name_is_not_read_as_an_index():
    with pytest.raises(sw.InvalidInput, match=r"is 0, which is not one of the classes '1', '2'"):
        sw.task_losses(sw.Samples(PROBS, class_names=[1, 2, 3]), Y)


def test_labels_numbered_from_one_are_recognised_by_the_predictions():
    with pytest.raises(sw.InvalidInput, match=r"pass class_names=range\(1, 4\)"):
        sw.task_losses(PROBS, Y + 1)
    without_last = Y < 2
    with pytest.raises(sw.InvalidInput, match="no label is 0"):
        sw.task_losses(PROBS[without_last], Y[without_last] + 1)
    assert error_of(PROBS, Y + 1, class_names=range(1, 4)) == pytest.approx(ERROR)


@pytest.mark.parametrize(
    "convert", [lambda y: y == 1, lambda y: 2 * y - 1, lambda y: y.astype(float)]
)
def test_bool_signed_and_float_labels_work(convert):
    probs = sw.binary(PROBS[..., 0])
    y = probs.mean(axis=1).argmax(axis=-1)
    assert error_of(probs, convert(y)) == 0


def test_signs_are_asked_about_where_rows_may_have_no_label():
    with pytest.raises(sw.InvalidInput, match="-1 may be a class or a row without a label"):
        sw.io.Predictions(PROBS[:2, :, :2] * 0 + 0.5, labels=[-1, 1])
    named = sw.io.Predictions(PROBS[:2, :, :2] * 0 + 0.5, labels=[-1, 1], class_names=[-1, 1])
    assert named.labels.tolist() == [0, 1]


@pytest.mark.parametrize("y", [np.full(40, 0.5), [0.1] * 40])
def test_continuous_labels_raise(y):
    with pytest.raises(sw.InvalidInput, match="regression is not supported"):
        sw.task_losses(PROBS, y)


def test_numbers_among_other_names_are_names():
    samples = sw.Samples(PROBS, class_names=["1", "2", "other"])
    y = np.where(Y == 2, 0, Y + 1)
    with pytest.raises(sw.InvalidInput, match="is 0, which is not one of the classes"):
        sw.task_losses(samples, y)
    few = np.flatnonzero(Y < 2)
    with pytest.raises(sw.InvalidInput, match="labels_are"):
        sw.task_losses(samples[few], Y[few] + 1)
    expected = sw.task_losses(PROBS[few], Y[few], labels_are="indices")
    by_name = sw.task_losses(samples[few], Y[few] + 1, labels_are="names")
    np.testing.assert_array_equal(by_name, expected)


def test_labels_of_predictions_are_read_again_by_names_that_are_passed_later():
    predictions = sw.io.Predictions(PROBS[Y < 2], labels=Y[Y < 2] + 1)
    with pytest.raises(sw.InvalidInput, match="labels_are"):
        sw.task_losses(predictions, None, class_names=[1, 2, 3])
    losses = sw.task_losses(predictions, None, class_names=[1, 2, 3], labels_are="names")
    assert losses.mean() == pytest.approx(sw.task_losses(PROBS, Y)[Y < 2].mean())


@pytest.mark.parametrize("names", [{"a": 1, "b": 2, "c": 0}, {1: "a", 2: "b", 0: "c"}])
def test_a_mapping_of_names_is_read_by_its_indices(names):
    assert sw.Samples(PROBS, class_names=names).classes_.tolist() == ["c", "a", "b"]


@pytest.mark.parametrize("names", [{"a", "b", "c"}, {"a": 5, "b": 6, "c": 7}])
def test_names_without_an_order_raise(names):
    with pytest.raises(sw.InvalidInput, match="in the order of the predictions"):
        sw.Samples(PROBS, class_names=names)


def test_booleans_are_names_of_boolean_classes_and_asked_about_elsewhere():
    probs = sw.binary(PROBS[..., 0])[..., ::-1]  # True first
    y = probs.mean(axis=1).argmax(axis=-1) == 0
    samples = sw.Samples(probs, class_names=[True, False])
    for labels in (y, y.astype(object), y.astype(int), y.astype(float)):
        assert error_of(samples, labels) == 0
    with pytest.raises(sw.InvalidInput, match="labels are True and False"):
        error_of(sw.Samples(probs, class_names=["yes", "no"]), y)


@pytest.mark.parametrize("dtype", ["string", "boolean", "Int64"])
def test_missing_labels_of_pandas_are_named(dtype):
    y = pd.Series([None, *["True" if dtype == "string" else True] * 39], dtype=dtype)
    with pytest.raises(sw.InvalidInput, match=r"labels\[0\] is missing"):
        error_of(sw.Samples(sw.binary(PROBS[..., 0]), class_names=["False", "True"]), y)


# -- shapes ----------------------------------------------------------------------------------------


def test_a_list_of_arrays_is_a_list_of_members():
    members = [PROBS[:, m] for m in range(5)]
    np.testing.assert_array_equal(
        sw.decompose(members, "log").total, sw.decompose(PROBS, "log").total
    )
    assert error_of(members, Y) == pytest.approx(ERROR)
    nested = PROBS.tolist()
    assert sw.Samples(nested).shape == (40, 5, 3)


def test_a_list_of_data_frames_has_the_classes_of_their_columns():
    frames = [pd.DataFrame(PROBS[:, m], columns=["cat", "dog", "eel"]) for m in range(5)]
    assert error_of(frames, np.array(["cat", "dog", "eel"])[Y]) == pytest.approx(ERROR)
    frames[1] = frames[1][["dog", "cat", "eel"]]
    with pytest.raises(sw.InvalidInput, match="columns"):
        sw.Samples(frames)


def test_members_of_a_list_must_have_the_same_shape():
    with pytest.raises(sw.InvalidInput, match=r"probs\[1\] has shape \(39, 3\)"):
        sw.Samples([PROBS[:, 0], PROBS[1:, 1]])


def test_a_data_frame_is_asked_about():
    with pytest.raises(sw.InvalidInput, match="rows of one model or members of one row"):
        sw.decompose(pd.DataFrame(PROBS[:, 0]), "log")


def test_labels_show_that_members_are_on_the_first_axis():
    stacked = np.moveaxis(PROBS, 1, 0)
    for call in (sw.task_losses, sw.compare, sw.evaluate, sw.fit_calibration):
        with pytest.raises(sw.InvalidInput, match="member_axis=0 if members are on the first"):
            call(stacked, Y)
    assert error_of(stacked, Y, member_axis=0) == pytest.approx(ERROR)


def test_predictions_of_one_model_are_asked_about():
    with pytest.raises(sw.InvalidInput, match=r"pass predictions\[:, None\] for n rows"):
        sw.certify(PROBS[:, 0], Y, max_loss=0.5)


def test_thousands_of_members_of_one_row_warn():
    with pytest.warns(ScorewiseWarning, match=r"pass probs\[:, None\]") as caught:
        sw.decompose(np.full((2000, 3), 1 / 3), "log")
    assert caught[0].filename == __file__


def test_probabilities_are_no_logits():
    for call in (sw.Samples, lambda p, **options: sw.decompose(p, "log", **options)):
        with pytest.raises(sw.InvalidInput, match="these are probabilities"):
            call(PROBS, from_logits=True)
        call(PROBS, from_logits=True, check=False)
        call(np.log(PROBS), from_logits=True)
    large = np.full((3000, 20, 10), 0.1, dtype=np.float32)  # which the CPU kernel takes
    with pytest.raises(sw.InvalidInput, match="these are probabilities"):
        sw.decompose(large, "log", from_logits=True)


def test_a_path_is_no_array():
    with pytest.raises(sw.InvalidInput, match=r"read_predictions\('test.npz'\)"):
        sw.evaluate("test.npz")


def test_in_and_out_of_distribution_rows_have_the_same_members_and_classes():
    for ood, message in [
        (PROBS[:, :4], "5 members, and the out-of-distribution ones 4"),
        (sw.Samples(PROBS, class_names=["b", "a", "c"]), "class 0 is called 'a'"),
    ]:
        samples = sw.Samples(PROBS, class_names=["a", "b", "c"])
        with pytest.raises(sw.InvalidInput, match=message):
            sw.compare(samples, task="ood", ood=ood)
        with pytest.raises(sw.InvalidInput, match=message):
            sw.evaluate(samples, Y, ood=ood)


def test_samples_are_not_taken_for_an_array():
    samples = sw.Samples(PROBS, np.arange(1.0, 6), class_names=["a", "b", "c"])
    for predictions in (samples, list(samples), [samples, samples]):
        with pytest.raises(sw.InvalidInput, match="Samples already"):
            sw.Samples(predictions)
    with pytest.raises(sw.InvalidInput, match=r"predictions\.samples"):
        sw.decompose(sw.io.Predictions(PROBS), "log")


def test_data_frames_of_members_have_the_same_rows_and_classes():
    frame = pd.DataFrame(PROBS[:, 0], columns=["a", "b", "c"])
    with pytest.raises(sw.InvalidInput, match="another index"):
        sw.Samples([frame, frame[::-1]])
    with pytest.raises(sw.InvalidInput, match="class 0 is called 'a'"):
        sw.Samples([frame, frame], class_names=["c", "b", "a"])
    with pytest.raises(sw.InvalidInput, match="no arrays"):
        sw.Samples([frame, PROBS[:, 0].tolist()])


def test_probabilities_of_class_one_are_told_how_to_become_two_classes():
    p = RNG.uniform(size=(50, 4))
    with pytest.raises(sw.InvalidInput, match=r"scorewise\.binary\(predictions\) for the probab"):
        sw.fit_calibration(p, np.arange(50) % 2)
    assert sw.fit_calibration(sw.binary(p), (p.mean(1) > 0.5).astype(int)).n_classes == 2
