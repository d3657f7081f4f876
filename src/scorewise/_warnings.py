"""Warnings that point at the user's line, however deep in the package they are given."""

from __future__ import annotations

import os
import sys
import warnings

from scorewise.errors import ScorewiseWarning

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def warn(message: str) -> None:
    """Give a ScorewiseWarning at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ScorewiseWarning, stacklevel=level)
