"""A fitted model applied to the rows of Dask collections, by the workers that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, is_dask
from scorewise._member_checks import MemberChecks
from scorewise.accumulate import Accumulator
from scorewise.errors import InvalidInput
from scorewise.models import SamplingOptions, make_sampler, rows_from
from scorewise.scale._tree import computed

# Models are rarely safe to call from several threads, and predict on several threads themselves.
_one_at_a_time = Lock()


def predict_blocks(
    model: Any, X: Any, options: SamplingOptions, batch_size: int | None
) -> tuple[Array, np.ndarray | None]:
    """Return the probabilities of a model's members as a lazy Dask array, and their weights.

    ``scorewise.predict_samples`` calls it for a Dask array or frame.

    Parameters
    ----------
    model : fitted model
    X : Dask array (N, ...) or frame
        The rows, in chunks.
    options : SamplingOptions
    batch_size : int, optional
        Rows at a time on a worker.

    Returns
    -------
    Dask array (N, M, K) or (N, L, M, K), array (M,) or None
    """
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    rows = _BlocksOfX.of(X)
    lengths = rows.lengths()
    sampling = _Sampling(model, options, batch_size)
    first = sampling.first_row(rows, lengths)
    token = uuid4().hex
    name, constant = f"predict-samples-{token}", (f"model-{token}",)
    graph: dict[tuple[Any, ...], Any] = {constant: sampling}  # once in the graph
    zeros = (0,) * (first.ndim - 1)
    starts = [0, *accumulate(lengths)]
    for i, block in enumerate(rows.blocks):
        shape = [lengths[i], *first.shape[1:]]
        graph[(name, i, *zeros)] = (_predict, constant, block.key, starts[i], shape, first.dtype)
    probs = da.Array(
        HighLevelGraph.from_collections(name, graph, dependencies=rows.blocks),
        name,
        chunks=(lengths, *((n,) for n in first.shape[1:])),
        meta=np.empty((0,) * first.ndim, first.dtype),
    )
    return probs, make_sampler(model, options).weights


def predict_into(
    model: Any, X: Any, options: SamplingOptions, batch_size: int | None, into: Accumulator
) -> list[str]:
    """Add a model's members to an accumulator, and return what is wrong with them, in sentences.

    ``scorewise.predict_samples`` calls it for a Dask array or frame. The blocks are decomposed on
    the workers, so that accumulators of rows return, not members. The members are added all
    together, or not at all.
    """
    import dask

    rows = _BlocksOfX.of(X)
    make_sampler(model, options)  # raises before any work is done
    sampling = dask.delayed(_Sampling(model, options, batch_size), traverse=False)
    empty = dask.delayed(into.empty(), traverse=False)
    decompose = dask.delayed(_decompose)
    tasks = [
        decompose(sampling, empty, into.dtype, block, *place, is_first=i == 0)
        for i, (block, place) in enumerate(zip(rows.blocks, rows.places(), strict=True))
    ]
    results = computed(*tasks)
    into.merge_rows([part for part, _ in results])
    checks = MemberChecks()
    for _, of_block in results:
        checks.join(of_block)
    return checks.problems()


@dataclass(frozen=True)
class _BlocksOfX:
    """The rows of a Dask array or frame, in blocks."""

    X: Any
    blocks: Sequence[Any]  # Delayed
    chunks: tuple[int, ...] | None  # None for a frame, until they are counted

    @classmethod
    def of(cls, X: Any) -> _BlocksOfX:
        if is_dask(X):
            validate.known_chunks(X, "X")
            if not X.ndim:
                raise InvalidInput("X is a single number; it must have rows")
            if max(X.numblocks[1:], default=1) > 1:
                validate.warn(
                    f"X has its columns in {max(X.numblocks[1:])} chunks, and a model needs all "
                    "columns of a row; they are put into one chunk, which moves all data. Save "
                    "the array with all columns in one chunk, or rechunk it once"
                )
                X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
            return cls(X, X.to_delayed().reshape(-1).tolist(), X.chunks[0])
        if not hasattr(X, "map_partitions") or not hasattr(X, "columns"):
            raise InvalidInput(
                f"X is a {type(X).__name__} of Dask; it must be an array or a data frame"
            )
        return cls(X, X.to_delayed(), None)

    def lengths(self) -> tuple[int, ...]:
        """Return the number of rows of each block; those of a frame are counted now."""
        if self.chunks is not None:
            return self.chunks
        import dask

        partitions = self.X.index.to_delayed()  # without the columns, where these can be skipped
        return tuple(map(int, computed(*map(dask.delayed(len), partitions))))

    def places(self) -> list[tuple[int, str]]:
        """Return the number of each block's first row, and what messages say about it."""
        if self.chunks is None:
            note = "rows are counted from the start of partition"
            return [(0, f"{note} {i}") for i in range(len(self.blocks))]
        return [(first_row, "") for first_row in accumulate((0, *self.chunks[:-1]))]


@dataclass(frozen=True)
class _Sampling:
    """A model and how to sample from it; on a worker there is one, whatever the number of rows."""

    model: Any
    options: SamplingOptions
    batch_size: int | None

    @contextmanager
    def of_block(
        self, X: Any, first_row: int
    ) -> Iterator[tuple[Iterator[np.ndarray], np.ndarray | None]]:
        """Yield the probabilities of all members, some rows at a time, and the members' weights."""
        with _one_at_a_time, rows_from(first_row):
            sampler = make_sampler(self.model, self.options)
            with closing(sampler.chunks(X, self.batch_size)) as chunks:
                yield chunks, sampler.weights

    def first_row(self, rows: _BlocksOfX, lengths: Sequence[int]) -> np.ndarray:
        """Return the probabilities of the first row, or of no rows if there are none."""
        i = next((i for i, n in enumerate(lengths) if n), 0)
        X = rows.blocks[i][:1].compute() if rows.blocks else rows.X.compute()
        with self.of_block(X, 0) as (chunks, _):
            return np.concatenate([chunk.copy() for chunk in chunks])


def _predict(
    sampling: _Sampling, X: Any, first_row: int, shape: Sequence[int], dtype: Any
) -> np.ndarray:
    """Return the probabilities of all members of a block, ``(n, M, K)``."""
    with sampling.of_block(X, first_row) as (chunks, _):
        first = next(chunks)
        if len(first) == shape[0]:
            whole = first
        else:
            whole = np.concatenate([first.copy(), *(chunk.copy() for chunk in chunks)])
    if whole.shape != tuple(shape):
        raise InvalidInput(
            f"the model returns shape {whole.shape} for the rows from {first_row} on, and must "
            f"return {tuple(shape)} as for the first row"
        )
    return whole.astype(dtype, copy=False)


def _decompose(
    sampling: _Sampling,
    empty: Accumulator,
    dtype: Any,
    X: Any,
    first_row: int,
    note: str,
    *,
    is_first: bool,
) -> tuple[Accumulator, MemberChecks]:
    """Return the accumulator of all members of a block, and checks of them.

    ``dtype`` is the precision of the accumulator that it will be merged into.
    """
    part = empty.empty()
    checks = MemberChecks()
    compared = None if is_first else np.array([], int)  # members are compared in one block
    try:
        with sampling.of_block(X, first_row) as (chunks, weights):
            watched = checks.watch(chunks, compared)
            if isinstance(dtype, np.dtype):
                watched = (chunk.astype(dtype, copy=False) for chunk in watched)
            part.update_chunks(watched, weights, check=False)
    except InvalidInput as error:
        if not note:
            raise
        raise InvalidInput(f"{error.problem} ({note})", *error.remedies) from error
    return part, checks
