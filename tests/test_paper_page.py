"""The page of results: tables in three formats, honest verdicts, marks; and it is generated."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from scorewise.cli import app
from scorewise.errors import InvalidInput
from scorewise.paper import Cell, DamagedCell, Protocol, Result, Store, Stored, write_page
from scorewise.paper.published import published, published_auroc
from scorewise.paper.rejection import rejection_numbers
from scorewise.paper.results import groups
from scorewise.paper.setup import shortened
from scorewise.paper.statistics import Advantage, mean_and_spread
from scorewise.paper.tables import Table, as_html, latex, markdown
from scorewise.paper.work import EXPERIMENTS, experiment

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "reproduction" / "results"


def forest(run: int, *, official: bool = True, numbers: Any = None, **changed: Any) -> Cell:
    described = {"digest": "d", "official": official, "rows": 70}
    setting = {
        "data": "covtype",
        "trees": 20,
        "depth": 5,
        "run": run,
        "test_rows": 10_000,
        "train_rows": None,
        "sets": {"covtype/train": described, "covtype/test": {**described, "rows": 30}},
    }
    return Cell("forest-rejection", {**setting, **changed})


def numbers(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), (60, 4))
    return rejection_numbers(probs, rng.integers(0, 3, 60))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results")
    for run in range(3):
        made.write(forest(run), Result(numbers(run)))
    return made


# -- the committed page ----------------------------------------------------------------------------


def test_the_page_in_the_docs_is_generated(tmp_path: Path, no_screen: None):
    written = write_page(RESULTS, tmp_path)
    assert written[0].read_text() == (DOCS / "reproduction.md").read_text()
    tables = "reproduction/tables.tex"
    assert (tmp_path / tables).read_text() == (DOCS / tables).read_text()
    there = {path.relative_to(DOCS) for path in (DOCS / "reproduction").rglob("*.svg")}
    assert {path.relative_to(tmp_path) for path in written if path.suffix == ".svg"} == there
    shown = set(re.findall(r"\]\((reproduction/[^)]*)\)", written[0].read_text()))
    assert shown == {str(path) for path in there}


def test_the_committed_results_are_whole_and_as_large_as_the_paper():
    found = list(Store(RESULTS).results())
    assert {one.cell.kind for one in found} >= {
        "forest-rejection",
        "active-learning",
        "resnet-ood",
        "resnet-rejection",
    }
    for one in found:
        assert not shortened(one.cell.setting), one.cell.name
        assert {"seconds", "device", "finished", "versions"} <= set(one.made)
        assert (RESULTS / f"{one.cell.name}.json").is_file()


def test_every_experiment_has_a_section_on_the_page():
    text = (DOCS / "reproduction.md").read_text()
    for name in EXPERIMENTS:
        assert f"## {experiment(name).TITLE}\n" in text


# -- verdicts --------------------------------------------------------------------------------------


def test_the_interval_is_students():
    values = (0.3, 0.1, 0.25, 0.2)
    low, high = Advantage(values).interval
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    np.testing.assert_allclose((low, high), expected)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.1, 0.11, 0.12), "yes"),
        ((-0.1, -0.11, -0.12), "no"),
        ((0.1, -0.11, 0.12), "undecided"),
        ((0.1,), "undecided: one run says yes"),
        ((-0.1,), "undecided: one run says no"),
        ((0.0, 0.0), "undecided"),
    ],
)
def test_verdicts(values: tuple[float, ...], verdict: str):
    assert Advantage(values).verdict == verdict


def test_runs_are_paired():
    ours, theirs = {0: 1.0, 1: 2.0, 5: 3.0}, {1: 2.5, 5: 3.25, 7: 9.0}
    assert Advantage.smaller(ours, theirs).values == (0.5, 0.25)
    assert Advantage.larger(theirs, ours).values == (0.5, 0.25)


def test_spread():
    assert mean_and_spread([0.5]) == "0.500"
    assert mean_and_spread([0.4, 0.6]) == "0.500 ± 0.141"


# -- groups and marks ------------------------------------------------------------------------------


def test_other_settings_are_never_mixed(store: Store):
    sets = forest(0).setting["sets"]
    other = forest(0, sets={name: {**one, "digest": "e"} for name, one in sets.items()})
    others = [
        forest(0, depth=6),
        forest(0, test_rows=100),
        forest(0, official=False),
        other,
        Cell("forest-rejection", {**forest(0).setting, "data": "poker-hand"}),
    ]
    for cell in others:
        store.write(cell, Result(numbers(9)))
    found = groups(list(store.results()), "forest-rejection", "covtype")
    assert sorted(len(group.results) for group in found) == [1, 1, 1, 1, 3]
    assert len(found[0].results) == 3
    assert found[-1].is_shortened


def test_marks_say_what_is_not_the_papers(store: Store):
    (group,) = groups(list(store.results()), "forest-rejection", "covtype")
    assert group.marks == []
    store.write(forest(0, official=False, test_rows=100), Result(numbers(0)))
    *_, short = groups(list(store.results()), "forest-rejection", "covtype")
    assert short.title() == "CoverType (shortened, not official)"
    assert short.marks == [
        f"{short.title()} is shortened: test rows: 100 instead of 10,000.",
        "CoverType: 100 rows, not the official files.",
        f"{short.title()}: 1 run instead of 3.",
    ]


def test_shortened_knows_the_paper():
    assert shortened(forest(0).setting) == ""
    assert shortened({"epochs": 3, "papers": {"epochs": 100}}) == "epochs: 3 instead of 100"
    assert shortened({"epochs": 100, "papers": {"epochs": 100}}) == ""
    assert shortened({"train_rows": 400}) == "training rows: 400"
    assert Protocol().runs == 3


def test_shortened_results_are_marked_on_the_page(store: Store, tmp_path: Path, no_screen: None):
    store.write(forest(0, test_rows=100), Result(numbers(0)))
    text = write_page(store.folder, tmp_path / "out")[0].read_text()
    assert "CoverType (shortened): area under the loss-rejection curve" in text
    assert "CoverType (shortened) is shortened: test rows: 100 instead of 10,000." in text
    assert "| CoverType (shortened), log loss |" in text
    whole = write_page(RESULTS, tmp_path / "whole")[0].read_text()
    assert "Comparisons: 4; yes:" in text  # of the runs in full alone
    assert "shortened" not in whole.partition("## Figure 1")[0].partition("## Does")[2]


def test_more_runs_than_the_papers_serve_the_claims_alone(
    store: Store, tmp_path: Path, no_screen: None
):
    before = write_page(store.folder, tmp_path / "before")[0].read_text()
    for run in range(3, 6):
        store.write(forest(run), Result(numbers(run)))
    after = write_page(store.folder, tmp_path / "after")[0].read_text()
    assert "(3 runs)" in before
    assert "(6 runs)" in after
    assert "(the first 3 of 6 runs)" in after
    assert "(mean and standard deviation of 3 runs)" in before
    row = "\n| log | total |"
    assert before[before.index(row) :] == after[after.index(row) :].replace(
        "the first 3 of 6 runs", "mean and standard deviation of 3 runs"
    )


def test_what_is_not_there_is_said_so(store: Store, tmp_path: Path, no_screen: None):
    text = write_page(store.folder, tmp_path)[0].read_text()
    assert "| CIFAR-100 | dropout | log | 0.829 ± 0.000 | not run | – |" in text
    assert "Not run, for want of the data: MNIST, TissueMNIST, BloodMNIST." in text


# -- tables ----------------------------------------------------------------------------------------

AWKWARD = Table("a|b & 5 %", ["x_1", "±"], [["<b>", "1 ± 2"], ["$", "*"]], frozenset({(0, 1)}))


def test_markdown():
    assert markdown(AWKWARD).splitlines() == [
        r"**a\|b & 5 %**",
        "",
        "| x_1 | ± |",
        "| --- | --- |",
        "| <b> | **1 ± 2** |",
        r"| $ | \* |",
    ]


def test_latex():
    text = latex(AWKWARD)
    assert r"\caption{a|b \& 5 \%.}" in text
    assert r"x\_1 & $\pm$ \\ \midrule" in text
    assert r"<b> & \textbf{1 $\pm$ 2} \\" in text


def test_html_is_escaped():
    text = as_html(AWKWARD)
    assert "<td>&lt;b&gt;</td><td><b>1 ± 2</b></td>" in text
    assert "<caption>a|b &amp; 5 %</caption>" in text


def test_the_html_page_needs_nothing_else(store: Store, tmp_path: Path, no_screen: None):
    write_page(store.folder, tmp_path)
    text = (tmp_path / "reproduction" / "reproduction.html").read_text()
    assert "<svg" in text
    assert not re.search(r"""(src|href)=["']https?:""", text)


# -- what the paper says ---------------------------------------------------------------------------


def test_published_numbers():
    sizes = {
        "tab:ood": 9,
        "tab:ood-spherical": 9,
        "tab:app-ood-imagenet": 8,
        "tab:app-ood-food101": 6,
    }
    for name, size in sizes.items():
        assert len(published(name)["rows"]) == size
    for name in set(sizes) - {"tab:ood-spherical"}:  # the paper's bold ones
        for row in published(name)["rows"]:
            assert max(("log", "brier", "zero-one"), key=lambda rule: row[rule][0]) == "log"
    assert published_auroc(("tab:ood", "tab:ood-spherical"), "svhn", "laplace") == {
        "log": (0.865, 0.005),
        "brier": (0.856, 0.004),
        "zero-one": (0.826, 0.006),
        "spherical": (0.848, 0.012),
    }


# -- bad input -------------------------------------------------------------------------------------


def test_a_damaged_result_is_named(store: Store, tmp_path: Path):
    path = store.path(forest(1))
    found = json.loads(path.read_text())
    found["result"]["accuracy"] = 1.0
    path.write_text(json.dumps(found))
    with pytest.raises(DamagedCell, match=path.name):
        write_page(store.folder, tmp_path)


def test_files_of_others_are_left_alone(store: Store):
    (store.folder / "package.json").write_text("{}")
    (store.folder / "forest-rejection-0123456789abcdef.json").mkdir()
    assert len(list(store.results())) == 3
    deep = store.folder / "forest-rejection-0123456789abcdee.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(DamagedCell, match=deep.name):
        list(store.results())


def test_no_results(tmp_path: Path):
    with pytest.raises(InvalidInput, match="no folder of results"):
        write_page(tmp_path / "none", tmp_path)


def test_the_command(store: Store, tmp_path: Path, no_screen: None):
    out = tmp_path / "out"
    args = ["reproduce", "report", "--results", str(store.folder), "--out", str(out), "--json"]
    told = CliRunner().invoke(app, args)
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["written"][0] == str(out / "reproduction.md")
    shutil.rmtree(store.folder)
    told = CliRunner().invoke(app, args)
    assert told.exit_code == 2
    assert "no folder of results" in told.output


def test_a_stored_result_is_what_was_written(store: Store):
    (first, *_) = store.results()
    assert isinstance(first, Stored)
    assert first.numbers["aulc"] == numbers(int(first.cell.setting["run"]))["aulc"]
