"""Runs as one HTML file that needs nothing else: numbers, charts, and every sample to browse."""

from absa.report.page import Written, write_report
from absa.report.reading import ReportError

__all__ = ["ReportError", "Written", "write_report"]
