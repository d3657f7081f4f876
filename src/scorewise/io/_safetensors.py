"""Tensors in a ``.safetensors`` file, by the names of the fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scorewise.errors import InvalidInput
from scorewise.io._columns import FIELDS, LOGITS, PROBS, named_column
from scorewise.io._fields import ClassNames
from scorewise.io._predictions import Predictions, Source

_TENSORS = ("probs", "logits", "labels", "ids", "weights")


def read(
    path: Path, class_names: ClassNames = None
) -> tuple[Source, ClassNames, np.ndarray | None]:
    """All tensors, and the names in the metadata."""
    try:
        with safe_open(path, framework="numpy") as file:
            there = set(file.keys())
            if named_column(list(there), (*PROBS, *LOGITS)) is None:
                raise InvalidInput(
                    f"{path.name!r} has no tensor 'probs' (nor 'logits'), only "
                    f"{', '.join(map(repr, sorted(there))) or 'nothing'}"
                )
            names = _names(file.metadata() or {}, path)
            keys = {name: named_column(list(there), FIELDS[name]) for name in _TENSORS}
            arrays: dict[str, Any] = {
                name: _tensor(file, key, path) for name, key in keys.items() if key is not None
            }
    except SafetensorError as error:
        raise InvalidInput(
            f"{path.name!r} is no .safetensors file, or it is cut off: {error}"
        ) from None
    names.setdefault("class_names", class_names)
    kept = Predictions(**names | arrays)
    return kept.source, kept.class_names, kept.member_weights


def _tensor(file: Any, name: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(file.get_tensor(name))
    except (TypeError, KeyError, AttributeError):
        kind = file.get_slice(name).get_dtype()
        raise InvalidInput(
            f"{name!r} in {path.name!r} is of type {kind}, which NumPy does not have; save it as "
            "float32"
        ) from None


def _names(metadata: dict[str, str], path: Path) -> dict[str, Any]:
    """Class names and text ids, which are no tensors."""
    found: dict[str, Any] = {}
    for name in ("class_names", "ids"):
        if name in metadata:
            try:
                found[name] = json.loads(metadata[name])
            except (ValueError, RecursionError) as error:
                raise InvalidInput(
                    f"{name!r} in the metadata of {path.name!r} is no JSON: {error}"
                ) from None
    return found


def write(predictions: Predictions, path: Path) -> None:
    """All arrays as tensors, names as JSON in the metadata."""
    tensors = {
        name: np.ascontiguousarray(getattr(predictions, name))
        for name in _TENSORS
        if name in predictions.fields
    }
    if predictions.member_weights is not None:
        tensors["weights"] = predictions.member_weights
    metadata = {}
    if predictions.class_names is not None:
        metadata["class_names"] = json.dumps(predictions.class_names)
    if "ids" in tensors and tensors["ids"].dtype == object:
        metadata["ids"] = json.dumps(tensors.pop("ids").tolist())
    path.write_bytes(save(tensors, metadata))
