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
    return json.dumps(_jsonable(value), indent=indent, allow_nan=False)


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _jsonable(x) for key, x in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_jsonable(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
