"""Invalid rows of a data set are set aside before it is used by work that writes no folder.

A pass over all rows writes those that are invalid to a folder of their own, as
:func:`scorewise.scale.write_partitions` does: one file for each partition with such rows, with the
reasons, a manifest and a summary. The data set that is used afterwards leaves these rows out, so
that all later work skips them in one way. If anything dies, the pass is resumed where it was.

The user's folder has such a folder for each check: of each data set, by what is read of it. So
commands that read different columns can share it, and those that read the same check once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from scorewise import _validate as validate
from scorewise._tables import Columns
from scorewise._text import left_out_text
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._job import (
    ON_BAD_ROWS,
    quarantine_lines,
    reasons_of,
    settings_of,
    write_partitions,
)
from scorewise.scale._labels import check_complete
from scorewise.scale._store import QUARANTINE, RESTART, Store, digest_of

if TYPE_CHECKING:
    from distributed import Client

_DIGITS = 8  # of the digest in the name of a check's folder


@dataclass(frozen=True)
class Quarantine:
    """What is to be done about invalid rows.

    Attributes
    ----------
    folder : str, path or None
        Where invalid rows are written; None if the first of them is an error.
    storage_options : dict, optional
        Of the filesystem of the folder; by default those of the data set.
    progress : bool, optional
        Whether to show a progress bar.
    """

    folder: str | os.PathLike[str] | None
    storage_options: Mapping[str, Any] | None
    progress: bool | None

    @classmethod
    def of(
        cls,
        on_bad_rows: str,
        folder: str | os.PathLike[str] | None,
        storage_options: Mapping[str, Any] | None,
        progress: bool | None,
    ) -> Quarantine:
        """Return what the arguments of a function ask for; raises unless they fit each other."""
        validate.choice(on_bad_rows, "on_bad_rows", ON_BAD_ROWS)
        if on_bad_rows == "quarantine" and folder is None:
            raise InvalidInput(
                "invalid rows that are set aside need a folder",
                Remedy("quarantine", ..., "a new folder for them"),
            )
        if on_bad_rows == "fail" and folder is not None:
            raise InvalidInput(
                "there is a folder for invalid rows, and the first of them would stop the run",
                Remedy("on_bad_rows", "quarantine", "to set them aside"),
            )
        return cls(folder, storage_options, progress)

    def valid_rows(
        self,
        client: Client,
        dataset: Dataset,
        *,
        normalize: bool,
        fields: frozenset[str],
        is_labelled: bool,
    ) -> tuple[Dataset, LeftOut]:
        """Return a data set without its invalid rows, which are in the folder; warn of them.

        Without a folder, the data set is returned as it is.

        Parameters
        ----------
        client : distributed.Client
        dataset : Dataset
        normalize : bool
            Whether probabilities are rescaled to sum to 1.
        fields : frozenset of str
            What is read besides the members: ``"labels"``, ``"ids"``.
        is_labelled : bool
            Whether a row without a label is invalid.
        """
        if self.folder is None:
            return dataset, LeftOut(0, 0, {}, "")
        if is_labelled:
            dataset.require_labels()
        fields &= dataset.fields
        if "labels" in fields and dataset.labels_depend_on_all_rows:
            raise InvalidInput(
                "labels are numbers, and so are the names of the classes; to tell which rows are "
                "invalid, it must be known whether labels are names or indices",
                Remedy("labels_are", "names"),
                Remedy("labels_are", "indices", "if 0 is the first class"),
            )
        check = _RowCheck(normalize, is_labelled, fields)
        store = self._store_of(dataset, check)
        try:
            written = write_partitions(
                dataset,
                check,
                store.address,
                scheduler=client,
                on_bad_rows="quarantine",
                storage_options=store.storage_options,
                task="check",
                progress=self.progress,
            )
        except InvalidInput as error:  # only folders of results can be written again
            others = [remedy for remedy in error.remedies if remedy != RESTART]
            raise type(error)(error.problem, *others, index=error.index) from None
        of_partition = {entry["partition"]: entry for entry in written.quarantined}
        partitions = tuple(
            _without(partition, of_partition.get(partition.number), store)
            for partition in dataset.partitions
            if "reason" not in of_partition.get(partition.number, ())
        )
        left_out = LeftOut.of(written.quarantined, written.path)
        if left_out:
            rows_are_in = f"{written.path}/{QUARANTINE}"
            for line in quarantine_lines(written.quarantined, rows_are_in):
                validate.warn(line)
        if not written.n_rows:
            raise InvalidInput(f"{dataset.address!r} has no valid rows; {left_out}")
        return replace(dataset, partitions=partitions), left_out

    def _store_of(self, dataset: Dataset, check: _RowCheck) -> Store:
        """Return the folder of a check, whose name is that of the data set and a digest."""
        assert self.folder is not None
        options = self.storage_options or dataset.storage_options
        whole = Store.at(self.folder, options)
        if whole.is_output:
            raise InvalidInput(
                f"the folder {whole.shown!r} has outputs of another command; choose another folder "
                "for invalid rows"
            )
        name = dataset.address.rstrip("/").rpartition("/")[2]
        digest = digest_of(settings_of(dataset, check))[:_DIGITS]
        return replace(whole, address=f"{whole.address.rstrip('/')}/{name}-{digest}")


def _without(partition: Partition, entry: Mapping[str, Any] | None, store: Store) -> Partition:
    """Return the partition without the rows that an entry sets aside, if there is one."""
    if entry is None:
        return partition
    left_out = [
        np.arange(group["first_row"], group["first_row"] + group["rows"])
        for group in entry.get("unread", ())
    ]
    if "file" in entry:
        import pyarrow.parquet as pq

        content = store.read(entry["file"])
        assert content is not None
        with pq.ParquetFile(BytesIO(content)) as file:
            *_, name, _ = file.schema_arrow.names  # partition, row and reason come last
            left_out.append(file.read([name])[name].to_numpy())
    return replace(partition, left_out=np.sort(np.concatenate(left_out)))


@dataclass(frozen=True)
class LeftOut:
    """How many rows and files of a data set are left out, and why; False if none is.

    Attributes
    ----------
    n_rows : int
        Invalid rows, and those of damaged row groups, of files with other rows that can be read.
    n_files : int
        Files of which no row can be read.
    reasons : dict of str to int
        How many rows each reason has.
    folder : str
        Where the rows are.
    """

    n_rows: int
    n_files: int
    reasons: dict[str, int]
    folder: str

    @classmethod
    def of(cls, quarantined: list[dict[str, Any]], folder: str) -> LeftOut:
        """Return the sums over all partitions with invalid rows."""
        n_rows = sum(entry["rows"] for entry in quarantined if "reason" not in entry)
        n_files = sum("reason" in entry for entry in quarantined)
        return cls(n_rows, n_files, reasons_of(quarantined), folder)

    def __bool__(self) -> bool:
        return bool(self.n_rows or self.n_files)

    def __str__(self) -> str:
        return f"left out: {left_out_text(self.n_rows, self.n_files)}, see {self.folder}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What results say about it: a sentence, or nothing if no row is left out."""
        if not self:
            return ()
        return (f"Results and guarantees are for valid rows only; {self}.",)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            "rows": self.n_rows,
            "files": self.n_files,
            "reasons": self.reasons,
            "folder": self.folder,
        }


@dataclass(frozen=True)
class _RowCheck:
    """Whether rows are valid; for ``write_partitions``."""

    normalize: bool
    is_labelled: bool
    fields: frozenset[str]

    names = ()
    writes_rows = False

    def settings(self) -> dict[str, Any]:
        """Return what makes a row invalid."""
        return {
            "task": "invalid rows",
            "normalize": self.normalize,
            "need labels": self.is_labelled,
            "fields": sorted(self.fields),
        }

    def columns(self, chunk: Predictions, first_row: int) -> Columns:
        """Return the numbers of rows; raises if one of them is invalid."""
        chunk.chunk_samples(first_row, normalize=self.normalize)
        if self.is_labelled:
            check_complete(chunk, first_row)
        return {"row": np.arange(first_row, first_row + len(chunk))}

    def counts(self, columns: Columns) -> Mapping[str, np.ndarray]:
        """Return nothing to count."""
        return {}
