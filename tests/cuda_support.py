"""The CUDA kernel on a processor: its source is compiled as C++, and its threads take turns."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from scorewise.decompose import gradient_by_arrays
from scorewise.kernels import Extras, Usability, cpu, cuda
from scorewise.kernels.cuda import _launch
from support import all_rules

HERE = Path(__file__).parent / "kernels"
NATIVE = Path(cuda.__file__).with_name("native")
MOST_SHARED_BYTES = 99 << 10  # of a GPU with little of it

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
OPTIONS = ["-O1", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-w"]
# Arrays and what is read at once are checked; a trap ends the process.
OPTIONS += ["-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error"]
DTYPES = {"float32", "float16", "bfloat16"}


@cache
def folder() -> Path:
    """Return where compiled kernels are while this process runs."""
    return Path(mkdtemp(prefix="scorewise-cuda-"))


@cache
def sources() -> str:
    """Return all that a compiled kernel is made of, but for its constants."""
    files = [*sorted(HERE.glob("cuda_emulation*.hpp")), *sorted(NATIVE.iterdir())]
    return "".join(file.read_text() for file in files)


@cache
def precompiled(where: Path) -> Path:
    """Return the header of the emulation in a folder, compiled beside it, where g++ looks first.

    Other compilers read the header itself.
    """
    header = where / "cuda_emulation.hpp"
    compiled = Path(f"{header}.gch")
    if not compiled.exists():
        copy, unfinished = (where / f"emulation-{os.getpid()}{end}" for end in (".hpp", ".gch"))
        shutil.copyfile(HERE / header.name, copy)
        copy.replace(header)
        assert COMPILER is not None
        options = [*OPTIONS, "-x", "c++-header"]
        subprocess.run([COMPILER, *options, header, "-o", unfinished], check=True)
        unfinished.replace(compiled)
    return header


@cache
def emulated(constants: tuple[tuple[str, Any], ...], where: Path) -> Any:
    """Return a function that runs the kernel compiled for these constants, into a folder.

    Processes share the folder: a file is named after what it is made of, and appears when it is
    complete.
    """
    text = f"""
#include "{precompiled(where)}"
{_launch.definitions(constants)}
#include "{NATIVE}/decompose.cu"
#include "{HERE}/cuda_emulation_end.hpp"
"""
    name = hashlib.sha256(f"{COMPILER} {OPTIONS} {text} {sources()}".encode()).hexdigest()
    library = where / f"{name}.so"
    if not library.exists():
        source, unfinished = (where / f"{name}-{os.getpid()}{end}" for end in (".cpp", ".so"))
        source.write_text(text)
        assert COMPILER is not None
        subprocess.run([COMPILER, *OPTIONS, source, "-o", unfinished], check=True)
        unfinished.replace(library)
    run = ctypes.CDLL(str(library)).emulate
    run.restype = ctypes.c_bool
    return run


def launch(
    constants: tuple[tuple[str, Any], ...],
    job: _launch.Job,
    n_blocks: int,
    n_threads: int,
    n_bytes: int,
    device: Any,
    where: Path | None = None,
) -> None:
    """Run the kernel as ``_launch.launch`` does, on a processor."""
    n_blocks = min(n_blocks, 3)  # blocks then work on several tiles
    run = emulated(constants, where or folder())
    if not run(ctypes.byref(job), n_blocks, n_threads, ctypes.c_size_t(n_bytes)):
        raise AssertionError("a thread wrote beyond the shared memory of its block")


@contextmanager
def emulated_gpu(
    where: Path, most_shared_bytes: int = MOST_SHARED_BYTES
) -> Iterator[list[dict[str, Any]]]:
    """Arrays of torch in host memory are on a GPU inside, and new ones are full of NaN.

    The value is a list of the constants of what was launched.
    """
    launched = []

    def record(constants: tuple[tuple[str, Any], ...], *arguments: Any) -> None:
        launched.append(dict(constants))
        launch(constants, *arguments, where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_launch, "launch", record)
        patch.setattr(_launch, "most_shared_bytes", lambda device: most_shared_bytes)
        patch.setattr(cuda, "on_cuda", lambda values: True)
        patch.setattr(cuda, "_what_is_missing", lambda: None)
        patch.setattr(cpu, "_native", None)
        was_deterministic = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)
        try:
            yield launched
        finally:
            torch.use_deterministic_algorithms(was_deterministic)


def amid_nan(values: np.ndarray, dtype: str | None = None, device: str = "cpu") -> Any:
    """Return a tensor of these numbers and strides; memory around and between them has NaN.

    Negative strides, which torch does not have, become positive.
    """
    strides = [abs(stride) // values.itemsize for stride in values.strides]
    size = 1 + sum((n - 1) * stride for n, stride in zip(values.shape, strides, strict=True))
    around = 64  # numbers
    dtype = getattr(torch, dtype or str(values.dtype))
    memory = torch.full((max(size, 1) + 2 * around,), float("nan"), dtype=dtype, device=device)
    tensor = memory[around:].as_strided(values.shape, strides)
    if values.size:
        tensor.copy_(torch.from_numpy(values.copy()))
    return tensor


@dataclass(frozen=True)
class KernelForNumpy:
    """The kernel as ``check_kernel`` takes one, for arrays of NumPy, which a device gets."""

    device: str = "cpu"
    supports = staticmethod(cuda.supports)
    supports_gradient = staticmethod(cuda.supports_gradient)

    def is_usable(self, raw: Any, weights: Any) -> Usability:
        return Usability(str(raw.values.dtype) in DTYPES, "as the dtype is")

    def compute(
        self, raw: Any, weights: Any, rules: Sequence[Any], extras: Extras
    ) -> list[np.ndarray] | None:
        members = replace(raw, values=amid_nan(raw.values, device=self.device))
        results = cuda.compute(members, weights, rules, extras)
        return None if results is None else [part.cpu().numpy() for part in results]

    def gradient(
        self, raw: Any, weights: Any, rules: Sequence[Any], upstream: Sequence[Any]
    ) -> np.ndarray:
        """Return what ``decompose`` returns: by arrays what the kernel leaves to them."""
        members = replace(raw, values=amid_nan(raw.values, device=self.device))
        tensors = [None if x is None else torch.as_tensor(x, device=self.device) for x in upstream]
        gradient = cuda.gradient(members, weights, rules, tensors)
        if gradient is None:
            return gradient_by_arrays(raw, weights, rules, upstream)
        return gradient.cpu().numpy()


# -- rules, members, and what is right -------------------------------------------------------------

FIRST_FOUR = ["log", "brier", "zero-one", "spherical"]
OTHERS = ["tsallis:1.5", "pseudospherical:3", "top-k:2", "rps"]
PLAIN = Extras()
ROUNDING = 2.0**-17  # of rows that are divided by their sums, as in sw.check_kernel

# Rules whose parameters are of the number of classes.
OF_ANY_CLASSES: list[Callable[[int], Any]] = [
    lambda k: sw.rules.cost_matrix(np.random.default_rng(k).uniform(0, 3, (k, 5))),
    lambda k: sw.rules.weighted_log(np.random.default_rng(k).uniform(0.2, 3, k)),
    lambda k: all_rules(min(k, 81))["quadratic"],
]


def supported(rules: dict[str, Any]) -> dict[str, Any]:
    return {name: rule for name, rule in rules.items() if cuda.supports(rule, PLAIN)}


def awkward(m: int, k: int, seed: int = 0, n_each: int = 2) -> np.ndarray:
    """Members that disagree, nearly agree, agree, are sure, or say 0 and 1: logits (N, M, K)."""
    rng = np.random.default_rng(seed)
    base, noise = 2 * rng.normal(size=(n_each, 1, k)), rng.normal(size=(n_each, m, k))
    sure = np.where(np.eye(k, dtype=bool)[rng.integers(k, size=(n_each, m))], 0.0, -np.inf)
    confident = 12 * np.eye(k)[rng.integers(k, size=(n_each, 1))] + 0.05 * noise
    rows = [base + scale * noise for scale in (2, 0.05, 1e-3, 0)]
    return np.concatenate([*rows, confident, sure])


def identical(n_each: int = 2) -> slice:
    return slice(3 * n_each, 4 * n_each)


def exact(probs: Any, rules: Any, **options: Any) -> dict[str, Any]:
    """As decompose, of the same numbers in float64."""
    wide = torch.as_tensor(probs).double().numpy()
    return sw.decompose(wide, rules, check=False, **options)


def assert_right(results: Any, expected: Any, rounding: float = 0.0, m: int = 1) -> None:
    """The accuracy of float32 that docs/numbers.md states.

    Members that are divided by their sum are rounded, which moves EU by about its root. Sums over
    ``m`` members have rounding errors of their own.
    """
    for name, d in results.items():
        for component, a, b in zip(
            ("total", "aleatoric", "epistemic"), d, expected[name], strict=True
        ):
            assert a.dtype == torch.float32
            assert tuple(a.shape) == b.shape
            allowed = 1e-4 * abs(b) + 2.0**-23 * max(8, math.sqrt(m))
            if component == "epistemic":
                allowed = 1e-4 * np.maximum(b, 1e-9) + rounding * np.sqrt(b)
                assert (a >= 0).all(), name
            assert (np.abs(a.double().numpy() - b) <= allowed).all(), (name, component, a, b)


LAYOUTS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, dict[str, int]]]] = {
    "(N, M, K)": lambda x: (x, {}),
    "(M, N, K)": lambda x: (np.ascontiguousarray(x.swapaxes(0, 1)), {"member_axis": 0}),
    "(M, K, N)": lambda x: (
        np.ascontiguousarray(x.transpose(1, 2, 0)),
        {"member_axis": 0, "class_axis": 1},
    ),
    "(K, N, M)": lambda x: (
        np.ascontiguousarray(x.transpose(2, 0, 1)),
        {"member_axis": 2, "class_axis": 0},
    ),
    "(M, N, K) of more instances": lambda x: (
        np.pad(x.swapaxes(0, 1), ((0, 0), (0, 1), (0, 0)))[:, :-1],
        {"member_axis": 0},
    ),
    "every third instance": lambda x: (np.repeat(x, 3, axis=0)[::3], {}),
    "every second member": lambda x: (np.repeat(x, 2, axis=1)[:, ::2], {}),
    "every second class": lambda x: (np.repeat(x, 2, axis=2)[:, :, ::2], {}),
    "some classes": lambda x: (np.pad(x, ((0, 0), (0, 0), (1, 2)))[:, :, 1:-2], {}),
    "shifted": lambda x: (
        np.concatenate([[0], x.ravel()]).astype(x.dtype)[1:].reshape(x.shape),
        {},
    ),
}

SPOILED = {
    "probabilities": ({}, [np.nan, np.inf, -np.inf, -0.5, 3.0, -1e-3]),
    "logits": ({"from_logits": True}, [np.nan, np.inf]),
    "masses": ({"normalize": True}, [np.nan, np.inf, -1.0]),
}
