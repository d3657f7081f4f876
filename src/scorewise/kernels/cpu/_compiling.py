"""The fused pass, compiled by Numba as far as LLVM's assembly."""

from __future__ import annotations

import re

import numpy as np
from numba import njit, typeof, types

from scorewise.kernels.cpu._fused import fused
from scorewise.kernels.cpu._records import RECORDS


def llvm_assembly(dtype: str, name: str) -> str:
    """A module with one function of that name, which needs nothing of Python or Numba.

    Its arguments: where to put the result, where to put an exception (there is none), a number of
    the dtype, the tolerance, and the integers of all records.
    """
    records = [record(*range(len(record._fields))) for record in RECORDS]
    signature = (typeof(np.dtype(dtype).type(0)), types.float64, *map(typeof, records))
    compiled = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(fused)
    compiled.compile(signature)
    result = compiled.overloads[signature]
    assembly = str(result.library.get_llvm_str())
    needed = set(re.findall(r"^declare .*?@\"?([^\s(\"]+)", assembly, flags=re.MULTILINE))
    if others := {symbol for symbol in needed if not symbol.startswith("llvm.")}:
        raise RuntimeError(f"compiled code needs {sorted(others)}, which is not there when loaded")
    mangled = result.fndesc.llvm_func_name
    return assembly.replace(f'@"{mangled}"', f"@{name}").replace(f"@{mangled}", f"@{name}")
