"""Errors: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scorewise._text import cut

__all__ = [
    "ImproperRule",
    "InvalidFile",
    "InvalidInput",
    "KernelMismatch",
    "Remedy",
    "ScorewiseError",
    "ScorewiseWarning",
]


_LONGEST = 2000  # characters of a message


@dataclass(frozen=True)
class Remedy:
    """An argument to pass, and its effect; rendered by the code that shows the error.

    Attributes
    ----------
    argument : str
        Name of the argument in Python, such as ``"normalize"``.
    value : object
        Value to pass; ``...`` if the caller must choose it.
    effect : str
        What it does, or when to pass it, such as ``"to rescale rows"``.
    also : Remedy, optional
        Another argument that must be passed with it.

    Examples
    --------
    >>> from scorewise.errors import Remedy
    >>> print(Remedy("normalize", True, "to rescale rows"))
    pass normalize=True to rescale rows
    """

    argument: str
    value: Any
    effect: str = ""
    also: Remedy | None = None

    def __str__(self) -> str:
        value = "…," if self.value is ... else repr(self.value)
        also = "" if self.also is None else f", {self.also.argument}={self.also.value!r}"
        return f"pass {self.argument}={value}{also} {self.effect}".rstrip()


class _WithRemedies(Exception):
    """A problem and its remedies, in one sentence."""

    def __init__(self, problem: str = "", *remedies: Remedy) -> None:
        problem = cut(problem, _LONGEST)  # it may quote a file of any size
        super().__init__(problem, *remedies)
        self.problem = problem
        self.remedies = remedies

    def render(self, remedy_text: Callable[[Remedy], str] = str) -> str:
        """Return the problem and its remedies in a sentence; the caller words the remedies.

        A remedy for which ``remedy_text`` returns an empty text is left out.
        """
        advice = ", or ".join(filter(None, map(remedy_text, self.remedies)))
        return f"{self.problem}; {advice}" if advice else self.problem

    def __str__(self) -> str:
        return self.render()


class ScorewiseError(_WithRemedies):
    """Base of every error that scorewise raises on purpose.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    *remedies : Remedy
        Alternative arguments that solve it.

    Examples
    --------
    >>> from scorewise.errors import InvalidInput, Remedy
    >>> error = InvalidInput("probs[3] sums to 2", Remedy("normalize", True, "to rescale rows"))
    >>> print(error)
    probs[3] sums to 2; pass normalize=True to rescale rows
    >>> print(error.render(lambda remedy: f"use --{remedy.argument}"))
    probs[3] sums to 2; use --normalize
    """


class InvalidInput(ScorewiseError, ValueError):
    """An argument is invalid; the message says what is wrong, where, and what to do.

    Attributes
    ----------
    index : tuple of int or None
        Index of the first wrong value: instance, then member and class. None if the problem does
        not concern a single instance.
    """

    def __init__(
        self, problem: str = "", *remedies: Remedy, index: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(problem, *remedies)
        self.index = index


class InvalidFile(InvalidInput):
    """The contents of a file are invalid; the message names the file."""


class ImproperRule(ScorewiseError):
    """A scoring rule breaks a law of proper scoring rules.

    Attributes
    ----------
    law : str
        The law that is broken, for example ``"properness"``.
    counterexample : dict
        The points at which it breaks, for example ``{"prediction": ..., "truth": ...}``.
    """

    def __init__(self, law: str, message: str, counterexample: dict[str, Any]) -> None:
        super().__init__(message)
        self.law = law
        self.counterexample = counterexample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.law, self.problem, self.counterexample)


class KernelMismatch(ScorewiseError):
    """A fused kernel differs from the array path, or breaks a law that the path obeys."""


class ScorewiseWarning(_WithRemedies, UserWarning):
    """The input is valid, and the result is probably not what the user wants."""
