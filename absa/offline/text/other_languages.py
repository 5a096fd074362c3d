"""Texts in a language that the embedded analyzer does not read.

The guess looks at the script, at the most frequent words, and at how many words English does not
have. A text that could be Korean or English is taken for one of them, so that a short or mixed text
is read rather than refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache

from absa.nodes.assets import OwnFiles, read_json, using
from absa.offline.models.features import word_classes

_NAMES = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "CYRILLIC": "a language in Cyrillic script",
    "ARABIC": "a language in Arabic script",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "THAI": "Thai",
    "DEVANAGARI": "a language in Devanagari script",
    "BENGALI": "Bengali",
    "TAMIL": "Tamil",
    "GEORGIAN": "Georgian",
    "ARMENIAN": "Armenian",
}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
#: A language is named from this many of its frequent words on, if English has this many fewer.
_FEWEST, _LEAD = 3, 2
#: A text is not English if it has at least this many words and this share is unknown in English.
_MIN_WORDS, _UNKNOWN = 3, 0.7
#: The same for a text with an accented unknown word and without a frequent English word.
_UNKNOWN_WITH_ACCENT = 0.4
_UNNAMED = "a language other than English"
_LETTERS = 400
MODEL_OPTIONS = "--set backend.kind=openai --set backend.model=NAME"


@lru_cache(maxsize=512)
def other_language(text: str, lang: str | None = None) -> str | None:
    """The name of the language of a text if it is neither Korean nor English, else None.

    `lang` is what the user says, if anything.
    """
    code = re.split(r"[-_]", lang.strip().lower())[0] if lang else ""
    by_script = _by_script(text)
    if by_script or code == "ko":
        return by_script
    # English is also what a text without Hangul is taken for.
    return _by_words(text) if code in ("", "en", "und") else f"the language {code!r}"


def unread_note(texts: Mapping[str, int]) -> str:
    """What to tell a user about texts in languages that are not read; `texts` counts them."""
    count = sum(texts.values())
    return (
        f"{count:,} {'text seems' if count == 1 else 'texts seem'} to be in "
        f"{', '.join(sorted(texts))}. The offline analyzer reads Korean and English only and found "
        f"nothing in {'it' if count == 1 else 'them'}; a language model reads other languages "
        f"({MODEL_OPTIONS})"
    )


def _by_script(text: str) -> str | None:
    counts: dict[str, int] = {}
    letters = [char for char in text if char.isalpha()][:_LETTERS]
    for char in letters:
        script = unicodedata.name(char, "?").split()[0]
        counts[script] = counts.get(script, 0) + 1
    read = counts.get("LATIN", 0) + counts.get("HANGUL", 0)
    other = {script: count for script, count in counts.items() if script in _NAMES}
    # A Japanese sentence has Chinese characters as well.
    kana = other.get("HIRAGANA", 0) + other.get("KATAKANA", 0)
    if sum(other.values()) <= read:
        return None
    return "Japanese" if kana else _NAMES[max(other, key=lambda script: other[script])]


@cache
def _lists() -> dict[str, frozenset[str]]:
    """Frequent words of languages."""
    with using(OwnFiles()):
        raw = read_json("patterns/other_languages.json")
    return {name: frozenset(words.split()) for name, words in raw.items() if name[0] != "_"}


def _by_words(text: str) -> str | None:
    words = [word.lower() for word in _WORD.findall(text[:2000])]
    hits = {name: sum(word in frequent for word in words) for name, frequent in _lists().items()}
    english = hits.pop("English")
    best = max(hits, key=lambda name: hits[name])
    if hits[best] >= max(_FEWEST, english + _LEAD):
        return best
    if not _is_unknown_in_english(words, has_frequent=english > 0):
        return None
    return best if hits[best] >= _LEAD else _UNNAMED


def _is_unknown_in_english(words: list[str], *, has_frequent: bool) -> bool:
    words = [word for word in words if len(word) > 1]
    # A word in Hangul makes the text Korean, whatever stands beside it.
    if len(words) < _MIN_WORDS or any("\uac00" <= char <= "\ud7a3" for char in "".join(words)):
        return False
    english = word_classes()
    unknown = [word for word in words if re.split("['’]", word)[0] not in english]
    has_accent = any(not word.isascii() for word in unknown)
    bar = _UNKNOWN_WITH_ACCENT if has_accent and not has_frequent else _UNKNOWN
    return len(unknown) >= bar * len(words)
