"""The compiled extension: it is there, and runs the fastest instructions of the processor."""

from __future__ import annotations

import os
import subprocess
import sys

from scorewise.kernels.cpu import _native


def test_the_extension_runs_the_fastest_instruction_set_unless_another_is_chosen():
    # CI must never pass without the extension: no skip here.
    fastest = _native.instruction_sets()[-1]
    assert _native.instruction_set() == os.environ.get("SCOREWISE_INSTRUCTION_SET", fastest)


def import_with(instruction_set: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from scorewise.kernels.cpu import _native; print(_native.instruction_set())",
        ],
        env={**os.environ, "SCOREWISE_INSTRUCTION_SET": instruction_set},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_chooses_among_the_instruction_sets():
    slowest = _native.instruction_sets()[0]
    assert import_with(slowest).stdout.strip() == slowest


def test_an_instruction_set_that_the_processor_lacks_is_an_error_which_names_those_it_has():
    error = import_with("mmx").stderr
    assert "ImportError: SCOREWISE_INSTRUCTION_SET is 'mmx'" in error
    assert str(_native.instruction_sets()) in error
