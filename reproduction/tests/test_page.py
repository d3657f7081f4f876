"""The page of results: tables in three formats, verdicts, marks; and the committed page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from paper_support import reproduce
from scorewise_paper import (
    EXPERIMENTS,
    Cell,
    Protocol,
    Result,
    Store,
    Stored,
    experiment,
    is_stale,
    write_page,
    write_sections,
)
from scorewise_paper.errors import DamagedResult, InvalidInput
from scorewise_paper.page import as_html, latex, markdown
from scorewise_paper.published import published, published_auroc
from scorewise_paper.rejection import rejection_numbers
from scorewise_paper.runs import shortened
from scorewise_paper.sections import Advantage, Table, groups, mean_and_deviation

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "results"


def forest(run: int, *, official: bool = True, **changed: Any) -> Cell:
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
    return Cell("figure-1", 1, {**setting, **changed})


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


def test_the_committed_page_is_generated(tmp_path: Path):
    written = write_page(RESULTS, tmp_path)
    for name in ("page.md", "tables.tex"):
        assert (tmp_path / name).read_text() == (PROJECT / name).read_text()
    committed = {path.relative_to(PROJECT) for path in (PROJECT / "figures").iterdir()}
    assert {path.relative_to(tmp_path) for path in written if path.suffix == ".svg"} == committed
    shown = set(re.findall(r"\]\((figures/[^)]*)\)", written[0].read_text()))
    assert shown == {str(path) for path in committed}


def test_the_committed_results_count_and_are_as_large_as_the_papers():
    every = [stored for name in EXPERIMENTS for stored in Store(RESULTS).results(name)]
    assert len(every) == 504
    for stored in every:
        assert not is_stale(stored.cell)
        assert not shortened(stored.cell.setting), stored.cell.name
        assert {"seconds", "device", "finished", "versions"} <= set(stored.provenance)


def test_every_experiment_has_a_section_on_the_page():
    text = (PROJECT / "page.md").read_text()
    for title in EXPERIMENTS.values():
        assert f"## {title}\n" in text


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
        ((0.1,), "undecided: one run, yes"),
        ((-0.1,), "undecided: one run, no"),
        ((0.0, 0.0), "undecided"),
    ],
)
def test_verdicts(values: tuple[float, ...], verdict: str):
    assert Advantage(values).verdict == verdict


def test_runs_are_paired():
    values, rival_values = {0: 1.0, 1: 2.0, 5: 3.0}, {1: 2.5, 5: 3.25, 7: 9.0}
    assert Advantage.smaller(values, rival_values).values == (0.5, 0.25)
    assert Advantage.larger(rival_values, values).values == (0.5, 0.25)


def test_spread():
    assert mean_and_deviation([0.5]) == "0.500"
    assert mean_and_deviation([0.4, 0.6]) == "0.500 ± 0.141"


# -- groups and marks ------------------------------------------------------------------------------


def test_other_settings_are_never_mixed(store: Store):
    sets = forest(0).setting["sets"]
    other = forest(0, sets={name: {**described, "digest": "e"} for name, described in sets.items()})
    others = [
        forest(0, depth=6),
        forest(0, test_rows=100),
        forest(0, official=False),
        other,
        Cell("figure-1", 1, {**forest(0).setting, "data": "poker-hand"}),
    ]
    for cell in others:
        store.write(cell, Result(numbers(9)))
    settings = groups(store.results("figure-1"), "figure-1", "covtype")
    assert sorted(len(group.results) for group in settings) == [1, 1, 1, 1, 3]
    assert len(settings[0].results) == 3
    assert settings[-1].is_shortened


def test_marks_say_what_is_not_the_papers(store: Store):
    (group,) = groups(store.results("figure-1"), "figure-1", "covtype")
    assert group.marks == []
    store.write(forest(0, official=False, test_rows=100), Result(numbers(0)))
    *_, short = groups(store.results("figure-1"), "figure-1", "covtype")
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


def test_shortened_results_are_marked_on_the_page(store: Store, tmp_path: Path):
    store.write(forest(0, test_rows=100), Result(numbers(0)))
    text = write_page(store.folder, tmp_path / "out")[0].read_text()
    assert "CoverType (shortened): area under the loss-rejection curve" in text
    assert "CoverType (shortened) is shortened: test rows: 100 instead of 10,000." in text
    assert "| CoverType (shortened), log loss |" in text
    whole = (PROJECT / "page.md").read_text()
    assert "Comparisons: 4; yes:" in text  # of the runs in full alone
    assert "shortened" not in whole.partition("## Figure 1")[0].partition("## Does")[2]


def test_more_runs_than_the_papers_serve_the_claims_alone(store: Store, tmp_path: Path):
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


def test_missing_results_are_named(store: Store, tmp_path: Path):
    text = write_page(store.folder, tmp_path)[0].read_text()
    assert "| CIFAR-100 | dropout | log | 0.829 ± 0.000 | not run | – |" in text
    assert "Not run, because the data were not available: MNIST, TissueMNIST, BloodMNIST." in text


# -- detection -------------------------------------------------------------------------------------


def detected(run: int, epistemic: dict[str, float], **changed: Any) -> tuple[Cell, Result]:
    """A result of the table for ImageNet, whose totals and aleatoric uncertainties have .9."""
    setting = {
        "data": "imagenet",
        "ood": "cifar-100",
        "method": "dropout",
        "run": run,
        "weights": {"digest": "d", "official": True, "network": "EfficientNetV2-S"},
        "test_rows": 10_000,
        "samples": 20,
        "sets": {"imagenet/test": {"digest": "d", "official": True, "rows": 50_000}},
    }
    others = dict.fromkeys(epistemic, 0.9)
    auroc = {"total": others, "aleatoric": others, "epistemic": epistemic}
    single = {"accuracy": 0.8, "auroc": 0.85 + run / 1000}
    revision = experiment("table-imagenet").REVISION
    cell = Cell("table-imagenet", revision, {**setting, **changed})
    return cell, Result({"accuracy": 0.84, "single": single, "auroc": auroc})


def test_what_speaks_against_the_paper_comes_first(tmp_path: Path):
    store = Store(tmp_path)
    for run in range(3):
        noise = run / 1000
        aurocs = {"log": 0.8 + noise, "brier": 0.7, "zero-one": 0.88 - noise, "spherical": 0.6}
        store.write(*detected(run, aurocs))
    paragraphs = experiment("table-imagenet").section(store.results("table-imagenet")).paragraphs
    best, beyond, orders, accuracy, alone = paragraphs
    where = "ImageNet against CIFAR-100, dropout"
    rival = "against the best rival, zero-one."
    assert best.startswith("Against the paper, log is not the best measure of epistemic ")
    assert f"{where}: -0.078 [" in best
    assert best.endswith(rival)
    assert "total or aleatoric uncertainty is better. ImageNet against" in beyond
    assert orders == (
        "The rules, best first, are in another order than in the paper against CIFAR-100, "
        "dropout: zero-one, log, brier; the paper's: log, brier, zero-one."
    )
    assert accuracy.endswith("dropout 0.840 ± 0.000.")
    assert "accuracy of 0.800 ± 0.000, and one minus its largest probability an AUROC of: " in alone
    assert "CIFAR-100 0.851 ± 0.001. Epistemic uncertainty under log detects worse" in alone


def test_what_agrees_with_the_paper_needs_no_words(tmp_path: Path):
    store = Store(tmp_path)
    for run in range(3):
        aurocs = {"log": 0.95 + run / 1000, "brier": 0.7, "zero-one": 0.6, "spherical": 0.6}
        store.write(*detected(run, aurocs))
    accuracy, alone = (
        experiment("table-imagenet").section(store.results("table-imagenet")).paragraphs
    )
    assert accuracy.startswith("Accuracy of the mean prediction")
    assert "detects worse" not in alone


def test_networks_are_never_mixed(tmp_path: Path):
    store = Store(tmp_path)
    aurocs = {"log": 0.95, "brier": 0.7, "zero-one": 0.6, "spherical": 0.6}
    weights = {
        "digest": "e",
        "official": False,
        "network": "EfficientNet-Lite0",
        "in_place_of": "EfficientNetV2-S",
    }
    store.write(*detected(0, aurocs))
    store.write(*detected(0, aurocs, weights=weights))
    section = experiment("table-imagenet").section(store.results("table-imagenet"))
    network = "EfficientNet-Lite0 in place of EfficientNetV2-S"
    assert [table.title for table in section.tables] == [
        "ImageNet in distribution: AUROC of epistemic uncertainty",
        f"ImageNet in distribution, {network}: AUROC of epistemic uncertainty",
    ]
    assert {claim.where for claim in section.claims} == {
        "ImageNet against CIFAR-100, dropout",
        f"ImageNet ({network}) against CIFAR-100, dropout",
    }
    assert f"The network is {network}." in section.tables[1].notes


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


def test_the_html_page_needs_nothing_else(store: Store, tmp_path: Path):
    write_page(store.folder, tmp_path)
    text = (tmp_path / "page.html").read_text()
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
    path = store.folder / "figure-1.jsonl"
    first, second, third = path.read_text().splitlines(keepends=True)
    content = json.loads(second)
    content["result"]["accuracy"] = 1.0
    path.write_text(first + json.dumps(content) + "\n" + third)
    with pytest.raises(DamagedResult, match=r"line 2 of figure-1.jsonl is damaged"):
        write_page(store.folder, tmp_path)


def test_files_of_others_are_left_alone(store: Store):
    (store.folder / "package.json").write_text("{}")
    (store.folder / "mine.jsonl").write_text("{}")
    assert sum(len(store.results(name)) for name in EXPERIMENTS) == 3


def test_no_results(tmp_path: Path):
    with pytest.raises(InvalidInput, match="no folder of results"):
        write_page(tmp_path / "none", tmp_path)


def test_the_report_command(store: Store, tmp_path: Path):
    out = tmp_path / "out"
    args = ("report", "--results", store.folder, "--out", out, "--json")
    result = reproduce(*args)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["written"][0] == str(out / "page.md")
    shutil.rmtree(store.folder)
    result = reproduce(*args)
    assert result.exit_code == 2
    assert "no folder of results" in result.output


def test_a_stored_result_is_what_was_written(store: Store):
    (first, *_) = store.results("figure-1")
    assert isinstance(first, Stored)
    assert first.numbers["aulc"] == numbers(int(first.cell.setting["run"]))["aulc"]


# -- stale results ---------------------------------------------------------------------------------


def test_stale_results_are_shown_as_such_and_do_not_count(store: Store, tmp_path: Path):
    before = write_page(store.folder, tmp_path)[0].read_text()
    stale = Cell("figure-1", 0, forest(3).setting)
    store.write(stale, Result(numbers(3)))
    after = write_page(store.folder, tmp_path)[0].read_text()
    note = (
        "**Stale:** 1 stored results of figure-1 were computed by another revision of its code and "
        "do not count.\n\n"
    )
    assert after.replace(note, "") == before
    assert note in after


def test_sections_are_written_beside_the_results(store: Store):
    written = write_sections(["figure-1", "figure-sp-components", "figure-2"], store)
    assert [path.relative_to(store.folder).as_posix() for path in written] == [
        "figure-1.md",
        "figures/figure-1.svg",
        "figure-sp-components.md",
        "figures/figure-sp-components.svg",
    ]
    text = written[0].read_text()
    assert text.startswith(f"# {EXPERIMENTS['figure-1']}\n")
    assert "](figures/figure-1.svg)" in text
