"""From a text to its :class:`Analysis`, and a bounded store of recent ones."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from absa.offline import aspects, clauses, english, morphology, opinions, polarity
from absa.offline.lexicon import lexicon
from absa.offline.model import Analysis, Aspect, Clause, Finding, Opinion, Reading, Token

#: How sure one must be of an aspect to report it, and to keep it for a second look.
ACCEPT = {"ko": 0.30, "en": 0.34}
RESERVE = {"ko": 0.22, "en": 0.26}
_NEUTRAL_ACCEPT = {"ko": 0.75, "en": 0.70}
#: Share of its termness an aspect keeps without an opinion, and the score of a full link.
_UNLINKED = 0.45
_FULL_LINK = 0.8
_NEGATED = {True: -0.8, False: -0.6}


def language_of(text: str, lang: str | None) -> str:
    """Which of the two analysers reads this text: what is written counts, not only the tag."""
    share = morphology.hangul_share(text)
    if lang == "ko":
        return "ko" if share > 0 else "en"
    return "ko" if share > (0.5 if lang == "en" else 0.25) else "en"


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
    found: list[Opinion] = []
    used: set[int] = set()
    hit_words = {index for hit in hits for index in range(hit.first, hit.last)}
    for hit in hits:
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
        found.append(
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
    return found, used


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


def _confidence(aspect: Aspect, reading: Reading) -> float:
    link = min(1.0, abs(reading.score) / _FULL_LINK)
    return aspect.termness * (_UNLINKED + (1.0 - _UNLINKED) * link)


def _lonely(findings: list[Finding], whole: Reading | None) -> list[Finding]:
    """The only aspect of a text is what its opinions are about, wherever they stand.

    Where nothing at all is said about it, it is a mention and no aspect. Among several aspects
    one that nobody judges is a neutral one.
    """
    if len({finding.aspect.term for finding in findings}) != 1:
        return findings
    only = findings[0]
    if only.clause_reading.opinion is not None:
        return findings
    if whole is None:
        return []
    reading = replace(whole, confidence=round(max(0.5, whole.confidence - 0.1), 3))
    return [replace(only, clause_reading=reading, nearest_reading=reading)]


def analyse(text: str, lang: str | None = None) -> Analysis:
    """Read one text. Pure and total: any string gives an analysis."""
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
        candidates = aspects.find_korean(text, tokens, clause_list, hits)
    else:
        tokens = english.tokenize(text)
        hits = opinions.find_english(tokens)
        clause_list = clauses.split_english(text, tokens, hits)
        negators = frozenset(clauses.negators_english(tokens))
        candidates = aspects.find_english(text, tokens, clause_list, hits)
    if not tokens:
        return Analysis(text, lang)
    found, used = _opinions(text, lang, tokens, clause_list, hits, negators)
    readings = polarity.read_aspects(
        tokens, clause_list, candidates, found, lang, lexicon(lang).function_words
    )
    accepted: list[Finding] = []
    reserve: list[Finding] = []
    for aspect, (whole, nearest) in zip(candidates, readings, strict=True):
        confidence = _confidence(aspect, whole)
        finding = Finding(aspect, round(min(0.99, 0.4 + 0.6 * confidence), 3), whole, nearest)
        bar = ACCEPT[lang] if whole.opinion is not None else _NEUTRAL_ACCEPT[lang]
        if (confidence if whole.opinion is not None else aspect.termness) >= bar:
            accepted.append(finding)
        elif confidence >= RESERVE[lang] and whole.opinion is not None:
            reserve.append(finding)
    whole_text = polarity.overall(clause_list, found)
    accepted = _lonely(accepted, whole_text)
    return Analysis(
        text=text,
        lang=lang,
        tokens=tuple(tokens),
        clauses=tuple(clause_list),
        negators=tuple(sorted(negators)),
        opinions=tuple(found),
        findings=tuple(accepted),
        reserve=tuple(reserve),
        overall=whole_text,
        used_negators=frozenset(used),
    )


class AnalysisCache:
    """Recent analyses, least recently used first out; bounded in number and in characters."""

    def __init__(
        self,
        read: Callable[[str, str | None], Analysis] = analyse,
        max_texts: int = 512,
        max_chars: int = 1_000_000,
    ) -> None:
        """Keep at most ``max_texts`` analyses of at most ``max_chars`` characters in all."""
        self._read = read
        self._max_texts = max_texts
        self._max_chars = max_chars
        self._chars = 0
        self._known: OrderedDict[tuple[str, str | None], Analysis] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, text: str, lang: str | None) -> Analysis:
        """The analysis of a text, from the store or made now."""
        key = (text, lang)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = self._read(text, lang)
        with self._lock:
            if key not in self._known:
                self._known[key] = made
                self._chars += len(text)
            while self._known and (
                len(self._known) > self._max_texts or self._chars > self._max_chars
            ):
                (old, _), _ = self._known.popitem(last=False)
                self._chars -= len(old)
        return made
