"""Scoring rules, one small file per family; every file in this folder is found by itself.

``log``, ``brier``, ``zero_one``, ``spherical`` and ``rps`` are rules; ``tsallis``,
``pseudospherical``, ``top_k``, ``cost_matrix``, ``quadratic``, ``weighted_log`` and ``beta``
make one from their parameters.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from scorewise.errors import InvalidInput
from scorewise.rules._costs import CostMatrix
from scorewise.rules._custom import rule_from_entropy, rule_from_loss_vector
from scorewise.rules._logarithmic import Log
from scorewise.rules._norms import Pseudospherical, Spherical
from scorewise.rules._orders import LARGEST, is_symmetric, norm_exponent, order_of_total
from scorewise.rules._powers import Tsallis
from scorewise.rules._quadratics import Brier, gini_terms
from scorewise.rules._rule import REGISTRY, DecisionRule, ScoringRule, frozen_array
from scorewise.rules._sets import ZeroOne

__all__ = [
    "LARGEST",
    "Brier",
    "CostMatrix",
    "DecisionRule",
    "Log",
    "Pseudospherical",
    "ScoringRule",
    "Spherical",
    "Tsallis",
    "ZeroOne",
    "frozen_array",
    "get_rule",
    "gini_terms",
    "is_symmetric",
    "norm_exponent",
    "order_of_total",
    "rule_from_entropy",
    "rule_from_loss_vector",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def get_rule(rule: str | ScoringRule) -> ScoringRule:
    """Find a scoring rule by its name; a rule is returned as it is.

    Use it where a rule comes from a configuration file or a command line.

    Parameters
    ----------
    rule : str or ScoringRule
        ``"log"``, ``"brier"``, ``"zero-one"``, ``"spherical"``, ``"rps"``, or a name with its
        numbers: ``"tsallis:1.5"``, ``"pseudospherical:3"``, ``"top-k:5"``, ``"beta:0.5,2"``.

    Raises
    ------
    InvalidInput
        If there is no such rule, or its numbers do not fit.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_rule("tsallis:1.5")
    tsallis(1.5)
    >>> sw.get_rule("top-k:5") == sw.rules.top_k(5)
    True
    """
    if isinstance(rule, ScoringRule):
        return rule
    if not isinstance(rule, str):
        raise InvalidInput(
            f"{rule!r} is no scoring rule; pass a name such as 'log', or a rule from "
            "scorewise.rules"
        )
    family, colon, numbers = rule.strip().lower().partition(":")
    found = REGISTRY.get(family.strip().replace("-", "_"))
    if found is None:
        known = sorted(name.replace("_", "-") for name in REGISTRY)
        close = difflib.get_close_matches(family.replace("_", "-"), known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidInput(f"no rule is called {rule!r}; {hint}known: {', '.join(known)}")
    if isinstance(found, ScoringRule):
        if colon:
            raise InvalidInput(f"{family!r} takes no numbers, but {rule!r} gives some")
        return found
    return _make(found, rule, numbers)


def _make(maker: Callable[..., ScoringRule], rule: str, numbers: str) -> ScoringRule:
    name = maker.__name__
    if not numbers.strip():
        raise InvalidInput(f"{rule!r} needs parameters; make it with scorewise.rules.{name}(...)")
    try:
        parameters = [_number(x) for x in numbers.split(",")]
        return maker(*parameters)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"cannot read {rule!r}: {error}; write it like 'tsallis:1.5' or 'beta:0.5,2', and make "
            f"rules of arrays with scorewise.rules.{name}(...)"
        ) from error


def _number(text: str) -> int | float:
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    try:
        return int(text)
    except ValueError:
        return float(text)


def __getattr__(name: str) -> Any:
    try:
        return REGISTRY[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*__all__, *REGISTRY])
