"""Rules by name, and from JSON."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scorewise import _validate as validate
from scorewise._text import quoted
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules._rule import REGISTRY, ScoringRule

RuleLike = str | ScoringRule
_EXAMPLES = "as in 'tsallis:1.5' or 'beta:0.5,2'"
_NUMBERS = ("int", "float", int, float)  # annotations of parameters that a name can hold
DEFAULT_RULES = ("log", "brier", "zero-one", "spherical")


def get_rule(rule: RuleLike) -> ScoringRule:
    """Return the scoring rule with a name; a rule is returned unchanged.

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
            f"{quoted(rule)} is not a scoring rule; pass a name such as 'log', or a rule from "
            "scorewise.rules"
        )
    name, colon, numbers = rule.partition(":")
    rule_or_maker = _by_name(name)
    if not isinstance(rule_or_maker, ScoringRule):
        return _make(rule_or_maker, rule, numbers)
    if colon:
        raise InvalidInput(f"{quoted(name)} takes no numbers, but {quoted(rule)} has some")
    return rule_or_maker


def get_rules(
    rules: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
) -> dict[str, ScoringRule]:
    """Return scoring rules by name: strings as they are written, or the keys of a mapping.

    Use it for an argument that takes a single rule or several, as that of
    :func:`scorewise.decompose` does.

    Parameters
    ----------
    rules : str, ScoringRule, or several in a list or a mapping

    Raises
    ------
    InvalidInput
        If two rules have the same name, or there is no such rule.

    Examples
    --------
    >>> from scorewise import rules
    >>> rules.get_rules(["log", rules.tsallis(1.5)])
    {'log': log, 'tsallis:1.5': tsallis(1.5)}
    >>> rules.get_rules({"mine": "brier"})
    {'mine': brier}
    """
    if isinstance(rules, Mapping):
        named = [(name, get_rule(rule)) for name, rule in rules.items()]
    elif isinstance(rules, str | ScoringRule):
        named = [_named(rules)]
    elif isinstance(rules, Iterable):
        named = [_named(rule) for rule in rules]
    else:
        raise InvalidInput(
            f"{quoted(rules)} is neither a scoring rule nor a list or mapping of rules"
        )
    duplicate = validate.first_repeated(name for name, _ in named)
    if duplicate is not None:
        raise InvalidInput(
            f"two rules are called {quoted(duplicate)}; pass a mapping of different names to rules"
        )
    return dict(named)


def _named(rule: RuleLike) -> tuple[str, ScoringRule]:
    """Return a rule with its name: as it is written, or that of the rule."""
    scoring_rule = get_rule(rule)
    return (rule if isinstance(rule, str) else scoring_rule.name), scoring_rule


def _by_name(name: str) -> ScoringRule | Callable[..., ScoringRule]:
    """The rule with this name, or the function that makes it from its parameters."""
    plain = name.strip().lower().replace("_", "-")
    try:
        return REGISTRY[plain.replace("-", "_")]
    except KeyError:
        known = sorted(name.replace("_", "-") for name in REGISTRY if _has_text(REGISTRY[name]))
        close = difflib.get_close_matches(plain, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidInput(
            f"no rule is called {quoted(name)}; {hint}known: {', '.join(known)}"
        ) from None


def _make(maker: Callable[..., ScoringRule], rule: str, numbers: str) -> ScoringRule:
    if not _has_text(maker):
        raise InvalidInput(
            f"{quoted(rule)} has parameters that cannot be written in a name",
            Remedy("rule", ..., f"made by scorewise.rules.{maker.__name__}"),
        )
    if not numbers.strip():
        raise InvalidInput(f"{quoted(rule)} needs numbers, {_EXAMPLES}")
    try:
        parameters = [_number(x) for x in numbers.split(",")]
        return maker(*parameters)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"cannot read {quoted(rule)}: {error}; it needs numbers, {_EXAMPLES}"
        ) from error


def _has_text(rule_or_maker: ScoringRule | Callable[..., ScoringRule]) -> bool:
    """Whether a name can hold all parameters: numbers, but not arrays."""
    if isinstance(rule_or_maker, ScoringRule):
        return True
    parameters = inspect.signature(rule_or_maker).parameters.values()
    return all(parameter.annotation in _NUMBERS for parameter in parameters)


def _number(text: str) -> int | float:
    if "_" in text:
        raise ValueError(f"{quoted(text)} is not a number")
    try:
        return int(text)
    except ValueError:
        return float(text)


def rule_from_json(value: Any) -> ScoringRule:
    """Return a rule from the output of :meth:`ScoringRule.to_json`.

    Raises
    ------
    InvalidInput
        If it is not such a value, or its parameters do not fit.

    Examples
    --------
    >>> from scorewise import rules
    >>> rules.rule_from_json({"name": "cost-matrix", "costs": [[0, 1], [10, 0]]})
    cost_matrix([[ 0.,  1.], [10.,  0.]])
    """
    if isinstance(value, str):
        return get_rule(value)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InvalidInput(
            f"{quoted(value)} is not a scoring rule: it must be a name, or a mapping with a name"
        )
    parameters = dict(value)
    name = parameters.pop("name")
    maker = _by_name(name)
    if isinstance(maker, ScoringRule):
        raise InvalidInput(f"{quoted(name)} takes no parameters")
    try:
        return maker(**parameters)
    except TypeError as error:
        raise InvalidInput(f"cannot make the rule {quoted(name)}: {error}") from error
