"""Total, aleatoric and epistemic uncertainty of every row of a file, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorewise._array import to_numpy
from scorewise._progress import bar
from scorewise._version import __version__
from scorewise.decompose import COMPONENTS, RULES, RuleLike, decompose_received, named_rules
from scorewise.errors import InvalidInput
from scorewise.io import Predictions, read_predictions
from scorewise.io._digests import digesting, stamp
from scorewise.io._score_ahead import chunks_ahead
from scorewise.io._tables import check_table_path, pyarrow, row_names, write_table
from scorewise.rules import ScoringRule

if TYPE_CHECKING:
    from scorewise.io._score_parts import Parts

_PART_BYTES = 256 << 20  # of input between two points from which work can go on
_MOST_ROWS = 1 << 20  # of a part


@dataclass(frozen=True)
class Scored:
    """What :func:`scorewise.score_file` has written.

    Attributes
    ----------
    path : Path
    n_rows : int
    columns : tuple of str
    metadata : dict
        What the file's own metadata says: version, rules, name and digest of the input, …
    resumed : int
        Rows that an earlier run had scored already.
    """

    path: Path
    n_rows: int
    columns: tuple[str, ...]
    metadata: dict[str, Any]
    resumed: int


def score_file(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    rules: Iterable[RuleLike] | Mapping[str, RuleLike] = RULES,
    *,
    class_names: Sequence[str] | None = None,
    normalize: bool = False,
    resume: bool = True,
    progress: bool | None = None,
) -> Scored:
    """Write the uncertainty of every row of a file to another, in constant memory.

    Use it for saved predictions of any size. Rows are read, scored and forgotten; what is done is
    kept every 256 MiB of input, and a run that was cut off goes on from there when it is started
    again, to the very same bytes.

    Parameters
    ----------
    source : path
        A file for :func:`scorewise.read_predictions`, or a folder of Parquet files.
    out : path
        A ``.parquet``, ``.arrow``, ``.feather`` or ``.csv`` file. Its columns are ``id`` (or
        ``row``, where the input has no ids) and one for each rule and component, such as
        ``total_log``; the key ``scorewise`` of its metadata has the version, the rules and the
        input's digest (but for CSV, which has no metadata).
    rules : several rules in a list or mapping
        As for :func:`scorewise.decompose`.
    class_names : sequence of str, optional
        As for :func:`scorewise.read_predictions`.
    normalize : bool
        Rescale probabilities to sum to 1.
    resume : bool
        Go on where an earlier run of the same work was cut off.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.

    Returns
    -------
    Scored

    Raises
    ------
    InvalidInput
        If the input is not what it must be; the message names file, row group, row and member.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pyarrow.parquet as pq, scorewise as sw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(100, 5))
    >>> sw.write_predictions(folder / "test.parquet", probs)
    >>> scored = sw.score_file(folder / "test.parquet", folder / "U.parquet", ["log"])
    >>> scored.columns
    ('row', 'total_log', 'aleatoric_log', 'epistemic_log')
    >>> pq.read_table(scored.path).num_rows
    100
    """
    source, out = Path(source), Path(out)
    named = named_rules([rules] if isinstance(rules, str | ScoringRule) else rules)
    if not named:
        raise InvalidInput("there is no rule to score by")
    check_table_path(out, source)
    predictions = read_predictions(source, class_names)
    for rule in named.values():
        rule.check_classes(predictions.shape[-1])
    before = stamp(source)
    told = {
        **described(predictions, source),
        "rules": {name: rule_described(rule) for name, rule in named.items()},
        "normalize": normalize,
    }
    from scorewise.io._score_parts import Parts

    plan = {**told, "source": str(source.resolve()), "stamp": before}
    # of a rule of one's own only the name is known, which may be that of another one tomorrow
    resume = resume and all(map(_is_storable, named.values()))
    with Parts.beside(out, plan, resume=resume) as parts, digesting(source) as digest:
        resumed = parts.done()
        with bar("scoring", len(predictions), progress) as advance:
            advance(resumed)
            for n in _work(predictions, named, parts, resumed, normalize=normalize):
                advance(n)
        told["sha256"] = digest.result()
        if stamp(source) != before:
            raise InvalidInput(f"{source.name!r} has changed while it was read; score it again")
        if parts.done() != len(predictions):
            raise OSError(f"what was kept of {out.name!r} has been damaged; give the command again")
        write_table(out, parts.batches(), told)
        columns = next(parts.batches()).schema.names
    return Scored(out, len(predictions), tuple(columns), told, resumed)


def described(predictions: Predictions, source: Path) -> dict[str, Any]:
    """What results say of the predictions that they came from."""
    n, m, k = predictions.shape
    return {"version": __version__, "input": source.name, "rows": n, "members": m, "classes": k}


def rule_described(rule: ScoringRule) -> str | dict[str, Any]:
    """A rule as JSON can hold it; of a user's own rule the name."""
    return rule.to_json() if _is_storable(rule) else rule.name


def _is_storable(rule: ScoringRule) -> bool:
    try:
        rule.to_json()
    except InvalidInput:
        return False
    return True


def _work(
    predictions: Predictions,
    rules: Mapping[str, ScoringRule],
    parts: Parts,
    start: int,
    *,
    normalize: bool,
) -> Iterator[int]:
    """Score the rows that are left; the numbers of rows that are done, as they are done."""
    _, m, k = predictions.shape
    enough = min(_MOST_ROWS, max(1, _PART_BYTES // (m * k * predictions.dtype.itemsize)))
    waiting: list[Any] = []
    n, row = 0, start
    if start == len(predictions) and start:
        return
    # Parts end where chunks do, so that work that goes on meets the same chunks, bit for bit.
    for first_row, batch in _scored_batches(predictions, rules, start, normalize=normalize):
        waiting.append(batch)
        n += batch.num_rows
        yield batch.num_rows
        if n >= enough:
            parts.add(row, waiting)
            row, waiting, n = first_row + batch.num_rows, [], 0
    if waiting:
        parts.add(row, waiting)


def _scored_batches(
    predictions: Predictions,
    rules: Mapping[str, ScoringRule],
    start: int = 0,
    *,
    normalize: bool = False,
) -> Iterator[tuple[int, Any]]:
    """The first row of every chunk, and its uncertainties as a record batch."""
    pa = pyarrow()
    for first_row, part, results in decomposed_chunks(predictions, rules, start, normalize):
        name, ids = row_names(part.ids, first_row, len(part))
        columns = {name: ids}
        for rule, result in zip(rules, results, strict=True):
            for component in COMPONENTS:
                columns[column_name(rule, component)] = to_numpy(getattr(result, component))
        yield first_row, pa.record_batch(columns)


def column_name(rule: str, component: str) -> str:
    """The column of a rule's component."""
    return f"{component}_{rule}"


def decomposed_chunks(
    predictions: Predictions,
    rules: Mapping[str, ScoringRule],
    start: int = 0,
    normalize: bool = False,
) -> Iterator[tuple[int, Predictions, list[Any]]]:
    """Chunks of rows with the number of the first, and their decompositions under each rule."""
    row = start
    for part in chunks_ahead(predictions, start):
        try:
            given = part.unchecked(row, normalize)
            results = decompose_received(given, part.weights, list(rules.values()))
        except InvalidInput as error:
            raise predictions.placed(error) from None
        yield row, part, results
        row += len(part)
