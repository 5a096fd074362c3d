"""The scorer: counts predicted, gold and correct tuples of a sample.

| level     | two tuples are the same unit if they agree in |
|-----------|-----------------------------------------------|
| `aspect`  | aspect                                        |
| `pair`    | aspect, polarity                              |
| `triplet` | aspect, polarity, opinion                     |

| matching  | two aspects (and opinions) agree if                                             |
|-----------|---------------------------------------------------------------------------------|
| `strict`  | their keys are equal                                                            |
| `overlap` | as `strict`, or their spans overlap by at least half of their union                |
| `span`    | their spans are equal, as in SemEval 2014 and ASTE                              |

Overlap matches are one to one and maximal, so `overlap` never finds fewer than `strict`. A unit
counts once per sample. These levels compare tuples with a term, on both sides. Papers call `pair`
E2E and `triplet` ASTE. Tuples without a term count in the tasks with categories:

| task       | a tuple is                                               |
|------------|----------------------------------------------------------|
| `tasd`     | aspect or none, category, polarity                       |
| `asqp`     | aspect or none, category, polarity, opinion (ACOS, ASQP) |
| `acsa`     | category, polarity                                       |
| `implicit` | category, polarity, of tuples without a term             |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from absa.metrics.normalise import AbsaTuple, Place
from absa.nodes.thresholds import reaches

SCORER_VERSION = "2.0.0"
"""The version of the scorer. It increases when the same run can get another score."""

Level = Literal["aspect", "pair", "triplet"]
Task = Literal["tasd", "asqp", "acsa"]
Matching = Literal["strict", "overlap", "span"]
LEVELS: tuple[Level, ...] = ("aspect", "pair", "triplet")
TASKS: Mapping[Task, Callable[[AbsaTuple], Hashable]] = {
    "tasd": lambda t: (t.key, t.category, t.polarity),
    "asqp": lambda t: (t.key, t.category, t.polarity, t.opinion),
    "acsa": lambda t: (t.category, t.polarity),
}
"""The tasks with categories, with the fields that must agree."""
MATCHINGS: tuple[Matching, ...] = ("strict", "overlap", "span")
MIN_OVERLAP = 0.5

K = TypeVar("K")
Units = Mapping[Hashable, Sequence[AbsaTuple]]
"""Groups of tuples that count as one unit, by key."""


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of predicted, gold and correct units."""

    right: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(
            self.right + other.right, self.predicted + other.predicted, self.gold + other.gold
        )

    @property
    def perfect(self) -> bool:
        """Whether precision and recall are 1."""
        return self.right == self.predicted == self.gold


@dataclass
class Classes:
    """Counts per class; an answer can be a set of classes."""

    correct: int = 0
    total: int = 0
    right: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    gold: Counter[str] = field(default_factory=Counter)

    def add(self, predicted: Iterable[str], gold: Iterable[str]) -> None:
        """Count one answer."""
        predictions, true = set(predicted), set(gold)
        self.correct += predictions == true
        self.total += 1
        self.right.update(predictions & true)
        self.predicted.update(predictions)
        self.gold.update(true)

    def merge(self, other: Classes) -> None:
        """Count the answers of another."""
        self.correct += other.correct
        self.total += other.total
        self.right.update(other.right)
        self.predicted.update(other.predicted)
        self.gold.update(other.gold)

    def f1(self) -> dict[str, float]:
        """F1 per class that occurs in predictions or gold."""
        return {
            name: 2 * self.right[name] / (self.predicted[name] + self.gold[name])
            for name in sorted({*self.predicted, *self.gold})
        }

    def macro_f1(self) -> float | None:
        """The mean of the F1 values; None without classes."""
        scores = self.f1()
        return sum(scores.values()) / len(scores) if scores else None


@dataclass
class Score:
    """One sample (or the sum over many) at one stage."""

    found: dict[tuple[Level, Matching], Found] = field(default_factory=dict)
    implicit: dict[Level, Found] = field(default_factory=dict)
    tasks: dict[Task, Found] = field(default_factory=dict)
    polarity: dict[Matching, Classes] = field(default_factory=dict)

    def merge(self, other: Score) -> None:
        """Add another score to this one."""
        _add(self.found, other.found)
        _add(self.implicit, other.implicit)
        _add(self.tasks, other.tasks)
        for matching, classes in other.polarity.items():
            self.polarity.setdefault(matching, Classes()).merge(classes)

    def right(self, matching: Matching) -> bool:
        """Whether the sample's tuples equal the gold."""
        return self.found["pair", matching].perfect

    @property
    def perfect(self) -> bool:
        """Whether all scores are perfect."""
        counts = (*self.found.values(), *self.implicit.values(), *self.tasks.values())
        return all(f.perfect for f in counts) and all(
            c.correct == c.total for c in self.polarity.values()
        )


def _add(sums: dict[K, Found], counts: Mapping[K, Found]) -> None:
    for what, found in counts.items():
        sums[what] = sums.get(what, Found()) + found


def score(predicted: Sequence[AbsaTuple], gold: Sequence[AbsaTuple]) -> Score:
    """Score the tuples of one sample.

    Triplets and categories are not scored if the gold has tuples without them. In a sample without
    any gold every prediction is false. In a quad a missing opinion counts as NULL.
    """
    result = Score()
    has_opinions = not gold or any(g.opinion for g in gold)
    has_categories = not gold or any(g.category for g in gold)
    for level in LEVELS if has_opinions else LEVELS[:2]:
        apart_predicted, apart_true = _nameless(predicted, level), _nameless(gold, level)
        both = len(apart_predicted & apart_true)
        result.implicit[level] = Found(both, len(apart_predicted), len(apart_true))
        for matching in MATCHINGS:
            predictions, true = _units(predicted, level, matching), _units(gold, level, matching)
            right = len(matches(predictions, true, level, matching))
            result.found[level, matching] = Found(right, len(predictions), len(true))
    for task, unit in TASKS.items() if has_categories else ():
        one, other = {unit(t) for t in predicted}, {unit(t) for t in gold}
        result.tasks[task] = Found(len(one & other), len(one), len(other))
    for matching in MATCHINGS:
        result.polarity[matching] = _polarities(predicted, gold, matching)
    return result


def pairs(tuples: Iterable[AbsaTuple]) -> frozenset[Hashable]:
    """The (aspect, polarity) set of a sample. For a tuple without a term the category is used."""
    return frozenset(
        (t.key, t.polarity) if t.key else (None, t.category, t.polarity) for t in tuples
    )


def matches(
    predicted: Units, true: Units, level: Level, matching: Matching
) -> list[tuple[Hashable, Hashable]]:
    """A maximal one-to-one matching of predicted and gold units."""
    if matching != "overlap":
        return [(unit, unit) for unit in predicted if unit in true]
    if not predicted or not true:
        return []
    rows, columns = list(predicted), list(true)
    # Equal units are preferred to near ones, but an additional match is always worth more.
    bonus = 1 / (1 + min(len(rows), len(columns)))
    worth = np.array(
        [
            [1 + bonus if r == c else float(_near(predicted[r], true[c], level)) for c in columns]
            for r in rows
        ]
    )
    chosen = zip(*linear_sum_assignment(worth, maximize=True), strict=True)
    return [(rows[r], columns[c]) for r, c in chosen if worth[r, c]]


def overlap(one: Place, other: Place) -> float:
    """Intersection over union of two spans."""
    shared = min(one[1], other[1]) - max(one[0], other[0])
    union = max(one[1], other[1]) - min(one[0], other[0])
    return max(0, shared) / union if union else 0.0


def _units(tuples: Iterable[AbsaTuple], level: Level, matching: Matching) -> Units:
    """The tuples with a term, grouped by unit."""
    units: dict[Hashable, list[AbsaTuple]] = {}
    for t in tuples:
        if t.key:
            by_place = matching == "span"
            aspect = t.span if by_place and t.span else t.key
            opinion = t.opinion_span if by_place and t.opinion_span else t.opinion
            unit = (aspect, *_rest(level, t.polarity, opinion))
            units.setdefault(unit, []).append(t)
    return units


def _nameless(tuples: Iterable[AbsaTuple], level: Level) -> set[Hashable]:
    """The tuples without a term, by their category."""
    return {(t.category, *_rest(level, t.polarity, t.opinion)) for t in tuples if not t.key}


def _rest(level: Level, polarity: str, opinion: Hashable) -> tuple[Hashable, ...]:
    return {"aspect": (), "pair": (polarity,), "triplet": (polarity, opinion)}[level]


def _near(predicted: Sequence[AbsaTuple], true: Sequence[AbsaTuple], level: Level) -> bool:
    """Whether two units differ only in the extent of their spans."""
    return any(
        _close(a.span, b.span, same=a.key == b.key)
        and (level == "aspect" or a.polarity == b.polarity)
        and (
            level != "triplet"
            or _close(a.opinion_span, b.opinion_span, same=a.opinion == b.opinion)
        )
        for a in predicted
        for b in true
    )


def _close(one: Place | None, other: Place | None, *, same: bool) -> bool:
    """Whether two spans overlap enough. If one is unknown, their words must be equal."""
    if one is None or other is None:
        return same
    return reaches(overlap(one, other), MIN_OVERLAP)


def _polarities(
    predicted: Sequence[AbsaTuple], gold: Sequence[AbsaTuple], matching: Matching
) -> Classes:
    """The polarities of the matched aspects."""
    classes = Classes()
    predictions, true = _units(predicted, "aspect", matching), _units(gold, "aspect", matching)
    for own_unit, gold_unit in matches(predictions, true, "aspect", matching):
        classes.add(
            (t.polarity for t in predictions[own_unit]), (t.polarity for t in true[gold_unit])
        )
    return classes
