"""Real data sets: fetched, verified, and read as arrays.

``fetch`` downloads the publisher's own files and checks them, ``load`` reads them. Files that are
not the official ones are refused unless ``as_is=True``, and then every result says so.
"""

from scorewise.datasets.fetching import fetch, folder
from scorewise.datasets.folders import data_folder
from scorewise.datasets.image_files import ImageFiles
from scorewise.datasets.known import describe, names
from scorewise.datasets.loading import Rows, load, split_by_seed
from scorewise.datasets.registry import DataSet, Source
from scorewise.datasets.states import FileState, verify

__all__ = [
    "DataSet",
    "FileState",
    "ImageFiles",
    "Rows",
    "Source",
    "data_folder",
    "describe",
    "fetch",
    "folder",
    "load",
    "names",
    "split_by_seed",
    "verify",
]
