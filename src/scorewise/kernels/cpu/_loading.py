"""Machine code of the fused pass: from disk, or compiled now and kept there.

Numba compiles it, and LLVM alone loads it later: the first call of a process takes a tenth of a
second, not four as with Numba's own cache. A file on disk is for one dtype, one kind of processor,
one version of Numba and LLVM and one state of the sources, which its name says. What is loaded is
executed, so it must be a file that nobody but the user and root can write or replace.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from llvmlite import binding as llvm

from scorewise.kernels.cpu._records import RECORDS

_PATIENCE = 1.0  # seconds without a word
_ENTRY = "scorewise_fused"


def load(dtype: str) -> Callable[..., bool]:
    """The fused pass for float32 or float64, a function of plain numbers."""
    with _lock:  # of several threads that need it, one compiles
        return _load(dtype)


@cache
def _load(dtype: str) -> Callable[..., bool]:
    machine = _machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(_machine_code(dtype, machine)))
    engine.finalize_object()
    number = ctypes.c_float if dtype == "float32" else ctypes.c_double
    integers = [ctypes.c_int64] * sum(len(record._fields) for record in RECORDS)
    pointers = [ctypes.c_void_p] * 2  # to the result, and to what Numba calls an exception
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, number, ctypes.c_double, *integers)
    function = kind(engine.get_function_address(_ENTRY))

    def fused(tolerance: float, *records: Any, owner: Any = engine) -> bool:
        good, exception = ctypes.c_bool(), ctypes.c_void_p()
        results = ctypes.addressof(good), ctypes.addressof(exception)
        if function(*results, 0.0, tolerance, *(i for record in records for i in record)):
            raise RuntimeError("compiled code raised an exception, which it has no reason for")
        return good.value

    return fused


_lock = threading.Lock()


def _forget() -> None:
    """A forked child must not wait for a thread that only its parent has."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=3, codemodel="jitdefault", jit=True
    )


def _features() -> str:
    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:  # LLVM does not know this processor
        return ""


class _Unsafe(OSError):
    """Says why another user could have written a file, or could replace it."""


def kept(dtype: str) -> bytes | None:
    """The machine code that an earlier process has compiled, if there is any."""
    for path in _paths(dtype):
        with suppress(OSError):
            code = _read(path)
            if code is not None:
                return code
    return None


def _machine_code(dtype: str, machine: Any) -> bytes:
    code = kept(dtype)
    if code is None:
        with _announced(
            f"compiling the fused kernel for {dtype}: once after installation, some ten seconds, "
            "up to a minute on a busy machine"
        ):
            code = _compile(dtype, machine)
        _store(dtype, code)
    return code


def _store(dtype: str, code: bytes) -> None:
    """Write machine code for later processes to the first place where it is safe."""
    reasons: dict[Path, str] = {}
    for path in _paths(dtype):
        try:
            _write(path, code)
            return
        except _Unsafe as error:
            reasons[path.parent] = str(error)
        except OSError:  # read-only or full
            continue
    for folder, reason in reasons.items():
        _warn(folder, reason)


@cache
def _warn(folder: Path, reason: str) -> None:
    logging.getLogger("scorewise").warning(
        "compiled code is not loaded from %s or stored there, as %s. Allow nobody else to write "
        "there (chmod go-w), remove what is not yours, or set SCOREWISE_CACHE_DIR to a folder of "
        "your own; otherwise each process compiles again",
        folder,
        reason,
    )


def _compile(dtype: str, machine: Any) -> bytes:
    from scorewise.kernels.cpu._compiling import llvm_assembly

    module = llvm.parse_assembly(llvm_assembly(dtype, _ENTRY))
    return bytes(machine.emit_object(module))


def _file_name(dtype: str) -> str:
    """A name that tells all that machine code depends on; none where there are no sources."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    if not sources:
        return ""
    target = [llvm.get_default_triple(), llvm.get_host_cpu_name(), _features()]
    versions = [metadata.version(name) for name in ("llvmlite", "numba")]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    digest = hashlib.sha256("\n".join([*target, *versions, *texts]).encode()).hexdigest()
    return f"scorewise-{dtype}-{digest[:32]}.o"


def cache_folders() -> list[Path]:
    """Where machine code may lie: as told, beside this file, or in the user's cache folder."""
    told = os.environ.get("SCOREWISE_CACHE_DIR")
    if told:
        return [Path(told)]
    home = {"win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    user = Path(os.environ.get(home) or os.path.expanduser("~/.cache"))
    return [Path(__file__).parent / "__pycache__", user / "scorewise"]


def _paths(dtype: str) -> list[Path]:
    name = _file_name(dtype)
    return [folder.absolute() / name for folder in cache_folders()] if name else []


def _read(path: Path) -> bytes | None:
    """The machine code in a file, None if it is not whole; raises where there is none."""
    _check_folder(path.parent)
    with open(path, "rb", opener=_open_at_once) as file:
        _check_file(path, os.fstat(file.fileno()))
        content = file.read()
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, but no link; do not wait for whoever would write to a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _write(path: Path, code: bytes) -> None:
    """Put machine code and its digest into a file, whole or not at all."""
    for folder in reversed([path.parent, *path.parent.parents]):
        folder.mkdir(mode=0o700, exist_ok=True)
    _check_folder(path.parent)
    with suppress(FileNotFoundError):
        _check_file(path, path.lstat())
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.chmod(temporary, 0o644)  # others may have the same package
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _check_file(path: Path, status: os.stat_result) -> None:
    """Raise unless this is a regular file that only the user and root can write."""
    if not stat.S_ISREG(status.st_mode):
        raise _Unsafe(f"{path} is not a regular file")
    _check_owner(path, status)
    _check_mode(path, status)


def _check_folder(folder: Path, is_parent: bool = False) -> None:
    """Raise if others can write to a folder, or can replace it or a part of its path.

    Others may write to a parent folder that has the sticky bit, such as /tmp: what is not theirs
    they cannot replace there.
    """
    status = folder.lstat()
    _check_owner(folder, status)
    if stat.S_ISLNK(status.st_mode):
        folder.stat()  # raises for links that lead to themselves
        _check_folder(folder.parent / folder.readlink(), is_parent)
    elif not (is_parent and status.st_mode & stat.S_ISVTX):
        _check_mode(folder, status)
    if folder != folder.parent:
        _check_folder(folder.parent, is_parent=True)


def _check_owner(path: Path, status: os.stat_result) -> None:
    # Windows has access lists instead, which protect the folders of a user's profile
    if sys.platform != "win32" and status.st_uid not in {0, os.geteuid()}:
        raise _Unsafe(f"{path} belongs to another user")


def _check_mode(path: Path, status: os.stat_result) -> None:
    if sys.platform != "win32" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Unsafe(f"others can write to {path}")


@contextmanager
def _announced(what: str) -> Iterator[None]:
    """Say what is being done, if it takes longer than one would wait without a word."""
    timer = threading.Timer(_PATIENCE, logging.getLogger("scorewise").warning, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
