"""Language rules: aspect keys, particles, contrast, negation, synonyms.

The language-specific data is in `resources/patterns/<lang>.json`. A language without a file has no
particles, markers or synonyms, but still works. In a pattern file, a marker written `-지만` is the
ending of a word; every other marker is a whole word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from absa.nodes import assets
from absa.nodes.morphemes import Morpheme, kiwi

# Korean reviews quote English product names, so a fifth of the letters being Hangul is enough.
_KOREAN_SHARE = 0.2
_NOUN_TAGS = ("NNG", "NNP", "SL", "SN", "XSN", "XPN", "NNB")
_HEAD_TAGS = ("NNG", "NNP", "SL", "XSN")
# The number of readings of a word that are checked before it counts as a verb.
_READINGS = 5
# The number before it counts as not a noun: the first reading of 면 (noodles) is an ending.
_NOUN_READINGS = 2
# Nouns, foreign letters, numbers, and unknown words.
_NAMING_TAGS = ("N", "SL", "SN", "SH", "XSN", "UN", "W")
#: Endings that turn a verb into a noun.
_MAKE_NOUNS = frozenset({"기", "음", "\u11b7"})
_TOPIC_TAGS = ("JKS", "JX")
_DESCRIBING = ("VA", "XSA")
_NEGATING = ("안", "못", "않")
# "the service was": a determiner, one or two words, a form of "be". This needs no tagger.
_ENGLISH_SUBJECT = re.compile(
    r"\b(?:the|its|their|our|my|your|this|that)\s+([a-z][\w'-]*(?:\s+[a-z][\w'-]*)?)\s+"
    r"(?:is|was|are|were|isn't|wasn't|aren't|weren't|seems|seemed|looks|looked|feels|felt"
    r"|could|can|needs|needed|has|had)\b",
    re.IGNORECASE,
)


def detect(text: str) -> str:
    """`ko` or `en`, by the share of Hangul among the letters."""
    letters = [c for c in text if c.isalpha()]
    hangul = sum("가" <= c <= "힣" or "ㄱ" <= c <= "ㆎ" or "ᄀ" <= c <= "ᇿ" for c in letters)
    return "ko" if hangul and hangul >= _KOREAN_SHARE * len(letters) else "en"


def normalise_code(lang: str) -> str:
    """`KO`, `ko-KR` and `ko_kr` are `ko`."""
    return re.split(r"[-_]", lang.strip().lower())[0]


def _names(tokens: Sequence[Morpheme]) -> bool:
    """Whether the morphemes contain a noun, or a verb turned into one: 굽기, 흔들림."""
    if any(token.tag.startswith(_NAMING_TAGS) for token in tokens):
        return True
    return bool(tokens) and tokens[0].tag.startswith("VV") and tokens[-1].form in _MAKE_NOUNS


def language(code: str) -> Language:
    """The rules of a language."""
    return _language(code, assets.own_files())


@lru_cache(maxsize=16)
def _language(code: str, files: assets.OwnFiles) -> Language:
    with assets.using(files):
        return Language(code)


class Language:
    """Keys, clauses and synonyms of one language."""

    def __init__(self, code: str) -> None:
        patterns = assets.read_json(f"patterns/{code}.json") or {}
        self.code = code
        # The longest first, because one can end in another.
        self._particles = sorted(patterns.get("particles", []), key=len, reverse=True)
        self._markers = _marker_pattern(patterns.get("contrast_markers", []))
        self._no_aspects = frozenset(patterns.get("no_aspects", []))
        self._negations = frozenset(patterns.get("negation", []))
        self._negation_words = _word_pattern(self._negations)
        adjectives = assets.read_json(f"patterns/{code}_adjectives.json") or {}
        self._adjectives = frozenset(adjectives.get("words", []))
        self._terms_of: dict[int, list[str]] = dict(enumerate(patterns.get("synonyms", [])))
        # Kiwi takes 40 µs per word, and the same aspects are looked up many times.
        self.key: Callable[[str], str] = lru_cache(maxsize=65536)(self._key)
        self.strip_particle: Callable[[str], str] = lru_cache(maxsize=65536)(self._strip_particle)
        self.can_name: Callable[[str], bool] = lru_cache(maxsize=65536)(self._can_name)
        # Several candidates can be in one clause.
        self.has_negation = lru_cache(maxsize=4096)(self._has_negation)
        self._groups = {
            self.key(term): group for group, terms in self._terms_of.items() for term in terms
        }

    def _key(self, term: str) -> str:
        """The aspect key of a term, which is equal for all its spellings.

        NFC, without a trailing particle (Korean), lower case, no white space, no punctuation.
        Stripping is repeated until nothing changes, so that a stripped term has the same key as the
        original word.
        """
        stem = unicodedata.normalize("NFC", term)
        while (shorter := self.strip_particle(stem)) != stem:
            stem = shorter
        return _squeezed(stem)

    def _strip_particle(self, term: str) -> str:
        """The term without one trailing particle, if the morphological analyzer confirms it.

        가격은 → 가격, but 종이, 사이, 나이 and 고양이 keep their 이.
        """
        composed = unicodedata.normalize("NFC", term)
        bare = _without_tail(composed)
        particle = next((p for p in self._particles if bare.endswith(p)), None)
        if particle is None or not bare.removesuffix(particle).strip():
            return term
        if not _ends_in_particle(bare, particle):
            return term
        stem = bare.removesuffix(particle).rstrip()
        if composed == term:
            return stem
        decomposed = unicodedata.normalize("NFD", stem)
        return decomposed if term.startswith(decomposed) else stem

    def _can_name(self, term: str) -> bool:
        """Whether the words can name a thing. An adjective alone (tasty, 바삭바삭) cannot."""
        if self.code == "ko":
            return any(_names(tokens) for tokens, _ in kiwi().analyze(term, _NOUN_READINGS))
        return not self._are_adjectives(term)

    def judges(self, words: str) -> bool:
        """Whether words before a noun are only a judgement: great, 정말 맛있는."""
        if self.code == "ko":
            morphemes = kiwi().tokenize(words)
            return bool(morphemes) and morphemes[-1].tag == "ETM"
        return self._are_adjectives(words)

    def _are_adjectives(self, term: str) -> bool:
        words = {word.strip(string.punctuation) for word in term.lower().split()} - {""}
        return bool(words) and words <= self._adjectives

    def synonyms(self, term: str) -> list[str]:
        """The other terms of its synonym group."""
        group = self._groups.get(self.key(term))
        if group is None:
            return []
        return [t for t in self._terms_of[group] if self.key(t) != self.key(term)]

    @property
    def synonym_groups(self) -> list[list[str]]:
        """The groups of terms that mean one thing."""
        return list(self._terms_of.values())

    def synonym_group(self, term: str) -> int | None:
        """An id that synonyms share; None for a term without synonyms."""
        return self._groups.get(self.key(term))

    def names(self, prose: str, term: str) -> bool:
        """Whether prose contains a term, as a word or, in Korean, with attached endings."""
        if self.code == "ko":
            # Spaces are optional (배터리 수명, 배터리수명), and endings vary.
            return bool(key := self.key(term)) and key in _squeezed(prose)
        words = re.escape(unicodedata.normalize("NFC", term)).replace(r"\ ", r"\s+")
        match = re.search(rf"(?<!\w){words}(?!\w)", unicodedata.normalize("NFC", prose), re.I)
        return bool(term.strip()) and match is not None

    def clauses(self, text: str) -> list[tuple[int, int]]:
        """The clauses between contrast markers; one clause without a marker."""
        cuts = [0, *(_cut(match) for match in self._find_markers(text)), len(text)]
        return [(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if text[a:b].strip()]

    def has_contrast(self, text: str) -> bool:
        """Whether the text has a contrast marker."""
        return any(True for _ in self._find_markers(text))

    def _has_negation(self, text: str) -> bool:
        """Whether the text has a negation.

        In Korean it must be an adverb or a verb, because 안 is also "inside" and 말 "speech".
        """
        if self.code == "ko":
            return any(
                t.form in self._negations and t.tag[0] in "MV" for t in kiwi().tokenize(text)
            )
        return bool(self._negation_words and self._negation_words.search(text))

    def subject(self, clause: str) -> tuple[int, int] | None:
        """Offsets of the subject of a clause; None if it is not found."""
        if self.code == "ko":
            return _korean_subject(clause, self._no_aspects)
        match = _ENGLISH_SUBJECT.search(clause) if self.code == "en" else None
        return match.span(1) if match else None

    def _find_markers(self, text: str) -> Iterator[re.Match[str]]:
        return self._markers.finditer(text) if self._markers else iter(())


def _ends_in_particle(term: str, particle: str) -> bool:
    """Whether the term is a noun with that particle.

    If the first reading is a verb (배우는, "who learns"), the next readings are checked, because an
    aspect is a noun.
    """
    readings = [tokens for tokens, _ in kiwi().analyze(term, top_n=_READINGS) if tokens]
    best = readings[0][-1] if readings else None
    if best is None:
        return False
    considered = readings if best.tag.startswith("E") else readings[:1]
    return any(
        tokens[-1].tag.startswith("J") and tokens[-1].form == particle for tokens in considered
    )


def _squeezed(text: str) -> str:
    composed = unicodedata.normalize("NFC", text).lower()
    return "".join(c for c in composed if not c.isspace() and not _is_punctuation(c))


def _is_punctuation(c: str) -> bool:
    return unicodedata.category(c).startswith("P")


def _without_tail(term: str) -> str:
    end = len(term)
    while end and (term[end - 1].isspace() or _is_punctuation(term[end - 1])):
        end -= 1
    return term[:end]


def _marker_pattern(markers: list[str]) -> re.Pattern[str] | None:
    if not markers:
        return None
    longest_first = sorted(markers, key=len, reverse=True)
    endings = "|".join(re.escape(m[1:]) for m in longest_first if m.startswith("-"))
    words = "|".join(re.escape(m) for m in longest_first if not m.startswith("-"))
    parts = [rf"\b(?P<word>{words})\b"] if words else []
    parts += [rf"(?<=\w)(?P<ending>{endings})\b"] if endings else []
    return re.compile("|".join(parts), re.IGNORECASE)


def _word_pattern(words: Collection[str]) -> re.Pattern[str] | None:
    """A pattern for whole words; n't matches at the end of a word."""
    if not words:
        return None
    spelled = [
        (r"\b" if not w.startswith("n't") else r"\B") + re.escape(w).replace("'", "['’]")
        for w in sorted(words)
    ]
    return re.compile(rf"(?:{'|'.join(spelled)})\b", re.IGNORECASE)


def _cut(match: re.Match[str]) -> int:
    """The cut position: after an ending, before a word."""
    return match.start() if match.groupdict().get("word") else match.end()


def _korean_subject(clause: str, no_aspects: Collection[str]) -> tuple[int, int] | None:
    """The first sequence of nouns that is the subject of a description.

    Its last word must be a noun for a thing, not a counter (번, 개), a person or a time. A clause
    without an adjective or a negation (가게를 찾았지만) has no description.
    """
    tokens = kiwi().tokenize(clause)
    if not any(t.tag.startswith(_DESCRIBING) or t.form in _NEGATING for t in tokens):
        return None
    start: int | None = None
    end = 0
    head = ""
    for token in tokens:
        if token.tag in _NOUN_TAGS:
            if start is None or token.start > end + 1:
                start = token.start
            end = token.start + token.len
            head = token.form if token.tag in _HEAD_TAGS else ""
        elif token.tag in _TOPIC_TAGS and start is not None and head and head not in no_aspects:
            return start, end
        else:
            start = None
    return None
