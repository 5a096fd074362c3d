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
# How many numbers are held at once: the resamples go through in batches.
_AT_ONCE = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Where values lie, each with the 95 % percentile interval and standard error of its bootstrap.

    All fields have one shape.
    """

    value: Floats
    low: Floats
    high: Floats
    error: Floats


def ratios(sums: Floats) -> Floats:
    """Numerators over denominators (on the last axis); 0 where there was nothing to count."""
    above, below = sums[..., 0], sums[..., 1]
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def bootstrap(
    numbers: Floats, reference: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Interval, Interval]:
    """Scores, and what the reference has over each, with intervals.

    Args:
        numbers: Samples x configurations x metrics x (numerator, denominator).
        reference: The configuration that the others are subtracted from.
        resamples: How often samples are drawn, with replacement. Every configuration and metric
            sees the same draws, so differences are paired.
        seed: The seed of the draws.

    Returns:
        The scores and the differences, both configurations x metrics.
    """
    size, many, metrics, _ = numbers.shape
    flat = numbers.reshape(size, -1)

    def statistic(drawn: NDArray[np.int64], axis: int = -1) -> Floats:
        rows = drawn.reshape(-1, size)
        # How often each sample was drawn: then all sums of all resamples are one product.
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

    If the two did not differ, the answers of a sample could be swapped without anybody noticing:
    how often does a random half of the swaps give a difference as large as the one seen?
    """
    rng = np.random.default_rng(seed)
    change, first, second = other - one, one.sum(axis=0), other.sum(axis=0)

    def statistic(swapped: Floats, axis: int = -1) -> Floats:
        moved = swapped @ change
        return ratios(first + moved) - ratios(second - moved)

    # The data are the answers as they are: nothing swapped.
    found = stats.monte_carlo_test(
        np.zeros(len(one)),
        lambda size: rng.integers(0, 2, size).astype(float),
        statistic,
        vectorized=True,
        n_resamples=resamples - 1,
        batch=max(1, _AT_ONCE // len(one)),
        alternative="two-sided",
    )
    return float(found.pvalue)


def mcnemar(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> dict[str, float | int]:
    """McNemar's exact test on samples that one got right and the other did not."""
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
    """P-values corrected for their number."""
    if not p_values:
        return []
    from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

    corrected = multipletests(p_values, alpha=ALPHA, method="holm")[1]
    return [float(p) for p in corrected]


def smallest_shown(error: float) -> float | None:
    """The smallest true difference that such a sample shows in 80 % of all cases.

    (z(0.975) + z(0.8)) times the bootstrap's standard error of the difference. None where no
    resample differs from another: then the data say nothing about it.
    """
    if error <= 0:
        return None
    return float((stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)) * error)
