"""Code shared by the `####` formats: a sentence, `####`, a Python list of tuples."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from absa.data.problems import BadRowError

SEPARATOR = "####"
NULL = "NULL"
WORD = re.compile(r"\S+")


def split_line(text: str) -> tuple[str, list[object]]:
    """Return the sentence and the list behind it, or raise `BadRowError`."""
    sentence, separator, gold = text.rpartition(SEPARATOR)
    if not separator:
        raise BadRowError("the line does not contain ####.", "Write sentence####[tuples].")
    try:
        items = ast.literal_eval(gold.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadRowError(
            "what follows #### is not a list.", "Write sentence####[tuples]."
        ) from error
    if not isinstance(items, list):
        raise BadRowError("what follows #### is not a list.", "Write sentence####[tuples].")
    return sentence, items


def tuples_in(head: str) -> Iterator[object]:
    """Yield the gold tuples of the lines of the head that can be read."""
    for line in head.splitlines():
        try:
            yield from split_line(line)[1]
        except BadRowError:
            continue


def looks_like_hash_text(head: str) -> bool:
    """Return whether a line of the head has a sentence and a list."""
    return any(re.search(r"\S.*####\s*\[.*\]\s*$", line) for line in head.splitlines())


def none_if_null(value: object) -> object:
    """Return None for NULL, which means implicit in these formats."""
    return None if isinstance(value, str) and value.strip().upper() == NULL else value


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return where the words of a tokenised sentence begin and end."""
    return [word.span() for word in WORD.finditer(text)]
