"""The page of results beside the published numbers: Markdown, HTML and LaTeX, with figures."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from scorewise._files import replacing
from scorewise.paper.cells import Store, Stored
from scorewise.paper.published import published
from scorewise.paper.statistics import NO, UNDECIDED, YES
from scorewise.paper.tables import Claim, Section, Table, as_html, latex, markdown
from scorewise.paper.work import EXPERIMENTS, experiment, extras_told

_TITLE = "The paper, reproduced"
_FOLDER = "reproduction"
_COMMANDS = """\
scorewise datasets list                               # which data are here, how to get the others
scorewise reproduce figure-1 --data-dir data          # one experiment; --results FOLDER, --help
scorewise reproduce all --data-dir data --device cuda # whatever the data at hand allow
scorewise reproduce report --results reproduction --out docs
"""
_HOW = (
    "Every result is written as soon as it is there, with its setting, versions and time; its run "
    "is its seed. A run that is cut off goes on where it stopped when the same command is given "
    "again. Forests give the same numbers everywhere; networks trained on a GPU do not, as its "
    "sums have no fixed order. The report is this page, the same as one HTML file, and the tables "
    "in LaTeX; the results that the page in scorewise's repository was made of are there in "
    "`docs/reproduction`, with how they were made."
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem }
caption { text-align: left; font-weight: 600 } th, td { padding: 0.2rem 0.7rem; text-align: left }
th { border-bottom: 1px solid } .note, figcaption { color: #555; font-size: 0.9rem }
svg { max-width: 100%; height: auto } figure { margin: 1rem 0 }
"""


@dataclass(frozen=True)
class _Drawn:
    """A figure as it is put on the page."""

    name: str
    caption: str
    svg: str


def write_page(results: str | PathLike[str], out: str | PathLike[str]) -> list[Path]:
    """Write what came out beside what the paper says.

    Use it after ``scorewise reproduce``, or to look at results of others.

    Parameters
    ----------
    results : path
        A folder of results.
    out : path
        The folder to write to: ``reproduction.md``, and beside it in ``reproduction/`` the figures,
        the page as one HTML file and the tables in LaTeX.

    Returns
    -------
    list of Path
        What was written, the page first.

    Raises
    ------
    InvalidInput
        If there is no such folder of results.
    DamagedCell
        If a result is not as it was written.

    Examples
    --------
    >>> from scorewise import paper
    >>> paper.write_page("no-such-folder", "docs")
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: there is no folder of results 'no-such-folder'
    """
    stored = list(Store(Path(results)).results())
    sections = [experiment(name).section(stored) for name in EXPERIMENTS]
    with extras_told():
        figures = {
            section.title: [_Drawn(x.name, x.caption, _svg(x.draw())) for x in section.figures]
            for section in sections
        }
    beside = Path(out) / _FOLDER
    claims = _claims([claim for section in sections for claim in section.claims])
    sections = [claims, *sections]
    texts = {
        Path(out) / f"{_FOLDER}.md": _markdown(stored, sections, figures),
        beside / f"{_FOLDER}.html": _html(stored, sections, figures),
        beside / "tables.tex": "\n\n".join(
            latex(table) for section in sections for table in section.tables
        )
        + "\n",
        **{
            beside / "figures" / f"{one.name}.svg": one.svg
            for drawn in figures.values()
            for one in drawn
        },
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return list(texts)


def _svg(figure: Any) -> str:
    """A drawing that is the same text whenever it is drawn from the same numbers."""
    import matplotlib as mpl
    from matplotlib import pyplot

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "scorewise", "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()


def _claims(claims: Sequence[Claim]) -> Section:
    """A plain sentence on each claim, then what it rests on."""
    by_claim: dict[str, list[Claim]] = {}
    for one in claims:
        if one not in by_claim.setdefault(one.claim, []):
            by_claim[one.claim].append(one)
    return Section(
        "Does it hold here?",
        [_sentence(claim, found) for claim, found in by_claim.items()],
        [
            Table(
                claim,
                ["where", "holds", f"by how much better: {found[0].unit}"],
                [[one.where, one.holds, one.evidence] for one in found],
            )
            for claim, found in by_claim.items()
        ],
    )


def _sentence(claim: str, found: Sequence[Claim]) -> str:
    whole = [one for one in found if one.counts]
    said = [one.holds for one in whole]
    yes, no, once = (
        said.count(YES),
        said.count(NO),
        [x for x in said if x.startswith(f"{UNDECIDED}:")],
    )
    short = (
        "tried in shortened runs only"
        if not whole
        else "it holds"
        if yes == len(said)
        else "it does not hold"
        if no == len(said)
        else "sometimes it holds and sometimes not"
        if yes and no
        else "where it can be decided it holds"
        if yes
        else "where it can be decided it does not hold"
        if no
        else "it cannot be decided"
    )
    singles = (
        f" ({len(once)} of them for want of a second run: the only one says yes in "
        f"{sum(x.endswith(YES) for x in once)} and no in {sum(x.endswith(NO) for x in once)})"
    )
    return (
        f"{claim}: {short}. Comparisons: {len(said)}; yes: {yes}, no: {no}, undecided: "
        f"{len(said) - yes - no}{singles if once else ''}."
    )


def _beginning(stored: Sequence[Stored]) -> list[str]:
    devices = sorted({str(one.made["device"]).partition(":")[0] for one in stored})
    seconds = sum(float(one.made["seconds"]) for one in stored)
    return [
        f"{published('paper')}. This page is written by `scorewise reproduce report` from "
        f"{len(stored)} stored results ({', '.join(devices)}; minutes: {seconds / 60:,.0f}).",
        "For its figures the paper gives curves and no numbers, so that only ours can be shown. "
        "What was run on other data than the paper's, or shorter, says so. Differences are between "
        "paired runs, with Student's 95 % interval of their mean in brackets where there are "
        "several; a comparison is undecided where that interval holds 0. All runs share one data "
        "set, so that the intervals tell what running it again would bring, not what new data "
        "would; and the rival named is the best of several, looked for after the fact. The totals "
        "of Brier and spherical order all rows alike and are not compared with one another. What "
        "came of shortened runs, of another floor of the log loss, or of other choices than ours "
        "where the paper is silent, is shown and not counted.",
    ]


def _markdown(
    stored: Sequence[Stored], sections: Sequence[Section], figures: dict[str, list[_Drawn]]
) -> str:
    parts = [f"# {_TITLE}", *_beginning(stored), f"```sh\n{_COMMANDS}```", _HOW]
    for section in sections:
        parts += [f"## {section.title}", *section.paragraphs, *map(markdown, section.tables)]
        parts += [
            f"![{section.title}]({_FOLDER}/figures/{one.name}.svg)\n\n*{one.caption}*"
            for one in figures.get(section.title, [])
        ]
    return "\n\n".join(parts) + "\n"


def _html(
    stored: Sequence[Stored], sections: Sequence[Section], figures: dict[str, list[_Drawn]]
) -> str:
    parts = [f"<h1>{_TITLE}</h1>", *map(_paragraph, _beginning(stored))]
    parts += [f"<pre>{html.escape(_COMMANDS)}</pre>", _paragraph(_HOW)]
    for section in sections:
        parts += [f"<h2>{html.escape(section.title)}</h2>", *map(_paragraph, section.paragraphs)]
        parts += map(as_html, section.tables)
        parts += [
            f"<figure>{one.svg[one.svg.index('<svg') :]}"
            f"<figcaption>{html.escape(one.caption)}</figcaption></figure>"
            for one in figures.get(section.title, [])
        ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{_TITLE}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _paragraph(text: str) -> str:
    """What stands between backticks is code."""
    parts = (
        f"<code>{part}</code>" if i % 2 else part
        for i, part in enumerate(html.escape(text).split("`"))
    )
    return f"<p>{''.join(parts)}</p>"
