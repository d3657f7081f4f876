"""The page itself: one file that needs no other, no network, and trusts no name."""

from __future__ import annotations

import platform
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from scorewise._files import replacing
from scorewise._version import __version__
from scorewise.compare import ClassSummary, Evaluation
from scorewise.errors import InvalidInput
from scorewise.io import check_output_path
from scorewise.report import _cards as cards
from scorewise.report import _words as words
from scorewise.report._abstaining import rejection_figure, slider_of
from scorewise.report._figures import (
    MARKS,
    METRICS,
    calibration_figure,
    comparison_figure,
    learning_figure,
    ood_figure,
    simplex_figure,
)
from scorewise.report._looks import Figure, dark_colors

_TITLE = "How far these predictions can be trusted"
_MOST_CLASSES = 50
_MOST_FACTS = 200


def write_report(
    evaluation: Evaluation,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Path:
    """Write what an evaluation found as one HTML page, which explains itself.

    Use it to show others whether, and how far, predictions can be trusted. The page opens from
    disk in any recent browser, needs no network and no other file, and prints well. The same
    evaluation gives the same page, byte for byte. Whatever a user can name (classes, rows,
    measures, files) is shown as text and never run.

    Parameters
    ----------
    evaluation : Evaluation
        Made by :func:`scorewise.evaluate`.
    path : path
        The file to write; replaced in one step where there is one.
    title : str, optional
        The page's heading.
    provenance : mapping of str to anything, optional
        Where the predictions come from: file names, digests, versions, the command. Shown at the
        end of the page.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidInput
        If this is no evaluation, or the folder is missing.
    ImportError
        Without Jinja2 and Plotly: ``pip install 'scorewise[report]'``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.3] * 3, size=(200, 5))
    >>> found = sw.evaluate(probs, probs.mean(1).argmax(1), n_resamples=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(found, f"{folder}/report.html", title="Made-up members")
    ...     page.name, page.stat().st_size < 6e6
    ('report.html', True)
    """
    if not isinstance(evaluation, Evaluation):
        raise InvalidInput("only an Evaluation can be reported; make one with sw.evaluate")
    target = Path(path)
    check_report(target)
    page = _render(evaluation, title or _TITLE, provenance or {})
    with replacing(target) as written:
        written.write_text(page, encoding="utf-8", newline="\n")
    return target


def check_report(path: Path) -> None:
    """Refuse what no page can be written to, before any work is done."""
    check_output_path(path)
    for name in ("jinja2", "plotly"):
        if find_spec(name) is None:
            raise ImportError(f"the report needs {name}: pip install 'scorewise[report]'")


def _render(found: Evaluation, title: str, provenance: Mapping[str, object]) -> str:
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
    environment.filters |= {
        "loss": partial(words.loss, is_share=found.is_share),
        "promise": partial(words.promise, is_share=found.is_share),
        "exact": partial(words.promise, is_share=True),
        "loss_cell": partial(words.loss_cell, is_share=found.is_share),
        "share": words.share,
        "share_cell": words.share_cell,
        "number": words.number,
        "count": words.count,
        "shown": words.shown,
        "decimals": words.decimals,
        # the whole name to those who ask, in a direction of its own
        "name": lambda text: Markup('<bdi title="{}">{}</bdi>').format(
            words.clean(text), words.clean(text, words.WIDTH)
        ),
    }
    scripts = [get_plotlyjs().replace("\r\n", "\n"), _resource("page.js")]
    slider = slider_of(found)
    figures = _figures(found, rejection_figure(found, slider))
    names = [*found.curves, found.loss_name]
    if found.ood:
        names += [found.ood.measure, *(row.name for row in found.ood.comparison.standings)]
    if found.learning:
        names += found.learning.curves
    data = {
        "figures": {name: figure.spec for name, figure in figures.items()},
        "dark": dark_colors(),
        "sentences": slider.sentences,
        "points": _points(found, slider.steps),
    }
    return environment.get_template("page.html.j2").render(
        found=found,
        title=words.clean(title),
        verdict=[words.tamed(sentence, names) for sentence in found.verdict],
        honesty=words.tamed(found.verdict[-1 - len(found.notes)], names),
        figures=figures,
        slider=slider,
        cards=cards.cards_of(found),
        strip=(cards.WIDTH, cards.HEIGHT),
        classes=_classes(found.classes),
        most_classes=_MOST_CLASSES,
        marks=MARKS,
        metrics=METRICS,
        facts=_facts(found, provenance),
        policy=_policy(scripts),
        style=Markup(_resource("page.css")),
        scripts=[Markup(script) for script in scripts],
        data=Markup(words.json_in_html(data)),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """A Content-Security-Policy under which nothing runs but these very scripts."""
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _figures(found: Evaluation, rejection: Figure) -> dict[str, Figure]:
    several = [rejection, comparison_figure(found.comparison), calibration_figure(found)]
    if found.ood is not None:
        several.append(ood_figure(found.ood))
    if found.learning is not None:
        several.append(learning_figure(found, found.learning))
    if found.simplex is not None:
        several.append(simplex_figure(found, found.simplex))
    return {one.name: one for one in several}


def _points(found: Evaluation, steps: Mapping[str, Any]) -> list[dict[str, list[float]]]:
    """Where the marks lie on the curves, for every position of the slider."""
    scale = 100 if found.is_share else 1
    return [
        {"x": [100 * step.coverage for step in at], "y": [scale * step.loss for step in at]}
        for at in zip(*steps.values(), strict=True)
    ]


def _classes(classes: tuple[ClassSummary, ...]) -> list[ClassSummary]:
    """All of few classes; of many those that lose most, and those that lose least."""
    if len(classes) <= _MOST_CLASSES:
        return list(classes)
    ranked = sorted((one for one in classes if one.n_rows), key=lambda one: -one.loss)
    if len(ranked) <= _MOST_CLASSES:
        return ranked
    half = _MOST_CLASSES // 2
    return [*ranked[:half], *ranked[-half:]]


def _facts(found: Evaluation, provenance: Mapping[str, object]) -> dict[str, list[tuple[str, str]]]:
    """How it was computed, by heading."""
    libraries = ("numpy", "scipy", "scikit-learn", "plotly")
    versions = {"scorewise": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in libraries}
    told = {"Settings": found.settings, "Where it comes from": provenance, "Versions": versions}
    return {
        heading: [(words.clean(key, 80), words.clean(value, 400)) for key, value in several]
        for heading, values in told.items()
        if (several := words.flat(values)[:_MOST_FACTS])
    }
