"""ASTE-Data-V2: `sentence####[([aspect words], [opinion words], 'POS')]`, words counted from 0."""

from __future__ import annotations

from collections.abc import Iterator

from absa.data.formats.hash_text import looks_like_hash_text, split_line, tuples_in, word_spans
from absa.data.problems import BadLine, BadRowError, shown
from absa.data.rows import RawAspect, RawSample, each_line
from absa.data.source import Source


def looks_like(head: str, source: Source) -> bool:
    """Return whether the tuples of the head are made of word numbers."""
    if not looks_like_hash_text(head):
        return False
    first = next(tuples_in(head), None)
    return isinstance(first, tuple | list) and len(first) == 3 and isinstance(first[0], list)


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the sentences of the file."""
    return each_line(source, _parse)


def _parse(line: str) -> RawSample:
    text, items = split_line(line)
    spans = word_spans(text)
    return RawSample(text=text, aspects=[_parse_triplet(item, text, spans) for item in items])


def _parse_triplet(item: object, text: str, spans: list[tuple[int, int]]) -> RawAspect:
    match item:
        case [aspect_words, opinion_words, polarity]:
            start, end = _characters(aspect_words, spans)
            opinion_start, opinion_end = _characters(opinion_words, spans)
            return RawAspect(
                term=text[start:end],
                start=start,
                end=end,
                polarity=polarity,
                opinion=text[opinion_start:opinion_end],
            )
    raise BadRowError("a triplet does not have the expected form.", "Write ([1, 2], [4], 'POS').")


def _characters(words: object, spans: list[tuple[int, int]]) -> tuple[int, int]:
    numbers = [word for word in words if type(word) is int] if isinstance(words, list) else []
    if not numbers or not isinstance(words, list) or len(numbers) != len(words):
        raise BadRowError(f"{shown(words)} is not a list of word numbers.", "Write [1, 2].")
    first, last = min(numbers), max(numbers)
    if first < 0 or last >= len(spans):
        raise BadRowError(
            f"word {last if first >= 0 else first} is not in a sentence of {len(spans)} words.",
            "Words are counted from 0.",
        )
    return spans[first][0], spans[last][1]
