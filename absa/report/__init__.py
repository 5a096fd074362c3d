"""Runs as one HTML file that needs nothing else: numbers, charts, and every sample to browse."""

from absa.report.page import Written, write_report

__all__ = ["Written", "write_report"]
