"""Write the report: one self-contained HTML page, in which every name is escaped."""

from __future__ import annotations

import platform
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._files import check_output_path, replacing
from scorewise._numerics import evenly_spaced
from scorewise._version import __version__
from scorewise.compare import ClassSummary, Evaluation, UncertainRow
from scorewise.errors import InvalidInput
from scorewise.plots import (
    CalibrationDisplay,
    ComparisonDisplay,
    LearningCurveDisplay,
    OODDisplay,
    RejectionCurveDisplay,
)
from scorewise.plots.style import VERDICT_MARKS
from scorewise.report import _format as text
from scorewise.report._plotly import (
    PageFigure,
    calibration_figure,
    comparison_figure,
    dark_colors,
    learning_figure,
    ood_figure,
    simplex_figure,
)
from scorewise.report._rejection import Slider, calibrating_figure, rejection_figure, slider_of
from scorewise.report._shown_inputs import Inputs, checked_inputs, image_uris

_TITLE = "How far these predictions can be trusted"
_MOST_CLASSES = 50
_MOST_CARDS = 25
_MOST_FACTS = 200
_EXCERPT = 600  # characters of a text
_MOST_MEMBERS = 40  # in a strip
_STRIP_WIDTH, _STRIP_HEIGHT = 240, 30  # in the strip's own units
_GAP = 0.25  # between two bars, as a share of one


def write_report(
    evaluation: Evaluation,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    provenance: Mapping[str, object] | None = None,
    inputs: Any = None,
) -> Path:
    """Write an evaluation as one self-contained HTML page, and return its path.

    Use it to show others whether, and how far, predictions can be trusted. The page opens from
    disk in any recent browser, needs no network and no other file, and prints well. It begins with
    three sentences for every reader; the measures, intervals and certificates are below. The same
    evaluation gives the same page, byte for byte. Names of classes, rows, measures and files are
    shown as text and never run as code.

    Parameters
    ----------
    evaluation : Evaluation
        Made by :func:`scorewise.evaluate`.
    path : path
        The file to write, which ends in ``.html``; an existing file is replaced in one step.
    title : str, optional
        The page's heading.
    provenance : mapping of str to anything, optional
        Where the predictions come from: file names, digests, versions, the command. Shown at the
        end of the page.
    inputs : array (n, H, W) or (n, H, W, C), or sequence of n str, optional
        The inputs of all rows: images or texts. The page has those of the most uncertain rows, and
        no others. :func:`scorewise.report.read_inputs` reads them from a file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidInput
        If ``evaluation`` is not an Evaluation, the path does not end in ``.html``, its folder is
        missing, or there is not one input for each row.
    ImportError
        Without Jinja2 and Plotly: ``pip install 'scorewise[report]'``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.3] * 3, size=(200, 5))
    >>> evaluation = sw.evaluate(probs, probs.mean(1).argmax(1), n_resamples=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = sw.write_report(evaluation, f"{folder}/report.html", title="Made-up members")
    ...     page.name, page.stat().st_size < 6e6
    ('report.html', True)
    """
    if not isinstance(evaluation, Evaluation):
        raise InvalidInput("only an Evaluation can be reported; make one with sw.evaluate")
    target = Path(path)
    check_report(target)
    if inputs is not None:
        inputs = checked_inputs(inputs, evaluation.n_rows)
    page = _render(evaluation, title or _TITLE, provenance or {}, inputs)
    with replacing(target) as partial_file:
        partial_file.write_text(page, encoding="utf-8", newline="\n")
    return target


def check_report(path: Path) -> None:
    """Raise, before any work is done, if no page can be written to the path.

    Parameters
    ----------
    path : Path
        The file that would be written.

    Raises
    ------
    InvalidInput
        If the path does not end in ``.html``, or its folder is missing.
    ImportError
        Without Jinja2 and Plotly: ``pip install 'scorewise[report]'``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scorewise.report import check_report
    >>> check_report(Path("report.html"))
    >>> check_report(Path("report.pdf"))
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: the report is an HTML page; call it 'report.html'
    """
    check_output_path(path)
    if path.suffix.lower() not in {".html", ".htm"}:
        raise InvalidInput(f"the report is an HTML page; call it {path.stem + '.html'!r}")
    for name in ("jinja2", "plotly"):
        if find_spec(name) is None:
            raise ImportError(f"the report needs {name}: pip install 'scorewise[report]'")


def _render(
    evaluation: Evaluation, title: str, provenance: Mapping[str, object], inputs: Inputs | None
) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_resource),
    )
    unit = evaluation.unit
    environment.filters |= {
        "loss": partial(text.loss_text, unit=unit),
        "exact": partial(text.exact_text, unit=unit),
        "loss_cell": partial(text.loss_cell, unit=unit),
        "share": text.share_text,
        "number": text.number,
        "threshold": text.threshold,
        "count": text.count,
        "name_text": text.name_text,
        "sentence": text.sentence_text,
        "decimals": text.decimals,
        # isolated from the text direction around it
        "name": lambda name: Markup("<bdi>{}</bdi>").format(text.clean(name)),
    }
    scripts = [get_plotlyjs().replace("\r\n", "\n"), _resource("page.js")]
    slider = slider_of(evaluation)
    figures = _figures(evaluation, slider)
    data = {
        "figures": {name: figure.spec for name, figure in figures.items()},
        "dark": dark_colors(),
        "sentences": slider.sentences,
        "points": slider.points,
    }
    return environment.get_template("page.html.j2").render(
        evaluation=evaluation,
        noun=text.name_text(unit.noun),
        title=text.clean(title),
        verdict=evaluation.sentences(name_text=text.name_text),
        name_of=text.name_text,
        figures=figures,
        slider=slider,
        cards=_cards(evaluation, inputs),
        strip_size=(_STRIP_WIDTH, _STRIP_HEIGHT),
        classes=_classes(evaluation.classes),
        most_classes=_MOST_CLASSES,
        marks=VERDICT_MARKS,
        facts=_facts(evaluation, provenance),
        policy=_policy(scripts),
        style=Markup(_resource("page.css")),
        scripts=[Markup(script) for script in scripts],
        data=Markup(text.json_in_html(data)),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """A Content-Security-Policy that allows these scripts and nothing else."""
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _figures(evaluation: Evaluation, slider: Slider) -> dict[str, PageFigure]:
    """The figures by name, each from its display; the triangle shows the evaluation itself."""
    unit, ood, learning = evaluation.unit, evaluation.ood, evaluation.learning
    figures = [
        rejection_figure(
            RejectionCurveDisplay(evaluation.distinct_curves, unit), evaluation, slider
        ),
        comparison_figure(ComparisonDisplay(evaluation.comparison)),
        calibration_figure(CalibrationDisplay(evaluation.calibration, unit), unit),
    ]
    effect = evaluation.comparison.calibrating
    if effect is not None and effect.method != "none":
        figures.append(calibrating_figure(effect, unit))
    if ood is not None:
        figures.append(ood_figure(OODDisplay(ood.u_in, ood.u_out, ood.metrics, ood.score_name)))
    if learning is not None:
        figures.append(learning_figure(LearningCurveDisplay(learning.curves, unit), unit))
    if evaluation.simplex is not None:
        figures.append(simplex_figure(evaluation, evaluation.simplex))
    return {figure.name: figure for figure in figures}


def _classes(classes: tuple[ClassSummary, ...]) -> list[ClassSummary]:
    """Return all classes; of many, those with the largest and the smallest loss."""
    if len(classes) <= _MOST_CLASSES:
        return list(classes)
    ranked = sorted((summary for summary in classes if summary.n_rows), key=lambda s: -s.loss)
    if len(ranked) <= _MOST_CLASSES:
        return ranked
    half = _MOST_CLASSES // 2
    return [*ranked[:half], *ranked[-half:]]


def _facts(
    evaluation: Evaluation, provenance: Mapping[str, object]
) -> dict[str, list[tuple[str, str]]]:
    """Return how the page was computed, by heading."""
    libraries = ("numpy", "scipy", "scikit-learn", "plotly")
    versions = {"scorewise": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in libraries}
    facts = {"Settings": evaluation.settings, "Provenance": provenance, "Versions": versions}
    return {
        heading: [(text.clean(key, 80), text.clean(value, 400)) for key, value in pairs]
        for heading, values in facts.items()
        if (pairs := text.flattened(values)[:_MOST_FACTS])
    }


# -- cards of the most uncertain rows --------------------------------------------------------------


@dataclass(frozen=True)
class Strip:
    """The probabilities that the members give to one class, as a small bar chart.

    Attributes
    ----------
    name : str
    bars : str
        The SVG path of a bar for every member.
    mean, level : float
        θ̄ of the class, and the height of its line, measured from the top.
    is_label, is_prediction : bool
    """

    name: str
    bars: str
    mean: float
    level: float
    is_label: bool
    is_prediction: bool


@dataclass(frozen=True)
class Card:
    """One uncertain row with its pictures.

    Attributes
    ----------
    row : UncertainRow
    aleatoric, epistemic : float or None
        Widths in per cent of the largest total; None where costs below 0 have no width.
    strips : tuple of Strip
    image, excerpt : str or None
        Its input: an image as data URI, or a text.
    """

    row: UncertainRow
    aleatoric: float | None
    epistemic: float | None
    strips: tuple[Strip, ...]
    image: str | None
    excerpt: str | None


def _cards(evaluation: Evaluation, inputs: Inputs | None) -> list[Card]:
    """Return cards of the most uncertain rows, at most ``_MOST_CARDS``."""
    rows = evaluation.uncertain_rows[:_MOST_CARDS]
    images: list[str | None] = [None] * len(rows)
    excerpts = images
    if isinstance(inputs, np.ndarray):
        images = [*image_uris(inputs, [row.index for row in rows])]
    elif inputs is not None:
        excerpts = [text.clean(inputs[row.index], _EXCERPT) for row in rows]
    largest = max((row.total for row in rows), default=0.0)
    has_widths = largest > 0 and all(row.aleatoric >= 0 for row in rows)
    return [
        Card(
            row,
            100 * row.aleatoric / largest if has_widths else None,
            100 * row.epistemic / largest if has_widths else None,
            _strips(row),
            image,
            excerpt,
        )
        for row, image, excerpt in zip(rows, images, excerpts, strict=True)
    ]


def _strips(row: UncertainRow) -> tuple[Strip, ...]:
    members = row.members[evenly_spaced(len(row.members), _MOST_MEMBERS)]
    # a member has the same position in every strip, in falling order of the likeliest class
    members = members[np.argsort(-members[:, 0], kind="stable")]
    is_class = row.is_wrong is not None  # an action may have the name of a class
    return tuple(
        Strip(
            name,
            _bars(members[:, k]),
            float(row.mean[k]),
            round(_STRIP_HEIGHT * (1 - float(row.mean[k])), 2),
            name == row.label,
            is_class and name == row.prediction,
        )
        for k, name in enumerate(row.classes)
    )


def _bars(heights: np.ndarray) -> str:
    pitch = _STRIP_WIDTH / len(heights)
    width = pitch * (1 - _GAP)
    return "".join(
        f"M{i * pitch:.4g} {_STRIP_HEIGHT}v{-_STRIP_HEIGHT * h:.3g}h{width:.4g}V{_STRIP_HEIGHT}z"
        for i, h in enumerate(heights.tolist())
        if h > 0
    )
