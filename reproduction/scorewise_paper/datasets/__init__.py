"""Real data sets: downloaded, verified, and read as arrays.

``fetch`` downloads the publisher's own files and verifies them, ``load`` reads them. Files that are
not the official ones are refused unless ``as_is=True``, and then every result is marked.
"""

from scorewise_paper.datasets._fetch import fetch
from scorewise_paper.datasets._known import DATA_SETS, DataSet, Source, describe, names
from scorewise_paper.datasets._local import (
    OFFICIAL,
    FileState,
    Rows,
    available_splits,
    data_folder,
    digests_of,
    folder,
    load,
    split_by_seed,
    verify,
)
from scorewise_paper.datasets._parsers import ImageFiles, reading

__all__ = [
    "DATA_SETS",
    "OFFICIAL",
    "DataSet",
    "FileState",
    "ImageFiles",
    "Rows",
    "Source",
    "available_splits",
    "data_folder",
    "describe",
    "digests_of",
    "fetch",
    "folder",
    "load",
    "names",
    "reading",
    "split_by_seed",
    "verify",
]
