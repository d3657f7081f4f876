"""The pages and examples: their code runs, and every public name is in one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import scorewise as sw

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_of(page: Path) -> str:
    """The python blocks of a page, from top to bottom."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    return "\n".join(blocks)


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=lambda p: p.stem)
def test_examples_of_a_page_run(page: Path):
    run = [sys.executable, "-W", "error", "-c", code_of(page)]
    subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example_file_runs_and_prints(path: Path):
    run = [sys.executable, "-W", "error", str(path)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_of_a_page_lead_to_files(page: Path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("name", sw.__all__)
def test_public_name_is_in_a_page_and_in_the_changelog(name: str):
    assert any(name in page.read_text() for page in PAGES), f"{name} is in no page"
    assert name in (ROOT / "CHANGELOG.md").read_text(), f"{name} is not in the CHANGELOG"
