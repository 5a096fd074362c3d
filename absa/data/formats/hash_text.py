"""The `####` formats: a sentence, `####`, a Python list of tuples. NULL means implicit.

| format       | a tuple                                         |
|--------------|-------------------------------------------------|
| ASTE-Data-V2 | `([aspect words], [opinion words], 'POS')`      |
| ASQP         | `['aspect', 'category', 'positive', 'opinion']` |
| M-ABSA       | `['aspect', 'category', 'positive']`            |

ASTE counts words from 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from absa.data.problems import BadRowError, shown
from absa.data.rows import RawAspect, RawSample
from absa.data.source import Source

SEPARATOR = "####"
NULL = "NULL"
WORD = re.compile(r"\S+")
_LINE = re.compile(r"\S.*####\s*\[.*\]\s*$")
Spans = list[tuple[int, int]]


def looks_like_aste(head: str, source: Source) -> bool:
    """Return whether the tuples of the head are made of word numbers."""
    first = _first_tuple(head)
    return first is not None and len(first) == 3 and isinstance(first[0], list)


def looks_like_asqp(head: str, source: Source) -> bool:
    """Return whether the tuples of the head have four parts."""
    first = _first_tuple(head)
    return first is not None and len(first) == 4


def looks_like_mabsa(head: str, source: Source) -> bool:
    """Return whether the tuples of the head are three words (or there are only empty lists)."""
    first = _first_tuple(head, if_empty=["", "", ""])
    return first is not None and len(first) == 3 and isinstance(first[0], str)


def parse_aste(line: str) -> RawSample:
    """Parse a line of ASTE-Data-V2."""
    text, triplets = _split_line(line)
    spans = word_spans(text)
    aspects = []
    for triplet in triplets:
        if not isinstance(triplet, list | tuple) or len(triplet) != 3:
            what = "a triplet does not have the expected form."
            raise BadRowError(what, "Write ([1, 2], [4], 'POS').")
        start, end = _characters(triplet[0], spans)
        opinion = slice(*_characters(triplet[1], spans))
        aspects.append(RawAspect(text[start:end], start, end, triplet[2], text[opinion]))
    return RawSample(text=text, aspects=aspects)


def parse_asqp(line: str) -> RawSample:
    """Parse a line of ASQP."""
    return _with_words(line, ["aspect", "category", "positive", "opinion"])


def parse_mabsa(line: str) -> RawSample:
    """Parse a line of M-ABSA."""
    return _with_words(line, ["aspect", "category", "positive"])


def _with_words(line: str, form: list[str]) -> RawSample:
    """Parse a line whose tuples have these parts."""
    text, items = _split_line(line)
    aspects = []
    for item in items:
        if not isinstance(item, list | tuple) or len(item) != len(form):
            raise BadRowError("a tuple does not have the expected form.", f"Write {form}.")
        aspect, category, polarity, *opinion = item
        aspects.append(
            RawAspect(
                term=none_if_null(aspect),
                polarity=polarity,
                opinion=none_if_null(opinion[0]) if opinion else None,
                category=category,
                search=True,
            )
        )
    return RawSample(text=text, aspects=aspects)


def none_if_null(value: object) -> object:
    """Return None for NULL, which means implicit in these formats."""
    return None if isinstance(value, str) and value.strip().upper() == NULL else value


def word_spans(text: str) -> Spans:
    """Return where the words of a tokenised sentence begin and end."""
    return [word.span() for word in WORD.finditer(text)]


def _split_line(line: str) -> tuple[str, list[object]]:
    """Return the sentence and the list behind it, or raise `BadRowError`."""
    sentence, separator, gold = line.rpartition(SEPARATOR)
    if not separator:
        raise BadRowError("the line does not contain ####.", "Write sentence####[tuples].")
    no_list = BadRowError("what follows #### is not a list.", "Write sentence####[tuples].")
    try:
        items = ast.literal_eval(gold.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise no_list from error
    if not isinstance(items, list):
        raise no_list
    return sentence, items


def _first_tuple(head: str, if_empty: list[object] | None = None) -> list[object] | None:
    """Return the first gold tuple of a head with lines of this kind; None for another format."""
    if not any(_LINE.search(line) for line in head.splitlines()):
        return None
    first = next(_tuples(head), if_empty)
    return list(first) if isinstance(first, tuple | list) else None


def _tuples(head: str) -> Iterator[object]:
    """Yield the gold tuples of the lines of the head that can be read."""
    for line in head.splitlines():
        try:
            yield from _split_line(line)[1]
        except BadRowError:
            continue


def _characters(words: object, spans: Spans) -> tuple[int, int]:
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
