"""Polarity words: accepted spellings, repair of misspellings, aggregation to a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from rapidfuzz.distance import Levenshtein

from absa.nodes.categories import CategorySet
from absa.schemas.answers import LABELS, POLARITIES
from absa.schemas.records import Counts

Reading = Literal["exact", "repaired", "invalid"]

_SHORT = {"pos": "positive", "neg": "negative", "neu": "neutral"}
_MAX_REPAIR = 2
OPPOSITE = {"positive": "negative", "negative": "positive"}


class Read(NamedTuple):
    """A parsed polarity word."""

    value: str | None
    reading: Reading


def exact(word: str | None) -> str | None:
    """The canonical polarity of an accepted spelling, None for anything else (no repair)."""
    if word is None:
        return None
    low = word.lower()
    return low if low in POLARITIES else _SHORT.get(low)


def read(word: str | None, words: Sequence[str] = POLARITIES) -> Read:
    """Parse a polarity word. One or two wrong letters are repaired; other words are invalid."""
    if word is None:
        return Read(None, "invalid")
    low = word.lower()
    accepted = low if low in words else _SHORT.get(low)
    if accepted:
        return Read(accepted, "exact")
    near = [
        w for w in words if Levenshtein.distance(low, w, score_cutoff=_MAX_REPAIR) <= _MAX_REPAIR
    ]
    return Read(near[0], "repaired") if len(near) == 1 else Read(None, "invalid")


@dataclass
class PolarityCounter:
    """Parses polarity words and counts repaired and invalid ones.

    It also counts the names that were changed or left out, and categories outside the set.
    """

    categories: CategorySet | None = None
    repaired: int = 0
    invalid: int = 0
    names_cut: int = 0
    names_refused: int = 0
    names_unlikely: int = 0
    categories_invalid: int = 0

    def read(self, word: str | None, words: Sequence[str] = POLARITIES) -> str | None:
        """The canonical word, or None if it is invalid."""
        value, reading = read(word, words)
        self.repaired += reading == "repaired"
        self.invalid += reading == "invalid"
        return value

    def label(self, word: str | None) -> str | None:
        """Parse a label. A missing label is not an error."""
        return self.read(word, LABELS) if word is not None else None

    def category(self, word: str | None) -> str | None:
        """Parse a category; None without a set or a word."""
        if self.categories is None or word is None:
            return None
        name = self.categories.find(word)
        self.categories_invalid += name is None
        return name

    def named(self, name: str | None, thing: str | None) -> None:
        """Count a changed name: an opinion word was cut, or it names nothing."""
        if name and thing != name:
            self.names_cut += thing is not None
            self.names_refused += thing is None

    def counts(self) -> Counts:
        """The counts."""
        return Counts(
            polarity_repair_count=self.repaired,
            polarity_invalid_count=self.invalid,
            name_cut_count=self.names_cut,
            name_refused_count=self.names_refused,
            name_unlikely_count=self.names_unlikely,
            category_invalid_count=self.categories_invalid,
        )


class HasPolarity(Protocol):
    """Anything with a polarity and a confidence."""

    @property
    def polarity(self) -> str: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102


def label_of(polarities: Iterable[str]) -> str:
    """The label of a set of polarities; `neutral` for an empty set."""
    distinct = set(polarities)
    if {"positive", "negative"} <= distinct:
        return "mixed"
    return next((p for p in ("positive", "negative") if p in distinct), "neutral")


def aggregate(sentiments: Iterable[HasPolarity]) -> tuple[str, float]:
    """Label and confidence of sentiments; (`neutral`, 0) for none.

    | sentiments                      | label      | confidence: mean of |
    |---------------------------------|------------|---------------------|
    | only positives (and neutrals)   | `positive` | the positives       |
    | only negatives (and neutrals)   | `negative` | the negatives       |
    | both                            | `mixed`    | all but neutrals    |
    | only neutrals                   | `neutral`  | the neutrals        |
    """
    items = list(sentiments)
    label = label_of(s.polarity for s in items)
    carriers = ("positive", "negative") if label == "mixed" else (label,)
    confidences = [s.confidence for s in items if s.polarity in carriers]
    return label, sum(confidences) / len(confidences) if confidences else 0.0
