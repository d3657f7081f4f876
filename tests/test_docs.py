"""The pages and examples: their code runs, and the names and files that they mention exist."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scorewise as sw

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("docs", "benchmarks", "reproduction", "src")
MARKDOWN = sorted([*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))])
FOR_DEVELOPERS = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]
# Lists of pages or names, a page that is a picture itself, and pages from elsewhere in the project.
WITHOUT_PICTURES = {"api", "background", "guides", "install", "project", "simplex"}
WITHOUT_PICTURES |= {
    "benchmarks",
    "gpu-benchmarks",
    "changelog",
    "contributing",
    "datasets",
    "paper",
}
WITHOUT_PICTURES |= {"cpu-kernel", "cuda-kernel"}
SOURCES = [
    path
    for folder in ("src", "reproduction", "examples", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
] + sorted((ROOT / "docs").glob("*.py"))


def code_of(page: Path) -> str:
    """The python blocks of a page, from top to bottom."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    return "\n".join(blocks)


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=lambda p: p.stem)
def test_examples_of_a_page_run(page: Path, tmp_path: Path):
    run = [sys.executable, "-W", "error", "-c", code_of(page)]
    subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)


def test_all_examples_have_a_page_and_so_run_when_the_site_is_built():
    examples = {path.name for path in (ROOT / "examples").glob("*.py")}
    with_page = re.findall(r'^    "(\w+\.py)",$', (ROOT / "docs/conf.py").read_text(), re.MULTILINE)
    assert examples == {*with_page}


def prose_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """What a link to a heading of a page ends with, on the site and where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The links to other files, and to headings, that lead nowhere."""
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", prose_of(page))
    targets = {(path, anchor): page.parent / path if path else page for path, anchor in links}
    return [
        f"{path}#{anchor}"
        for (path, anchor), target in targets.items()
        if not target.exists() or (anchor and anchor not in anchors_of(target))
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in WITHOUT_PICTURES], ids=lambda p: p.stem
)
def test_a_page_has_a_picture_and_each_says_in_words_what_it_shows(page: Path):
    text = page.read_text()
    plots = re.findall(r"^```\{plot\}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    images = re.findall(r"!\[(.*?)\]\(", text)
    assert plots or images
    described = [re.match(r":alt: \S+ \S+", plot) for plot in plots] + images
    assert all(described)


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page: Path):
    assert not broken_links(page)


def test_links_to_a_missing_file_or_heading_are_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[1](#a-b-c) [2](#a-c) [3](none.md) [4](page.md#a-b-c)\n")
    assert broken_links(page) == ["#a-c", "none.md#"]


@pytest.mark.parametrize("name", sw.__all__)
def test_public_name_is_in_a_page_and_in_the_changelog(name: str):
    assert any(name in page.read_text() for page in PAGES), f"{name} is in no page"
    assert name in (ROOT / "CHANGELOG.md").read_text(), f"{name} is not in the CHANGELOG"


def sources_named(name: str) -> list[Path]:
    """The source files whose paths end like this."""
    return [path for path in SOURCES if f"/{path.relative_to(ROOT)}".endswith(f"/{name}")]


def names_defined_in(path: Path) -> set[str]:
    """The functions, classes and variables of a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda p: p.stem)
def test_files_that_a_guide_mentions_exist(page: Path):
    files = re.findall(r"`([\w/]+\.py)`", page.read_text())
    assert files
    assert not [file for file in files if not sources_named(file)]


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda p: p.stem)
def test_names_that_a_guide_places_in_a_file_are_defined_there(page: Path):
    pairs = re.findall(r"`(\w+)`(?:\s+\S+)?\s+(?:in|of)\s+`([\w/]+\.py)`", page.read_text())
    assert not [
        f"{name} in {file}"
        for name, file in pairs
        if not any(name in names_defined_in(path) for path in sources_named(file))
    ]


def text_of(path: Path) -> str:
    """The text of a page without former names, or the docstrings and messages of a module."""
    text = path.read_text()
    if path.suffix == ".py":
        constants = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        return "\n".join(node.value for node in constants if isinstance(node.value, str))
    if path.name == "CHANGELOG.md":
        return re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE)  # the column "before"
    return text


def references_in(path: Path) -> list[str]:
    """The dotted names of scorewise, such as ``sw.rules.log``, in a page or module."""
    prefix = r"(?<![\w.\-/])(?:sw|scorewise(?:_paper)?)"
    names = re.findall(rf"{prefix}(?:\.[A-Za-z_]\w*)+", text_of(path))
    return [re.sub(r"^sw\.", "scorewise.", name) for name in names if not name.endswith("_")]


def resolves(reference: str) -> bool:
    """Whether a dotted name leads to a module, or to an attribute of one."""
    names = reference.split(".")
    return any(has_attribute(".".join(names[:i]), names[i:]) for i in range(len(names), 0, -1))


def has_attribute(module: str, names: list[str]) -> bool:
    """Whether a module can be imported and has an attribute with these dotted names."""
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for i, name in enumerate(names, start=1):
        if i == len(names) and name in getattr(value, "__dataclass_fields__", ()):
            return True
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def test_every_reference_to_a_name_of_scorewise_resolves():
    pages = [*PAGES, *FOR_DEVELOPERS, ROOT / "CHANGELOG.md", *(ROOT / "reproduction").glob("*.md")]
    folders = [ROOT / name for name in ("src", "reproduction/scorewise_paper", "examples")]
    sources = [path for path in SOURCES if any(map(path.is_relative_to, folders))]
    unresolved = {
        f"{path.relative_to(ROOT)}: {reference}"
        for path in (*pages, *sources)
        for reference in references_in(path)
        if not resolves(reference)
    }
    assert not unresolved
