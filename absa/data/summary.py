"""Statistics of a data file."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, computed_field

from absa.data.problems import BadLine
from absa.data.reading import open_samples, read_samples
from absa.schemas.sample import Sample

NOT_STATED = "not stated"
EXAMPLES_KEPT = 5


class Share(BaseModel):
    """A fraction with its numerator and denominator."""

    model_config = ConfigDict(frozen=True)

    numerator: int
    denominator: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def value(self) -> float | None:
        """The fraction; None if the denominator is zero."""
        return self.numerator / self.denominator if self.denominator else None


class DataSummary(BaseModel):
    """Statistics of a data file.

    Attributes:
        path: The file.
        format: Name of its format.
        samples: Rows that can be used.
        bad_lines: Rows that cannot.
        bad_line_examples: The first of these.
        aspects: Gold tuples (an aspect with two opinions counts as two).
        polarities: Gold tuples by polarity.
        labels: Samples by gold sentence label, those that have one.
        with_gold: Samples with an aspect annotation, an empty one included, among all.
        without_aspects: Samples whose annotation is empty, among those with one.
        implicit: Implicit among all gold tuples.
        conflict: Samples with positive and negative aspects, among those with any aspect.
        incomplete_gold: Samples with gold known to be incomplete, among those with gold.
        dropped_aspects: Gold tuples left out for an unknown polarity.
        relocated_aspects: Gold tuples with wrong offsets, found by search.
        languages: Samples by language as stated in the file.
        domains: Samples by domain.
        splits: Samples by split.
        characters: Characters in all texts.
        mean_length: Characters in a text on average, None without samples.
        duplicate_texts: Samples whose text stood in the file before, among all.
        overlap: Samples whose text is also in the other file, among all; None without one.
        other: The other file.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    format: str
    samples: int
    bad_lines: int
    bad_line_examples: tuple[BadLine, ...]
    aspects: int
    polarities: dict[str, int]
    labels: dict[str, int]
    with_gold: Share
    without_aspects: Share
    implicit: Share
    conflict: Share
    incomplete_gold: Share
    dropped_aspects: int
    relocated_aspects: int
    languages: dict[str, int]
    domains: dict[str, int]
    splits: dict[str, int]
    characters: int
    mean_length: float | None
    duplicate_texts: Share
    overlap: Share | None
    other: str | None


def describe(
    path: Path | str,
    other: Path | str | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> DataSummary:
    """Read a data file and count what it holds.

    Args:
        path: The file.
        other: Another file, to see how many texts of the first are in it too. Its format is
            recognised by content.
        format: Format of the first file, if not to be recognised.
        columns: Column mapping of the first file.

    Raises:
        DataError: One of the files cannot be used.
    """
    elsewhere = _text_keys(other) if other is not None else frozenset()
    tally = _Tally(elsewhere)
    data_format, rows = open_samples(path, format, columns)
    for row in rows:
        tally.add(row)
    return DataSummary(
        path=str(path),
        format=data_format.name,
        samples=tally.samples,
        bad_lines=tally.bad_lines,
        bad_line_examples=tuple(tally.examples),
        aspects=tally.aspects,
        polarities=_ordered(tally.polarities),
        labels=_ordered(tally.labels),
        with_gold=Share(numerator=tally.with_gold, denominator=tally.samples),
        without_aspects=Share(
            numerator=tally.with_gold - tally.with_aspects, denominator=tally.with_gold
        ),
        implicit=Share(numerator=tally.implicit, denominator=tally.aspects),
        conflict=Share(numerator=tally.conflict, denominator=tally.with_aspects),
        incomplete_gold=Share(numerator=tally.incomplete, denominator=tally.with_gold),
        dropped_aspects=tally.dropped,
        relocated_aspects=tally.relocated,
        languages=_ordered(tally.languages),
        domains=_ordered(tally.domains),
        splits=_ordered(tally.splits),
        characters=tally.characters,
        mean_length=tally.characters / tally.samples if tally.samples else None,
        duplicate_texts=Share(numerator=tally.duplicates, denominator=tally.samples),
        overlap=(
            Share(numerator=tally.shared, denominator=tally.samples) if other is not None else None
        ),
        other=str(other) if other is not None else None,
    )


def normalised_text(text: str) -> str:
    """Return a text without case, spaces, punctuation and Unicode form, to compare copies."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c.isalnum()) or "".join(folded.split())


@dataclass
class _Tally:
    """Running counts. Texts are kept only as short digests."""

    elsewhere: frozenset[bytes]
    samples: int = 0
    bad_lines: int = 0
    examples: list[BadLine] = field(default_factory=list)
    aspects: int = 0
    polarities: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    with_gold: int = 0
    with_aspects: int = 0
    implicit: int = 0
    conflict: int = 0
    incomplete: int = 0
    dropped: int = 0
    relocated: int = 0
    characters: int = 0
    duplicates: int = 0
    shared: int = 0
    seen: set[bytes] = field(default_factory=set)

    def add(self, row: Sample | BadLine) -> None:
        if isinstance(row, BadLine):
            self.bad_lines += 1
            if len(self.examples) < EXAMPLES_KEPT:
                self.examples.append(row)
            return
        self.samples += 1
        self.characters += len(row.text)
        self.languages[row.lang or NOT_STATED] += 1
        self.domains[row.domain or NOT_STATED] += 1
        self.splits[row.split or NOT_STATED] += 1
        if row.label is not None:
            self.labels[row.label] += 1
        self._add_text(row.text)
        self._add_gold(row)

    def _add_text(self, text: str) -> None:
        key = _text_key(text)
        self.duplicates += key in self.seen
        self.shared += key in self.elsewhere
        self.seen.add(key)

    def _add_gold(self, sample: Sample) -> None:
        if sample.aspects is None:
            return
        polarities = [aspect.polarity for aspect in sample.aspects]
        self.with_gold += 1
        self.with_aspects += bool(polarities)
        self.aspects += len(polarities)
        self.polarities.update(polarities)
        self.implicit += sum(aspect.implicit for aspect in sample.aspects)
        self.conflict += {"positive", "negative"} <= set(polarities)
        self.incomplete += sample.incomplete_gold
        self.dropped += sample.dropped_aspects
        self.relocated += sample.relocated_aspects


def _text_keys(path: Path | str) -> frozenset[bytes]:
    rows = read_samples(path)
    return frozenset(_text_key(row.text) for row in rows if isinstance(row, Sample))


def _text_key(text: str) -> bytes:
    return hashlib.blake2b(normalised_text(text).encode(), digest_size=16).digest()


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
