"""Saved active learning: finished rounds and their configuration in a JSON file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scorewise import _validate as validate
from scorewise._array import is_array, namespace, to_numpy, working_precision
from scorewise._files import locked, replacing
from scorewise._text import quoted
from scorewise.acquire._rounds import Round, concatenate
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import ScoringRule

_FORMAT = 3
_ANOTHER_PATH = Remedy("state", ..., "another path")
# parameters that do not affect training, or that every round sets
_IRRELEVANT = {"random_state", "n_jobs", "verbose", "progress", "device", "memory"}
_MAX_DEPTH = 6  # of objects within objects that a description looks into


# -- the file -------------------------------------------------------------------------------------


class StateFile:
    """A JSON file with all finished rounds; it stays complete if the process is killed.

    Parameters
    ----------
    path : path
        Path of the file; its folder must exist.
    settings : dict
        The configuration of the run. A file that was saved with another one is refused.
    """

    def __init__(self, path: Any, settings: dict[str, Any]) -> None:
        self._name = f"state={str(path)!r}"
        try:
            self._path = Path(path).absolute()
            if self._path.is_dir() or not self._path.parent.is_dir():
                raise InvalidInput(f"{self._name} must be a file in an existing folder")
        except (TypeError, OSError) as error:
            raise InvalidInput(f"{self._name} must be the path of a file ({error})") from error
        self._settings = json.loads(json.dumps(settings))  # as they are read back
        # contents that this run wrote or read; any others were written by another run
        self._known_contents: list[bytes | None] = [None]

    def read(self, n_rows: int) -> tuple[int, list[Round]] | None:
        """The seed and the rounds that were saved for a pool of ``n_rows``; None without a file."""
        content = self._content()
        self._known_contents = [content]
        if content is None:
            return None
        try:
            saved = json.loads(content)
            if saved["format"] != _FORMAT:
                raise InvalidInput(f"format {quoted(saved['format'])}, not {_FORMAT}")
            if saved.pop("sha256") != _digest(saved):
                raise InvalidInput("its content does not match its digest: it has been damaged")
            seed = validate.whole(saved["seed"], "seed", at_least=0)
            settings = dict(saved["settings"])
            rounds: list[Round] = []
            for fields in saved["rounds"]:
                rounds.append(_round(fields, rounds[-1] if rounds else None, n_rows))
            rows = concatenate([finished.rows for finished in rounds])
            if len(np.unique(rows)) != len(rows):
                raise InvalidInput("a row is labelled twice")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInput(
                f"{self._name} is no saved state of active learning ({error}); move the file away "
                "to start again",
                _ANOTHER_PATH,
            ) from error
        self._check_settings(settings)
        return seed, rounds

    def _content(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self._name} cannot be read: {error}") from error

    def _check_settings(self, settings: dict[str, Any]) -> None:
        for name, current in self._settings.items():
            if settings.get(name) != current:
                raise InvalidInput(
                    f"{self._name} was saved with another {name}"
                    f"{_shown_if_short(settings.get(name), current)}; use the same {name} as then",
                    _ANOTHER_PATH,
                )

    def begin(self, seed: int) -> None:
        """Write a state without rounds, to refuse at once a path that cannot be written."""
        try:
            self.write(seed, [])
        except OSError as error:
            raise InvalidInput(f"{self._name} cannot be written: {error}") from error

    def write(self, seed: int, rounds: list[Round]) -> None:
        """Replace the file in one step, unless another run has written to it."""
        state = {
            "format": _FORMAT,
            "seed": seed,
            "settings": self._settings,
            "rounds": [_fields(finished) for finished in rounds],
        }
        content = json.dumps({**state, "sha256": _digest(state)}).encode()
        with locked(self._path.parent):
            current = self._content()
            if current not in self._known_contents:
                problem = "is gone" if current is None else "was changed by another run"
                raise InvalidInput(
                    f"{self._name} {problem}; nothing was written: let only one run use the file"
                )
            # either may be on disk if this is interrupted
            self._known_contents = [current, content]
            with replacing(self._path) as partial_path:
                partial_path.write_bytes(content)


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _fields(finished: Round) -> dict[str, Any]:
    """Return a round as JSON; index, number of labels and reason to stop follow from the rest."""
    return {
        "rows": finished.rows.tolist(),
        "labels": finished.labels.tolist(),
        "scores": None if finished.scores is None else finished.scores.tolist(),
        "loss": finished.loss,
    }


def _round(fields: dict[str, Any], before: Round | None, n_rows: int) -> Round:
    """The round of these fields, if they are valid."""
    rows = validate.rows(fields["rows"], n_rows, "rows")
    labels = validate.class_labels(fields["labels"], "labels", len(rows))
    scores, loss = fields["scores"], fields["loss"]
    if scores is not None:
        scores = validate.vector(scores, "scores")
        if len(scores) != len(rows):
            raise InvalidInput(f"{len(scores)} scores for {len(rows)} rows")
    if loss is not None:
        loss = validate.number(loss, "loss")
    index, n_before = (before.index + 1, before.n_labelled) if before else (0, 0)
    return Round(index, rows, labels, scores, n_before + len(rows), loss)


def _shown_if_short(saved: Any, current: Any) -> str:
    """Return both values, where they are short enough to read."""
    is_short = all(len(str(value)) <= 30 for value in (saved, current))
    return f" ({saved!r}, not {current!r})" if is_short else ""


# -- the configuration: rows, rules and models by content, the same in every process ---------------


def rows_digest(X: Any) -> str | None:
    """Return a hash of the content of rows or labels, with their dtype, shape and column names."""
    if X is None:
        return None
    sha = hashlib.sha256()
    if issparse(X) and not X.has_sorted_indices:
        X = X.sorted_indices()
    parts = (X.data, X.indices, X.indptr) if issparse(X) else (_as_numpy(X),)
    is_frame = hasattr(X, "columns")
    columns = [*map(str, X.columns)] if is_frame else []
    dtypes = [*map(repr, X.dtypes)] if is_frame else []
    sha.update(repr((getattr(X, "shape", None), columns, dtypes)).encode())
    for part in parts:
        sha.update(repr((str(part.dtype), part.shape)).encode())
        if part.dtype.kind != "O":
            sha.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            sha.update("\n".join(map(stable_text, part.ravel().tolist())).encode())
    return sha.hexdigest()[:32]


def _as_numpy(X: Any) -> np.ndarray:
    if is_array(X):
        return to_numpy(working_precision(namespace(X), X))  # NumPy has no bfloat16
    try:
        return np.asarray(X)
    except ValueError:  # rows of different sizes
        rows = np.empty(len(X), dtype=object)
        rows[:] = list(X)
        return rows


def rule_text(rule: ScoringRule) -> str:
    """Return a rule as text, with all digits of its parameters; its repr shortens them."""
    fields = dataclasses.fields(rule)  # type: ignore[arg-type]
    return f"{rule!r} {[stable_text(getattr(rule, field.name)) for field in fields]}"


def stable_text(value: Any, depth: int = 0, is_listed: bool = False) -> str:
    """Return a model, or any value within it, as text that is the same in every process.

    A function is described by its name, so that it may be corrected between two runs.
    ``is_listed``: whether the parameters of nested estimators are described separately.
    """

    def within(inner: Any) -> str:
        return stable_text(inner, depth + 1, is_listed)

    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    if hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if hasattr(value, "shape"):
        return str(rows_digest(value))
    if depth == _MAX_DEPTH or (is_listed and hasattr(value, "get_params")):
        return type(value).__qualname__
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(within, value))}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(within, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{within(k)}: {within(v)}' for k, v in value.items()))}}}"
    if isinstance(value, partial):
        return within([value.func, value.args, value.keywords])
    if hasattr(value, "get_params") or getattr(value, "__dict__", {}):
        return f"{type(value).__qualname__}({_parameters(value, depth)})"
    # dates and decimals have a repr; that of other objects is an address in memory
    return type(value).__qualname__ if " at 0x" in repr(value) else repr(value)


def _parameters(instance: Any, depth: int) -> str:
    """The parameters of an estimator, or the attributes of another object, that matter."""
    is_listed = hasattr(instance, "get_params")
    values = instance.get_params(deep=True) if is_listed else vars(instance)
    described = {
        name: stable_text(value, depth + 1, is_listed)
        for name, value in sorted(values.items())
        if "_" not in name[0] + name[-1] and name.rpartition("__")[2] not in _IRRELEVANT
    }
    return ", ".join(f"{name}={text}" for name, text in described.items())
