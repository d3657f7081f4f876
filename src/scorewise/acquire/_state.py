"""The state of active learning on disk: the labels, the losses, and what they were made with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._files import locked, replacing
from scorewise.acquire._rounds import Round, joined
from scorewise.errors import InvalidInput

_FORMAT = 1


class StateFile:
    """A JSON file that holds all rounds that are finished, whatever happens.

    Parameters
    ----------
    path : path
        Of the file, in a folder that is there.
    settings : dict
        What a run is made with; a file of other settings is refused.
    """

    def __init__(self, path: Any, settings: dict[str, Any]) -> None:
        self._name = f"state={str(path)!r}"
        try:
            self._path = Path(path).absolute()
            if self._path.is_dir() or not self._path.parent.is_dir():
                raise InvalidInput(f"{self._name} must be a file, in a folder that is there")
        except (TypeError, OSError) as error:
            raise InvalidInput(f"{self._name} must be the path of a file ({error})") from error
        self._settings = json.loads(json.dumps(settings))  # as they are read back
        self._own: list[bytes | None] = [None]  # what the file may hold if nobody else writes

    def read(self, n_rows: int) -> tuple[int, list[Round]] | None:
        """The seed and the rounds that were saved for a pool of so many rows, if there are any."""
        content = self._content()
        self._own = [content]
        if content is None:
            return None
        try:
            saved = json.loads(content)
            if saved["format"] != _FORMAT:
                raise InvalidInput(f"format {saved['format']}, not {_FORMAT}")
            entropy = validate.whole(saved["entropy"], "entropy", at_least=0)
            settings = dict(saved["settings"])
            rounds: list[Round] = []
            for one in saved["rounds"]:
                rounds.append(_round(one, rounds[-1] if rounds else None, n_rows))
            rows = joined([one.rows for one in rounds])
            if len(np.unique(rows)) != len(rows):
                raise InvalidInput("a row is there twice")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInput(
                f"{self._name} is no saved state of active learning ({error}); give another path, "
                "or move the file away to begin anew"
            ) from error
        self._check_settings(settings)
        return entropy, rounds

    def _content(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self._name} cannot be read: {error}") from error

    def _check_settings(self, settings: dict[str, Any]) -> None:
        for name, ours in self._settings.items():
            if settings.get(name) != ours:
                raise InvalidInput(
                    f"{self._name} was saved with another {name}"
                    f"{_differing(settings.get(name), ours)}; give another path, or the same "
                    f"{name} as then"
                )

    def begin(self, entropy: int) -> None:
        """Save that nothing is labelled yet; what cannot be written to is found out at once."""
        try:
            self.write(entropy, [])
        except OSError as error:
            raise InvalidInput(f"{self._name} cannot be written: {error}") from error

    def write(self, entropy: int, rounds: list[Round]) -> None:
        """Save in one step; refuse if somebody else has written since."""
        saved = {
            "format": _FORMAT,
            "entropy": entropy,
            "settings": self._settings,
            "rounds": [_plain(one) for one in rounds],
        }
        content = json.dumps(saved).encode()
        with locked(self._path.parent):
            there = self._content()
            if there not in self._own:
                what = "is gone" if there is None else "was changed by another run"
                raise InvalidInput(
                    f"{self._name} {what}; nothing was written: let one run alone use the file"
                )
            self._own = [there, content]  # either, if this is cut off
            with replacing(self._path) as partial:
                partial.write_bytes(content)
                with partial.open("r+b") as file:
                    os.fsync(file.fileno())


def _plain(one: Round) -> dict[str, Any]:
    return {
        "rows": one.rows.tolist(),
        "labels": one.labels.tolist(),
        "scores": None if one.scores is None else one.scores.tolist(),
        "loss": one.loss,
    }


def _round(saved: dict[str, Any], before: Round | None, n_rows: int) -> Round:
    """A round as it was, if it can have been."""
    rows = validate.rows(saved["rows"], n_rows, "rows")
    labels = validate.names(saved["labels"], "labels", len(rows))
    scores, loss = saved["scores"], saved["loss"]
    if scores is not None:
        scores = validate.vector(scores, "scores")
        if len(scores) != len(rows):
            raise InvalidInput(f"{len(scores)} scores for {len(rows)} rows")
    if loss is not None:
        loss = validate.number(loss, "loss")
    index, n_before = (before.index + 1, before.n_labelled) if before else (0, 0)
    return Round(index, rows, labels, scores, n_before + len(rows), loss)


def _differing(then: Any, now: Any) -> str:
    """Both values, where a person can read them."""
    short = all(len(str(value)) <= 30 for value in (then, now))
    return f" ({then!r}, not {now!r})" if short else ""
