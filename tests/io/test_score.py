"""Scored files: the numbers of decompose, whatever the file, and the place of what is wrong."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from io_support import set_chunk_bytes
from scorewise.io import _score as score
from support import all_rules

RULES = ("log", "brier", "zero-one", "spherical")
COMPONENTS = ("total", "aleatoric", "epistemic")
N, M, K = 200, 4, 3
COSTS = [[0, 5, 1, 2], [50, 0, 1, 2], [3, 3, 1, 0]]
ODD = {
    "triage, or not": sw.rules.cost_matrix(COSTS),
    "top-k:2": "top-k:2",
    'a "name"; ü\n': "tsallis:1.5",
    "": "brier",
}
parametrize = pytest.mark.parametrize


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 16 rows of float64, stored every 40 rows."""
    set_chunk_bytes(monkeypatch, 16 * M * K * 8)
    monkeypatch.setattr(score, "_PART_BYTES", 40 * M * K * 8)


def random_members(n: int = N, m: int = M, k: int = K, seed: int = 0, dtype: Any = "float64"):
    probs = np.random.default_rng(seed).dirichlet(np.full(k, 0.5), size=(n, m))
    return probs.astype(dtype)


def folder_of(path: Path, probs: np.ndarray, files: int = 3, row_group: int = 30) -> Path:
    """A folder of Parquet files with several row groups each."""
    path.mkdir()
    for i, some in enumerate(np.array_split(probs, files)):
        table = pa.table({"probs": pa.array(some.tolist())})
        pq.write_table(table, path / f"part-{i}.parquet", row_group_size=row_group)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def expected(chunks: Any, rules: Any, **options: Any) -> dict[str, np.ndarray]:
    """Columns by decompose, chunk by chunk."""
    named = rules if isinstance(rules, dict) else {rule: rule for rule in rules}
    results = [
        sw.decompose(
            part.logits if part.from_logits else part.probs,
            named,
            weights=part.weights,
            from_logits=part.from_logits,
            **options,
        )
        for part in chunks
    ]
    return {
        f"{component}_{name}": np.concatenate([getattr(r[name], component) for r in results])
        for name in named
        for component in COMPONENTS
    }


def assert_scored(path: Path, source: Path, rules: Any, **options: Any) -> None:
    """Bit for bit by the same chunks, to rounding by all rows at once."""
    got = read(path)
    predictions = sw.read_predictions(source)
    name = next(iter(got))
    rows = got.pop(name)
    if name == "row":
        assert rows.tolist() == list(range(len(predictions)))
    same = expected(predictions.chunks(), rules, **options)
    whole = expected([predictions], rules, **options)
    assert list(got) == list(same)
    for column, values in got.items():
        assert values.dtype == same[column].dtype, column
        np.testing.assert_array_equal(values, same[column], column)
        rtol = 1e-12 if values.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(values, whole[column], rtol, 1e-7, err_msg=column)


# -- numbers ---------------------------------------------------------------------------------------


@parametrize("k", [2, 3, 7])
@parametrize("suffix", ["parquet", "npy", "folder"])
def test_every_rule_and_component_is_that_of_decompose(tmp_path, monkeypatch, k, suffix):
    set_chunk_bytes(monkeypatch, 64 * M * k * 8)
    source = tmp_path / ("in" if suffix == "folder" else f"in.{suffix}")
    probs = random_members(k=k)
    probs[3] = probs[3, :1]  # members that agree
    if suffix == "folder":
        folder_of(source, probs)
    else:
        sw.write_predictions(source, probs)
    rules = all_rules(k) | ({"beta:0.5,2": "beta:0.5,2"} if k == 2 else {})
    scored = sw.score_file(source, rules, tmp_path / "out.parquet")
    assert scored.n_rows == N
    assert_scored(scored.path, source, rules)
    assert all(read(scored.path)[f"epistemic_{name}"][3] == 0 for name in rules)


@parametrize("dtype", ["float16", "float32", "float64"])
@parametrize("suffix", ["npy", "npz", "parquet", "arrow", "safetensors"])
def test_any_precision(tmp_path, small_chunks, dtype, suffix):
    source = tmp_path / f"in.{suffix}"
    sw.write_predictions(source, random_members(dtype=dtype))
    sw.score_file(source, RULES, tmp_path / "out.parquet")
    assert_scored(tmp_path / "out.parquet", source, RULES)
    wanted = np.float64 if dtype == "float64" else np.float32
    assert read(tmp_path / "out.parquet")["total_log"].dtype == wanted


@parametrize("suffix", ["npz", "parquet"])
@parametrize("shape", [(M,), (N, M)])
@parametrize("kind", ["probs", "logits"])
def test_weights_and_logits(tmp_path, small_chunks, suffix, shape, kind):
    rng = np.random.default_rng(0)
    values = random_members() if kind == "probs" else rng.normal(size=(N, M, K), scale=4)
    if kind == "logits":
        values[5, 2, 1] = -np.inf  # a masked class
    weights = rng.uniform(size=shape)
    weights[..., 1] = 0.0
    source = tmp_path / f"in.{suffix}"
    sw.write_predictions(source, **{kind: values}, weights=weights)
    sw.score_file(source, ["log", "zero-one"], tmp_path / "out.parquet", normalize=True)
    normalize = {} if kind == "logits" else {"normalize": True}
    assert_scored(tmp_path / "out.parquet", source, ("log", "zero-one"), **normalize)


def test_probabilities_count_where_there_are_logits_too(tmp_path):
    probs = random_members()
    logits = np.random.default_rng(1).normal(size=probs.shape)
    sw.write_predictions(tmp_path / "in.npz", probs, logits=logits)
    sw.score_file(tmp_path / "in.npz", ["log"], tmp_path / "out.parquet")
    np.testing.assert_array_equal(
        read(tmp_path / "out.parquet")["total_log"], sw.decompose(probs, "log").total
    )


def test_rows_are_rescaled_on_request_only(tmp_path, small_chunks):
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, 3 * random_members())
    with pytest.raises(sw.InvalidInput, match=r"row 0: probs\[0, 0\] .*normalize=True"):
        sw.score_file(source, ["log"], out)
    scored = sw.score_file(source, ["log"], out, normalize=True)
    assert scored.metadata["normalize"] is True
    assert scored.resumed == 0
    assert_scored(out, source, ("log",), normalize=True)


def test_odd_names_survive_in_columns_and_metadata(tmp_path):
    source = tmp_path / "in.npy"
    sw.write_predictions(source, random_members())
    for suffix in ("parquet", "arrow", "feather", "csv"):
        scored = sw.score_file(source, ODD, tmp_path / f"out.{suffix}")
        wanted = ["row", *(f"{c}_{name}" for name in ODD for c in COMPONENTS)]
        assert list(scored.columns) == wanted
        if suffix == "csv":
            options = pa.csv.ParseOptions(newlines_in_values=True)
            table = pa.csv.read_csv(scored.path, parse_options=options)
        elif suffix == "parquet":
            table = pq.read_table(scored.path)
        else:
            table = pa.feather.read_table(scored.path)
        assert table.column_names == wanted
        got = table["total_triage, or not"].to_numpy()
        by_hand = sw.decompose(random_members(), sw.rules.cost_matrix(COSTS)).total
        np.testing.assert_array_equal(got, by_hand)
        if suffix != "csv":
            metadata = json.loads(table.schema.metadata[b"scorewise"])
            assert metadata == scored.metadata
            assert list(metadata["rules"]) == list(ODD)


def test_beta_by_its_written_name(tmp_path):
    source = tmp_path / "in.npy"
    sw.write_predictions(source, random_members(k=2))
    scored = sw.score_file(source, ["beta:0.5,2", "top-k:1"], tmp_path / "out.parquet")
    assert scored.columns[1] == "total_beta:0.5,2"
    assert_scored(scored.path, source, ("beta:0.5,2", "top-k:1"))


@parametrize("rules", ["log", sw.rules.log, ["log"], {"log": "log"}])
def test_one_rule_may_stand_alone(tmp_path, rules):
    sw.write_predictions(tmp_path / "in.npy", random_members(3))
    columns = sw.score_file(tmp_path / "in.npy", rules, tmp_path / "out.parquet").columns
    assert columns == ("row", "total_log", "aleatoric_log", "epistemic_log")


def test_one_row(tmp_path):
    sw.write_predictions(tmp_path / "in.parquet", random_members(1), ids=["only"])
    scored = sw.score_file(tmp_path / "in.parquet", RULES, tmp_path / "out.parquet")
    assert scored.n_rows == 1
    assert read(scored.path)["id"].tolist() == ["only"]
    assert_scored(scored.path, tmp_path / "in.parquet", ("log", "brier", "zero-one", "spherical"))


@parametrize("suffix", ["npy", "parquet", "npz"])
def test_no_rows_give_an_empty_table(tmp_path, monkeypatch, suffix):
    named = score.ScoredParts._file
    requests = []

    def count(self: Any, row: int) -> Path:
        requests.append(row)
        assert len(requests) < 1000, "it would never end"
        return named(self, row)

    monkeypatch.setattr(score.ScoredParts, "_file", count)
    sw.write_predictions(tmp_path / f"in.{suffix}", random_members(0))
    scored = sw.score_file(tmp_path / f"in.{suffix}", ["log"], tmp_path / "out.parquet")
    assert scored.n_rows == 0
    assert list(read(scored.path)) == ["row", "total_log", "aleatoric_log", "epistemic_log"]


@parametrize("ids", [np.arange(N) * 7 - 3, np.array([f"é{i}" for i in range(N)], dtype=object)])
def test_ids_are_carried(tmp_path, small_chunks, ids):
    sw.write_predictions(tmp_path / "in.parquet", random_members(), ids=ids)
    scored = sw.score_file(tmp_path / "in.parquet", ["log"], tmp_path / "out.parquet")
    assert scored.columns[0] == "id"
    assert read(scored.path)["id"].tolist() == ids.tolist()


# -- metadata --------------------------------------------------------------------------------------


def test_metadata_tells_where_the_numbers_come_from(tmp_path):
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())
    scored = sw.score_file(source, ["log", "zero-one"], out)
    metadata = json.loads(pq.read_schema(out).metadata[b"scorewise"])
    assert metadata == scored.metadata
    assert metadata == {
        "version": sw.__version__,
        "input": "in.parquet",
        "rows": N,
        "members": M,
        "classes": K,
        "rules": {"log": "log", "zero-one": "zero-one"},
        "normalize": False,
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }


def test_the_digest_of_a_folder_changes_with_any_of_its_files(tmp_path):
    folder = folder_of(tmp_path / "in", random_members())
    first = sw.score_file(folder, ["log"], tmp_path / "a.parquet").metadata["sha256"]
    assert sw.score_file(folder, ["log"], tmp_path / "b.parquet").metadata["sha256"] == first
    (folder / "part-2.parquet").rename(folder / "part-3.parquet")
    assert sw.score_file(folder, ["log"], tmp_path / "b.parquet").metadata["sha256"] != first


# -- what is wrong, and where ----------------------------------------------------------------------

BAD = {
    "nan": (np.array([np.nan, 0.5, 0.5]), "nan"),
    "negative": (np.array([-0.5, 0.75, 0.75]), "-0.5"),
    "sum": (np.array([0.5, 0.1, 0.1]), "sums to 0.7"),
}


@parametrize("kind", BAD)
def test_a_bad_row_is_named_wherever_it_is(tmp_path, small_chunks, kind):
    """At the ends of chunks, row groups and files, and in the last chunk of the third file."""
    row_group, size = 30, 70
    for row in [0, 15, 16, 29, 30, 59, 60, 69, 70, 99, 100, 139, 140, 169, 200, 208, 209]:
        for member in (0, M - 1):
            probs = random_members(3 * size)
            probs[row, member] = BAD[kind][0]
            folder = folder_of(tmp_path / f"{row}-{member}", probs, row_group=row_group)
            with pytest.raises(sw.InvalidInput) as caught:
                sw.score_file(folder, ["log"], tmp_path / "out.parquet")
            file, within = divmod(row, size)
            group, in_group = divmod(within, row_group)
            said = str(caught.value)
            where = f"row {row} (row {in_group} of row group {group} of 'part-{file}.parquet'): "
            assert said.startswith(f"{folder.name!r}: {where}probs[{row}, {member}"), said
            assert BAD[kind][1] in said, said
            assert not (tmp_path / "out.parquet").exists()


@parametrize("row", [0, 1, 15, 16, 17, 100, 198, 199])
def test_a_bad_row_of_a_plain_array_is_named(tmp_path, small_chunks, row):
    probs = random_members()
    probs[row, 2, 1] = np.inf
    sw.write_predictions(tmp_path / "in.npy", probs)
    with pytest.raises(
        sw.InvalidInput, match=rf"^'in.npy': row {row}: probs\[{row}, 2, 1\] is inf"
    ):
        sw.score_file(tmp_path / "in.npy", RULES, tmp_path / "out.parquet")


@parametrize("row", [0, 16, 199])
def test_bad_logits_and_weights_are_named(tmp_path, small_chunks, row):
    logits = np.random.default_rng(0).normal(size=(N, M, K))
    logits[row, 3, 0] = np.nan
    sw.write_predictions(tmp_path / "in.npz", logits=logits)
    with pytest.raises(sw.InvalidInput, match=rf"row {row}: \w+\[{row}, 3, 0\] is nan"):
        sw.score_file(tmp_path / "in.npz", RULES, tmp_path / "out.parquet")
    weights = np.ones((N, M))
    weights[row, 1] = -1
    np.savez(tmp_path / "in.npz", probs=random_members(), weights=weights)
    with pytest.raises(sw.InvalidInput, match=rf"row {row}: weights\[{row}, 1\] is -1"):
        sw.score_file(tmp_path / "in.npz", RULES, tmp_path / "out.parquet")


def test_weights_without_sum_are_refused(tmp_path):
    np.savez(tmp_path / "in.npz", probs=random_members(), weights=np.zeros(M))
    with pytest.raises(sw.InvalidInput, match="weights sums to 0"):
        sw.score_file(tmp_path / "in.npz", RULES, tmp_path / "out.parquet")


def test_a_bad_weight_shared_by_all_rows_is_in_no_row(tmp_path):
    np.savez(tmp_path / "in.npz", probs=random_members(), weights=np.array([1.0, 1, -1, 1]))
    with pytest.raises(sw.InvalidInput) as caught:
        sw.score_file(tmp_path / "in.npz", RULES, tmp_path / "out.parquet")
    assert "weights[2] is -1" in str(caught.value)
    assert not str(caught.value).startswith("row")


def test_impossible_work_is_refused_before_it_starts(tmp_path):
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())
    for rules, metadata in [
        ([], "no rule"),
        (["beta:1,1"], "2 classes|two classes"),
        ([sw.rules.cost_matrix(np.eye(4))], "4 classes"),
        (["top-k:9"], "9"),
        (["nonsense"], "nonsense"),
        (["log", "log"], "two rules are called 'log'"),
    ]:
        with pytest.raises(sw.InvalidInput, match=metadata):
            sw.score_file(source, rules, out)
    for path, metadata in [
        (tmp_path / "out.txt", "must end in"),
        (tmp_path / "none" / "out.csv", "there is no folder"),
        (tmp_path, "must end in"),
    ]:
        with pytest.raises(sw.InvalidInput, match=metadata):
            sw.score_file(source, RULES, path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        sw.score_file(tmp_path / "no.npy", RULES, out)
    assert [file.name for file in tmp_path.iterdir()] == ["in.npy"]


def test_the_input_is_not_overwritten(tmp_path):
    source = tmp_path / "in.parquet"
    sw.write_predictions(source, random_members())
    with pytest.raises(sw.InvalidInput):
        sw.score_file(source, RULES, source)
    assert sw.read_predictions(source).shape == (N, M, K)


def test_the_output_does_not_become_part_of_the_input(tmp_path):
    folder = folder_of(tmp_path / "in", random_members())
    with pytest.raises(sw.InvalidInput):
        sw.score_file(folder, RULES, folder / "out.parquet")
    assert sw.read_predictions(folder).shape == (N, M, K)


# -- going on --------------------------------------------------------------------------------------


class Stopped(Exception):
    pass


def score_until(chunks: int, *args: Any, **options: Any) -> None:
    """Work that breaks off after some chunks."""
    work, done = score.decompose, []

    def breaking(*args: Any, **options: Any) -> Any:
        if len(done) == chunks:
            raise Stopped
        done.append(1)
        return work(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "decompose", breaking)
        with pytest.raises(Stopped):
            sw.score_file(*args, **options)


@parametrize("suffix", ["parquet", "csv", "arrow"])
@parametrize("source", ["npy", "folder"])
def test_work_that_broke_off_ends_in_the_same_bytes(tmp_path, small_chunks, suffix, source):
    source = tmp_path / ("in" if source == "folder" else "in.npy")
    if source == "folder":
        folder_of(source, random_members())
    else:
        sw.write_predictions(source, random_members())
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    assert sw.score_file(source, RULES, whole).resumed == 0
    for chunks in (0, 1, 3, 4, 2, 5):
        score_until(chunks, source, RULES, out)
        assert not out.exists()
    done = sw.score_file(source, RULES, out)
    assert 0 < done.resumed < N
    assert out.read_bytes() == whole.read_bytes()
    assert done.metadata == sw.score_file(source, RULES, whole).metadata
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {source.name, whole.name, out.name}


def test_all_is_done_again_on_request_or_for_other_work(tmp_path, small_chunks, monkeypatch):
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())

    def stop() -> None:
        score_until(8, source, ["log"], out)

    stop()
    assert sw.score_file(source, ["log"], out, resume=False).resumed == 0
    stop()
    assert sw.score_file(source, {"log": "brier"}, out).resumed == 0
    assert_scored(out, source, {"log": "brier"})
    stop()
    assert sw.score_file(source, ["log"], out, normalize=True).resumed == 0
    stop()
    sw.write_predictions(source, random_members(seed=1))
    assert sw.score_file(source, ["log"], out).resumed == 0
    assert_scored(out, source, ("log",))


@parametrize("which", ["large", "close", "custom"])
def test_work_on_another_rule_does_not_go_on_from_here(tmp_path, small_chunks, which):
    k = 40 if which == "large" else K
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members(k=k))
    costs = np.random.default_rng(0).uniform(size=(k, k))
    if which == "custom":
        first, second = (
            sw.rule_from_loss_vector(
                lambda p, c=c: c * ((p * p).sum(-1, keepdims=True) + 1 - 2 * p), name="own"
            )
            for c in (1.0, 100.0)
        )
    else:
        first = sw.rules.cost_matrix(costs)
        other = costs.copy()
        other[:, 10 if which == "large" else 0] *= 1e-3 if which == "large" else 1 + 1e-10
        second = sw.rules.cost_matrix(other)
    score_until(20 if which == "large" else 8, source, {"cost": first}, out)
    sw.score_file(source, {"cost": second}, out)
    assert_scored(out, source, {"cost": second})


def test_a_part_that_was_cut_off_is_done_again(tmp_path, small_chunks):
    source, whole, out = tmp_path / "in.npy", tmp_path / "whole.parquet", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())
    sw.score_file(source, RULES, whole)
    score_until(9, source, RULES, out)
    last = sorted((tmp_path / ".out.parquet.parts").glob("*.part"))[-1]
    last.write_bytes(last.read_bytes()[:100])
    sw.score_file(source, RULES, out)
    assert out.read_bytes() == whole.read_bytes()


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path, small_chunks, monkeypatch):
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())
    out.write_text("what was there before")
    work = score.decompose

    def changing(received: Any, *args: Any) -> Any:
        if received.raw.layout.origin == (96,):
            os.utime(source, ns=(1, 1))
        return work(received, *args)

    monkeypatch.setattr(score, "decompose", changing)
    with pytest.raises(sw.InvalidInput, match=r"'in.npy' has changed while it was read"):
        sw.score_file(source, RULES, out)
    assert out.read_text() == "what was there before"
    monkeypatch.setattr(score, "decompose", work)
    assert sw.score_file(source, RULES, out).resumed == 0
    assert_scored(out, source, ("log", "brier", "zero-one", "spherical"))


def test_a_file_that_joins_a_folder_meanwhile_is_noticed(tmp_path, small_chunks, monkeypatch):
    folder = folder_of(tmp_path / "in", random_members())
    work = score.decompose

    def changing(*args: Any, **options: Any) -> Any:
        (folder / "part-9.parquet").write_bytes((folder / "part-0.parquet").read_bytes())
        return work(*args, **options)

    monkeypatch.setattr(score, "decompose", changing)
    with pytest.raises(sw.InvalidInput, match="has changed while it was read"):
        sw.score_file(folder, RULES, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_members_support_is_the_same_by_chunks(tmp_path, small_chunks):
    """Ordinary members of many kinds, of which rows must not depend on their neighbours."""
    for i, (_, probs) in enumerate(_some_members()):
        sw.write_predictions(tmp_path / f"{i}.npy", probs)
        out = tmp_path / f"{i}.parquet"
        sw.score_file(tmp_path / f"{i}.npy", RULES, out)
        assert_scored(out, tmp_path / f"{i}.npy", ("log", "brier", "zero-one", "spherical"))


def _some_members():
    one_hot = np.eye(K)[np.random.default_rng(0).integers(K, size=(N, M))]
    alike = np.repeat(random_members(m=1), M, axis=1)
    yield "one-hot", one_hot
    yield "alike", alike
    yield "nearly alike", 0.999999 * alike + 0.000001 * one_hot


def test_a_part_that_is_damaged_at_the_last_moment_is_no_result(
    tmp_path, small_chunks, monkeypatch
):
    source, out = tmp_path / "in.npy", tmp_path / "out.parquet"
    sw.write_predictions(source, random_members())
    work = score._score_rows

    def damaging(*args: Any, **options: Any) -> Any:
        yield from work(*args, **options)
        last = sorted((tmp_path / ".out.parquet.parts").glob("*.part"))[-1]
        last.write_bytes(b"")

    monkeypatch.setattr(score, "_score_rows", damaging)
    with pytest.raises(OSError, match="repeat the command"):
        sw.score_file(source, RULES, out)
    assert not out.exists()
    monkeypatch.setattr(score, "_score_rows", work)
    assert sw.score_file(source, RULES, out).resumed > 0
    assert_scored(out, source, ("log", "brier", "zero-one", "spherical"))


def test_a_bad_label_does_not_keep_rows_from_being_scored(tmp_path):
    probs = random_members()
    columns = {"probs": probs.tolist(), "labels": [99] * len(probs)}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    scored = sw.score_file(tmp_path / "in.parquet", RULES, tmp_path / "out.parquet")
    assert scored.n_rows == len(probs)


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_scores_do_not_depend_on_labels(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    probs, out = np.full((2, 1, 3), 1 / 3), tmp_path / "u.csv"
    if kind == "npz":
        np.savez(path, probs=probs, labels=[1, 2])  # names or indices
    else:
        sw.write_predictions(path, probs, labels=[1, 2])
    assert sw.score_file(path, "log", out, class_names=[1, 2, 3]).n_rows == 2
