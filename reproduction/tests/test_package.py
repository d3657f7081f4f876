"""The package as a whole: it uses the library as others do."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scorewise_paper

PACKAGE = Path(scorewise_paper.__file__).parent


def library_imports() -> list[tuple[str, str]]:
    """Every name that a module of the package imports from the library."""
    names = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").split(".")[0] == "scorewise"
            ):
                names += [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                names += [(x.name, "") for x in node.names if x.name.split(".")[0] == "scorewise"]
    return sorted(set(names))


@pytest.mark.parametrize(("module", "name"), library_imports())
def test_only_public_names_of_the_library_are_imported(module: str, name: str):
    assert not any(part.startswith("_") for part in module.split("."))
    if name and name != "__version__":
        library = importlib.import_module(module)
        public = getattr(library, "__all__", [x for x in vars(library) if not x.startswith("_")])
        assert name in public


@pytest.mark.parametrize("page", ["README.md", "datasets.md"])
def test_pages_are_true(page: str):
    text = (PACKAGE.parent / page).read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    for link in re.findall(r"\]\(([^):#]+)\)", text):
        assert (PACKAGE.parent / link).exists()


def test_the_public_names_exist():
    for name in scorewise_paper.__all__:
        assert hasattr(scorewise_paper, name)
