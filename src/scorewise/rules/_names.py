"""Rules by name, and from JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from scorewise import _validate as validate
from scorewise._array import is_array, is_frame
from scorewise._text import did_you_mean, quoted
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules._decision import CostMatrix
from scorewise.rules._rule import REGISTRY, ScoringRule


class DataFrame(Protocol):
    """A data frame of pandas, polars or a library like them."""

    @property
    def columns(self) -> Any: ...

    def to_numpy(self) -> Any: ...


RuleLike = str | ScoringRule | Sequence[Sequence[float]] | np.ndarray | DataFrame
_EXAMPLES = "as in 'tsallis:1.5' or 'beta:0.5,2'"
_NUMBERS = ("int", "float", int, float)  # annotations of parameters that a name can hold
DEFAULT_RULES = ("log", "brier", "zero-one", "spherical")
_ALIASES = {
    **dict.fromkeys(("0-1", "0/1", "0-1-loss", "zero-one-loss"), "zero-one"),
    **dict.fromkeys(("accuracy", "error", "error-rate"), "zero-one"),
    **dict.fromkeys(("entropy", "shannon", "cross-entropy", "crossentropy"), "log"),
    **dict.fromkeys(("nll", "log-loss", "logloss"), "log"),
    **dict.fromkeys(("brier-score", "brier-loss"), "brier"),
}
# names of other things, and what to use for them
_EPISTEMIC_LOG = "it is the epistemic uncertainty under 'log'"
_COMPONENT = "it is a component of the uncertainty under every rule: decompose(probs, rule)."
_NOT_RULES = {
    **dict.fromkeys(("mutual-information", "mi", "bald", "jensen-shannon"), _EPISTEMIC_LOG),
    "predictive-entropy": "it is the total uncertainty under 'log'",
    "variance": "summed over classes, it is the epistemic uncertainty under 'brier'",
    "gini": "it is the total uncertainty under 'brier'",
    **dict.fromkeys(
        ("mse", "squared-error"), "summed over classes, the squared error is the loss 'brier'"
    ),
    **dict.fromkeys(
        ("confidence", "max-softmax", "msp", "max-probability"),
        "1 minus the largest probability is the total uncertainty under 'zero-one'",
    ),
    "crps": "the ranked probability score of ordered classes is 'rps'",
    **{name: _COMPONENT + name for name in ("total", "aleatoric", "epistemic")},
}


def get_rule(rule: RuleLike) -> ScoringRule:
    """Return the scoring rule with a name; a rule is returned unchanged.

    Use it where a rule comes from a configuration file or a command line.

    Parameters
    ----------
    rule : str, ScoringRule, or costs (K, A)
        ``"log"``, ``"brier"``, ``"zero-one"``, ``"spherical"``, ``"rps"``, or a name with its
        numbers: ``"tsallis:1.5"``, ``"pseudospherical:3"``, ``"top-k:5"``, ``"beta:0.5,2"``.
        Other names of ``"zero-one"`` are ``"0-1"``, ``"0/1"``, ``"accuracy"``, ``"error"`` and
        ``"error-rate"``; of ``"log"``, ``"entropy"``, ``"shannon"``, ``"cross-entropy"``,
        ``"nll"`` and ``"log-loss"``; of ``"brier"``, ``"brier-score"``. A list of lists, a 2-d
        array or a data frame is a cost matrix, as for :func:`scorewise.rules.cost_matrix`.

    Returns
    -------
    ScoringRule

    Raises
    ------
    InvalidInput
        If there is no such rule, or its numbers do not fit.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_rule("tsallis:1.5")
    tsallis(1.5)
    >>> sw.get_rule("0-1"), sw.get_rule("cross-entropy")
    (zero_one, log)
    >>> sw.get_rule([[0, 1], [5, 0]]) == sw.rules.cost_matrix([[0, 1], [5, 0]])
    True
    """
    if isinstance(rule, str):
        return _from_text(rule)
    if isinstance(rule, ScoringRule):
        return rule
    if _are_costs(rule):
        return CostMatrix(rule)  # type: ignore[arg-type]
    raise InvalidInput(
        f"{quoted(rule)} is not a scoring rule; pass a name such as 'log', a rule from "
        "scorewise.rules, or costs (K, A) with a row for each class"
    )


def _from_text(rule: str) -> ScoringRule:
    """Return the rule with a name and perhaps numbers, such as ``"tsallis:1.5"``."""
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
    rules : rule or costs as for :func:`scorewise.get_rule`, or several in a list or a mapping

    Returns
    -------
    dict of str to ScoringRule

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
    elif is_single_rule(rules):
        named = [_named(rules)]
    elif isinstance(rules, Iterable):
        named = [_named(rule) for rule in rules]  # type: ignore[arg-type]
    else:
        raise InvalidInput(
            f"{quoted(rules)} is neither a scoring rule nor a list or mapping of rules"
        )
    by_name = dict(named)
    if len(by_name) < len(named):
        duplicate = validate.first_repeated(name for name, _ in named)
        raise InvalidInput(
            f"two rules are called {quoted(duplicate)}; pass a mapping of different names to rules"
        )
    return by_name


def is_single_rule(rules: Any) -> TypeGuard[RuleLike]:
    """Return whether an argument is one rule, by its name or as costs, rather than several.

    Parameters
    ----------
    rules : rule or costs as for :func:`scorewise.get_rule`, or several in a list or a mapping

    Returns
    -------
    bool

    Examples
    --------
    >>> from scorewise.rules import is_single_rule
    >>> [is_single_rule(rules) for rules in ("log", [[0, 1], [5, 0]], ["log", "brier"])]
    [True, True, False]
    """
    return isinstance(rules, str | ScoringRule) or _are_costs(rules)


def _are_costs(value: Any) -> bool:
    """Return whether a value is a table of numbers: a data frame, an array, or a list of lists."""
    if not isinstance(value, list | tuple):
        return is_frame(value) or (is_array(value) and bool(value.ndim == 2))
    # torch compiles lists of names, and not what tells arrays apart
    if not value or any(isinstance(row, str | ScoringRule) for row in value):
        return False
    rows = [row for row in value if isinstance(row, list | tuple) or (is_array(row) and row.ndim)]
    return len(rows) == len(value) and not any(
        isinstance(entry, str | ScoringRule) or np.ndim(entry) for row in rows for entry in row
    )


def _named(rule: RuleLike) -> tuple[str, ScoringRule]:
    """Return a rule with its name: as it is written, or that of the rule."""
    scoring_rule = get_rule(rule)
    return (rule if isinstance(rule, str) else scoring_rule.name), scoring_rule


def _by_name(name: str) -> ScoringRule | Callable[..., ScoringRule]:
    """The rule with this name, or the function that makes it from its parameters."""
    # names as written in the registry need no parsing
    if (rule := REGISTRY.get(name.replace("-", "_"))) is not None:
        return rule
    plain = "-".join(name.lower().replace("_", "-").split())
    plain = _ALIASES.get(plain, plain)
    try:
        return REGISTRY[plain.replace("-", "_")]
    except KeyError:
        if plain in _NOT_RULES:
            raise InvalidInput(f"{quoted(name)} is not a rule; {_NOT_RULES[plain]}") from None
        known = sorted(name.replace("_", "-") for name in REGISTRY if _has_text(REGISTRY[name]))
        hint = did_you_mean(plain, [*known, *_ALIASES])
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

    Parameters
    ----------
    value : str or dict
        A name with its numbers, or a dict of the name and the arrays that define the rule.

    Returns
    -------
    ScoringRule

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
