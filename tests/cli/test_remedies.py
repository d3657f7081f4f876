"""Advice in error messages: each remedy is an option that the command has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from cli_support import NAMES, PREDICTIONS, run, sentence_of
from scorewise.cli._app import remedy_text
from scorewise.errors import Remedy

COMMANDS_ON_A_FILE = {
    "score": "score {}",
    "evaluate": "evaluate {} --no-report",
    "calibrate": "calibrate {}",
    "certify": "certify {} --max-loss 0.3",
    "apply": "apply unnamed.json {}",
    "label": "label {}",
    "decide": "decide {} --costs numbered.csv",
    "compare": "compare {}",
}
NO_LOGITS = "use --logits if these are logits"


@pytest.fixture
def wrong(here: Path) -> Path:
    """Files whose problems have a remedy."""
    probs, labels = PREDICTIONS.probs, PREDICTIONS.labels
    names = np.array(NAMES)[labels]
    np.savez("unscaled.npz", probs=probs * 3, labels=labels)
    np.savez("logits.npz", probs=np.log(probs), labels=labels)
    np.savez("named.npz", probs=probs, labels=names)
    np.savez("bare.npz", probs=probs)
    Path("numbered.csv").write_text("dismiss,treat\n0,5\n2,2\n50,0\n")
    Path("gains.csv").write_text("dismiss,treat\n-9,-5\n-2,-2\n-1,-9\n")
    np.savez("held_out.npz", probs=probs, labels=labels)
    run("certify", "test.npz", "--max-loss", "0.3")
    run("certify", "held_out.npz", "--max-loss", "0.3", "--out", "unnamed.json")
    return here


CASES = [
    *(
        (line.format(file), advice)
        for command, line in COMMANDS_ON_A_FILE.items()
        for file, advice in [
            ("unscaled.npz", f"use --normalize to rescale rows, or {NO_LOGITS}"),
            ("logits.npz", NO_LOGITS),
            ("named.npz", "use --class-names, the names in the order of the predictions"),
        ]
        if (command, file) != ("score", "named.npz")  # it needs no labels
    ),
    ("decide bare.npz --costs costs.csv", "use --class-names, the names"),
    ("apply policy.json bare.npz", "use --class-names, the names in the order of the predictions"),
    ("certify test.npz --max-loss 0.3 --task-loss log", "use --floor 1e-06 "),
    (
        "label test.npz --rule gains.csv --component total --method power",
        "use --method softmax for scores of any sign, or use --method softrank",
    ),
]


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(("args", "advice"), CASES)
def test_a_remedy_is_an_option_of_the_command(args: str, advice: str):
    sentence = sentence_of(run(*args.split()))
    assert advice in sentence
    assert "pass " not in sentence
    options = re.findall(r"--[a-z-]+", sentence)
    listed = run(args.split()[0], "--help").stdout
    assert all(re.search(rf"{option}\b", listed) for option in options), options


def test_the_verdict_advises_options(here: Path):
    probs = PREDICTIONS.probs.copy()
    sw.write_predictions("test.npz", probs, labels=PREDICTIONS.labels)
    args = ("--task-loss", "log", "--no-report", "--resamples", "100")
    said = " ".join(run("evaluate", "test.npz", *args).stdout.split())
    assert "use --floor 1e-06 " in said
    assert "floor=" not in said


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("score test.npz --rules weighted-log", "cannot be written in a name"),
        ("score test.npz --rules foo", "known: beta, brier, log, pseudospherical, rps, spherical"),
        ("score test.npz --rules tsallis", "needs numbers, as in 'tsallis:1.5'"),
        ("score flat.npz", "use --one-model if these are 250 rows of one model"),
        ("score single.npz", "two classes have two probabilities, 1 - p and p"),
        ("label test.npz -n 1000", "there are only 250 rows to choose 1000 from"),
        ("evaluate bare.npz --no-report", "labels"),
        ("compare bare.npz", "labels"),
        ("decide test.npz --costs abstain.csv --abstain-cost 1", "leave out --abstain-cost if"),
    ],
)
def test_no_sentence_advises_python(args: str, problem: str):
    np.savez("flat.npz", probs=PREDICTIONS.probs[:, 0])
    np.savez("single.npz", probs=PREDICTIONS.probs[..., :1])
    Path("abstain.csv").write_text(",treat,abstain\nhealthy,5,1\ndoubtful,2,1\nill,0,1\n")
    sentence = sentence_of(run(*args.split()))
    assert problem in sentence
    for files in ('np.savez("test.npz", probs=…, labels=…)', "scorewise.binary"):  # to make them
        sentence = sentence.replace(files, "")
    assert not re.search(r"\bscorewise\.|\bsw\.|\bnp\.|pass |=(True|None|…)", sentence)


def test_a_remedy_without_an_option_is_left_out():
    error = sw.InvalidInput("no layer", Remedy("dropout", "all", "for all layers"))
    assert error.render(remedy_text) == "no layer"
    assert str(error) == "no layer; pass dropout='all' for all layers"
