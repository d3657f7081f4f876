"""The command line: the demo, its result, its errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scorewise as sw
from scorewise import demo
from scorewise.cli import app

run = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke


def test_demo_prints_tables_and_writes_its_result(tmp_path: Path):
    result = run(app, ["demo", "--out", str(tmp_path / "new" / "out"), "--trees", "20"])
    assert result.exit_code == 0, result.output
    for word in ("Clear and doubtful digits", "clear #", "doubtful #", "total zero-one", "AULC"):
        assert word in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    stored = json.loads((tmp_path / "new" / "out" / "demo.json").read_text())
    assert [d["kind"] for d in stored["digits"]] == ["clear"] * 3 + ["doubtful"] * 3
    assert os.listdir(tmp_path / "new" / "out") == ["demo.json"]
    for digit in stored["digits"]:
        for parts in digit["uncertainty"].values():
            assert parts["total"] == pytest.approx(parts["aleatoric"] + parts["epistemic"])


def test_demo_speaks_json(tmp_path: Path):
    result = run(app, ["demo", "--out", str(tmp_path), "--trees", "10", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed == json.loads((tmp_path / "demo.json").read_text())
    assert printed["n_trees"] == 10


def test_demo_is_reproducible_and_its_numbers_make_sense():
    one, two = (demo.run_demo(n_trees=20, random_state=3) for _ in range(2))
    assert one == two
    assert 0.8 < one.accuracy < 1
    clear, doubtful = one.digits[0], one.digits[-1]
    for rule in demo.RULES:
        assert clear.uncertainty[rule]["total"] < doubtful.uncertainty[rule]["total"]
        area = one.areas["zero-one"][rule]["total"]
        assert area < (1 - one.accuracy) / 2  # far better than abstaining at random
    rule, part = one.best("zero-one")
    lowest = min(x for parts in one.areas["zero-one"].values() for x in parts.values())
    assert one.areas["zero-one"][rule][part] == lowest


def test_the_users_mistakes_have_no_stack_trace(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = run(app, ["demo", "--out", str(blocked), "--trees", "2"])
    assert result.exit_code == 2
    assert "Error:" in result.output
    assert "Traceback" not in result.output
    debug = run(app, ["demo", "--out", str(blocked), "--trees", "2", "--debug"])
    assert isinstance(debug.exception, OSError)
    assert run(app, ["demo", "--trees", "0"]).exit_code == 2


def test_help_teaches_and_version_is_told():
    assert "scorewise demo --trees 500" in " ".join(run(app, ["demo", "--help"]).output.split())
    assert run(app, ["--version"]).output.strip() == f"scorewise {sw.__version__}"
    assert "demo" in run(app, []).output
