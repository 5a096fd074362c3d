"""Does the verdict keep its word? Simulated agents of known accuracy, many draws.

    python -m benchmarks.verdict_rates [--draws 300] [--samples 200] [--resamples 2000]

A tuple has a difficulty that all agents share, so they err together as real ones do. A joint call
finds a tuple and its polarity by chance of its difficulty, and makes up a tuple now and then; the
vote keeps what half of ten calls found. The debate is a vote of its own, so that it is exactly as
good, and then mends what is wrong or breaks what is right with a known probability:

    equal         neither
    equal, rare   neither, and nine answers of ten are the vote's: few samples differ
    better        mends
    worse         breaks

Predictions and gold pass through the one scorer and the statistics of `absa ablate`. A verdict is
wrong with a rate of at most 2.5 % on either side if the two are equal.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from absa.ablate.configurations import Configuration, Roles
from absa.ablate.measuring import Measured, Row, row
from absa.ablate.study import Study, compare
from absa.metrics.normalise import AbsaTuple
from absa.metrics.scorer import score
from absa.schemas.settings import PipelineSettings, Settings

CALLS = 10
NAMES = ("debate", "single", "vote")
SCENARIOS = ("equal", "equal, rare", "better", "worse")
EXPECTED = {
    "equal": "no_difference",
    "equal, rare": "no_difference",
    "better": "helps",
    "worse": "hurts",
}

Rng = np.random.Generator
Answer = list[AbsaTuple]


@dataclass(frozen=True)
class Sample:
    """The gold of a text, how hard each tuple is, and a tuple that might be made up."""

    gold: Answer
    found: Any
    right: Any
    stray: AbsaTuple


def draw_sample(rng: Rng) -> Sample:
    size = int(rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))
    gold = [_tuple(n, str(rng.choice(["positive", "negative"]))) for n in range(size)]
    return Sample(
        gold,
        found=rng.beta(5, 2, size),
        right=rng.beta(6, 2, size),
        stray=_tuple(size, "positive"),
    )


def _tuple(number: int, polarity: str) -> AbsaTuple:
    return AbsaTuple(f"aspect{number}", polarity, span=(10 * number, 10 * number + 7))


def call(sample: Sample, rng: Rng) -> Answer:
    """One joint call."""
    size = len(sample.gold)
    found, right = rng.random(size) < sample.found, rng.random(size) < sample.right
    said = [t if right[n] else flipped(t) for n, t in enumerate(sample.gold) if found[n]]
    return [*said, *([sample.stray] if rng.random() < 0.15 else [])]


def vote(sample: Sample, rng: Rng) -> Answer:
    """What at least half of the calls found."""
    counted = Counter(t for _ in range(CALLS) for t in call(sample, rng))
    return [t for t, count in counted.items() if 2 * count >= CALLS]


def flipped(t: AbsaTuple) -> AbsaTuple:
    other = "negative" if t.polarity == "positive" else "positive"
    return AbsaTuple(t.key, other, span=t.span)


def mended(answer: Answer, sample: Sample, rng: Rng, rate: float) -> Answer:
    """Each sample is put right with this probability."""
    return sample.gold if rng.random() < rate else answer


def broken(answer: Answer, sample: Sample, rng: Rng, rate: float) -> Answer:
    """Each sample is spoilt with this probability: every polarity is turned round."""
    return [flipped(t) for t in answer] if rng.random() < rate else answer


def debate(scenario: str, own: Answer, rival: Answer, sample: Sample, rng: Rng) -> Answer:
    match scenario:
        case "better":
            return mended(own, sample, rng, 0.35)
        case "worse":
            return broken(own, sample, rng, 0.25)
        case "equal, rare":
            return own if rng.random() < 0.1 else rival
        case _:
            return own


@cache
def scored(said: frozenset[AbsaTuple], gold: tuple[AbsaTuple, ...]) -> Row:
    """The scorer's numbers; there are few different cases."""
    return row(score(sorted(said, key=lambda t: t.key), gold), "", None)


def one_study(scenario: str, samples: int, resamples: int, rng: Rng) -> dict[str, Any]:
    """One data set, three configurations, one verdict."""
    numbers, exact = [], []
    for _ in range(samples):
        sample = draw_sample(rng)
        rival = vote(sample, rng)
        own = vote(sample, rng)
        answers = (debate(scenario, own, rival, sample, rng), call(sample, rng), rival)
        rows = [scored(frozenset(said), tuple(sample.gold)) for said in answers]
        numbers.append([r[0] for r in rows])
        exact.append([r[1] for r in rows])
    measured = Measured(
        names=list(NAMES),
        uids=[str(n) for n in range(samples)],
        numbers=np.array(numbers),
        exact=np.array(exact),
        counts={"compared": samples},
    )
    protocols = ("debate", "single", "vote")
    asked = Study(
        Path(),
        [
            Configuration(name, Settings(pipeline=PipelineSettings(protocol=protocol)))
            for name, protocol in zip(NAMES, protocols, strict=True)
        ],
        Roles(*NAMES),
        resamples=resamples,
        seed=int(rng.integers(2**31)),
    )
    spent = {name: _cost(calls) for name, calls in zip(NAMES, (CALLS, 1, CALLS), strict=True)}
    return compare(asked, measured, spent)


def _cost(calls: float) -> dict[str, Any]:
    each = {"calls": calls, "distinct_calls": calls, "cost_usd": 0.0}
    return {
        "per_sample": each,
        "calls_of_unknown_cost": 0,
        "repeated_calls_unanimous": None,
    }


def rates(
    scenario: str,
    draws: int,
    samples: int,
    resamples: int,
    seed: int = 0,
    tell: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """How often each word is said, against the vote and overall."""
    rng = np.random.default_rng([seed, SCENARIOS.index(scenario)])
    words: dict[str, Counter[str]] = {"vote": Counter(), "word": Counter()}
    covered = 0
    differences: list[float] = []
    least: list[float] = []
    discordant: list[int] = []
    for done in range(draws):
        found = one_study(scenario, samples, resamples, rng)
        for which, counter in words.items():
            counter[found["verdict"][which]] += 1
        against = next(c for c in found["comparisons"] if c["other"] == "vote")
        strict = against["differences"]["pair_strict_f1"]
        differences.append(strict["value"])
        covered += strict["low"] <= 0 <= strict["high"]
        discordant.append(against["samples_that_differ"])
        if against["smallest_shown"] is not None:
            least.append(against["smallest_shown"])
        tell(done + 1)
    return {
        "scenario": scenario,
        "draws": draws,
        "mean_difference_points": round(100 * float(np.mean(differences)), 2),
        "mean_smallest_shown_points": round(100 * float(np.mean(least)), 2),
        "mean_samples_that_differ": round(float(np.mean(discordant)), 1),
        "interval_includes_zero": _rate(covered, draws),
        **{
            "against_vote" if which == "vote" else "overall": {
                name: _rate(counter[name], draws)
                for name in ("helps", "hurts", "no_difference", "cannot_say")
            }
            for which, counter in words.items()
        },
    }


def _rate(count: int, draws: int) -> dict[str, Any]:
    interval = binomtest(count, draws).proportion_ci(0.95, method="exact")
    return {
        "count": count,
        "rate": round(count / draws, 4),
        "interval95": [round(float(interval.low), 4), round(float(interval.high), 4)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    gc.freeze()  # statsmodels collects garbage in every correction
    results = []
    for scenario in SCENARIOS:
        found = rates(scenario, args.draws, args.samples, args.resamples, args.seed)
        results.append(found)
        if args.json:
            continue
        print(
            f"{scenario} (mean difference {found['mean_difference_points']:+.2f} points, could "
            f"have shown {found['mean_smallest_shown_points']:.1f}, "
            f"{found['mean_samples_that_differ']:.0f} of {args.samples} samples differ)"
        )
        for where in ("against_vote", "overall"):
            for word, r in found[where].items():
                mark = "  <- expected" if word == EXPECTED[scenario] else ""
                low, high = r["interval95"]
                if r["count"] or mark:
                    print(
                        f"  {where:13} {word:14} {100 * r['rate']:5.1f} % "
                        f"({100 * low:.1f} to {100 * high:.1f}){mark}"
                    )
    if args.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
