"""Calls of the CUDA kernel, without a GPU: what is passed to it, and what a call costs the host."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest

import scorewise as sw
from scorewise.kernels import Extras, cuda
from scorewise.kernels.cuda import _launch

torch = pytest.importorskip("torch")
Counted = pytest.importorskip("torch_support").Counted

FOUR = [sw.get_rule(name) for name in ("log", "brier", "zero-one", "spherical")]


@pytest.fixture
def runs(monkeypatch):
    """Runs of the kernel, which gives each result its own number, and marks invalid members."""
    runs = []

    def launch(constants, job, n_blocks, n_threads, n_bytes, device):
        runs.append((constants, job))
        names = dict(constants)
        n_rules = len([slot for slot in names["RULE_SLOTS"].split(",") if int(slot) >= 0])
        size = 3 * n_rules * job.n_instances
        results = np.ctypeslib.as_array((ctypes.c_float * size).from_address(job.results))
        results[:] = np.repeat(np.arange(3 * n_rules), job.n_instances)
        first = ctypes.c_float.from_address(job.members).value
        if job.tolerance >= 0 and first < 0:
            ctypes.c_int32.from_address(job.invalid).value = 1

    monkeypatch.setattr(_launch, "launch", launch)
    monkeypatch.setattr(_launch, "most_shared_bytes", lambda device: 99 << 10)
    return runs


def probs(*shape):
    return torch.full(shape, 1 / shape[-1])


def compute(p, rules=FOUR, weights=None, check=True):
    raw = replace(sw.Samples(p, check=False).raw(), check=check)
    return cuda.compute(raw, weights, rules, Extras())


@pytest.mark.parametrize("rules", [FOUR[:1], FOUR], ids=["one", "four"])
def test_a_call_allocates_its_results_and_does_nothing_else_in_torch(runs, rules):
    p = probs(64, 20, 100)
    compute(p, rules)
    with Counted() as counts:
        compute(p, rules)
    assert counts.operations == {"aten.new_empty": 1}
    assert counts.views == {"aten.unbind": 1}


def test_results_are_in_the_order_of_the_rules_of_the_shape_of_the_instances(runs):
    results = compute(probs(2, 3, 4, 5), [FOUR[1], FOUR[0], FOUR[1]])
    assert [int(x[0, 0]) for x in results] == [3, 4, 5, 0, 1, 2, 3, 4, 5]
    assert all(x.shape == (2, 3) for x in results)


def test_calls_on_the_same_layout_differ_in_pointers_only(runs):
    first, second = probs(64, 20, 100), probs(64, 20, 100)
    uncertainties = [compute(p) for p in (first, second)]
    (constants, a), (others, b) = runs
    assert constants == others
    assert (a.members, b.members) == (first.data_ptr(), second.data_ptr())
    assert a.results != b.results
    b.members, b.results = a.members, a.results
    assert bytes(a) == bytes(b)
    assert len(uncertainties) == 2


def test_other_weights_and_parameters_are_not_those_of_the_call_before(runs):
    p = probs(6, 4, 5)
    compute(p, weights=torch.ones(4))
    compute(p, weights=torch.ones(6, 4))
    compute(p)
    compute(p, [sw.rules.tsallis(1.5)])
    compute(p, [sw.rules.tsallis(1.25)])
    compute(p, [sw.rules.weighted_log([1, 2, 3, 4, 5])])
    compute(p, check=False)
    jobs = [job for _, job in runs]
    assert [bool(job.weights) for job in jobs[:3]] == [True, True, False]
    weights = [dict(constants)["WEIGHTS"] for constants, _ in runs[:3]]
    assert weights == ["SHARED_WEIGHTS", "APART_WEIGHTS", "NO_WEIGHTS"]
    assert [job.parameter for job in jobs[3:5]] == [0.5, 0.25]
    assert [bool(job.numbers) for job in jobs[4:6]] == [False, True]
    assert jobs[-1].tolerance < 0


def test_invalid_members_are_noticed_and_valid_ones_after_them_are_not_suspected(runs):
    bad = probs(3, 2, 4)
    bad[0, 0, 0] = -1
    assert compute(bad) is None
    assert compute(probs(3, 2, 4)) is not None
    assert compute(bad, check=False) is not None


def test_threads_do_not_see_each_others_invalid_members(runs, monkeypatch):
    both_ran, run = Barrier(2), _launch.launch

    def launch(*arguments):
        run(*arguments)
        both_ran.wait(timeout=60)

    monkeypatch.setattr(_launch, "launch", launch)
    good, bad = probs(3, 2, 4), probs(3, 2, 4)
    bad[0, 0, 0] = -1
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            are_valid = pool.map(lambda p: compute(p) is not None, (good, bad))
            assert list(are_valid) == [True, False]
