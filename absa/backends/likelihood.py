"""How likely a model held the names it wrote, from the probabilities of their tokens.

A model's stated confidence says little: small ones write the number of the examples. What it did
not write says more: a name that had little of the probability might as well have been another
name, or none.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

from schemas.answers import Answer, Item

PROBABILITY = "name_probability"


class Named(NamedTuple):
    """Where an answer lists named things, and under which key each has its name."""

    items: str
    name: str


@cache
def named(answer: type[Answer]) -> Named | None:
    """The list of an answer whose names are to be weighed, if it has one."""
    for items, field in answer.model_fields.items():
        for part in getattr(field.annotation, "__args__", ()):
            if isinstance(part, type) and issubclass(part, Item) and part.named_by:
                return Named(items, part.named_by)
    return None


def with_probabilities(
    output: Mapping[str, Any], answer: type[Answer], tokens: Any
) -> dict[str, Any]:
    """The output with the probability of each name, where the server tells those of its tokens."""
    where = named(answer)
    if where is None or not tokens:
        return dict(output)
    try:
        written = list(_written(tokens, where.name))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # Told in a way of its own: what the model said is worth more than how likely it was.
        return dict(output)
    return {**output, where.items: list(_weighed(output.get(where.items, []), where.name, written))}


def _weighed(
    items: Sequence[Any], name: str, written: Sequence[tuple[str, float]]
) -> Iterator[Any]:
    """The items, those whose name was found among what was written with its probability."""
    begin = 0
    for item in items:
        wanted = item.get(name) if isinstance(item, Mapping) else None
        at = next((i for i in range(begin, len(written)) if written[i][0] == wanted), None)
        if at is None:
            yield item
        else:
            begin = at + 1
            yield {**item, PROBABILITY: round(written[at][1], 4)}


def _written(tokens: Sequence[Mapping[str, Any]], name: str) -> Iterator[tuple[str, float]]:
    """The values of a key in the order of writing, each with the probability of its tokens.

    In bytes: a token may hold half a letter.
    """
    pieces = [bytes(t.get("bytes") or str(t["token"]).encode()) for t in tokens]
    ends = list(accumulate(map(len, pieces)))
    found = re.finditer(
        rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*")' % re.escape(name.encode()), b"".join(pieces)
    )
    for match in found:
        first, last = bisect_right(ends, match.start(1) + 1), bisect_left(ends, match.end(1) - 1)
        said = math.fsum(token["logprob"] for token in tokens[first : last + 1])
        if math.isnan(said):
            raise ValueError("a probability that is none")
        yield json.loads(match[1].decode("utf-8", "replace")), math.exp(min(said, 0.0))
