"""Clauses and negation: where a statement ends, and what a negator turns round."""

from __future__ import annotations

from collections.abc import Sequence

from absa.offline.stopping import watched
from absa.offline.text.annotations import ADDITIVE, CONTRAST, SENTENCE, Clause, Token
from absa.offline.text.lexicon import lexicon
from absa.offline.text.opinions import Hit

_STOPS = frozenset(".!?…。！？")
_BREAKS = frozenset(";:()–—-/")
#: A clause never grows beyond this, so that the work per clause is bounded.
MAX_TOKENS = 60
_CONCESSIVE = frozenset({"although", "though", "while", "despite", "whereas", "even"})
_NEGATION_REACH = 4
#: Korean nouns that end a clause like a connective: 비싼 대신, 맛있는데.
_BACKGROUND = frozenset({"데", "대신", "반면", "반면에"})


def _gap_has_newline(text: str, left: Token, right: Token) -> bool:
    return "\n" in text[left.end : right.start]


def split_english(text: str, tokens: Sequence[Token], hits: Sequence[Hit]) -> list[Clause]:
    """Cut at sentence ends and contrast words, and at `and` or a comma after an opinion."""
    words = lexicon("en")
    opinion_at = {index for hit in hits for index in range(hit.first, hit.last)}
    cuts: list[tuple[int, str]] = [(0, SENTENCE)]
    seen_opinion = False
    pending_contrast = False
    for index, token in watched(enumerate(tokens)):
        link: str | None = None
        previous = tokens[index - 1] if index else None
        at_start = index == cuts[-1][0]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if previous is None:
            link = None
        elif previous.lemma in _STOPS and token.lemma not in _STOPS and token.tag != "EMO":
            link = SENTENCE
        elif _gap_has_newline(text, previous, token):
            link = SENTENCE
        elif token.lemma in words.contrast and index not in opinion_at:
            link = CONTRAST
        elif previous.lemma in _BREAKS and token.lemma not in _BREAKS:
            link = ADDITIVE
        elif previous.lemma == "," and pending_contrast:
            link = CONTRAST
        elif previous.lemma == "," and seen_opinion and index not in opinion_at:
            link = ADDITIVE
        elif token.lemma in words.additive and seen_opinion and following is not None:
            link = ADDITIVE if index + 1 not in opinion_at else None
        elif index - cuts[-1][0] >= MAX_TOKENS:
            link = ADDITIVE
        if link is not None and not at_start:
            cuts.append((index, link))
            seen_opinion = False
            pending_contrast = False
        if token.lemma in _CONCESSIVE and index == cuts[-1][0] and cuts[-1][1] == SENTENCE:
            pending_contrast = True
        seen_opinion = seen_opinion or index in opinion_at
    return _clauses(tokens, cuts)


def split_korean(text: str, tokens: Sequence[Token]) -> list[Clause]:
    """Cut after final and connective endings, and before contrast adverbs."""
    words = lexicon("ko")
    cuts: list[tuple[int, str]] = [(0, SENTENCE)]
    link: str | None = None
    for index, token in watched(enumerate(tokens)):
        if index and _gap_has_newline(text, tokens[index - 1], token):
            link = SENTENCE
        if (
            token.tag in ("MAJ", "MAG", "NNG")
            and token.lemma in words.contrast
            and not (index and token.lemma in _BACKGROUND and tokens[index - 1].tag == "ETM")
            and not (link == CONTRAST and index == cuts[-1][0])
        ):
            # "그러나" opens a sentence of its own, but what it contrasts with stands before it.
            link = CONTRAST
        if index - cuts[-1][0] >= MAX_TOKENS and link is None:
            link = ADDITIVE
        is_tail = token.tag in ("SF", "SP", "SW", "EMO", "JX", "SE", "SSC")
        if link is not None and index > cuts[-1][0] and not is_tail:
            cuts.append((index, link))
            link = None
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        after = following.tag[:1] if following is not None else ""
        if token.tag == "EF" or token.tag == "SF" or token.lemma in _STOPS:
            link = SENTENCE
        elif token.tag == "ETN" and after not in ("J", "X", "V", "N", "E"):
            # Clipped style: 배송 빠름 포장 꼼꼼함.
            link = ADDITIVE
        elif token.lemma in _BACKGROUND and index and tokens[index - 1].tag == "ETM":
            # Without a space Kiwi takes -는데 for a noun.
            link = CONTRAST if after != "J" else link
        elif token.tag == "EC":
            if following is not None and following.tag == "VX":
                continue
            if token.form in words.contrast:
                link = CONTRAST
            elif token.form in words.additive:
                link = ADDITIVE
    return _clauses(tokens, cuts)


def _clauses(tokens: Sequence[Token], cuts: Sequence[tuple[int, str]]) -> list[Clause]:
    clauses: list[Clause] = []
    sentence = -1
    for number, (first, link) in enumerate(cuts):
        last = cuts[number + 1][0] if number + 1 < len(cuts) else len(tokens)
        if last <= first:
            continue
        if link == SENTENCE or not clauses:
            sentence += 1
        start, end = tokens[first].start, tokens[last - 1].end
        clauses.append(Clause(first, last, start, end, link, sentence))
    return clauses


def negators_english(tokens: Sequence[Token]) -> list[int]:
    """Indices of the words that negate."""
    words = lexicon("en")
    negators = []
    for index, token in enumerate(tokens):
        if token.tag == "NEG" or (token.tag == "W" and token.lemma in words.negators):
            following = tokens[index + 1].lemma if index + 1 < len(tokens) else ""
            if token.lemma == "not" and following == "only":
                continue
            negators.append(index)
    return negators


def negation_english(
    tokens: Sequence[Token], hit: Hit, clause: Clause, negators: frozenset[int]
) -> tuple[int, ...]:
    """The negators before an opinion, within its clause and a few words' reach."""
    positions: list[int] = []
    reach = 2 if hit.score < 0 else _NEGATION_REACH
    for index in range(hit.first - 1, max(clause.first, hit.first - 1 - reach) - 1, -1):
        if tokens[index].tag == "P" and tokens[index].lemma in ",;:.!?":
            break
        if index in negators:
            positions.append(index)
    return tuple(positions)


def _absence(tokens: Sequence[Token], hit: Hit) -> tuple[int, ...]:
    """What says that a noun is not there: 소음이 거의 없다, 냄새가 안 난다, 발열이 줄었다."""
    words = lexicon("ko")
    positions: list[int] = []
    for index in range(hit.last, min(len(tokens), hit.last + 8)):
        token = tokens[index]
        if token.tag in ("EF", "SF", "EC") and token.form not in ("지", "지는", "진"):
            break
        if (
            token.lemma in words.absence
            or (token.tag == "MAG" and token.form in ("안", "못"))
            or (token.tag == "VX" and token.lemma in ("않다", "못하다"))
            or token.tag == "VCN"
        ):
            positions.append(index)
        elif positions and token.tag in ("NNG", "NNP"):
            break
    return tuple(positions)


def negation_korean(tokens: Sequence[Token], hit: Hit) -> tuple[int, ...]:
    """The morphemes that negate an opinion: 안/못 before it; -지 않다, -ㄹ 수 없다, 이/가 없다."""
    if hit.presence:
        return _absence(tokens, hit)
    negators: list[int] = []
    for index in range(hit.first - 1, max(-1, hit.first - 3), -1):
        token = tokens[index]
        if token.tag == "MAG" and token.form in ("안", "못", "않"):
            negators.append(index)
            break
        if token.tag not in ("NNG", "XR", "MAG"):
            break
    index, end = hit.last, min(len(tokens), hit.last + 10)
    seen_ending = False
    while index < end:
        token = tokens[index]
        if token.tag in ("EF", "SF"):
            break
        if token.tag == "VX" and token.lemma in ("않다", "못하다", "말다") and seen_ending:
            negators.append(index)
        elif token.tag == "VA" and token.lemma == "없다" or token.tag == "VCN":
            negators.append(index)
        elif token.tag == "EC":
            if token.form not in ("지", "질", "지는", "진", "ᆯ지", "을지", "다고", "라고", "게"):
                break
            seen_ending = True
        elif token.tag == "NNB" and token.form in ("것", "거", "수", "편", "줄", "정도", "게"):
            pass
        elif token.tag in ("NNG", "NNP", "VA", "VV", "MAG", "XR", "SL", "MAJ", "VX"):
            break
        index += 1
    return tuple(negators)
