"""Options that say how a file is to be read, warnings, swapped arguments, and completion."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from answers_support import write_answers
from cli_support import (
    FAST,
    NAMES,
    PREDICTIONS,
    from_json,
    run,
    sample_predictions,
    sentence_of,
    succeeded,
)
from io_support import set_chunk_bytes
from scorewise.cli import app
from scorewise.errors import ScorewiseWarning

PROBS, LABELS = PREDICTIONS.probs, PREDICTIONS.labels
FILES: dict[str, tuple[dict[str, Any], str]] = {
    "members first": ({"probs": PROBS.swapaxes(0, 1)}, "--member-axis 0"),
    "logits": ({"probs": np.log(PROBS)}, "--logits"),
    "other names": (
        {"p": PROBS, "truth": LABELS, "case": np.arange(250)},
        "--probs p --labels truth --id-column case",
    ),
}


def numbers_in(value: Any) -> list[float]:
    """All numbers in a JSON document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("case", FILES)
def test_options_say_how_a_file_is_read(case: str, here: Path):
    np.savez("plain.npz", probs=PROBS, labels=LABELS)
    arrays, options = FILES[case]
    np.savez("other.npz", **({} if "truth" in arrays else {"labels": LABELS}), **arrays)
    results = []
    for name, extra in (("plain.npz", ""), ("other.npz", options)):
        results.append(from_json(run("compare", name, *FAST, *extra.split(), "--json")))
    first, second = (np.array(numbers_in(result)) for result in results)
    np.testing.assert_allclose(second, first, rtol=1e-6)


def test_ood_files_are_read_in_the_same_way(here: Path):
    ood = sample_predictions(60, seed=5)
    np.savez("a.npz", probs=PROBS.swapaxes(0, 1), truth=LABELS)
    np.save("ood.npy", ood.probs.swapaxes(0, 1))
    options = ("--member-axis", "0", "--labels", "truth", "--resamples", "100")
    succeeded(run("compare", "a.npz", "--task", "ood", "--ood", "ood.npy", *options))


@pytest.mark.parametrize(
    ("ood", "problem"),
    [
        ({"probs": PROBS[:, :3]}, "'test.npz' has 4 members and 'ood.npz' 3"),
        ({"probs": np.full((9, 4, 2), 0.5)}, "'test.npz' has 3 classes and 'ood.npz' 2"),
        (
            {"probs": PROBS, "class_names": NAMES[::-1]},
            "'test.npz' has the classes 'healthy', 'doubtful', 'ill' and 'ood.npz' 'ill'",
        ),
    ],
)
@pytest.mark.parametrize("command", ["compare --task ood", "evaluate --no-report"])
def test_ood_files_of_another_model_are_refused(ood: Any, problem: str, command: str, here: Path):
    np.savez("ood.npz", **ood)
    name, *options = command.split()
    assert problem in sentence_of(run(name, "test.npz", *options, "--ood", "ood.npz"))


def test_one_model_is_asked_for_and_read(here: Path):
    np.savez("one.npz", predictions=PROBS[:, 0], label_ids=LABELS)
    sentence = sentence_of(run("certify", "one.npz", "--max-loss", "0.9"))
    assert "use --one-model if these are 250 rows of one model" in sentence
    succeeded(run("certify", "one.npz", "--max-loss", "0.9", "--one-model"))


def test_the_axis_of_the_members_is_advised(here: Path):
    np.savez("first.npz", probs=PROBS.swapaxes(0, 1), labels=LABELS)
    sentence = sentence_of(run("compare", "first.npz"))
    assert "'first.npz': there are 250 labels, and probs has shape (4, 250, 3)" in sentence
    assert "use --member-axis 0 if its first axis is members" in sentence


def test_probabilities_called_logits_are_refused_and_can_be_read(here: Path):
    np.savez("wrong.npz", logits=PROBS, labels=LABELS)
    for line in ("score wrong.npz", "compare wrong.npz", "label wrong.npz -n 3"):
        assert "use --probs logits" in sentence_of(run(*line.split()))
    succeeded(run("label", "wrong.npz", "-n", "3", "--probs", "logits"))


def test_a_single_row_of_logits_at_the_end_may_sum_to_1(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    logits = np.log(PROBS[:5])
    logits[-1] = PROBS[0]
    np.savez("logits.npz", logits=logits)
    set_chunk_bytes(monkeypatch, 2 * logits[0].nbytes)
    succeeded(run("score", "logits.npz"))
    succeeded(run("label", "logits.npz", "-n", "1"))


def test_labels_that_may_be_names_or_indices_are_asked_for(here: Path):
    np.savez("numbers.npz", probs=PROBS[:3], labels=[1, 2, 1], class_names=["1", "2", "3"])
    sentence = sentence_of(run("certify", "numbers.npz", "--max-loss", "0.9"))
    assert "use --labels-are names, or use --labels-are indices" in sentence
    options = ("--max-loss", "0.9", "--labels-are", "names")
    assert run("certify", "numbers.npz", *options).exit_code in (0, 1)


def test_a_misspelt_name_is_answered_with_the_nearest(here: Path):
    sentence = sentence_of(run("score", "test.npz", "--probs", "prob"))
    assert "there is no 'prob', only" in sentence
    assert "use --probs probs if you mean that" in sentence


# -- warnings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_warning_is_one_sentence_on_stderr(
    extra: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    from scorewise.cli import score as module

    scored = module.score_file

    def with_warnings(*args: Any, **options: Any) -> Any:
        for _ in range(3):
            warnings.warn("all trees are fully grown", ScorewiseWarning, stacklevel=2)
        return scored(*args, **options)

    monkeypatch.setattr(module, "score_file", with_warnings)
    result = succeeded(run("score", "test.npz", *extra))
    assert result.stderr == "Warning: all trees are fully grown\n"
    assert "Warning" not in result.stdout


def test_many_members_without_labels_may_be_rows(here: Path):
    np.savez("first.npz", probs=PROBS[:200].swapaxes(0, 1), class_names=NAMES)
    run("certify", "test.npz", "--max-loss", "0.3")
    lines = ["score first.npz", "label first.npz -n 1", "decide first.npz --costs costs.csv"]
    for line in [*lines, "apply policy.json first.npz"]:
        result = run(*line.split())
        assert result.stderr.startswith("Warning: the predictions are read as 4 rows, 200 members,")
        assert "use --member-axis 0 if members are on the first axis" in result.stderr
        assert "apply" in line or "Read 4 rows, 200 members, 3 classes." in result.stdout
        result = succeeded(run(*line.split(), "--member-axis", "0"))
        assert result.stderr == ""
        assert "Read 200 rows, 4 members, 3 classes." in result.stdout


# -- mistakes of the first hour --------------------------------------------------------------------


def test_swapped_arguments_of_apply_are_recognised(here: Path):
    run("certify", "test.npz", "--max-loss", "0.3")
    sentence = sentence_of(run("apply", "test.npz", "policy.json"))
    assert sentence == "the policy comes first: scorewise apply policy.json test.npz"


def test_a_policy_is_no_predictions(here: Path):
    run("certify", "test.npz", "--max-loss", "0.3")
    sentence = sentence_of(run("certify", "policy.json", "--max-loss", "0.3", "--out", "b.json"))
    assert sentence.startswith("'policy.json' is a policy")
    sentence = sentence_of(run("apply", "policy.json", "policy.json"))
    assert sentence.startswith("'policy.json' is a policy")


def test_columns_called_like_classes_are_answered_with_both_options(here: Path):
    Path("a.csv").write_text("big cat,dog,label\n0.5,0.5,dog\n")
    sentence = sentence_of(run("label", "a.csv", "-n", "1"))
    options = "--one-model --class-names 'big cat,dog'"
    assert f"use {options} if these are the classes of one model" in sentence
    args = ("--one-model", "--class-names", "big cat,dog", "--component", "total")
    succeeded(run("label", "a.csv", "-n", "1", *args))


def test_labels_belong_in_the_same_file(here: Path):
    np.save("p.npy", PROBS)
    assert "put them in the same file" in sentence_of(run("compare", "p.npy"))


def test_completion_knows_commands_and_options(here: Path):
    def completions(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        runner = CliRunner(env={"_SCOREWISE_COMPLETE": "complete_bash", **words})
        return runner.invoke(app, prog_name="scorewise").stdout.split()

    assert completions("scorewise sc") == ["score"]
    assert completions("scorewise score --member") == ["--member-axis"]
    assert "--install-completion" in run("--help").stdout


# -- answers of text classifiers -------------------------------------------------------------------


def test_answers_are_evaluated_like_the_predictions_that_they_report(here: Path):
    write_answers(Path("answers.jsonl"), PREDICTIONS, NAMES)
    options = [*FAST, "--missing", "renormalize", "--class-names", ",".join(NAMES)]
    answers = from_json(run("evaluate", "answers.jsonl", *options, "--json"))
    plain = from_json(run("evaluate", "test.npz", *FAST, "--json"))
    assert Path("report.html").exists()
    np.testing.assert_allclose(numbers_in(answers), numbers_in(plain), rtol=1e-6, atol=1e-9)


def test_classes_of_answers_are_by_default_those_of_the_labels(here: Path):
    write_answers(Path("answers.jsonl"), PREDICTIONS, NAMES)
    result = succeeded(run("evaluate", "answers.jsonl", *FAST, "--no-report"))
    warning = " ".join(result.stderr.split())
    assert warning.startswith("Warning: the classes are taken from the labels of the rows")
    assert "use --class-names" in warning


def test_tokens_of_classes_are_options(here: Path):
    write_answers(Path("answers.jsonl"), PREDICTIONS, NAMES, token=" {}!")
    names = ["--class-names", ",".join(NAMES)]
    problem = sentence_of(run("compare", "answers.jsonl", *FAST, *names))
    assert "' healthy!'" in problem
    assert "use --tokens" in problem
    tokens = [f"--tokens={name}={name}!,{name}" for name in NAMES]
    succeeded(run("compare", "answers.jsonl", *FAST, *tokens))
    assert "yes=Yes" in sentence_of(run("compare", "answers.jsonl", "--tokens", "ill"))


COMMANDS_OF_ANSWERS = {
    "score": "--out scores.csv",
    "label": "-n 3 --out next.csv",
    "certify": "--max-loss 0.3 --out policy.json",
    "calibrate": "--out calibration.json",
}


@pytest.mark.parametrize("command", COMMANDS_OF_ANSWERS)
def test_every_command_reads_answers(command: str, here: Path):
    write_answers(Path("answers.jsonl"), PREDICTIONS, NAMES)
    options = COMMANDS_OF_ANSWERS[command].split()
    succeeded(run(command, "answers.jsonl", *options, "--class-names", ",".join(NAMES)))


def test_labels_and_classes_of_answers_are_not_confused(here: Path):
    write_answers(Path("answers.jsonl"), PREDICTIONS, NAMES)
    problem = sentence_of(run("evaluate", "answers.jsonl", "--labels", "yes,no"))
    assert "use --class-names yes,no for the classes" in problem
    assert "leave out --missing" in sentence_of(run("evaluate", "test.npz", "--missing", "other"))
