"""Downloading data sets: from a server in this process that cuts off, fails, or lies."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from scorewise_paper import datasets
from scorewise_paper.cli import app
from scorewise_paper.errors import CorruptData, FetchFailed, InvalidInput, MissingData

TRAIN, TEST = "poker-hand-training-true.data", "poker-hand-testing.data"
FILES = {
    TRAIN: b"1,10,1,11,1,13,1,12,1,1,9\r\n" * 20,
    TEST: b"1,1,1,13,2,4,2,3,1,12,0\r\n" * 60_000,  # more than a few blocks
}


BLOCK = 1 << 18  # bytes that are written at a time


class Server(ThreadingHTTPServer):
    """Files by name, and how they are served."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None, int]] = []  # name, range, status
        self.ranges = True
        self.cuts: dict[str, list[int]] = {}  # after how many bytes connections end
        self.statuses: list[int] = []  # answers to give first
        self.hold: int | None = None  # after how many bytes an answer stops until ``go`` is set
        self.go = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        name, byte_range = self.path.strip("/"), self.headers.get("Range")
        data = self.server.files.get(name)
        early = self.server.statuses.pop(0) if self.server.statuses else 200
        if data is None or early != 200:
            return self.answer(name, byte_range, 404 if data is None else early)
        start = 0
        if self.server.ranges and byte_range:
            start = int(byte_range.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return self.answer(name, byte_range, 416)
        self.server.requests.append((name, byte_range, 206 if start else 200))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        cuts = self.server.cuts.get(name)
        data = data[start : start + cuts.pop(0)] if cuts else data[start:]
        for at in range(0, len(data), 1 << 16):
            if at == self.server.hold:
                self.server.go.wait(600)
            self.wfile.write(data[at : at + (1 << 16)])
        return None

    def answer(self, name: str, byte_range: str | None, status: int) -> None:
        self.server.requests.append((name, byte_range, status))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


_sleep = time.sleep


def sleep_briefly(seconds: float) -> None:
    """Wait a hundredth of the time between two attempts."""
    _sleep(seconds / 100)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(time, "sleep", sleep_briefly)
    for name in ("http_proxy", "HTTP_PROXY", "SCOREWISE_DATA"):
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def change(monkeypatch: pytest.MonkeyPatch, name: str, *sources: datasets.Source) -> None:
    """Make other files the official ones of a set."""
    changed = dataclasses.replace(datasets.describe(name), files=sources)
    monkeypatch.setitem(datasets.DATA_SETS, name, changed)


@pytest.fixture
def poker(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Poker hands from the server."""
    server.files = dict(FILES)
    sources = tuple(
        datasets.Source(f"poker-hand/{name}", f"{server.url}/{name}", sha256(data))
        for name, data in FILES.items()
    )
    change(monkeypatch, "poker-hand", *sources)
    return server


def partial(root: Path, name: str = TEST) -> Path:
    return root / f".fetching/poker-hand/{name}.partial"


def left(root: Path) -> list[Path]:
    """Files that are not complete; lock files stay."""
    files = (root / ".fetching").rglob("*")
    return [path for path in files if path.is_file() and path.suffix != ".lock"]


def requests_for(server: Server, name: str = TEST) -> list[tuple[str | None, int]]:
    return [(start, status) for which, start, status in server.requests if which == name]


def assert_complete(root: Path) -> None:
    rows = datasets.load("poker-hand", "test", data_dir=root)
    assert rows.official
    assert len(rows) == 18_006
    assert {path.name for path in (root / "poker-hand").iterdir()} == set(FILES)
    assert left(root) == []


# -- downloads -------------------------------------------------------------------------------------


def test_fetch_and_load(poker: Server, tmp_path: Path):
    root = tmp_path / "new" / "data"
    assert datasets.fetch("poker-hand", root) == root / "poker-hand"
    assert_complete(root)
    assert {state.state for state in datasets.verify("poker-hand", root)} == {"official"}
    assert len(poker.requests) == 2
    datasets.fetch("poker-hand", root)  # nothing is downloaded again
    assert len(poker.requests) == 2
    (root / "poker-hand" / TRAIN).unlink()
    datasets.fetch("poker-hand", root)
    assert [name for name, *_ in poker.requests] == [TRAIN, TEST, TRAIN]
    assert_complete(root)


def test_a_cut_connection_continues_where_it_was(poker: Server, tmp_path: Path):
    poker.cuts = {TEST: [BLOCK] * 4}
    datasets.fetch("poker-hand", tmp_path)
    assert_complete(tmp_path)
    starts = [f"bytes={n * BLOCK}-" for n in (1, 2, 3, 4)]
    assert requests_for(poker) == [(None, 200), *((start, 206) for start in starts)]


def test_another_call_continues_an_interrupted_download(poker: Server, tmp_path: Path):
    poker.cuts = {TEST: [BLOCK, 0, 0, 0, 0, 0]}
    with pytest.raises(FetchFailed, match=r"cannot be downloaded: .*run the same command again"):
        datasets.fetch("poker-hand", tmp_path)
    assert partial(tmp_path).read_bytes() == FILES[TEST][:BLOCK]
    assert not (tmp_path / "poker-hand" / TEST).exists()
    with pytest.raises(MissingData):
        datasets.load("poker-hand", "test", data_dir=tmp_path)
    poker.cuts, poker.requests = {}, []
    datasets.fetch("poker-hand", tmp_path)
    assert poker.requests == [(TEST, f"bytes={BLOCK}-", 206)]
    assert_complete(tmp_path)


@pytest.mark.parametrize(
    ("begun", "answers"),
    [
        (FILES[TEST][:300_000], [206]),
        (FILES[TEST], [416]),  # complete, and not yet verified
        (b"x" * 300_000, [206, 200]),  # of another version
        (FILES[TEST] + b"x", [416, 200]),
    ],
    ids=["beginning", "complete", "other version", "longer"],
)
def test_the_checksum_decides_what_a_download_continues(
    begun: bytes, answers: list[int], poker: Server, tmp_path: Path
):
    path = partial(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(begun)
    datasets.fetch("poker-hand", tmp_path)
    assert [status for _, status in requests_for(poker)] == answers
    assert_complete(tmp_path)


def test_a_server_that_does_not_resume_sends_all_again(poker: Server, tmp_path: Path):
    poker.cuts, poker.ranges = {TEST: [300_000]}, False
    datasets.fetch("poker-hand", tmp_path)
    assert [status for _, status in requests_for(poker)] == [200, 200]
    assert_complete(tmp_path)


def test_a_busy_server_is_tried_again(poker: Server, tmp_path: Path):
    poker.statuses = [503, 429, 500]
    datasets.fetch("poker-hand", tmp_path)
    assert_complete(tmp_path)
    assert [status for *_, status in poker.requests] == [503, 429, 500, 200, 200]


@pytest.mark.parametrize(("status", "message"), [(404, "404 .Not Found"), (403, "403 .Forbidden")])
def test_a_file_that_is_gone_is_said_once(status: int, message: str, poker: Server, tmp_path: Path):
    poker.statuses = [status]
    with pytest.raises(FetchFailed, match=f"{TRAIN} cannot be downloaded: .*answers {message}"):
        datasets.fetch("poker-hand", tmp_path)
    assert len(poker.requests) == 1
    assert left(tmp_path) == []


def test_a_file_that_is_not_the_official_one_is_removed(poker: Server, tmp_path: Path):
    poker.files[TRAIN] = b"<html>please log in</html>"
    with pytest.raises(CorruptData, match=r"is not the official file, and what was downloaded"):
        datasets.fetch("poker-hand", tmp_path)
    assert left(tmp_path) == []
    assert not (tmp_path / "poker-hand").exists()
    assert len(poker.requests) == 1


def test_a_mirror_is_tried_where_the_first_address_fails(
    poker: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    described = datasets.describe("poker-hand")
    sources = tuple(
        dataclasses.replace(source, url=f"{poker.url}/{gone}", mirrors=(source.url,))
        for source, gone in zip(described.files, ("gone", "wrong"), strict=True)
    )
    poker.files["wrong"] = b"something else"
    change(monkeypatch, "poker-hand", *sources)
    datasets.fetch("poker-hand", tmp_path)
    assert [name for name, *_ in poker.requests] == ["gone", TRAIN, "wrong", TEST]
    assert_complete(tmp_path)


def test_no_server_and_no_network(poker: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    described = datasets.describe("poker-hand")

    def at(url: str) -> None:
        source = dataclasses.replace(described.files[0], url=url)
        change(monkeypatch, "poker-hand", source)

    at(f"http://127.0.0.1:{port}/{TRAIN}")
    with pytest.raises(FetchFailed, match=r"cannot be downloaded: .*refused"):
        datasets.fetch("poker-hand", tmp_path)

    def unknown(*args: Any, **options: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    at(f"http://no.such.server/{TRAIN}")
    with pytest.raises(FetchFailed, match=r"cannot be downloaded: .*; is there a network\?"):
        datasets.fetch("poker-hand", tmp_path)


def test_files_that_are_not_official_are_renamed(poker: Server, tmp_path: Path):
    mine = tmp_path / "poker-hand" / TEST
    mine.parent.mkdir()
    for content in (b"mine", b"mine too"):
        mine.write_bytes(content)
        datasets.fetch("poker-hand", tmp_path)
        assert mine.read_bytes() == FILES[TEST]
    aside = [path.read_bytes() for path in mine.parent.glob("*.not-official")]
    assert sorted(aside) == [b"mine", b"mine too"]
    assert datasets.load("poker-hand", "test", data_dir=tmp_path).official


def test_many_at_once_fetch_once(poker: Server, tmp_path: Path):
    barrier = threading.Barrier(6)

    def fetch() -> Path:
        barrier.wait(600)
        return datasets.fetch("poker-hand", tmp_path)

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(fetch) for _ in range(6)]:
            assert future.result() == tmp_path / "poker-hand"
    assert_complete(tmp_path)
    assert sorted(name for name, *_ in poker.requests) == [TEST, TRAIN]


INTERRUPTED = """
import dataclasses, sys
from scorewise_paper import datasets
from scorewise_paper.cli import app
described = datasets.describe("poker-hand")
url, size, sha = sys.argv[1:4]
source = datasets.Source("poker-hand/poker-hand-testing.data", url, sha)
datasets.DATA_SETS["poker-hand"] = dataclasses.replace(described, files=(source,))
sys.argv[1:] = sys.argv[4:]
app()
"""


def test_an_interruption_leaves_what_has_come(poker: Server, tmp_path: Path):
    poker.hold = 2 * BLOCK
    url, expected = f"{poker.url}/{TEST}", sha256(FILES[TEST])
    command = [
        sys.executable,
        "-c",
        INTERRUPTED,
        url,
        "0",
        expected,
        "datasets",
        "fetch",
        "poker-hand",
        "--data-dir",
        str(tmp_path),
    ]
    running = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    deadline = time.monotonic() + 600
    while not (partial(tmp_path).exists() and partial(tmp_path).stat().st_size > 100_000):
        assert time.monotonic() < deadline
        _sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, complaint = running.communicate(timeout=600)
    assert running.returncode == 130
    assert "Traceback" not in complaint
    assert 0 < partial(tmp_path).stat().st_size < len(FILES[TEST])
    poker.hold = None
    poker.go.set()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert requests_for(poker)[-1][1] == 206
    assert (tmp_path / "poker-hand" / TEST).read_bytes() == FILES[TEST]


def test_a_bar_shows_how_far_it_is(
    poker: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    datasets.fetch("poker-hand", tmp_path, progress=True)
    shown = capsys.readouterr()
    assert f"fetching {TEST}" in shown.err
    assert shown.out == ""


def test_packed_files_stay_packed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    packed = gzip.compress(b",".join([b"1"] * 55) + b"\n")
    server.files["covtype.data.gz"] = packed
    url = f"{server.url}/covtype.data.gz"
    source = datasets.Source("covtype/covtype.data.gz", url, sha256(packed))
    change(monkeypatch, "covtype", source)
    mine = tmp_path / "covtype/covtype.data"
    mine.parent.mkdir()
    mine.write_text("mine")
    datasets.fetch("covtype", tmp_path)
    assert datasets.load("covtype", "test", data_dir=tmp_path).official
    assert mine.read_text() == "mine"
    datasets.fetch("covtype", tmp_path)
    assert len(server.requests) == 1


# -- archives --------------------------------------------------------------------------------------

RECORDS = bytes(3074) * 3


def tar(members: dict[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def serve_cifar(server: Server, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["cifar.tar.gz"] = data
    described = datasets.DATA_SETS["cifar-100"]
    source = dataclasses.replace(
        described.files[0], url=f"{server.url}/cifar.tar.gz", checksum=sha256(data)
    )
    change(monkeypatch, "cifar-100", source)


GOOD = {
    "cifar-100-binary/train.bin": RECORDS,
    "cifar-100-binary/test.bin": RECORDS,
    "./cifar-100-binary/fine_label_names.txt": b"apple\n",
    "README": b"read me",
}


@pytest.mark.parametrize(
    "data", [tar(GOOD), tar(GOOD, "w"), tar(GOOD, "w:xz")], ids=["tar.gz", "tar", "tar.xz"]
)
def test_an_archive_is_unpacked_and_listed(
    data: bytes, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    serve_cifar(server, data, monkeypatch)
    datasets.fetch("cifar-100", tmp_path)
    assert left(tmp_path) == []
    assert files_of(tmp_path / "cifar-100-binary") == {
        "train.bin",
        "test.bin",
        "fine_label_names.txt",
        ".scorewise.json",
    }
    rows = datasets.load("cifar-100", "train", data_dir=tmp_path)
    assert rows.official
    assert rows.x.shape == (3, 3, 32, 32)
    datasets.fetch("cifar-100", tmp_path)
    assert len(server.requests) == 1
    (tmp_path / "cifar-100-binary/test.bin").write_bytes(RECORDS[:-1] + b"x")
    assert [state.state for state in datasets.verify("cifar-100", tmp_path)] == [
        "official",
        "corrupt",
    ]
    datasets.fetch("cifar-100", tmp_path)
    assert {state.state for state in datasets.verify("cifar-100", tmp_path)} == {"official"}
    assert len(server.requests) == 2


def test_an_archive_that_failed_to_unpack_is_not_downloaded_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    serve_cifar(server, tar(GOOD), monkeypatch)
    (tmp_path / ".fetching/cifar-100/unpacked/cifar-100-binary/train.bin").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(tarfile.TarFile, "extractall", full)
        with pytest.raises(OSError, match="No space left"):
            datasets.fetch("cifar-100", tmp_path)
    datasets.fetch("cifar-100", tmp_path)
    assert len(server.requests) == 1
    assert datasets.load("cifar-100", "train", data_dir=tmp_path).official
    assert left(tmp_path) == []


ARCHIVE = Path(datasets.describe("cifar-100").files[0].path).name


@pytest.mark.parametrize(
    "name",
    ["", "cifar-100.lock", "cifar-100"]
    + [f"cifar-100/{name}" for name in ("unpacked", ARCHIVE, f"{ARCHIVE}.partial")],
)
def test_no_link_in_the_folder_of_downloads_is_followed(
    name: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    serve_cifar(server, tar(GOOD), monkeypatch)
    precious = tmp_path / "precious"
    for file in ("unpacked/thesis.txt", "cifar-100/unpacked/thesis.txt", ARCHIVE):
        (precious / file).parent.mkdir(parents=True, exist_ok=True)
        (precious / file).write_text("years of work")
    path = tmp_path / "data/.fetching" / name
    path.parent.mkdir(parents=True)
    path.symlink_to(precious / ARCHIVE if path.suffix else precious)
    before = files_of(precious)
    with pytest.raises(CorruptData, match="is a link, and its target would be changed"):
        datasets.fetch("cifar-100", tmp_path / "data")
    assert files_of(precious) == before
    assert (precious / ARCHIVE).read_text() == "years of work"


def link(target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


UNSAFE = {
    "above": tar({**GOOD, "cifar-100-binary/../../evil": b"x"}),
    "folder above": tar({**GOOD, "../evil": link("", tarfile.DIRTYPE)}),
    "symbolic link": tar({**GOOD, "cifar-100-binary/l": link("/etc", tarfile.SYMTYPE)}),
    "hard link": tar({**GOOD, "l": link("/etc/passwd", tarfile.LNKTYPE)}),
    "device": tar({**GOOD, "l": link("", tarfile.CHRTYPE)}),
    "pipe": tar({**GOOD, "l": link("", tarfile.FIFOTYPE)}),
    "cut off": tar(GOOD, "w")[:5000],
    "garbage": b"garbage" * 1000,
    "empty": b"",
    "without what is wanted": tar({"other/train.bin": RECORDS}),
}


@pytest.mark.parametrize("kind", UNSAFE)
def test_unsafe_archives_leave_nothing(
    kind: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    serve_cifar(server, UNSAFE[kind], monkeypatch)
    root = tmp_path / "a" / "b" / "data"
    with pytest.raises(CorruptData):
        datasets.fetch("cifar-100", root)
    assert list(root.glob("cifar*")) == []
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(root)]
    assert sorted(path.name for path in outside) == ["a", "b"]
    assert not Path("/tmp/evil").exists()
    assert not list(root.rglob("unpacked"))


def test_folders_of_images_are_compared_by_names_and_sizes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tar(
        {
            "imagenet-o/n01/a.JPEG": b"abc",
            "imagenet-o/n02/b.JPEG": b"de",
            "imagenet-o/README.txt": b"read me",
        }
    )
    server.files["o.tar"] = data
    described = datasets.describe("imagenet-o")
    source = dataclasses.replace(
        described.files[0], url=f"{server.url}/o.tar", checksum=sha256(data)
    )
    change(monkeypatch, "imagenet-o", source)
    datasets.fetch("imagenet-o", tmp_path)
    rows = datasets.load("imagenet-o", "test", data_dir=tmp_path)
    assert rows.official
    assert [path.name for path in rows.x.paths] == ["a.JPEG", "b.JPEG"]
    folder = tmp_path / "imagenet-o"
    (folder / ".DS_Store").write_text("hidden files do not count")
    for name, content, message in [
        ("n01/a.JPEG", b"abcd", "n01/a.JPEG, which has changed"),
        ("README.txt", b"READ ME", "README.txt, which has changed"),
        ("n02/c.JPEG", b"new", "n02/c.JPEG, which the official archive lacks"),
        ("n02/b.JPEG", None, "lacks n02/b.JPEG"),
    ]:
        path = folder / name
        before = path.read_bytes() if path.exists() else None
        path.unlink() if content is None else path.write_bytes(content)
        (state,) = datasets.verify("imagenet-o", tmp_path)
        assert state.state == "corrupt"
        assert message in state.message
        path.unlink() if before is None else path.write_bytes(before)
    assert datasets.load("imagenet-o", "test", data_dir=tmp_path).digest == rows.digest
    assert rows.official


KIT = "ILSVRC2012_devkit_t12"
VAL = tar({f"ILSVRC2012_val_0000000{i}.JPEG": b"x" for i in (1, 2)}, "w")
DEVKIT = tar(
    {
        f"{KIT}/data/meta.mat": b"m",
        f"{KIT}/COPYING": b"",
        f"{KIT}/data/ILSVRC2012_validation_ground_truth.txt": b"1",
    }
)
CLASSES = {
    "n02.tar": tar({"n02_1.JPEG": b"abc"}, "w"),
    "n01.tar": tar({"n01_2.JPEG": b"x", "./n01_1.JPEG": b"yz"}, "w"),
}


def put_imagenet(root: Path, monkeypatch: pytest.MonkeyPatch, **archives: bytes) -> None:
    """Put archives in their places, as the official ones."""
    described = datasets.DATA_SETS["imagenet"]
    sources = []
    for source in described.files:
        data = archives.get(Path(source.path).name.split(".")[0])
        if data is not None:
            path = root / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            source = dataclasses.replace(source, checksum=sha256(data))
        sources.append(source)
    change(monkeypatch, "imagenet", *sources)


def files_of(folder: Path) -> set[str]:
    return {x.relative_to(folder).as_posix() for x in folder.rglob("*") if x.is_file()}


def test_imagenet_is_put_there_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(MissingData) as caught:
        datasets.fetch("imagenet", tmp_path)
    message = str(caught.value)
    for words in (
        "register at https://image-net.org",
        "ILSVRC2012_img_val.tar (for val, test) and",
        f"ILSVRC2012_img_train.tar (for train) in {tmp_path / 'imagenet'}, and run this again",
    ):
        assert words in message
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patched:
        put_imagenet(tmp_path, patched, ILSVRC2012_img_val=VAL, ILSVRC2012_devkit_t12=DEVKIT)
    with pytest.raises(CorruptData, match=r"ILSVRC2012_img_val.tar has the sha256 .*; remove it"):
        datasets.fetch("imagenet", tmp_path)
    put_imagenet(tmp_path, monkeypatch, ILSVRC2012_img_val=VAL, ILSVRC2012_devkit_t12=DEVKIT)
    folder = tmp_path / "imagenet"
    assert datasets.fetch("imagenet", tmp_path) == folder
    states = {state.path.name: state.state for state in datasets.verify("imagenet", tmp_path)}
    assert states == {"val": "official", "devkit": "official", "train": "missing"}
    assert files_of(folder) == {
        "ILSVRC2012_img_val.tar",
        "ILSVRC2012_devkit_t12.tar.gz",
        "val/.scorewise.json",
        "val/ILSVRC2012_val_00000001.JPEG",
        "val/ILSVRC2012_val_00000002.JPEG",
        "devkit/.scorewise.json",
        "devkit/meta.mat",
        "devkit/ILSVRC2012_validation_ground_truth.txt",
    }
    for name in ("ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"):
        (folder / name).unlink()
    datasets.fetch("imagenet", tmp_path)  # what was unpacked is enough


def test_training_images_of_imagenet_are_a_tar_of_tars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    train = tar(CLASSES, "w")
    put_imagenet(tmp_path, monkeypatch, ILSVRC2012_img_train=train)
    with pytest.raises(MissingData, match=r"\(for val, test\) and ILSVRC2012_devkit_t12.tar.gz in"):
        datasets.fetch("imagenet", tmp_path)  # for both splits, something lacks
    put_imagenet(tmp_path, monkeypatch, ILSVRC2012_devkit_t12=DEVKIT)
    folder = datasets.fetch("imagenet", tmp_path) / "train"
    assert files_of(folder) == {
        "n01/n01_1.JPEG",
        "n01/n01_2.JPEG",
        "n02/n02_1.JPEG",
        ".scorewise.json",
    }
    assert (folder / "n02/n02_1.JPEG").read_bytes() == b"abc"
    manifest = json.loads((folder / ".scorewise.json").read_text())
    assert manifest == {
        "checksum": sha256(train),
        "files": {
            "n01/n01_1.JPEG": [2, None],
            "n01/n01_2.JPEG": [1, None],
            "n02/n02_1.JPEG": [3, None],
        },
    }
    states = {state.path.name: state.state for state in datasets.verify("imagenet", tmp_path)}
    assert states == {"val": "missing", "devkit": "official", "train": "official"}
    (folder / "n01/n01_2.JPEG").unlink()
    assert "corrupt" in {state.state for state in datasets.verify("imagenet", tmp_path)}
    datasets.fetch("imagenet", tmp_path)  # once more from the archive
    assert (folder / "n01/n01_2.JPEG").read_bytes() == b"x"
    assert left(tmp_path) == []


UNSAFE_TARS = {
    "above": tar({**CLASSES, "n03.tar": tar({"../evil": b"x"}, "w")}, "w"),
    "far above": tar({**CLASSES, "n03.tar": tar({"a/../../../evil": b"x"}, "w")}, "w"),
    "folder above": tar(
        {**CLASSES, "n03.tar": tar({"../evil": link("", tarfile.DIRTYPE)}, "w")}, "w"
    ),
    "link": tar({**CLASSES, "n03.tar": tar({"l": link("/etc", tarfile.SYMTYPE)}, "w")}, "w"),
    "device": tar({**CLASSES, "n03.tar": tar({"l": link("", tarfile.CHRTYPE)}, "w")}, "w"),
    "no tar": tar({**CLASSES, "README": b"read me"}, "w"),
    "garbage": tar({**CLASSES, "n03.tar": b"garbage" * 1000}, "w"),
    "cut off": tar({**CLASSES, "n03.tar": tar({"a.JPEG": bytes(9000)}, "w")[:5000]}, "w"),
    "empty": tar({**CLASSES, "n03.tar": b""}, "w"),
}


@pytest.mark.parametrize("kind", UNSAFE_TARS)
def test_unsafe_tars_of_tars_leave_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / "a" / "b" / "data"
    put_imagenet(
        root, monkeypatch, ILSVRC2012_img_train=UNSAFE_TARS[kind], ILSVRC2012_devkit_t12=DEVKIT
    )
    with pytest.raises(CorruptData, match=r"ILSVRC2012_img_train.tar"):
        datasets.fetch("imagenet", root)
    assert not (root / "imagenet/train").exists()
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(root)]
    assert sorted(path.name for path in outside) == ["a", "b"]
    assert not list(tmp_path.rglob("evil*"))
    assert not Path("/tmp/evil").exists()
    assert not list(root.rglob("unpacked"))


def test_files_of_an_archive_go_where_they_belong(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    described = datasets.describe("places365")
    content = {"places365_val.txt": b"a.jpg 0\n", "categories_places365.txt": b"/a/airfield 0\n"}
    archives = (
        tar({"val_256/a.jpg": b"x"}),
        tar({**content, "places365_train_standard.txt": b"long"}),
    )
    sources = []
    for i, (source, data) in enumerate(zip(described.files, archives, strict=True)):
        server.files[str(i)] = data
        sources.append(dataclasses.replace(source, url=f"{server.url}/{i}", checksum=sha256(data)))
    checksums = {f"places365/{name}": sha256(data) for name, data in content.items()}
    changed = dataclasses.replace(described, files=tuple(sources), checksums=checksums)
    monkeypatch.setitem(datasets.DATA_SETS, "places365", changed)
    datasets.fetch("places365", tmp_path)
    rows = datasets.load("places365", "val", data_dir=tmp_path)
    assert rows.official
    assert rows.class_names == ("/a/airfield",)
    assert np.array_equal(rows.y, [0])
    assert {path.name for path in (tmp_path / "places365").iterdir()} == {
        "val_256",
        "places365_val.txt",
        "categories_places365.txt",
    }


# -- commands --------------------------------------------------------------------------------------


def run(*args: object, **env: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", **env})
    result = runner.invoke(app, ["datasets", *map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_list(tmp_path: Path):
    for name in ("svhn/test_32x32.mat", "covtype/covtype.data.gz", "mnist/README"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    result = run("list", "--data-dir", tmp_path)
    assert result.exit_code == 0
    shown = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert shown.keys() >= set(datasets.names())
    for name, message in {
        "svhn": "test only  fetch 246 MB",
        "covtype": "yes        fetch 11 MB",
        "mnist": "no         fetch 12 MB",
        "imagenet": "no         by hand",
        "places365": "no         fetch ",
    }.items():
        assert message in shown[name]
    assert "  scorewise-paper datasets fetch NAME " in result.stdout
    listed = json.loads(run("list", "--json", SCOREWISE_DATA=str(tmp_path)).stdout)
    assert [data_set["name"] for data_set in listed] == list(datasets.names())
    assert {data_set["name"]: data_set["here"] for data_set in listed if data_set["here"]} == {
        "covtype": ["train", "test"],
        "svhn": ["test"],
    }
    mnist = listed[datasets.names().index("mnist")]
    assert mnist["folder"] == str(tmp_path / "mnist")
    assert mnist["files"][0]["checksum"].startswith("sha256:440fcabf")


def test_fetch_verify_and_path_as_commands(poker: Server, tmp_path: Path):
    where = ("--data-dir", tmp_path / "data")
    result = run("fetch", "poker-hand", *where)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Written to {tmp_path / 'data' / 'poker-hand'}\n" in result.stdout
    assert "CC BY 4.0" in result.stdout
    result = run("verify", *where)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"official: {tmp_path / 'data' / 'poker-hand' / TRAIN}\n" in result.stdout
    (tmp_path / "data" / "poker-hand" / TRAIN).write_text("1")
    result = run("verify", "poker-hand", *where)
    assert result.exit_code == 1
    assert "not official: " in result.stdout
    result = run("verify", "--json", *where)
    assert (result.exit_code, result.stderr) == (1, "")
    states = json.loads(result.stdout)["poker-hand"]
    assert [state["state"] for state in states] == ["not official", "official"]
    assert set(states[0]) == {"path", "state", "digest", "message"}
    result = run("path", "poker-hand", *where)
    assert result.stdout == f"{tmp_path / 'data' / 'poker-hand'}\n"
    assert run("path", "mnist", SCOREWISE_DATA="some").stdout == f"some{os.sep}mnist\n"
    assert run("path", "mnist", *where, SCOREWISE_DATA="some").stdout.startswith(str(tmp_path))
    result = run("verify", SCOREWISE_DATA=str(tmp_path / "nothing"))
    assert result.exit_code == 0
    assert "There are no data sets in" in result.stdout


def test_complaints_are_one_sentence(poker: Server, tmp_path: Path):
    poker.files = {}
    for args, message in [
        (("fetch", "poker-hand"), "the server answers 404"),
        (("fetch", "imagenet"), "register at"),
        (("fetch", "imagenet-val-800"), "put images, and labels.csv with the columns"),
        (("fetch", "tiny-imagenet-32"), "put val.npz with x (n, 3, 32, 32) and y in"),
        (("fetch", "mnist", "imagenet21k"), "imagenet21k"),
        (("verify", "imagenet21k"), "imagenet21k"),
        (("path", "imagenet21k"), "imagenet21k"),
    ]:
        result = run(*args, "--data-dir", tmp_path)
        assert result.exit_code == 2
        text = " ".join(result.stderr.split())
        assert text.startswith("Error: ")
        assert message in text
        assert "Traceback" not in text
        assert result.stdout == ""
    assert not (tmp_path / "mnist").exists()


@pytest.mark.parametrize("command", ["list", "fetch", "verify", "path"])
def test_help_teaches(command: str):
    text = run(command, "--help", COLUMNS="80").stdout
    assert text == run(command, "-h", COLUMNS="80").stdout
    assert text.partition("Examples:")[2].count(f"scorewise-paper datasets {command}") == 2
    assert max(map(len, text.splitlines())) <= 80
    for option in ["--data-dir", "--debug", *["--json"] * (command in ("list", "verify"))]:
        assert option in text.partition("Options:")[2]
    assert command in run("--help").stdout


def test_unknown_names_cannot_be_fetched(tmp_path: Path):
    with pytest.raises(InvalidInput, match="imagenet21k"):
        datasets.fetch("imagenet21k", tmp_path)
    assert list(tmp_path.iterdir()) == []
