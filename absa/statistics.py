"""Intervals and tests over samples, by numpy, scipy and statsmodels.

A score is a ratio of sums over samples (F1: twice the right tuples over predicted plus gold ones;
accuracy: right labels over labels), so `numbers` holds a numerator and a denominator per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 10_000
CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
POWER = 0.8
# The size of a batch of resamples, in numbers.
_AT_ONCE = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Values with their bootstrap 95 % percentile intervals and standard errors.

    All fields have the shape configurations x metrics.
    """

    value: Floats
    low: Floats
    high: Floats
    error: Floats

    def at(self, one: int, metric: int) -> dict[str, float]:
        """Value, low and high of one configuration in one metric."""
        return {name: float(getattr(self, name)[one, metric]) for name in ("value", "low", "high")}


def ratios(sums: Floats) -> Floats:
    """Numerators over denominators (on the last axis); 0 if the denominator is 0."""
    above, below = sums[..., 0], sums[..., 1]
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def bootstrap(
    numbers: Floats, reference: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Interval, Interval]:
    """Scores, and the differences from the reference, with intervals.

    Args:
        numbers: Samples x configurations x metrics x (numerator, denominator).
        reference: The configuration that the others are subtracted from.
        resamples: The number of resamples, with replacement. All configurations and metrics use
        the same resamples, so differences are paired.
        seed: The seed of the draws.

    Returns:
        The scores and the differences, both configurations x metrics.
    """
    size, many, metrics, _ = numbers.shape
    flat = numbers.reshape(size, -1)

    def statistic(drawn: NDArray[np.int64], axis: int = -1) -> Floats:
        rows = drawn.reshape(-1, size)
        # The count of each sample per resample. One matrix product then gives all sums.
        cells = rows + size * np.arange(len(rows))[:, None]
        weights = np.bincount(cells.ravel(), minlength=rows.size).reshape(rows.shape)
        sums = (weights.astype(float) @ flat).reshape(-1, many, metrics, 2)
        scores = ratios(sums)
        both = np.concatenate([scores, scores[:, [reference]] - scores], axis=1)
        return np.moveaxis(both.reshape(*drawn.shape[:-1], 2 * many, metrics), (-2, -1), (0, 1))

    everyone = np.arange(size)
    drawn = stats.bootstrap(
        (everyone,),
        statistic,
        n_resamples=resamples,
        batch=max(1, _AT_ONCE // size),
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    value = statistic(everyone)
    limits = drawn.confidence_interval
    parts = [value, *map(np.asarray, (limits.low, limits.high, drawn.standard_error))]
    return Interval(*(p[:many] for p in parts)), Interval(*(p[many:] for p in parts))


def randomisation(
    one: Floats, other: Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """The two-sided p-value of a difference of two scores, by paired randomisation.

    If the two did not differ, swapping their answers to a sample would change nothing. The p-value
    is the share of random swaps with a difference at least as large as the observed one.
    """
    rng = np.random.default_rng(seed)
    change, first, second = other - one, one.sum(axis=0), other.sum(axis=0)

    def statistic(swapped: Floats, axis: int = -1) -> Floats:
        moved = swapped @ change
        return ratios(first + moved) - ratios(second - moved)

    # The observed data count as one of the swaps.
    result = stats.monte_carlo_test(
        np.zeros(len(one)),
        lambda size: rng.integers(0, 2, size).astype(float),
        statistic,
        vectorized=True,
        n_resamples=resamples - 1,
        batch=max(1, _AT_ONCE // len(one)),
        alternative="two-sided",
    )
    return float(result.pvalue)


def mcnemar(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> dict[str, float | int]:
    """McNemar's exact test on the samples that only one of two systems got right."""
    from statsmodels.stats.contingency_tables import (  # type: ignore[import-untyped]
        mcnemar as exact_mcnemar,
    )

    both, neither = int((one & other).sum()), int((~one & ~other).sum())
    only_one, only_other = int((one & ~other).sum()), int((~one & other).sum())
    table = [[both, only_one], [only_other, neither]]
    p = float(exact_mcnemar(table, exact=True).pvalue) if only_one + only_other else 1.0
    return {
        "both_right": both,
        "only_debate_right": only_one,
        "only_other_right": only_other,
        "both_wrong": neither,
        "p": p,
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values with Holm's correction for multiple tests."""
    if not p_values:
        return []
    from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

    corrected = multipletests(p_values, alpha=ALPHA, method="holm")[1]
    return [float(p) for p in corrected]


def smallest_shown(error: float) -> float | None:
    """The minimum detectable difference at a power of 80 %.

    It is (z(0.975) + z(0.8)) times the bootstrap's standard error of the difference; None if all
    resamples are equal.
    """
    if error <= 0:
        return None
    return float((stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)) * error)
