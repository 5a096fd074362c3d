"""Which opinion speaks of which aspect, and what they add up to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from absa.offline.model import (
    ADDITIVE,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Aspect,
    Clause,
    Opinion,
    Reading,
    Token,
)

_NEUTRAL_BAND = 0.06
#: Share of an opinion that reaches an aspect in the next clause, and past a modified noun.
_NEXT_CLAUSE = 0.4
_CLAIMED = 0.15
#: What is left of it beyond each other aspect that stands between.
_BEYOND = 0.45
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
    for number, opinion in enumerate(opinions):
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
    for position, aspect in enumerate(aspects):
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
        distance = aspect.first - opinion.last
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
    for number, opinion in enumerate(opinions):
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

    for position, aspect in enumerate(aspects):
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
    found = []
    if clause + 1 < len(clauses) and clauses[clause + 1].link == ADDITIVE:
        found.append(clause + 1)
    if clause and clauses[clause].link == ADDITIVE and clause - 1 not in aspect_clauses:
        found.append(clause - 1)
    return found


def overall(clauses: Sequence[Clause], opinions: Sequence[Opinion]) -> Reading | None:
    """What a text says as a whole: its opinions added up, emoticons only where nothing else is."""
    strong = [opinion for opinion in opinions if not opinion.weak] or list(opinions)
    if not strong:
        return None
    score = sum(opinion.score for opinion in strong)
    polarity = polarity_of(score)
    if polarity == NEUTRAL:
        return None
    best = max(
        (opinion for opinion in strong if (opinion.score > 0) == (score > 0)),
        key=lambda opinion: abs(opinion.score),
    )
    conflict = any((opinion.score > 0) != (score > 0) for opinion in strong)
    return Reading(
        polarity,
        score,
        _confidence(min(1.0, abs(best.score)), conflict),
        best.start,
        best.end,
        best,
        tuple(strong),
    )
