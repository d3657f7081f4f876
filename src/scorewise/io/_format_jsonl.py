"""Answers of text classifiers in a ``.jsonl`` file, one response per line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scorewise._text import quoted
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._formats import FileFormat
from scorewise.io._label_tokens import Labels
from scorewise.io._logprobs import AnswerOptions, ArgumentNames, fields_of_lines, read_answers
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions

_NAMES = ArgumentNames(labels="class_names", tokens="tokens", label_field="labels")


def _read(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions that the answers report."""
    for name in ("probs", "from_logits", "member_axis"):
        if getattr(options, name) is not None:
            raise InvalidInput(f"{name} is for files of arrays or columns", Remedy(name, None))
    if options.class_names is None and "," in (options.labels or ""):
        raise InvalidInput(
            "labels is the name of the field with the true labels",
            Remedy("class_names", tuple((options.labels or "").split(",")), "for the classes"),
        )
    answers = AnswerOptions(
        labels=_labels(options),
        missing=options.missing,
        ids=options.ids,
        label_field=options.labels,
        id_separator=options.id_separator,
        position=options.position or 0,
        labels_are=options.labels_are,
        reads_labels=options.reads_labels,
        names=_NAMES,
    )
    predictions = read_answers(path, answers)
    if options.one_model and predictions.shape[1] != 1:
        raise InvalidInput(f"rows have {predictions.shape[1]} members", Remedy("one_model", False))
    return predictions


def _labels(options: ReadOptions) -> Labels | None:
    """Return the classes, in the order of their names, with their tokens."""
    tokens: Mapping[Any, Any] = options.tokens or {}
    if options.class_names is None:
        return options.tokens
    unknown = next((name for name in tokens if name not in options.class_names), None)
    if unknown is not None:
        raise InvalidInput(f"tokens are of {quoted(unknown)}, which is not in class_names")
    return {name: tokens.get(name, name) for name in options.class_names}


FORMATS = (FileFormat((".jsonl",), _read, has_answers=True, table=fields_of_lines),)
