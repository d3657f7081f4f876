"""The kernel's logarithms and exponentials: errors in ulp, for each instruction set."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from scorewise.kernels.cpu import _native

ROOT = Path(__file__).parents[2]
SIZE = 1 << 11  # a whole number of vectors
TYPES = {"float32": "float", "float64": "double"}
ALLOWED = {  # errors in ulp, as functions.hpp states them
    "log": {"float32": 6, "float64": 3.6},
    "cheap_log": {"float32": 6, "float64": 3.6},
    "exp": {"float32": 1.1, "float64": 1.1},
    "expm1": {"float32": 1.8, "float64": 2.4},
    "log1p": {"float32": 7.1, "float64": 5.7},
}
RATES = [1e-12, 1e-4, 0.5, 2.0, 19.0]


@dataclass(frozen=True)
class Functions:
    """The functions for one instruction set."""

    library: ctypes.CDLL

    def __call__(self, name: str, *arrays: np.ndarray, rate: float | None = None) -> np.ndarray:
        result = np.empty_like(arrays[0])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)]
        more = [] if rate is None else [ctypes.c_double(rate)]
        function = getattr(self.library, f"{name}_{TYPES[str(result.dtype)]}")
        function(*pointers, ctypes.c_ssize_t(result.size), *more)
        return result


@pytest.fixture(scope="module", params=_native.instruction_sets())
def functions(request, tmp_path_factory) -> Functions:
    """Compiled with the options of CMakeLists.txt; a compiler is needed for the kernel anyway."""
    build = (ROOT / "CMakeLists.txt").read_text()
    options = re.search(r"add_compile_options\((.*)\)", build)
    own_options = re.search(rf"set\(flags_{request.param} (.*)\)", build)
    assert options
    target = tmp_path_factory.mktemp("functions") / "functions.so"
    subprocess.run(
        [
            *os.environ.get("CXX", "c++").split(),
            "-std=c++17",
            *options[1].split(),
            *(own_options[1].split() if own_options else []),
            f"-DSCOREWISE_ISA={request.param}",
            f"-I{ROOT / 'src/scorewise/kernels/cpu/native'}",
            "-shared",
            "-fPIC",
            ROOT / "tests/kernels/native_functions.cpp",
            "-o",
            target,
        ],
        check=True,
    )
    return Functions(ctypes.CDLL(str(target)))


def errors_in_ulp(values: np.ndarray, exact: list[mp.mpf]) -> np.ndarray:
    units = np.spacing(np.abs(np.array(exact, dtype=float)).astype(values.dtype)).astype(float)
    errors = [abs(mp.mpf(float(v)) - e) for v, e in zip(values, exact, strict=True)]
    return np.array(errors, dtype=float) / units


# -- of one number --------------------------------------------------------------------------------


@cache
def numbers(name: str, dtype: str) -> tuple[np.ndarray, list[mp.mpf]]:
    """Arguments of a function, many of them where it is least accurate, and its values."""
    rng = np.random.default_rng(0)
    reach = 86 if dtype == "float32" else 700
    small = rng.normal(size=SIZE // 4) * 10.0 ** rng.uniform(-9, 0, SIZE // 4)
    if name == "log1p":
        x = np.concatenate(
            [rng.uniform(-0.5, 2, SIZE // 2), 10 ** rng.uniform(-9, 4, SIZE // 4), 0.2 * small]
        )
        x = np.maximum(x, -0.5)
    else:
        spread = rng.uniform(-reach, reach, SIZE // 4)
        x = np.concatenate([spread, rng.uniform(-0.5, 0.5, SIZE // 2), small])
        x = np.exp(x) if "log" in name else x
    x = x.astype(dtype)
    exact: Callable[[mp.mpf], mp.mpf] = getattr(mp, name.removeprefix("cheap_"))
    return x, [exact(mp.mpf(float(v))) for v in x]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ALLOWED)
def test_a_function_is_as_accurate_as_stated(functions: Functions, name: str, dtype: str):
    x, exact = numbers(name, dtype)
    errors = errors_in_ulp(functions(name, x), exact)
    assert errors.max() <= ALLOWED[name][dtype], x[errors.argmax()]
    assert errors.max() >= ALLOWED[name][dtype] / 2, "the stated error is too large"


@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials_end_in_zero_and_nan_stays_nan(functions: Functions, dtype: str):
    z = np.full(SIZE, -np.inf, dtype)
    z[1], z[2], z[3] = np.nan, 1e4, 0
    values = functions("exp", z)
    assert values[0] <= np.finfo(dtype).tiny
    assert np.isnan(values[1])
    assert np.isfinite(values[2])
    assert values[3] == 1
    assert functions("expm1", z)[3] == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_the_logarithm_is_finite_at_zero_and_exact_at_one(functions: Functions, dtype: str):
    tiny = np.finfo(dtype).tiny
    v = np.tile(np.array([0.0, tiny / 2, -0.0, 1.0], dtype), SIZE // 4)
    values = functions("log", v)
    assert (values[:2] < np.log(tiny)).all()
    assert np.isfinite(values[:3]).all()
    assert values[3] == 0


# -- of two probabilities -------------------------------------------------------------------------


@cache
def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities q and p: next to each other, just far enough for logarithms, and anywhere."""
    rng = np.random.default_rng(0)
    s = np.concatenate([10 ** rng.uniform(-6, -1, SIZE // 4), rng.uniform(0.05, 0.2, SIZE // 4)])
    s *= rng.choice([-1, 1], SIZE // 2)
    q = np.exp(rng.uniform(-20, 0, SIZE // 2)).astype(dtype)
    p = q * (1 + s) / (1 - s)
    others = np.exp(rng.uniform(-20, 0, (2, SIZE // 2)))
    return np.append(q, others[0]).astype(dtype), np.append(p, others[1]).astype(dtype)


@cache
def excesses(dtype: str, rate: float) -> list[mp.mpf]:
    """[p^β − q^β − β·q^{β−1}·(p − q)]/(β − 1) for β = 1 + rate; p·log(p/q) − p + q at 0."""
    with mp.workdps(60):  # of which the difference loses some
        q, p = ([mp.mpf(float(x)) for x in part] for part in pairs(dtype))
        if rate == 0:
            return [y * mp.log(y / x) - y + x for x, y in zip(q, p, strict=True)]
        b = 1 + mp.mpf(rate)
        return [
            (y**b - x**b - b * x ** (b - 1) * (y - x)) / (b - 1) for x, y in zip(q, p, strict=True)
        ]


@pytest.mark.parametrize("dtype", TYPES)
def test_relative_entropy_is_as_accurate_as_stated(functions: Functions, dtype: str):
    q, p = pairs(dtype)
    errors = errors_in_ulp(functions("relative_entropy", q, p), excesses(dtype, 0))
    is_near = np.abs(p - q) < 0.099 * (p + q)
    assert errors[is_near].max() <= 5
    assert 40 <= errors[~is_near].max() <= 80


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", RATES)
def test_power_excess_is_as_accurate_as_stated(functions: Functions, rate: float, dtype: str):
    q, p = pairs(dtype)
    rate = float(np.array(rate, dtype))
    exact = excesses(dtype, rate)
    errors = errors_in_ulp(functions("power_excess", q, p, rate=rate), exact)
    allowed = 80 + 5 * rate * (np.abs(np.log(q)) + np.abs(np.log(p)))
    is_normal = np.array(exact, dtype=float) > 1e6 * np.finfo(dtype).tiny
    assert is_normal.sum() > SIZE / 8
    assert (errors <= allowed)[is_normal].all()


@pytest.mark.parametrize("dtype", TYPES)
def test_divergences_of_two_probabilities_have_their_limits(functions: Functions, dtype: str):
    q = np.tile(np.array([0.3, 1e-30, 0.0, 0.3], dtype), SIZE // 4)
    p = np.tile(np.array([0.3, 1e-30, 0.0, 0.0], dtype), SIZE // 4)
    assert (functions("relative_entropy", q, p)[:4] == [0, 0, 0, q[0]]).all()
    assert (functions("power_excess", q, p, rate=0.5)[:3] == 0).all()
    assert np.isfinite(functions("relative_entropy", p, q)).all()


# -- powers ---------------------------------------------------------------------------------------


@cache
def powers(rate: float, dtype: str) -> tuple[np.ndarray, list[mp.mpf]]:
    p = np.exp(np.random.default_rng(0).uniform(-30 / max(1, rate), 0, SIZE)).astype(dtype)
    with mp.workdps(60):
        return p, [mp.mpf(float(x)) ** rate for x in p]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [1e-4, 0.3, 0.5, 1.0, 1.7, 2.0, 3.5, 4.0, 19.0])
def test_a_power_is_as_accurate_as_stated(functions: Functions, rate: float, dtype: str):
    p, exact = powers(rate, dtype)
    errors = errors_in_ulp(functions("power", p, rate=rate), exact)
    is_half = rate <= 4 and 2 * rate == int(2 * rate)
    allowed = 0.6 * (rate + 1) if is_half else 2.5 + 7 * rate * np.abs(np.log(p.astype(float)))
    assert (errors <= allowed).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.5, 1.0, 1.5, 2.0, 3.5, 4.0])
def test_a_power_less_one_keeps_its_digits_near_one(functions: Functions, rate: float, dtype: str):
    p = (1 - 10 ** np.random.default_rng(0).uniform(-6, 0, SIZE)).astype(dtype)
    p = p[p < 1]
    with mp.workdps(60):
        exact = [mp.mpf(float(x)) ** rate - 1 for x in p]
    assert errors_in_ulp(functions("power_less_one", p, rate=rate), exact).max() <= 2 + rate


@cache
def bends(rate: float, dtype: str) -> tuple[np.ndarray, list[mp.mpf]]:
    """Arguments of all sizes, and how far (1 + x)^(rate + 1) lies above its tangent."""
    rng = np.random.default_rng(0)
    most = min(20.0, np.expm1(20 / max(rate, 1)))
    x = np.concatenate(
        [
            rng.uniform(-1, 0.5, SIZE // 4),
            rng.uniform(-0.7, 0.4, SIZE // 4) * min(1, 4 / (rate + 1)),
            rng.normal(size=SIZE // 4) * 10 ** rng.uniform(-9, -2, SIZE // 4),
            rng.uniform(0, most, SIZE // 4),
        ]
    )
    x = np.clip(x, -1, most).astype(dtype)
    x[:2] = -1, 0
    with mp.workdps(60):
        u, r = [1 + mp.mpf(float(v)) for v in x], mp.mpf(rate)
        values = [(v**r - 1) / r if rate else mp.log(v) if v else mp.mpf(0) for v in u]
        return x, [v * p - v + 1 for v, p in zip(u, values, strict=True)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.0, 1e-4, 0.5, 1.7, 2.0, 6.0, 49.0, 299.0])
def test_a_bend_is_as_accurate_as_stated(functions: Functions, rate: float, dtype: str):
    x, exact = bends(rate, dtype)
    values = functions("bend", x, rate=rate)
    assert values[1] == 0
    assert (values >= 0).all()
    allowed = {"float32": 50, "float64": 400}[dtype]
    steepness = rate * np.abs(np.log1p(np.maximum(x, -0.99)))
    assert (errors_in_ulp(values, exact) <= allowed + 10 * steepness).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.5, 2.0, 299.0])
def test_a_power_of_a_total_keeps_its_digits_near_one(functions: Functions, rate, dtype: str):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=SIZE) * 10 ** rng.uniform(-9, -2, SIZE)).astype(dtype)
    with mp.workdps(60):
        exact = [(1 + mp.mpf(float(v))) ** -rate - 1 for v in x]
    errors = errors_in_ulp(functions("power_of_total", x, rate=rate), exact)
    assert errors.max() <= 12
