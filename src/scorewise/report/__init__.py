"""One self-contained HTML page from stored results."""

from scorewise.report._page import check_report, write_report

__all__ = ["check_report", "write_report"]
