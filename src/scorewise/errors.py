"""What can go wrong, said so that it can be put right."""

from __future__ import annotations

from typing import Any


class ScorewiseError(Exception):
    """Base of every error that scorewise raises on purpose."""


class InvalidInput(ScorewiseError, ValueError):
    """An argument is not what it must be; the message says what, where and what to do."""


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
        return type(self), (self.law, str(self), self.counterexample)


class KernelMismatch(ScorewiseError):
    """A fused kernel does not agree with the array path, or breaks a law that the path keeps."""


class MissingData(ScorewiseError, FileNotFoundError):
    """A data set is not there; the message is one sentence that says how to get it."""


class CorruptData(ScorewiseError, ValueError):
    """A data file is not the official one, or cannot be read; the message names it."""


class FetchFailed(ScorewiseError, OSError):
    """A file could not be downloaded; the message says why."""
