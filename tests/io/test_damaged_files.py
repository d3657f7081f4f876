"""Files that are cut off or damaged are read or refused, and never crash the process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from wrong_files_support import KINDS, use, write_kind


@pytest.mark.parametrize("kind", [pytest.param(kind) for kind in KINDS])
def test_a_file_that_is_cut_off_is_refused(tmp_path, kind):
    path = tmp_path / f"a.{kind.split('.')[-1]}"
    write_kind(kind, path)
    content = path.read_bytes()
    step = max(1, len(content) // 150)
    for length in {*range(0, len(content), step), *range(len(content) - 12, len(content))}:
        path.write_bytes(content[:length])
        with pytest.raises((sw.InvalidInput, OSError), match=r"a\."):
            use(path)


SEED = 6  # with which Arrow crashes soonest


def flip(kind: str, folder: str, n: int) -> dict[str, str]:
    """What damaged files raise that they must not, with the first message."""
    warnings.simplefilter("error")
    path = Path(folder, f"a.{kind.split('.')[-1]}")
    write_kind(kind, path)
    content = path.read_bytes()
    rng = np.random.default_rng(SEED)
    result: dict[str, str] = {}
    for _ in range(n):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[at] = rng.integers(256) if rng.random() < 0.5 else damaged[at] ^ 1 << at % 8
        path.write_bytes(damaged)
        try:
            use(path)
        except sw.InvalidInput:
            pass
        except Exception as error:
            result.setdefault(type(error).__name__, str(error))
    return result


FLIPS = {
    "npy": "TokenError, SyntaxError",
    "npz": "NotImplementedError, OSError, UnicodeDecodeError",
    "compressed.npz": "NotImplementedError, OSError",
    "csv": "TypeError (np.dtype of the comment)",
    "safetensors": "",
    "parquet": "OSError without the file's name, UnicodeDecodeError, ArrowException",
    "nested.parquet": "OSError without the file's name, UnicodeDecodeError, ArrowIndexError",
    "arrow": "CRASH (bus error): offsets of text are trusted; RecordBatch.validate(full=True)",
    "nested.arrow": "CRASH (segmentation fault) in dictionary_decode and flatten",
    "lz4.arrow": "CRASH (abort) in _one_column",
}


@pytest.mark.parametrize("kind", [pytest.param(kind) for kind, what in FLIPS.items()])
def test_a_damaged_file_is_read_or_refused(tmp_path, kind):
    if not kind.endswith(("arrow", "parquet")):
        assert flip(kind, str(tmp_path), 800) == {}
        return
    n = 100
    code = "import sys; sys.path.append('..'); from test_damaged_files import flip; "
    code += f"print(flip({kind!r}, {str(tmp_path)!r}, {n}))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        timeout=600,  # it must not hang
    )
    assert ran.returncode == 0, ran.stderr[-500:]
    assert ran.stdout.strip() == "{}"
