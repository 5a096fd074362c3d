"""What the Korean encoder sees of a text: numbers for each morpheme."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from absa.offline.text.annotations import ADDITIVE, CONTRAST, SENTENCE, Token, View

#: The number of buckets that pieces of syllables are hashed to; 0 stands for nothing.
BUCKETS = 16_384
#: The largest number of pieces of a morpheme.
GRAMS = 7
#: The domains that data sets name; any other one is 0.
DOMAINS = ("", "food", "hotel", "laptop", "restaurant")
_LINKS = (SENTENCE, CONTRAST, ADDITIVE)
FACTS = 8 + len(_LINKS)

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Inputs:
    """A text of `n` morphemes.

    Attributes:
        names: The name of each morpheme: what it is in the table of words.
        grams: n x GRAMS numbers of pieces of syllables.
        facts: n x FACTS measures: the lexicon's opinions, negators, spaces, where clauses begin.
        clauses: The number of each morpheme's clause.
        domain: The number of the domain.
    """

    names: list[str]
    grams: Numbers
    facts: Floats
    clauses: Numbers
    domain: int


def name_of(form: str, tag: str) -> str:
    """The name of a morpheme in the table of words."""
    return f"{form}/{tag}"


def inputs_of(view: View) -> Inputs:
    """The numbers of a text."""
    size = len(view.tokens)
    grams = np.zeros((size, GRAMS), np.int64)
    for row, token in enumerate(view.tokens):
        for column, gram in zip(range(GRAMS), _grams(token), strict=False):
            grams[row, column] = 1 + zlib.crc32(gram.encode("utf-8", "surrogatepass")) % BUCKETS
    clauses = np.zeros(size, np.int64)
    facts = np.zeros((size, FACTS), np.float32)
    for number, clause in enumerate(view.clauses):
        clauses[clause.first : clause.last] = number
        if clause.first < size and clause.link in _LINKS:
            facts[clause.first, 8 + _LINKS.index(clause.link)] = 1.0
    for opinion in view.opinions:
        column = 2 * opinion.weak + (opinion.score < 0)
        facts[opinion.first : opinion.last, column] = abs(opinion.score)
        facts[opinion.first : opinion.last, 4] = opinion.attributive
    for index in view.negators:
        facts[index, 5 if index in view.used_negators else 6] = 1.0
    for index in range(1, size):
        facts[index, 7] = view.tokens[index - 1].end < view.tokens[index].start
    domain = view.domain or ""
    return Inputs(
        [name_of(token.form, token.tag) for token in view.tokens],
        grams,
        facts,
        clauses,
        DOMAINS.index(domain) if domain in DOMAINS else 0,
    )


def _grams(token: Token) -> Iterator[str]:
    """Pieces of a morpheme: its tag, its form, its beginning and end, and pairs in between."""
    form = token.form
    yield f"/{token.tag}"
    yield f"^{form}$"
    yield f"^{form[:1]}"
    yield f"{form[-1:]}$"
    for start in range(len(form) - 1):
        yield form[start : start + 2]
