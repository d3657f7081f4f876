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

    It is a ``ValueError``, so that code which knows nothing of scorewise catches it.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    *remedies : Remedy
        Alternative arguments that solve it.
    index : tuple of int, optional
        Index of the first wrong value: instance, then member and class. None if the problem does
        not concern a single instance.

    Examples
    --------
    >>> import scorewise as sw
    >>> try:
    ...     sw.decompose([[[0.5, 0.5], [0.9, 0.3]]], "log")
    ... except sw.InvalidInput as error:
    ...     print(error.problem, "at", error.index)
    probs[0, 1] sums to 1.2, not 1 at (0, 1)
    """

    def __init__(
        self, problem: str = "", *remedies: Remedy, index: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(problem, *remedies)
        self.index = index


class InvalidFile(InvalidInput):
    """The contents of a file are invalid; the message names the file.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    *remedies : Remedy
        Alternative arguments that solve it.
    index : tuple of int, optional
        Index of the first wrong value, as in :class:`scorewise.InvalidInput`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
    >>> _ = path.write_text("dismiss,treat")
    >>> try:
    ...     sw.io.read_cost_matrix(path)
    ... except sw.errors.InvalidFile as error:
    ...     print(error)
    'costs.csv' must have a line with the names of the actions, and then one line of costs for each
    class, all of the same length
    """


class ImproperRule(ScorewiseError):
    """A scoring rule breaks a law of proper scoring rules.

    Parameters
    ----------
    law : str
        The law that is broken, for example ``"properness"``.
    message : str
        How the rule breaks it.
    counterexample : dict
        The points at which it breaks, for example ``{"prediction": ..., "truth": ...}``.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> naive = sw.rule_from_loss_vector(lambda p: -np.log(p) * [1, 5], name="naive weights")
    >>> try:
    ...     sw.check_rule(naive, n_classes=2)
    ... except sw.ImproperRule as error:
    ...     print(error.law, error.counterexample["truth"].round(2))
    properness [0.56 0.44]
    """

    def __init__(self, law: str, message: str, counterexample: dict[str, Any]) -> None:
        super().__init__(message)
        self.law = law
        self.counterexample = counterexample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.law, self.problem, self.counterexample)


class KernelMismatch(ScorewiseError):
    """A fused kernel differs from the array path, or breaks a law that the path obeys.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    *remedies : Remedy
        Alternative arguments that solve it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import scorewise as sw
    >>> cpu = sw.kernels.KERNELS["cpu"]
    >>> wrong = SimpleNamespace(
    ...     is_usable=cpu.is_usable, supports=cpu.supports,
    ...     compute=lambda *members: [2 * x for x in cpu.compute(*members)])
    >>> try:
    ...     sw.check_kernel(wrong, ["brier"])
    ... except sw.errors.KernelMismatch as error:
    ...     print(error)
    brier total... by the kernel, ... by the array path: ...
    """


class ScorewiseWarning(_WithRemedies, UserWarning):
    """The input is valid, and the result is probably not what the user wants.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    *remedies : Remedy
        Alternative arguments that solve it.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, scorewise as sw
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", sw.errors.ScorewiseWarning)
    ...     decomposition = sw.decompose(np.full((2000, 2), 0.5), "log")
    >>> print(caught[0].message)
    probs of shape (2000, 2) are read as 2,000 members of one row; if they are 2,000 rows of one
    model, pass probs[:, None]
    """
