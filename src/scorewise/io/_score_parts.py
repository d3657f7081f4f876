"""Work on many rows that is kept as far as it has come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from scorewise._files import locked, replacing
from scorewise._json import dumps

_PLAN = "plan.json"


class Parts:
    """Tables of the rows from 0 on, one file after the other, in a hidden folder.

    A file is there whole or not at all, so that work that is cut off goes on after the last.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    @contextmanager
    def beside(cls, path: Path, plan: dict[str, Any], *, resume: bool) -> Iterator[Parts]:
        """Parts of what will be ``path``; those of another plan are thrown away.

        The folder goes when all is done, and stays when something goes wrong after the first part.
        """
        folder = path.with_name(f".{path.name}.parts")
        while True:
            folder.mkdir(exist_ok=True)
            with locked(folder) as is_there:
                if not is_there:  # another run of the same work has just come to its end
                    continue
                parts = cls(folder)
                parts._prepare(path, dumps(plan, indent=1), resume)
                try:
                    yield parts
                except BaseException:
                    if not parts._file(0).is_file():  # there is nothing to go on from
                        shutil.rmtree(folder)
                    raise
                shutil.rmtree(folder)
                return

    def _prepare(self, path: Path, plan: str, resume: bool) -> None:
        """Keep what belongs to this plan, and nothing else."""
        for left in path.parent.glob(f".{escape(path.name)}.????????.partial"):
            left.unlink()  # by a run that was killed in its last moment
        kept = self._folder / _PLAN
        if resume and kept.is_file() and kept.read_text(encoding="utf-8") == plan:
            return
        for file in self._folder.iterdir():
            file.unlink()
        with replacing(kept) as partial:
            partial.write_text(plan, encoding="utf-8")

    def _file(self, first_row: int) -> Path:
        return self._folder / f"{first_row:015d}.arrow"

    def done(self) -> int:
        """How many rows there are already, up to a part that is damaged, if one is."""
        row = 0
        with suppress(pa.ArrowException, OSError):  # the machine went down in the middle of it
            for batch in self.batches():
                row += batch.num_rows
        return row

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows that are there, a part at a time."""
        row, n = 0, 1
        while n and (file := self._file(row)).is_file():
            with pa.ipc.open_file(str(file)) as reader:
                found = [reader.get_batch(i) for i in range(reader.num_record_batches)]
            yield from found
            n = sum(batch.num_rows for batch in found)
            row += n

    def add(self, first_row: int, batches: list[pa.RecordBatch]) -> None:
        """Keep the next rows."""
        with (
            replacing(self._file(first_row)) as partial,
            pa.ipc.new_file(str(partial), batches[0].schema) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
