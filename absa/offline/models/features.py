"""What the aspect tagger looks at: for each token of a text the names of its features.

Features of a word alone are made once and kept; what is made for every text is how the word stands
in it: its neighbours, the opinions of its clause, and the domain where one is given.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from absa.offline.models import folder
from absa.offline.text import english
from absa.offline.text.annotations import CONTRAST, Token, View

_REACH = (-2, -1, 1, 2)
_EDGE = "^"
#: Korean morphemes that make up noun phrases.
_NOUNS = frozenset({"NNG", "NNP", "SL", "XR", "NNB", "XSN", "SN", "NR", "SH"})
_PREDICATES = frozenset({"VV", "VA", "XR", "XSA", "VCN"})
_MAX_WORD = 40


class Word(NamedTuple):
    """A word as features: its own, those it lends its neighbours, and the path of its class."""

    stem: str
    tag: str
    own: tuple[str, ...]
    around: Mapping[int, tuple[str, ...]]
    path: str = ""


_NOTHING = Word(_EDGE, _EDGE, (), {k: (f"w{k}={_EDGE}", f"t{k}={_EDGE}") for k in _REACH})


class Places(NamedTuple):
    """Where opinions stand, seen from each token: signs, and distances within the clause."""

    sign: list[str]
    left: list[int]
    right: list[int]
    clause: list[int]
    judged_clauses: int


def features(view: View) -> list[list[str]]:
    """The features of each token of a text."""
    places = places_of(view)
    domain = _written(view.domain) if view.domain else None
    if view.lang == "ko":
        return _korean(view, places, domain)
    return _english(view, places, domain)


@cache
def word_classes() -> Mapping[str, tuple[int, str]]:
    """English words with the number of their distributional class and their usual tag."""
    content = io.BytesIO(folder.shipped().read("words_en.json.gz"))
    with gzip.open(content, "rt", encoding="utf-8") as f:
        table: dict[str, tuple[int, str]] = json.load(f)
    return table


def _look_up(word: str) -> tuple[int, str]:
    table = word_classes()
    entry = table.get(word)
    if entry is not None:
        return entry
    for form in english.base_forms(word)[1:]:
        entry = table.get(form)
        if entry is not None:
            plural = word.endswith("s") and entry[1] == "NN"
            return entry[0], "NNS" if plural else entry[1]
    if "-" in word:
        return _look_up(word.rsplit("-", 1)[1])
    for ending, tag in (("s", "NNS"), ("ing", "VBG"), ("ed", "VBD"), ("ly", "RB")):
        if word.endswith(ending):
            return 0, tag
    return 0, "?"


def _written(word: str) -> str:
    """The word with half characters replaced: a feature's name must be valid UTF-8."""
    return word.encode("utf-8", "replace").decode("utf-8")


def shape_of(form: str) -> str:
    """How a word is written: capitals, digits, letters, signs."""
    if form.isupper():
        return "AA" if len(form) > 1 else "A"
    if form[:1].isupper():
        return "Aa"
    if form[:1].isdigit():
        return "9"
    return "a" if form[:1].isalpha() else "."


@lru_cache(maxsize=30_000)
def _english_word(form: str, lemma: str, kind: str) -> Word:
    word = _written(lemma.lower()[:_MAX_WORD])
    number, tag = _look_up(word) if kind == "W" else (0, kind)
    stem = word
    if tag == "NNS":
        stem = next((form for form in english.base_forms(word)[1:] if form in word_classes()), word)
    # The classes are leaves of a binary tree, the path to the root in the lowest bits first.
    path = bin(number)[:1:-1] if number else ""
    own = [f"w={word}", f"l={stem}", f"s={shape_of(form)}", f"t={tag}"]
    if kind == "W":
        own += [f"x2={word[-2:]}", f"x3={word[-3:]}", f"x4={word[-4:]}", f"p3={word[:3]}"]
    if path:
        own += [f"c={path}", f"c4={path[:4]}", f"c6={path[:6]}", f"c10={path[:10]}"]
    around = {}
    for k in _REACH:
        lent = [f"w{k}={stem}", f"t{k}={tag}"]
        around[k] = tuple([*lent, f"c{k}={path}", f"d{k}={path[:6]}"] if path else lent)
    return Word(stem, tag, tuple(own), around, path)


@lru_cache(maxsize=30_000)
def _korean_word(form: str, lemma: str, tag: str) -> Word:
    word, stem = _written(form.lower()[:_MAX_WORD]), _written(lemma.lower()[:_MAX_WORD])
    own = [f"w={word}", f"l={stem}", f"t={tag}", f"n={min(len(word), 6)}"]
    if len(word) > 1:
        own += [f"x1={word[-1]}", f"p1={word[0]}"]
    if len(word) > 2:
        own += [f"x2={word[-2:]}", f"p2={word[:2]}"]
    around = {k: (f"w{k}={stem}", f"t{k}={tag}") for k in _REACH}
    return Word(stem, tag, tuple(own), around)


def word_of(token: Token, lang: str) -> Word:
    """A token as features of its own."""
    make = _korean_word if lang == "ko" else _english_word
    return make(token.form, token.lemma, token.tag)


def places_of(view: View) -> Places:
    """Where the opinions of a text stand, seen from each of its tokens."""
    size = len(view.tokens)
    sign = [""] * size
    for opinion in view.opinions:
        if not opinion.weak:
            for index in range(opinion.first, opinion.last):
                sign[index] = "+" if opinion.score > 0 else "-"
    clause = [0] * size
    for number, part in enumerate(view.clauses):
        clause[part.first : part.last] = [number] * (part.last - part.first)
    left, right = [0] * size, [0] * size
    for distances, order in ((left, range(size)), (right, range(size - 1, -1, -1))):
        last = before = -1
        for index in order:
            if before >= 0 and clause[index] != clause[before]:
                last = -1
            distances[index] = abs(index - last) if last >= 0 else 0
            if sign[index]:
                last = index
            before = index
    return Places(sign, left, right, clause, len({clause[i] for i in range(size) if sign[i]}))


def _distance(tokens: int) -> str:
    if tokens < 4:
        return str(tokens)
    return "4-6" if tokens < 7 else "7-12" if tokens < 13 else "far"


def _shared(words: Sequence[Word], places: Places, domain: str | None, index: int) -> list[str]:
    """Features of a token in its text that both languages have."""
    size = len(words)
    word = words[index]
    before = words[index - 1] if index else _NOTHING
    after = words[index + 1] if index + 1 < size else _NOTHING
    features = list(word.own)
    for k in _REACH:
        at = index + k
        inside = 0 <= at < size
        features += (words[at] if inside else _NOTHING).around[k]
        if inside and places.sign[at]:
            features.append(f"o{k}={places.sign[at]}")
    first = words[index - 2].tag if index > 1 else _EDGE
    last = words[index + 2].tag if index + 2 < size else _EDGE
    sign, left, right = places.sign[index], places.left[index], places.right[index]
    judged = 1 if sign or left or right else 0
    features += (
        f"tt-={before.tag}|{word.tag}",
        f"tt+={word.tag}|{after.tag}",
        f"ttt={before.tag}|{word.tag}|{after.tag}",
        f"tt--={first}|{before.tag}|{word.tag}",
        f"tt++={word.tag}|{after.tag}|{last}",
        f"ww-={before.stem}|{word.stem}",
        f"ww+={word.stem}|{after.stem}",
        f"o={sign}",
        f"L={_distance(left)}",
        f"R={_distance(right)}",
        f"j|l={judged}{word.stem}",
        f"j|t={judged}{word.tag}",
        f"js|t={min(places.judged_clauses, 3)}{word.tag}",
        f"size|t={min(size // 8, 5)}{word.tag}",
    )
    if not index:
        features.append("first")
    if domain:
        features += (
            f"D={domain}",
            f"D|l={domain}|{word.stem}",
            f"D|t={domain}|{word.tag}",
            f"D|j={domain}|{judged}{word.tag}",
        )
    return features


def _english(view: View, places: Places, domain: str | None) -> list[list[str]]:
    words = [word_of(token, "en") for token in view.tokens]
    contrast = any(clause.link == CONTRAST for clause in view.clauses)
    rows = []
    for index, word in enumerate(words):
        row = _shared(words, places, domain, index)
        row.append(f"but|t={contrast:d}{word.tag}")
        if domain and word.path:
            row.append(f"D|c={domain}|{word.path}")
        rows.append(row)
    return rows


def _korean(view: View, places: Places, domain: str | None) -> list[list[str]]:
    tokens, size = view.tokens, len(view.tokens)
    words = [word_of(token, "ko") for token in tokens]
    spaced = [not i or tokens[i - 1].end < tokens[i].start for i in range(size)] + [True]
    predicates = _predicates(words, places.clause)
    rows = [_shared(words, places, domain, index) for index in range(size)]
    for first, last in _noun_runs(tokens):
        particle = _EDGE
        if last < size:
            particle = (
                f"_{words[last].tag}" if spaced[last] else f"{words[last].stem}/{words[last].tag}"
            )
        for index in range(first, last):
            place = f"{min(last - first, 5)}/{min(last - index, 5)}"
            predicate = predicates[index]
            rows[index] += (
                f"part={particle}",
                f"part|l={particle}|{words[index].stem}",
                f"run={place}",
                f"run|s={place}{spaced[index]:d}{spaced[index + 1]:d}",
                f"head={words[last - 1].stem}",
                f"pred={predicate}",
                f"pred|part={predicate}|{particle}",
            )
            if domain:
                rows[index].append(f"D|part={domain}|{particle}")
    for index, row in enumerate(rows):
        space = f"{spaced[index]:d}{spaced[index + 1]:d}"
        before = words[index - 1].tag if index else _EDGE
        after = words[index + 1].tag if index + 1 < size else _EDGE
        row += (f"s={space}", f"s|t={space}{before}|{words[index].tag}|{after}")
    return rows


def _noun_runs(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    first = -1
    for index, token in enumerate(tokens):
        if token.tag not in _NOUNS:
            first = -1
        elif first < 0:
            first = index
            runs.append((index, index + 1))
        else:
            runs[-1] = (first, index + 1)
    return runs


def _predicates(words: Sequence[Word], clause: Sequence[int]) -> list[str]:
    """For each token the next predicate of its clause: what is said of a subject."""
    predicates = [""] * len(words)
    following = ""
    for index in range(len(words) - 1, -1, -1):
        after = words[index + 1] if index + 1 < len(words) else _NOTHING
        if after is not _NOTHING and clause[index] != clause[index + 1]:
            following = ""
        predicates[index] = following
        tag = words[index].tag
        if tag in _PREDICATES or (tag in ("NNG", "MAG") and after.tag in ("XSA", "XSV")):
            following = words[index].stem
    return predicates
