"""Stages of tasks on several threads: their order, failures, and many callers at once."""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from scorewise._threads import _executor, one_blas_thread, run_in_stages, run_in_threads


def blas_threads() -> set[int]:
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


def test_callers_in_several_threads_that_overlap_leave_blas_its_threads():
    before = blas_threads()
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    between: list[set[int]] = []

    def first() -> None:
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait()
        first_is_out.set()

    def second() -> None:
        first_is_in.wait()
        with one_blas_thread():
            second_is_in.set()
            first_is_out.wait()
            between.append(blas_threads())

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert between == [{1}]
    assert blas_threads() == before


def test_other_threads_can_limit_blas_afterwards():
    with one_blas_thread():
        pass
    limited: list[set[int]] = []

    def limit() -> None:
        with threadpool_limits(1, "blas"):
            limited.append(blas_threads())

    thread = threading.Thread(target=limit)
    thread.start()
    thread.join()
    assert limited == [{1}]


def record(done: list[int], stage: int, seconds: float = 0.001) -> bool:
    time.sleep(seconds)
    done.append(stage)
    return True


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_a_stage_begins_when_all_tasks_before_it_are_done(n_threads):
    done: list[int] = []
    sizes = [9, 0, 1, 7]
    stages = [[partial(record, done, i)] * size for i, size in enumerate(sizes)]
    assert run_in_stages(stages, n_threads)
    assert done == [0] * 9 + [2] + [3] * 7


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_no_stage_begins_after_a_task_that_failed(n_threads):
    done: list[int] = []
    good = partial(record, done, 0)
    assert not run_in_stages(
        [[good, good, lambda: False, good], [partial(record, done, 1)] * 4], n_threads
    )
    assert 1 not in done


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_what_a_task_raises_is_raised(n_threads):
    def broken() -> bool:
        raise ZeroDivisionError

    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        run_in_threads([partial(record, done, 0), broken, partial(record, done, 0)], n_threads)


def test_no_task_runs_when_a_failed_call_has_returned():
    done: list[int] = []
    slow = partial(record, done, 0, 0.05)
    assert not run_in_threads([slow, lambda: False, *[slow] * 6], 3)
    n_done = len(done)
    time.sleep(0.1)
    assert len(done) == n_done


def test_more_callers_than_threads_finish():
    """A thread that waits for a stage does not wait for tasks that no thread has begun."""
    results = []

    def call() -> None:
        done: list[int] = []
        tasks = [partial(record, done, 0)] * 5
        results.append(run_in_stages([tasks, tasks, tasks], 3) and len(done) == 15)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
        assert not caller.is_alive()
    assert results == [True] * 8


def test_an_interrupted_caller_leaves_no_thread_waiting():
    caller = threading.current_thread()

    class Done:
        def __bool__(self) -> bool:
            if threading.current_thread() is caller:
                raise KeyboardInterrupt
            return True

    def task() -> Done:
        time.sleep(0.002)
        return Done()

    with pytest.raises(KeyboardInterrupt):
        run_in_stages([[task] * 20, [task] * 20], 3)
    both_are_free = threading.Barrier(2)
    futures = [_executor(3).submit(both_are_free.wait, 60) for _ in range(2)]
    assert sorted(future.result(60) for future in futures) == [0, 1]


def test_a_task_may_run_tasks_itself():
    def outer() -> bool:
        return run_in_threads([lambda: True] * 4, 2)

    assert run_in_threads([outer] * 6, 2)


def test_a_busy_pool_keeps_no_tasks_of_callers_that_are_done():
    """Their calls, which no thread has begun, stay in its queue."""

    class Array:
        def is_finite(self) -> bool:
            return True

    is_checked = threading.Event()
    busy = _executor(2).submit(is_checked.wait, 60)
    array = Array()
    assert run_in_threads([array.is_finite, array.is_finite], 2)
    reference = weakref.ref(array)
    del array
    assert reference() is None
    is_checked.set()
    assert busy.result(60)
