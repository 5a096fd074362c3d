"""M-ABSA: `sentence####[['aspect', 'category', 'positive']]`; NULL means implicit."""

from __future__ import annotations

from collections.abc import Iterator

from absa.data.formats.hash_text import looks_like_hash_text, none_if_null, split_line, tuples_in
from absa.data.problems import BadLine, BadRowError
from absa.data.rows import RawAspect, RawSample, each_line
from absa.data.source import Source


def looks_like(head: str, source: Source) -> bool:
    """Return whether the tuples of the head are three words (or there are only empty lists)."""
    if not looks_like_hash_text(head):
        return False
    first = next(tuples_in(head), ["", "", ""])
    return isinstance(first, tuple | list) and len(first) == 3 and isinstance(first[0], str)


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the sentences of the file."""
    return each_line(source, _parse)


def _parse(line: str) -> RawSample:
    text, items = split_line(line)
    return RawSample(text=text, aspects=[_parse_triple(item) for item in items])


def _parse_triple(item: object) -> RawAspect:
    match item:
        case [aspect, category, polarity]:
            return RawAspect(
                term=none_if_null(aspect), polarity=polarity, category=category, search=True
            )
    raise BadRowError(
        "a tuple does not have the expected form.", "Write ['aspect', 'category', 'positive']."
    )
