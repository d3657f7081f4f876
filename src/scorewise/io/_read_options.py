"""What users say about a file: which array or column is what, and which axis has the members."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import LABEL_KINDS, ClassNames
from scorewise._text import quoted, quoted_names, shape_text
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._predictions import CLASS_1_ALONE, Predictions

Field = TypeVar("Field")

# Names of each field in files, ignoring case; the first is the name that scorewise writes.
PROBS = ("probs", "prob", "probabilities", "probas", "proba")
LOGITS = ("logits", "logit")
PREDICTIONS = ("predictions", "preds", "y_prob", "y_proba")  # where neither of these is there
LABELS = ("labels", "label", "y", "target", "targets", "y_true", "y_test", "label_ids")
MEMBER_NAMES = {"probs": PROBS, "logits": LOGITS}
IDS = ("ids", "id", "row_id", "sample_id")
ANSWER_IDS = ("custom_id", *IDS)  # of answers; the first is that of a batch
WEIGHTS = ("weights",)  # "weight" is usually that of a row, not of a member
FIELD_NAMES = {
    "labels": LABELS,
    "ids": IDS,
    "weights": WEIGHTS,
    "class_names": ("class_names", "classes", "classes_"),
    "labels_are": ("labels_are",),
}

_MANY_MEMBERS, _MANY_PER_ROW = 100, 10  # from which members without labels may be rows
# axes of an array as stored that have rows, members and classes, by that of the members
_ORDERS = {None: (0, 1, 2), 0: (1, 0, 2), 1: (0, 1, 2), 2: (0, 2, 1)}


@dataclass(frozen=True)
class ReadOptions:
    """The options of :func:`scorewise.read_predictions`, which documents them."""

    class_names: ClassNames = None
    probs: str | None = None
    labels: str | None = None
    ids: str | None = None
    from_logits: bool | None = None
    member_axis: int | None = None
    one_model: bool = False
    labels_are: str | None = None
    tokens: Mapping[Any, str | Sequence[str]] | None = None
    missing: str | None = None
    id_separator: str | None = None
    position: int | None = None
    reads_labels: bool = True  # False where only the number of labels matters

    def __post_init__(self) -> None:
        if self.member_axis not in _ORDERS or isinstance(self.member_axis, bool):
            raise InvalidInput(
                f"member_axis must be 0, 1 or 2, an axis as stored, not {quoted(self.member_axis)}"
            )
        if self.labels_are is not None:
            validate.choice(self.labels_are, "labels_are", LABEL_KINDS)

    @property
    def field(self) -> str:
        """The field that the array or column ``probs`` is."""
        return "logits" if self.from_logits else "probs"


# -- names of arrays and columns -------------------------------------------------------------------


def fields_of(names: Sequence[str], options: ReadOptions) -> dict[str, str]:
    """Return the name of the array of each field in a file.

    Raises
    ------
    InvalidInput
        If there are no predictions, several arrays may be the field, or an array of the user's
        name is missing.
    """
    if options.probs is not None:
        fields = {options.field: exact_name(names, options.probs, "probs")}
    else:
        named = member_fields(names, MEMBER_NAMES) or member_fields(names, {"probs": PREDICTIONS})
        fields = with_requested_kind(named, options)
    if not fields:
        raise InvalidInput(
            f"there is no array 'probs' (nor 'logits'), only {quoted_names(sorted(names))}",
            Remedy("probs", "NAME", "for the array with the predictions"),
        )
    return fields | other_fields(names, options)


def member_fields(names: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the names of the arrays or columns of ``"probs"`` and ``"logits"``, if any."""
    fields = {field: name_of(names, field_names, "probs") for field, field_names in known.items()}
    return {field: name for field, name in fields.items() if name is not None}


def with_requested_kind(fields: dict[str, Field], options: ReadOptions) -> dict[str, Field]:
    """Return the predictions as logits or probabilities, if the user says which they are."""
    if options.from_logits is None or not fields:
        return fields
    return {options.field: fields.get(options.field) or next(iter(fields.values()))}


def other_fields(names: Sequence[str], options: ReadOptions) -> dict[str, str]:
    """Return the names of the arrays or columns of all fields but the predictions."""
    fields = {}
    for field, known in FIELD_NAMES.items():
        chosen = getattr(options, field) if field in {"labels", "ids"} else None
        if chosen is not None:
            name: str | None = exact_name(names, chosen, field)
        else:
            name = name_of(names, known, field if field in {"labels", "ids"} else None)
        if name is not None:
            fields[field] = name
    return fields


def name_of(names: Sequence[str], known: Sequence[str], argument: str | None) -> str | None:
    """Return the name of a field, ignoring case, or None.

    The first of the known names has precedence. If several of the others are there, it raises, and
    asks for the ``argument`` that names the field; without an argument, the first counts.
    """
    lower: dict[str, str] = {name.lower(): name for name in reversed(names)}
    matches = [lower[name] for name in known if name in lower]
    if len(matches) > 1 and argument is not None and matches[0].lower() != known[0]:
        raise InvalidInput(
            f"{quoted_names(matches)} could each be the {known[0]}",
            *(Remedy(argument, name) for name in matches),
        )
    return matches[0] if matches else None


def exact_name(names: Sequence[str], name: str, argument: str) -> str:
    """Return the name; raises, with the nearest one, if a file does not have it."""
    if name not in names:
        if Path(name).is_file():
            raise InvalidInput(
                f"{argument} is the name of an array or column in this file, and {quoted(name)} is "
                'another file; save both in one: np.savez("test.npz", probs=…, labels=…)'
            )
        close = difflib.get_close_matches(name, names, n=1)
        raise InvalidInput(
            f"there is no {quoted(name)}, only {quoted_names(sorted(names))}",
            *(Remedy(argument, nearest, "if you mean that") for nearest in close),
        )
    return name


# -- axes ------------------------------------------------------------------------------------------


def axes_of(
    shape: Sequence[int], name: str, options: ReadOptions, n_labels: int | None = None
) -> tuple[int, ...]:
    """Return the axes, as stored, of rows, members and classes; of rows and classes of one model.

    ``n_labels`` is the number of labels, which shows a wrong axis.
    """
    shape = tuple(shape)
    if len(shape) == 2 and options.member_axis is None:
        if options.one_model:
            return (0, 1)
        raise InvalidInput(
            f"{name} has shape {shape}, and no axis of members; it must be (N, M, K): rows, "
            f"members, classes; {CLASS_1_ALONE}",
            Remedy("one_model", True, f"if these are {shape[0]:,} rows of one model"),
        )
    if len(shape) != 3:
        class_1 = f"; {CLASS_1_ALONE}" if len(shape) < 3 else ""
        raise InvalidInput(
            f"{name} has shape {shape}; it must be (N, M, K): rows, members, classes{class_1}"
        )
    order = _ORDERS[options.member_axis]
    n, m, _ = (shape[axis] for axis in order)
    if options.one_model and m != 1:
        raise InvalidInput(
            f"{name} has shape {shape}, which has {m} members", Remedy("one_model", False)
        )
    if n_labels is not None and n_labels != n:
        problem = f"there are {n_labels:,} labels, and {name} has shape {shape} with {n:,} rows"
        if n_labels == shape[1] and options.member_axis != 0:
            raise InvalidInput(problem, Remedy("member_axis", 0, "if its first axis is members"))
        if n_labels == shape[0]:
            raise InvalidInput(problem, Remedy("member_axis", None))
    return order


def warn_of_many_members(shape: Sequence[int], options: ReadOptions) -> None:
    """Warn if members without labels are so many more than rows that they may be the rows."""
    n, m, _ = shape
    if options.member_axis is None and m >= _MANY_MEMBERS and m > _MANY_PER_ROW * n:
        validate.warn(
            f"the predictions are read as {shape_text(shape)}, and there are no labels that "
            "confirm it",
            Remedy("member_axis", 0, "if members are on the first axis"),
            Remedy("member_axis", 1, "if rows are"),
        )


def rows_members_classes(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return a view ``(N, M, K)`` of a stored array."""
    return array[:, None] if len(axes) == 2 else array.transpose(axes)


def predictions_of(fields: Mapping[str, Any], options: ReadOptions) -> Predictions:
    """Return the predictions of arrays by field, as the user says that they are to be read."""
    arrays = dict(fields)
    labels_are = arrays.pop("labels_are", None)
    if options.labels is not None or options.labels_are is not None:
        labels_are = options.labels_are  # the file's own is about its array "labels"
    n_labels = len(arrays["labels"]) if "labels" in arrays else None
    for name in {"probs", "logits"} & arrays.keys():
        array = np.asarray(arrays[name])
        axes = axes_of(array.shape, name, options, n_labels)
        arrays[name] = rows_members_classes(array, axes)
    if not options.reads_labels:
        arrays.pop("labels", None)
    arrays.setdefault("class_names", options.class_names)
    predictions = Predictions(labels_are=None if labels_are is None else str(labels_are), **arrays)
    if n_labels is None:
        warn_of_many_members(predictions.shape, options)
    return predictions
