"""Where samples go: files that are whole or absent, arrays, or straight into an accumulator."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import zarr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from support import all_rules, assert_same, fill, members
from wrong_files_support import contents

FOUR = ["log", "brier", "zero-one", "spherical"]

X, Y = (part[:200] for part in load_digits(return_X_y=True))


N, M, K = 200, 6, 10


COSTS = np.random.default_rng(0).uniform(0, 3, (K, K + 1))


RULES = {name: name for name in FOUR} | {"costs": sw.rules.cost_matrix(COSTS)}


@cache
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(M, max_depth=5, random_state=0).fit(X, Y)


@cache
def expected() -> np.ndarray:
    return np.stack([tree.predict_proba(X) for tree in forest().estimators_], axis=1)


@cache
def voting() -> VotingClassifier:
    kinds = [
        ("bayes", make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.1))),
        ("tree", DecisionTreeClassifier(max_depth=4, random_state=0)),
        ("forest", RandomForestClassifier(5, max_depth=4, random_state=0)),
    ]
    return VotingClassifier(kinds, voting="soft", weights=[2, 1, 5]).fit(X, Y)


class Fails(ClassifierMixin, BaseEstimator):
    """Answers for its first rows, and then not."""

    def __init__(self, after: int, how: Any) -> None:
        self.after = after
        self.how = how

    def fit(self, X: Any = None, y: Any = None) -> Fails:
        self.classes_ = np.arange(K)
        self.answered = 0
        return self

    def predict_proba(self, rows: Any) -> np.ndarray:
        self.answered += len(rows)
        if self.answered <= self.after:
            return np.full((len(rows), K), 1 / K)
        if isinstance(self.how, type) and issubclass(self.how, BaseException):
            raise self.how("the member fails")
        return np.full((len(rows), K), self.how)


FAILURES = {
    "nan": (np.nan, sw.InvalidInput),
    "refusal": (ValueError, sw.InvalidInput),
    "error": (RuntimeError, RuntimeError),
    "interruption": (KeyboardInterrupt, KeyboardInterrupt),
}


def failing(how: Any, after: int = 120) -> list[Any]:
    return [forest(), Fails(after, how).fit()]


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
@pytest.mark.parametrize("batch_size", [None, 7, 33, 200, 1000])
def test_a_file_and_an_array_have_the_same_members(tmp_path, suffix, batch_size):
    path = tmp_path / f"members.{suffix}"
    samples = sw.predict_samples(forest(), X, out=path, batch_size=batch_size)
    np.testing.assert_array_equal(np.asarray(samples.probs), expected())
    stored = np.load(path) if suffix == "npy" else zarr.open_array(path, mode="r")[:]
    np.testing.assert_array_equal(stored, expected())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_path_may_be_a_string_and_the_result_is_mapped_not_read(tmp_path):
    samples = sw.predict_samples(forest(), X, out=str(tmp_path / "members.npy"))
    mapped = samples.probs
    while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    assert isinstance(mapped, np.memmap)
    assert not samples.probs.flags.writeable


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
@pytest.mark.parametrize("model", [forest, voting])
def test_decompose_reads_a_written_file(tmp_path, suffix, model):
    samples = sw.predict_samples(model(), X, out=tmp_path / f"m.{suffix}", batch_size=33)
    in_memory = sw.predict_samples(model(), X)
    results = {name: [np.asarray(x) for x in d] for name, d in sw.decompose(samples, RULES).items()}
    assert_same(results, sw.decompose(in_memory, RULES), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_no_rows_are_a_file_too(tmp_path, suffix):
    samples = sw.predict_samples(forest(), X[:0], out=tmp_path / f"m.{suffix}")
    assert samples.probs.shape == (0, M, K)


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("after", [0, 120])
def test_a_failing_member_leaves_no_file(tmp_path, suffix, failure, after):
    how, error = FAILURES[failure]
    with pytest.raises(error):
        sw.predict_samples(
            failing(how, after), X, out=tmp_path / f"members.{suffix}", batch_size=50
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_member_keeps_an_older_file(tmp_path, suffix, failure):
    how, error = FAILURES[failure]
    path = tmp_path / f"members.{suffix}"
    older = sw.predict_samples(forest(), X, out=path)
    with pytest.raises(error):
        sw.predict_samples(failing(how), X, out=path, batch_size=50)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    np.testing.assert_array_equal(np.asarray(older.probs), expected())
    stored = np.load(path) if suffix == "npy" else zarr.open_array(path, mode="r")[:]
    np.testing.assert_array_equal(stored, expected())


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_a_newer_file_replaces_an_older_one_of_another_shape(tmp_path, suffix):
    path = tmp_path / f"members.{suffix}"
    sw.predict_samples(forest(), X, out=path)
    sw.predict_samples(forest(), X[:50], 3, 0, out=path, batch_size=20)
    stored = np.load(path) if suffix == "npy" else zarr.open_array(path, mode="r")[:]
    assert stored.shape == (50, 3, K)


def arrays(tmp_path: Any, dtype: Any) -> dict[str, Any]:
    shape = (N, M, K)
    return {
        "array": np.full(shape, np.nan, dtype),
        "view": np.full((M, N, K), np.nan, dtype).transpose(1, 0, 2),
        "memory map": np.lib.format.open_memmap(tmp_path / "map.npy", "w+", dtype, shape),
        "zarr": zarr.create_array(
            str(tmp_path / "a.zarr"), shape=shape, chunks=(64, M, K), dtype=dtype
        ),
    }


@pytest.mark.parametrize("kind", ["array", "view", "memory map", "zarr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_array_is_filled_in_its_own_precision(tmp_path, kind, dtype):
    out = arrays(tmp_path, dtype)[kind]
    samples = sw.predict_samples(forest(), X, out=out, batch_size=33)
    np.testing.assert_array_equal(np.asarray(out[:]), expected().astype(dtype))
    np.testing.assert_array_equal(np.asarray(samples.probs), expected().astype(dtype))
    assert samples.probs.dtype == dtype
    d = sw.decompose(samples, "brier").epistemic
    np.testing.assert_allclose(
        np.asarray(d), sw.decompose(expected(), "brier").epistemic, atol=1e-6
    )
    if kind in {"array", "view"}:
        assert np.shares_memory(samples.probs, out)


def read_only(shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape)
    out.flags.writeable = False
    return out


def torch_tensor() -> Any:
    import torch

    return torch.empty(N, M, K)


BAD_OUT = {
    "other suffix": (lambda: "members.csv", r"'members.csv' must end in .npy or .zarr"),
    "no suffix": (lambda: "members", r"must end in .npy or .zarr"),
    "no folder": (lambda: "nowhere/m.npy", r"there is no folder 'nowhere'"),
    "a list": (lambda: [], r"out= must be a path or an array \(N, M, K\), not list"),
    "a number": (lambda: 3, r"out= must be a path or an array \(N, M, K\), not int"),
    "a tensor": (torch_tensor, r"out= .*Tensor|out= has dtype torch"),
    "whole numbers": (lambda: np.empty((N, M, K), int), r"out= has dtype int64; .*floating-point"),
    "other members": (
        lambda: np.empty((N, M + 1, K)),
        r"out= has shape \(200, 7, 10\); it must be \(N, 6, 10\)",
    ),
    "other classes": (lambda: np.empty((N, M, 3)), r"it must be \(N, 6, 10\)"),
    "two dimensions": (lambda: np.empty((N, M)), r"out= has shape \(200, 6\)"),
    "too short": (lambda: np.empty((N - 1, M, K)), r"must be \(200, M, K\)"),
    "too long": (lambda: np.empty((N + 1, M, K)), r"must be \(200, M, K\)"),
    "read-only": (lambda: read_only((N, M, K)), r"out= .*read-only"),
}


@pytest.mark.parametrize("case", BAD_OUT)
@pytest.mark.parametrize("batch_size", [None, 50])
def test_unwritable_destinations_are_refused(case, batch_size, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, message = BAD_OUT[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(forest(), X, out=make(), batch_size=batch_size)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["members.csv", "nowhere/m.npy"])
def test_a_bad_path_is_refused_before_any_work(out):
    unused = Fails(1000, np.nan).fit()
    with pytest.raises(sw.InvalidInput):
        sw.predict_samples([forest(), unused], X, out=out)
    assert unused.answered == 0


@pytest.mark.parametrize("batch_size", [None, 7, 33, 1000])
@pytest.mark.parametrize("model", [forest, voting])
def test_members_decomposed_chunk_by_chunk_are_as_stored_ones(model, batch_size):
    acc = sw.Accumulator(RULES)
    samples = sw.predict_samples(model(), X)
    assert sw.predict_samples(model(), X, into=acc, batch_size=batch_size) is acc
    assert acc.n_members == samples.probs.shape[1]
    weights = [2, 1, 5] if model is voting else None
    stored = sw.decompose(samples.probs, RULES, weights=weights)
    assert_same(acc.result(), stored, rtol=1e-12, atol=1e-14)
    assert max(d.epistemic.max() for d in stored.values()) > 0.1, "there is something to compare"


@pytest.mark.parametrize("rule", [*FOUR, sw.rules.cost_matrix(COSTS)])
def test_one_rule_gives_one_result(rule):
    acc = sw.predict_samples(forest(), X, into=sw.Accumulator(rule))
    for ours, theirs in zip(acc.result(), sw.decompose(expected(), rule), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_only_the_chosen_members_are_decomposed():
    acc = sw.predict_samples(forest(), X, 3, 1, into=sw.Accumulator(RULES))
    assert acc.n_members == 3
    stored = sw.decompose(sw.predict_samples(forest(), X, 3, 1), RULES)
    assert_same(acc.result(), stored, rtol=1e-12, atol=1e-14)


def test_members_that_agree_leave_exact_zeros():
    bayes = make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.1)).fit(X, Y)
    acc = sw.predict_samples([bayes] * 7, X, into=sw.Accumulator(FOUR), batch_size=33)
    for d in acc.result().values():
        assert (d.epistemic == 0).all()
    sw.predict_samples([bayes] * 3, X, into=acc)
    acc.update(bayes.predict_proba(X))
    for d in acc.result().values():
        assert (d.epistemic == 0).all()


def test_epistemic_is_exactly_zero_in_the_rows_where_members_agree():
    probs = members(40, 5, 4)
    probs[::2] = probs[::2, :1]
    acc = sw.Accumulator(all_rules(4))
    acc.update_chunks([probs[:7], probs[7:]])
    acc.update_chunks([probs[:30], probs[30:]])
    for name, d in acc.result().items():
        assert (d.epistemic[::2] == 0).all(), name
        assert (d.epistemic >= 0).all(), name


def test_members_are_added_to_those_that_were_there():
    more = sw.predict_samples(voting(), X).probs
    acc = fill(more, RULES)
    sw.predict_samples(forest(), X, into=acc, batch_size=33)
    sw.predict_samples(voting(), X, into=acc)
    assert acc.n_members == 3 + M + 3
    whole = np.concatenate([more, expected(), more], axis=1)
    weights = [1, 1, 1, *[1] * M, 2, 1, 5]
    stored = sw.decompose(whole, RULES, weights=weights)
    assert_same(acc.result(), stored, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("filled", [False, True])
def test_a_failing_member_adds_nothing(failure, filled):
    how, error = FAILURES[failure]
    acc = fill(expected(), RULES) if filled else sw.Accumulator(RULES)
    before = copy.deepcopy(acc.result()) if filled else None
    with pytest.raises(error):
        sw.predict_samples(failing(how), X, into=acc, batch_size=50)
    assert acc.n_members == (M if filled else 0)
    if before is not None:
        assert_same(acc.result(), before, rtol=0)
    sw.predict_samples(forest(), X, into=acc)
    assert acc.n_members == (2 * M if filled else M)


def test_other_rows_or_classes_are_not_added():
    acc = fill(expected(), FOUR)
    before = copy.deepcopy(acc.result())
    for rows, model in ((X[:50], forest()), (X, GaussianNB(var_smoothing=0.1).fit(X, Y % 3))):
        with pytest.raises(sw.InvalidInput, match=r"shape \(200, 10\) so far|200 instances so far"):
            sw.predict_samples([model, model], rows, into=acc)
    assert acc.n_members == M
    assert_same(acc.result(), before, rtol=0)


def test_a_destination_is_one_accumulator_or_one_file(tmp_path):
    with pytest.raises(sw.InvalidInput, match="out= to store the members or into= to decompose"):
        sw.predict_samples(forest(), X, out=tmp_path / "m.npy", into=sw.Accumulator("log"))
    for into in ("log", ["log"], np.empty((N, M, K))):
        with pytest.raises(sw.InvalidInput, match=r"into= must be a scorewise.Accumulator, not"):
            sw.predict_samples(forest(), X, into=into)


def test_no_rows_are_no_instances():
    acc = sw.predict_samples(forest(), X[:0], into=sw.Accumulator(RULES))
    assert acc.n_members == M
    assert all(d.epistemic.shape == (0,) for d in acc.result().values())


def test_a_folder_that_is_no_array_is_not_replaced(tmp_path):
    import zarr

    group = zarr.create_group(str(tmp_path / "group.zarr"))
    group.create_array("precious", shape=(3,), dtype="f8")[:] = 7
    folder = tmp_path / "folder.zarr"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    (tmp_path / "file.zarr").write_text("a file")
    (tmp_path / "folder.npy").mkdir()
    sw.predict_samples(forest(), X, out=tmp_path / "array.zarr")
    (tmp_path / "array.zarr" / "thesis.txt").write_text("years of work")
    for name in ("group.zarr", "folder.zarr", "file.zarr", "folder.npy", "array.zarr"):
        with pytest.raises(sw.InvalidInput, match="scorewise did not write it"):
            sw.predict_samples(forest(), X, out=tmp_path / name)
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "array.zarr" / "thesis.txt").read_text() == "years of work"
    assert float(zarr.open_group(str(tmp_path / "group.zarr"))["precious"][0]) == 7


@pytest.mark.parametrize(
    "name",
    ["2024.01", "2024.01.05", "7", "zarr.json.1", "c/7", "c/0/0/1", "c/4/0/0", "c/0/zarr.json"],
)
def test_a_zarr_array_with_files_of_the_users_is_not_replaced(name, tmp_path):
    sw.predict_samples(forest(), X, out=tmp_path / "a.zarr", batch_size=50)  # 4 chunks
    diary = tmp_path / "a.zarr" / name
    diary.parent.mkdir(parents=True, exist_ok=True)
    diary.write_text("years of work")
    with pytest.raises(sw.InvalidInput, match="not everything in it"):
        sw.predict_samples(forest(), X, out=tmp_path / "a.zarr")
    assert diary.read_text() == "years of work"


def test_an_array_that_scorewise_cannot_have_written_is_not_replaced(tmp_path):
    for kind, array in {
        "features": X,
        "counts": np.zeros((3, 4, 5), int),
        "objects": np.array([None] * 3),
    }.items():
        np.save(tmp_path / f"{kind}.npy", array)
    (tmp_path / "text.npy").write_text("years of work")
    for name, shape in {"a.zarr": (3, 3), "b.zarr": (3, 3, 3)}.items():
        zarr.create_array(str(tmp_path / name), shape=shape, dtype="f8")[:] = 7
    before = contents(tmp_path)
    for path in [*tmp_path.iterdir()]:
        with pytest.raises(sw.InvalidInput, match="scorewise did not write it"):
            sw.predict_samples(forest(), X, out=path)
    assert contents(tmp_path) == before


def test_the_file_of_the_inputs_is_not_replaced(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X.reshape(-1, 8, 8))  # as our own arrays, which may be replaced
    before = path.read_bytes()
    mapped = np.load(path, mmap_mode="r").reshape(-1, 64)
    with pytest.raises(sw.InvalidInput, match="is, or is in, the input"):
        sw.predict_samples(forest(), mapped, out=path)
    assert path.read_bytes() == before


def test_the_target_of_a_link_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    for name in ("a.npy", "a.zarr"):
        target = tmp_path / "elsewhere" / name
        sw.predict_samples(forest(), X[:5], out=target)
        (tmp_path / name).symlink_to(target)
        samples = sw.predict_samples(forest(), X, out=tmp_path / name)
        assert (tmp_path / name).is_symlink()
        np.testing.assert_array_equal(np.asarray(samples.probs), expected())
    assert sorted(p.name for p in (tmp_path / "elsewhere").iterdir()) == ["a.npy", "a.zarr"]


def test_models_of_other_precision_share_an_accumulator():
    import torch

    net = torch.nn.Linear(X.shape[1], K)
    acc = sw.Accumulator("log")
    sw.predict_samples(forest(), X, into=acc)
    sw.predict_samples([net, net], X, into=acc)
    assert acc.n_members == M + 2
    assert acc.dtype == np.float64
    members_of_net = sw.predict_samples([net, net], X).probs.astype(np.float64)
    together = np.concatenate([expected(), members_of_net], axis=1)
    assert_same({"": acc.result()}, {"": sw.decompose(together, "log")}, rtol=1e-9)


def test_progress_true_shows_a_bar_at_once(capfd):
    sw.predict_samples(forest(), X, progress=True, batch_size=20)
    shown = capfd.readouterr()
    assert "predicting" in shown.err
    assert not shown.out
    sw.predict_samples(forest(), X, batch_size=20)
    assert not capfd.readouterr().err


def test_an_accumulator_of_another_library_says_so():
    import torch

    acc = sw.Accumulator("log")
    acc.update(torch.full((N, K), 1 / K))
    with pytest.raises(sw.InvalidInput, match="different libraries"):
        sw.predict_samples(forest(), X, into=acc)
    assert acc.n_members == 1
