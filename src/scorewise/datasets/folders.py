"""Where data sets live."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.data_folder("my-data").name
    'my-data'
    """
    if data_dir is not None:
        return Path(data_dir).expanduser()
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else _cache_folder() / "scorewise"


def _cache_folder() -> Path:
    """Where this system keeps what programs can make again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
