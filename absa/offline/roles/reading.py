"""Reading what other agents said: plain JSON of unknown shape in, clean values out."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE

Item = Mapping[str, Any]
POLARITIES = (POSITIVE, NEGATIVE, NEUTRAL)


def mapping(value: Any) -> Item:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Item]:
    """The JSON objects of a list; anything else is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def word(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: float = 0.5) -> float:
    """A confidence in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return default
    return min(1.0, max(0.0, float(value)))


def polarity(value: Any) -> str | None:
    """A canonical polarity, or nothing."""
    name = word(value).strip().lower()
    return name if name in POLARITIES else None


# Every agent of a debate looks up the same few terms.
@lru_cache(maxsize=4096)
def key(term: str) -> str:
    """What two spellings of an aspect term share: letters and digits in lower case."""
    folded = unicodedata.normalize("NFC", term).lower()
    return "".join(
        char
        for char in folded
        if not char.isspace() and not unicodedata.category(char).startswith("P")
    )


def target(edit: Item) -> str:
    """The term an edit speaks of."""
    about = mapping(edit.get("target"))
    return word(about.get("aspect_ref")) or word(about.get("aspect_term"))


def said(edit: Item) -> str | None:
    """The polarity an edit speaks for, if it speaks for one."""
    if edit.get("op") == "set_polarity":
        return polarity(edit.get("value"))
    if edit.get("op") == "confirm_tuple":
        return polarity(mapping(edit.get("target")).get("polarity"))
    return None


def sentiments(stage1: Any) -> list[Item]:
    """The Stage 1 sentiments that name an aspect and a valid polarity."""
    return [
        item
        for item in items(mapping(stage1).get("sentiments"))
        if word(item.get("aspect_term")) and polarity(item.get("polarity"))
    ]


def terms(stage1: Any) -> list[str]:
    """The Stage 1 aspect terms, in order, each once."""
    found: dict[str, str] = {}
    for item in items(mapping(stage1).get("aspects")):
        term = word(item.get("term"))
        if term:
            found.setdefault(key(term), term)
    for item in sentiments(stage1):
        found.setdefault(key(item["aspect_term"]), item["aspect_term"])
    return list(found.values())


def edits(history: Any) -> list[tuple[str, Item]]:
    """All edits of a debate so far, with their speakers."""
    return [
        (word(turn.get("agent")), edit)
        for turn in items(history)
        for edit in items(turn.get("proposed_edits"))
    ]
