"""The vectors that compiled code is made of: each lane as NumPy, each function as 50 digits say."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from scorewise.kernels.cpu._functions import (
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    power_excess,
    relative_entropy,
)
from scorewise.kernels.cpu._memory import (
    double_at,
    integer_at,
    load,
    load_some,
    n_lanes,
    number_at,
    put,
    store,
    transpose,
    vector_like,
)
from scorewise.kernels.cpu._records import BYTES
from scorewise.kernels.cpu._vectors import (
    absolute,
    all_lanes,
    any_lane,
    fill,
    from_bits,
    max_lanes,
    min_lanes,
    multiply_add,
    narrow,
    sqrt,
    sum_lanes,
    to_bits,
    to_floats,
    where,
    widen,
)

DTYPES = [np.float32, np.float64]
compiled = njit(error_model="numpy")

both = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


@functools.cache
def lanewise(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function (a, b, c, x) of vectors and a number, as one of arrays and a number."""
    inner = compiled(function)

    @compiled
    def run(number, a, b, c, x, out, size):
        zero = vector_like(number)
        for i in range(0, size, BYTES):
            store(out + i, inner(load(a + i, zero), load(b + i, zero), load(c + i, zero), x))

    def call(*arrays: Any, x: float = 0.0) -> np.ndarray:
        first = arrays[0]
        lanes = BYTES // first.itemsize
        room = -(-first.size // lanes) * lanes
        buffers = [np.ones(room, first.dtype) for _ in range(4)]
        for buffer, array in zip(buffers, arrays, strict=False):
            assert array.dtype == first.dtype
            buffer[: array.size] = array
        *inputs, out = (buffer.ctypes.data for buffer in buffers)
        run(first.dtype.type(0), *inputs, x, out, room * first.itemsize)
        return buffers[3][: first.size]

    return call


# -- functions against 50 digits -------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "log": lanewise(lambda a, b, c, x: log(a)),
    "exp": lanewise(lambda a, b, c, x: exp(a)),
    "expm1": lanewise(lambda a, b, c, x: expm1(a)),
    "log1p": lanewise(lambda a, b, c, x: log1p(a)),
    "relative_entropy": lanewise(lambda a, b, c, x: relative_entropy(a, b, c)),
    "power_excess": lanewise(lambda a, b, c, x: power_excess(a, b, c, x)),
}

# The largest error in units in the last place, in float32 and in float64.
ERRORS = {
    "log": (2.0, 3.2),
    "exp": (1.1, 1.1),
    "expm1": (1.8, 2.0),
    "log1p": (4.5, 5.5),
    "relative_entropy, |s| < 0.1": (5.0, 5.0),
    "relative_entropy": (72.0, 80.0),
    "power_excess": (72.0, 72.0),
}
# What is added to that of power_excess for each unit of |β − 1|·(|log q| + |log p|).
FOR_EACH_POWER = (6.5, 12.5)

# The points of largest error in a search over millions.
HARDEST: dict[str, list[Any]] = {
    "log": [1.0303916, 1.0004829, 1.119105, 0.70633405, 1.4142123650438776, 0.7071067722735115],
    "exp": [-16.98011, 26.690577, -417.62078799730915],
    "expm1": [0.3517463, 0.358612, 0.3969846572538256, 0.38755895191752643],
    "log1p": [0.2226966, 0.24092442, 0.22247689302725482, 0.2828669405485481],
    "relative_entropy, |s| < 0.1": [
        (8.000138e-07, 9.1162354e-07),
        (9.87545464345553e-17, 1.0201564467795328e-16),
    ],
    "relative_entropy": [
        (4.5119463e-21, 5.5171335e-21),
        (0.6651634, 0.8130936),
        (4.420100153691934e-24, 5.403308493902455e-24),
    ],
    "power_excess": [
        (0.040324446, 0.04929988),  # β − 1 = 1e-12
        (2.481839252925379e-06, 3.03518883566719e-06),
        (0.33695117, 0.34960514),  # 19
        (0.5870679246740456, 0.587479450238786),  # 999
    ],
}
RATES = (1e-12, 1e-4, 0.01, 0.3, 0.5, 1.0, 2.0, 3.0, 9.0, 19.0, 999.0)


def neighbours(x: Any, dtype: Any) -> np.ndarray:
    """Numbers, and three on either side of each."""
    up = down = np.asarray(x, dtype)
    points = [up]
    for _ in range(3):
        up, down = np.nextafter(up, dtype(np.inf)), np.nextafter(down, dtype(-np.inf))
        points += [up, down]
    return np.concatenate([np.ravel(part) for part in points])


def around_one(rng: Any, n: int) -> np.ndarray:
    return 1 + rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-16, -0.5, n)


def arguments(name: str, dtype: Any) -> np.ndarray:
    """Arguments of a function of one, most of them awkward."""
    rng = np.random.default_rng(0)
    limits = np.finfo(dtype)
    lowest, highest = (-126, 88.0) if dtype is np.float32 else (-1022, 709.0)
    if name == "log":
        powers = 2.0 ** np.arange(limits.minexp, limits.maxexp, 1 if dtype is np.float32 else 8)
        edges = np.sqrt(0.5) * 2.0 ** np.arange(-20, 20)
        points = [rng.uniform(0, 1, 800), rng.uniform(0.5, 2, 800), around_one(rng, 400)]
        points += [2.0 ** rng.uniform(limits.minexp, limits.maxexp, 400)]
        points += [neighbours(powers, dtype), neighbours(edges, dtype), neighbours(1.0, dtype)]
        points += [np.sqrt(0.5) * around_one(rng, 200), np.sqrt(2) * around_one(rng, 200)]
    elif name in ("exp", "expm1"):
        halves = (rng.integers(lowest + 1, -lowest, 400) + 0.5) * np.log(2)
        points = [rng.uniform(lowest * np.log(2), highest, 600), rng.uniform(-20, 0, 600)]
        points += [rng.uniform(-1, 1, 1200), rng.choice([-1, 1], 400) * (around_one(rng, 400) - 1)]
        points += [neighbours(halves, dtype), neighbours(lowest * np.log(2), dtype), [highest]]
        points += [(lowest - rng.uniform(0, 0.49, 200)) * np.log(2)]  # below the normal numbers
    else:
        switch = 2 * np.array([0.1, -0.1]) / (1 - np.array([0.1, -0.1]))
        points = [rng.uniform(-0.5, 1, 1500), around_one(rng, 500) - 1, neighbours(switch, dtype)]
        points += [s * around_one(rng, 300) for s in switch]
        points += [neighbours([2.0**-24, 2.0**-53, limits.tiny], dtype), [-0.5, 1.0]]
    x = np.concatenate([*points, HARDEST[name]]).astype(dtype)
    if name == "log":
        x = x[(x >= limits.tiny) & np.isfinite(x)]
    elif name == "log1p":
        x = x[(x >= -0.5) & (x <= 1)]
    else:
        x = x[x <= highest]
    return x


def pairs(name: str, dtype: Any, rate: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs q, p of a function of two, with (p − q)/(p + q) all over, and where formulas change."""
    rng = np.random.default_rng(0)
    n = 100 if name == "power_excess" else 500
    q = np.concatenate([rng.uniform(1e-3, 1, n), 10.0 ** rng.uniform(-30, 0, n)])
    n = len(q)
    sign = rng.choice([-1, 1], n)
    small, switch = 10.0 ** rng.uniform(-17, -1, n), 0.1 * (1 + 0.01 * rng.uniform(-1, 1, n))
    turn = np.tanh(0.35 * (1 + 0.01 * rng.uniform(-1, 1, n)) / rate)  # |log(p/q)|·rate near 0.7
    changes = [sign * small, sign * switch, rng.uniform(-0.1, 0.1, n), rng.uniform(-1, 1, n)]
    changes += [sign * np.minimum(turn, 0.999)] if name == "power_excess" else []
    p = np.concatenate([q * ((1 + s) / (1 - s)) for s in changes])
    q = np.concatenate([q] * len(changes))
    hardest = np.array(HARDEST[name])
    q, p = np.concatenate([q, hardest[:, 0]]).astype(dtype), np.append(p, hardest[:, 1])
    p = np.minimum(p, 1.0).astype(dtype)
    p[: n // 3] = np.nextafter(q[: n // 3], dtype(2))
    if name == "relative_entropy, |s| < 0.1":
        near = np.abs(p.astype(float) - q) < 0.0999 * (p.astype(float) + q)
        q, p = q[near], p[near]
    return q[p != q], p[p != q]


def in_units(got: Any, exact: Any, dtype: Any) -> float:
    """An error in units in the last place of the exact value."""
    limits = np.finfo(dtype)
    _, exponent = mp.frexp(exact)
    unit = mp.ldexp(1, max(exponent - limits.nmant - 1, limits.minexp - limits.nmant))
    return float(abs(mp.mpf(float(got)) - exact) / unit)


def exact_relative_entropy(q: Any, p: Any) -> Any:
    q, p = mp.mpf(float(q)), mp.mpf(float(p))
    return p * mp.log(p / q) - p + q


def exact_power_excess(q: Any, p: Any, rate: float) -> Any:
    q, p, rate = mp.mpf(float(q)), mp.mpf(float(p)), mp.mpf(rate)
    slope = q**rate
    return (p ** (1 + rate) - q * slope - (1 + rate) * slope * (p - q)) / rate


def errors(name: str, dtype: Any) -> Iterator[tuple[float, Any]]:
    """The error of a function as a share of what is stated, and where."""
    width = DTYPES.index(dtype)
    stated = ERRORS[name][width]
    function = FUNCTIONS[name.split(",")[0]]
    if name == "power_excess":
        for rate in RATES:
            q, p = pairs(name, dtype, rate)
            for a, b, got in zip(q, p, function(q, p, p - q, x=rate), strict=True):
                exact = exact_power_excess(a, b, rate)
                if exact > np.finfo(dtype).tiny / np.finfo(dtype).eps:  # else parts underflow
                    power = rate * float(abs(np.log(float(a))) + abs(np.log(float(b))))
                    allowed = stated + FOR_EACH_POWER[width] * power
                    yield in_units(got, exact, dtype) / allowed, (a, b, rate)
    elif name.startswith("relative_entropy"):
        q, p = pairs(name, dtype)
        for a, b, got in zip(q, p, function(q, p, p - q), strict=True):
            exact = exact_relative_entropy(a, b)
            if exact > np.finfo(dtype).tiny:
                yield in_units(got, exact, dtype) / stated, (a, b)
    else:
        x = arguments(name, dtype)
        for a, got in zip(x, function(x), strict=True):
            exact = getattr(mp, name)(mp.mpf(float(a)))
            yield in_units(got, exact, dtype) / stated, a


@functools.cache
def worst(name: str, dtype: Any) -> tuple[float, Any]:
    with mp.workdps(80):  # 50, and those that differences lose
        return max(errors(name, dtype), key=lambda pair: pair[0])


@both
@pytest.mark.parametrize("name", ERRORS)
def test_functions_are_as_right_as_stated(name: str, dtype: Any):
    share, where_it_is = worst(name, dtype)
    assert share <= 1, where_it_is


@both
@pytest.mark.parametrize("name", ERRORS)
def test_stated_errors_are_not_exaggerated(name: str, dtype: Any):
    share, _ = worst(name, dtype)
    assert share > 1 / 1.5


def test_the_check_of_units_can_fail():
    """A textbook formula loses what the series keeps."""
    q = np.array([0.3], np.float32)
    p = q * np.float32(1.001)
    exact = exact_relative_entropy(q[0], p[0])
    kernel = FUNCTIONS["relative_entropy"](q, p, p - q)[0]
    lost = lanewise(lambda a, b, c, x: b * log(b / a) - c)(q, p, p - q)[0]
    assert in_units(kernel, exact, np.float32) < 5
    assert in_units(lost, exact, np.float32) > 1000
    assert in_units(np.float32(1) + np.finfo(np.float32).eps, mp.mpf(1), np.float32) == 1


# -- special points --------------------------------------------------------------------------------


def of(dtype: Any, *values: float) -> np.ndarray:
    return np.array(values, dtype)


@both
def test_the_logarithm_of_zero_is_finite_and_below_all_others(dtype: Any):
    tiny = np.finfo(dtype).tiny
    got = FUNCTIONS["log"](of(dtype, 0.0, tiny, tiny / 2, 1.0, -0.0))
    assert got[4] == got[0]
    assert got[0] == pytest.approx((np.finfo(dtype).minexp - 1) * np.log(2), rel=1e-6)
    assert got[0] < got[2] < got[1]
    assert got[3] == 0
    assert FUNCTIONS["log1p"](of(dtype, 0.0))[0] == 0


@both
def test_the_exponential_at_special_points(dtype: Any):
    below = (np.finfo(dtype).minexp - 0.51) * np.log(2)
    got = FUNCTIONS["exp"](of(dtype, -np.inf, -1e30, below, 0.0, -0.0))
    np.testing.assert_array_equal(got, [0, 0, 0, 1, 1])
    got = FUNCTIONS["expm1"](of(dtype, -np.inf, -1e30, below, 0.0, -0.0))
    np.testing.assert_array_equal(got, [-1, -1, -1, 0, 0])
    for name in ("exp", "expm1"):
        assert np.isnan(FUNCTIONS[name](of(dtype, np.nan))).all()
        highest = FUNCTIONS[name](of(dtype, 88.0 if dtype is np.float32 else 709.0, 1e4, np.inf))
        assert np.isfinite(highest).all()
        assert (highest[1:] >= highest[0]).all()


@both
def test_relative_entropy_at_special_points(dtype: Any):
    function = FUNCTIONS["relative_entropy"]
    q = np.append(10.0 ** np.linspace(-37, 0, 100), [0.0, 0.3]).astype(dtype)
    zero = np.zeros_like(q)
    np.testing.assert_array_equal(function(q, q, zero), zero)
    np.testing.assert_array_equal(function(q, zero, -q), q)
    np.testing.assert_array_equal(function(q, -zero, -q), q)
    from_nothing = function(zero, q, q)
    assert np.isfinite(from_nothing).all()
    assert (from_nothing[q > 0.01] > q[q > 0.01]).all()


@both
@pytest.mark.parametrize("rate", RATES)
def test_power_excess_at_special_points(rate: float, dtype: Any):
    function = FUNCTIONS["power_excess"]
    q = np.append(10.0 ** np.linspace(-37, 0, 100), [0.0, 0.3]).astype(dtype)
    zero = np.zeros_like(q)
    np.testing.assert_array_equal(function(q, q, zero, x=rate), zero)
    power = np.where(q > 0, q.astype(float) ** (1 + rate), 0.0)
    relative = 1e-4 if dtype is np.float32 else 1e-11  # rate·log q has been rounded
    tiny = np.finfo(dtype).tiny
    np.testing.assert_allclose(function(q, zero, -q, x=rate), power, rtol=relative, atol=tiny)
    np.testing.assert_allclose(function(q, -zero, -q, x=rate), power, rtol=relative, atol=tiny)
    got = function(zero, q, q, x=rate)
    np.testing.assert_allclose(got, power / rate, rtol=relative, atol=tiny)


@both
def test_divergences_are_not_negative(dtype: Any):
    tiny = np.finfo(dtype).tiny
    q, p = pairs("relative_entropy", dtype)
    assert (FUNCTIONS["relative_entropy"](q, p, p - q) >= 0).all()
    for rate in RATES:
        q, p = pairs("power_excess", dtype, rate)
        for a, b in ((q, p), (p, q)):
            # What may be left of a cancellation are numbers too small to have all digits.
            assert (FUNCTIONS["power_excess"](a, b, b - a, x=rate) >= -tiny).all(), rate


def bits_of(a: np.ndarray) -> np.ndarray:
    return a.view(np.int32 if a.itemsize == 4 else np.int64)


# -- lane by lane ----------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[..., Any]] = {
    "a + b": lambda a, b, c, x: a + b,
    "a - b": lambda a, b, c, x: a - b,
    "a * b": lambda a, b, c, x: a * b,
    "a / b": lambda a, b, c, x: a / b,
    "-a": lambda a, b, c, x: -a,
    "a + x": lambda a, b, c, x: a + x,
    "x - a": lambda a, b, c, x: x - a,
    "a * 2": lambda a, b, c, x: a * 2,
    "1.0 / a": lambda a, b, c, x: 1.0 / a,
    "a / 3": lambda a, b, c, x: a / 3,
    "mixed": lambda a, b, c, x: (a - x) * (2 - b) / (c + 0.5) + 1,
}
SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sqrt": (lambda a, b, c, x: sqrt(absolute(a)), lambda a, b: np.sqrt(np.abs(a))),
    "absolute": (lambda a, b, c, x: absolute(a), lambda a, b: np.abs(a)),
    "maximum": (lambda a, b, c, x: maximum(a, b), np.maximum),
    "minimum": (lambda a, b, c, x: minimum(a, b), np.minimum),
    "where": (lambda a, b, c, x: where(a < b, a, b), lambda a, b: np.where(a < b, a, b)),
    "number first": (lambda a, b, c, x: where(a < b, x, b), lambda a, b: np.where(a < b, 0, b)),
    "number last": (lambda a, b, c, x: where(a < b, a, 1), lambda a, b: np.where(a < b, a, 1)),
    "fill": (lambda a, b, c, x: fill(a, 0.1), lambda a, b: np.full_like(a, 0.1)),
    "bits": (lambda a, b, c, x: from_bits(to_bits(a)), lambda a, b: a),
    "integers": (
        lambda a, b, c, x: to_floats(to_bits(a) - to_bits(b)),
        lambda a, b: (bits_of(a) - bits_of(b)).astype(a.dtype),
    ),
    "two masks": (
        lambda a, b, c, x: where((a < b) & (a > 0), a, b),
        lambda a, b: np.where((a < b) & (a > 0), a, b),
    ),
    "either": (
        lambda a, b, c, x: where((a < b) | (a > 0), a, b),
        lambda a, b: np.where((a < b) | (a > 0), a, b),
    ),
    "shifts": (
        lambda a, b, c, x: to_floats((to_bits(a) >> 9) << 3),
        lambda a, b: ((bits_of(a) >> 9) << 3).astype(a.dtype),
    ),
}


def some_numbers(dtype: Any, n: int = 200, seed: int = 0) -> np.ndarray:
    return (10 * np.random.default_rng(seed).normal(size=n)).astype(dtype)


@both
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_is_that_of_numpy(name: str, dtype: Any):
    """With numbers on either side, which take the dtype of the vector."""
    inputs = [some_numbers(dtype, seed=seed) for seed in range(3)]
    expected = OPERATIONS[name](*inputs, 0.1)
    assert expected.dtype == dtype
    np.testing.assert_array_equal(lanewise(OPERATIONS[name])(*inputs, x=0.1), expected)


@both
@pytest.mark.parametrize("name", SAME)
def test_functions_are_those_of_numpy(name: str, dtype: Any):
    a, b = some_numbers(dtype), some_numbers(dtype, seed=1)
    function, expected = SAME[name]
    np.testing.assert_array_equal(lanewise(function)(a, b), expected(a, b).astype(dtype))


@both
def test_multiply_add_is_exact_where_nothing_is_rounded(dtype: Any):
    a, b, c = (np.trunc(some_numbers(dtype, seed=seed)) for seed in range(3))
    got = lanewise(lambda a, b, c, x: multiply_add(a, b, c))(a, b, c)
    np.testing.assert_array_equal(got, a * b + c)
    got = lanewise(lambda a, b, c, x: multiply_add(x, multiply_add(a, 3, c), 1))(a, b, c, x=2.0)
    np.testing.assert_array_equal(got, 2 * (3 * a + c) + 1)


@both
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq"])
def test_comparisons_are_false_for_nan_and_else_those_of_numpy(name: str, dtype: Any):
    compare = getattr(operator, name)
    special = of(dtype, 0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
    a, b = (part.ravel() for part in np.meshgrid(special, special))
    got = lanewise(lambda a, b, c, x: where(compare(a, b), 1.0, fill(a, 0.0)))(a, b)
    np.testing.assert_array_equal(got, compare(a, b))
    assert not got[np.isnan(a) | np.isnan(b)].any()
    got = lanewise(lambda a, b, c, x: where(compare(x, a), 1.0, fill(a, 0.0)))(special, x=1.0)
    np.testing.assert_array_equal(got, compare(dtype(1), special))


@both
def test_the_second_is_chosen_where_either_is_nan(dtype: Any):
    a, b = of(dtype, np.nan, 1.0, np.nan), of(dtype, 2.0, np.nan, np.nan)
    for function in (SAME["maximum"][0], SAME["minimum"][0]):
        np.testing.assert_array_equal(lanewise(function)(a, b), b)


top_by_bits = lanewise(
    lambda a, b, c, x: from_bits(where(to_bits(a) > to_bits(b), to_bits(a), to_bits(b)))
)
more_by_bits = lanewise(lambda a, b, c, x: where(to_bits(a) > to_bits(b), 1, fill(a, 0)))
unsigned = lanewise(lambda a, b, c, x: where((to_bits(a) | to_bits(b)) >= 0, 1, fill(a, 0)))


def two_numbers(dtype: Any, least: float | None) -> Any:
    """Some pairs of numbers: any two, the same twice, or neighbours."""
    number = st.floats(least, allow_nan=False, width=np.finfo(dtype).bits)

    def next_to(x: float) -> tuple[float, float]:
        with np.errstate(over="ignore"):
            return x, float(np.nextafter(dtype(x), dtype(np.inf)))

    pair = st.tuples(number, number) | number.map(lambda x: (x, x)) | number.map(next_to)
    return st.lists(pair, min_size=1, max_size=20).map(lambda pairs: np.array(pairs, dtype).T)


@both
@given(data=st.data())
def test_bits_of_numbers_not_negative_are_ordered_as_these(dtype: Any, data: Any):
    a, b = data.draw(two_numbers(dtype, 0.0))
    np.testing.assert_array_equal(more_by_bits(a, b), a > b)
    np.testing.assert_array_equal(top_by_bits(a, b), np.maximum(a, b))


@both
@given(data=st.data())
def test_bits_of_negative_numbers_are_less_than_those_of_zero_and_show_the_sign(
    dtype: Any, data: Any
):
    a, b = data.draw(two_numbers(dtype, None))
    np.testing.assert_array_equal(unsigned(a, b), ~(np.signbit(a) | np.signbit(b)))
    top = top_by_bits(a, np.zeros_like(a))
    np.testing.assert_array_equal(top, np.maximum(a, 0))
    assert not np.signbit(top).any()


# -- across lanes ----------------------------------------------------------------------------------


def in_vectors(numbers: np.ndarray) -> np.ndarray:
    return numbers.reshape(-1, BYTES // numbers.itemsize)


@both
def test_sums_and_extremes_over_lanes_are_in_every_lane(dtype: Any):
    numbers = np.round(some_numbers(dtype, 320))
    every = np.ones_like(in_vectors(numbers))
    for function, expected in (
        (lanewise(lambda a, b, c, x: sum_lanes(a)), np.sum),
        (lanewise(lambda a, b, c, x: max_lanes(a)), np.max),
        (lanewise(lambda a, b, c, x: min_lanes(a)), np.min),
    ):
        rows = expected(in_vectors(numbers), axis=1, keepdims=True)
        np.testing.assert_array_equal(in_vectors(function(numbers)), rows * every)


@both
def test_rounded_sums_over_lanes_are_the_same_in_every_lane(dtype: Any):
    numbers = some_numbers(dtype, 320)
    got = in_vectors(lanewise(lambda a, b, c, x: sum_lanes(a))(numbers))
    np.testing.assert_array_equal(got, got[:, :1] * np.ones_like(got))
    unit = np.finfo(dtype).eps * np.abs(in_vectors(numbers)).sum(1)
    assert (np.abs(got[:, 0] - in_vectors(numbers).astype(np.longdouble).sum(1)) <= 2 * unit).all()


@both
def test_every_lane_has_its_own_extremes(dtype: Any):
    lanes = BYTES // dtype().itemsize
    highest = lanewise(lambda a, b, c, x: max_lanes(a))
    lowest = lanewise(lambda a, b, c, x: min_lanes(a))
    one_each = np.eye(lanes, dtype=dtype).ravel()
    np.testing.assert_array_equal(highest(one_each), 1)
    np.testing.assert_array_equal(lowest(-one_each), -1)
    np.testing.assert_array_equal(lowest(one_each), 0)


@compiled
def _masks(number, address, n, out):
    zero = vector_like(number)
    for i in range(n):
        mask = load(address + BYTES * i, zero) > 0.0
        put(out + 16 * i, 1 if any_lane(mask) else 0)
        put(out + 16 * i + 8, 1 if all_lanes(mask) else 0)


@both
def test_any_and_all_see_every_lane(dtype: Any):
    lanes = BYTES // dtype().itemsize
    single = np.eye(lanes, dtype=dtype)
    patterns = np.concatenate([single, 1 - single, np.zeros((1, lanes)), np.ones((1, lanes))])
    patterns = np.ascontiguousarray(patterns, dtype=dtype)
    out = np.empty((len(patterns), 2), np.int64)
    _masks(dtype(0), patterns.ctypes.data, len(patterns), out.ctypes.data)
    np.testing.assert_array_equal(out, np.c_[patterns.any(1), patterns.all(1)])


# -- memory ----------------------------------------------------------------------------------------


@compiled
def _widened(number, address, out):
    store(out, widen(load(address, vector_like(number))))


@compiled
def _narrowed(number, address, out):
    zero = vector_like(number)
    store(out, narrow(load(address, widen(zero)), zero))


@both
def test_wider_vectors_hold_the_same_numbers_and_narrow_ones_the_nearest(dtype: Any):
    lanes = BYTES // dtype().itemsize
    wide = some_numbers(np.float64, lanes)
    wide[:3] = 1 + 2.0**-24, np.inf, np.nan
    numbers, again = np.empty(lanes, dtype), np.empty(lanes)
    _narrowed(dtype(0), wide.ctypes.data, numbers.ctypes.data)
    np.testing.assert_array_equal(numbers, wide.astype(dtype))
    _widened(dtype(0), numbers.ctypes.data, again.ctypes.data)
    np.testing.assert_array_equal(again, numbers.astype(np.float64))


@compiled
def _some(number, address, count, rest, out):
    zero = vector_like(number)
    store(out, load_some(address, count, load(rest, zero)))
    return n_lanes(zero)


@both
def test_the_first_numbers_are_read_and_others_left_as_they_are(dtype: Any):
    lanes = BYTES // dtype().itemsize
    numbers, rest = some_numbers(dtype, 3 * lanes), some_numbers(dtype, lanes, 1)
    out = np.empty(lanes, dtype)
    for count in range(lanes + 1):
        for offset in (0, 1, lanes - 1):
            start = numbers.ctypes.data + offset * dtype().itemsize
            assert _some(dtype(0), start, count, rest.ctypes.data, out.ctypes.data) == lanes
            expected = np.r_[numbers[offset : offset + count], rest[count:]]
            np.testing.assert_array_equal(out, expected)


# The second page can not be read: whoever touches it is killed.
AT_THE_END_OF_A_PAGE = """
import ctypes, mmap
import numpy as np
from numba import njit
from scorewise.kernels.cpu._memory import load, load_some, store, transpose, vector_like

@njit
def some(number, address, count, out):
    store(out, load_some(address, count, vector_like(number)))

@njit
def columns(number, addresses, offset, count, out):
    transpose(addresses, offset, count, out, vector_like(number))

@njit
def whole(number, address, out):
    store(out, load(address, vector_like(number)))

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
start = np.frombuffer(memory, np.uint8).ctypes.data
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
for dtype in (np.float32, np.float64):
    size = dtype().itemsize
    lanes = 64 // size
    np.frombuffer(memory, dtype, page // size)[-lanes:] = numbers = np.arange(1, lanes + 1)
    out, square = np.empty(lanes, dtype), np.empty((lanes, lanes), dtype)
    addresses = np.full(lanes, start)
    for count in range(lanes + 1):
        end = page - count * size
        some(dtype(0), start + end, count, out.ctypes.data)
        columns(dtype(0), addresses.ctypes.data, end, count, square.ctypes.data)
        expected = np.r_[numbers[lanes - count:], np.zeros(lanes - count)]
        assert (out == expected).all() and (square.T == expected).all()
print("read", flush=True)
whole(np.float32(0), start + page - 4, out.ctypes.data)
print("alive", flush=True)
"""


def test_nothing_is_read_beyond_the_last_number():
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END_OF_A_PAGE], capture_output=True, text=True, check=False
    )
    assert done.stdout == "read\n", done.stderr
    assert done.returncode < 0  # by a signal: the page does what it is there for


@compiled
def _transposed(number, sources, offset, count, target):
    transpose(sources, offset, count, target, vector_like(number))


@both
def test_a_transpose_is_that_of_numpy(dtype: Any):
    rng = np.random.default_rng(0)
    size = dtype().itemsize
    lanes = BYTES // size
    numbers = some_numbers(dtype, 5000)
    for count in range(1, lanes + 1):
        offset = int(rng.integers(100))
        starts = rng.integers(0, numbers.size - 100 - lanes, lanes)
        addresses = numbers.ctypes.data + size * starts
        out = np.full((lanes, lanes), np.nan, dtype)
        _transposed(dtype(0), addresses.ctypes.data, offset * size, count, out.ctypes.data)
        rows = np.stack([numbers[s + offset : s + offset + count] for s in starts])
        np.testing.assert_array_equal(out[:count], rows.T)
        np.testing.assert_array_equal(out[count:], 0)


@compiled
def _copied(number, source, target):
    zero = vector_like(number)
    put(target, number_at(source, zero))
    put(target + 8, integer_at(source + 8, zero))
    put(target + 16, double_at(source + 16, zero))


@both
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_single_numbers_are_read_and_put_anywhere(shift: int, dtype: Any):
    kind = np.dtype([("pad", f"V{shift}"), ("n", dtype), ("rest", f"V{8 - dtype().itemsize}")])
    kind = np.dtype([*kind.descr, ("i", np.int64), ("d", np.float64)])
    source, target = np.zeros(1, kind), np.zeros(1, kind)
    source["n"], source["i"], source["d"] = 0.1, -(2**62) - 1, 0.1
    _copied(dtype(0), source.ctypes.data + shift, target.ctypes.data + shift)
    assert target.tobytes() == source.tobytes()
