"""The probability that a model gave to the words it wrote, from its token probabilities.

These words are the names of aspects and, in a contested debate, the polarity or the drop that an
edit asks for.

The confidence that a model states says little: small models copy the number from the examples. The
token probabilities say more: a name with a low probability could have been another name or none.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

from absa.schemas.answers import Answer, Item

PROBABILITY = "name_probability"
WORD_PROBABILITY = "word_probability"
_EDIT = "edit"
_THOUGHTS_END = re.compile(rb"</think(?:ing)?>")


class Named(NamedTuple):
    """The list of an answer whose items have names, and the key of the name.

    Edits have no fixed key: the word depends on the kind of edit (`word_of`).
    """

    items: str
    name: str


@cache
def named(answer: type[Answer]) -> Named | None:
    """The list of an answer whose names get probabilities; None if it has no such list."""
    for items, field in answer.model_fields.items():
        for part in getattr(field.annotation, "__args__", ()):
            if not isinstance(part, type) or not issubclass(part, Item):
                continue
            if part.named_by or part.is_edit:
                return Named(items, part.named_by or _EDIT)
    return None


def with_probabilities(
    output: Mapping[str, Any], answer: type[Answer], tokens: Any
) -> dict[str, Any]:
    """Add the probability of each name to the output, if the server returns token probabilities."""
    where = named(answer)
    items = output.get(where.items) if where else None
    if where is None or not isinstance(items, list):
        return dict(output)
    keys = _WORDS_OF_EDITS if where.name == _EDIT else (where.name,)
    try:
        written = {key: list(_written(tokens or (), key)) for key in keys}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # A failure here only adds a note: the answer itself is still valid.
        written = dict.fromkeys(keys, [])
    return {**output, where.items: list(_weighed(items, where.name, written))}


_WORDS_OF_EDITS = ("op", "value", "polarity")


def word_of(edit: Mapping[str, Any]) -> tuple[str, Any]:
    """The key and the word of an edit that names a polarity or a drop."""
    target = edit.get("target")
    if edit.get("op") == "drop_tuple":
        return "op", "drop_tuple"
    if edit.get("op") == "confirm_tuple" and isinstance(target, Mapping):
        return "polarity", target.get("polarity")
    return "value", edit.get("value") if edit.get("op") == "set_polarity" else None


def _weighed(
    items: Sequence[Any], name: str, written: Mapping[str, Sequence[tuple[str, float]]]
) -> Iterator[Any]:
    """Add a probability to each item whose word was found in the raw answer."""
    begin = dict.fromkeys(written, 0)
    field = WORD_PROBABILITY if name == _EDIT else PROBABILITY
    for item in items:
        if not isinstance(item, Mapping):
            yield item
            continue
        # A probability that the model itself wrote is removed.
        rest = {key: value for key, value in item.items() if key != field}
        key, word = word_of(rest) if name == _EDIT else (name, rest.get(name))
        words = written[key]
        at = next((i for i in range(begin[key], len(words)) if words[i][0] == word), None)
        if at is not None:
            begin[key] = at + 1
            rest[field] = round(words[at][1], 4)
        yield rest


def _written(tokens: Sequence[Mapping[str, Any]], name: str) -> Iterator[tuple[str, float]]:
    """The values of a key in the order of the answer, each with the probability of its tokens.

    Compared in bytes, because a token can hold half a letter. The model's thoughts are skipped.
    """
    pieces = [_bytes_of(token) for token in tokens]
    ends = list(accumulate(map(len, pieces)))
    text = b"".join(pieces)
    thoughts = [match.end() for match in _THOUGHTS_END.finditer(text)]
    value = re.compile(rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*")' % re.escape(name.encode()))
    for match in value.finditer(text, thoughts[-1] if thoughts else 0):
        first, last = bisect_right(ends, match.start(1) + 1), bisect_left(ends, match.end(1) - 1)
        logprob = math.fsum(token["logprob"] for token in tokens[first : last + 1])
        if math.isnan(logprob):
            raise ValueError("a value that is not a valid probability")
        with suppress(ValueError):  # not JSON, so the answer was not read either
            yield json.loads(match[1].decode("utf-8", "replace")), math.exp(min(logprob, 0.0))


def _bytes_of(token: Mapping[str, Any]) -> bytes:
    token_bytes = token.get("bytes")
    return bytes(token_bytes) if isinstance(token_bytes, list) else str(token["token"]).encode()
