"""Tables and the sections they stand in, as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    "–": "--",
}


@dataclass(frozen=True)
class Table:
    """A heading, columns and rows of text; what is in ``best`` is the best of its row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: frozenset[tuple[int, int]] = frozenset()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """A drawing: the name of its file, what it shows, and how to draw it."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it was tried, and what came out, in which unit.

    What came out of a shortened run is shown, and does not count.
    """

    claim: str
    where: str
    holds: str
    evidence: str
    unit: str
    counts: bool = True


@dataclass(frozen=True)
class Section:
    """What there is to say of an experiment."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = field(default_factory=tuple)


def markdown(table: Table) -> str:
    """A table of pipes, with its title before and its notes after it."""
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
    """A floating table, for a document with ``booktabs``."""
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
    """A table with a caption."""
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
