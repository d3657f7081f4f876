"""Results in notebooks: HTML, data frames, displays and progress bars."""

from __future__ import annotations

import itertools
import sys
import time
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw

RNG = np.random.default_rng(0)
PROBS, OTHERS = RNG.dirichlet([0.4, 0.4], size=(2, 300, 4))
Y = PROBS.mean(axis=1).argmax(axis=1)
HOSTILE = "<img src=x onerror=alert(1)> & co"
COSTS = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1]], actions=["dismiss", HOSTILE, "refer"])


@pytest.fixture(scope="module")
def results():
    """A result of every kind, by the name of its class."""
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    evaluation = sw.evaluate(PROBS, Y, ood=OTHERS, n_resamples=100, random_state=0)
    rounds = sw.active_learning(
        RandomForestClassifier(2, random_state=0),
        PROBS[:40, 0],
        Y[:40],
        initial=10,
        per_round=10,
        budget=20,
        random_state=0,
    )
    values = [
        sw.decompose(PROBS, "log"),
        sw.decompose(PROBS, ["log", "zero-one"]),
        sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3]),
        sw.decide(PROBS, COSTS),
        sw.ood_metrics([0.1, 0.2], [0.3, 0.4]),
        sw.advise("selective", "log"),
        sw.explain_model(RandomForestClassifier(2).fit(PROBS[:, 0], Y)),
        sw.io.Predictions(PROBS, labels=Y),
        sw.Samples(PROBS),
        sw.Dirichlet(1 + PROBS[:, 0]),
        policy,
        policy.certificate,
        policy.apply(OTHERS),
        next(rounds),
        evaluation,
        evaluation.verdict,
        evaluation.comparison,
        evaluation.calibration,
        evaluation.ood,
    ]
    return {type(value).__name__: value for value in values}


# -- HTML ------------------------------------------------------------------------------------------

IN_HTML = [
    "Advice",
    "Certificate",
    "Comparison",
    "Curve",
    "Decisions",
    "Decomposition",
    "Decompositions",
    "Dirichlet",
    "Evaluation",
    "LossCalibration",
    "ModelExplanation",
    "OODMetrics",
    "Policy",
    "PolicyResult",
    "Predictions",
    "Round",
    "Samples",
    "Verdict",
]


@pytest.mark.parametrize("name", IN_HTML)
def test_html_is_well_formed_escaped_and_needs_nothing_else(results, name):
    html = results[name]._repr_html_()
    tags = {element.tag for element in ElementTree.fromstring(html).iter()}
    assert tags <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert "url(" not in html


@pytest.mark.parametrize("name", [name for name in IN_HTML if name != "Decompositions"])
def test_html_has_the_words_and_numbers_of_the_text(results, name):
    words = " ".join(ElementTree.fromstring(results[name]._repr_html_()).itertext())
    text = str(results[name])
    for mark in "(),[]=:":
        words, text = words.replace(mark, " "), text.replace(mark, " ")
    assert set(text.split()) - {name} <= set(words.split())


def test_text_that_is_html_stays_text(results):
    table = ElementTree.fromstring(results["Decisions"]._repr_html_())
    cells = [cell.text for cell in table.iter("td")]
    assert HOSTILE in cells


# -- data frames -----------------------------------------------------------------------------------

COLUMNS = {
    "Comparison": ["name", "value"],
    "Curve": ["coverage", "threshold", "loss"],
    "Decisions": ["action", "total", "aleatoric", "epistemic"],
    "Decomposition": ["total", "aleatoric", "epistemic"],
    "Decompositions": ["total_log", "aleatoric_log", "epistemic_log", "total_zero-one"],
    "Evaluation": ["task", "metric", "name", "value"],
    "PolicyResult": ["accepted", "uncertainty", "prediction"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_frames_have_named_columns(results, name):
    frame = results[name].to_frame()
    assert type(frame).__module__.startswith("pandas")
    assert list(frame)[: len(COLUMNS[name])] == COLUMNS[name]


def test_frames_have_names_of_actions_and_the_numbers_of_the_result(results):
    decisions = results["Decisions"]
    frame = decisions.to_frame()
    assert [decisions.action_names[a] for a in decisions.action] == frame["action"].tolist()
    assert frame["total"].tolist() == decisions.total.tolist()
    many = results["Decompositions"]
    assert many.to_frame()["epistemic_log"].tolist() == many["log"].epistemic.tolist()
    assert set(results["Evaluation"].to_frame()["task"]) == {"selective", "ood"}


def test_a_frame_of_a_torch_decomposition_is_on_the_host():
    torch = pytest.importorskip("torch")
    probs = torch.tensor(PROBS, requires_grad=True)
    assert sw.decompose(probs, "brier").to_frame().shape == (300, 3)


def test_an_accumulator_and_decompose_give_the_same_frame(results):
    accumulator = sw.Accumulator(["log", "zero-one"])
    for m in range(4):
        accumulator.update(PROBS[:, m])
    frame = accumulator.result().to_frame()
    assert np.allclose(frame, results["Decompositions"].to_frame())


def test_instances_with_several_axes_have_no_frame():
    decomposition = sw.decompose(PROBS.reshape(30, 10, 4, 2), "log")
    with pytest.raises(sw.InvalidInput, match=r"total has shape \(30, 10\).*reshape"):
        decomposition.to_frame()


def test_polars_is_used_where_pandas_is_missing_or_it_is_named(results, monkeypatch):
    polars = ModuleType("polars")
    polars.DataFrame = lambda content: ("polars", content)
    monkeypatch.setitem(sys.modules, "polars", polars)
    curve = results["Curve"]
    assert curve.to_frame(library="polars")[0] == "polars"
    assert list(curve.to_frame()) == COLUMNS["Curve"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    library, content = curve.to_frame()
    assert library == "polars"
    assert list(content) == COLUMNS["Curve"]


def test_without_a_library_of_frames_the_error_names_both(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pandas or polars: pip install pandas"):
        results["Curve"].to_frame()
    with pytest.raises(ImportError, match="to_frame needs polars: pip install polars"):
        results["Curve"].to_frame("polars")
    with pytest.raises(sw.InvalidInput, match="library must be one of 'pandas', 'polars'"):
        results["Curve"].to_frame("arrow")


# -- displays --------------------------------------------------------------------------------------

DISPLAYS = {
    "Comparison": sw.plots.ComparisonDisplay,
    "Curve": sw.plots.RejectionCurveDisplay,
    "Decisions": sw.plots.DecisionDisplay,
    "Decomposition": sw.plots.DecompositionDisplay,
    "Evaluation": sw.plots.RejectionCurveDisplay,
    "LossCalibration": sw.plots.CalibrationDisplay,
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_plot_draws_on_the_axes_and_returns_the_display(results, name):
    ax = Figure().subplots()
    display = results[name].plot(ax)
    assert type(display) is DISPLAYS[name]
    assert display.ax_ is ax


def test_plot_takes_the_options_of_the_display(results):
    ax = Figure().subplots()
    assert results["Evaluation"].plot(ax, show_oracle=False).oracle_ is None
    assert "accuracy" in results["Curve"].plot(ax, view="accuracy").ax_.get_ylabel()
    ood = results["OODEvaluation"].plot(Figure().subplots(1, 2), bins=7)
    assert type(ood) is sw.plots.OODDisplay


# -- progress bars ---------------------------------------------------------------------------------


@pytest.fixture
def notebook(monkeypatch):
    """A kernel, and a clock that moves by a second whenever it is read."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    seconds = itertools.count(0.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    return ipython


def shown(capsys, **options):
    sw.acquire_batch(PROBS[:20], 4, "log", 0, **options)
    return capsys.readouterr().err


def test_notebooks_show_a_bar_of_text_and_clear_it(notebook, capsys):
    first, *middle, blank, end = shown(capsys).split("\r")
    assert first == end == blank.strip() == ""
    assert middle
    assert all(line.startswith("choosing █") and line.endswith("%") for line in middle)


def test_a_bar_that_was_requested_stays_in_the_notebook(notebook, capsys):
    assert shown(capsys, progress=True).endswith("█ 100%\n")
    assert shown(capsys, progress=False) == ""


def test_ipython_on_a_terminal_is_no_notebook(notebook, capsys):
    notebook.get_ipython = lambda: SimpleNamespace()
    assert shown(capsys) == ""
    notebook.get_ipython = lambda: None
    assert shown(capsys) == ""
