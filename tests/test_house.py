"""The rules of the house that a reader relies on, read from the sources."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import scorewise

SRC = Path(scorewise.__file__).parent
SOURCES = sorted(SRC.rglob("*.py"))
ROOT = Path(__file__).parent.parent

# Tests and benchmarks use what users can use. These cannot, and why.
SIZES = "sets sizes, so that a few rows are several blocks"
KERNEL = "a kernel's internals: a later kernel replaces the tests together with the code"
PRIVATE_NAMES = {
    "benchmarks/models.py": "times members that are stacked against members one by one",
    "tests/acquire/test_batches.py": SIZES,
    "tests/acquire/test_targets.py": SIZES,
    "tests/cli/test_remedies.py": "no command has a remedy that is no option of it",
    "tests/cli/test_calibrate.py": SIZES,
    "tests/cli/test_score_on_disk.py": f"{SIZES}, and stops between two of them",
    "tests/cuda_support.py": "runs a kernel's sources without the machine that they are for",
    "tests/decompose/test_on_a_device.py": f"there is no device, and {SIZES}",
    "tests/models/torch/test_into_on_a_device.py": "there is no device",
    "tests/test_accumulate_on_a_device.py": "there is no device, and interrupts an update",
    "tests/io/test_score.py": f"{SIZES}, and fails or changes files between two of them",
    "tests/io_support.py": SIZES,
    "tests/kernels/test_cpu.py": KERNEL,
    "tests/kernels/test_cpu_accumulate.py": "interrupts an update between two of its parts",
    "tests/kernels/test_cuda_calls.py": "puts something else in the place of a GPU",
    "tests/kernels/test_cuda.py": KERNEL,
    "tests/kernels/test_cuda_compiles.py": KERNEL,
    "tests/kernels/test_extras.py": KERNEL,
    "tests/kernels/test_host.py": "there is no device",
    "tests/kernels/test_functions.py": "compiles functions for each instruction set",
    "tests/kernels/test_native.py": "the extension must be there, and the array path would hide it",
    "tests/models/torch/test_deep_ensembles.py": "stacks members where no GPU makes it worthwhile",
    "tests/rules/test_laws.py": "replaces the matrix product, to sum in another order",
    "tests/scale/test_cluster.py": "looks for workers more often, to wait no seconds for a warning",
    "tests/scale/test_job.py": "looks for workers more often, to wait no seconds for a warning",
    "tests/support.py": "asserts that the array path adds no member where a kernel should",
    "tests/test_threads.py": "the order of tasks does not show in results",
    "tests/test_recipes.py": "writes modules that become part of the package",
}


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


def private_names_in(path: Path) -> set[str]:
    """Private names of scorewise in a file: in its imports, and in code that is a string."""
    text = path.read_text()
    dotted = set(re.findall(r"\bscorewise(?:\.[a-z]\w*)*\._[a-z]\w*", text))
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "scorewise"
        for alias in node.names
        if is_private(alias.name)
    }
    return dotted | imported


def test_tests_and_benchmarks_import_no_private_names_without_a_reason():
    private = {
        str(path.relative_to(ROOT)): names
        for folder in ("tests", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (names := private_names_in(path))
    }
    assert not {path: names for path, names in private.items() if path not in PRIVATE_NAMES}
    assert set(private) == set(PRIVATE_NAMES)  # no exception outlives its reason


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


def test_no_module_imports_at_its_top_what_only_unix_has():
    unix = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
    imports = {
        (path.name, name.partition(".")[0])
        for path in SOURCES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    }
    assert ("_files.py", "hashlib") in imports
    assert not {(file, name) for file, name in imports if name in unix}
