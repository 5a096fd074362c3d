"""Reads data sets in the usual ABSA formats and describes what they contain."""

from absa.data.problems import BadLine, DataError
from absa.data.reading import detect_format, read_samples
from absa.data.registry import FORMATS
from absa.data.summary import DataSummary, Share, describe

__all__ = [
    "FORMATS",
    "BadLine",
    "DataError",
    "DataSummary",
    "Share",
    "describe",
    "detect_format",
    "read_samples",
]
