"""Statistics of a data file."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, computed_field

from absa.data.problems import BadLine
from absa.data.reading import open_samples, read_samples
from absa.schemas.sample import GoldAspect, Sample

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

    Shares count samples among all samples unless the attribute says otherwise.

    Attributes:
        samples: Rows that can be used.
        bad_lines: Rows that cannot. `bad_line_examples` has the first of them.
        aspects: Gold tuples (an aspect with two opinions counts as two).
        labels: Samples by gold sentence label, those that have one.
        with_gold: Samples with an aspect annotation, an empty one included.
        without_aspects: Samples whose annotation is empty, among those with one.
        implicit: Implicit among all gold tuples.
        conflict: Samples with positive and negative aspects, among those with any aspect.
        incomplete_gold: Samples with gold known to be incomplete, among those with gold.
        dropped_aspects: Gold tuples left out for an unknown polarity.
        relocated_aspects: Gold tuples with wrong offsets, found by search.
        characters: Characters in all texts; `mean_length` is per text.
        duplicate_texts: Samples whose text is earlier in the file, too.
        overlap: Samples whose text is also in the file `other`; None without one.
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
    tally = _Tally(_text_keys(other) if other is not None else frozenset())
    data_format, rows = open_samples(path, format, columns)
    for row in rows:
        tally.add(row)
    n = tally.count
    samples, with_gold = n["samples"], n["with_gold"]

    def share(numerator: str, denominator: str = "samples") -> Share:
        return Share(numerator=n[numerator], denominator=n[denominator])

    return DataSummary(
        path=str(path),
        format=data_format.name,
        samples=samples,
        bad_lines=n["bad_lines"],
        bad_line_examples=tuple(tally.examples),
        aspects=n["aspects"],
        polarities=_ordered(tally.polarities),
        labels=_ordered(tally.labels),
        with_gold=share("with_gold"),
        without_aspects=Share(numerator=with_gold - n["with_aspects"], denominator=with_gold),
        implicit=share("implicit", "aspects"),
        conflict=share("conflict", "with_aspects"),
        incomplete_gold=share("incomplete", "with_gold"),
        dropped_aspects=n["dropped"],
        relocated_aspects=n["relocated"],
        languages=_ordered(tally.languages),
        domains=_ordered(tally.domains),
        splits=_ordered(tally.splits),
        characters=n["characters"],
        mean_length=n["characters"] / samples if samples else None,
        duplicate_texts=share("duplicates"),
        overlap=share("shared") if other is not None else None,
        other=str(other) if other is not None else None,
    )


def normalised_text(text: str) -> str:
    """Return a text without case, spaces, punctuation and Unicode form, to compare copies."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c.isalnum()) or "".join(folded.split())


class _Tally:
    """Running counts. Texts are kept only as short digests."""

    def __init__(self, elsewhere: frozenset[bytes]) -> None:
        self.count: Counter[str] = Counter()
        self.examples: list[BadLine] = []
        self.polarities: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.languages: Counter[str] = Counter()
        self.domains: Counter[str] = Counter()
        self.splits: Counter[str] = Counter()
        self._elsewhere = elsewhere
        self._seen: set[bytes] = set()

    def add(self, row: Sample | BadLine) -> None:
        if isinstance(row, BadLine):
            self.count["bad_lines"] += 1
            if len(self.examples) < EXAMPLES_KEPT:
                self.examples.append(row)
            return
        self.languages[row.lang or NOT_STATED] += 1
        self.domains[row.domain or NOT_STATED] += 1
        self.splits[row.split or NOT_STATED] += 1
        if row.label is not None:
            self.labels[row.label] += 1
        key = _text_key(row.text)
        self.count.update(
            samples=1,
            characters=len(row.text),
            duplicates=key in self._seen,
            shared=key in self._elsewhere,
        )
        self._seen.add(key)
        if row.aspects is not None:
            self._add_gold(row, row.aspects)

    def _add_gold(self, sample: Sample, aspects: Sequence[GoldAspect]) -> None:
        polarities = [aspect.polarity for aspect in aspects]
        self.polarities.update(polarities)
        self.count.update(
            with_gold=1,
            with_aspects=bool(aspects),
            aspects=len(aspects),
            implicit=sum(aspect.implicit for aspect in aspects),
            conflict={"positive", "negative"} <= set(polarities),
            incomplete=sample.incomplete_gold,
            dropped=sample.dropped_aspects,
            relocated=sample.relocated_aspects,
        )


def _text_keys(path: Path | str) -> frozenset[bytes]:
    rows = read_samples(path)
    return frozenset(_text_key(row.text) for row in rows if isinstance(row, Sample))


def _text_key(text: str) -> bytes:
    return hashlib.blake2b(normalised_text(text).encode(), digest_size=16).digest()


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
