"""The state of an accumulator in host memory, to which the kernel adds members."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise._array import Array, dtype_name, host_view, namespace, working_precision
from scorewise._inputs import RawPredictions
from scorewise._threads import get_num_threads, run_in_stages
from scorewise.kernels.cpu._chunks import LANE_BLOCK, chunks, rounded_up
from scorewise.kernels.cpu._codes import Code, NativeRule, Wanted, kind_and_tolerance

_CHUNK = 1 << 18  # numbers that are worth handing to a thread, or copied at a time
_BLOCK = 1 << 16  # numbers that are checked, and then added while a cache has them
_SLAB = 1 << 22  # numbers that are widened from half precision at a time
_SHARES = 1 << 14  # instances whose shares are computed at a time
_FEW_NUMBERS = 1 << 12  # of rows that are rather copied than passed one after the other
_ALIGNMENT = 64  # bytes of a vector

# Up to so many classes, instances are side by side (measured): what is done once for each vector of
# instances then costs least. Rules from costs on need classes in their order.
_FEW_CLASSES = 400
# As has_convex in native/dispatch.hpp.
_WITH_CONVEX = {Code.LOG, Code.ZERO_ONE, Code.SEPARABLE, Code.NORM, Code.TWO_CLASS}

_Task = Callable[[], bool]
_Work = Callable[[int, np.ndarray, int, int], bool]  # on instances (n, K) from the state's first on

# Anchor, deviation, regrets, statistics (E H(θ) of all rules, then EU), convex parts, and 1 where
# the anchor is 0; all flat.
_Memory = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class State:
    """What an accumulator knows of N instances under some rules; README.md explains its layout.

    The mean is ``anchor + deviation``; the anchor is one of the heaviest members, or 0 where they
    are far apart. Of every rule there are E H(θ), and EU or a lower bound of it; of some the mean
    convex part of H, of which EU is a difference where members are far apart.

    Parameters
    ----------
    shape : tuple of int
        Of a member, ``(..., K)``.
    dtype : dtype
        Of the mean.
    rules : sequence of native rules
        Equal ones are computed once.
    """

    def __init__(self, shape: Sequence[int], dtype: Any, rules: Sequence[NativeRule]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._n, self._k = math.prod(self.shape[:-1]), self.shape[-1]
        keys = [(code, parameter, id(numbers)) for code, parameter, numbers in rules]
        distinct = dict(zip(keys, rules, strict=True))
        self._rules = tuple(distinct.values())
        self._places = [list(distinct).index(key) for key in keys]
        codes = [code for code, *_ in self._rules]
        # whatever the number of instances: a softmax then has the same rounding errors
        self._is_side_by_side = max(codes) >= Code.COSTS or self._k <= _FEW_CLASSES
        self._row = self._k if self._is_side_by_side else rounded_up(self._k)
        self._room = rounded_up(self._n)
        self._regret_counts = [_n_regrets(rule, self._row) for rule in self._rules]
        self._memory = self._new_memory()
        self._is_backward = False  # whether the last pass was

    # -- a new member -----------------------------------------------------------------------------

    def add(self, raw: RawPredictions, shares: Callable[[int, int], np.ndarray]) -> bool:
        """Add a member ``(..., K)``; return False, and add nothing, if it is no prediction.

        Of the instances from one to another, ``shares`` returns that of the member in the weight of
        all, that of the members before it, and 1 where it is heavier than each of them.
        """
        native, (kind, tolerance) = _native(), kind_and_tolerance(raw)

        def check(_: int, member: np.ndarray, start: int, stop: int) -> bool:
            return bool(native.check(member[:, None], kind, tolerance, start, stop))

        def accumulate(first: int, member: np.ndarray, start: int, stop: int) -> bool:
            how = self._rules, kind, tolerance, self._is_side_by_side
            while start < stop:
                end = min(start + _SHARES, stop)
                own = shares(first + start, first + end)
                end = stop if own.shape[1] == 1 else end
                arrays = member[start:end, None], own[..., None], self._memory
                native.accumulate(*arrays, *how, first + start, 0, end - start)
                start = end
            return True

        # A pass starts where the one before it ended, as caches still have the numbers there.
        self._is_backward = not self._is_backward
        ways: list[tuple[_Work, bool]] = [(check, not self._is_backward)] if raw.check else []
        ways.append((accumulate, self._is_backward))
        view, n_threads = self._view(raw.values), self._n_threads(self._n * self._k)
        if view is not None:
            stages = [self._tasks(work, 0, view, backward, n_threads) for work, backward in ways]
            return run_in_stages(stages, n_threads)
        for work, backward in ways:
            for first, member in self._copies(raw.values, 0):
                tasks = self._tasks(work, first, member, backward, n_threads)
                if not run_in_stages([tasks], n_threads):
                    return False
        return True

    def add_all(self, raw: RawPredictions, shares: np.ndarray) -> bool:
        """Add all members ``(N, M, K)`` at once, with shares ``(3, M)`` as of one after the other.

        Return False if some are no predictions: the state must not be used any more.
        """
        native, (kind, tolerance) = _native(), kind_and_tolerance(raw)
        xp, n_members = namespace(raw.values), raw.values.shape[1]
        how = self._rules, kind, tolerance, self._is_side_by_side
        own = np.ascontiguousarray(shares[:, None])

        def work(first: int, members: np.ndarray, start: int, stop: int) -> bool:
            step = rounded_up(_BLOCK // (n_members * self._k) + 1)
            for i in range(start, stop, step):
                here = i, min(i + step, stop)
                if raw.check and not native.check(members, kind, tolerance, *here):
                    return False
                native.accumulate(members, own, self._memory, *how, first, *here)
            return True

        is_half = dtype_name(raw.values) in {"float16", "bfloat16"}
        slab = rounded_up(_SLAB // (n_members * self._k) + 1) if is_half else max(1, self._n)
        for start in range(0, self._n, slab):
            members = host_view(working_precision(xp, raw.values[start : start + slab, ...]))
            if not self._is_side_by_side and members.strides[-1] != members.itemsize:
                return False
            n_threads = self._n_threads(members.size)
            ranges = chunks(len(members), members.size, _CHUNK, n_threads)
            tasks = [partial(work, start, members, *stretch) for stretch in ranges]
            if not run_in_stages([tasks], n_threads):
                return False
        return True

    @staticmethod
    def _n_threads(n_numbers: int) -> int:
        return get_num_threads() if n_numbers >= 2 * _CHUNK else 1

    def _new_memory(self) -> _Memory:
        n_rules, n_regrets = len(self._rules), sum(self._regret_counts)
        n_convex = sum(code in _WITH_CONVEX for code, *_ in self._rules)
        return (
            _zeros(self._room * self._row, self.dtype),
            _zeros(self._room * self._row, self.dtype),
            _zeros(self._room * n_regrets, self.dtype),
            _zeros(2 * n_rules * self._room, self.dtype),
            _zeros(n_convex * self._room, np.dtype(np.float64)),
            np.zeros(self._room, np.uint8),
        )

    def _tasks(
        self, work: _Work, first: int, member: np.ndarray, backward: bool, n_threads: int
    ) -> Sequence[_Task]:
        """Return the parts of the work on instances (n, K) from the state's ``first`` on."""
        ranges = chunks(len(member), member.size, _CHUNK, n_threads, first)
        tasks = [partial(work, first, member, start, stop) for start, stop in ranges]
        return tasks[::-1] if backward else tasks

    def _view(self, values: Array) -> np.ndarray | None:
        """Return the instances as an array (n, K) that the kernel can read; None without a copy."""
        if dtype_name(values) in {"float16", "bfloat16"}:
            return None
        view = host_view(values)
        in_rows = view.ndim == 1 or view.strides[-1] == view.itemsize
        if (in_rows or self._is_side_by_side) and _is_evenly_spaced(view):
            return view.reshape(-1, self._k)
        return None

    def _copies(self, values: Array, first: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of an instance, and a copy (n, K) of a few instances from it on.

        Parts that the kernel can read are not copied.
        """
        shape = tuple(values.shape)
        if math.prod(shape) == 0:
            return
        view = self._view(values)
        if view is not None:
            yield first, view
            return
        if len(shape) == 1:
            values, shape = values[None, :], (1, *shape)
        per_row = math.prod(shape[1:])
        if len(shape) > 2 and per_row > _FEW_NUMBERS:
            for i in range(shape[0]):
                yield from self._copies(values[i, ...], first + i * per_row // self._k)
            return
        step, xp = max(1, _CHUNK // per_row), namespace(values)
        for start in range(0, shape[0], step):
            block = host_view(working_precision(xp, values[start : start + step, ...]))
            rows = np.ascontiguousarray(block).reshape(-1, self._k)
            yield first + start * per_row // self._k, rows

    # -- results ----------------------------------------------------------------------------------

    def components(self) -> list[list[np.ndarray]]:
        """Return total, aleatoric and epistemic uncertainty of each rule, ``(...)``, new arrays."""
        totals = self._update_results(Wanted.EPISTEMIC)
        both = self._memory[3].reshape(-1, 2, len(self._rules), LANE_BLOCK)
        rows = [
            [totals[place], *(both[:, part, place].reshape(-1) for part in range(2))]
            for place in self._places
        ]
        return [[x[: self._n].reshape(self.shape[:-1]).copy() for x in three] for three in rows]

    def _update_results(self, wanted: Wanted) -> np.ndarray:
        """Return the totals, and find what else is wanted."""
        totals = np.empty((len(self._rules), self._room), self.dtype)
        arguments = self._memory, totals, self._rules, self._k, self._is_side_by_side
        work = partial(_native().update_results, *arguments, wanted)
        n_numbers = self._room * self._k
        n_threads = self._n_threads(n_numbers)
        ranges = chunks(self._room, n_numbers, _CHUNK, n_threads)
        run_in_stages([[partial(work, start, stop) for start, stop in ranges]], n_threads)
        return totals

    @property
    def anchor(self) -> np.ndarray:
        """One of the heaviest members, ``(..., K)``, or 0; a new array."""
        return self._rows(self._memory[0], 0, self._k).reshape(self.shape)

    @property
    def deviation(self) -> np.ndarray:
        """How far the mean is from the anchor, ``(..., K)``, a new array."""
        return self._rows(self._memory[1], 0, self._k).reshape(self.shape)

    def regrets(self, rule: int) -> np.ndarray | None:
        """The mean regrets under a rule, ``(..., R)``, a new array; None if it has none."""
        place = self._places[rule]
        n, first = self._regret_counts[place], sum(self._regret_counts[:place])
        if n == 0:
            return None
        n = n if self._is_side_by_side else self._k
        self._update_results(Wanted.REGRETS)
        return self._rows(self._memory[2], first, n).reshape(*self.shape[:-1], n)

    def load(
        self,
        anchor: np.ndarray,
        deviation: np.ndarray,
        aleatoric: Sequence[np.ndarray],
        states: Sequence[np.ndarray],
    ) -> None:
        """Take over the statistics of other members: of each rule E H(θ), and EU or regrets."""
        self._memory[5][:] = 0
        self._set_rows(self._memory[0], 0, anchor)
        self._set_rows(self._memory[1], 0, deviation)
        both = self._memory[3].reshape(-1, 2, len(self._rules), LANE_BLOCK)
        for i, place in enumerate(self._places):
            both[:, 0, place] = self._blocks(aleatoric[i])
            if n_regrets := self._regret_counts[place]:
                # Rows are filled up with their largest regret: what is beyond the last is no class.
                more = n_regrets - states[i].shape[-1]
                axes = [(0, 0)] * (states[i].ndim - 1) + [(0, more)]
                regrets = np.pad(states[i], axes, mode="maximum")
                self._set_rows(self._memory[2], sum(self._regret_counts[:place]), regrets)
            else:
                both[:, 1, place] = self._blocks(states[i])
        self._update_results(Wanted.CONVEX)

    # -- the layout in memory ---------------------------------------------------------------------

    def _blocks(self, values: np.ndarray) -> np.ndarray:
        """Numbers of the instances, in whole blocks."""
        padded = np.zeros(self._room, self.dtype)
        padded[: self._n] = values.reshape(-1)
        return padded.reshape(-1, LANE_BLOCK)

    def _instances(self, flat: np.ndarray) -> np.ndarray:
        """A view of numbers: (blocks, instances of a block, numbers of an instance)."""
        length = flat.size // max(1, self._room)
        if self._is_side_by_side:
            return flat.reshape(-1, length, LANE_BLOCK).swapaxes(1, 2)
        return flat.reshape(-1, LANE_BLOCK, length)

    def _rows(self, flat: np.ndarray, first: int, n: int) -> np.ndarray:
        if self._room == 0:
            return np.empty((0, n), self.dtype)
        rows = self._instances(flat)[..., first : first + n]
        return np.array(rows, order="C").reshape(-1, n)[: self._n]  # a copy in any case

    def _set_rows(self, flat: np.ndarray, first: int, rows: np.ndarray) -> None:
        if self._n == 0:
            return
        rows = rows.reshape(self._n, -1)
        view = self._instances(flat)[..., first : first + rows.shape[1]]
        whole = self._n // LANE_BLOCK
        view[:whole] = rows[: whole * LANE_BLOCK].reshape(whole, LANE_BLOCK, rows.shape[1])
        view[whole:, : self._n % LANE_BLOCK] = rows[whole * LANE_BLOCK :]


def _native() -> Any:
    return importlib.import_module("scorewise.kernels.cpu._native")


def _n_regrets(rule: NativeRule, row: int) -> int:
    """The regrets of an instance; as in native/dispatch.hpp."""
    code, parameter, _ = rule
    return {Code.ZERO_ONE: row, Code.COSTS: int(parameter), Code.LARGEST: 2 * row}.get(code, 0)


def _zeros(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Zeros whose first number is aligned to vectors."""
    more = _ALIGNMENT // dtype.itemsize
    zeros = np.zeros(size + more, dtype)
    start = -zeros.ctypes.data % _ALIGNMENT // dtype.itemsize
    return zeros[start : start + size]


def _is_evenly_spaced(view: np.ndarray) -> bool:
    """Return whether all instances of an array (..., K) are equally far from the next."""
    axes = [
        (n, stride) for n, stride in zip(view.shape[:-1], view.strides[:-1], strict=True) if n > 1
    ]
    return all(stride == n * next_stride for (_, stride), (n, next_stride) in pairwise(axes))
