"""Predictions of rows whose labels are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._rows import rows_of
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.io import LABELS, UNLABELLED, Predictions, checked_ids, checked_labels, checked_names


@dataclass(frozen=True, eq=False)
class Labelled:
    """Samples and what is known of their rows."""

    samples: Samples
    labels: np.ndarray
    ids: np.ndarray | None
    class_names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        predictions: Any,
        y: Any,
        ids: Any,
        class_names: Sequence[str] | None,
        options: dict[str, Any],
    ) -> Labelled:
        """From a file's predictions, or from arrays; what is given beside them counts."""
        if isinstance(predictions, Predictions):
            y = predictions.labels if y is None else y
            ids = predictions.ids if ids is None else ids
            class_names = predictions.class_names if class_names is None else class_names
        samples = members_of(predictions, "predictions", options)
        if not len(samples.probs):
            raise InvalidInput("there are no rows to evaluate")
        if y is None:
            raise InvalidInput(
                "there are no labels, and what happened must be known here; in files they are "
                f"called {', '.join(LABELS)}"
            )
        shape = samples.probs.shape
        names = checked_names(class_names, shape[-1])
        labels = checked_labels(y, shape, names)
        missing = labels == UNLABELLED
        if missing.any():
            first = int(np.argmax(missing))
            where = (
                f" ({predictions.locate(first)})" if isinstance(predictions, Predictions) else ""
            )
            raise InvalidInput(
                f"labels[{first}]{where} is missing; {int(missing.sum())} of {len(labels)} rows "
                "have no label, and each needs one here"
            )
        return cls(
            samples,
            labels,
            None if ids is None else checked_ids(ids, shape[0]),
            names or tuple(str(k) for k in range(shape[-1])),
        )


def members_of(predictions: Any, name: str, options: dict[str, Any]) -> Samples:
    """Samples (n, M, K) of a file's predictions, an array, or Samples."""
    if isinstance(predictions, Predictions):
        unknown = set(options) - {"normalize"}
        if unknown:
            raise InvalidInput(f"{', '.join(sorted(unknown))}: the predictions know this already")
        return predictions.to_samples(**options)
    rows = rows_of(predictions, name, options)
    if not isinstance(rows, Samples):
        raise InvalidInput(f"{name} must have members (n, M, K), which a Dirichlet has not")
    return rows
