"""Writing that fails or is killed leaves the old file; paths that cannot be written to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from io_support import FORMATS, path_of
from wrong_files_support import GOOD, MORE, BreaksOff, contents


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("older", [True, False])
def test_a_source_that_breaks_off_leaves_all_as_it_was(tmp_path, kind, error, older):
    path = path_of(tmp_path, kind)
    if older:
        sw.write_predictions(path, GOOD)
    before = contents(tmp_path)
    with pytest.raises(error, match="dried up"):
        sw.write_predictions(path, sw.io.Predictions.from_source(BreaksOff(error("dried up"))))
    assert contents(tmp_path) == before
    assert path.exists() == older


@pytest.fixture
def windows(monkeypatch):
    """No file locks, owners and forks, and no folder that can be opened."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in ("getuid", "geteuid", "fchmod", "fork", "register_at_fork"):
        monkeypatch.delattr(os, name)
    for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name)
    opened = os.open

    def open_file(path, *options, **more):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *options, **more)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)  # it opens folders elsewhere


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_written_replaced_and_read_where_only_windows_calls_exist(
    tmp_path, kind, windows
):
    path = path_of(tmp_path, kind)
    for predictions in (GOOD, GOOD[:3]):
        sw.write_predictions(path, predictions)
        np.testing.assert_array_equal(sw.read_predictions(path).probs, predictions)
    sw.score_file(path, "log", tmp_path / "scores.csv")
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted([path.name, "scores.csv"])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_cannot_take_its_place_leaves_the_old_one(tmp_path, kind, monkeypatch):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, GOOD)
    before = contents(tmp_path)
    replace = os.replace

    def fails(source: Any, target: Any) -> None:
        if Path(source).parent.suffix == ".partial" and Path(source).name == path.name:
            raise PermissionError("not here")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(PermissionError, match="not here"):
        sw.write_predictions(path, GOOD[:3])
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_put_back_at_once_is_not_lost(tmp_path, monkeypatch):
    path = tmp_path / "all"
    sw.write_predictions(path, GOOD)
    replace = os.replace

    def fails(source: Any, target: Any) -> None:
        if Path(target).name == path.name:
            raise PermissionError("not here")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(PermissionError, match="not here"):
            sw.write_predictions(path, GOOD[:3])
    breaking = sw.io.Predictions.from_source(BreaksOff(RuntimeError("dried up")))
    with pytest.raises(RuntimeError, match="dried up"):
        sw.write_predictions(path, breaking)
    np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_newer_file_replaces_an_older_one(tmp_path, kind):
    path = path_of(tmp_path, kind)
    for rows in (7, 2, 5):
        sw.write_predictions(path, GOOD[:rows])
        np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD[:rows])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# In another process: the limit holds for all of it, and root is not stopped by permissions.
STOPPED = """
import json, os, resource, signal, sys
from pathlib import Path
import numpy as np
import scorewise as sw

how, folder, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
small, large = np.full((3, 2, 3), 0.25), np.random.default_rng(0).random((9000, 2, 3))
for name in names:
    sw.write_predictions(folder / name, small)
    sw.read_predictions(folder / name).probs  # all that is imported on the way
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
else:
    os.chmod(folder, 0o555)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
result = {}
for name in names:
    try:
        if how != "full":
            os.seteuid(user)
        sw.write_predictions(folder / name, large)
        error = "nothing"
    except OSError as raised:
        error = "OSError" if str(raised) else "an OSError that says nothing"
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    finally:
        os.seteuid(os.getuid())
    result[name] = error, sorted(os.listdir(folder)), sw.read_predictions(folder / name).shape
print(json.dumps(result))
"""


@pytest.fixture(scope="module", params=["full", "read-only"])
def stopped(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        folder = Path(outer, "to")
        folder.mkdir()
        names = [path_of(folder, kind).name for kind in FORMATS]
        ran = subprocess.run(
            [sys.executable, "-c", STOPPED, request.param, folder, *names],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        folder.chmod(0o755)
        assert ran.returncode == 0, ran.stderr
        yield json.loads(ran.stdout)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_is_full_or_read_only_keeps_the_old_file(stopped, kind):
    error, there, shape = stopped[path_of(Path(), kind).name]
    assert error.startswith("OSError") or kind == "safetensors"
    assert shape == [3, 2, 3]
    assert there == sorted(path_of(Path(), kind).name for kind in FORMATS)


def test_safetensors_that_cannot_be_written_are_an_oserror(stopped):
    assert stopped["all.safetensors"][0] == "OSError"


KILLED = """
import os, signal, sys
sys.path.append("..")
import numpy as np
import scorewise as sw
from wrong_files_support import BreaksOff

class Kills(BreaksOff):
    def chunks(self, fields, start, stop, n):
        yield from ({"probs": np.full((50, 2, 3), 0.5)} for _ in range(2))
        if n > 1:
            os.kill(os.getpid(), signal.SIGKILL)

sw.write_predictions(sys.argv[1], sw.io.Predictions.from_source(Kills(KeyError())))
"""


@pytest.mark.parametrize("kind", ["npy", "folder"])
def test_a_killed_run_leaves_the_old_file(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, GOOD)
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, path], cwd=Path(__file__).parent, check=False
    )
    assert ran.returncode == -9
    np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD)
    assert all(name.startswith(".") for name in os.listdir(tmp_path) if name != path.name)
    assert len(os.listdir(tmp_path)) == 2
    sw.write_predictions(path, GOOD[:3])
    assert len(sw.read_predictions(path)) == 3
    assert os.listdir(tmp_path) == [path.name]


def test_tables_of_others_are_not_replaced(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    table = pa.table({"probs": GOOD.tolist()})
    pq.write_table(table, folder / "part-00000.parquet")
    with pytest.raises(sw.InvalidInput, match="would be replaced"):
        sw.write_predictions(folder, GOOD)
    assert pq.read_table(folder / "part-00000.parquet") == table


def test_what_another_process_is_writing_is_not_removed(tmp_path):
    path = tmp_path / "a.npy"

    class WritesTwice(BreaksOff):
        def chunks(self, fields: Any, start: int, stop: int, n: int) -> Iterator[Any]:
            if n > 1:
                names = set(os.listdir(tmp_path))
                sw.write_predictions(path, GOOD)
                assert set(os.listdir(tmp_path)) == names | {path.name}
            yield {"probs": np.full((100, 2, 3), 0.25)}

    sw.write_predictions(path, sw.io.Predictions.from_source(WritesTwice(KeyError())))
    assert len(sw.read_predictions(path)) == 100
    assert os.listdir(tmp_path) == [path.name]


def test_only_leftovers_of_the_same_file_are_removed(tmp_path):
    path = tmp_path / "a.npy"
    sw.write_predictions(path, GOOD)
    others = [
        ".b.npy.0a1b2c3d.partial/b.npy",  # of another file
        ".a.npy.0a1b2c3d.partial/thesis.txt",  # not ours
        ".a.npy.0a1b2c3.partial/a.npy",
        ".a.npy.0a1b2c3d.partial.txt/a.npy",
        ".a.npy.0a1b2c3e.partial/a.npy/thesis.txt",  # a folder where a file would be
        ".a.npy.0a1b2c3f.partial/a.npy.old",  # which only a folder leaves
    ]
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("years of work")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.npy").write_text("years of work")
    (tmp_path / ".a.npy.00000000.partial").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".a.npy.11111111.partial").write_text("years of work")
    before = contents(tmp_path)
    (tmp_path / ".a.npy.22222222.partial").mkdir()
    (tmp_path / ".a.npy.22222222.partial" / "a.npy").write_text("half of a file")
    sw.write_predictions(path, GOOD)
    assert contents(tmp_path) == before
    assert not (tmp_path / ".a.npy.22222222.partial").exists()
    assert (tmp_path / ".a.npy.00000000.partial").is_symlink()


@pytest.mark.parametrize(
    ("name", "leftover"),
    [("a.npy", "a.npy.old"), ("a.npy", "a.npy.old/x"), ("all", "all"), ("all", "all.old")],
)
def test_what_cannot_be_a_leftover_is_not_put_into_place(name, leftover, tmp_path):
    theirs = tmp_path / f".{name}.0a1b2c3d.partial" / leftover
    theirs.parent.mkdir(parents=True)
    theirs.write_text("years of work")
    sw.write_predictions(tmp_path / name, GOOD)
    assert theirs.read_text() == "years of work"
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / name).probs, GOOD)


def test_a_leftover_that_cannot_be_opened_does_not_keep_the_others(tmp_path, monkeypatch):
    for digit in "012":
        (tmp_path / f".a.npy.{digit * 8}.partial").mkdir()
    leftovers = {str(path) for path in tmp_path.iterdir()}
    refused: list[str] = []
    really_open = os.open

    def opens(path: Any, *args: Any, **options: Any) -> int:
        if str(path) in leftovers and not refused:
            refused.append(str(path))
        if str(path) in refused:
            raise PermissionError("of another user")
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", opens)
    sw.write_predictions(tmp_path / "a.npy", GOOD)
    assert {str(path) for path in tmp_path.iterdir()} == {*refused, str(tmp_path / "a.npy")}


@pytest.mark.parametrize(
    "name", ["in/more.parquet", "in/part-00000.parquet", "in/b/x.npz", "in/b/c"]
)
def test_nothing_is_added_to_the_folder_that_is_read(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sw.write_predictions("in", GOOD)
    Path("in/b").mkdir()
    Path("link").symlink_to("in")
    before = contents(tmp_path)
    for source in ("in", "link"):
        with pytest.raises(sw.InvalidInput, match=r"is in the input .*/(in|link)'"):
            sw.write_predictions(name, sw.read_predictions(source))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_replaced_keeps_its_permissions(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, GOOD)
    mode = 0o700 if path.is_dir() else 0o600
    path.chmod(mode)
    sw.write_predictions(path, GOOD[:3])
    assert path.stat().st_mode & 0o777 == mode


def test_a_folder_that_was_being_replaced_is_restored(tmp_path):
    path = tmp_path / "all"
    sw.write_predictions(path, GOOD)
    leftover = tmp_path / ".all.0a1b2c3d.partial"
    leftover.mkdir()
    path.rename(leftover / "all.old")  # and killed before the new one takes its place
    breaking = sw.io.Predictions.from_source(BreaksOff(RuntimeError("dried up")))
    with pytest.raises(RuntimeError, match="dried up"):
        sw.write_predictions(path, breaking)
    np.testing.assert_array_equal(sw.read_predictions(path).probs, GOOD)
    assert os.listdir(tmp_path) == ["all"]


def test_a_file_is_on_the_disk_before_it_counts_and_its_name_after(tmp_path, monkeypatch):
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def syncs(handle: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        fsync(handle)

    def replaces(source: Any, target: Any) -> None:
        steps.append(f"rename {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", syncs)
    monkeypatch.setattr(os, "replace", replaces)
    sw.write_predictions(tmp_path / "a.npz", GOOD)
    sw.write_predictions(tmp_path / "all", GOOD)
    folder = f"sync {tmp_path.name}"
    of_folder = ["sync part-00000.parquet", "sync all", "rename all", folder]
    assert steps == ["sync a.npz", "rename a.npz", folder, *of_folder]


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "folder"])
def test_a_folder_in_the_way_stays(tmp_path, kind):
    path = path_of(tmp_path, kind)
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(sw.InvalidInput, match="is a folder, which a file cannot replace"):
        sw.write_predictions(path, GOOD)
    assert (path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    "name",
    ["thesis.txt", "deep/er/thesis.txt", "notes.parquet.txt", "a.parquet", "part-00000.parquet"],
)
def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path, name):
    precious = tmp_path / "results" / name
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(sw.InvalidInput):
        sw.write_predictions(tmp_path / "results", GOOD)
    assert precious.read_text() == "years of work"


def test_the_working_folder_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "thesis.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises((OSError, sw.InvalidInput)):
        sw.write_predictions(".", GOOD)
    assert (tmp_path / "here" / "thesis.txt").exists()


def test_a_file_in_the_way_of_a_folder_stays(tmp_path):
    (tmp_path / "all").write_text("years of work")
    with pytest.raises((OSError, sw.InvalidInput)):
        sw.write_predictions(tmp_path / "all", GOOD)
    assert contents(tmp_path) == {"all": b"years of work"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/all.npy", "there is no folder .*nowhere' to write 'all.npy' to"),
        ("all.txt", "'all.txt' has an unknown format; .*npz"),
        ("all.json", "has an unknown format"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path, name, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.write_predictions(tmp_path / name, GOOD)
    assert contents(tmp_path) == {}


def test_npy_holds_probabilities_alone(tmp_path):
    for more in ({"labels": MORE["labels"]}, {"class_names": list("abc")}, {"weights": [1, 2]}):
        with pytest.raises(sw.InvalidInput, match=f"{next(iter(more))} too; use .npz"):
            sw.write_predictions(tmp_path / "a.npy", GOOD, **more)
    with pytest.raises(sw.InvalidInput, match="logits too"):
        sw.write_predictions(tmp_path / "a.npy", logits=GOOD)
    assert contents(tmp_path) == {}


def test_fields_of_predictions_cannot_be_passed_again(tmp_path):
    for stored, more in (
        (sw.io.Predictions(GOOD), {"labels": MORE["labels"]}),
        (sw.Samples(GOOD), {"weights": [1, 1]}),
    ):
        with pytest.raises(sw.InvalidInput, match="which have their own"):
            sw.write_predictions(tmp_path / "a.npz", stored, **more)


def test_a_pipe_or_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "a.npz"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="cannot write a file over a device"):
        sw.write_predictions(pipe, GOOD)
    assert pipe.is_fifo()
    assert [x.name for x in tmp_path.iterdir()] == ["a.npz"]


def test_an_id_that_would_inflate_the_file_is_refused(tmp_path):
    ids = ["a" * 100_000, *map(str, range(999))]
    with pytest.raises(sw.InvalidInput, match=r"100,000 characters.*use \.parquet"):
        sw.write_predictions(tmp_path / "a.npz", np.full((1000, 1, 2), 0.5), ids=ids)
