"""Predictions from the answers of text classifiers: log-probabilities of label tokens, or scores.

A row may have several answers, its members: choices of a response, or lines with the same id.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import checked_labels, class_text
from scorewise._progress import bar
from scorewise._text import percent, quoted, quoted_names, significant
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._predictions import Predictions, with_file_name
from scorewise.io._read_options import IDS, LABELS, exact_name, name_of
from scorewise.io._responses import SCORES, TOLERANCE, Answer, ParsedLine, parse_line

OTHER = "other"  # the class of all that is no label
MISSING = (OTHER, "refuse", "renormalize")

_SPACES = " \u0120\u2581"  # how tokenizers write the space before a word
_MOST_TOKENS = 10_000  # that are counted for a message
_SHOWN_TOKENS = 5
_LITTLE_MASS = 0.8  # mean probability of the labels below which they are probably incomplete

Labels = Sequence[Any] | Mapping[Any, str | Sequence[str]]


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
        Without ids, each line is a row. A response's own ``id`` does not count.
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


@dataclass(frozen=True)
class _LabelTokens:
    """The classes, and the index of the class that a token means."""

    names: tuple[str, ...]
    index_of: Mapping[str, int]

    @classmethod
    def of(cls, labels: Labels) -> _LabelTokens:
        """Return the classes of labels, or of a mapping from labels to tokens."""
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise InvalidInput(
                f"labels must be the labels in a list, or a mapping to their tokens, not "
                f"{quoted(labels)}"
            )
        tokens_of = labels if isinstance(labels, Mapping) else {label: label for label in labels}
        if len(tokens_of) < max(2, len(labels)):
            raise InvalidInput(f"there must be two or more different labels, not {quoted(labels)}")
        index_of: dict[str, int] = {}
        names = tuple(map(class_text, tokens_of))
        for k, tokens in enumerate(tokens_of.values()):
            listed = tokens if isinstance(tokens, list | tuple | set | frozenset) else [tokens]
            for token in map(_without_space, map(class_text, listed)):
                if not token or index_of.setdefault(token, k) != k:
                    also = f" and of {quoted(names[index_of[token]])}" if token else ""
                    raise InvalidInput(
                        f"{quoted(token)} cannot be a token of {quoted(names[k])}{also}; name a "
                        "first token that differs between the labels"
                    )
        return cls(names, index_of)

    def class_of(self, token: str) -> int | None:
        """Return the class that a token means, if any."""
        return self.index_of.get(_without_space(token))


def _without_space(token: str) -> str:
    return token.lstrip(_SPACES)


def _labels_in(lines: Iterable[tuple[str, Any]], options: AnswerOptions) -> _LabelTokens:
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
            return _LabelTokens.of(sorted(names))
        field = _field(place, line.fields, options.label_field, LABELS, options.names.label_field)
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
    return _LabelTokens.of(names_in_order)


def _field(
    place: str, fields: Mapping[str, Any], chosen: str | None, known: Sequence[str], argument: str
) -> str | None:
    """Return the name of the field of ids or labels in a line, or None."""
    try:
        if chosen is None:
            return name_of(list(fields), known, argument)
        return exact_name(list(fields), chosen, argument)
    except InvalidInput as error:
        raise _at(place, error) from None


# -- answers to predictions ------------------------------------------------------------------------


def _predictions(lines: Iterable[tuple[str, Any]], options: AnswerOptions) -> Predictions:
    labels = options.labels
    classes = _labels_in(lines, options) if labels is None else _LabelTokens.of(labels)
    rows = _Rows(options)
    probabilities: _ClassProbabilities | None = None
    for place, line in _parsed_lines(lines, options):
        if probabilities is None:
            probabilities = _ClassProbabilities(classes, line.style, options)
        rows.add(place, line)
        for answer in line.answers:
            try:
                probabilities.add(answer)
            except InvalidInput as error:
                raise _at(place, error) from None
    assert probabilities is not None  # there is a line, or reading has raised
    probabilities.check()
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


class _Rows:
    """The rows and members that answers belong to, in the order of the answers."""

    def __init__(self, options: AnswerOptions) -> None:
        self.places: list[str] = []  # of each row's first line
        self.labels: list[Any] | None = None
        self._options = options
        self._first: tuple[str, str | None, str | None] | None = None
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
        self._n_answers = len(line.answers)
        row_id, member_name = self._row_id(place, line, id_field)
        row = (
            len(self.places)
            if row_id is None
            else self._row_of.setdefault(row_id, len(self.places))
        )
        if row == len(self.places):
            self.places.append(place)
            self._n_lines.append(0)
            if label_field is not None:
                self.labels = [] if self.labels is None else self.labels
                self.labels.append(_label(line.fields[label_field]))
        elif label_field is not None:
            self._check_label(place, row, _label(line.fields[label_field]))
        member = self._n_lines[row]
        if member_name is not None:
            member = self._member_of.setdefault(member_name, len(self._member_of))
        self._n_lines[row] += 1
        self._rows.extend([row] * self._n_answers)
        self._members.extend(range(member * self._n_answers, (member + 1) * self._n_answers))

    def _fields(self, place: str, line: ParsedLine) -> tuple[str | None, str | None]:
        """Return the fields of ids and labels, which must be the same in all lines."""
        options = self._options
        known_ids = ("custom_id", *IDS)
        id_field = _field(place, line.fields, options.ids, known_ids, "ids")
        argument = options.names.label_field
        label_field = _field(place, line.fields, options.label_field, LABELS, argument)
        if self._first is None:
            self._first = place, id_field, label_field
        first_place, *first_fields = self._first
        for noun, field, first in zip(
            ("id", "label"), (id_field, label_field), first_fields, strict=True
        ):
            if field != first:
                raise InvalidInput(
                    f"{place} has {_noun(noun, field)}, and {first_place} has {_noun(noun, first)}"
                )
        return id_field, label_field

    def _row_id(self, place: str, line: ParsedLine, id_field: str | None) -> tuple[Any, str | None]:
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

    def _check_label(self, place: str, row: int, label: Any) -> None:
        if self.labels is not None and self.labels[row] != label:
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
            raise self._wrong_members(*divmod(int(np.argmax(counts != 1)), m), m)
        return np.argsort(slots).reshape(n, m)

    def _wrong_members(self, row: int, member: int, m: int) -> InvalidInput:
        row_id = (self.ids or [])[row]
        if self._member_of:
            name = list(self._member_of)[member // self._n_answers]
            n_times = np.count_nonzero(
                (np.frombuffer(self._rows, np.int64) == row)
                & (np.frombuffer(self._members, np.int64) == member)
            )
            problem = f"row {quoted(row_id)} has {n_times} answers of the member {quoted(name)}"
            return InvalidInput(f"{problem}; every row must have one of each")
        n_answers = self._n_lines[row] * self._n_answers
        return InvalidInput(
            f"row {quoted(row_id)} ({self.places[row]}) has {n_answers} answers, and others have "
            f"{m}; every row must have the same members"
        )


def _noun(noun: str, field: str | None) -> str:
    return f"no {noun}" if field is None else f"the {noun} {quoted(field)}"


def _label(value: Any) -> Any:
    """Return a true label; a truth value is the name of a class, and never an index."""
    return str(value) if isinstance(value, bool) else value


class _ClassProbabilities:
    """The probabilities of the classes, answer by answer, and what is worth a warning."""

    def __init__(self, classes: _LabelTokens, style: str, options: AnswerOptions) -> None:
        self._classes = classes
        self._are_scores = style == SCORES
        self._options = options
        self._missing = options.missing or ("refuse" if self._are_scores else OTHER)
        self.class_names = classes.names
        if self._missing == OTHER:
            if OTHER in classes.names:
                raise InvalidInput(
                    f"a label is called {OTHER!r}, as is the class for all that is no label",
                    Remedy("missing", "refuse", "or rename the label"),
                )
            self.class_names = (*classes.names, OTHER)
        self._values = array("d")
        self._n_reported = [0] * len(classes.names)  # answers that report each label
        self._n_answers = self._n_incomplete = 0
        self._unreported_mass = 0.0  # of all answers that do not report a label, the largest
        self._mass = 0.0  # of labels, over all answers
        self._other_tokens: dict[str, float] = {}

    def array(self) -> np.ndarray:
        """Return the probabilities of all answers, (answers, K)."""
        return np.frombuffer(self._values).reshape(-1, len(self.class_names))

    def add(self, answer: Answer) -> None:
        """Add the probabilities of an answer."""
        probs, reported = self._label_probabilities(answer)
        total = sum(probability for _, probability in answer)
        if total > 1 + TOLERANCE:
            advice = "classes must exclude each other" if self._are_scores else "they are damaged"
            raise InvalidInput(f"the probabilities sum to {total:.6g}, more than 1; {advice}")
        mass = sum(probs)
        self._n_answers += 1
        self._mass += mass
        for k, is_reported in enumerate(reported):
            self._n_reported[k] += is_reported
        if not all(reported):
            self._n_incomplete += 1
            self._unreported_mass = max(self._unreported_mass, 1 - total)
        if self._missing == OTHER:
            probs.append(max(0.0, 1 - mass))
        else:
            self._check_mass(mass, reported)
        scale = sum(probs)  # 1 but for rounding, unless the labels are rescaled
        self._values.extend(p / scale for p in probs)

    def _label_probabilities(self, answer: Answer) -> tuple[list[float], list[bool]]:
        """Return the probability of each label, and whether the answer reports it."""
        probs = [0.0] * len(self._classes.names)
        reported = [False] * len(probs)
        tokens = set()
        for token, probability in answer:
            k = self._classes.class_of(token)
            if k is None:
                self._count_other(token, probability)
                continue
            if token in tokens:
                raise InvalidInput(f"{quoted(token)} occurs twice")
            tokens.add(token)
            probs[k] += probability
            reported[k] = True
        return probs, reported

    def _check_mass(self, mass: float, reported: list[bool]) -> None:
        if self._missing == "refuse":
            names = [
                name for name, has in zip(self._classes.names, reported, strict=True) if not has
            ]
            if self._are_scores and names:
                raise InvalidInput(
                    f"there is no score of {quoted_names(names)}; call the pipeline with "
                    "top_k=None for the scores of all labels",
                    Remedy("missing", OTHER, "for a further class"),
                )
            if mass < self._options.min_mass:
                raise InvalidInput(
                    f"the labels have {mass:.3g} of the probability, less than "
                    f"{self._options.min_mass:g}",
                    Remedy("missing", OTHER, "to keep the rest as a class"),
                    Remedy("missing", "renormalize", "for probabilities given a label"),
                )
        if mass == 0:
            raise InvalidInput(
                "no label has any probability", Remedy("missing", OTHER, "to keep it as a class")
            )

    def _count_other(self, token: str, probability: float) -> None:
        if token in self._other_tokens or len(self._other_tokens) < _MOST_TOKENS:
            self._other_tokens[token] = self._other_tokens.get(token, 0.0) + probability

    def check(self) -> None:
        """Raise if no answer has a label; warn of labels that answers do not report."""
        ranked = sorted(self._other_tokens, key=lambda token: -self._other_tokens[token])
        most_likely = f"the most likely other tokens are {quoted_names(ranked[:_SHOWN_TOKENS])}"
        name = self._options.names.tokens
        remedy = Remedy(name, ..., "to say which tokens mean which label")
        if not any(self._n_reported):
            raise InvalidInput(f"no answer has one of the labels; {most_likely}", remedy)
        mean_mass = self._mass / self._n_answers
        if mean_mass < _LITTLE_MASS:
            validate.warn(
                f"the labels have {percent(mean_mass)} of the probability on average; "
                f"{most_likely}",
                remedy,
            )
        if self._n_incomplete:
            validate.warn(self._unreported_text())

    def _unreported_text(self) -> str:
        """Return how many answers do not report all labels, and what follows."""
        names = zip(self._classes.names, self._n_reported, strict=True)
        never = [name for name, count in names if not count]
        never_text = f" ({quoted_names(never)} in none)" if never else ""
        place = f", and what it has is in {OTHER!r}" if self._missing == OTHER else ""
        return (
            f"{percent(self._n_incomplete / self._n_answers)} of the answers do not report all "
            f"labels{never_text}; the probability of such a label is taken as 0{place}; it is at "
            f"most {significant(max(0.0, self._unreported_mass))}, which the answers do not report"
        )
