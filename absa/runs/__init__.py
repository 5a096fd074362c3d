"""Batches: many samples, one directory, nothing lost and nothing paid twice."""

from absa.runs.engine import run
from absa.runs.identity import RunMismatch
from absa.runs.plan import Progress, RunError, RunPlan, RunReport

__all__ = ["Progress", "RunError", "RunMismatch", "RunPlan", "RunReport", "run"]
