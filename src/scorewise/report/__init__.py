"""One self-contained HTML page from stored results."""

from scorewise.report._page import check_report, write_report
from scorewise.report._shown_inputs import read_inputs

__all__ = ["check_report", "read_inputs", "write_report"]
