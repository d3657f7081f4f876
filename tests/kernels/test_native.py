"""The compiled extension: it is there, and runs the fastest instructions of the processor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from scorewise.kernels import cpu
from scorewise.kernels._beta_numbers import two_class_numbers
from scorewise.kernels.cpu import _chunks, _native
from scorewise.kernels.cpu._codes import Code, Extra, Kind, Wanted


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


def test_constants_are_the_same_in_python_and_in_the_extension():
    assert _native.LANE_BLOCK == _chunks.LANE_BLOCK
    assert _native.MOST_RULES == cpu.MOST_RULES
    for codes in (Code, Extra, Kind, Wanted):
        assert {code.name: getattr(_native, code.name) for code in codes} == codes.__members__


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm lists the symbols")
def test_every_function_of_a_kernel_is_in_the_namespace_of_its_instruction_set():
    # Of a function that several instruction sets define the linker keeps one, and another processor
    # may lack its instructions.
    command = ["nm", "--defined-only", _native.__file__]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in symbols if "9scorewise" in name]
    if not names:
        pytest.skip("the extension was stripped of its symbols")
    # L: static, of one file alone; _GLOBAL__N_1: the unnamed namespace of module.cpp
    own = re.compile("9scorewise(8baseline|4avx2|6avx512|4neon|L|12_GLOBAL__N_1)")
    assert [name for name in names if not own.search(name)] == []


def decompose_under(rule: tuple[object, ...], n_classes: int = 2) -> bool:
    members, results = np.full((3, 4, n_classes), 1 / n_classes), np.empty((3, 3))
    return _native.decompose(members, None, None, results, (rule,), 0, 1e-6, 0, 0, 3)


BETA = two_class_numbers(0.5, 2.0)


@pytest.mark.parametrize(
    "rule",
    [
        (Code.LOG, 0.0, None),
        (Code.SEPARABLE, 0.5, None),
        (Code.SEPARABLE, 0.5, np.ones(3)),
        (Code.COSTS, 5.0, np.ones(12)),
        (Code.LARGEST, 2.0, None),
        (Code.QUADRATIC, 0.0, np.ones(6)),
        (Code.TWO_CLASS, 0.0, BETA),
    ],
    ids=lambda rule: rule[0].name,
)
def test_rules_with_as_many_numbers_as_they_need_are_computed(rule):
    assert decompose_under(rule)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        ((0, 0.0), TypeError, "a rule is a tuple"),
        ((-1, 0.0, None), ValueError, "there is no structure -1"),
        ((len(Code), 0.0, None), ValueError, "there is no structure"),
        ((Code.LOG, 0.0, np.ones(2)), ValueError, "does not have 2 numbers"),
        ((Code.SEPARABLE, 0.5, np.ones(2)), ValueError, "does not have 2 numbers"),
        ((Code.SEPARABLE, 0.5, np.ones(6)[::2]), ValueError, "must be contiguous"),
        ((Code.SEPARABLE, 0.5, np.ones(3, np.float32)), TypeError, "format"),
        ((Code.SEPARABLE, 0.5, np.ones((3, 1))), TypeError, "axes"),
        ((Code.NORM, 3.0, np.ones(2)), ValueError, "does not have 2 numbers"),
        ((Code.COSTS, 5.0, None), ValueError, "does not have 0 numbers"),
        ((Code.COSTS, 5.0, np.ones(11)), ValueError, "does not have 11 numbers"),
        ((Code.COSTS, 0.0, np.ones(2)), ValueError, "this parameter"),
        ((Code.COSTS, 0.5, np.ones(3)), ValueError, "this parameter"),
        ((Code.COSTS, np.inf, np.ones(12)), ValueError, "this parameter"),
        ((Code.LARGEST, 3.0, None), ValueError, "this parameter"),
        ((Code.LARGEST, np.nan, None), ValueError, "this parameter"),
        ((Code.QUADRATIC, 0.0, np.ones(3)), ValueError, "does not have 3 numbers"),
        ((Code.QUADRATIC, 0.0, np.ones(7)), ValueError, "does not have 7 numbers"),
        ((Code.TWO_CLASS, 0.0, None), ValueError, "does not have 0 numbers"),
        ((Code.TWO_CLASS, 0.0, BETA[:-1]), ValueError, "numbers"),
        ((Code.TWO_CLASS, 0.0, np.zeros_like(BETA)), ValueError, "numbers"),
    ],
)
def test_a_rule_whose_numbers_the_kernel_cannot_read_is_an_error(rule, error, message):
    with pytest.raises(error, match=message):
        decompose_under(rule)


def test_a_rule_of_two_classes_does_not_fit_others():
    with pytest.raises(ValueError, match="for 3 classes"):
        decompose_under((Code.TWO_CLASS, 0.0, BETA), 3)
