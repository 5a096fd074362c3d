"""Which opinion speaks of which aspect, what they add up to, and the words for what was learned."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from absa.offline.stopping import watched
from absa.offline.text.annotations import (
    ADDITIVE,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Aspect,
    Clause,
    Opinion,
    Probabilities,
    Reading,
    Token,
    View,
)
from absa.offline.text.lexicon import lexicon

_NEUTRAL_BAND = 0.06
#: Share of an opinion that reaches an aspect in the next clause, and past a modified noun.
_NEXT_CLAUSE = 0.4
_CLAIMED = 0.15
#: What is left of it beyond each other aspect that stands between.
_BEYOND = 0.45
#: From this probability of neutral on a text judges nothing.
_NOTHING_SAID = 0.8
#: What a full score of the rules adds to a learned log-probability.
_BACKING = 1.5
#: The same for words of the user's own lexicon, which no model has learned.
OWN_WORDS = 3.0
#: A letter of a word; the single consonants and vowels of ㅋㅋ are none.
_WORDS = re.compile(r"[^\W\d_ㄱ-ㅣ]")
_CLAUSE = attrgetter("clause")
_JOINING = frozenset({",", "and", "or", "&", "the", "a", "an", "및", "그리고", "와", "과", "하고"})


def polarity_of(score: float) -> str:
    """The word for a score; close to zero is neutral."""
    if score > _NEUTRAL_BAND:
        return POSITIVE
    return NEGATIVE if score < -_NEUTRAL_BAND else NEUTRAL


def _confidence(score: float, conflict: bool) -> float:
    value = 0.5 + 0.45 * min(1.0, abs(score))
    return round(value - 0.15 if conflict else value, 3)


def claims(
    tokens: Sequence[Token],
    aspects: Sequence[Aspect],
    opinions: Sequence[Opinion],
    lang: str,
    function_words: frozenset[str],
) -> dict[int, int]:
    """Opinions that modify a noun belong to it: opinion index -> aspect index."""
    firsts = [aspect.first for aspect in aspects]
    claimed: dict[int, int] = {}
    for number, opinion in watched(enumerate(opinions)):
        if opinion.weak:
            continue
        at = bisect_left(firsts, opinion.last)
        if at >= len(aspects) or aspects[at].clause != opinion.clause:
            continue
        gap = tokens[opinion.last : aspects[at].first]
        if lang == "ko":
            if (
                len(gap) <= 4
                and opinion.attributive
                and not any(token.tag in ("NNG", "NNP") for token in gap)
            ):
                claimed[number] = at
        elif len(gap) <= 1 and all(
            token.tag == "W" and token.lemma not in function_words for token in gap
        ):
            claimed[number] = at
    return claimed


def chains(tokens: Sequence[Token], aspects: Sequence[Aspect]) -> list[int]:
    """Numbers of the coordinations aspects stand in: "fish, rice and tea" is one."""
    numbers: list[int] = []
    for position, aspect in watched(enumerate(aspects)):
        if not position:
            numbers.append(0)
            continue
        gap = tokens[aspects[position - 1].last : aspect.first]
        joined = len(gap) <= 3 and all(
            token.tag in ("JC", "SP", "XSN") or token.lemma in _JOINING for token in gap
        )
        numbers.append(numbers[-1] + (not joined))
    return numbers


def _weight(aspect: Aspect, position: int, opinion: Opinion, claim: int | None, lang: str) -> float:
    if claim == position:
        return 1.2
    if opinion.first >= aspect.first and opinion.last <= aspect.last:
        return 0.0
    if opinion.first >= aspect.last:
        distance = opinion.first - aspect.last
        weight = 1.0
    else:
        distance = max(0, aspect.first - opinion.last)  # it may reach into the aspect
        weight = 0.45 if lang == "ko" else 0.8
    if opinion.weak:
        weight *= 0.5
    if claim is not None:
        weight *= _CLAIMED
    return weight / (1.0 + distance / 6.0)


def _reading(
    text_end: int,
    aspect: Aspect,
    clauses: Sequence[Clause],
    weighted: Sequence[tuple[float, Opinion]],
) -> Reading:
    if not weighted:
        clause = clauses[aspect.clause]
        return Reading(NEUTRAL, 0.0, 0.4, clause.start, min(clause.end, text_end))
    score = sum(value for value, _ in weighted)
    polarity = polarity_of(score)
    agreeing = [
        (value, opinion)
        for value, opinion in weighted
        if polarity == NEUTRAL or (value > 0) == (score > 0)
    ]
    _, best = max(agreeing or weighted, key=lambda item: abs(item[0]))
    conflict = any((value > 0) != (score > 0) and abs(value) > 0.2 for value, _ in weighted)
    return Reading(
        polarity,
        score,
        _confidence(score, conflict) if polarity != NEUTRAL else 0.45,
        best.start,
        best.end,
        best,
        tuple(opinion for _, opinion in weighted),
    )


def read_aspects(
    tokens: Sequence[Token],
    clauses: Sequence[Clause],
    aspects: Sequence[Aspect],
    opinions: Sequence[Opinion],
    lang: str,
    function_words: frozenset[str],
) -> list[tuple[Reading, Reading]]:
    """For each aspect: its clause added up, and the one expression nearest to it."""
    by_clause: dict[int, list[int]] = {}
    for number, opinion in watched(enumerate(opinions)):
        by_clause.setdefault(opinion.clause, []).append(number)
    aspect_clauses = {aspect.clause for aspect in aspects}
    firsts = [aspect.first for aspect in aspects]
    chain = chains(tokens, aspects)
    claimed = claims(tokens, aspects, opinions, lang, function_words)
    end = tokens[-1].end if tokens else 0
    readings: list[tuple[Reading, Reading]] = []

    def weigh(position: int, clause: int, share: float) -> list[tuple[float, Opinion]]:
        weighted = []
        for number in by_clause.get(clause, ()):
            opinion, claim = opinions[number], claimed.get(number)
            weight = _weight(aspects[position], position, opinion, claim, lang) * share
            if claim != position:
                if opinion.first > aspects[position].first:
                    other = bisect_left(firsts, opinion.first) - 1
                else:
                    other = min(bisect_left(firsts, opinion.last), position)
                weight *= _BEYOND ** min(3, abs(chain[position] - chain[other]))
            if weight:
                weighted.append((opinion.score * weight, opinion))
        return weighted

    for position, aspect in watched(enumerate(aspects)):
        weighted = weigh(position, aspect.clause, 1.0)
        if not weighted:
            for clause in _neighbours(aspect.clause, clauses, aspect_clauses):
                weighted = weigh(position, clause, _NEXT_CLAUSE)
                if weighted:
                    break
        whole = _reading(end, aspect, clauses, weighted)
        strongest = [max(weighted, key=lambda item: abs(item[0]))] if weighted else []
        readings.append((whole, _reading(end, aspect, clauses, strongest)))
    return readings


def _neighbours(clause: int, clauses: Sequence[Clause], aspect_clauses: set[int]) -> list[int]:
    """The following and the preceding clause of the sentence, unless a contrast divides them."""
    neighbours = []
    if clause + 1 < len(clauses) and clauses[clause + 1].link == ADDITIVE:
        neighbours.append(clause + 1)
    if clause and clauses[clause].link == ADDITIVE and clause - 1 not in aspect_clauses:
        neighbours.append(clause - 1)
    return neighbours


def learned(
    view: View,
    aspect: Aspect,
    polarity: str,
    likely: float,
    sure: float,
    readings: Sequence[Reading],
) -> Reading:
    """The learned polarity of an aspect, with the words of the text that bear it out.

    They are the opinion that the rules link to the aspect, if it is of that polarity, else another
    one of its clause, else the clause itself.
    """
    clause = view.clauses[aspect.clause]
    if polarity == NEUTRAL:
        return Reading(NEUTRAL, 0.0, sure, clause.start, clause.end)
    linked = [reading.opinion for reading in readings if reading.opinion is not None]
    # Opinions stand in order of the text.
    first, last = (
        bisect_left(view.opinions, number, key=_CLAUSE)
        for number in (aspect.clause, aspect.clause + 1)
    )
    nearby = view.opinions[first:last]
    agreeing = _agreeing([*linked, *nearby], polarity)
    best = agreeing[0] if agreeing else _whole(view, clause, aspect.clause, polarity, likely)
    score = likely if polarity == POSITIVE else -likely
    return Reading(polarity, score, sure, best.start, best.end, best, tuple(agreeing or [best]))


def read_by_rules(view: View, found: Sequence[Aspect]) -> list[tuple[Reading, Reading]]:
    """What the rules read about each aspect: its clause added up, and the nearest words."""
    return read_aspects(
        view.tokens,
        view.clauses,
        found,
        view.opinions,
        view.lang,
        lexicon(view.lang).function_words,
    )


def rests_on_own_words(view: View, ruled: Reading) -> bool:
    """Whether the rules' reading has a word that the user's own lexicon adds or changes."""
    own = lexicon(view.lang).own
    return bool(own) and any(
        " ".join(token.lemma for token in view.tokens[opinion.first : opinion.last]) in own
        for opinion in ruled.support
    )


def blend_with_rules(
    said: Probabilities, ruled: Reading, weight: float = _BACKING
) -> Probabilities:
    """Learned probabilities with the weight of the rules' reading added to them."""
    push = weight * max(-1.0, min(1.0, ruled.score))
    positive, negative = said[0] * math.exp(push), said[1] * math.exp(-push)
    total = positive + negative + said[2]
    return positive / total, negative / total, said[2] / total


def _agreeing(opinions: Sequence[Opinion], polarity: str) -> list[Opinion]:
    wanted = polarity == POSITIVE
    return [opinion for opinion in opinions if (opinion.score > 0) == wanted]


def _whole(view: View, clause: Clause, number: int, polarity: str, likely: float) -> Opinion:
    """A clause that says something without a word of the lexicon, as an opinion of its own."""
    score = likely if polarity == POSITIVE else -likely
    words = view.text[clause.start : clause.end]
    return Opinion(words, clause.start, clause.end, clause.first, clause.last, number, score)


def overall(view: View, said: Probabilities) -> Reading | None:
    """What a text says as a whole; nothing where it judges nothing."""
    positive, negative, neutral = said
    if neutral >= _NOTHING_SAID or not (view.opinions or _WORDS.search(view.text)):
        return None
    likely, polarity = max((positive, POSITIVE), (negative, NEGATIVE))
    agreeing = _agreeing([opinion for opinion in view.opinions if not opinion.weak], polarity)
    last = len(view.clauses) - 1
    best = max(
        agreeing or [_whole(view, view.clauses[last], last, polarity, likely)],
        key=lambda opinion: abs(opinion.score),
    )
    score = likely if polarity == POSITIVE else -likely
    confidence = round(likely, 3)
    return Reading(
        polarity, score, confidence, best.start, best.end, best, tuple(agreeing or [best])
    )
