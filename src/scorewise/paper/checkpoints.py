"""Work that is not finished, kept so that it can go on."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from scorewise._files import replacing

_BAD_FILE = (OSError, EOFError, RuntimeError, pickle.UnpicklingError, KeyError, ValueError)


def keep(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and numbers, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        torch.save(state, partial)


def kept(path: Path, device: torch.device | str = "cpu") -> dict[str, Any] | None:
    """What was written; None where there is nothing, or nothing that can be read."""
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except _BAD_FILE:  # the machine went down in the middle of it
        return None
    return found
