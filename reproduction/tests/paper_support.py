"""A small data folder with all that the paper's experiments need, and ways to run them on it."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer.testing
from click.testing import Result
from PIL import Image
from scipy.io import savemat
from typer.testing import CliRunner

from scorewise_paper import EXPERIMENTS, Protocol, Setup, Store, datasets
from scorewise_paper.cli import app

# typer builds the commands of an app anew for each run, which takes longer than most runs.
typer.testing._get_command = functools.cache(typer.testing._get_command)

COMMAND = (sys.executable, "-m", "scorewise_paper.cli")
TRAIN, TEST = 90, 40  # rows
PACKAGED = [name for name in datasets.names() if datasets.describe(name).package]
SMALL = Protocol(
    runs=2, test_rows=30, train_rows=80, samples=3, epochs=1, rounds=2, budget=12, width=2
)


class Maker:
    """Writes files in the formats of their publishers; every class looks different, with noise."""

    def __init__(self, root: Path, train: int, test: int) -> None:
        self.root, self.sizes = root, {"train": train, "test": test}
        self.random = np.random.default_rng(7)

    def folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def labels(self, n: int, k: int) -> np.ndarray:
        return self.random.permutation(np.arange(n) % k).astype(np.uint8)

    def images(self, y: np.ndarray, *shape: int) -> np.ndarray:
        """Bytes (n, *shape) around a picture of each class, which follows from the class alone."""
        pictures = np.random.default_rng(1).integers(0, 256, (365, *shape))
        mixed = 0.5 * pictures[y] + 0.5 * self.random.integers(0, 256, (len(y), *shape))
        return mixed.astype(np.uint8)

    def tables(self) -> None:
        n = sum(self.sizes.values())
        for name, k, first, columns in [("covtype", 7, 1, 54), ("poker-hand", 10, 0, 10)]:
            y = self.labels(n, k).astype(int)
            x = self.random.integers(0, 60, (n, columns))
            x[:, :3] += 7 * y[:, None] + self.random.integers(-9, 10, (n, 3))
            rows = [",".join(map(str, row)) for row in np.column_stack([x, y + first])]
            if name == "covtype":
                files = {"covtype.data": rows}
            else:
                files = {"training-true.data": rows[: n // 10], "testing.data": rows[n // 10 :]}
                files = {f"poker-hand-{file}": part for file, part in files.items()}
            for file, part in files.items():
                (self.folder(name) / file).write_text("\n".join(part) + "\n")

    def packages(self) -> None:
        """The tables of packages: with a header where values are listed, and without."""
        n = sum(self.sizes.values())
        for name in PACKAGED:
            described = datasets.describe(name)
            options = described.parse.keywords
            columns, k = options["columns"], described.n_classes
            y = self.labels(n, k).astype(int)
            x = self.random.integers(0, 9, (n, columns - 1)) + y[:, None]
            classes = options.get("classes") or [f"class-{i}" for i in range(k)]
            header = []
            if "classes" not in options:
                values = ", ".join(map(str, range(9 + k)))
                header = [f"@attribute a{i} {{{values}}}" for i in range(columns - 2)]
                header += ["@attribute last real", f"@attribute class {{{','.join(classes)}}}"]
                header = [f"@relation {name}", *header, "@data"]
            rows = [", ".join([*map(str, a), classes[b]]) for a, b in zip(x, y, strict=True)]
            path = self.folder(described.folder) / f"{name}.dat"
            path.write_text("\r\n".join([*header, *rows]) + "\r\n")

    def grey(self) -> None:
        for name in ("mnist", "fashion-mnist"):
            for split, n in self.sizes.items():
                y = self.labels(n, 10)
                start = {"train": "train", "test": "t10k"}[split]
                x = struct.pack(">IIII", 0x803, n, 28, 28) + self.images(y, 28, 28).tobytes()
                (self.folder(name) / f"{start}-images-idx3-ubyte").write_bytes(x)
                labels = struct.pack(">II", 0x801, n) + y.tobytes()
                (self.folder(name) / f"{start}-labels-idx1-ubyte").write_bytes(labels)

    def medical(self) -> None:
        for name, k, shape in [
            ("tissuemnist", 8, (28, 28)),
            ("bloodmnist", 8, (28, 28, 3)),
            ("organcmnist", 11, (28, 28)),
            ("pathmnist", 9, (28, 28, 3)),
        ]:
            arrays = {}
            for split, n in self.sizes.items():
                y = self.labels(n, k)
                arrays |= {f"{split}_images": self.images(y, *shape), f"{split}_labels": y[:, None]}
            np.savez(self.folder(name) / f"{name}.npz", **arrays)

    def cifar(self) -> None:
        for split, n in self.sizes.items():
            y = self.labels(n, 10)
            records = np.column_stack([y, self.images(y, 3, 32, 32).reshape(n, -1)])
            files = ["test_batch"] if split == "test" else [f"data_batch_{i}" for i in range(1, 6)]
            for file, part in zip(files, np.array_split(records, len(files)), strict=True):
                (self.folder("cifar-10-batches-bin") / f"{file}.bin").write_bytes(part.tobytes())

    def out_of_distribution(self) -> None:
        """The out-of-distribution test sets: one as files of several sizes, one as a stand-in."""
        n = self.sizes["test"]
        noise = self.random.integers(0, 256, (n, 3, 32, 32), np.uint8)
        y = self.random.integers(0, 10, (n, 2), np.uint8)
        records = np.column_stack([y, noise.reshape(n, -1)])
        (self.folder("cifar-100-binary") / "test.bin").write_bytes(records.tobytes())
        savemat(
            self.folder("svhn") / "test_32x32.mat",
            {"X": noise.transpose(2, 3, 1, 0) // 2, "y": np.full((n, 1), 10, np.uint8)},
        )
        np.savez(self.folder("tiny-imagenet-32") / "val.npz", x=255 - noise, y=np.zeros(n, int))
        places, lines = self.folder("places365"), ""
        for i in range(20):
            shape = [(40, 50, 3), (64, 33, 3), (32, 32, 3), (20, 31, 3)][i % 4]
            path = self.folder("places365/val_256") / f"Places365_val_{i:08d}.jpg"
            Image.fromarray(self.random.integers(0, 256, shape, np.uint8)).save(path)
            lines += f"{path.name} {i}\n"
        (places / "places365_val.txt").write_text(lines)
        (places / "categories_places365.txt").write_text("/a/abbey 0\n")


def write_data(root: Path, train: int = TRAIN, test: int = TEST) -> Path:
    """All sets of the experiments that need no pretrained weights."""
    maker = Maker(root, train, test)
    for write in (
        maker.tables,
        maker.packages,
        maker.grey,
        maker.medical,
        maker.cifar,
        maker.out_of_distribution,
    ):
        write()
    return root


def part_of(data: Path, folder: Path, *names: str) -> Path:
    """A data folder with some sets of another."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(data / name)
    return folder


def setup_for(
    data: Path | None, results: Path, protocol: Protocol = SMALL, **options: Any
) -> Setup:
    defaults = {"as_is": True, "device": "cpu", "progress": False}
    return Setup(Store(results), protocol, data, **{**defaults, **options})


def reproduce(*args: object) -> Result:
    """The result of the command in this process; a bug in it is raised."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    result = runner.invoke(app, [*map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def started(*args: object) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )


def killed_once(process: subprocess.Popen[str], is_time: Callable[[], bool]) -> None:
    """Wait for a moment, and kill."""
    until = time.monotonic() + 600
    while not is_time():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def contents(results: Path) -> dict[str, Any]:
    """The numbers of every result and a digest of its members, by the name of its cell."""
    store = Store(results)
    return {
        stored.cell.name: [
            stored.numbers,
            hashlib.sha256(store.members_path(stored.cell).read_bytes()).hexdigest(),
        ]
        for name in EXPERIMENTS
        for stored in store.read(name)[0]
    }


def refused(result: Result) -> str:
    """The message about bad input: one line, and exit code 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())
