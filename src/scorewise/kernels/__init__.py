"""The seam for fused kernels: one file each, asked in turn whether they can do the work.

A kernel repeats formulas of ``rules/`` only because it is measured faster, checks its input on the
way, and is held to the array path by tests. Where none is usable the array path answers. A file in
this folder that offers ``is_usable`` and ``compute`` is a kernel; nothing else needs to know of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any, cast

from scorewise._receive import Unchecked
from scorewise.kernels._kernel import Answer, Components, Kernel
from scorewise.kernels._threads import get_num_threads, run, set_num_threads
from scorewise.rules import ScoringRule

__all__ = [
    "KERNELS",
    "Answer",
    "Components",
    "Kernel",
    "ask",
    "get_num_threads",
    "pick",
    "run",
    "set_num_threads",
]

KERNELS: dict[str, Kernel] = {
    module.name: cast(Kernel, importlib.import_module(f"{__name__}.{module.name}"))
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
}


def ask(given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> dict[str, Answer]:
    """What each kernel says of this work, up to the first that can do it."""
    answers: dict[str, Answer] = {}
    for name, kernel in KERNELS.items():
        answers[name] = kernel.is_usable(given, weights, rules)
        if answers[name]:
            break
    return answers


def pick(given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> Kernel | None:
    """The first kernel that can do the work, or None for the array path."""
    answers = ask(given, weights, rules)
    return next((KERNELS[name] for name, answer in answers.items() if answer), None)
