"""The report page without a browser: what it says, what it escapes, how large it is."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from report_support import HOSTILE, evaluated, full, hostile, huge, members
from scorewise.compare import ClassSummary
from scorewise.plots import (
    CalibrationDisplay,
    ComparisonDisplay,
    LearningCurveDisplay,
    OODDisplay,
    RejectionCurveDisplay,
)
from scorewise.report import read_inputs, write_report

VOID = {"meta", "link", "input", "path", "br", "img"}


class Page(HTMLParser):
    """The page as a browser would take it apart."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.source = path.read_text(encoding="utf-8")
        self._inside: list[str] = []
        self.feed(self.source)
        assert not self._inside

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self._inside.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._inside.pop() == tag

    def handle_data(self, data):
        if self._inside and self._inside[-1] == "script":
            self.scripts[-1] += data
        elif not self._inside or self._inside[-1] != "style":
            self.text += data

    @property
    def words(self):
        return " ".join(self.text.split())

    @property
    def data(self):
        return json.loads(self.scripts[0], parse_constant=pytest.fail)

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def evaluation():
    return full()


@pytest.fixture(scope="module")
def page(evaluation, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    provenance = {"file": "test.parquet", "digests": {"sha256": "abc"}, "versions": ["a", "b"]}
    assert write_report(evaluation, path, title="The title", provenance=provenance) == path
    return Page(path)


def shown(evaluation, tmp_path, **options):
    return Page(write_report(evaluation, tmp_path / "page.html", **options))


def test_the_page_has_the_whole_evaluation(page, evaluation):
    for sentence in evaluation.verdict:
        assert " ".join(sentence.split()) in page.words
    for name in [
        *evaluation.class_names,
        *evaluation.curves,
        "test.parquet",
        "digests · sha256",
        "a, b",
    ]:
        assert name in page.words
    for certificate in evaluation.certificates:
        assert evaluation.unit.format_exact(certificate.max_loss) in page.words
    assert f"scorewise{sw.__version__}" in page.text
    assert "Hüllermeier" in page.words
    assert page.text.count("The title") == 2  # in the tab and as the heading


@pytest.mark.parametrize(
    "term", ["out-of-distribution", "overconfident", "incur", "risk", "coverage"]
)
def test_the_terms_of_the_field_can_be_searched_for(page, term):
    assert term in page.words.lower()
    for riddle in ("foreign", "familiar", "promise", "honest", "paid", "pays"):
        assert riddle not in page.words.lower()


def test_figures_have_words_and_numbers(page):
    plots = [attributes for attributes in page.named("div") if "data-figure" in attributes]
    assert (
        {plot["data-figure"] for plot in plots}
        == set(page.data["figures"])
        == {"rejection", "comparison-selective", "calibration", "ood", "learning", "simplex"}
    )
    assert all(len(plot["aria-label"] or "") > 60 for plot in plots)
    captions = {caption.get("id") for caption in page.named("figcaption")}
    assert {figure["aria-labelledby"] for figure in page.named("figure")} == captions
    assert page.words.count("The numbers of this figure") == len(plots) - 1  # one has its own table


def test_headings_are_in_order(page):
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in page.named("a")]
    assert all(link[1:] in ids for link in links)


def test_only_its_own_scripts_may_run(page):
    (policy,) = (
        meta["content"]
        for meta in page.named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    kinds = [script.get("type") for script in page.named("script")]
    assert kinds == ["application/json", None, None]
    hashes = {
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in page.scripts[1:]
    }
    assert set(rules["script-src"].split()) == hashes
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    assert "unsafe" not in rules["script-src"]


def test_the_page_needs_no_other_file(page):
    for tag, attributes in page.tags:
        assert tag not in {"img", "iframe", "object", "embed", "video", "audio", "form", "base"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert "url(" not in page.source.split("</style>")[0]


def test_hostile_names_stay_names(tmp_path):
    provenance = {text: text for text in HOSTILE} | {"nested": {HOSTILE[0]: HOSTILE}}
    title = f"{HOSTILE[1]} half \ud800 none \x00"  # no file could hold it
    page = shown(hostile(), tmp_path, title=title, provenance=provenance)
    assert [script.get("type") for script in page.named("script")] == [
        "application/json",
        None,
        None,
    ]
    assert not any("pwned" in text for text in page.scripts[1:])
    for tag, attributes in page.tags:
        assert tag not in {"img", "b"}
        assert not any(name.startswith("on") for name in attributes)
        assert "pwned" not in (attributes.get("href") or "")
    outside = page.source.replace(page.scripts[1], "")
    for text in HOSTILE[:6]:
        assert text not in outside
    assert "<img src=x" in page.text  # as text
    assert "{{ 7 * 7 }}" in page.text
    assert "n" * 1000 not in outside
    assert "\u202e" not in page.source
    assert "\u2068עברית �abc\u2069" in page.text  # in a direction of its own
    names = [trace.get("name", "") for trace in page.data["figures"]["learning"]["data"]]
    assert "\u2068עברית �abc\u2069" in names
    assert not re.search("[<>&\u2028\u2029]", page.scripts[0])


def test_plotly_reads_no_tags_in_names(tmp_path):
    page = shown(hostile(), tmp_path)
    texts: list[str] = []

    def gather(value, key=""):
        if isinstance(value, dict):
            for name, item in value.items():
                gather(item, name)
        elif isinstance(value, list):
            for item in value:
                gather(item, key)
        elif isinstance(value, str) and key not in {"hovertemplate"}:
            texts.append(value)
        elif isinstance(value, str):
            assert "pwned" not in value

    gather(page.data["figures"])
    assert any("&lt;script" in text for text in texts)
    assert not any("<" in text for text in texts)


def test_extreme_sizes_stay_small(tmp_path):
    page = shown(huge(), tmp_path)
    assert (tmp_path / "page.html").stat().st_size < 6_000_000
    assert "25 classes with the largest and the 25 with the smallest" in page.words
    assert "25 rows with the largest total uncertainty, of 1000 in the evaluation" in page.words
    longest = max(len(trace["x"]) for trace in page.data["figures"]["rejection"]["data"])
    assert longest <= 400


def test_a_line_of_the_slider_is_what_the_curve_says(page, evaluation):
    curve = evaluation.curves[evaluation.measure]
    scores = curve.threshold
    for percent in (1, 37, 90, 100):
        k = int(np.ceil(percent * len(curve) / 100))
        accepted = int((scores <= scores[k - 1]).sum())
        sentence = page.data["sentences"][percent - 1][0]
        loss = evaluation.unit.format(float(curve.loss[accepted - 1]))
        assert loss in sentence.replace("\u00a0", " ")
        if accepted < len(curve):
            assert f"abstain on the {len(curve) - accepted:,} of" in sentence
            assert f"{scores[k - 1]:.3g}" in sentence
        at = page.data["points"][percent - 1]
        assert at["x"][0] == pytest.approx(100 * accepted / len(curve), rel=1e-5)
        assert at["y"][0] == pytest.approx(100 * curve.loss[accepted - 1], rel=1e-5)
    assert page.data["sentences"][99][0].partition(": ")[2].startswith("accept all 300 rows;")


def test_tied_rows_are_accepted_together(tmp_path):
    probs = np.tile([[[0.9, 0.1]], [[0.6, 0.4]]], (5, 1, 1))
    evaluation = sw.evaluate(probs, np.zeros(10, int), n_resamples=100)
    sentences = shown(evaluation, tmp_path).data["sentences"]
    assert "abstain on the 5 of 10 rows" in sentences[0][0]
    assert sentences[0] == sentences[49]


@pytest.mark.parametrize("task_loss", ["brier", "log", "top-k:2"])
def test_other_losses(tmp_path, task_loss):
    page = shown(evaluated(task_loss=task_loss, k=4), tmp_path)
    assert "NaN" not in page.scripts[0]
    assert "nan" not in page.words.replace("nance", "")


def test_costs_and_gains(tmp_path):
    rule = sw.rules.cost_matrix([[-5.0, 1, 2], [3, -1, 2]])
    page = shown(evaluated(k=2, task_loss=rule), tmp_path)
    assert "a cost is below 0" in page.words
    assert "✗ wrong" not in page.words
    assert "aleatoric" not in [span.get("class") for span in page.named("span")]


def test_two_classes_one_row_one_measure(tmp_path):
    probs, y = members(1, 2)
    evaluation = sw.evaluate(probs, y, rules=["log"], n_resamples=100)
    page = shown(evaluation, tmp_path)
    assert "Nothing can be guaranteed for new cases" in page.words
    assert "more labelled rows would be needed" in page.words
    assert set(page.data["figures"]) == {"rejection", "comparison-selective", "calibration"}
    (first, *_) = evaluation.comparison.standings
    alone = replace(
        evaluation,
        comparison=replace(evaluation.comparison, standings=(first,)),
        curves={first.name: evaluation.curves[first.name]},
        measure=first.name,
    )
    assert "1 measure:" in str(shown(alone, tmp_path).named("div"))


def test_without_certificates_rows_or_a_recommended_curve(tmp_path):
    evaluation = evaluated(k=4, n_uncertain=0, task_loss="log")
    assert not evaluation.certificates
    evaluation = replace(evaluation, measure="unheard of")
    page = shown(evaluation, tmp_path)
    sections = {section["id"] for section in page.named("section")}
    assert not {"certificates", "rows"} & sections
    assert len(page.data["sentences"][0]) == 2  # the best, and a random order


def test_classes_without_rows(tmp_path):
    probs, y = members(200, 4)
    y[y == 3] = 0
    page = shown(sw.evaluate(probs, y, n_resamples=100), tmp_path)
    cells = [cell["data-value"] for cell in page.named("td") if "data-value" in cell]
    assert "nan" in cells  # which the page's script sorts last
    assert " nan " not in page.words
    many = (
        tuple(replace(summary, n_rows=0, loss=np.nan) for summary in evaluated(k=60).classes[:-3])
        + evaluated(k=60).classes[-3:]
    )
    evaluation = replace(evaluated(k=60), classes=many)
    assert "classes that have rows, of 60" in shown(evaluation, tmp_path).words


def test_zeros_have_a_bin_of_their_own(tmp_path):
    evaluation = full()
    u_in = np.r_[np.zeros(60), np.linspace(0.1, 1, 40)]
    evaluation = replace(
        evaluation, ood=replace(evaluation.ood, u_in=u_in, u_out=np.linspace(0.5, 2, 50))
    )
    page = shown(evaluation, tmp_path)
    bars = page.data["figures"]["ood"]["data"]
    assert bars[0]["text"][0] == "exactly 0"
    assert (bars[0]["y"][0], bars[1]["y"][0]) == (60, 0)
    assert all(sum(bar["y"]) == pytest.approx(100) for bar in bars)
    assert bars[0]["x"] == bars[1]["x"]


def test_the_same_evaluation_gives_the_same_page(tmp_path, evaluation, page):
    again = write_report(evaluation, tmp_path / "again.html")
    once_more = write_report(evaluation, str(tmp_path / "once_more.html"))
    assert again.read_bytes() == once_more.read_bytes()


def test_a_page_is_whole_or_as_before(tmp_path, evaluation, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr(Path, "write_text", lambda *a, **k: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(evaluation, path)
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    write_report(evaluation, path)
    assert path.stat().st_size > 4_000_000


def test_unwritable_paths_are_refused(tmp_path, evaluation):
    with pytest.raises(sw.InvalidInput, match=r"no folder .*missing"):
        write_report(evaluation, tmp_path / "missing" / "report.html")
    with pytest.raises(sw.InvalidInput, match="is a folder"):
        write_report(evaluation, tmp_path)
    with pytest.raises(sw.InvalidInput, match="only an Evaluation"):
        write_report({}, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["jinja2", "plotly"])
def test_missing_libraries_are_named(tmp_path, evaluation, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install 'scorewise\[report\]'"):
        write_report(evaluation, tmp_path / "report.html")


def test_text_can_be_read_in_both_themes():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    style = (Path(sw.__file__).parent / "report" / "page.css").read_text()
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w+, #\w+)\)", style))
    colors = {name: pair.split(", ") for name, pair in pairs.items()}
    for theme in (0, 1):
        for ground in ("paper", "panel"):
            for text in ("ink", "muted", "accent", "alarm"):
                levels = [luminance(colors[name][theme]) for name in (ground, text)]
                contrast = (max(levels) + 0.05) / (min(levels) + 0.05)
                assert contrast >= 4.5, (theme, ground, text, contrast)


def same_range(figure, axis, limits):
    return figure["layout"][axis]["range"] == pytest.approx([100 * x for x in limits], rel=1e-5)


def test_the_page_draws_what_the_displays_store(page, evaluation):
    figures = page.data["figures"]
    rejection = RejectionCurveDisplay(evaluation.distinct_curves)
    lines = {line["name"].partition(" (")[0]: line for line in figures["rejection"]["data"][:-1]}
    for name, curve in [*rejection.curves.items(), *rejection.references.items()]:
        coverage, losses = rejection.points(curve, most=400)
        np.testing.assert_allclose(lines[name]["x"], 100 * coverage, rtol=1e-5)
        np.testing.assert_allclose(lines[name]["y"], 100 * losses, rtol=1e-5)
    followed = RejectionCurveDisplay({evaluation.measure: evaluation.curves[evaluation.measure]})
    assert evaluation.comparison.best == evaluation.measure
    assert same_range(figures["rejection"], "yaxis", followed.limits)
    for row in evaluation.comparison.standings:
        if row.same_order_as is not None and row.name != evaluation.measure:
            assert row.name not in lines

    comparison = ComparisonDisplay(evaluation.comparison)
    axis = figures["comparison-selective"]["layout"]["xaxis"]
    assert axis["title"]["text"] == comparison.axis_label

    calibration = CalibrationDisplay(evaluation.calibration)
    for name, limits in zip(("xaxis", "yaxis"), calibration.limits, strict=True):
        assert same_range(figures["calibration"], name, limits)
    bars = figures["calibration"]["data"][0]["error_y"]
    lengths = 100 * calibration.errors
    np.testing.assert_allclose([bars["arrayminus"], bars["array"]], lengths, rtol=1e-5)

    ood = OODDisplay(evaluation.ood.u_in, evaluation.ood.u_out)
    histogram = ood.histogram()
    for bars, shares in zip(
        figures["ood"]["data"], (histogram.shares_in, histogram.shares_out), strict=True
    ):
        np.testing.assert_allclose(bars["y"], 100 * shares, rtol=1e-5)

    learning = LearningCurveDisplay(evaluation.learning.curves)
    traces = [trace for trace in figures["learning"]["data"] if "name" in trace]
    for trace, (name, mean) in zip(traces, learning.means.items(), strict=True):
        np.testing.assert_allclose(trace["y"], 100 * mean, rtol=1e-5)
        assert trace["line"]["color"] == learning.line_styles[name]["color"]


def test_numbers_in_columns_are_aligned_and_hide_nothing(tmp_path):
    means = (0.1, 0.05, 0.05)
    classes = (
        ClassSummary("a", 10, 0.0264, *means, 1.0, 0.0),
        ClassSummary("b", 10, 0.000012, *means, 0.99999, 0.5),
        ClassSummary("c", 0, np.nan, *means, None, None),
    )

    def row(evaluation, i):
        page = shown(replace(evaluation, classes=classes), tmp_path)
        table = page.text.partition("Class by class")[2]
        return table[table.index("abc"[i] + f"{classes[i].n_rows}") :].partition("\n")[0]

    errors = evaluated(max_loss=0.5)
    assert errors.headline is not None
    assert row(errors, 0) == "a102.64\u00a0%0.1000.0500.050100.0\u00a0%0.00\u00a0%"
    assert row(errors, 1).startswith("b100.0012\u00a0%")  # too small for two decimals
    assert row(errors, 1).endswith("more than 99.9\u00a0%50.00\u00a0%")  # not all
    assert row(errors, 2) == "c0–0.1000.0500.050––"
    costs = replace(errors, unit=sw.rules.cost_matrix([[0, 1], [1, 0]]).unit, certificates=())
    classes = (replace(classes[0], loss=-0.5),)
    assert row(costs, 0) == "a10−0.50000.1000.0500.050"


def test_the_page_begins_with_three_plain_sentences(page, evaluation):
    verdict, words = evaluation.verdict, page.words
    places = [words.index(sentence) for sentence in verdict.plain]
    specialist = words.index("For the specialist", words.index("Abstaining on uncertain rows"))
    assert places == sorted(places)
    assert places[-1] < words.index("Rows") < specialist
    for term in ("AULC", "AUROC", "certificate", "calibrated"):
        assert words.index(term) > specialist, term
    terms = page.source.count("<dfn>")
    assert terms >= 10  # explained where they appear


def test_guarantees_of_one_threshold_share_a_row(tmp_path):
    probs, _ = members(300, 3)
    evaluation = sw.evaluate(probs, probs.mean(1).argmax(1), n_resamples=100)
    page = shown(evaluation, tmp_path)
    assert "2 % and so 3 %, 5 %, 10 %, 20 %" in page.words
    threshold = evaluation.headline.threshold
    assert f"{threshold:#.3g}" in page.words
    assert f"{threshold:.10g}" not in page.words


def test_costs_and_actions_are_shown_with_their_names(tmp_path):
    rule = sw.rules.cost_matrix(
        [[0, 5, 1], [50, 0, 1.25], [3, 3, 0]], ["dismiss", "treat", "refer"]
    )
    evaluation = evaluated(task_loss=rule, class_names=["healthy", "doubtful", "ill"])
    actions = evaluation.actions
    assert actions.names == ("dismiss", "treat", "refer")
    np.testing.assert_array_equal(actions.costs, rule.costs)
    assert actions.n_rows.sum() == evaluation.n_rows
    assert (actions.n_rows * actions.costs).sum() / evaluation.n_rows == pytest.approx(
        evaluation.loss
    )
    table = shown(evaluation, tmp_path).words.partition("True class")[2].partition("The most")[0]
    for text in ("dismiss", "treat", "refer", "healthy", "doubtful", "ill", "50", "1.25"):
        assert text in table
    n = int(actions.n_rows[:, 2].sum())
    assert f"{n} rows" in table.partition("Chosen for")[2]
    assert evaluated().actions is None


def decoded(uri):
    """The pixels of a PNG in a data URI, as an independent decoder has them."""
    image = pytest.importorskip("PIL.Image")
    head, _, data = uri.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 8), float), ((20, 30, 3), np.uint8), ((3, 9, 7), np.float32)]
)
def test_images_of_the_most_uncertain_rows_are_shown(tmp_path, evaluation, shape, dtype):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, *shape)).astype(dtype)
    page = shown(evaluation, tmp_path, inputs=images)
    shown_images = page.named("img")
    assert len(shown_images) == len(evaluation.uncertain_rows)
    for image, row in zip(shown_images, evaluation.uncertain_rows, strict=True):
        pixels = images[row.index]
        expected = np.moveaxis(pixels, 0, -1) if shape[0] == 3 else pixels
        np.testing.assert_allclose(decoded(image["src"]), expected, atol=2)
        assert image["alt"] == f"Input of row {row.id}"


def test_large_images_become_small_and_bright_enough(tmp_path, evaluation):
    images = np.full((300, 500, 401), 0.5)
    (first, *_) = shown(evaluation, tmp_path, inputs=images).named("img")
    pixels = decoded(first["src"])
    assert max(pixels.shape) <= 160
    assert set(pixels.ravel().tolist()) <= {127, 128}


def test_texts_of_the_most_uncertain_rows_are_shown_as_text(tmp_path, evaluation):
    texts = [f"row {i} <script>window.pwned=1</script>" for i in range(300)]
    page = shown(evaluation, tmp_path, inputs=texts)
    rows = {row.index for row in evaluation.uncertain_rows}
    for i, excerpt in enumerate(texts):
        assert (excerpt in page.text) == (i in rows)  # and no others
    assert "<script>window.pwned" not in page.source
    assert len(page.named("script")) == 3


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a"] * 299, "299 inputs for 300 rows"),
        (np.zeros((299, 2, 2)), "299 inputs for 300 rows"),
        (np.zeros((300, 2)), r"shape \(300, 2\)"),
        (np.zeros((300, 5, 5, 2)), "1, 3 or 4 channels"),
        (["a"] * 299 + [3], r"inputs\[299\] is no text"),
        ("images.npz", "read_inputs"),
        (np.full((300, 2, 2), np.nan), "not finite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, evaluation, inputs, message):
    with pytest.raises(sw.InvalidInput, match=message):
        write_report(evaluation, tmp_path / "page.html", inputs=inputs)


def test_inputs_are_read_in_the_order_of_the_ids(tmp_path):
    images = np.arange(12).reshape(3, 2, 2)
    np.savez(tmp_path / "a.npz", images=images, ids=[3, 1, 2])
    np.save(tmp_path / "b.npy", images)
    (tmp_path / "c.csv").write_text('id;text\n3;"x; y"\n1;b\n2;c\n')
    np.testing.assert_array_equal(read_inputs(tmp_path / "a.npz", [1, 2, 3]), images[[1, 2, 0]])
    np.testing.assert_array_equal(read_inputs(tmp_path / "b.npy"), images)
    np.testing.assert_array_equal(read_inputs(tmp_path / "b.npy", [2, 0, 1]), images[[2, 0, 1]])
    with pytest.raises(sw.InvalidInput, match="the predictions have ids, and the inputs have none"):
        read_inputs(tmp_path / "b.npy", [1, 2, 3])
    assert read_inputs(tmp_path / "c.csv", [1, 2, 3]) == ["b", "c", "x; y"]
    with pytest.raises(sw.InvalidInput, match="the inputs have ids, and the predictions have none"):
        read_inputs(tmp_path / "c.csv")
    (tmp_path / "g.csv").write_text("id,text\n2,c\n1,b\n0,a\n")
    assert read_inputs(tmp_path / "g.csv") == ["a", "b", "c"]
    np.savez(tmp_path / "h.npz", images=np.array([{}, {}], dtype=object))
    with pytest.raises(sw.InvalidInput, match="save images as numbers"):
        read_inputs(tmp_path / "h.npz")
    with pytest.raises(sw.InvalidInput, match="no input for row 1"):
        read_inputs(tmp_path / "c.csv", [1, 7])
    (tmp_path / "d.csv").write_text("title,body\na,b\n")
    with pytest.raises(sw.InvalidInput, match="call the one to show 'text'"):
        read_inputs(tmp_path / "d.csv")
    (tmp_path / "e.csv").write_text("id,text\n1,a, b\n")
    with pytest.raises(sw.InvalidInput, match="3 columns in row 0, not 2"):
        read_inputs(tmp_path / "e.csv")
    with pytest.raises(sw.InvalidInput, match=r"save images as \.npz"):
        read_inputs(tmp_path / "f.png")


def test_the_curves_are_shown_where_they_change(tmp_path):
    y = np.r_[np.zeros(1960, int), np.ones(40, int)]
    u = np.r_[np.linspace(0, 0.3, 1960), np.linspace(0.31, 0.4, 40)]
    evaluation = sw.evaluate(sw.binary(u)[:, None], y, n_resamples=100)
    axis = shown(evaluation, tmp_path).data["figures"]["rejection"]["layout"]["xaxis"]
    assert axis["range"][0] >= 90


def test_a_page_is_called_html(tmp_path, evaluation):
    with pytest.raises(sw.InvalidInput, match=r"an HTML page; call it 'report\.html'"):
        write_report(evaluation, tmp_path / "report.pdf")
