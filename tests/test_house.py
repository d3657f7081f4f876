"""The rules of the house that a reader relies on, read from the sources."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import scorewise

SRC = Path(scorewise.__file__).parent
SOURCES = sorted(SRC.rglob("*.py"))


def module_of(path: Path) -> tuple[str, ...]:
    """The dotted name of a source file, in parts, without ``scorewise``."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports_of(path: Path) -> list[tuple[tuple[str, ...], str]]:
    """The modules of scorewise that a file imports from, each with a name."""
    return [
        (tuple(node.module.split(".")[1:]), alias.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scorewise.")
        for alias in node.names
    ]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_package_imports_a_private_name_of_another():
    trespasses = [
        (".".join(module_of(path)), ".".join(module), name)
        for path in SOURCES
        for module, name in imports_of(path)
        if module[:1] != module_of(path)[:1] and any(map(is_private, (*module[1:], name)))
    ]
    assert not trespasses


def test_one_class_name_is_one_class():
    homes = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(".".join(module_of(path)))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def test_one_file_name_is_one_module():
    """Commands and displays have the name of what they call or draw; all others are unique."""
    homes = defaultdict(list)
    for path in SOURCES:
        module = module_of(path)
        if path.name != "__init__.py" and module[0] not in {"cli", "plots"}:
            homes[module[-1].lstrip("_")].append(".".join(module))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def test_every_package_and_public_module_names_what_it_exports():
    for path in [*SRC.rglob("__init__.py"), *SRC.glob("[!_]*.py")]:
        module = ".".join(["scorewise", *module_of(path)])
        exported = __import__(module, fromlist=["*"])
        names = getattr(exported, "__all__", [])
        assert names or path.name == "__init__.py", module
        assert list(names) == sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
        assert all(hasattr(exported, name) for name in names), module
