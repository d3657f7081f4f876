"""One array (N, M, K) in a ``.npy`` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scorewise import _validate as validate
from scorewise.errors import InvalidInput
from scorewise.io._fields import ClassNames, check_shape, checked_names
from scorewise.io._mapped import Mapped, MappedArray
from scorewise.io._predictions import Predictions, Source


def read(path: Path, class_names: ClassNames = None) -> tuple[Source, ClassNames, None]:
    """The array, mapped."""
    with path.open("rb") as file:
        array = MappedArray.of_header(file, path, repr(path.name))
    validate.floating(np.empty(0, array.dtype), "probs")
    check_shape(array.shape, "probs")
    there = path.stat().st_size - array.offset
    if there < array.nbytes:
        raise InvalidInput(
            f"{path.name!r} is cut off: {array.shape} of {array.dtype} are {array.nbytes:,} bytes, "
            f"and {there:,} are there"
        )
    return Mapped({"probs": array}, {}), checked_names(class_names, array.shape[-1]), None


def write(predictions: Predictions, path: Path) -> None:
    """The probabilities alone, a part at a time."""
    more = sorted(predictions.fields - {"probs"})
    more += ["class_names"] * (predictions.class_names is not None)
    more += ["weights"] * (predictions.member_weights is not None)
    if more:
        raise InvalidInput(
            f"a .npy file holds probs alone, and there are {', '.join(more)} too; use .npz or "
            ".parquet"
        )
    with path.open("wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(predictions.dtype),
            "fortran_order": False,
            "shape": predictions.shape,
        }
        np.lib.format.write_array_header_2_0(file, header)
        for part in predictions.chunks():
            np.ascontiguousarray(part.probs).tofile(file)
