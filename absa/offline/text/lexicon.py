"""The word lists of a language, read once from ``resources/lexicons/<lang>.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from absa.nodes.assets import OwnFiles, own_files, read_json, using

Phrase = tuple[tuple[str, ...], float]


@dataclass(frozen=True)
class Lexicon:
    """Opinion words with scores in [-1, 1], aspect words with percentages, function words."""

    opinions: Mapping[str, float]
    #: Word sequences by their first word, longest first.
    phrases: Mapping[str, tuple[Phrase, ...]]
    #: Words whose score depends on the noun they speak of: word -> noun -> score.
    context: Mapping[str, Mapping[str, float]]
    #: Nouns (word sequences by their first word) that are good or bad by being there.
    presence: Mapping[str, tuple[Phrase, ...]]
    #: Verbs that say that something is absent or gets less.
    absence: frozenset[str]
    #: Spellings of haste and what they stand for, of the same length.
    spellings: Mapping[str, str]
    #: How often (0..1) a word, where it occurs, is part of an aspect term.
    aspect_words: Mapping[str, float]
    emotions: Mapping[str, float]
    negators: frozenset[str]
    contrast: frozenset[str]
    additive: frozenset[str]
    function_words: frozenset[str]
    intensifiers: Mapping[str, float]
    irony: tuple[str, ...]
    synonyms: tuple[frozenset[str], ...]
    #: The opinion words and phrases that a user's own lexicon adds or changes.
    own: frozenset[str] = frozenset()


def _phrases(raw: Mapping[str, float]) -> dict[str, tuple[Phrase, ...]]:
    by_first: dict[str, list[Phrase]] = {}
    for phrase, score in raw.items():
        words = tuple(phrase.split())
        by_first.setdefault(words[0], []).append((words, score))
    return {
        first: tuple(sorted(group, key=lambda item: (-len(item[0]), item[0])))
        for first, group in by_first.items()
    }


def parse(raw: Mapping[str, Any]) -> Lexicon:
    """Build a lexicon from the decoded JSON file."""
    return Lexicon(
        opinions=raw["opinions"],
        phrases=_phrases(raw["phrases"]),
        context=raw["context"],
        presence=_phrases(raw.get("presence", {})),
        absence=frozenset(raw.get("absence", ())),
        spellings=raw.get("spellings", {}),
        aspect_words={word: share / 100 for word, share in raw["aspect_words"].items()},
        emotions=raw["emotions"],
        negators=frozenset(raw["negators"]),
        contrast=frozenset(raw["contrast"]),
        additive=frozenset(raw["additive"]),
        function_words=frozenset(raw["function_words"]),
        intensifiers=raw["intensifiers"],
        irony=tuple(raw["irony"]),
        synonyms=tuple(frozenset(group) for group in raw["synonyms"]),
    )


def lexicon(lang: str) -> Lexicon:
    """The lexicon of ``ko`` or ``en``."""
    return _lexicon(lang, own_files())


@lru_cache(maxsize=16)
def _lexicon(lang: str, files: OwnFiles) -> Lexicon:
    name = f"lexicons/{lang}.json"
    with using(files):
        raw = read_json(name)
    with using(OwnFiles()):
        shipped = read_json(name)
    own = _scores(raw).items() - _scores(shipped).items()
    return replace(parse(raw), own=frozenset(word for word, _ in own))


def _scores(raw: Mapping[str, Any]) -> dict[str, float]:
    return {**raw["opinions"], **raw["phrases"]}
