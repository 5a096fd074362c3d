"""Threshold comparisons: values within 1e-9 are equal, and an equal value reaches it."""

from __future__ import annotations

TOLERANCE = 1e-9


def reaches(value: float, threshold: float) -> bool:
    """Whether `value` is at least `threshold` (0.7 - 0.5 is a drop of 0.2)."""
    return value >= threshold - TOLERANCE
