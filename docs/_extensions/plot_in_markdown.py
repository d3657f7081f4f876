"""Matplotlib's plot directive for Markdown: it inserts reST, which MyST does not take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from docutils import nodes
from matplotlib.sphinxext import plot_directive
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def setup(app: Sphinx) -> dict[str, Any]:
    """Set up matplotlib's directive, and replace it by the one below."""
    metadata = plot_directive.setup(app)
    app.add_directive("plot", MarkdownPlotDirective, override=True)
    return dict(metadata)


class MarkdownPlotDirective(SphinxDirective, plot_directive.PlotDirective):
    """The plot directive, with its output parsed where it stands."""

    def run(self) -> list[nodes.Node]:
        """Run the code, and return the nodes of its source and pictures."""
        lines: list[str] = []
        machine = self.state_machine
        self.state_machine = SimpleNamespace(
            document=self.state.document, insert_input=lambda new, source: lines.extend(new)
        )
        try:
            plot_directive.PlotDirective.run(self)
        finally:
            self.state_machine = machine
        block = "\n".join(["```{eval-rst}", *lines, "```"])
        return self.parse_text_to_nodes(block)
