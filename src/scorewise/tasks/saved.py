"""The state of active learning on disk: labels, rounds, and what they were made with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scorewise._array import to_numpy
from scorewise._files import replacing
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule

_FORMAT = 1

Saved = dict[str, Any]


class StateFile:
    """A JSON file that holds the last round that was finished, whatever happens.

    Parameters
    ----------
    path : path
        Of the file, in a folder that is there.
    settings : dict
        What a run is made with; a file of other settings is refused.
    """

    def __init__(self, path: Any, settings: dict[str, Any]) -> None:
        try:
            self._path = Path(path)
        except TypeError:
            raise InvalidInput(f"state= must be the path of a file, not {path!r}") from None
        self._settings = json.loads(json.dumps(settings))  # as they are read back
        self._content: bytes | None = None
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise InvalidInput(f"state={str(path)!r} must be a file, in a folder that is there")

    def read(self) -> tuple[int, list[Saved]] | None:
        """The seed and the rounds that were saved, if any were."""
        try:
            self._content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            saved = json.loads(self._content)
            if saved["format"] != _FORMAT:
                raise ValueError(f"format {saved['format']}, not {_FORMAT}")
            entropy, settings = int(saved["entropy"]), dict(saved["settings"])
            rounds = [{key: one[key] for key in _KEYS} for one in saved["rounds"]]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"state={str(self._path)!r} is no saved state of active learning ({error!r}); "
                "give another path, or move the file away to begin anew"
            ) from error
        self._check_settings(settings)
        return entropy, rounds

    def _check_settings(self, settings: dict[str, Any]) -> None:
        for name, ours in self._settings.items():
            if settings.get(name) != ours:
                raise InvalidInput(
                    f"state={str(self._path)!r} was saved with another {name}"
                    f"{_differing(settings.get(name), ours)}; give another path, or the same "
                    f"{name} as then"
                )

    def write(self, entropy: int, rounds: list[Saved]) -> None:
        """Save in one step; refuse if somebody else has written since."""
        there = self._path.read_bytes() if self._path.exists() else None
        if there != self._content:
            raise InvalidInput(
                f"state={str(self._path)!r} was changed by another run; nothing was written"
            )
        saved = {
            "format": _FORMAT, "entropy": entropy, "settings": self._settings, "rounds": rounds,
        }  # fmt: skip
        content = json.dumps(saved).encode()
        with replacing(self._path) as partial:
            partial.write_bytes(content)
        self._content = content


_KEYS = ("rows", "labels", "scores", "loss")


def _differing(then: Any, now: Any) -> str:
    """Both values, where a person can read them."""
    short = all(len(str(value)) <= 30 for value in (then, now))
    return f" ({then!r}, not {now!r})" if short else ""


def digest(X: Any) -> str | None:
    """A name for the content of rows or labels, the same in every process."""
    if X is None:
        return None
    parts = (X.data, X.indices, X.indptr) if issparse(X) else (to_numpy(X),)
    found = hashlib.sha256(repr(getattr(X, "shape", None) or parts[0].shape).encode())
    for part in parts:
        found.update(str(part.dtype).encode())
        if part.dtype.kind == "O":
            found.update(repr(part.tolist()).encode())
        else:
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.hexdigest()[:32]


def identity(rule: ScoringRule) -> str:
    """A rule with all its digits, which its repr leaves out where there are many."""
    parameters = [getattr(rule, field.name) for field in dataclasses.fields(rule)]  # type: ignore[arg-type]
    tables = [str(digest(value)) for value in parameters if isinstance(value, np.ndarray)]
    return " ".join([repr(rule), *tables])
