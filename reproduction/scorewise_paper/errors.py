"""Errors: what is wrong, where, and what to do about it."""

from __future__ import annotations

from scorewise.errors import InvalidInput, Remedy, ScorewiseError

__all__ = [
    "CorruptData",
    "DamagedResult",
    "FetchFailed",
    "InvalidInput",
    "MissingData",
    "Remedy",
    "ScorewiseError",
]


class MissingData(ScorewiseError, FileNotFoundError):
    """A data set is not in the data folder; the message says how to get it."""


class CorruptData(ScorewiseError, ValueError):
    """A data file is not the official one, or cannot be read; the message names it."""


class FetchFailed(ScorewiseError, OSError):
    """A file could not be downloaded; the message says why."""


class DamagedResult(ScorewiseError):
    """A line of a results file is not what was written; the message names it."""
