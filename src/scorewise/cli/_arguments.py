"""Parse values of options into arguments of the library."""

from __future__ import annotations

import re
from pathlib import Path

from scorewise.errors import InvalidFile, InvalidInput
from scorewise.io import Predictions, read_cost_matrix
from scorewise.rules import DEFAULT_RULES, CostMatrix, RuleLike, get_rule

ALL_RULES = ",".join(DEFAULT_RULES)
COSTS_SUFFIX = ".csv"  # by which a cost matrix differs from the name of a loss


def parse_rules(text: str) -> list[str]:
    """Return the names between commas; a number belongs to the rule before: beta:0.5,2."""
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
            raise InvalidInput(f"{name} occurs twice in --rules")
    return names


def parse_names(text: str | None) -> list[str] | None:
    """Return the names between commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_tokens(texts: list[str] | None) -> dict[str, list[str]] | None:
    """Return the tokens of each class, from texts such as ``yes=Yes,YES``."""
    tokens: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, listed = text.partition("=")
        if not (name and equals and listed):
            raise InvalidInput(f"--tokens {text} is no class with its tokens, such as yes=Yes,YES")
        tokens.setdefault(name, []).extend(listed.split(","))
    return tokens or None


def parse_loss(text: str, predictions: Predictions | None = None) -> RuleLike:
    """A rule by its name, or the cost matrix of a CSV file."""
    if text.lower().endswith(COSTS_SUFFIX):
        return parse_costs(Path(text), predictions)
    get_rule(text)
    return text


def parse_costs(path: Path, predictions: Predictions | None = None) -> CostMatrix:
    """The cost matrix of a CSV file, with lines in the order of the classes of the predictions."""
    costs = read_cost_matrix(path)
    if predictions is None:  # the order of the classes does not matter
        return costs
    try:
        return costs.for_classes(predictions.class_names)
    except InvalidInput as error:
        raise InvalidFile(f"{path.name!r}: {error.problem}", *error.remedies) from None
