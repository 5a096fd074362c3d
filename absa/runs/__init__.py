"""Runs: many samples into one directory. A run can be resumed and pays for no answer twice."""

from absa.runs.engine import run
from absa.runs.plan import Progress, RunError, RunMismatch, RunPlan, RunReport

__all__ = ["Progress", "RunError", "RunMismatch", "RunPlan", "RunReport", "run"]
