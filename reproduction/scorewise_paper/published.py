"""The paper's own numbers: its tables by their labels in the paper."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def published(name: str) -> Any:
    """Return a table by its label in the paper, such as ``"tab:ood"``.

    Numbers are pairs: mean and standard deviation over the paper's runs.
    """
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    return json.loads(text)[name]


def published_auroc(
    names: tuple[str, ...], ood: str, method: str
) -> dict[str, tuple[float, float]]:
    """Return the AUROCs by rule of an out-of-distribution set and a method, from all tables."""
    return {
        rule: (pair[0], pair[1])
        for name in names
        for row in published(name)["rows"]
        if (row["ood"], row["method"]) == (ood, method)
        for rule, pair in row.items()
        if rule not in {"ood", "method"}
    }
