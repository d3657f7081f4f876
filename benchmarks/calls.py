"""Calls of scorewise that are timed, in this version or in another one.

    python benchmarks/calls.py

run with another checkout first in PYTHONPATH, times calls of that version: each line of input is a
call in JSON, and each line of output how many seconds it takes, or null if it fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import scorewise as sw
from measuring import Work, fill_with_members

PACKED, MEMBERS_FIRST, STRIDED, LOGITS, WEIGHTED = LAYOUTS = [
    "Probabilities (N, M, K)",
    "Probabilities (M, N, K)",
    "A strided view: every second member of (N, 2M, K)",
    "Logits (N, M, K)",
    "Probabilities (N, M, K) with weights (M,)",
]


@dataclass(frozen=True)
class Call:
    """A call of scorewise, and the members that it reads."""

    rules: tuple[str, ...]
    shape: tuple[int, int, int]
    dtype: str = "float32"
    kind: str = "doubtful"
    layout: str = PACKED
    action: str = "decompose"

    def prepare(self) -> Work:
        """Make the members, and return the work that is to be timed."""
        array, options = self.members()
        rules = {name: _rule(name, self.shape[-1]) for name in self.rules}
        return partial(ACTIONS[self.action], array, rules, options)

    def members(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the array, laid out in memory as wanted, and the options that describe it."""
        return _members(replace(self, rules=(), action=""))


@lru_cache(maxsize=1)  # several calls in a row read the same members, which may be large
def _members(call: Call) -> tuple[np.ndarray, dict[str, Any]]:
    n, m, k = call.shape
    if call.layout == MEMBERS_FIRST:
        array = np.empty((m, n, k), call.dtype)
        fill_with_members(np.moveaxis(array, 0, 1), call.kind)
        return array, {"member_axis": 0}
    if call.layout == STRIDED:
        memory = np.empty((n, 2 * m, k), call.dtype)
        fill_with_members(memory, call.kind)
        return memory[:, ::2], {}
    array = np.empty((n, m, k), call.dtype)
    fill_with_members(array, call.kind, logits=call.layout == LOGITS)
    if call.layout == LOGITS:
        return array, {"from_logits": True}
    if call.layout == WEIGHTED:
        return array, {"weights": np.arange(1, m + 1, dtype=call.dtype)}
    return array, {}


def _rule(name: str, k: int) -> Any:
    """Return the rule; some have parameters for each of the k classes."""
    rng = np.random.default_rng(0)
    if name == "cost matrix, 5 actions":
        return sw.rules.cost_matrix(rng.uniform(0, 3, (k, 5)))
    if name == "weighted log":
        return sw.rules.weighted_log(rng.uniform(1, 3, k))
    if name == "quadratic":
        root = rng.normal(size=(k, k))
        return sw.rules.quadratic(root @ root.T / k)
    return sw.get_rule(name)


def _accumulate(array: np.ndarray, rules: dict[str, Any], options: dict[str, Any]) -> object:
    accumulator = sw.Accumulator(rules)
    for member in np.moveaxis(array, options.get("member_axis", 1), 0):
        accumulator.update(member)
    return accumulator.result()


def _only(rules: dict[str, Any]) -> Any:
    (rule,) = rules.values()
    return rule


ACTIONS: dict[str, Callable[[Any, dict[str, Any], dict[str, Any]], object]] = {
    "decompose": lambda x, rules, options: sw.decompose(x, rules, **options),
    "decompose by one rule": lambda x, rules, options: sw.decompose(x, _only(rules), **options),
    "unbiased=True": lambda x, rules, options: sw.decompose(x, rules, unbiased=True, **options),
    "standard_errors=True": lambda x, rules, options: sw.decompose(
        x, rules, standard_errors=True, **options
    ),
    "predictor=": lambda x, rules, options: sw.decompose(x, rules, predictor=x[:, 0], **options),
    "pairwise_epistemic": lambda x, rules, _: sw.pairwise_epistemic(x, _only(rules)),
    "reverse_epistemic": lambda x, rules, _: sw.reverse_epistemic(x, _only(rules)),
    "label_wise": lambda x, *_: sw.label_wise(x),
    "decide": lambda x, rules, _: sw.decide(x, _only(rules).costs),
    "task_losses": lambda x, rules, _: sw.task_losses(x, np.arange(len(x)) % 2, _only(rules)),
    "Accumulator.update": _accumulate,
}


def seconds(work: Work, rounds: int = 5, limit: float = 1.0) -> float:
    """Return the shortest time of so many runs, or of as many as start within the limit."""
    best, start = float("inf"), time.perf_counter()
    for _ in range(rounds):
        begin = time.perf_counter()
        if begin - start > limit:
            break
        work()
        best = min(best, time.perf_counter() - begin)
    return best


class OtherVersion:
    """A checkout of another version of scorewise, in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def __enter__(self) -> OtherVersion:
        path = os.pathsep.join([str(self._checkout.resolve() / "src"), *sys.path[1:]])
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def seconds(self, call: Call) -> float | None:
        """Return how long the call takes there; None if it fails."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(asdict(call)), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]


def main() -> None:
    for line in sys.stdin:
        fields = json.loads(line)
        call = Call(**fields | {"rules": tuple(fields["rules"]), "shape": tuple(fields["shape"])})
        try:
            answer = seconds(call.prepare())
        except Exception as error:  # whatever another version raises
            print(f"{call}: {error}", file=sys.stderr)
            answer = None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
