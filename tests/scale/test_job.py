"""Work on partitions that is killed, repeated, disturbed and damaged, on real processes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import pytest

import scorewise as sw
from scale_support import (
    N_PARTITIONS,
    RULES,
    HeldScores,
    contents,
    forget_scorewise,
    held_process,
    held_scores,
    let_go,
    local_cluster,
    process,
    scheduler_process,
    stamps,
    wait_until,
    write_dataset,
)
from scorewise.io import RowScores
from scorewise.scale import Dataset, map_in_order, score_dataset, write_partitions

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests

HELD = 4  # the partition at which tests kill something


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset.of(write_dataset(tmp_path_factory.mktemp("data") / "in"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, dataset, client) -> dict[str, bytes]:
    """The files of a run in which nothing happens."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    score_dataset(dataset, RULES, out, scheduler=client)
    return contents(out)


def scored(dataset: Dataset, out: Path, client: Any, **options: Any) -> Any:
    return score_dataset(dataset, RULES, out, scheduler=client, **options)


# -- kills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [0, HELD])
def test_outputs_are_the_same_when_a_worker_is_killed(tmp_path, dataset, client, undisturbed, held):
    out, gate = tmp_path / "out", tmp_path / "gate"
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(
            write_partitions, dataset, held_scores(gate, held), out, scheduler=client
        )
        os.kill(held_process(gate, run), signal.SIGKILL)
        let_go(gate)
        result = run.result()
    assert (result.n_partitions, result.resumed) == (N_PARTITIONS, 0)
    assert contents(out) == undisturbed


CLIENT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import scale_support as support
from scorewise.scale import Dataset, write_partitions
if __name__ == "__main__":
    work = support.held_scores(Path({gate!r}), {held})
    write_partitions(Dataset.of({source!r}), work, {out!r}, scheduler={scheduler!r})
"""


def test_a_run_is_resumed_when_its_client_was_killed(tmp_path, dataset, client, undisturbed):
    out, gate = tmp_path / "out", tmp_path / "gate"
    tests = str(Path(__file__).parent.parent)
    where = {"gate": str(gate), "source": dataset.address, "out": str(out)}
    script = tmp_path / "client.py"
    script.write_text(CLIENT.format(tests=tests, held=HELD, scheduler="local:1", **where))
    with process(str(script)):
        held_process(gate)
    finished = stamps(out)
    assert 0 < len(finished) < N_PARTITIONS

    result = scored(dataset, out, client)
    assert result.resumed == len(finished)
    assert {name: stamps(out)[name] for name in finished} == finished
    assert contents(out) == undisturbed


def test_a_lost_scheduler_is_an_error_and_the_run_is_resumed(
    tmp_path, dataset, client, undisturbed
):
    out, gate = tmp_path / "out", tmp_path / "gate"
    work = held_scores(gate, HELD)
    with (
        scheduler_process(tmp_path) as (scheduler, address),
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        ThreadPoolExecutor(1) as threads,
    ):
        run = threads.submit(write_partitions, dataset, work, out, scheduler=address)
        held_process(gate, run)
        scheduler.kill()
        with pytest.raises(sw.ScorewiseError, match="repeat the command"):
            run.result()
    n_finished = len(stamps(out))
    assert scored(dataset, out, client).resumed == n_finished > 0
    assert contents(out) == undisturbed


@pytest.mark.parametrize("still_runs", [True, False])
def test_a_task_of_a_killed_run_writes_nothing_over_a_newer_run(tmp_path, client, still_runs):
    source, out, fresh = write_dataset(tmp_path / "in"), tmp_path / "out", tmp_path / "fresh"
    old_gate, new_gate = tmp_path / "old", tmp_path / "new"
    first = source / "day-0.parquet"
    first.rename(tmp_path / first.name)  # so that day-1 is partition 0
    script = tmp_path / "client.py"
    tests = str(Path(__file__).parent.parent)
    where = {"gate": str(old_gate), "source": str(source), "out": str(out)}
    with local_cluster(1) as remote:
        address = remote.scheduler.address
        script.write_text(CLIENT.format(tests=tests, held=1, scheduler=address, **where))
        with process(str(script)):
            held_process(old_gate)

        (tmp_path / first.name).rename(first)  # and now day-0 is
        with ThreadPoolExecutor(1) as threads:
            work = held_scores(new_gate, 7)
            run = threads.submit(write_partitions, Dataset.of(source), work, out, scheduler=client)
            held_process(new_gate, run)
            wait_until((out / "_manifest/part-00000.json").exists)
            if not still_runs:
                let_go(new_gate)
                run.result()
            let_go(old_gate)
            assert remote.submit(int, 7).result() == 7  # the only thread has ended its task
            let_go(new_gate)
            assert run.result().n_partitions == N_PARTITIONS
    scored(Dataset.of(source), fresh, client)
    assert contents(out) == contents(fresh)


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_an_entry_that_another_process_changes_during_a_run_is_an_error(
    tmp_path, dataset, client, undisturbed, change
):
    out, gate = tmp_path / "out", tmp_path / "gate"
    first, second = (out / "_manifest" / f"part-0000{i}.json" for i in range(2))
    with ThreadPoolExecutor(1) as threads:
        work = held_scores(gate, N_PARTITIONS - 1)
        run = threads.submit(write_partitions, dataset, work, out, scheduler=client)
        held_process(gate, run)
        wait_until(lambda: len(stamps(out)) == N_PARTITIONS - 1)
        wait_until(lambda: len([*out.glob("_manifest/part-*.json")]) == N_PARTITIONS - 1)
        if change == "replaced":
            first.write_bytes(second.read_bytes())
        else:
            first.unlink()
        let_go(gate)
        with pytest.raises(sw.ScorewiseError, match=r"part-00000\.json'.*repeat the command"):
            run.result()
    assert not (out / "_manifest/summary.json").exists()
    assert scored(dataset, out, client).resumed == N_PARTITIONS - 1
    assert contents(out) == undisturbed


@dataclass(frozen=True)
class FailsOnce(HeldScores):
    """Scores of which one partition cannot be computed at first."""

    def columns(self, chunk: Any, first_row: int) -> Any:
        if chunk.ids[0].startswith(f"{self.partition}-") and not (self.folder / "tried").exists():
            (self.folder / "tried").touch()
            raise OSError("the network is down")
        return self.scores.columns(chunk, first_row)


def test_a_task_is_tried_again_when_the_system_fails(tmp_path, dataset, client, undisturbed):
    held = held_scores(tmp_path / "gate", HELD)
    work = FailsOnce(held.folder, HELD, held.scores)
    write_partitions(dataset, work, tmp_path / "out", scheduler=client)
    assert (tmp_path / "gate/tried").exists()
    assert contents(tmp_path / "out") == undisturbed


@dataclass(frozen=True)
class Divides(HeldScores):
    """Scores that cannot be computed for one partition, which counts how often it is tried."""

    def columns(self, chunk: Any, first_row: int) -> Any:
        if chunk.ids[0].startswith(f"{self.partition}-"):
            with (self.folder / "tried").open("a") as file:
                file.write("1")
            return 1 / 0
        return self.scores.columns(chunk, first_row)


def test_an_error_of_the_work_names_the_partition_and_is_not_tried_again(tmp_path, dataset, client):
    held = held_scores(tmp_path / "gate", 6)
    work = Divides(held.folder, 6, held.scores)
    message = r"^'day-6\.parquet': ZeroDivisionError: division by zero$"
    with pytest.raises(sw.ScorewiseError, match=message) as raised:
        write_partitions(dataset, work, tmp_path / "out", scheduler=client)
    cause = raised.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert "return 1 / 0" in "".join(cause.__notes__)
    assert (tmp_path / "gate/tried").read_text() == "1"


@dataclass(frozen=True)
class Deadly(HeldScores):
    """Scores of which one partition kills its worker."""

    def columns(self, chunk: Any, first_row: int) -> Any:
        if chunk.ids[0].startswith(f"{self.partition}-"):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.scores.columns(chunk, first_row)


def test_a_partition_that_kills_its_workers_is_named(tmp_path, dataset, client, undisturbed):
    last = N_PARTITIONS - 1  # no other is computed when it is tried again
    held = held_scores(tmp_path / "gate", last)
    work = Deadly(held.folder, last, held.scores)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(1) as fragile,
        pytest.raises(sw.ScorewiseError, match=r"'day-7\.parquet': all workers.*out of memory"),
    ):
        write_partitions(dataset, work, tmp_path / "out", scheduler=fragile)
    assert scored(dataset, tmp_path / "out", client).resumed
    assert contents(tmp_path / "out") == undisturbed


# -- outputs of earlier runs -----------------------------------------------------------------------


def test_nothing_is_written_again_when_a_run_is_repeated(tmp_path, dataset, client, undisturbed):
    out = tmp_path / "out"
    scored(dataset, out, client)
    before = stamps(out)
    assert scored(dataset, out, client).resumed == N_PARTITIONS
    assert stamps(out) == before
    assert contents(out) == undisturbed


@pytest.mark.parametrize("damaged", ["part-00002.parquet", "_manifest/part-00002.json"])
@pytest.mark.parametrize("damage", ["changed", "truncated", "removed"])
def test_a_damaged_output_is_computed_again(
    tmp_path, dataset, client, undisturbed, damaged, damage
):
    out = tmp_path / "out"
    scored(dataset, out, client)
    path, content = out / damaged, undisturbed[damaged]
    if damage == "removed":
        path.unlink()
    else:
        middle = len(content) // 2
        rest = bytes([content[middle] ^ 1]) + content[middle + 1 :] if damage == "changed" else b""
        path.write_bytes(content[:middle] + rest)
    assert scored(dataset, out, client).resumed == N_PARTITIONS - 1
    assert contents(out) == undisturbed


def test_a_file_that_has_changed_is_computed_again(tmp_path, client):
    source, out = write_dataset(tmp_path / "in"), tmp_path / "out"
    scored(Dataset.of(source), out, client)
    sw.write_predictions(source / "day-3.parquet", sw.read_predictions(source / "day-4.parquet"))
    result = scored(Dataset.of(source), out, client)
    assert result.resumed == N_PARTITIONS - 1
    files = contents(out)
    assert result.n_rows == N_PARTITIONS * 40
    fresh = tmp_path / "fresh"
    scored(Dataset.of(source), fresh, client)
    assert files == contents(fresh)


def test_outputs_with_other_settings_are_refused(tmp_path, dataset, client):
    out = tmp_path / "out"
    scored(dataset, out, client)
    before = contents(out)
    with pytest.raises(sw.InvalidInput, match=r"normalize was False and is True.*restart=True"):
        scored(dataset, out, client, normalize=True)
    with pytest.raises(sw.InvalidInput, match="rules was"):
        score_dataset(dataset, "brier", out, scheduler=client)
    assert contents(out) == before


def test_restart_removes_the_outputs_of_another_run(tmp_path, dataset, client, undisturbed):
    out = tmp_path / "out"
    score_dataset(dataset, "brier", out, scheduler=client)
    assert scored(dataset, out, client, restart=True).resumed == 0
    assert contents(out) == undisturbed


def test_outputs_by_a_user_defined_rule_are_refused(tmp_path, dataset, client):
    def own_rule(power: float) -> Any:
        return sw.rule_from_entropy(
            lambda p: 1 - (p**power).sum(-1), lambda p: -power * p ** (power - 1), name="own"
        )

    out = tmp_path / "out"
    score_dataset(dataset, own_rule(2), out, scheduler=client)
    with pytest.raises(sw.InvalidInput, match=r"user-defined rules.*restart=True"):
        score_dataset(dataset, own_rule(3), out, scheduler=client)
    assert score_dataset(dataset, own_rule(3), out, scheduler=client, restart=True).resumed == 0


def test_a_data_set_with_fewer_files_is_refused(tmp_path, client):
    source, out = write_dataset(tmp_path / "in"), tmp_path / "out"
    scored(Dataset.of(source), out, client)
    (source / "day-7.parquet").unlink()
    with pytest.raises(sw.InvalidInput, match="only 7 partitions"):
        scored(Dataset.of(source), out, client)


def test_files_that_are_added_to_a_data_set_are_computed(tmp_path, client):
    source, out = write_dataset(tmp_path / "in"), tmp_path / "out"
    last = source / "day-7.parquet"
    last.rename(tmp_path / last.name)
    scored(Dataset.of(source), out, client)
    (tmp_path / last.name).rename(last)
    assert scored(Dataset.of(source), out, client).resumed == N_PARTITIONS - 1


# -- folders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "part-00000.parquet", "sub/part.parquet"])
def test_a_folder_with_files_of_the_user_is_refused_and_not_changed(
    tmp_path, dataset, client, name
):
    out = tmp_path / "out"
    path = out / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    for restart in (False, True):
        with pytest.raises(sw.InvalidInput, match="did not put there; nothing was changed"):
            scored(dataset, out, client, restart=restart)
    assert contents(out) == {name: b"mine"}


def test_a_file_of_the_user_among_outputs_is_not_removed(tmp_path, dataset, client):
    out = tmp_path / "out"
    scored(dataset, out, client)
    (out / "notes.txt").write_text("mine")
    before = contents(out)
    with pytest.raises(sw.InvalidInput, match=r"'notes\.txt'"):
        scored(dataset, out, client, restart=True)
    assert contents(out) == before


@pytest.mark.parametrize("name", ["notes.txt", "part-00000.parquet", "part-00000.parquet.tmp"])
def test_a_file_of_the_user_in_the_folder_for_partial_files_is_not_removed(
    tmp_path, dataset, client, name
):
    out = tmp_path / "out"
    scored(dataset, out, client)
    (out / "_manifest/partial").mkdir()
    (out / "_manifest/partial" / name).write_text("mine")
    before = contents(out)
    for restart in (False, True):
        with pytest.raises(sw.InvalidInput, match="did not put there; nothing was changed"):
            scored(dataset, out, client, restart=restart)
    assert contents(out) == before


def test_files_that_killed_workers_left_are_removed(tmp_path, dataset, client, undisturbed):
    out = tmp_path / "out"
    scored(dataset, out, client)
    partial = out / "_manifest/partial"
    partial.mkdir()
    for name in ("part-00003.parquet", "part-00003.json", "settings.json", "run.json"):
        (partial / f"{name}.0123abcd").write_text("half")
    (out / "_manifest/run.json").write_text("{}")
    assert scored(dataset, out, client).resumed == N_PARTITIONS
    assert contents(out) == undisturbed


@dataclass(frozen=True)
class LateUpload(RowScores):
    """Scores; when those of the last file are computed, an older run changes a finished output."""

    damaged: Path | None = None

    def columns(self, chunk, first_row):
        if len(chunk) and chunk.ids[0] == f"{N_PARTITIONS - 1}-0":
            wait_until(self.damaged.exists)
            self.damaged.write_bytes(b"of an older run")
        return super().columns(chunk, first_row)


def test_what_workers_of_a_killed_run_put_in_place_meanwhile_is_computed_again(
    tmp_path, dataset, undisturbed
):
    out = tmp_path / "out"
    rules = {name: sw.get_rule(name) for name in RULES}
    work = LateUpload(rules, damaged=out / "part-00000.parquet")
    with local_cluster(n_workers=1, processes=False) as here:
        scored(dataset, out, here)
        (out / f"part-{N_PARTITIONS - 1:05d}.parquet").unlink()
        (out / "_manifest/run.json").write_text('{"run": "killed"}')
        result = write_partitions(dataset, work, out, scheduler=here)
    assert result.resumed == N_PARTITIONS - 2
    assert contents(out) == undisturbed


def test_the_settings_of_another_program_are_not_ours(tmp_path, dataset, client):
    out = tmp_path / "out"
    (out / "_manifest").mkdir(parents=True)
    (out / "_manifest/settings.json").write_text("{}")
    with pytest.raises(sw.InvalidInput, match=r"settings\.json"):
        scored(dataset, out, client, restart=True)
    assert contents(out) == {"_manifest/settings.json": b"{}"}


@pytest.mark.parametrize("place", [".", "scores", ".."])
def test_outputs_cannot_be_in_the_input_nor_around_it(tmp_path, client, place):
    source = write_dataset(tmp_path / "in")
    with pytest.raises(sw.InvalidInput, match="holds, the input"):
        scored(Dataset.of(source), (source / place).resolve(), client)


@pytest.mark.parametrize("linked", ["output", "input"])
def test_outputs_cannot_be_in_the_input_by_a_link(tmp_path, client, linked):
    source, link = write_dataset(tmp_path / "in"), tmp_path / "link"
    link.symlink_to(source, target_is_directory=True)
    folders = (source, link / "out") if linked == "output" else (link, source / "out")
    with pytest.raises(sw.InvalidInput, match="holds, the input"):
        scored(Dataset.of(folders[0]), folders[1], client)
    assert len(contents(source)) == N_PARTITIONS


def test_a_folder_with_the_suffix_of_a_file_is_refused(tmp_path, dataset, client):
    with pytest.raises(sw.InvalidInput, match="is the name of a file"):
        scored(dataset, tmp_path / "U.parquet", client)


def test_two_runs_cannot_write_to_one_folder(tmp_path, dataset, client, undisturbed):
    out, gate = tmp_path / "out", tmp_path / "gate"
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(
            write_partitions, dataset, held_scores(gate, HELD), out, scheduler=client
        )
        held_process(gate, run)
        for restart in (False, True):
            with pytest.raises(sw.InvalidInput, match="another run is writing"):
                scored(dataset, out, client, restart=restart)
        let_go(gate)
        run.result()
    assert contents(out) == undisturbed


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system whose folders cannot be locked, as of some networks."""

    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.mark.usefixtures("no_locks")
def test_two_runs_cannot_write_to_one_folder_where_the_system_has_no_locks(
    tmp_path, dataset, client, undisturbed
):
    out, gate = tmp_path / "out", tmp_path / "gate"
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(
            write_partitions, dataset, held_scores(gate, HELD), out, scheduler=client
        )
        held_process(gate, run)
        with pytest.raises(sw.InvalidInput, match=rf"process {os.getpid()} on .*remove the file"):
            scored(dataset, out, client)
        let_go(gate)
        run.result()
    assert contents(out) == undisturbed


# -- the window ------------------------------------------------------------------------------------


def number_of(partition: Any) -> int:
    """What tests compute of a partition."""
    return int(partition.number)


def test_a_warning_says_once_that_all_workers_are_gone(dataset, monkeypatch):
    monkeypatch.setattr("scorewise.scale._cluster._LOOK_EVERY", 0.1)
    partitions = dataset.partitions * 4
    with (
        local_cluster(1, processes=False) as client,
        closing(map_in_order(client, number_of, partitions)) as results,
        warnings.catch_warnings(record=True, action="always") as warned,
        ThreadPoolExecutor(1) as threads,
    ):
        first, _ = next(results)
        client.cluster.scale(0)
        wait_until(lambda: not client.nthreads())
        rest = threads.submit(list, results)
        wait_until(lambda: len(warned) > 0)
        client.cluster.scale(1)
        assert [first, *(partition for partition, _ in rest.result())] == [*partitions]
    assert ["has no workers; waiting for one" in str(x.message) for x in warned] == [True]


def test_a_worker_without_scorewise_is_named_rather_than_a_file(dataset):
    with local_cluster(1) as client:
        client.run(forget_scorewise)
        (worker,) = client.nthreads()
        with pytest.raises(sw.InvalidInput, match=f"^the worker {worker} cannot import scorewise"):
            list(map_in_order(client, number_of, dataset.partitions))


def test_the_scheduler_holds_few_partitions_at_a_time(dataset):
    partitions = dataset.partitions * 40
    sizes = []
    with local_cluster(processes=False) as client:
        tasks = client.cluster.scheduler.tasks
        results = map_in_order(
            client, number_of, partitions, on_done=lambda: sizes.append(len(tasks))
        )
        assert [result for _, result in results] == [p.number for p in partitions]
    assert len(sizes) == len(partitions)
    assert max(sizes) < 30
