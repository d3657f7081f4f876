"""``scorewise score`` on files: kill -9 and resume, digests, large and odd inputs, full disks."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import scorewise as sw
from io_support import set_chunk_bytes
from scorewise import _tables as tables
from scorewise.cli import app
from scorewise.io import _score as score
from support import members

N, M, K = 400, 4, 3
ROW = M * K * 8
CHUNK, PART = 10 * ROW, 20 * ROW  # 40 chunks, 20 parts
RULES = ("--rules", "log,zero-one")
HANG = 600  # seconds after which a process is taken for hanging

# The command with small chunks and parts. Before chunk HOLD it waits until there is a file "go", so
# that the test decides what happens at this moment.
DRIVER = f"""
import os, resource, sys, time
if "LIMIT" in os.environ:
    limit = int(os.environ["LIMIT"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
import scorewise._progress as progress, scorewise.io._predictions as p, scorewise.io._score as s
p.CHUNK_BYTES, s._PART_BYTES = int(os.environ.get("CHUNK", {CHUNK})), {PART}
s._PART_BYTES = int(os.environ.get("PART", {PART}))
progress._DELAY = 0
hold = int(os.environ.get("HOLD", "-1"))
chunks = s.decomposed_chunks
def held(*args, **options):
    for i, chunk in enumerate(chunks(*args, **options)):
        sys.audit("chunk", "U.parquet")
        while i == hold and not os.path.exists("go"):
            time.sleep(0.005)
        yield chunk
s.decomposed_chunks = held
from scorewise.cli import app
sys.argv[0] = "scorewise"
if __name__ == "__main__":
    app()
"""

# The same many times, without starting Python again. Each run kills itself at another of its steps:
# at a chunk, or at a change to the output or its parts.
KILLER = (
    DRIVER.replace("    app()\n", "")
    + """
    import random
    STEPS = {"chunk", "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
    random.seed(int(os.environ["SEED"]))
    import pyarrow.ipc, pyarrow.parquet
    for trial in range(int(os.environ["KILLS"])):
        steps = random.randrange(40)
        pid = os.fork()
        if not pid:
            def count(event, args):
                global steps
                if event in STEPS and "U.parquet" in str(args[0]):
                    steps -= 1
                    if steps < 0:
                        os.kill(os.getpid(), 9)
            sys.addaudithook(count)
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            try:
                app(sys.argv[1:])
            finally:
                os._exit(0)
        print(os.waitpid(pid, 0)[1], flush=True)
"""
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("driver.py").write_text(DRIVER)
    Path("killer.py").write_text(KILLER)
    write("test.parquet")
    return tmp_path


def write(name: str, seed: int = 0) -> None:
    ids = [f"row {i}" for i in range(N)]
    sw.write_predictions(name, members(N, M, K, seed), ids=ids)


def drive(*args: object, **options: Any) -> subprocess.Popen[str]:
    env = {**os.environ, **{key: str(options.pop(key)) for key in [*options] if key.isupper()}}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "driver.py", *map(str, args)]
    return subprocess.Popen(command, env=env, **{**pipes, **options})


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks and parts in this process too."""
    set_chunk_bytes(monkeypatch, CHUNK)
    monkeypatch.setattr(score, "_PART_BYTES", PART)


def run(*args: object) -> Any:
    """The command in this process; what it says as JSON."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    result = runner.invoke(app, [*map(str, args), "--json"])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def refused(*args: object) -> str:
    result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, [*map(str, args)])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def undisturbed(source: str, out: str, *args: str) -> bytes:
    """What a run that nothing happens to writes; with small chunks."""
    with pytest.MonkeyPatch.context() as patch:
        set_chunk_bytes(patch, CHUNK)
        patch.setattr(score, "_PART_BYTES", PART)
        run("score", source, *RULES, *args, "--out", f"undisturbed.{out.rpartition('.')[2]}")
    result = Path(f"undisturbed.{out.rpartition('.')[2]}")
    data = result.read_bytes()
    result.unlink()
    return data


def parts_of(out: str) -> list[Path]:
    return sorted(Path(f".{out}.parts").glob("[0-9]*.part"))


def until(holds: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds, as long as the process runs."""
    while not holds():
        assert process.poll() is None, finish(process)
        time.sleep(0.005)


def has_open(process: subprocess.Popen[str], path: Path) -> bool:
    """Whether a process has opened a file or folder."""
    with suppress(OSError):  # it closes others meanwhile
        handles = Path(f"/proc/{process.pid}/fd").iterdir()
        return str(path.resolve()) in {os.readlink(handle) for handle in handles}
    return False


def hidden() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


def assert_scores(path: str, probs: np.ndarray) -> None:
    """The numbers themselves."""
    table = pq.read_table(path)
    assert table["id"].to_pylist() == [f"row {i}" for i in range(len(probs))]
    result = sw.decompose(sw.Samples(probs), ["log", "zero-one"])
    for rule, parts in result.items():
        for name in ("total", "aleatoric", "epistemic"):
            np.testing.assert_array_equal(table[f"{name}_{rule}"], getattr(parts, name))


# -- cut off, and gone on with --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "out"), [("test.parquet", "U.parquet"), ("test.npz", "U.csv"), ("test", "U.arrow")]
)
def test_kill_9_and_resume_to_the_same_bytes(source: str, out: str, here: Path):
    if source != "test.parquet":
        write(source)
    if source == "test":  # several files, of several row groups each
        for i, file in enumerate(Path("test") / f"{i}.parquet" for i in range(3)):
            part = sw.io.Predictions(members(130, M, K, i), ids=[f"row {j}" for j in range(130)])
            sw.write_predictions(file, part)
            pq.write_table(pq.read_table(file), file, row_group_size=37)
        next(Path("test").glob("part-*")).unlink()
    expected = undisturbed(source, out)
    Path(out).write_text("the old one")
    running = drive("score", source, *RULES, "--out", out, HOLD=10)
    until(lambda: len(parts_of(out)) >= 3, running)
    running.kill()
    assert finish(running)[0] == -signal.SIGKILL
    assert Path(out).read_text() == "the old one"
    done = parts_of(out)
    assert len(done) >= 3
    code, said, err = finish(drive("score", source, *RULES, "--out", out))
    assert (code, err) == (0, "")
    assert "rows were scored by an earlier run." in said
    assert Path(out).read_bytes() == expected
    assert hidden() == []


@pytest.mark.parametrize("seed", range(2))
def test_killed_again_and_again(seed: int, here: Path):
    expected = undisturbed("test.parquet", "U.parquet")
    env = {**os.environ, "KILLS": "9", "SEED": str(seed)}
    killed = subprocess.run(
        [sys.executable, "killer.py", "score", "test.parquet", *RULES, "--out", "U.parquet"],
        env=env,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert killed.returncode == 0, killed.stderr
    assert killed.stdout.split().count("9") >= 5
    assert not Path("U.parquet").exists() or Path("U.parquet").read_bytes() == expected
    code, _, err = finish(drive("score", "test.parquet", *RULES, "--out", "U.parquet"))
    assert (code, err) == (0, "")
    assert Path("U.parquet").read_bytes() == expected
    assert_scores("U.parquet", members(N, M, K))


@pytest.mark.usefixtures("small")
def test_leftovers_of_a_killed_run_are_removed(here: Path):
    Path(".U.parquet.0a1b2c3d.partial").mkdir()
    Path(".U.parquet.0a1b2c3d.partial/U.parquet").write_text("of a run that was killed at the end")
    run("score", "test.parquet", *RULES, "--out", "U.parquet")
    assert hidden() == []


@pytest.mark.parametrize("key", [signal.SIGINT])
def test_ctrl_c_is_exit_code_130_and_no_half_file(key: int, here: Path):
    expected = undisturbed("test.parquet", "U.parquet")
    running = drive("score", "test.parquet", *RULES, "--out", "U.parquet", HOLD=6)
    until(lambda: len(parts_of("U.parquet")) >= 3, running)
    running.send_signal(key)
    code, out, err = finish(running)
    assert (code, out) == (130, ""), err
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert not Path("U.parquet").exists()
    assert hidden() == [".U.parquet.parts"]
    assert not list(Path(".U.parquet.parts").glob("*.partial"))
    code, said, err = finish(drive("score", "test.parquet", *RULES, "--out", "U.parquet", "--json"))
    assert (code, err) == (0, "")
    assert json.loads(said)["resumed"] >= 40
    assert Path("U.parquet").read_bytes() == expected


@pytest.fixture
def cut_off(here: Path, small: None) -> list[Path]:
    """All parts of a run that failed when the result was written."""

    def fail(*_: object) -> int:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "write_batches", fail)
        assert "the disk is full" in refused("score", "test.parquet", *RULES, "--out", "U.parquet")
    parts = parts_of("U.parquet")
    assert [int(part.stem) for part in parts] == list(range(0, N, 20))
    return parts


def test_all_that_was_done_is_used(cut_off: list[Path], monkeypatch: pytest.MonkeyPatch):
    expected = undisturbed("test.parquet", "U.parquet")
    monkeypatch.setattr(score, "decomposed_chunks", None)  # nothing is left to compute
    assert run("score", "test.parquet", *RULES, "--out", "U.parquet")["resumed"] == N
    assert Path("U.parquet").read_bytes() == expected


@pytest.mark.parametrize("harm", ["truncated", "emptied", "deleted", "garbage", "tail", "zeroed"])
def test_a_damaged_part_is_computed_again(harm: str, cut_off: list[Path]):
    expected = undisturbed("test.parquet", "U.parquet")
    part = cut_off[7]
    data = part.read_bytes()
    value = sw.decompose(members(N, M, K), "log").total[145].tobytes()
    assert value in data
    if harm == "deleted":
        part.unlink()
    else:
        part.write_bytes(
            {
                "truncated": data[: len(data) // 2],
                "emptied": b"",
                "tail": data[:-1],
                "garbage": b"x" * len(data),
                "zeroed": data.replace(value, bytes(8)),
            }[harm]
        )
    leftover = part.parent / ".000000000000140.part.0a1b2c3d.partial"
    leftover.mkdir()
    (leftover / part.name).write_bytes(data)
    assert run("score", "test.parquet", *RULES, "--out", "U.parquet")["resumed"] == 140
    assert Path("U.parquet").read_bytes() == expected
    assert hidden() == []


@pytest.mark.parametrize("change", ["input", "rules", "normalize", "restart", "touch"])
def test_other_work_starts_anew(change: str, cut_off: list[Path]):
    args = [*RULES]
    if change == "input":
        write("test.parquet", seed=1)
    elif change == "touch":
        os.utime("test.parquet")
    elif change == "rules":
        args = ["--rules", "zero-one,log"]
    else:
        args.append(f"--{change}")
    printed = run("score", "test.parquet", *args, "--out", "U.parquet")
    assert printed["resumed"] == 0
    assert printed["n_rows"] == N
    result = pq.read_table("U.parquet")
    assert result.num_rows == N
    probs = members(N, M, K, int(change == "input"))
    samples = sw.Samples(probs, normalize=change == "normalize")
    np.testing.assert_allclose(result["total_log"], sw.decompose(samples, "log").total, rtol=1e-13)
    assert printed["sha256"] == hashlib.sha256(Path("test.parquet").read_bytes()).hexdigest()


def everything(folder: Path) -> dict[str, Any]:
    """All files and links below a folder."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


PARTS = ".U.parquet.parts"
NOT_OURS = {
    "a link": lambda: Path(PARTS).symlink_to("precious"),
    "a dangling link": lambda: Path(PARTS).symlink_to("nowhere"),
    "a file": lambda: Path(PARTS).write_text("years of work"),
    "a folder of the user's": lambda: Path("precious").rename(PARTS),
    "parts without settings": lambda: make(PARTS, "000000000000000.part"),
    "settings of another program": lambda: make(PARTS, "settings.json"),
}


def make(folder: str, name: str) -> None:
    Path(folder).mkdir()
    Path(folder, name).write_text("{}")


@pytest.mark.parametrize("more", [[], ["--restart"]])
@pytest.mark.parametrize("kind", NOT_OURS)
def test_a_folder_that_scorewise_did_not_make_is_refused_and_untouched(kind, more, here: Path):
    Path("precious").mkdir()
    Path("precious/thesis.txt").write_text("years of work")
    Path("precious/000000000000000.part").write_text("years of work")
    NOT_OURS[kind]()
    before = everything(here)
    printed = refused("score", "test.parquet", *RULES, "--out", "U.parquet", *more)
    assert f"'{PARTS}' is where progress would be stored" in printed
    assert "nothing was changed: move it away, or write to another file" in printed
    assert everything(here) == before


@pytest.mark.parametrize(
    "name",
    [
        "thesis.txt",
        "000000000000999.part -> thesis.txt",
        "settings.json -> thesis.txt",
        "settings.json",
        ".000000000000999.part.0a1b2c3d.partial",
        ".000000000000999.part.0a1b2c3d.partial/thesis.txt",
        ".settings.json.0a1b2c3d.partial/settings.json/thesis.txt",
    ],
)
@pytest.mark.parametrize("more", [[], ["--restart"]])
def test_what_others_put_into_the_folder_of_progress_is_untouched(
    name, more, cut_off: list[Path], here: Path
):
    Path("thesis.txt").write_text("years of work")
    name, _, target = name.partition(" -> ")
    path = cut_off[0].parent / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if target:
        path.symlink_to(here / target)
    else:
        path.write_text("years of work")
    before = everything(here)
    printed = refused("score", "test.parquet", *RULES, "--out", "U.parquet", *more)
    assert "is not scorewise's; nothing was changed" in printed
    assert everything(here) == before


def test_the_file_that_is_not_ours_is_named(here: Path):
    Path(PARTS).mkdir()
    Path(PARTS, "000000000000000.part").write_text("years of work")
    printed = refused("score", "test.parquet", *RULES, "--out", "U.parquet")
    assert "'000000000000000.part' is not scorewise's" in printed


@pytest.mark.usefixtures("small")
def test_an_empty_folder_is_used_for_progress(here: Path):
    Path(PARTS).mkdir()  # as a run leaves it that is killed at its very beginning or end
    run("score", "test.parquet", *RULES, "--out", "U.parquet")
    assert hidden() == []


@pytest.mark.usefixtures("small")
def test_an_input_of_the_same_size_and_time_is_distinguished(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    np.save("test.npy", members(N, M, K, 0))
    before = Path("test.npy").stat()
    monkeypatch.setattr(score, "write_batches", None)
    with pytest.raises(TypeError):
        sw.score_file("test.npy", ["log"], "U.parquet")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    np.save("other.npy", members(N, M, K, 1))
    os.utime("other.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    Path("other.npy").replace("test.npy")
    sw.score_file("test.npy", ["log"], "U.parquet")
    expected = sw.decompose(sw.Samples(members(N, M, K, 1)), "log").total
    np.testing.assert_array_equal(pq.read_table("U.parquet")["total_log"], expected)


@pytest.mark.usefixtures("small")
def test_an_input_that_changes_meanwhile_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch):
    real = score.decomposed_chunks

    def touching(*args: Any, **options: Any) -> Any:
        for i, chunk in enumerate(real(*args, **options)):
            if i == 20:
                os.utime("test.parquet", (1, 1))
            yield chunk

    monkeypatch.setattr(score, "decomposed_chunks", touching)
    Path("U.parquet").write_text("the old one")
    said = refused("score", "test.parquet", *RULES, "--out", "U.parquet")
    assert "'test.parquet' has changed while it was read" in said
    assert Path("U.parquet").read_text() == "the old one"
    monkeypatch.setattr(score, "decomposed_chunks", real)
    assert run("score", "test.parquet", *RULES, "--out", "U.parquet")["resumed"] == 0
    assert_scores("U.parquet", members(N, M, K))


def test_two_at_once_end_well(here: Path):
    expected = undisturbed("test.parquet", "U.parquet")
    args = ("score", "test.parquet", *RULES, "--out", "U.parquet")
    first = drive(*args, HOLD=10)
    until(lambda: parts_of("U.parquet"), first)
    second = drive(*args)
    until(lambda: has_open(second, Path(".U.parquet.parts")), second)  # it waits for the lock
    Path("go").touch()
    ends = [finish(first), finish(second)]
    assert Path("U.parquet").read_bytes() == expected
    assert [(code, err) for code, _, err in ends] == [(0, ""), (0, "")]


# -- what is written ------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_row_groups_do_not_follow_the_chunks(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "_ROW_GROUP", 64)
    run("score", "test.parquet", *RULES, "--out", "U.parquet")
    metadata = pq.read_metadata("U.parquet")
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [64] * 6 + [16]
    assert_scores("U.parquet", members(N, M, K))


def test_small_and_large_chunks_give_the_same_numbers(here: Path):
    large = run("score", "test.parquet", *RULES, "--out", "U.parquet")
    Path("S.parquet").write_bytes(undisturbed("test.parquet", "S.parquet"))
    assert pq.read_table("S.parquet").equals(pq.read_table("U.parquet"), check_metadata=True)
    assert large["resumed"] == 0


def test_the_digest_of_a_folder_changes_with_its_files(here: Path):
    write("folder")
    sha = run("score", "folder", *RULES, "--out", "U.parquet")["sha256"]
    assert sha == run("score", "folder", *RULES, "--out", "V.parquet")["sha256"]
    (file,) = Path("folder").iterdir()
    line = f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
    assert sha == hashlib.sha256(line.encode()).hexdigest()
    file.rename("folder/other.parquet")
    assert sha != run("score", "folder", *RULES, "--out", "U.parquet")["sha256"]


@pytest.mark.parametrize(
    "kind", ["float16", "float32", ">f8", "fortran", "one row", "one member", "many classes"]
)
@pytest.mark.usefixtures("small")
def test_odd_arrays(kind: str, here: Path):
    shape = {"one row": (1, M, K), "one member": (N, 1, K), "many classes": (30, 2, 1500)}
    probs = members(*shape.get(kind, (N, M, K)))
    if kind == "fortran":
        probs = np.asfortranarray(probs)
    elif kind[0] in "f>":
        probs = probs.astype(kind)
    np.save("test.npy", probs)
    printed = run("score", "test.npy", *RULES, "--out", "U.parquet")
    result = pq.read_table("U.parquet")
    assert printed["n_rows"] == result.num_rows == len(probs)
    native = np.ascontiguousarray(probs.astype(probs.dtype.newbyteorder("=")))
    expected = sw.decompose(sw.Samples(native), "log")
    for name in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(result[f"{name}_log"], getattr(expected, name))
    if kind == "one member":
        assert not result["epistemic_log"].to_numpy().any()


def test_a_file_without_rows(here: Path):
    sw.write_predictions("test.npz", np.empty((0, M, K)))
    code, _, err = finish(drive("score", "test.npz", *RULES, "--out", "U.parquet"))
    assert (code, err) == (0, "")
    assert pq.read_metadata("U.parquet").num_rows == 0


def test_memory_does_not_grow_with_the_file(here: Path):
    peaks = {}
    for size in (4, 32):
        rng = np.random.default_rng(0)
        block = rng.dirichlet(np.ones(16), (8192, 8)).astype(np.float32)  # 4 MiB
        name = f"{size}.parquet"
        first = sw.io.Predictions(block)
        sw.write_predictions(name, first)
        if size > 4:
            table = pq.read_table(name)
            with pq.ParquetWriter(name, table.schema, use_dictionary=False) as writer:
                for _ in range(size // 4):
                    writer.write_table(table)
            del table
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        args = ("score", name, "--rules", "log", "--out", "U.parquet")
        running = drive(*args, CHUNK=1 << 20, PART=4 << 20, **quiet)
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0
        assert pq.read_metadata("U.parquet").num_rows == 8192 * size // 4
        peaks[size] = usage.ru_maxrss / 1024
    assert peaks[32] - peaks[4] < 24, peaks


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_bars_are_on_stderr_and_only_for_people(more: tuple[str, ...], here: Path):
    ours, theirs = pty.openpty()
    running = drive(
        "score",
        "test.parquet",
        *RULES,
        "--out",
        "U.parquet",
        *more,
        HOLD=5,
        stderr=theirs,
        TERM="xterm",
        COLUMNS=80,
    )
    os.close(theirs)
    shown = b""
    while True:
        if more or (b"scoring" in shown and b"%" in shown):
            Path("go").touch()
        try:
            block = os.read(ours, 4096)
        except OSError:  # the terminal is closed
            break
        if not block:
            break
        shown += block
    os.close(ours)
    out, _ = running.communicate(timeout=HANG)
    assert running.returncode == 0
    assert "\x1b" not in out
    assert "━" not in out
    if more:
        assert shown == b""
        assert out.count("\n") == 1
        assert json.loads(out)["n_rows"] == N
    else:
        assert "scoring" in shown.decode()
        assert "%" in shown.decode()
        assert "400 rows scored" in out


# -- where nothing can be written -----------------------------------------------------------------


def test_folders_that_are_none(here: Path):
    Path("file").write_text("")
    assert "there is no folder 'file'" in refused("score", "test.parquet", "--out", "file/U.csv")
    assert "there is no folder 'no'" in refused("score", "test.parquet", "--out", "no/U.csv")
    Path("U.csv").mkdir()
    assert "is a folder" in refused("score", "test.parquet", "--out", "U.csv")
    assert hidden() == []


@pytest.mark.parametrize("limit", [300, 1500, 5000])
def test_a_full_disk_leaves_the_old_result_and_can_be_resumed(limit: int, here: Path):
    # a limit on the size of files is a full disk for those who are not root;
    # too small for the plan, for a part, for the result
    expected = undisturbed("test.parquet", "U.parquet")
    Path("U.parquet").write_text("the old one")
    args = ("score", "test.parquet", *RULES, "--out", "U.parquet")
    code, out, err = finish(drive(*args, LIMIT=limit))
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "too large" in " ".join(err.split())
    assert "Traceback" not in err
    assert Path("U.parquet").read_text() == "the old one"
    assert [name for name in hidden() if "partial" in name] == []
    assert not list(Path(".U.parquet.parts").glob("*.partial"))
    code, said, err = finish(drive(*args, "--json"))
    assert (code, err) == (0, "")
    assert json.loads(said)["resumed"] == (N if limit == 5000 else 0)
    assert Path("U.parquet").read_bytes() == expected
    assert hidden() == []


def can_mount() -> bool:
    mounts = "mount -t tmpfs none /mnt"
    command = ["unshare", "-m", "sh", "-c", mounts]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def test_a_disk_that_fills_up_and_one_that_may_only_be_read(here: Path):
    expected = undisturbed("test.parquet", "U.parquet")
    Path("disk").mkdir()
    command = (
        f"{sys.executable} driver.py score test.parquet {' '.join(RULES)} --out disk/U.parquet"
    )
    if can_mount():
        script = f"""
            mount -t tmpfs -o size=24k none disk; echo old > disk/U.parquet
            {command}; echo "code $?"; cat disk/U.parquet
            ls -A disk/.U.parquet.parts | grep -c partial
            mount -o remount,size=10m disk; {command}; echo "code $?"
            sha256sum < disk/U.parquet
            mount -o remount,ro disk; {command} --rules log; echo "code $?"
            sha256sum < disk/U.parquet
        """
        result = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=HANG
        )
        lines = result.stdout.splitlines()
        digest = f"{hashlib.sha256(expected).hexdigest()}  -"
        assert lines[:3] == ["code 2", "old", "0"], result
        assert "rows were scored by an earlier run." in result.stdout
        assert [line for line in lines if line.startswith("code")] == ["code 2", "code 0", "code 2"]
        assert lines.count(digest) == 2
        first, second = result.stderr.split("Error: ")[1:]
        assert "No space left on device" in " ".join(first.split())
        assert "Read-only file system" in " ".join(second.split())
        assert "Traceback" not in result.stderr
    else:  # nobody may write here, and root cannot either in /proc
        folder = Path("/proc") if os.geteuid() == 0 else Path("disk")
        Path("disk").chmod(0o555)
        refused("score", "test.parquet", *RULES, "--out", folder / "U.parquet")
        Path("disk").chmod(0o755)
