"""JSON that every reader accepts: numbers that are not finite become null."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np


def dumps(value: Any, indent: int | None = None) -> str:
    """Return numbers, strings, paths, lists, mappings and NumPy arrays as JSON."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)


def plain(value: Any, digits: int | None = None) -> Any:
    """Return the value as JSON can hold it, with floats in at most this many digits."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(x, digits) for key, x in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [plain(x, digits) for x in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
