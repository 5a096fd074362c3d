"""The category set: the user's list, a shipped set, or the categories of the data.

A category is valid if it is in the set. Case and the separator of its parts (`FOOD#QUALITY`, `food
quality`) do not matter. An invalid category is counted, and its tuple has no category.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from absa.nodes import assets
from absa.schemas.errors import InputError
from absa.schemas.settings import FROM_DATA, SHIPPED_CATEGORIES, PipelineSettings

_SEPARATORS = re.compile(r"[\s#_]+")


def spelling(category: str) -> str:
    """The normalised spelling of a category."""
    return _SEPARATORS.sub(" ", category.strip()).casefold()


@dataclass(frozen=True)
class CategorySet:
    """Categories with their display names."""

    names: tuple[str, ...]

    def find(self, word: str | None) -> str | None:
        """The category that a word spells; None if it is not in the set."""
        return _by_spelling(self.names).get(spelling(word)) if word else None

    def glosses(self, lang: str) -> dict[str, str]:
        """The meaning of each category, in Korean for Korean texts; empty without a gloss."""
        shipped = _known_glosses("ko" if lang == "ko" else "en")
        return {name: shipped.get(spelling(name), "") for name in self.names}


@lru_cache(maxsize=64)
def _by_spelling(names: tuple[str, ...]) -> dict[str, str]:
    return {spelling(name): name for name in reversed(names)}


def categories_of(pipeline: PipelineSettings) -> CategorySet | None:
    """The category set of the settings; None without one."""
    chosen = pipeline.categories
    if chosen == FROM_DATA:
        raise InputError(
            "categories: from_data needs a data file with gold, which this command does not have; "
            "list the categories or name a shipped set: " + ", ".join(SHIPPED_CATEGORIES)
        )
    if isinstance(chosen, str):
        return shipped(chosen)
    return CategorySet(chosen) if chosen else None


@lru_cache(maxsize=16)
def shipped(name: str) -> CategorySet:
    """A shipped set by its name."""
    return CategorySet(tuple(_pairs(name)))


def _pairs(name: str) -> dict[str, tuple[str, str]]:
    raw = assets.read_json(f"categories/{name}.json")
    return {
        f"{entity}{raw['separator']}{attribute}": (entity, attribute)
        for entity, attributes in raw["categories"].items()
        for attribute in attributes
    }


@lru_cache(maxsize=2)
def _known_glosses(lang: str) -> dict[str, str]:
    """The glosses of all shipped sets by spelling; the first set that has a category counts."""
    by_name: dict[str, str] = {}
    for name in SHIPPED_CATEGORIES:
        raw = assets.read_json(f"categories/{name}.json")
        for category, (entity, attribute) in _pairs(name).items():
            gloss = f"{raw['entities'][entity][lang]}: {raw['attributes'][attribute][lang]}"
            by_name.setdefault(spelling(category), gloss)
    return by_name


def from_gold(categories: Iterable[str | None]) -> tuple[str, ...]:
    """The categories of a data set's gold, in a fixed order, each in its first spelling."""
    names: dict[str, str] = {}
    for category in categories:
        if category and category.strip():
            names.setdefault(spelling(category), category.strip())
    return tuple(sorted(names.values()))
