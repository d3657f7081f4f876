"""The page of results beside the published numbers: Markdown, HTML and LaTeX, with figures."""

from __future__ import annotations

import html
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from scorewise_paper._files import replacing
from scorewise_paper.published import published
from scorewise_paper.results import Store, Stored
from scorewise_paper.runs import EXPERIMENTS, experiment, is_stale
from scorewise_paper.sections import NO, UNDECIDED, YES, Claim, Section, Table

PAGE = "page"
_TITLE = "The paper, reproduced"
_FIGURES = "figures"
_COMMANDS = """\
scorewise-paper datasets list                        # the data sets, and how to get them
scorewise-paper figure-1 --data-dir data             # runs and draws one experiment; see --help
scorewise-paper all --data-dir data --device cuda    # everything that the available data allow
scorewise-paper report                               # this page, from the stored results
"""
_HOW = (
    "Every result is stored as soon as it is computed, with its setting, versions and time. The "
    "number of a run is its seed. If a run is interrupted, the same command continues where it "
    "stopped. Forests give the same numbers everywhere; networks trained on a GPU do not, because "
    "its sums have no fixed order. The report is written as Markdown and as one HTML file, with "
    "the tables in LaTeX. In scorewise's repository, `reproduction/results` has the results behind "
    "this page, and `reproduction/README.md` describes how they were computed."
)
_EXPLAINED = (
    "The paper's figures show curves without numbers, so the tables of figures have only our "
    "numbers. Results on other data or of another network than the paper's, and of shortened "
    "runs, are marked. Differences are between paired runs. If there are several runs, Student's "
    "95 % interval of the mean difference is in brackets, and a comparison is undecided if the "
    "interval contains 0. "
    "All runs share one data set, so the intervals describe repeated runs, not new data. The named "
    "rival is the best of several, selected after seeing the results. The totals of Brier and "
    "spherical order all rows alike and are not compared with each other. Three kinds of results "
    "are shown but not counted: those of shortened runs, those with another floor of the log loss, "
    "and those of alternative choices where the paper is silent."
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem }
caption { text-align: left; font-weight: 600 } th, td { padding: 0.2rem 0.7rem; text-align: left }
th { border-bottom: 1px solid } .note, figcaption { color: #555; font-size: 0.9rem }
svg { max-width: 100%; height: auto } figure { margin: 1rem 0 }
"""


@dataclass(frozen=True)
class _Drawing:
    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class _Part:
    """A section of the page with its title and its figures drawn."""

    title: str
    section: Section
    drawings: Sequence[_Drawing] = ()


def write_page(results: str | PathLike[str], out: str | PathLike[str]) -> list[Path]:
    """Write one page of all stored results beside the paper's numbers.

    Use it after ``scorewise-paper all``, or to look at the results of others.

    Parameters
    ----------
    results : path
        A folder of results.
    out : path
        The folder to write to: ``page.md``, ``page.html``, ``tables.tex``, and ``figures/``.

    Returns
    -------
    list of Path
        The files that were written, the Markdown page first.

    Raises
    ------
    InvalidInput
        If there is no such folder of results.
    DamagedResult
        If a result is damaged.

    Examples
    --------
    >>> from scorewise_paper import write_page
    >>> write_page("no-such-folder", "docs")
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: there is no folder of results 'no-such-folder'
    """
    stored, stale = _read(Store(results), EXPERIMENTS)
    parts = _parts(EXPERIMENTS, stored)
    claims = _claims([claim for part in parts for claim in part.section.claims])
    parts = [_Part("Does it hold here?", claims), *parts]
    beginning = [_origin(stored), *stale, _EXPLAINED]
    tables = [latex(table) for part in parts for table in part.section.tables]
    texts = {
        f"{PAGE}.md": _page_markdown(beginning, parts),
        f"{PAGE}.html": _page_html(beginning, parts),
        "tables.tex": "\n\n".join(tables) + "\n",
    }
    return _write(Path(out), texts, parts)


def write_sections(names: Iterable[str], store: Store) -> list[Path]:
    """Write the figures and tables of experiments beside their results.

    Parameters
    ----------
    names : iterable of str
        Names of ``EXPERIMENTS``.
    store : Store
        The results.

    Returns
    -------
    list of Path
        For each experiment that has results, a Markdown file with its tables, and its figures.
    """
    written = []
    for name in names:
        stored, stale = _read(store, [name], strict=False)
        if stored:
            parts = _parts([name], stored)
            text = "\n\n".join([f"# {EXPERIMENTS[name]}", *stale, *_section_markdown(parts[0])])
            written += _write(store.folder, {f"{name}.md": f"{text}\n"}, parts)
    return written


def _read(
    store: Store, names: Iterable[str], strict: bool = True
) -> tuple[list[Stored], list[str]]:
    """Return the results that count, and sentences about those of another revision."""
    every = [
        stored
        for name in dict.fromkeys(experiment(name).EXPERIMENT for name in names)
        for stored in (store.results(name) if strict else store.read(name)[0])
    ]
    stale = Counter(stored.cell.experiment for stored in every if is_stale(stored.cell))
    return [stored for stored in every if not is_stale(stored.cell)], [
        f"**Stale:** {n} stored results of {name} were computed by another revision of its code "
        "and do not count."
        for name, n in stale.items()
    ]


def _parts(names: Iterable[str], stored: Sequence[Stored]) -> list[_Part]:
    sections = {name: experiment(name).section(stored) for name in names}
    return [
        _Part(
            EXPERIMENTS[name],
            section,
            [_Drawing(x.name, x.caption, _svg(x.draw())) for x in section.figures],
        )
        for name, section in sections.items()
    ]


def _write(folder: Path, texts: dict[str, str], parts: Sequence[_Part]) -> list[Path]:
    drawings = {f"{_FIGURES}/{x.name}.svg": x.svg for part in parts for x in part.drawings}
    for name, text in {**texts, **drawings}.items():
        with replacing(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    return [folder / name for name in (*texts, *drawings)]


def _svg(figure: Any) -> str:
    """Return a figure as SVG; the same numbers give the same text."""
    import matplotlib as mpl  # slow to import

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "scorewise", "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


# -- the claims ------------------------------------------------------------------------------------


def _claims(claims: Sequence[Claim]) -> Section:
    """Return a sentence on each claim, and tables of the evidence."""
    by_claim: dict[str, list[Claim]] = {}
    for claim in dict.fromkeys(claims):
        by_claim.setdefault(claim.claim, []).append(claim)
    return Section(
        [_verdict_sentence(text, tested) for text, tested in by_claim.items()],
        [
            Table(
                text,
                ["where", "holds", f"advantage ({tested[0].unit})"],
                [[claim.where, claim.verdict, claim.evidence] for claim in tested],
            )
            for text, tested in by_claim.items()
            if tested[0].is_tabulated
        ],
    )


def _verdict_sentence(text: str, tested: Sequence[Claim]) -> str:
    verdicts = [claim.verdict for claim in tested if claim.counts]
    yes, no = verdicts.count(YES), verdicts.count(NO)
    single = [x for x in verdicts if x.startswith(f"{UNDECIDED}:")]
    if not verdicts:
        summary = "was tested only in shortened runs"
    elif yes == len(verdicts):
        summary = "holds"
    elif no == len(verdicts):
        summary = "does not hold"
    elif yes and no:
        summary = "holds in some comparisons and not in others"
    elif yes or no:
        summary = f"{'holds' if yes else 'does not hold'} in every comparison that is decided"
    else:
        summary = "is undecided"
    singles = (
        f" ({len(single)} of them because there is only one run, which gives yes in "
        f"{sum(x.endswith(YES) for x in single)} and no in {sum(x.endswith(NO) for x in single)})"
    )
    return (
        f"“{text}” {summary}. Comparisons: {len(verdicts)}; yes: {yes}, no: {no}, undecided: "
        f"{len(verdicts) - yes - no}{singles if single else ''}."
    )


# -- the whole page --------------------------------------------------------------------------------


def _origin(stored: Sequence[Stored]) -> str:
    devices = sorted({str(x.provenance["device"]).partition(":")[0] for x in stored})
    seconds = sum(float(x.provenance["seconds"]) for x in stored)
    return (
        f"{published('paper')}. This page is written by `scorewise-paper report` from "
        f"{len(stored)} stored results ({', '.join(devices)}; computed in {seconds / 60:,.0f} "
        "minutes)."
    )


def _page_markdown(beginning: Sequence[str], parts: Sequence[_Part]) -> str:
    texts = [f"# {_TITLE}", *beginning, f"```sh\n{_COMMANDS}```", _HOW]
    for part in parts:
        texts += [f"## {part.title}", *_section_markdown(part)]
    return "\n\n".join(texts) + "\n"


def _section_markdown(part: _Part) -> list[str]:
    figures = (f"![{part.title}]({_FIGURES}/{x.name}.svg)\n\n*{x.caption}*" for x in part.drawings)
    return [*part.section.paragraphs, *map(markdown, part.section.tables), *figures]


def _page_html(beginning: Sequence[str], parts: Sequence[_Part]) -> str:
    texts = [f"<h1>{_TITLE}</h1>", *map(_paragraph, beginning)]
    texts += [f"<pre>{html.escape(_COMMANDS)}</pre>", _paragraph(_HOW)]
    for part in parts:
        texts += [f"<h2>{html.escape(part.title)}</h2>", *map(_paragraph, part.section.paragraphs)]
        texts += map(as_html, part.section.tables)
        texts += [
            f"<figure>{x.svg[x.svg.index('<svg') :]}"
            f"<figcaption>{html.escape(x.caption)}</figcaption></figure>"
            for x in part.drawings
        ]
    body = "\n".join(texts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{_TITLE}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _paragraph(text: str) -> str:
    """Return a paragraph of HTML; text between backticks is code."""
    parts = (
        f"<code>{part}</code>" if i % 2 else part
        for i, part in enumerate(html.escape(text).split("`"))
    )
    return f"<p>{''.join(parts)}</p>"


# -- tables ----------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "→": r"$\rightarrow$",
    "–": "--",
}


def markdown(table: Table) -> str:
    """Return a table in Markdown, with its title before and its notes after it."""
    lines = [
        f"**{_piped(table.title)}**",
        "",
        _row(table.columns),
        _row(["---"] * len(table.columns)),
    ]
    for i, row in enumerate(table.rows):
        shown = [_piped(text) for text in row]
        lines.append(_row([f"**{x}**" if (i, j) in table.best else x for j, x in enumerate(shown)]))
    lines += [part for note in table.notes for part in ("", f"*{_piped(note)}*")]
    return "\n".join(lines)


def latex(table: Table) -> str:
    """Return a table in LaTeX, for a document with ``booktabs``."""
    lines = [
        r"\begin{table}[ht]",
        r"\centering",
        rf"\caption{{{_tex(' '.join([table.title + '.', *table.notes]))}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(map(_tex, table.columns)) + r" \\ \midrule",
    ]
    for i, row in enumerate(table.rows):
        cells = [
            rf"\textbf{{{_tex(x)}}}" if (i, j) in table.best else _tex(x) for j, x in enumerate(row)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def as_html(table: Table) -> str:
    """Return a table in HTML, with a caption."""
    head = "".join(f"<th>{html.escape(x)}</th>" for x in table.columns)
    lines = [f"<table><caption>{html.escape(table.title)}</caption><thead><tr>{head}</tr></thead>"]
    for i, row in enumerate(table.rows):
        cells = (
            f"<td><b>{html.escape(x)}</b></td>"
            if (i, j) in table.best
            else f"<td>{html.escape(x)}</td>"
            for j, x in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</table>")
    lines += [f'<p class="note">{html.escape(note)}</p>' for note in table.notes]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _piped(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _tex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)
