"""``scorewise evaluate``: the numbers of the function, the page, exit codes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from cli_support import (
    COSTS,
    FAST,
    NAMES,
    PREDICTIONS,
    from_json,
    run,
    sample_predictions,
    sentence_of,
    succeeded,
)
from scorewise.io import read_cost_matrix
from support import as_json


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        (
            ("--task-loss", "brier", "--rules", "log,brier", "--seed", "3"),
            {"task_loss": "brier", "rules": ["log", "brier"], "random_state": 3},
        ),
        (
            ("--task-loss", "log", "--floor", "1e-6", "--confidence", "0.9"),
            {"task_loss": "log", "floor": 1e-6, "confidence": 0.9},
        ),
        (("--task-loss", "costs.csv"), {"task_loss": "costs"}),
        (("--ood", "ood.npz"), {"ood": sample_predictions(60, seed=5, sharp=3.0)}),
        (("--max-loss", "0.3", "--max-loss", "0.2"), {"max_loss": [0.3, 0.2]}),
    ],
)
def test_evaluate_does_what_the_function_does(
    args: tuple[str, ...], options: dict[str, Any], here: Path
):
    sw.write_predictions("ood.npz", sample_predictions(60, seed=5, sharp=3.0))
    if options.get("task_loss") == "costs":
        options = {"task_loss": read_cost_matrix(Path("costs.csv")).for_classes(NAMES)}
    result = from_json(run("evaluate", "test.npz", *args, *FAST, "--no-report", "--json"))
    assert result.pop("written") == []
    expected = sw.evaluate(
        PREDICTIONS, **{"n_resamples": 100, "random_state": 0, **options}
    ).to_dict()
    assert result == as_json(expected)
    assert not Path("report.html").exists()


def test_means_over_no_rows_are_null_in_json(here: Path):
    labels = np.where(PREDICTIONS.labels == 1, 0, PREDICTIONS.labels)
    sw.write_predictions("two.npz", PREDICTIONS.probs, labels=labels)
    result = from_json(run("evaluate", "two.npz", *FAST, "--no-report", "--json"))
    assert [summary["loss"] is None for summary in result["classes"]] == [False, True, False]


def test_evaluate_in_words_with_page_and_figures(here: Path):
    result = succeeded(run("evaluate", "test.npz", *FAST, "--figures", "figures"))
    assert result.stderr == ""
    words = " ".join(result.stdout.split())
    for sentence in sw.evaluate(PREDICTIONS, n_resamples=100).verdict:
        assert " ".join(sentence.split()) in words
    assert "Written to report.html" in result.stdout
    page = Path("report.html").read_text()
    assert hashlib.sha256(Path("test.npz").read_bytes()).hexdigest() in page
    suffixes = {file.suffix for file in Path("figures").iterdir()}
    assert suffixes == {".png", ".svg"}
    assert all(file.stat().st_size > 500 for file in Path("figures").iterdir())


def test_inputs_of_uncertain_rows_are_on_the_page(here: Path):
    result = run("evaluate", "test.npz", *FAST, "--inputs", "texts.csv")
    assert "For the specialist:" in succeeded(result).stdout
    page = Path("report.html").read_text()
    assert page.count("&lt;b&gt;text ") == 10
    np.save("images.npy", np.zeros((len(PREDICTIONS), 8, 8)))
    said = sentence_of(run("evaluate", "test.npz", "--inputs", "images.npy"))
    assert "the predictions have ids, and the inputs have none" in said
    said = sentence_of(run("evaluate", "test.npz", "--report", "report.pdf"))
    assert "call it 'report.html'" in said


@pytest.mark.parametrize("args", [("--task-loss", "log"), ("--task-loss", "costs.csv")])
def test_a_loss_that_cannot_be_certified_at_all_is_exit_code_1(args: tuple[str, ...], here: Path):
    Path("costs.csv").write_text(COSTS.replace("0,1,5", "-9,1,5"))
    result = run("evaluate", "test.npz", *FAST, "--no-report", "--max-loss", "0.01", *args)
    assert "No certificate" in result.stdout
    succeeded(result, 1)


def test_classes_named_by_hand(here: Path):
    labels = np.array(NAMES, dtype=object)[PREDICTIONS.labels]
    np.savez("named.npz", probs=PREDICTIONS.probs, y=labels.astype(str))
    said = sentence_of(run("evaluate", "named.npz", "--no-report"))
    assert "--class-names" in said
    names = ("--class-names", ",".join(NAMES))
    printed = from_json(run("evaluate", "named.npz", *names, "--no-report", *FAST, "--json"))
    assert printed["class_names"] == NAMES
    assert printed["loss"] == pytest.approx(
        (PREDICTIONS.probs.mean(1).argmax(1) != PREDICTIONS.labels).mean()
    )


@pytest.mark.parametrize(
    ("args", "keys"),
    [
        ("evaluate {} --no-report --resamples 100", ("loss",)),
        ("compare {} --resamples 100", ("standings", 0, "value")),
        ("certify {} --max-loss 0.9", ("certificate", "coverage")),
    ],
)
def test_half_precision_gives_nearly_the_numbers_of_double_precision(
    args: str, keys: tuple[str | int, ...], here: Path
):
    sw.write_predictions(
        "half.npz", PREDICTIONS.probs.astype(np.float16), labels=PREDICTIONS.labels
    )
    half, double = (
        from_json(run(*args.format(name).split(), "--json")) for name in ("half.npz", "test.npz")
    )
    for key in keys:
        half, double = half[key], double[key]
    assert half == pytest.approx(double, rel=0.02)
