"""What the analyzer knows about one text: tokens, clauses, opinions, aspects, readings.

An :class:`Analysis` is the seam of the package. It is computed once per text, is never changed
afterwards, and every role reads it through its own lens. Another analyzer has to produce the same
value and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Made = TypeVar("Made")

POSITIVE = "positive"
NEGATIVE = "negative"
NEUTRAL = "neutral"
MIXED = "mixed"

#: P(positive), P(negative), P(neutral).
Probabilities = tuple[float, float, float]

#: How a clause is joined to the one before it.
SENTENCE = "sentence"
CONTRAST = "contrast"
ADDITIVE = "additive"


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a morpheme: its dictionary form, its tag and its place in the text.

    Tags are Kiwi's for Korean text; English text knows ``W`` (word), ``NUM``, ``NEG`` (n't),
    ``EMO`` (emoticon or emoji) and ``P`` (punctuation).
    """

    form: str
    lemma: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Clause:
    """A run of tokens ``[first, last)`` that makes one statement."""

    first: int
    last: int
    start: int
    end: int
    link: str
    sentence: int


@dataclass(frozen=True, slots=True)
class Opinion:
    """An expression of opinion; ``score`` is in [-1, 1] with negation already applied."""

    term: str
    start: int
    end: int
    first: int
    last: int
    clause: int
    score: float
    negated: bool = False
    attributive: bool = False
    weak: bool = False


def _nothing() -> npt.NDArray[np.float32]:
    return np.zeros((0, 0), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What the encoder says about a text.

    Attributes:
        first: The character where each token begins.
        pieces: Where the pieces of each token begin, and where the last one ends.
        tags: For each token the probabilities of the aspect tags.
        polarities: For each piece its scores for the polarity of an aspect that it is part of.
        labels: P(positive), P(negative), P(neutral), P(mixed) of the text as a whole.
        unnamed: How likely the text judges something that it does not name: positively, negatively,
            as neither.
        category_names: The categories, each after its domain. Empty where the encoder gives none:
            it knows no categories, or (Korean) not the domain of the text. The next two are
            empty then, too.
        categories: For each piece its scores for the category of an aspect that it is part of.
        text_categories: The scores for the category of what the text judges without a name.
    """

    first: tuple[int, ...]
    pieces: tuple[int, ...]
    tags: npt.NDArray[np.float32]
    polarities: npt.NDArray[np.float32]
    labels: tuple[float, ...]
    unnamed: tuple[float, ...]
    category_names: tuple[tuple[str, str], ...] = ()
    categories: npt.NDArray[np.float32] = field(default_factory=_nothing)
    text_categories: npt.NDArray[np.float32] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, eq=False)
class CategoryScores:
    """What the encoder says about the categories of a text.

    Attributes:
        names: The categories it knows, each after its domain.
        aspects: Their scores for the aspects at these characters.
        text: Their scores for what the text judges without a name.
    """

    names: tuple[tuple[str, str], ...]
    aspects: Mapping[tuple[int, int], npt.NDArray[np.float32]]
    text: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The surface of a text, before any aspect is looked for: what the learned models read.

    ``negators`` are token indices; ``domain`` is the one of the input, if any. Views are
    compared by identity, so that what is computed from one can be kept beside it cheaply.
    """

    text: str
    lang: str
    tokens: tuple[Token, ...] = ()
    clauses: tuple[Clause, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    negators: tuple[int, ...] = ()
    used_negators: frozenset[int] = frozenset()
    domain: str | None = None
    #: What the encoder says, in languages that have one.
    encoded: Encoded | None = None
    #: What was computed of the text, for a text that is read twice; pieces of it share this.
    memo: dict[Hashable, Any] | None = None

    def once(self, key: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
        """What `make` returns, computed once for these tokens; it stays unchanged."""
        if self.memo is None:
            return make()
        full = (*key, self.tokens[0].start, len(self.tokens))
        if full not in self.memo:
            self.memo[full] = make()
        made: Made = self.memo[full]
        return made


@dataclass(frozen=True, slots=True)
class Aspect:
    """Words that may name an aspect; ``term_probability`` is how likely exactly these words do."""

    term: str
    start: int
    end: int
    first: int
    last: int
    clause: int
    term_probability: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What the text says about one aspect, seen through one lens."""

    polarity: str
    score: float
    confidence: float
    evidence_start: int
    evidence_end: int
    opinion: Opinion | None = None
    support: tuple[Opinion, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """An aspect the analyzer stands for, with its readings by lens and how sure it is of it."""

    aspect: Aspect
    confidence: float
    clause_reading: Reading
    nearest_reading: Reading
    #: The other polarities, each with the probability that the tuple with it is right.
    alternatives: tuple[tuple[str, float], ...] = ()
    #: The second reading, by all readers of the language together.
    second_reading: Reading | None = None
    #: For each polarity how likely the tuple with it is right, by the second reading.
    likely: Probabilities = (0.0, 0.0, 0.0)
    #: The polarity that the second reading stands for; None where it reports no such aspect.
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything known about a text. Shared between roles and threads, hence immutable."""

    text: str
    lang: str
    tokens: tuple[Token, ...] = ()
    clauses: tuple[Clause, ...] = ()
    negators: tuple[int, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    findings: tuple[Finding, ...] = ()
    #: Plausible aspects below the bar of the first stage: what a second look may add.
    reserve: tuple[Finding, ...] = ()
    #: What the text says as a whole, where no aspect is named and that is to be reported.
    overall: Reading | None = None
    #: P(positive), P(negative), P(neutral) of the text as a whole.
    mood: Probabilities | None = None
    #: The likeliest label of the text as a whole with its probability, in a language with a reader
    #: of labels.
    label: tuple[str, float] | None = None
    #: How likely the encoder takes the text to judge something that it does not name: positively,
    #: negatively, as neither. Empty where no encoder counts for the aspects of the text.
    unnamed: tuple[float, ...] = ()
    #: None where the encoder gives no categories for this text.
    category_scores: CategoryScores | None = field(default=None, compare=False)
    used_negators: frozenset[int] = field(default_factory=frozenset)
    #: Whether the models were trained on texts of this domain.
    knows_domain: bool = False
