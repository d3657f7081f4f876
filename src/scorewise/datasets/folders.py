"""Where data sets live."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scorewise.errors import InvalidInput

VARIABLE = "SCOREWISE_DATA"


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds all data sets; nothing is made.

    Parameters
    ----------
    data_dir : path, optional
        The folder itself. Without it the environment variable ``SCOREWISE_DATA`` counts, and
        without that the user's cache folder.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    InvalidInput
        If it is a file.

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.data_folder("my-data").name
    'my-data'
    """
    given = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    found = _cache_folder() / "scorewise" if given is None else Path(given).expanduser()
    if found.exists() and not found.is_dir():
        raise InvalidInput(f"the data folder {str(found)!r} is no folder")
    return found


def _cache_folder() -> Path:
    """Where this system keeps what programs can make again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
