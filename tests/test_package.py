"""The package as a whole: what importing it loads, its public names, its metadata."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scorewise as sw

ROOT = Path(__file__).parents[1]
HEAVY = [
    "torch",
    "matplotlib",
    "sklearn",
    "pyarrow",
    "dask",
    "jax",
    "pandas",
    "scipy.stats",
    "typer",
    "rich",
    "jinja2",
    "plotly",
    "safetensors",
]


def python(code: str, *options: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True, cwd=cwd
    )


def test_import_loads_nothing_heavy():
    code = f"import sys, scorewise; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_import_and_first_use_write_nothing(tmp_path: Path):
    code = (
        "import scorewise as sw, numpy as np;"
        "sw.decompose(np.full((2, 3, 4), 0.25), ['log', 'zero-one'])"
    )
    before = {p for p in (ROOT / "src").rglob("*") if "__pycache__" not in p.parts}
    python(code, "-B", cwd=tmp_path)
    assert not list(tmp_path.iterdir())
    assert {p for p in (ROOT / "src").rglob("*") if "__pycache__" not in p.parts} == before


@pytest.mark.parametrize("missing", ["sklearn", "torch", "dask"])
def test_the_core_works_where_a_heavy_library_cannot_be_imported(missing: str):
    code = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import numpy as np, scorewise as sw
d = sw.decompose(np.full((2, 3, 4), 0.25), ["log", "brier", "zero-one", "spherical"])
sw.Accumulator("log").update(np.full((2, 4), 0.25))
print(float(d["zero-one"].total[0]))
"""
    assert python(code).stdout.strip() == "0.75"


def test_public_names_exist_and_are_sorted():
    assert sorted(sw.__all__) == list(sw.__all__)
    assert all(hasattr(sw, name) for name in sw.__all__)
    public = {n for n in dir(sw) if not n.startswith("_") and not inspect.ismodule(getattr(sw, n))}
    assert public | {"rules", "plots"} == set(sw.__all__)


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 failed"), ("", "1 skipped")])
def test_in_ci_a_skipped_test_is_a_failure(tmp_path: Path, ci: str, outcome: str):
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip('why not')\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "/dev/null", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "tests",
        env={"PYTHONPATH": str(ROOT / "tests"), "CI": ci, "PATH": ""},
    )
    assert outcome in run.stdout, run.stdout + run.stderr


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == sw.__version__ == importlib.metadata.version("scorewise")
    assert f"\nversion: {sw.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_extras_are_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {
        "torch",
        "laplace",
        "plots",
        "report",
        "io",
        "boosting",
        "dask",
        "sign",
        "docs",
        "dev",
        "all",
    }


def functions_with_options() -> list[str]:
    return [
        name
        for name in sw.__all__
        if inspect.isfunction(getattr(sw, name))
        and name != "fit_laplace"  # whose options are those of laplace-torch
        and any(
            parameter.kind is parameter.VAR_KEYWORD
            for parameter in inspect.signature(getattr(sw, name)).parameters.values()
        )
    ]


@pytest.mark.parametrize("name", functions_with_options())
def test_a_misspelt_option_is_named(name):
    options = inspect.signature(sw.ActiveLearner if name == "active_learning" else sw.Samples)
    option = [*options.parameters][-1]
    with pytest.raises(sw.InvalidInput, match=f"no option '{option}x'; did you mean '{option}'"):
        getattr(sw, name)(**{f"{option}x": 1})


@pytest.mark.parametrize("name", ["compare", "evaluate"])
def test_a_misspelt_parameter_is_named(name):
    with pytest.raises(sw.InvalidInput, match="no option 'n_resample'; did you mean 'n_resamples'"):
        getattr(sw, name)([[[0.5, 0.5]]], [0], n_resample=200)
