"""Batches: many samples, one directory, nothing lost and nothing paid twice."""

from absa.runs.engine import run
from absa.runs.plan import Progress, RunError, RunPlan, RunReport
from absa.runs.refusals import RunMismatch

__all__ = ["Progress", "RunError", "RunMismatch", "RunPlan", "RunReport", "run"]
