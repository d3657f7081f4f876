"""The uncertainty of every row of a file, in constant memory.

Threads read chunks of rows ahead while others are decomposed. Scored rows are stored in parts, in
a hidden folder beside the output, so that an interrupted run can resume after the last part.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from queue import Full, Queue
from threading import Event
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._fields import class_text
from scorewise._files import (
    check_not_input,
    file_digest_in_background,
    file_versions,
    holds_only,
    is_real_file,
    is_real_folder,
    locked,
    remove_leftovers,
    replacing,
)
from scorewise._json import dumps
from scorewise._members import Members
from scorewise._progress import bar
from scorewise._tables import Columns, check_table_path, input_summary, row_column, write_batches
from scorewise._text import quoted
from scorewise.decompose import COMPONENTS, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.io._formats import read_as, read_predictions
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions
from scorewise.rules import RuleLike, ScoringRule, get_rules

_PART_BYTES = 256 << 20  # of input between two points from which a run can resume
_MOST_ROWS = 1 << 20  # of a part

_READERS = 2  # threads, as decoding Parquet keeps a core busy; each reads a range of rows
_RANGE_BYTES = 64 << 20
_AHEAD = 12  # chunks of a range that are read before they are needed
_POLL = 0.1  # seconds between checks whether a thread should stop

_SETTINGS = "settings.json"
_KIND = "progress of scorewise.score_file"
_FILE = re.compile(r"settings\.json|[0-9]{15}\.part")
_LEFTOVER = re.compile(rf"\.({_FILE.pattern})\.[0-9a-f]{{8}}\.partial")
_DIGEST_BYTES = hashlib.sha256().digest_size


@runtime_checkable
class MemberTransform(Protocol):
    """What changes the members of rows before they are scored, such as a calibration."""

    def transform(self, predictions: Samples) -> Samples:
        """Return the changed members."""

    def to_dict(self) -> dict[str, Any]:
        """Return a description that JSON can hold."""


@dataclass(frozen=True)
class RowScores:
    """The scores of rows, as columns of a table, and what makes them the same another time.

    Use it to score chunks of rows elsewhere than in :func:`scorewise.score_file`, which uses it.

    Parameters
    ----------
    rules : mapping of str to ScoringRule
    normalize : bool
        Rescale probabilities to sum to 1.
    calibration : Calibration, optional
        The members are transformed by it first.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> scores = sw.io.RowScores({"log": sw.get_rule("log")})
    >>> chunk = sw.io.Predictions(np.full((2, 3, 2), 0.5))
    >>> list(scores.columns(chunk, first_row=10))
    ['row', 'total_log', 'aleatoric_log', 'epistemic_log']
    """

    rules: Mapping[str, ScoringRule]
    normalize: bool = False
    calibration: MemberTransform | None = None

    def __post_init__(self) -> None:
        if not self.rules:
            raise InvalidInput("there are no rules; pass at least one")
        if self.calibration is not None and not isinstance(self.calibration, MemberTransform):
            raise InvalidInput(
                f"calibration must be a Calibration, not {quoted(self.calibration)}; "
                "scorewise.load_calibration reads one from a file"
            )

    @property
    def names(self) -> list[str]:
        """The names of the columns of scores."""
        return [f"{component}_{rule}" for rule in self.rules for component in COMPONENTS]

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a chunk that are needed besides the members."""
        return frozenset({"ids"})

    @property
    def has_settings(self) -> bool:
        """Whether the settings identify the scores; the name of a user-defined rule does not."""
        return all(map(_is_storable, self.rules.values()))

    def check_classes(self, predictions: Predictions) -> None:
        """Raise if a rule does not fit the classes of the ``predictions``."""
        for rule in self.rules.values():
            rule.for_classes(predictions.class_names).check_classes(predictions.shape[-1])

    def settings(self) -> dict[str, Any]:
        """Return rules, ``normalize`` and the digest of the calibration, as JSON can hold them."""
        settings: dict[str, Any] = {
            "rules": {name: _rule_in_metadata(rule) for name, rule in self.rules.items()},
            "normalize": self.normalize,
        }
        if self.calibration is not None:
            content = dumps(self.calibration.to_dict()).encode()
            settings["calibration_sha256"] = hashlib.sha256(content).hexdigest()
        return settings

    def decompose(self, chunk: Predictions, first_row: int) -> list[Any]:
        """Return the decompositions of ``chunk``, Predictions; errors count from ``first_row``."""
        raw = chunk.raw(first_row, self.normalize)
        if self.calibration is None:
            results = decompose(Members(raw, chunk.weights), self.rules)
        else:
            samples = Samples.of(raw, chunk.weights)
            results = decompose(self.calibration.transform(samples), self.rules)
        return list(results.values())

    def columns(self, chunk: Predictions, first_row: int) -> dict[str, np.ndarray]:
        """Return ids or row numbers from ``first_row`` on, and the scores of ``chunk``."""
        return self.table(chunk, first_row, self.decompose(chunk, first_row))

    def counts(self, columns: Columns) -> dict[str, np.ndarray]:
        """Return no counts of the ``columns``: scores are summarised by their distribution."""
        return {}

    def table(
        self, chunk: Predictions, first_row: int, results: Iterable[Any]
    ) -> dict[str, np.ndarray]:
        """Return what :meth:`columns` returns, from decompositions that are already there.

        ``results`` are those of ``chunk``, whose first row is ``first_row``, one for each rule.
        """
        columns = row_column(chunk.ids, first_row, len(chunk))
        for rule, result in zip(self.rules, results, strict=True):
            for component in COMPONENTS:
                columns[f"{component}_{rule}"] = to_numpy(getattr(result, component))
        return columns


@dataclass(frozen=True)
class ScoredFile:
    """The file written by :func:`scorewise.score_file`.

    Attributes
    ----------
    path : Path
    n_rows : int
    columns : tuple of str
    metadata : dict
        The metadata in the file: version, rules, name and digest of the input, …
    resumed : int
        Number of rows that were scored by an earlier, interrupted run.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> sw.write_predictions(folder / "test.npz", np.full((100, 5, 3), 1 / 3))
    >>> scored = sw.score_file(folder / "test.npz", "log", folder / "uncertainty.csv")
    >>> scored.path.name, scored.n_rows, scored.metadata["rules"]
    ('uncertainty.csv', 100, {'log': 'log'})
    """

    path: Path
    n_rows: int
    columns: tuple[str, ...]
    metadata: dict[str, Any]
    resumed: int


@validate.takes_options_of(read_predictions)
def score_file(
    path: str | os.PathLike[str],
    rules: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
    out: str | os.PathLike[str],
    *,
    calibration: MemberTransform | None = None,
    normalize: bool = False,
    resume: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> ScoredFile:
    """Write the uncertainty of every row of a file to another file, and return what was written.

    Use it for saved predictions of any size: memory stays constant. Progress is stored every
    256 MiB of input, in the hidden folder ``.NAME.parts`` beside the output. An interrupted run
    resumes from there when it is started again, and the result is the same, byte for byte; stored
    rows that have been damaged are scored again.

    Parameters
    ----------
    path : path
        A file for :func:`scorewise.read_predictions`, or a folder of Parquet files.
    rules : str, ScoringRule, or several in a list or a mapping
        As for :func:`scorewise.decompose`.
    out : path
        A ``.parquet``, ``.arrow``, ``.feather`` or ``.csv`` file. Its columns are ``id`` (or
        ``row``, where the input has no ids) and one for each rule and component, such as
        ``total_log``; the key ``scorewise`` of its metadata has the version, the rules and the
        input's digest (a CSV file has no metadata).
    calibration : Calibration, optional
        Made by :func:`scorewise.fit_calibration`; the members are transformed by it first.
    normalize : bool
        Rescale probabilities to sum to 1.
    resume : bool
        Resume an interrupted run with the same input and options.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        As for :func:`scorewise.read_predictions`: ``class_names``, ``member_axis``, …

    Returns
    -------
    ScoredFile

    Raises
    ------
    InvalidInput
        If the input is invalid; the message names file, row group, row and member. If the hidden
        folder for progress holds anything that scorewise did not put there; nothing is changed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pyarrow.parquet as pq, scorewise as sw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(100, 5))
    >>> sw.write_predictions(folder / "test.parquet", probs)
    >>> scored = sw.score_file(folder / "test.parquet", ["log"], folder / "U.parquet")
    >>> scored.columns
    ('row', 'total_log', 'aleatoric_log', 'epistemic_log')
    >>> pq.read_table(scored.path).num_rows
    100
    """
    source, out = Path(path), Path(out)
    scores = RowScores(get_rules(rules), normalize, calibration)
    check_table_path(out)
    if options.get("class_names") is not None:
        options["class_names"] = tuple(map(class_text, options["class_names"]))
    predictions = read_as(source, ReadOptions(**options, reads_labels=False))
    check_not_input(out, source)
    scores.check_classes(predictions)
    versions_before = file_versions(source)
    metadata = {**input_summary(source, predictions.shape), **scores.settings()}
    settings = {
        **metadata,
        "source": str(source.resolve()),
        "file_versions": versions_before,
        "read": {name: repr(value) for name, value in sorted(options.items())},
    }
    # A user-defined rule is identified by its name alone, which another rule may have later.
    resume = resume and scores.has_settings
    with (
        ScoredParts.for_output(out, settings, resume=resume) as parts,
        file_digest_in_background(source) as sha,
    ):
        resumed = parts.n_rows()
        with bar("scoring", len(predictions), progress) as advance:
            advance(resumed)
            for n in _score_rows(predictions, scores, parts, resumed):
                advance(n)
        metadata["sha256"] = sha.result()
        if file_versions(source) != versions_before:
            raise InvalidInput(f"{source.name!r} has changed while it was read; score it again")
        columns = write_batches(out, parts.batches(len(predictions)), metadata)
    return ScoredFile(out, len(predictions), tuple(columns), metadata, resumed)


def row_uncertainties(
    predictions: Predictions,
    rule: RuleLike,
    component: str = "total",
    *,
    normalize: bool = False,
    progress: bool | None = None,
) -> np.ndarray:
    """Return the uncertainty of every row, ``(N,)``, reading a chunk of rows at a time.

    Use it for files that do not fit in memory.

    Parameters
    ----------
    predictions : Predictions
    rule : rule
        As for :func:`scorewise.decompose`.
    component : {"total", "aleatoric", "epistemic"}
    normalize : bool
        Rescale probabilities to sum to 1.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.

    Returns
    -------
    array (N,)

    Raises
    ------
    InvalidInput
        If the predictions are not probabilities; the message says where.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.io import row_uncertainties
    >>> row_uncertainties(sw.io.Predictions(np.full((2, 3, 4), 0.25)), "zero-one")
    array([0.75, 0.75])
    """
    validate.choice(component, "component", COMPONENTS)
    scores = RowScores(get_rules(rule), normalize)
    values = []
    with bar("scoring", len(predictions), progress) as advance:
        for _, chunk, (result,) in decomposed_chunks(predictions, scores):
            values.append(to_numpy(getattr(result, component)))
            advance(len(chunk))
    return np.concatenate(values)


def _rule_in_metadata(rule: ScoringRule) -> str | dict[str, Any]:
    """Return a rule as a JSON value; only the name of a user-defined rule."""
    return rule.to_json() if _is_storable(rule) else rule.name


def _is_storable(rule: ScoringRule) -> bool:
    try:
        rule.to_json()
    except InvalidInput:
        return False
    return True


def _score_rows(
    predictions: Predictions, scores: RowScores, parts: ScoredParts, start: int
) -> Iterator[int]:
    """Score the rows from ``start`` on into parts; yield the number of rows of each chunk."""
    _, m, k = predictions.shape
    part_rows = min(_MOST_ROWS, max(1, _PART_BYTES // (m * k * predictions.dtype.itemsize)))
    pending: list[Columns] = []
    n, row = 0, start
    if start == len(predictions) and start:
        return
    # Parts end where chunks do, so that a resumed run has the same chunks and results.
    for first_row, chunk, results in decomposed_chunks(predictions, scores, start):
        pending.append(scores.table(chunk, first_row, results))
        n += len(chunk)
        yield len(chunk)
        if n >= part_rows:
            parts.add(row, pending)
            row, pending, n = first_row + len(chunk), [], 0
    if pending:
        parts.add(row, pending)


def decomposed_chunks(
    predictions: Predictions, scores: RowScores, start: int = 0
) -> Iterator[tuple[int, Predictions, list[Any]]]:
    """Yield for each chunk the number of its first row, the chunk and its decompositions."""
    row = start
    for chunk in _chunks_ahead(predictions, start):
        try:
            results = scores.decompose(chunk, row)
        except InvalidInput as error:
            raise predictions.with_location(error) from None
        yield row, chunk, results
        row += len(chunk)


# -- reading ahead ---------------------------------------------------------------------------------


def _chunks_ahead(predictions: Predictions, start: int) -> Iterator[Predictions]:
    """Yield the chunks of predictions from ``start`` on, with ids, read ahead by threads."""
    stop = Event()
    with ThreadPoolExecutor(_READERS) as readers:
        try:
            range_readers = [
                _ReadAhead(predictions, first, last, stop)
                for first, last in _row_ranges(predictions, start)
            ]
            for reader in range_readers[:_READERS]:
                reader.begin(readers)
            for i, reader in enumerate(range_readers):
                yield from reader.chunks()
                if i + _READERS < len(range_readers):
                    range_readers[i + _READERS].begin(readers)
        finally:
            stop.set()


def _row_ranges(predictions: Predictions, start: int) -> list[tuple[int, int]]:
    """Return ranges of rows between points where reading can start, of at least 64 MiB each."""
    _, m, k = predictions.shape
    min_rows = _RANGE_BYTES // (m * k * predictions.dtype.itemsize)
    cuts = [start]
    for point in predictions.row_group_starts:
        if point - cuts[-1] >= max(1, min_rows):
            cuts.append(point)
    return list(pairwise([*cuts, len(predictions)]))


class _ReadAhead:
    """A range of rows, whose chunks are read by a thread."""

    def __init__(self, predictions: Predictions, first: int, last: int, stop: Event) -> None:
        self._predictions, self._rows, self._stop = predictions, (first, last), stop
        self._read: Queue[Predictions | None] = Queue(_AHEAD)  # None after the last
        self._reading: Future[None] | None = None

    def begin(self, readers: ThreadPoolExecutor) -> None:
        self._reading = readers.submit(self._fill)

    def _fill(self) -> None:
        first, last = self._rows
        try:
            fields = self._predictions.member_fields | {"ids"}
            for chunk in self._predictions.chunks(start=first, stop=last, fields=fields):
                self._put(chunk)
        finally:
            self._put(None)

    def _put(self, chunk: Predictions | None) -> None:
        while not self._stop.is_set():
            with suppress(Full):
                return self._read.put(chunk, timeout=_POLL)

    def chunks(self) -> Iterator[Predictions]:
        while (chunk := self._read.get()) is not None:
            yield chunk
        if self._reading is not None:
            self._reading.result()  # raises the error of the thread


# -- stored progress -------------------------------------------------------------------------------


class ScoredParts:
    """Tables of scored rows from 0 on, one file after the other, in a hidden folder.

    Each file is written completely or not at all, and ends in its digest; an interrupted run
    resumes after the last one that is undamaged. Only a folder with nothing but such files is used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    @contextmanager
    def for_output(
        cls, path: Path, settings: dict[str, Any], *, resume: bool
    ) -> Iterator[ScoredParts]:
        """Yield the stored parts of the output ``path``, if they were made with these settings.

        Others are deleted. The folder is deleted at the end, or on an error before the first part.
        """
        folder = path.with_name(f".{path.name}.parts")
        parts = cls(folder)
        while True:
            with suppress(FileExistsError):
                folder.mkdir()
            if os.path.lexists(folder) and not is_real_folder(folder):
                raise parts._not_ours()
            with locked(folder) as exists:
                if not exists:  # another run of the same work has just ended
                    continue
                parts._prepare(dumps({"kind": _KIND, **settings}, indent=1), resume)
                try:
                    yield parts
                except BaseException:
                    if not parts._file(0).is_file():  # there is nothing to resume
                        parts._delete()
                    raise
                parts._delete()
                return

    def _prepare(self, settings: str, resume: bool) -> None:
        """Delete files that were made with other settings; raise if there are any of the user's."""
        self._check_ours()
        settings_file = self._folder / _SETTINGS
        if settings_file.exists():
            if resume and settings_file.read_text(encoding="utf-8") == settings:
                return
            self._delete_parts()
        with replacing(settings_file) as partial:
            partial.write_text(settings, encoding="utf-8")

    def _check_ours(self) -> None:
        """Raise if the folder holds anything that scorewise did not put there.

        Parts without settings are not ours: they are deleted before the settings.
        """
        names = os.listdir(self._folder)
        for name in names:
            path = self._folder / name
            leftover = _LEFTOVER.fullmatch(name)
            if not (
                is_real_folder(path) and holds_only(path, leftover[1])
                if leftover
                else _FILE.fullmatch(name) and is_real_file(path)
            ):
                raise self._not_ours(name)
        if files := sorted(filter(_FILE.fullmatch, names)):
            try:
                stored = json.loads((self._folder / _SETTINGS).read_bytes())
                is_ours = stored["kind"] == _KIND
            except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
                is_ours = False
            if not is_ours:
                raise self._not_ours(files[-1])

    def _not_ours(self, name: str | None = None) -> InvalidInput:
        thing = "it" if name is None else quoted(name)
        return InvalidInput(
            f"{str(self._folder)!r} is where progress would be stored, and {thing} is not "
            "scorewise's; nothing was changed: move it away, or write to another file"
        )

    def _delete_parts(self) -> None:
        """Delete all files but the settings, and what killed runs have left."""
        for name in os.listdir(self._folder):
            if leftover := _LEFTOVER.fullmatch(name):
                remove_leftovers(self._folder / leftover[1])
            elif name != _SETTINGS:
                (self._folder / name).unlink()

    def _delete(self) -> None:
        """Delete the folder, the settings last: without them no part is recognised as ours."""
        self._delete_parts()
        (self._folder / _SETTINGS).unlink()
        self._folder.rmdir()

    def _file(self, first_row: int) -> Path:
        return self._folder / f"{first_row:015d}.part"

    def n_rows(self) -> int:
        """Return the number of rows that are stored, up to the first damaged part."""
        return sum(map(_n_rows, self._batches()))

    def batches(self, n_rows: int) -> Iterator[Columns]:
        """Yield all rows that are stored, a part at a time; raise unless there are ``n_rows``."""
        n, batch = 0, None
        for batch in self._batches():
            n += _n_rows(batch)
            yield batch
        if batch is None or n != n_rows:
            raise OSError(f"the progress in {str(self._folder)!r} is damaged; repeat the command")

    def _batches(self) -> Iterator[Columns]:
        """Yield the rows of all parts before the first that is missing or damaged."""
        row, n = 0, 1
        while n and (content := self._content(row)) is not None:
            batch = _unpacked(content)
            yield batch
            n = _n_rows(batch)
            row += n

    def _content(self, first_row: int) -> memoryview | None:
        """The content of a part without its digest; None if it is missing or damaged."""
        try:
            stored = memoryview(self._file(first_row).read_bytes())
        except FileNotFoundError:
            return None
        content, digest = stored[:-_DIGEST_BYTES], stored[-_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def add(self, first_row: int, batches: list[Columns]) -> None:
        """Store the next rows."""
        columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        content = _packed(columns)
        with replacing(self._file(first_row)) as partial:
            partial.write_bytes(content + hashlib.sha256(content).digest())


def _n_rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _packed(columns: Columns) -> bytes:
    """Return columns as bytes: their names, then each in the format of ``.npy``; text as JSON."""
    file = BytesIO()
    for values in (np.array([*columns], object), *columns.values()):
        if values.dtype == object:
            values = np.frombuffer(json.dumps(values.tolist()).encode(), np.uint8)
        np.save(file, values, allow_pickle=False)
    return file.getvalue()


def _unpacked(content: memoryview) -> Columns:
    """Return the columns that :func:`_packed` was passed; bytes are text."""
    file = BytesIO(content)

    def load() -> np.ndarray:
        values: np.ndarray = np.load(file, allow_pickle=False)
        if values.dtype == np.uint8:
            return np.array(json.loads(values.tobytes()), object)
        return values

    return {name: load() for name in load()}
