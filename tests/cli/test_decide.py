"""``scorewise decide``: the actions of the function; cost matrices in files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from cli_support import (
    PREDICTIONS,
    from_json,
    run,
    sample_members,
    sentence_of,
    succeeded,
    table_of,
)
from io_support import set_chunk_bytes


@pytest.mark.parametrize("chunk", [None, 1000])
def test_decide_does_what_the_function_does(
    chunk: int | None, here: Path, monkeypatch: pytest.MonkeyPatch
):
    if chunk:
        set_chunk_bytes(monkeypatch, chunk)
    matrix = np.array([[0, 1, 5], [4, 2, 3], [50, 20, 0]], dtype=float)  # by class, as NAMES are
    expected = sw.decide(
        PREDICTIONS.samples, matrix, 1.5, action_names=["dismiss", "wait", "treat"]
    )
    args = ("--costs", "costs.csv", "--abstain-cost", "1.5")
    printed = from_json(run("decide", "test.npz", *args, "--json"))
    table = pq.read_table("test-decisions.parquet")
    assert table.column_names == ["id", "action", "total", "aleatoric", "epistemic"]
    names = [expected.action_names[i] for i in expected.action]
    assert table["action"].to_pylist() == names
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(table[part], getattr(expected, part))
    assert printed["costs"] == matrix.tolist()
    assert {row["action"]: row["rows"] for row in printed["summary"]} == {
        name: names.count(name) for name in set(names)
    }
    shown = succeeded(run("decide", "test.npz", *args, "--out", "d.csv"))
    assert re.search(rf"abstain +{names.count('abstain')} ", shown.stdout)
    assert "Written to d.csv" in shown.stdout
    assert table_of(here / "d.csv").column_names == table.column_names


def test_costs_by_the_names_of_classes_that_are_numbers(here: Path):
    sw.write_predictions("digits.npz", PREDICTIONS.probs, class_names=["0", "1", "2"])
    Path("costs.csv").write_text("class,dismiss,treat\n0,10,15\n1,10,12\n2,90,10\n")
    printed = from_json(run("decide", "digits.npz", "--costs", "costs.csv", "--json"))
    assert printed["actions"] == ["dismiss", "treat"]
    assert printed["costs"] == [[10, 15], [10, 12], [90, 10]]


def test_the_costs_in_the_help_can_be_used(here: Path):
    text = succeeded(run("decide", "--help")).stdout
    lines = [line.strip() for line in text.partition("costs.csv has")[2].splitlines()[1:4]]
    Path("costs.csv").write_text("\n".join(lines) + "\n")
    sw.write_predictions("two.npz", sample_members(30, k=2)[0], class_names=["healthy", "ill"])
    printed = from_json(run("decide", "two.npz", "--costs", "costs.csv", "--json"))
    assert printed["actions"] == ["dismiss", "treat"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names of the actions"),
        ("a,b\n1,2\n", "names of the actions"),
        (",a,b\nhealthy,1,2\ndoubtful,1\nill,1,2\n", "same length"),
        (",a,b\nhealthy,1,2\ndoubtful,1,x\nill,1,2\n", "the action 'b' is 'x'"),
        (",a,b\nhealthy,1,2\ndoubtful,1,nan\nill,1,2\n", "finite"),
        (",a,a\nhealthy,1,2\ndoubtful,1,1\nill,1,2\n", "two actions are called 'a'"),
        (",a,b\nhealthy,1,2\nhealthy,1,1\nill,1,2\n", "two classes are called 'healthy'"),
        (",a,b\nhealthy,1,2\nunsure,1,1\nill,1,2\n", "'costs.csv': the costs have a row for"),
        ("a,b\n1,2\n1,2\n", "2 classes, but the predictions have 3"),
        (",a,b\n1,1,2\n2,1,1\n3,1,2\n", "a row for '1', and there is no such class"),
        (
            "ill,healthy,doubtful\n0,1,1\n1,0,1\n1,1,0\n",
            "'costs.csv': the actions of the costs are",
        ),
        ('"', "not a valid CSV file"),
    ],
)
def test_wrong_costs_are_one_sentence(text: str, words: str, here: Path):
    Path("costs.csv").write_text(text)
    for args in (
        ("decide", "test.npz", "--costs", "costs.csv"),
        ("evaluate", "test.npz", "--task-loss", "costs.csv"),
        ("certify", "test.npz", "--max-loss=1", "--task-loss", "costs.csv"),
    ):
        assert words in sentence_of(run(*args))


@pytest.mark.parametrize(
    "text",
    [
        "class,stay,go\n0,0,5\n1,50,0\n2,1,1\n",
        "class,stay,go\n2,1,1\n1,50,0\n0,0,5\n",
        "stay,go\n0,5\n50,0\n1,1\n",
        ",stay,go\nill,1,1\nhealthy,0,5\ndoubtful,50,0\n",
        ";stay;go\nill;1,0;1\nhealthy;0;5\ndoubtful;50;0\n",
    ],
)
def test_costs_by_number_by_name_and_in_order_are_the_same(text: str, here: Path):
    Path("costs.csv").write_text(text)
    printed = from_json(run("decide", "test.npz", "--costs", "costs.csv", "--json"))
    assert (printed["costs"], printed["actions"]) == ([[0, 5], [50, 0], [1, 1]], ["stay", "go"])


def test_one_member_says_nothing_about_a_second_opinion(here: Path):
    words = "There is one member, so epistemic is 0"
    assert words not in succeeded(run("decide", "test.npz", "--costs", "costs.csv")).stdout
    sw.write_predictions("one.npz", PREDICTIONS.probs[:, :1], class_names=PREDICTIONS.class_names)
    assert words in succeeded(run("decide", "one.npz", "--costs", "costs.csv")).stdout
