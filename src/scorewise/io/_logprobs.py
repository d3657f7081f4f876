"""Predictions from the answers of text classifiers: log-probabilities of label tokens, or scores.

A row may have several answers, its members: choices of a response, or lines with the same id.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import checked_labels, class_text
from scorewise._progress import bar
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._formats import TableReader
from scorewise.io._label_tokens import MISSING, ClassProbabilities, Labels, LabelTokens
from scorewise.io._predictions import Predictions, with_file_name
from scorewise.io._read_options import ANSWER_IDS, LABELS, exact_name, name_of
from scorewise.io._responses import SCORES, ParsedLine, parse_line


class ArgumentNames(NamedTuple):
    """The names of arguments in the function that the user has called, for messages."""

    labels: str = "labels"
    tokens: str = "labels"
    label_field: str = "label_field"


_OF_READ_LOGPROBS = ArgumentNames()


@dataclass(frozen=True)
class AnswerOptions:
    """The options of :func:`scorewise.read_logprobs`, which documents them."""

    labels: Labels | None = None
    missing: str | None = None
    min_mass: float = 0.99
    ids: str | None = None
    label_field: str | None = None
    id_separator: str | None = None
    position: int = 0
    labels_are: str | None = None
    reads_labels: bool = True  # False where only the predictions matter
    names: ArgumentNames = _OF_READ_LOGPROBS


def read_logprobs(
    source: str | os.PathLike[str] | Iterable[Any],
    labels: Labels | None = None,
    *,
    missing: str | None = None,
    min_mass: float = 0.99,
    ids: str | None = None,
    label_field: str | None = None,
    id_separator: str | None = None,
    position: int = 0,
    labels_are: str | None = None,
    progress: bool | None = None,
) -> Predictions:
    """Return the predictions of a text classifier from its saved responses.

    Use it for LLMs that answer with a label, and for pipelines of Hugging Face. The probability of
    a label is the sum over its tokens, at the position of the answer.

    Each line of the file is a response, or has it as ``response``, beside fields of your own:
    ``{"id": 17, "label": "yes", "response": {…}}``. All lines must be of one kind.

    =======================  =======================================================================
    OpenAI                   chat completions, completions, responses, and lines of a batch's output
    vLLM                     the same of its server; a ``RequestOutput`` as JSON
    Hugging Face             the list of labels and scores of a text, which ``top_k=None`` returns;
                             or ``{"id": 17, "scores": […]}``; zero-shot classification
    =======================  =======================================================================

    Members of a row are the choices of a response, the ``responses`` of a line, and lines with the
    same id, in their order. All rows must have the same number of members.

    Parameters
    ----------
    source : path, or iterable of mappings
        A JSON Lines file, which is read line by line, or the responses themselves, such as
        ``[response.model_dump() for response in responses]`` or ``pipe(texts, top_k=None)``.
    labels : sequence of str, or mapping from labels to tokens, optional
        The classes. A label is a token of its own, with or without a space before it, unless a
        mapping names its tokens: ``{"positive": ["positive", "Positive", "pos"]}``. A label of
        several tokens needs its first token. By default, the labels of the scores; for tokens,
        those of the rows in the file, with a warning.
    missing : {"other", "refuse", "renormalize"}, optional
        What to do with probability of no label. ``"other"``, the default for tokens, makes it a
        further class. ``"refuse"``, the default for scores, raises if labels have less than
        ``min_mass`` in an answer, or a score is missing; otherwise it rescales. ``"renormalize"``
        rescales in any case, to the probabilities given that the answer is a label.
    min_mass : float
        The least probability of all labels together with ``missing="refuse"``.
    ids : str, optional
        The field of the rows' ids; by default ``custom_id``, ``id``, ``row_id`` or ``sample_id``.
        Without ids, each line is a row. A response's own ``id`` counts only if it is named here.
    label_field : str, optional
        The field of the rows' true labels; by default ``label``, ``y``, ``target`` or similar.
    id_separator : str, optional
        What separates the row from the member in an id: with ``"/"``, the answers with the ids
        ``row-17/prompt-1`` and ``row-17/prompt-2`` are members of the row ``row-17``, as the ids
        of a batch must all be different. Lines may be in any order.
    position : int
        The position of the token that answers: 0 for the first, −1 for the last, after reasoning.
    labels_are : {"names", "indices"}, optional
        What true labels are that may be names of classes or indices.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.

    Returns
    -------
    Predictions

    Warns
    -----
    ScorewiseWarning
        If some answers do not report a label, whose probability is then 0, and what it has is in
        ``"other"``; if the labels have little probability; if the classes are those of the rows.

    Raises
    ------
    InvalidInput
        If a line is not valid, names a failed request, is of another kind, or does not have the
        members that others have; the message names the line.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> def response(row, p):
    ...     top = {"Yes": p, " no": 0.9 - p, "I": 0.1}
    ...     top = [{"token": token, "logprob": np.log(p)} for token, p in top.items()]
    ...     logprobs = {"content": [{**top[0], "top_logprobs": top}]}
    ...     return {"id": row, "response": {"choices": [{"logprobs": logprobs}]}}
    >>> answers = [response("a", 0.8), response("b", 0.3), response("a", 0.6), response("b", 0.2)]
    >>> predictions = sw.read_logprobs(answers, labels={"yes": ["yes", "Yes"], "no": "no"})
    >>> predictions
    Predictions(2 rows, 2 members, 3 classes, float64, with ids, class_names)
    >>> predictions.class_names, predictions.probs[0].round(3).tolist()
    (('yes', 'no', 'other'), [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1]])
    """
    options = AnswerOptions(
        labels, missing, min_mass, ids, label_field, id_separator, position, labels_are
    )
    return read_answers(source, options, progress)


def read_answers(
    source: str | os.PathLike[str] | Iterable[Any],
    options: AnswerOptions,
    progress: bool | None = None,
) -> Predictions:
    """Return the predictions of a file or of responses, read as the options say."""
    _check_options(options)
    if not isinstance(source, str | os.PathLike):
        responses = source if options.labels is not None else list(source)
        return _predictions(_Responses(responses), options)
    path = Path(source)
    try:
        predictions = _predictions(_Lines(path, progress), options)
    except InvalidInput as error:
        raise with_file_name(error, path.name) from None
    predictions.path = path.absolute()
    return predictions


def _check_options(options: AnswerOptions) -> None:
    if options.missing is not None:
        validate.choice(options.missing, "missing", MISSING)
    if not 0 < options.min_mass <= 1:
        raise InvalidInput(f"min_mass is {quoted(options.min_mass)}; it must be in (0, 1]")
    if options.id_separator == "":
        raise InvalidInput("id_separator is empty; pass the text between row and member")
    if not isinstance(options.position, int):
        raise InvalidInput(f"position must be a whole number, not {quoted(options.position)}")


# -- lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lines:
    """The lines of a file, which can be read more than once."""

    path: Path
    progress: bool | None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the place and the content of each line that is not blank."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file, bar("reading", size, self.progress) as advance:
            for number, line in enumerate(file, 1):
                advance(len(line))
                if line.strip():
                    yield f"line {number}", _parsed(line, number)


def _parsed(line: bytes, number: int) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        advice = "each line must be a JSON value; json.load reads a file that is one JSON value"
        raise InvalidInput(f"line {number} is not valid JSON: {error}; {advice}") from None


def fields_of_lines(path: Path) -> TableReader:
    """Return the fields of the lines of a file; None where a line does not have one."""
    lines = _Lines(path, progress=None)

    def fields(place: str, line: Any) -> dict[str, Any]:
        if not isinstance(line, dict):
            raise InvalidInput(f"{place} is {quoted(line)}; it must be a mapping, with fields")
        return line

    def rows(names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for place, line in lines:
            values = fields(place, line)
            yield tuple(values.get(name) for name in names)

    first = next(iter(lines), None)
    return TableReader([] if first is None else list(fields(*first)), rows)


@dataclass(frozen=True)
class _Responses:
    """Responses in memory."""

    responses: Iterable[Any]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the place and the content of each response."""
        for i, response in enumerate(self.responses):
            yield f"responses[{i}]", response


def _parsed_lines(
    lines: Iterable[tuple[str, Any]], options: AnswerOptions
) -> Iterator[tuple[str, ParsedLine]]:
    """Yield the place of each line and its answers, all of one kind."""
    first: tuple[str, ParsedLine] | None = None
    for place, line in lines:
        try:
            parsed = parse_line(line, options.position)
        except InvalidInput as error:
            raise _at(place, error) from None
        if first is None:
            first = place, parsed
        elif parsed.style != first[1].style:
            raise InvalidInput(
                f"{place} is a {parsed.style}, and {first[0]} is a {first[1].style}; all must be "
                "of one kind"
            )
        elif len(parsed.answers) != len(first[1].answers):
            raise InvalidInput(
                f"{place} has {len(parsed.answers)} answers, and {first[0]} has "
                f"{len(first[1].answers)}; all must have the same members"
            )
        yield place, parsed
    if first is None:
        raise InvalidInput("there are no responses")


def _at(place: str, error: InvalidInput) -> InvalidInput:
    return InvalidInput(f"{place}: {error.problem}", *error.remedies)


# -- labels ----------------------------------------------------------------------------------------


def _labels_in(lines: Iterable[tuple[str, Any]], options: AnswerOptions) -> LabelTokens:
    """Return the labels of scores, or, of tokens, the true labels of all rows."""
    labels: set[str] = set()
    for place, line in _parsed_lines(lines, options):
        if line.style == SCORES:
            names = {label for label, _ in line.answers[0]}
            if len(names) < 2:
                raise InvalidInput(
                    f"{place} has the scores of {len(names)} labels; call the pipeline with "
                    "top_k=None for the scores of all"
                )
            return LabelTokens.of(sorted(names))
        field = _field(place, line, options.label_field, LABELS, options.names.label_field)
        label = None if field is None else line.fields[field]
        if label is not None:
            labels.add(class_text(label))
    argument = options.names.labels
    if len(labels) < 2:
        raise InvalidInput(
            "the responses have tokens, and which of them are labels is not known",
            Remedy(argument, ..., "the labels that an answer may be"),
        )
    names_in_order = sorted(labels)
    validate.warn(
        f"the classes are taken from the labels of the rows: {quoted_names(names_in_order)}",
        Remedy(argument, ..., "all labels that an answer may be, if there are others"),
    )
    return LabelTokens.of(names_in_order)


def _field(
    place: str, line: ParsedLine, chosen: str | None, known: Sequence[str], argument: str
) -> str | None:
    """Return the name of the field of ids or labels in a line, or None."""
    try:
        if chosen is not None:
            return exact_name(list(line.fields), chosen, argument)
        return name_of([x for x in line.fields if x not in line.own_fields], known, argument)
    except InvalidInput as error:
        raise _at(place, error) from None


# -- answers to predictions ------------------------------------------------------------------------


def _predictions(lines: Iterable[tuple[str, Any]], options: AnswerOptions) -> Predictions:
    labels = options.labels
    classes = _labels_in(lines, options) if labels is None else LabelTokens.of(labels)
    rows = _Rows(options)
    probabilities: ClassProbabilities | None = None
    for place, line in _parsed_lines(lines, options):
        if probabilities is None:
            probabilities = ClassProbabilities(
                classes, line.style, options.missing, options.min_mass
            )
        rows.add(place, line)
        for answer in line.answers:
            try:
                probabilities.add(answer)
            except InvalidInput as error:
                raise _at(place, error) from None
    assert probabilities is not None  # there is a line, or reading has raised
    probabilities.check(options.names.tokens)
    probs = probabilities.array()[rows.order()]
    names = probabilities.class_names
    true_labels = None
    if rows.labels is not None and options.reads_labels:
        true_labels = checked_labels(
            np.array(rows.labels, dtype=object),
            probs.shape,
            names,
            lambda row: f"{rows.places[row]}: the label",
            labels_are=options.labels_are,
        )
    return Predictions(
        probs, labels=true_labels, ids=rows.ids, class_names=names, labels_are="indices"
    )


_Fields = tuple[str | None, str | None]  # names of the fields of ids and labels


class _Rows:
    """The rows and members that answers belong to, in the order of the answers."""

    def __init__(self, options: AnswerOptions) -> None:
        self.places: list[str] = []  # of each row's first line
        self.labels: list[Any] | None = None
        self._options = options
        self._first: tuple[str, _Fields] | None = None  # the place of the first line, its fields
        self._row_of: dict[Any, int] = {}
        self._member_of: dict[str, int] = {}
        self._n_lines: list[int] = []  # of each row
        self._rows, self._members = array("q"), array("q")
        self._n_answers = 0  # of each line

    @property
    def ids(self) -> list[Any] | None:
        """The ids of the rows, if they have any."""
        return list(self._row_of) or None

    def add(self, place: str, line: ParsedLine) -> None:
        """Add the answers of a line."""
        id_field, label_field = self._fields(place, line)
        row_id, member_name = self._row_and_member(place, line, id_field)
        row = n_rows = len(self.places)
        if id_field is not None:
            row = self._row_of.setdefault(row_id, n_rows)
        if row == n_rows:
            self.places.append(place)
            self._n_lines.append(0)
        if label_field is not None:
            self._add_label(place, row, _label(line.fields[label_field]))
        member = self._n_lines[row]
        if member_name is not None:
            member = self._member_of.setdefault(member_name, len(self._member_of))
        self._n_lines[row] += 1
        self._n_answers = len(line.answers)
        self._rows.extend([row] * self._n_answers)
        self._members.extend(range(member * self._n_answers, (member + 1) * self._n_answers))

    def _fields(self, place: str, line: ParsedLine) -> _Fields:
        """Return the fields of ids and labels, which must be the same in all lines."""
        options = self._options
        fields = (
            _field(place, line, options.ids, ANSWER_IDS, "ids"),
            _field(place, line, options.label_field, LABELS, options.names.label_field),
        )
        self._first = self._first or (place, fields)
        first_place, first_fields = self._first
        for noun, field, first in zip(("id", "label"), fields, first_fields, strict=True):
            if field != first:
                raise InvalidInput(
                    f"{place} has {_noun(noun, field)}, and {first_place} has {_noun(noun, first)}"
                )
        return fields

    def _row_and_member(
        self, place: str, line: ParsedLine, id_field: str | None
    ) -> tuple[Any, str | None]:
        """Return the id of the row, and the name of the member, if the id has it."""
        separator = self._options.id_separator
        if id_field is None:
            if separator is not None:
                raise InvalidInput(f"{place} has no id", Remedy("id_separator", None))
            return None, None
        row_id = line.fields[id_field]
        if not isinstance(row_id, str | int) or isinstance(row_id, bool):
            raise InvalidInput(
                f"{place}: the id is {quoted(row_id)}; it must be a whole number or text"
            )
        if separator is None:
            return row_id, None
        row, found, member = str(row_id).rpartition(separator)
        if not found:
            raise InvalidInput(
                f"{place}: the id {quoted(row_id)} has no {quoted(separator)} between row and "
                "member"
            )
        return row, member

    def _add_label(self, place: str, row: int, label: Any) -> None:
        """Add the label of a new row; raise if another line of the row has another label."""
        self.labels = [] if self.labels is None else self.labels
        if row == len(self.labels):
            self.labels.append(label)
        elif self.labels[row] != label:
            raise InvalidInput(
                f"{place} has the label {quoted(label)}, and {self.places[row]}, of the same row, "
                f"has {quoted(self.labels[row])}"
            )

    def order(self) -> np.ndarray:
        """Return the number of the answer for each row and member, (N, M)."""
        n, m = len(self.places), max(self._members) + 1
        slots = np.frombuffer(self._rows, np.int64) * m + np.frombuffer(self._members, np.int64)
        counts = np.bincount(slots, minlength=n * m)
        if (counts != 1).any():
            raise self._wrong_members(counts.reshape(n, m))
        return np.argsort(slots).reshape(n, m)

    def _wrong_members(self, counts: np.ndarray) -> InvalidInput:
        """Return the error for the first row that does not have each member once."""
        row, member = map(int, np.argwhere(counts != 1)[0])
        row_text = f"row {quoted(list(self._row_of)[row])} ({self.places[row]})"
        if self._member_of:
            name = list(self._member_of)[member // self._n_answers]
            return InvalidInput(
                f"{row_text} has {counts[row, member]} answers of the member {quoted(name)}; every "
                "row must have one of each member"
            )
        return InvalidInput(
            f"{row_text} has {counts[row].sum()} of the {counts.shape[1]} answers that others "
            "have; every row must have the same members"
        )


def _noun(noun: str, field: str | None) -> str:
    return f"no {noun}" if field is None else f"the {noun} {quoted(field)}"


def _label(value: Any) -> Any:
    """Return a true label; a truth value is the name of a class, and never an index."""
    if isinstance(value, bool):
        return str(value)
    return None if value != value else value  # NaN is no label
