r"""ACOS: `sentence\t1,3 FOOD#QUALITY 2 4,5\t…`: word spans (end exclusive), category, polarity.

`-1,-1` means implicit. Polarity 0 is negative, 1 neutral, 2 positive.
"""

from __future__ import annotations

import re

from absa.data.formats.hash_text import word_spans
from absa.data.problems import BadRowError, shown
from absa.data.rows import RawAspect, RawSample
from absa.data.source import Source

QUAD = re.compile(r"(-?\d{1,9}),(-?\d{1,9}) (\S+) (\S+) (-?\d{1,9}),(-?\d{1,9})")
POLARITIES = {"0": "negative", "1": "neutral", "2": "positive"}


def looks_like(head: str, source: Source) -> bool:
    """Return whether a line of the head has a sentence and a quadruple."""
    return any(
        len(cells) > 1 and QUAD.fullmatch(cells[1].strip())
        for cells in (line.split("\t") for line in head.splitlines())
    )


def parse(line: str) -> RawSample:
    """Parse a line of ACOS."""
    text, *quads = line.split("\t")
    spans = word_spans(text)
    return RawSample(
        text=text, aspects=[_parse_quad(q.strip(), text, spans) for q in quads if q.strip()]
    )


def _parse_quad(quad: str, text: str, spans: list[tuple[int, int]]) -> RawAspect:
    match = QUAD.fullmatch(quad)
    if match is None:
        raise BadRowError(
            f"{shown(quad)} is not a valid quadruple.", "Write 1,3 FOOD#QUALITY 2 4,5 between tabs."
        )
    first, last, category, polarity, opinion_first, opinion_last = match.groups()
    place = _characters(int(first), int(last), spans)
    opinion = _characters(int(opinion_first), int(opinion_last), spans)
    return RawAspect(
        term=text[slice(*place)] if place else None,
        start=place[0] if place else None,
        end=place[1] if place else None,
        polarity=POLARITIES.get(polarity, polarity),
        opinion=text[slice(*opinion)] if opinion else None,
        category=category,
    )


def _characters(first: int, last: int, spans: list[tuple[int, int]]) -> tuple[int, int] | None:
    if (first, last) == (-1, -1):
        return None
    if not 0 <= first < last <= len(spans):
        raise BadRowError(
            f"words {first},{last} are not in a sentence of {len(spans)} words.",
            "Words are counted from 0, end exclusive.",
        )
    return spans[first][0], spans[last - 1][1]
