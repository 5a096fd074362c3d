"""From a text to its :class:`View`: what is known before any aspect is looked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from absa.offline.stopping import watched
from absa.offline.text import clauses, english, morphology, opinions
from absa.offline.text.annotations import Clause, Opinion, Token, View

_NEGATED = {True: -0.8, False: -0.6}


def language_of(text: str, lang: str | None) -> str:
    """Which of the two analyzers reads this text: what is written counts, not only the tag."""
    share = morphology.hangul_share(text)
    if lang == "ko":
        return "ko" if share > 0 else "en"
    return "ko" if share > (0.5 if lang == "en" else 0.25) else "en"


def view_of(text: str, lang: str | None = None, domain: str | None = None) -> View:
    """Read the surface of one text. Pure and total: any string gives a view."""
    lang = language_of(text, lang)
    if lang == "ko":
        tokens = morphology.tokenize(text)
        hits = opinions.find_korean(tokens)
        clause_list = clauses.split_korean(text, tokens)
        negators = frozenset(
            i
            for i, token in enumerate(tokens)
            if (token.tag == "MAG" and token.form in ("안", "못"))
            or (token.tag == "VX" and token.lemma in ("않다", "못하다"))
        )
    else:
        tokens = english.tokenize(text)
        hits = opinions.find_english(tokens)
        clause_list = clauses.split_english(text, tokens, hits)
        negators = frozenset(clauses.negators_english(tokens))
    if not tokens:
        return View(text, lang, domain=domain)
    opinion_list, used = _opinions(text, lang, tokens, clause_list, hits, negators)
    return View(
        text=text,
        lang=lang,
        tokens=tuple(tokens),
        clauses=tuple(clause_list),
        opinions=tuple(opinion_list),
        negators=tuple(sorted(negators)),
        used_negators=frozenset(used),
        domain=domain,
    )


def _negate(score: float) -> float:
    return score * _NEGATED[score > 0]


def _opinions(
    text: str,
    lang: str,
    tokens: Sequence[Token],
    clause_list: Sequence[Clause],
    hits: Sequence[opinions.Hit],
    negators: frozenset[int],
) -> tuple[list[Opinion], set[int]]:
    firsts = [clause.first for clause in clause_list]
    opinion_list: list[Opinion] = []
    used: set[int] = set()
    hit_words = {index for hit in hits for index in range(hit.first, hit.last)}
    for hit in watched(hits):
        number = bisect_right(firsts, hit.first) - 1
        clause = clause_list[number]
        if lang == "ko":
            turning = clauses.negation_korean(tokens, hit)
        else:
            turning = clauses.negation_english(tokens, hit, clause, negators)
        if hit.weak:
            turning = ()
        turning = tuple(i for i in turning if not hit.first <= i < hit.last)
        if lang == "ko" and tokens[hit.first].lemma == "없다" and hit.first in used:
            continue
        used.update(turning)
        score = _negate(hit.score) if len(turning) % 2 else hit.score
        first, last = min((hit.first, *turning)), max((hit.last - 1, *turning))
        start, end = tokens[first].start, tokens[last].end
        attributive = False
        if lang == "ko":
            end, attributive = _korean_tail(tokens, last, end)
        opinion_list.append(
            Opinion(
                text[start:end],
                start,
                end,
                hit.first,
                hit.last,
                number,
                score,
                negated=bool(len(turning) % 2),
                attributive=attributive,
                weak=hit.weak,
            )
        )
    used |= {index for index in negators if index in hit_words}
    return opinion_list, used


def _korean_tail(tokens: Sequence[Token], last: int, end: int) -> tuple[int, bool]:
    """Where the predicate ends (좋 -> 좋아요) and whether it modifies a noun (좋은)."""
    for index in range(last + 1, min(last + 6, len(tokens))):
        token = tokens[index]
        if token.start > end:
            break
        if token.tag not in ("XSA", "XSV", "EP", "EC", "EF", "ETM", "ETN", "VCP"):
            break
        end = max(end, token.end)
        if token.tag == "ETM":
            return end, True
    return end, False
