"""Reads values of damaged files and formats them for messages."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absa.schemas.answers import name_of
from absa.schemas.output import AspectTuple
from absa.schemas.records import Correction

_SHOWN = 3
TOLERANCE = 1e-9


def differing(
    one: Any, other: Any, path: str = "", *, known_only: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """The differences of two JSON values as (path, one, other). Numbers within 1e-9 are equal.

    With `known_only`, keys that `one` does not have are ignored.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one if known_only else dict.fromkeys([*one, *other]):
            here = f"{path}.{key}" if path else str(key)
            yield from differing(one.get(key), other.get(key), here, known_only=known_only)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other) or all(
            isinstance(x, dict) and len(x) == 2 for x in [*one, *other]
        ):
            if list(one) != list(other):
                yield path, one, other
            return
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}[{number}]", known_only=known_only)
    elif _is_number(one) and _is_number(other):
        if not math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield path, one, other
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield path, one, other


def compared(recorded: Any, made: Any, source: str, *, known_only: bool = False) -> list[str]:
    """The differences of two JSON values in words; `source` names what gives the second value."""
    return [
        f"{path} is {shown(one)}, {source} {shown(other)}"
        for path, one, other in differing(recorded, made, known_only=known_only)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value in few words."""
    tuples = value if isinstance(value, list) else []
    if tuples and all(
        isinstance(t, dict) and t.keys() >= {"aspect_term", "polarity"} for t in tuples
    ):
        return " + ".join(
            f"{name_of(t['aspect_term'], t.get('category'))}/{t['polarity']}" for t in tuples
        )
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"


def judgement(category: str | None, polarity: str) -> str:
    """The judgement of an aspect: its polarity, with the category if a set is in force."""
    return f"{category}: {polarity}" if category else polarity


def tuples_in(tuples: Iterable[AspectTuple]) -> str:
    """Tuples in a line."""
    return " + ".join(f"{t.name}/{judgement(t.category, t.polarity)}" for t in tuples) or "none"


def pairs_in(pairs: Iterable[tuple[str, str]]) -> str:
    """Keys and polarities in a line."""
    return " + ".join(f"{key}/{polarity}" for key, polarity in sorted(pairs)) or "none"


def some_of(words: Sequence[str], comma: str = ", ") -> str:
    """The first few items, and the number of the others."""
    more = len(words) - _SHOWN
    return comma.join(words[:_SHOWN]) + (f"{comma}and {more} more" if more > 0 else "")


def often(number: int) -> str:
    """A count in words."""
    return {0: "not", 1: "once", 2: "twice"}.get(number, f"{number} times")


def named(c: Correction) -> str:
    """A correction by source, kind and target."""
    return f"{c.source} {c.proposal_type} of {c.target_aspect!r}"


def call_key(call: Mapping[str, Any]) -> tuple[str, int]:
    """Node and turn of a recorded call."""
    return str(call.get("node")), number_of(call.get("turn"))


def call_name(key: tuple[str, int]) -> str:
    """A call, for messages."""
    return f"{key[0]} (turn {key[1]})" if key[1] else key[0]


def digest_of(value: Any) -> bytes:
    """A short hash of a value."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number_of(value: Any) -> int:
    """The value if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def numbers_of(value: Any) -> list[int]:
    """The whole numbers of a list."""
    return [v for v in value if isinstance(v, int)] if isinstance(value, list) else []


def text_of(value: Any) -> str | None:
    """The value as text, None for none."""
    return str(value) if value is not None else None


def word_of(value: Any) -> str | None:
    """A word as agents' answers are read: of a list the first string."""
    if isinstance(value, list):
        value = next((v for v in value if isinstance(v, str)), None)
    return str(value) if value is not None else None
