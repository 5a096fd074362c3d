"""Aspect candidates by rule: noun phrases that reviewers judge.

They help the tagger out, most of all where a text is about something it was not trained on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from absa.offline.stopping import watched
from absa.offline.text import english
from absa.offline.text.annotations import Aspect, Token, View
from absa.offline.text.lexicon import Lexicon, lexicon

_NOUN = frozenset({"NNG", "NNP", "SL", "XR"})
_SUBJECT = frozenset("은 는 이 가 도 을 를 께서 만 ᆫ 의 와 과 에".split())
_DETERMINERS = frozenset(
    {"the", "a", "an", "this", "that", "my", "our", "their", "its", "his", "her", "your", "these"}
)
#: A word never seen in training data; its context decides whether it can be an aspect.
_UNKNOWN = 0.2
_MAX_WORDS = 5


def _clause_of(index: int, firsts: Sequence[int]) -> int:
    return bisect_right(firsts, index) - 1


def _english_term_probability(token: Token, words: Lexicon) -> float:
    if token.tag != "W" or len(token.lemma) > 40:
        return 0.0
    prior = words.aspect_words.get(token.lemma)
    if prior is not None:
        return prior
    for form in english.base_forms(token.lemma)[1:]:
        prior = words.aspect_words.get(form)
        if prior is not None:
            return prior * 0.9 if token.lemma.endswith("s") else prior * 0.5
    if len(token.lemma) < 3 or token.lemma.endswith("ly"):
        return 0.0
    return _UNKNOWN


def find_noun_phrases(view: View) -> list[Aspect]:
    """The noun phrases of a text, in its order."""
    opinion_at = {
        index
        for opinion in view.opinions
        if not opinion.weak
        for index in range(opinion.first, opinion.last)
    }
    firsts = [clause.first for clause in view.clauses]
    find_in = _find_korean if view.lang == "ko" else _find_english
    return find_in(view.text, view.tokens, opinion_at, firsts)


def _find_english(
    text: str, tokens: Sequence[Token], opinion_at: set[int], firsts: Sequence[int]
) -> list[Aspect]:
    """Runs of words that are usually part of aspect terms."""
    words = lexicon("en")
    term_probability = [_english_term_probability(token, words) for token in watched(tokens)]
    for index, token in watched(enumerate(tokens)):
        if index in opinion_at and term_probability[index] < 0.5:
            term_probability[index] = 0.0
        elif term_probability[index] == _UNKNOWN and index:
            before = tokens[index - 1]
            if before.lemma in _DETERMINERS or index - 1 in opinion_at:
                term_probability[index] = 0.45
            elif token.form[:1].isupper() and before.tag == "W":
                term_probability[index] = 0.3
    aspects: list[Aspect] = []
    index = 0
    while index < len(tokens):
        if term_probability[index] < 0.2:
            index += 1
            continue
        last = index + 1
        while (
            last < len(tokens)
            and term_probability[last] >= 0.2
            and last - index < _MAX_WORDS
            and text[tokens[last - 1].end : tokens[last].start] in (" ", "  ")
        ):
            last += 1
        end = last
        # The head closes the phrase: a doubtful last word is not part of it.
        best = max(term_probability[index:end])
        while end - index > 1 and term_probability[end - 1] < min(0.35, best):
            end -= 1
        while end - index > 1 and term_probability[index] < 0.3:
            index += 1
        head = term_probability[end - 1]
        start_char, end_char = tokens[index].start, tokens[end - 1].end
        aspects.append(
            Aspect(
                text[start_char:end_char],
                start_char,
                end_char,
                index,
                end,
                _clause_of(index, firsts),
                head if end - index == 1 else min(1.0, head + 0.1),
            )
        )
        index = last
    return aspects


def _korean_term_probability(token: Token, words: Lexicon) -> float:
    if token.tag not in _NOUN:
        return 0.0
    prior = words.aspect_words.get(token.lemma.lower())
    if prior is not None:
        return prior
    if token.tag == "SL" and len(token.lemma) < 2:
        return 0.0
    return _UNKNOWN


def _find_korean(
    text: str, tokens: Sequence[Token], opinion_at: set[int], firsts: Sequence[int]
) -> list[Aspect]:
    """Noun compounds, with the suffix 감 or 성 but without particles and the plural 들."""
    words = lexicon("ko")
    aspects: list[Aspect] = []
    index = 0
    while index < len(tokens):
        first = index
        if tokens[first].tag not in _NOUN:
            index += 1
            continue
        last = first + 1
        while last < len(tokens) and last - first < 2 * _MAX_WORDS:
            gap = text[tokens[last - 1].end : tokens[last].start]
            token = tokens[last]
            joins = token.tag in _NOUN or (token.tag == "XSN" and token.form != "들" and not gap)
            number = token.tag == "SN" and not gap and tokens[last - 1].tag == "SL"
            if gap not in ("", " ") or not (joins or number):
                break
            last += 1
        index = last
        following = tokens[last] if last < len(tokens) else None
        if (
            following is not None
            and following.tag in ("XSV", "XSA")
            and following.start == (tokens[last - 1].end)
        ):
            # 추천하다, 친절하다: the last noun is the root of a predicate.
            last -= 1
        aspect = _trim(text, tokens, first, last, opinion_at, words, firsts)
        if aspect is not None:
            aspects.append(aspect)
    return aspects


def _trim(
    text: str,
    tokens: Sequence[Token],
    first: int,
    last: int,
    opinion_at: set[int],
    words: Lexicon,
    firsts: Sequence[int],
) -> Aspect | None:
    def term_probability(index: int) -> float:
        token = tokens[index]
        if token.tag == "XSN":
            return 0.3
        if token.tag == "SN":
            return 0.2
        value = _korean_term_probability(token, words)
        if index + 1 < last and tokens[index + 1].tag == "XSN":
            # 사용감 is an aspect although 사용 is none.
            joined = words.aspect_words.get(token.lemma + tokens[index + 1].lemma, 0.35)
            value = max(value, joined)
        return 0.0 if index in opinion_at and value < 0.5 else value

    while last > first and term_probability(last - 1) < 0.1:
        last -= 1
    # A stretch from the last doubtful word on: "오늘 아침 식사" is about 아침 식사.
    start = last
    while start > first and term_probability(start - 1) >= 0.15:
        start -= 1
    while start < last and tokens[start].tag in ("XSN", "SN"):
        start += 1
    if start >= last:
        return None
    start_char, end_char = tokens[start].start, tokens[last - 1].end
    term = text[start_char:end_char]
    following = tokens[last] if last < len(tokens) else None
    if following is not None and following.form == "들" and last + 1 < len(tokens):
        following = tokens[last + 1]
    marked = (
        following is not None
        and following.tag in ("JKS", "JX", "JKO", "JC")
        and following.form in _SUBJECT
    )
    head = max(
        term_probability(last - 1), 0.9 * words.aspect_words.get(term.lower().replace(" ", ""), 0)
    )
    if tokens[last - 1].tag == "XSN":
        head = max(head, term_probability(last - 2), 0.45 if marked else 0.0)
    if head == _UNKNOWN and marked:
        head = 0.35
    if last - start > 1:
        head = min(1.0, head + 0.1)
    return Aspect(term, start_char, end_char, start, last, _clause_of(start, firsts), head)
