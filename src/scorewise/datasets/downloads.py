"""Downloads that go on where they were cut off."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scorewise._json import dumps
from scorewise._progress import bar
from scorewise._version import __version__
from scorewise.datasets.registry import Source
from scorewise.datasets.states import digests
from scorewise.errors import CorruptData, FetchFailed

WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each new attempt
TIMEOUT = 30.0  # seconds without a byte

_BLOCK = 1 << 18
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # worth another attempt
_GONE_ON = 206
_PAST_THE_END = 416


class _Broken(Exception):
    """A connection that failed, which another attempt may mend."""


@dataclass(frozen=True)
class _Partial:
    """What has come so far of a file, and which version of it that is."""

    path: Path

    @property
    def notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def told(self, url: str) -> dict[str, Any]:
        """What the server said of the version; empty where it was another address."""
        with suppress(OSError, ValueError):
            told = json.loads(self.notes.read_text())
            if isinstance(told, dict) and told.get("url") == url:
                return told
        return {}

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def download(source: Source, path: Path, progress: bool | None) -> None:
    """Put a verified file at ``path``, going on with what an earlier attempt has left there.

    Every address is tried in turn. A file with another checksum is removed. Notes beside it let
    the next attempt go on; :func:`forget` removes them.
    """
    problems = []
    for url in (source.url, *source.mirrors):
        if url is None:
            continue
        try:
            _verified(url, source, _Partial(path), progress)
            return
        except (FetchFailed, CorruptData) as problem:
            problems.append(problem)
    raise problems[0]


def forget(path: Path) -> None:
    """Remove what is left of a download once the file is in its place."""
    _Partial(path).remove()


def _verified(url: str, source: Source, partial: _Partial, progress: bool | None) -> None:
    was_there = partial.size() > 0
    _complete(url, partial, source, progress)
    kind, expected = source.checksum.split(":")
    found = digests(partial.path)[kind]
    if found != expected and was_there:  # what was there may have been of another version
        partial.remove()
        _complete(url, partial, source, progress)
        found = digests(partial.path)[kind]
    if found != expected:
        partial.remove()
        raise CorruptData(
            f"{url} has the {kind} {found} instead of {expected}, so it is not the official file; "
            "what was downloaded is removed"
        )


def _complete(url: str, partial: _Partial, source: Source, progress: bool | None) -> None:
    """All bytes, in as many attempts as it takes while some of them bring more."""
    waits = iter(WAITS)
    while True:
        before = partial.size()
        try:
            _attempt(url, partial, source.name, progress)
            return
        except _Broken as problem:
            if partial.size() > before:
                waits = iter(WAITS)
            wait = next(waits, None)
            if wait is None:
                raise FetchFailed(
                    f"{url} cannot be downloaded: {problem}; what has come is kept, and the same "
                    "command goes on from there"
                ) from None
            time.sleep(wait)


def _attempt(url: str, partial: _Partial, name: str, progress: bool | None) -> None:
    start, told = partial.size(), partial.told(url)
    if start and start == told.get("size"):  # cut off just before it was verified
        return
    headers = {"User-Agent": f"scorewise/{__version__}", "Accept-Encoding": "identity"}
    if start and told:
        headers["Range"] = f"bytes={start}-"
        if told.get("version"):
            headers["If-Range"] = told["version"]
    with _opened(url, headers, partial) as response:
        total = _total(response)
        goes_on = response.status == _GONE_ON and told and total == told.get("size")
        if response.status == _GONE_ON and not goes_on:
            partial.remove()
            raise _Broken("the file has changed")
        if not goes_on:
            start = 0
            notes = {"url": url, "version": _version(response), "size": total}
            partial.path.unlink(missing_ok=True)
            partial.notes.write_text(dumps(notes))
        with bar(f"fetching {name}", total, progress) as advance:
            advance(start)
            with partial.path.open("ab") as file:
                while block := _read(response):
                    file.write(block)
                    advance(len(block))
    if total is not None and partial.size() < total:
        raise _Broken(f"the connection ended after {partial.size():,} of {total:,} bytes")


def _opened(url: str, headers: dict[str, str], partial: _Partial) -> Any:
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code == _PAST_THE_END:  # more is here than the file has now
            partial.remove()
            raise _Broken("the file has changed") from None
        if problem.code in _BUSY:
            raise _Broken(f"the server says {problem.code} ({problem.reason})") from None
        raise FetchFailed(
            f"{url} cannot be downloaded: the server says {problem.code} ({problem.reason})"
        ) from None
    except (OSError, http.client.HTTPException) as problem:
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        if isinstance(reason, socket.gaierror):
            raise FetchFailed(
                f"{url} cannot be downloaded: its server is not found ({reason.strerror}); is "
                "there a network?"
            ) from None
        raise _Broken(str(reason) or type(reason).__name__) from None


def _read(response: Any) -> bytes:
    try:
        return bytes(response.read(_BLOCK))
    except (OSError, http.client.HTTPException) as problem:
        raise _Broken(str(problem) or type(problem).__name__) from None


def _total(response: Any) -> int | None:
    """Bytes of the whole file, also where only its end comes."""
    if response.status == _GONE_ON:
        total = str(response.headers.get("Content-Range", "")).rpartition("/")[2]
    else:
        total = str(response.headers.get("Content-Length", ""))
    return int(total) if total.isdigit() else None


def _version(response: Any) -> str | None:
    """What the server calls this version of the file; weak tags do not promise the same bytes."""
    tag: str | None = response.headers.get("ETag")
    date: str | None = response.headers.get("Last-Modified")
    return tag if tag and not tag.startswith("W/") else date
