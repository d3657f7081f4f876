"""Reading ahead: while some rows are worked on, the next ones are read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from queue import Full, Queue
from threading import Event

from scorewise.io import Predictions

_READERS = 2  # of different stretches of the file: to decode Parquet keeps one processor busy
_STRETCH_BYTES = 64 << 20
_AHEAD = 12  # chunks of a stretch that are read before anybody asks for them
_PATIENCE = 0.1  # seconds after which a thread looks whether it is still wanted


def chunks_ahead(predictions: Predictions, start: int) -> Iterator[Predictions]:
    """The chunks of predictions from ``start`` on, of what scoring needs, read by threads."""
    stretches = _stretches(predictions, start)
    stop = Event()
    with ThreadPoolExecutor(_READERS) as readers:
        try:
            coming = [_Coming(predictions, *one, stop) for one in stretches]
            for one in coming[:_READERS]:
                one.begin(readers)
            for i, one in enumerate(coming):
                yield from one.chunks()
                if i + _READERS < len(coming):
                    coming[i + _READERS].begin(readers)
        finally:
            stop.set()


def _stretches(predictions: Predictions, start: int) -> list[tuple[int, int]]:
    """Rows from one place where reading can begin to another, some 64 MiB of them."""
    _, m, k = predictions.shape
    enough = _STRETCH_BYTES // (m * k * predictions.dtype.itemsize)
    cuts = [start]
    for joint in predictions.joints:
        if joint - cuts[-1] >= max(1, enough):
            cuts.append(joint)
    return list(pairwise([*cuts, len(predictions)]))


class _Coming:
    """The chunks of a stretch, as they are read."""

    def __init__(self, predictions: Predictions, first: int, last: int, stop: Event) -> None:
        self._predictions, self._rows, self._stop = predictions, (first, last), stop
        self._read: Queue[Predictions | None] = Queue(_AHEAD)  # None after the last
        self._reading: Future[None] | None = None

    def begin(self, readers: ThreadPoolExecutor) -> None:
        self._reading = readers.submit(self._fill)

    def _fill(self) -> None:
        first, last = self._rows
        try:
            fields = self._predictions.scored_fields | {"ids"}
            for part in self._predictions.chunks(start=first, stop=last, fields=fields):
                self._put(part)
        finally:
            self._put(None)

    def _put(self, part: Predictions | None) -> None:
        while not self._stop.is_set():
            with suppress(Full):
                return self._read.put(part, timeout=_PATIENCE)

    def chunks(self) -> Iterator[Predictions]:
        while (part := self._read.get()) is not None:
            yield part
        if self._reading is not None:
            self._reading.result()  # raises what went wrong
