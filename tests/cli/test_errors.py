"""Mistakes of users: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from cli_support import (
    COSTS,
    NAMES,
    PREDICTIONS,
    run,
    run_process,
    sample_members,
    sentence_of,
    succeeded,
)
from io_support import set_chunk_bytes


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("score missing.npz", "there is no file 'missing.npz'"),
        ("score test.npz --rules foo", "no rule is called 'foo'"),
        ("score test.npz --rules brie", "did you mean 'brier'"),
        ("score test.npz --rules ,", "--rules log,zero-one"),
        ("score test.npz --rules top-k:5", "needs at least 5 classes"),
        ("score test.npz --rules beta:0.5,2", "is for 2 classes"),
        ("score test.npz --out U.txt", "must end in .parquet"),
        ("score test.npz --out no/U.csv", "there is no folder 'no'"),
        ("score test.npz --out folder.csv", "is a folder"),
        ("score costs.txt", "has an unknown format"),
        ("score folder.csv", "no Parquet files"),
        ("evaluate test.npz --report folder.csv", "is a folder"),
        ("evaluate test.npz --ood missing.npz", "there is no file 'missing.npz'"),
        ("evaluate test.npz --confidence 95", "above 0 and below 1"),
        ("evaluate test.npz --task-loss nope", "no rule is called 'nope'"),
        ("evaluate test.npz --task-loss missing.csv", "missing.csv"),
        ("evaluate test.npz --figures costs.csv --no-report", "is a file"),
        ("evaluate bare.npz", "no labels"),
        ("evaluate part.npz", "row 1: labels[1] is missing"),
        ("evaluate empty.npz", "no rows"),
        ("certify test.npz --max-loss nan", "finite"),
        ("certify test.npz --max-loss 2", "above 0 and below 1"),
        ("certify test.npz --max-loss 0.1 --task-loss log", "--floor 1e-"),
        ("certify test.npz --max-loss 0.1 --task-loss log --floor 0.9", "below 1/3"),
        ("certify bare.npz --max-loss 0.1", "no labels"),
        ("certify empty.npz --max-loss 0.1", "no rows"),
        ("apply missing.json test.npz", "missing.json"),
        ("apply costs.csv test.npz", "is not a JSON file"),
        ("apply test.npz test.npz", "'test.npz' is not a policy; scorewise certify makes them"),
        ("apply list.json test.npz", "is not a policy"),
        ("label test.npz -n 251", "only 250"),
        ("label test.npz --component some", "'total', 'aleatoric', 'epistemic'"),
        ("label test.npz --method best", "'power'"),
        ("label test.npz --method jiont", "did you mean 'joint'"),
        ("label test.npz --component epistemc", "did you mean 'epistemic'"),
        ("advise abstian", "did you mean 'abstain'"),
        ("label empty.npz", "no unlabelled rows"),
        ("decide test.npz --costs missing.csv", "missing.csv"),
        ("decide test.npz --costs test.npz", "is not a valid CSV file"),
        ("decide test.npz --costs costs.csv --abstain-cost nan", "finite"),
        ("advise sleeping", "'selective', 'ood', 'active'"),
        ("compare test.npz --task active", "active_learning"),
        ("compare test.npz --task ood", "ood"),
        ("compare test.npz --task nothing", "'selective', 'ood'"),
        ("compare bare.npz", "no labels"),
        ("demo --out test.npz", "test.npz"),
    ],
)
def test_mistakes_are_one_sentence(args: str, words: str, here: Path):
    Path("folder.csv").mkdir()
    Path("costs.txt").write_text(COSTS)
    Path("list.json").write_text("[1, 2]")
    np.savez("bare.npz", probs=PREDICTIONS.probs)
    np.savez("part.npz", probs=PREDICTIONS.probs[:3], labels=[0, -1, -1])
    sw.write_predictions("empty.npz", np.empty((0, 4, 3)))
    before = sorted(here.iterdir())
    assert words in sentence_of(run(*args.split()))
    assert sorted(here.iterdir()) == before
    debug = run(*args.split(), "--debug")
    assert debug.exit_code == 2
    assert "Traceback" in debug.stderr


def broken_files() -> dict[str, tuple[bytes, str]]:
    """Files that are not what they must be, and what is said of them."""
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"scorewise-broken-{os.getpid()}"
    folder.mkdir(exist_ok=True)

    def saved(name: str, save: Any) -> bytes:
        path = folder / name
        save(path)
        data = path.read_bytes()
        path.unlink()
        return data

    def changed(index: Any, value: Any) -> bytes:
        probs = PREDICTIONS.probs.copy()
        probs[index] = value
        return saved("x.npy", lambda path: np.save(path, probs))

    npz = saved("x.npz", lambda path: sw.write_predictions(path, PREDICTIONS))
    parquet = saved("x.parquet", lambda path: sw.write_predictions(path, PREDICTIONS))
    arrow = saved("x.arrow", lambda path: sw.write_predictions(path, PREDICTIONS))
    tensors = saved("x.safetensors", lambda path: sw.write_predictions(path, PREDICTIONS))
    npy = saved("x.npy", lambda path: np.save(path, PREDICTIONS.probs))
    result = {
        "sum.npy": (changed((7, 2), 0.5), "probs[7, 2] sums to 1.5"),
        "negative.npy": (changed((7, 2, 0), -0.5), "probs[7, 2, 0] is -0.5"),
        "nan.npy": (changed((7, 2, 0), np.nan), "probs[7, 2, 0] is nan"),
        "whole.npy": (saved("x.npy", lambda p: np.save(p, np.ones((3, 2, 2), int))), "int64"),
        "flat.npy": (saved("x.npy", lambda p: np.save(p, PREDICTIONS.probs[:, 0])), "(N, M, K)"),
        "objects.npy": (
            saved("x.npy", lambda p: np.save(p, np.array([{}], object), allow_pickle=True)),
            "unpickling",
        ),
        "text.csv": (b"probs_0_0,probs_0_1\n0.5,half\n", "'half'"),
        "ragged.csv": (b"probs_0_0,probs_0_1\n0.5\n", "1 cells"),
        "other.csv": (b"x,y\n1,2\n", "no columns of predictions"),
        "bytes.csv": (b"\xff\xfe\x00", "UTF-8"),
        "other.npz": (
            saved("x.npz", lambda p: np.savez(p, x=PREDICTIONS.probs)),
            "no array 'probs'",
        ),
        "labels.npz": (
            saved("x.npz", lambda p: np.savez(p, probs=PREDICTIONS.probs, labels=np.full(250, 7))),
            "labels[0] is 7",
        ),
        "cut.npy": (npy[:-100], "truncated"),
        "cut.npz": (npz[:-100], "not a valid .npz file"),
        "cut.parquet": (parquet[:-100], "truncated"),
        "cut.arrow": (arrow[:-100], "truncated"),
        "cut.safetensors": (tensors[:-100], "truncated"),
        "wrong.parquet": (npz, "not a valid Parquet file"),
        "wrong.npz": (parquet, "not a valid .npz file"),
    }
    for kind in ("npy", "npz", "parquet", "arrow", "csv", "safetensors"):
        result[f"empty.{kind}"] = (b"", f"empty.{kind}")
    folder.rmdir()
    return result


BROKEN = broken_files()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_one_sentence(name: str, here: Path):
    data, words = BROKEN[name]
    Path(name).write_bytes(data)
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    named = ("--class-names", ",".join(NAMES))
    needs_no_labels = [("score", name, "--out", "U.csv")] if name != "labels.npz" else []
    for args in (
        *needs_no_labels,
        ("evaluate", name, "--no-report"),
        ("label", name),
        ("certify", name, "--max-loss", "0.1", "--out", "again.json"),
        ("compare", name),
        ("decide", name, "--costs", "costs.csv", "--out", "U.csv", *named),
        ("apply", "policy.json", name, "--out", "U.csv", *named),
        ("evaluate", "test.npz", "--ood", name),
    ):
        assert words in sentence_of(run(*args)), args
    for written in ("U.csv", "again.json", "report.html"):
        assert not Path(written).exists()


def test_advice_about_logits_is_a_sentence(here: Path):
    np.save("logits.npy", np.log(PREDICTIONS.probs))
    said = sentence_of(run("score", "logits.npy"))
    assert "use --logits if these are logits" in said
    assert "pass call" not in said


def with_a_late_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    probs = PREDICTIONS.probs.copy()
    probs[200, 1] *= 2
    sw.write_predictions("late.parquet", probs)
    set_chunk_bytes(monkeypatch, 50 * 4 * 3 * 8)


@pytest.mark.parametrize("args", [("score", "late.parquet"), ("label", "late.parquet")])
def test_a_mistake_far_down_is_named_by_its_place(
    args: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    with_a_late_mistake(monkeypatch)
    said = sentence_of(run(*args))
    assert "'late.parquet': row 200 (row 200 of row group 0): probs[200, 1] sums to" in said


@pytest.mark.parametrize(
    "args",
    [
        ("decide", "late.parquet", "--costs", "c.csv"),
        ("apply", "policy.json", "late.parquet", "--class-names", ",".join(NAMES)),
    ],
)
def test_a_mistake_far_down_is_named_by_its_row(
    args: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    Path("c.csv").write_text("dismiss,treat\n0,5\n2,2\n50,0\n")
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    with_a_late_mistake(monkeypatch)
    assert "probs[200, 1] sums to 2" in sentence_of(run(*args))


@pytest.mark.parametrize(
    "args",
    [
        "score test.parquet",
        "decide test.parquet --costs costs.csv",
        "label test.parquet",
        "apply policy.json test.parquet",
        "certify test.parquet --max-loss 0.3",
    ],
)
def test_the_input_is_not_overwritten(args: str, here: Path):
    sw.write_predictions("test.parquet", PREDICTIONS)
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    before = Path("test.parquet").read_bytes()
    result = run(*args.split(), "--out", "test.parquet")
    assert Path("test.parquet").read_bytes() == before
    sentence_of(result)


@pytest.mark.parametrize(
    ("args", "python"),
    [
        ("compare test.npz --task ood", "ood="),
        ("compare test.npz --ood test.npz", "ood="),
        ("score test.npz --rules log,log", "mapping"),
        ("evaluate test.npz --max-loss nan --no-report --resamples 100", "np.float64"),
        ("evaluate test.npz --ood four.npz --no-report --resamples 100", "Samples("),
    ],
)
def test_messages_are_in_terms_of_the_command_line(args: str, python: str, here: Path):
    sw.write_predictions("four.npz", sample_members(20, k=4)[0])
    assert python not in sentence_of(run(*args.split()))


def test_debug_shows_the_trace_and_nothing_else_does(here: Path):
    plain, debug = (run_process("score", "missing.npz", *more) for more in ((), ("--debug",)))
    assert plain.returncode == 2
    assert plain.stdout == ""
    assert plain.stderr == "Error: there is no file 'missing.npz'\n"
    assert "Traceback" in debug.stderr
    assert "FileNotFoundError: there is no file 'missing.npz'" in debug.stderr


def test_a_mistake_has_the_same_exit_code_with_debug(here: Path):
    assert run_process("score", "missing.npz", "--debug").returncode == 2
