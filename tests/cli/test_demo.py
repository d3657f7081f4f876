"""``scorewise demo``: what it writes, prints and suggests."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import scorewise as sw
from cli_support import FAST, parse_json, run, run_process, small_demo, succeeded
from support import as_json


def test_demo_for_machines(tmp_path: Path):
    out = tmp_path / "new folder" / "aüß"
    result = run_process("demo", "--out", out, "--trees", "10", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    printed = parse_json(result.stdout)
    files = printed.pop("written")
    assert files == [
        str(out / name) for name in ("report.html", "evaluation.json", "digits.npz", "ood.npz")
    ]
    assert {str(path) for path in out.iterdir()} == set(files)
    assert printed == json.loads((out / "evaluation.json").read_text())
    assert printed["loss"] < 0.2
    assert printed["ood"]["metrics"]["auroc"] > 0.7
    assert printed["n_members"] == 10
    assert set(printed["learning"]["curves"]) == {"epistemic zero-one", "random"}
    own, ood = (sw.read_predictions(out / name) for name in ("digits.npz", "ood.npz"))
    assert own.class_names == tuple("01234567")
    assert sw.evaluate(own, n_resamples=100).loss == printed["loss"]
    assert ood.labels is None


@pytest.mark.usefixtures("quick_demo")
def test_demo_in_words_and_what_it_suggests(here: Path):
    result = succeeded(run("demo", "--trees", "8"))
    assert result.stderr == ""
    assert "A forest of 8 trees" in result.stdout
    assert "Written to out/report.html: open it in a browser" in result.stdout
    page = Path("out/report.html").read_text()
    assert "handwritten digits" in page
    assert page.count('<img src="data:image/png') == 10
    suggested = re.findall(r"^  scorewise (.*)$", result.stdout, re.MULTILINE)
    assert len(suggested) == 3
    for line in suggested:
        assert run(*shlex.split(line), *(FAST if "evaluate" in line else ())).exit_code in (0, 1)


@pytest.mark.usefixtures("quick_demo")
def test_what_demo_suggests_can_be_copied_where_names_have_spaces(here: Path):
    result = succeeded(run("demo", "--trees", "2", "--out", "my demo"))
    suggested = re.findall(r"^  scorewise (label .*)$", result.stdout, re.MULTILINE)
    succeeded(run(*shlex.split(suggested[0])))


def test_demo_is_reproducible():
    evaluation, predictions, _ = small_demo()
    small_demo.cache_clear()
    again, same_predictions, _ = small_demo()
    assert evaluation is not again
    assert as_json(evaluation.to_dict()) == as_json(again.to_dict())
    assert predictions.probs.tobytes() == same_predictions.probs.tobytes()


def test_a_seed_that_is_too_large_is_one_sentence(here: Path):
    result = run("demo", "--trees", "2", "--seed", 2**32)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
