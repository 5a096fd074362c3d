"""A light tokenizer for English and anything else written in letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from absa.offline.stopping import watched
from absa.offline.text.annotations import Token

#: Emoticons and emoji ranges; shared with Korean text, where Kiwi would split emoticons.
EMOTION = (
    r"[:;=]-?(?:[)(]|[DPp]\b)|\^[_.]?\^|<3|[ㅠㅜ]{2,}|"
    "[\u2639\u263a\u2661\u2665\u2764\u2605\U0001f44d\U0001f44e\U0001f44f\U0001f44c"
    "\U0001f389\U0001f495-\U0001f49f\U0001f494\U0001f4a9\U0001f525\U0001f4af"
    "\U0001f600-\U0001f64f\U0001f910-\U0001f92f\U0001f970-\U0001f97a]"
)
EMOTION_RE = re.compile(EMOTION)

# "don ' t" is how tokenised corpora write it. The repetitions are bounded: a run of a hundred
# thousand letters must not be scanned again from each of them.
_TOKEN = re.compile(
    rf"(?P<EMO>{EMOTION})"
    r"|(?P<NEG>\b[^\W\d_]{0,8}n ?['’] ?t\b)"
    r"|(?P<W>[^\W\d_]+(?:[-'’&][^\W\d_]+)*)"
    r"|(?P<NUM>\d+(?:[.,:]\d+)*)"
    r"|(?P<P>[^\s\w]|_)"
)

_POSSESSIVE = re.compile(r"['’]s?$")


def tokenize(text: str) -> list[Token]:
    """Split a text into words, numbers, emoticons and punctuation, with offsets."""
    tokens: list[Token] = []
    for match in watched(_TOKEN.finditer(text)):
        form, tag = match.group(), match.lastgroup or "P"
        start, end = match.span()
        if tag == "W":
            bare = _POSSESSIVE.sub("", form) or form
            end = start + len(bare)
            lemma = bare.lower()
        elif tag == "NEG":
            lemma = form.lower().replace(" ", "").replace("’", "'")
        else:
            lemma = form
        tokens.append(Token(form, lemma, tag, start, end))
    return tokens


_DOUBLED = re.compile(r"([bdgklmnprt])\1$")


@lru_cache(maxsize=20_000)
def base_forms(word: str) -> tuple[str, ...]:
    """The word and the forms it may be inflected from, most likely first."""
    forms = [word]

    def add(form: str) -> None:
        if len(form) > 2 and form not in forms:
            forms.append(form)

    rules: tuple[tuple[str, Callable[[str], tuple[str, ...]]], ...] = (
        ("ies", lambda stem: (stem + "y",)),
        ("ied", lambda stem: (stem + "y",)),
        ("iest", lambda stem: (stem + "y",)),
        ("ier", lambda stem: (stem + "y",)),
        ("ily", lambda stem: (stem + "y",)),
        ("es", lambda stem: (stem + "e", stem)),
        ("s", lambda stem: (stem,)),
        ("ed", lambda stem: (stem, stem + "e", _DOUBLED.sub(r"\1", stem))),
        ("ing", lambda stem: (stem, stem + "e", _DOUBLED.sub(r"\1", stem))),
        ("est", lambda stem: (stem, stem + "e", _DOUBLED.sub(r"\1", stem))),
        ("er", lambda stem: (stem, stem + "e", _DOUBLED.sub(r"\1", stem))),
        ("ly", lambda stem: (stem, stem + "le")),
    )
    if len(word) <= 30:
        for suffix, stems in rules:
            if word.endswith(suffix) and len(word) > len(suffix) + 2:
                for form in stems(word[: -len(suffix)]):
                    add(form)
    return tuple(forms)
