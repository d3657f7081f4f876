"""Compiling and launching the kernel: NVRTC makes PTX, of which the driver makes machine code.

The driver keeps that code in its own cache on disk. Both are called by the package cuda-bindings.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

_SHARED_BYTES = 228 << 10  # that blocks of a processor can share, at most
_HEADERS = (
    "prelude",
    "job",
    "functions",
    "rows",
    "tile",
    "first_four",
    "structures",
    "quadratic",
    "two_class",
    "slopes",
    "warp_tiles",
    "warp_components",
    "warp_gradient",
    "block_tiles",
    "block_components",
    "block_gradient",
)


class CannotRun(RuntimeError):
    """The kernel cannot be compiled or started here."""


class CannotCompile(CannotRun):
    """The kernel cannot be compiled for this GPU, now or later."""


class Divider(ctypes.Structure):
    """As in native/job.cuh."""

    _fields_ = (("divisor", ctypes.c_uint32), ("magic", ctypes.c_uint32))

    @classmethod
    def of(cls, divisor: int) -> Divider:
        return cls(divisor, -(-(1 << 32) // divisor) & 0xFFFFFFFF)


class Strides(ctypes.Structure):
    """As in native/job.cuh."""

    _fields_ = (
        ("instance", ctypes.c_int64),
        ("member", ctypes.c_int64),
        ("of_class", ctypes.c_int64),
    )


class Job(ctypes.Structure):
    """As in native/job.cuh."""

    _fields_ = (
        ("members", ctypes.c_void_p),
        ("strides", Strides),
        ("weights", ctypes.c_void_p),
        ("n_instances", ctypes.c_int64),
        ("gradient", ctypes.c_void_p),
        ("gradient_strides", Strides),
        ("upstream", ctypes.c_void_p * 12),
        ("results", ctypes.c_void_p),
        ("invalid", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("singles", ctypes.c_void_p),
        ("parameter", ctypes.c_float),
        ("inverse", ctypes.c_float),
        ("tolerance", ctypes.c_float),
        ("far", ctypes.c_float),
        ("share", ctypes.c_float),
        ("n_members", ctypes.c_int32),
        ("instances", ctypes.c_int32),
        ("stage", ctypes.c_int32),
        ("tile", ctypes.c_int32),
        ("spacing", ctypes.c_int32),
        ("row_spacing", ctypes.c_int32),
        ("is_by_instance", ctypes.c_int32),
        ("rows", Divider),
        ("pieces", Divider),
    )


@lru_cache
def source(name: str) -> str:
    """Return the text of a file of native/."""
    return Path(__file__).with_name("native").joinpath(name).read_text(encoding="utf-8")


def definitions(constants: tuple[tuple[str, Any], ...]) -> str:
    """Return what is defined before the kernel."""
    return "".join(f"#define {name} {value}\n" for name, value in constants)


def launch(
    constants: tuple[tuple[str, Any], ...],
    job: Job,
    n_blocks: int,
    n_threads: int,
    n_bytes: int,
    device: Any,
) -> None:
    """Run the kernel on the current stream of a torch device; it may not have ended on return."""
    import torch
    from cuda.bindings import driver

    if torch.cuda.current_device() != device.index:
        with torch.cuda.device(device):
            launch(constants, job, n_blocks, n_threads, n_bytes, device)
        return
    if not int(_checked(driver.cuCtxGetCurrent())):  # a new thread has no context yet
        torch.cuda.mem_get_info(device)
    function, most_blocks = _function_and_blocks(constants, device.index, n_threads, n_bytes)
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    pointer = ctypes.c_void_p(ctypes.addressof(job))
    n_blocks, address = min(n_blocks, most_blocks), ctypes.addressof(pointer)
    _checked(
        driver.cuLaunchKernel(
            function, n_blocks, 1, 1, n_threads, 1, 1, n_bytes, stream, address, 0
        )
    )


class Flag:
    """A number in host memory, which the kernel sets for invalid members: nothing is copied."""

    def __init__(self) -> None:
        import torch

        self._is_pinned = torch.cuda.is_available()  # then a GPU can write to it
        self._memory = torch.zeros(1, dtype=torch.int32, pin_memory=self._is_pinned)
        self.address = self._memory.data_ptr()
        self._number = ctypes.c_int32.from_address(self.address)

    def lower(self) -> None:
        """Set it to 0, before kernels run."""
        self._number.value = 0

    def is_raised(self, device: Any) -> bool:
        """Return whether it is set, once all kernels of the current stream have ended."""
        import torch

        if self._is_pinned:
            torch.cuda.current_stream(device).synchronize()
        return self._number.value != 0


_of_thread = threading.local()


def own_flag() -> Flag:
    """Return the flag of this thread, as others may run kernels, too."""
    try:
        return _of_thread.flag  # type: ignore[no-any-return]
    except AttributeError:
        _of_thread.flag = Flag()
        return _of_thread.flag  # type: ignore[no-any-return]


@lru_cache
def most_shared_bytes(device: Any) -> int:
    """Return the most shared memory that a block can have."""
    import torch

    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


@lru_cache(maxsize=256)
def _function(constants: tuple[tuple[str, Any], ...], device: int) -> Any:
    """Return the kernel that is compiled for these constants and a device."""
    import torch
    from cuda.bindings import driver

    major, minor = torch.cuda.get_device_capability(device)
    program = compiled(definitions(constants), f"{major}{minor}")
    torch.cuda.synchronize(device)  # makes its context the current one
    module = _checked(driver.cuModuleLoadData(program))
    function = _checked(driver.cuModuleGetFunction(module, b"decompose"))
    limit = most_shared_bytes(device)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _checked(driver.cuFuncSetAttribute(function, attribute, limit))
    return function


@lru_cache(maxsize=1024)
def _function_and_blocks(
    constants: tuple[tuple[str, Any], ...], device: int, n_threads: int, n_bytes: int
) -> tuple[Any, int]:
    """Return the kernel, and how many blocks run at once; each then works on several tiles."""
    import torch
    from cuda.bindings import driver

    function = _function(constants, device)
    # of the memory that a processor shares with its cache, in per cent: what its blocks need
    needed = 100 * int(dict(constants)["LEAST_BLOCKS"]) * (n_bytes + 1024) // _SHARED_BYTES + 1
    is_of_warps = bool(dict(constants)["CLASS_LANES"])  # as many blocks as fit
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    _checked(
        driver.cuFuncSetAttribute(function, attribute, 100 if is_of_warps else min(needed, 100))
    )
    per_processor = _checked(
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, n_threads, n_bytes)
    )
    n_processors = torch.cuda.get_device_properties(device).multi_processor_count
    return function, int(per_processor) * n_processors


def compiled(definitions: str, capability: str) -> bytes:
    """Return PTX of the kernel for a compute capability such as ``"90"``."""
    from cuda.bindings import nvrtc

    text = (definitions + source("decompose.cu")).encode()
    headers = [source(f"{name}.cuh").encode() for name in _HEADERS]
    names = [f"{name}.cuh".encode() for name in _HEADERS]
    program = _checked(
        nvrtc.nvrtcCreateProgram(text, b"decompose.cu", len(headers), headers, names)
    )
    options = [
        f"--gpu-architecture=compute_{capability}".encode(),
        b"--std=c++17",
        b"-default-device",
    ]
    status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status:
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CannotCompile(f"it does not compile:\n{log.decode()}")
    ptx: bytes = b" " * _checked(nvrtc.nvrtcGetPTXSize(program))
    _checked(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return what a function of CUDA returned, or raise its error."""
    status, *values = answer
    if status:
        raise CannotRun(f"CUDA answers {status!r}")
    return values[0] if values else None
