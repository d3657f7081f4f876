"""Tensors in a ``.safetensors`` file, by the names of the fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._text import quoted
from scorewise.errors import InvalidFile
from scorewise.io._formats import FileFormat
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions, fields_of, predictions_of

_TENSORS = ("probs", "logits", "labels", "ids", "weights")


def _read(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in all tensors, with the names in the metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            fields = _text_fields(file.metadata() or {}, path)
            for field, name in fields_of(list(file.keys()), options).items():
                fields[field] = _tensor(file, name, path)
    except SafetensorError as error:
        raise InvalidFile(
            f"{path.name!r} is not a valid .safetensors file, or it is truncated: {error}"
        ) from None
    return predictions_of(fields, options)


def _tensor(file: Any, name: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(file.get_tensor(name))
    except (TypeError, KeyError, AttributeError):
        dtype = file.get_slice(name).get_dtype()
        raise InvalidFile(
            f"{quoted(name)} in {path.name!r} is of type {dtype}, which NumPy does not have; save "
            "it as float32"
        ) from None


def _text_fields(metadata: dict[str, str], path: Path) -> dict[str, Any]:
    """Return class names, text ids and what labels are, which are not stored as tensors."""
    fields: dict[str, Any] = {}
    for name in ("class_names", "ids", "labels_are"):
        if name in metadata:
            try:
                fields[name] = json.loads(metadata[name])
            except (ValueError, RecursionError) as error:
                raise InvalidFile(
                    f"{name!r} in the metadata of {path.name!r} is not valid JSON: {error}"
                ) from None
    return fields


def _write(predictions: Predictions, path: Path) -> None:
    """Write all arrays as tensors, and names as JSON in the metadata."""
    from safetensors.numpy import save

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
    if predictions.has_ambiguous_labels:
        metadata["labels_are"] = json.dumps("indices")
    if "ids" in tensors and tensors["ids"].dtype == object:
        metadata["ids"] = json.dumps(tensors.pop("ids").tolist())
    path.write_bytes(save(tensors, metadata))


FORMATS = (FileFormat((".safetensors",), _read, _write, extra="io"),)
