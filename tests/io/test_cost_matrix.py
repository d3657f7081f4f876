"""Cost matrices in CSV files."""

from __future__ import annotations

import pytest

import scorewise as sw

TRIAGE = sw.rules.cost_matrix([[50, 0.5], [0, 5]], ["dismiss", "treat"], ["ill", "healthy"])


@pytest.mark.parametrize(
    "text",
    [
        "class,dismiss,treat\nill,50,0.5\nhealthy,0,5\n",
        "\ufeffclass;dismiss;treat\r\nill;50;0,5\r\nhealthy;0;5\r\n",
        "kind;dismiss;treat\nill;50;0.5\nhealthy;0;5\n",
        "class\tdismiss\ttreat\nill\t50\t0,5\nhealthy\t0\t5\n",
        'class,dismiss,treat\n\n" ill",50,0.5\nhealthy,0,5\n',
    ],
    ids=["commas", "european", "semicolons", "tabs", "blank line and quotes"],
)
def test_a_file_has_the_names_of_its_classes(text, tmp_path):
    (tmp_path / "c.csv").write_text(text, "utf-8")
    assert sw.io.read_cost_matrix(tmp_path / "c.csv") == TRIAGE


def test_a_file_without_classes_is_in_the_order_of_the_predictions(tmp_path):
    (tmp_path / "c.csv").write_text("dismiss;treat\n50;0,5\n0;5\n")
    rule = sw.io.read_cost_matrix(tmp_path / "c.csv")
    assert rule == sw.rules.cost_matrix(TRIAGE.costs, ["dismiss", "treat"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class;a;b\nx;1,5;2\ny;1.000;3\n", "decimal commas and others with points"),
        ("class;a;b\nx;1.000,5;2\ny;1;3\n", "cost of the action 'a' is '1.000,5', which is not"),
        ("digit,a,b\n1,50,0\n2,0,5\n", "'digit', may number the classes or hold costs"),
        ("class,a,b\nx,1,2\nx,1,2\n", "two classes are called 'x'"),
    ],
)
def test_a_file_that_has_two_meanings_is_refused_by_its_name(text, message, tmp_path):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(sw.errors.InvalidFile, match=rf"'c\.csv'.*{message}"):
        sw.io.read_cost_matrix(tmp_path / "c.csv")
