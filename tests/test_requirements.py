"""What `make` installs: releases with versions and hashes, and torch apart."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LISTS = ["dev.txt", "demo.txt", "docs.txt"]
APART = {"torch", "torchvision"}


def entries(name: str) -> list[str]:
    """Requirements with their hashes, one text each."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def releases(name: str) -> dict[str, list[Requirement]]:
    """Requirements by the name of the package; several where versions of Python need their own."""
    by_name: dict[str, list[Requirement]] = {}
    for entry in entries(name):
        requirement = Requirement(entry.partition("--hash")[0])
        by_name.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return by_name


def extra(name: str) -> set[str]:
    """Packages that an extra of the project asks for, with those of the extras that it includes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    for requirement in map(Requirement, project["optional-dependencies"][name]):
        if requirement.name == project["name"]:
            names = names.union(*(extra(part) for part in requirement.extras))
        else:
            names.add(canonicalize_name(requirement.name))
    return names


@pytest.mark.parametrize("name", LISTS)
def test_every_release_is_exact_and_has_hashes(name):
    assert entries(name)
    for entry in entries(name):
        assert re.fullmatch(r"[a-z0-9.-]+==\S+( ;[^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", entry)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_names_no_address(name):
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


@pytest.mark.parametrize(
    ("name", "part"), [("dev.txt", "dev"), ("demo.txt", "report"), ("docs.txt", "docs")]
)
def test_a_list_has_all_that_the_project_asks_for(name, part):
    listed = set(releases(name))
    assert extra(part) - APART <= listed
    assert not listed & APART


@pytest.mark.parametrize("name", ["demo.txt", "docs.txt"])
def test_the_demo_and_the_site_use_the_releases_that_are_tested(name):
    tested = releases("dev.txt")
    for package, used in releases(name).items():
        versions = {str(requirement.specifier) for requirement in tested[package]}
        assert {str(requirement.specifier) for requirement in used} <= versions


def test_make_installs_only_lists_torch_and_the_packages_themselves():
    goal = "out/nowhere/.installed-dev"
    commands = subprocess.run(
        ["make", "--dry-run", "--always-make", "VENV=out/nowhere", goal],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    installations = [
        command.split(" install ")[1] for command in commands if " install " in command
    ]
    torch = [options for options in installations if "'torch==" in options]
    assert len(torch) == 1
    listed, local = sorted(
        set(installations) - set(torch), key=lambda options: "." in options.split()
    )
    assert listed == "--quiet --no-deps --require-hashes --requirement requirements/dev.txt"
    assert local.split()[:3] == ["--quiet", "--no-deps", "--no-build-isolation"]
    assert local.split()[3:] == ["--editable", ".", "--editable", "./reproduction"]
