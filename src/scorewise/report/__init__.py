"""One self-contained HTML page from stored results."""

from scorewise.report._page import write_report

__all__ = ["write_report"]
