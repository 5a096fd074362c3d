"""Metrics: one scorer against gold, process metrics from the scorecards, and their report."""

from absa.metrics.evaluation import GoldError, evaluate, write
from absa.metrics.scorer import SCORER_VERSION

__all__ = ["SCORER_VERSION", "GoldError", "evaluate", "write"]
