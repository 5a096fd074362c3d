"""Batches: many samples, one directory, nothing lost and nothing paid twice."""

from absa.runs.engine import Progress, RunError, RunPlan, RunReport, run
from absa.runs.identity import RunMismatch

__all__ = ["Progress", "RunError", "RunMismatch", "RunPlan", "RunReport", "run"]
