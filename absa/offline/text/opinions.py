"""Opinion expressions: which words of a text judge something, and how strongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from absa.offline.text import english
from absa.offline.text.annotations import Token
from absa.offline.text.lexicon import Lexicon, Phrase, lexicon

#: Korean morphemes that carry meaning; phrases of the lexicon are made of them.
CONTENT = frozenset({"NNG", "NNP", "XR", "VA", "VV", "MAG", "IC", "SL", "VCN", "MM", "NNB", "SN"})
_NOUNS = frozenset({"NNG", "NNP", "SL", "XR"})
#: Korean adverbs that blame by themselves and weaken where a negation follows.
_WITH_NEGATION = frozenset({"별로", "그다지", "그닥", "굳이"})
#: The score of what is only wished for.
_WISHED = -0.4


@dataclass(frozen=True, slots=True)
class Hit:
    """A lexicon entry found at tokens ``[first, last)``; negation is not applied yet."""

    first: int
    last: int
    score: float
    weak: bool = False
    #: A noun that is bad by being there.
    presence: bool = False


def _phrase_at(lemmas: Sequence[str], position: int, lexicon_: Lexicon) -> tuple[int, float] | None:
    return _phrase_of(lexicon_.phrases, lemmas, position)


def _phrase_of(
    phrases: Mapping[str, Sequence[Phrase]], lemmas: Sequence[str], position: int
) -> tuple[int, float] | None:
    for words, score in phrases.get(lemmas[position], ()):
        size = len(words)
        if tuple(lemmas[position : position + size]) == words:
            return size, score
    return None


def _emotion(token: Token, lexicon_: Lexicon) -> float:
    return lexicon_.emotions.get(token.lemma) or lexicon_.emotions.get(token.lemma[:2], 0.0)


def english_score(word: str, lexicon_: Lexicon) -> float:
    """The score of a word in any of its forms; 0 where it judges nothing."""
    opinions = lexicon_.opinions
    if word in opinions:
        return opinions[word]
    for form in english.base_forms(word)[1:]:
        score = opinions.get(form)
        # What is less than certain about a guessed base form is its strength.
        if score is not None:
            return score * 0.9
    if "-" in word:
        return max((english_score(part, lexicon_) for part in word.split("-")), key=abs)
    return 0.0


def korean_score(lemma: str, lexicon_: Lexicon) -> float:
    """The score of a morpheme; Kiwi gives 훌륭 (root) or 훌륭하다, the lexicon knows the root."""
    score = lexicon_.opinions.get(lemma)
    if score is None and lemma.endswith("하다"):
        score = lexicon_.opinions.get(lemma[:-2])
    return score or 0.0


def _nearby_noun(
    tokens: Sequence[Token], index: int, options: dict[str, float], nouns: frozenset[str] | None
) -> float:
    """The score that the nearest noun of ``options`` gives to the word at ``index``."""
    for distance in range(1, 7):
        for position in (index + distance, index - distance):
            if 0 <= position < len(tokens):
                token = tokens[position]
                if (nouns is None or token.tag in nouns) and token.lemma in options:
                    return options[token.lemma]
    return 0.0


def find_english(tokens: Sequence[Token]) -> list[Hit]:
    """Lexicon hits in English tokens, phrases before words."""
    words = lexicon("en")
    lemmas = [token.lemma for token in tokens]
    hits: list[Hit] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.tag == "EMO":
            score = _emotion(token, words)
            if score:
                hits.append(Hit(index, index + 1, score, weak=True))
            index += 1
            continue
        if token.tag in ("W", "NEG", "NUM"):
            phrase = _phrase_at(lemmas, index, words)
            if phrase:
                size, score = phrase
                if score:
                    hits.append(Hit(index, index + size, score))
                index += size
                continue
        if token.tag == "W":
            score = 0.0
            if token.lemma in words.context:
                score = _nearby_noun(tokens, index, dict(words.context[token.lemma]), None)
            score = score or english_score(token.lemma, words)
            if score:
                boost = words.intensifiers.get(lemmas[index - 1], 1.0) if index else 1.0
                hits.append(Hit(index, index + 1, max(-1.0, min(1.0, score * boost))))
        index += 1
    return hits


def find_korean(tokens: Sequence[Token]) -> list[Hit]:
    """Lexicon hits in Korean morphemes; phrases skip over particles and endings."""
    words, foreign = lexicon("ko"), lexicon("en")
    content = [i for i, token in enumerate(tokens) if token.tag in CONTENT]
    lemmas = [tokens[i].lemma for i in content]
    hits: list[Hit] = [
        Hit(i, i + 1, score, weak=True)
        for i, token in enumerate(tokens)
        if token.tag == "EMO" and (score := _emotion(token, words))
    ]
    position = 0
    while position < len(content):
        phrase = _phrase_at(lemmas, position, words)
        if phrase:
            size, score = phrase
            first, last = content[position], content[position + size - 1] + 1
            # Words of one phrase stand together: at most two morphemes between neighbours.
            if last - first <= 3 * size:
                if score:
                    hits.append(Hit(first, last, score))
                position += size
                continue
        index = content[position]
        token = tokens[index]
        score = 0.0
        if token.lemma in words.context:
            options = words.context[token.lemma]
            score = _nearby_noun(tokens, index, dict(options), _NOUNS) or options.get("*", 0.0)
        if not score and not _litotes(tokens, index):
            score = korean_score(token.lemma, words)
        if score > 0 and _wished(tokens, index):
            score = _WISHED
        if not score and token.tag == "SL":
            score = english_score(token.lemma.lower(), foreign)
        if score:
            boost = words.intensifiers.get(lemmas[position - 1], 1.0) if position else 1.0
            hits.append(Hit(index, index + 1, max(-1.0, min(1.0, score * boost))))
        position += 1
    taken = {index for hit in hits for index in range(hit.first, hit.last)}
    hits += [hit for hit in _present(tokens, words) if taken.isdisjoint(range(hit.first, hit.last))]
    hits.sort(key=lambda hit: hit.first)
    return hits


def _litotes(tokens: Sequence[Token], index: int) -> bool:
    """Whether an adverb of degree goes with a negation: 별로 없다, 그다지 안 무겁다."""
    if tokens[index].tag != "MAG" or tokens[index].lemma not in _WITH_NEGATION:
        return False
    return any(
        token.lemma in ("없다", "않다", "못하다", "안", "못", "아니다")
        for token in tokens[index + 1 : index + 6]
    )


def _wished(tokens: Sequence[Token], index: int) -> bool:
    """Whether something is only wished for: 있으면 좋겠다, 빨랐으면 좋을 텐데."""
    before, after = tokens[max(0, index - 1)], tokens[index + 1 : index + 2]
    return (
        tokens[index].lemma == "좋다"
        and before.tag == "EC"
        and before.form.endswith("면")
        and any(token.form in ("겠", "ᆯ", "을") for token in after)
    )


def _present(tokens: Sequence[Token], words: Lexicon) -> list[Hit]:
    """Nouns that are bad by being there, or good by being absent: 소음, 소음 없음, 설명 없음."""
    hits = []
    lemmas = [token.lemma for token in tokens]
    for index in range(len(tokens)):
        phrase = _phrase_of(words.presence, lemmas, index)
        if phrase is None:
            continue
        size, score = phrase
        if score < 0:
            hits.append(Hit(index, index + size, score, presence=True))
    return hits
