"""What was typed, as the library takes it."""

from __future__ import annotations

import re
from pathlib import Path

from scorewise.decompose import RULES, RuleLike
from scorewise.errors import InvalidInput
from scorewise.io import Predictions, read_cost_matrix
from scorewise.rules import CostMatrix, get_rule

ALL_RULES = ",".join(RULES)


def rules_of(text: str) -> list[str]:
    """Names with commas between; a number belongs to the rule before it, as in beta:0.5,2."""
    names: list[str] = []
    for piece in text.split(","):
        if names and ":" in names[-1] and re.fullmatch(r"\s*[-+.\d][\w.+-]*\s*", piece):
            names[-1] += f",{piece.strip()}"
        elif piece.strip():
            names.append(piece.strip())
    if not names:
        raise InvalidInput("there is no rule in --rules; write --rules log,zero-one")
    for name in names:
        get_rule(name)
        if names.count(name) > 1:
            raise InvalidInput(f"{name} is there twice in --rules")
    return names


def names_of(text: str | None) -> list[str] | None:
    """Names with commas between."""
    return None if text is None else [name.strip() for name in text.split(",")]


def loss_of(text: str, predictions: Predictions | None = None) -> RuleLike:
    """A rule by its name, or the cost matrix of a CSV file."""
    if not text.lower().endswith(".csv"):
        get_rule(text)
        return text
    if predictions is None:  # then the order of the classes does not matter
        return CostMatrix(*read_cost_matrix(Path(text), ordered=False))
    return CostMatrix(*read_cost_matrix(Path(text), predictions.class_names))
