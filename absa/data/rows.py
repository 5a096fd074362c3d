"""Builds a `Sample` from a row of any format: the checks that all formats share.

The reader of a format yields a `RawSample` with the unchanged values of the file. `build_sample`
checks types, finds and verifies offsets, reads polarities, and notes its changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from absa.data.problems import BadLine, BadRowError, has_surrogate, shown
from absa.data.source import Line, Source
from absa.schemas.sample import Cell, GoldAspect, GoldLabel, GoldPolarity, Sample

POLARITY_SPELLINGS: dict[str, GoldPolarity] = {
    **dict.fromkeys(("positive", "pos", "긍정"), "positive"),
    **dict.fromkeys(("negative", "neg", "부정"), "negative"),
    **dict.fromkeys(("neutral", "neu", "중립"), "neutral"),
}
# SemEval's "conflict" is our "mixed" for a sentence. An aspect cannot have it.
LABEL_SPELLINGS: dict[str, GoldLabel] = {
    **cast(dict[str, GoldLabel], POLARITY_SPELLINGS),
    "mixed": "mixed",
    "conflict": "mixed",
    "혼합": "mixed",
}
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})*")


@dataclass
class RawAspect:
    """One gold tuple with the unchanged values of the file.

    Attributes:
        search: The file has no offsets, so the term is searched in the text.
    """

    term: object = None
    start: object = None
    end: object = None
    polarity: object = None
    opinion: object = None
    category: object = None
    search: bool = False


@dataclass
class RawSample:
    """One row with the unchanged values of the file, and its line."""

    text: object
    uid: object = None
    lang: object = None
    domain: object = None
    split: object = None
    label: object = None
    aspects: list[RawAspect] | None = None
    given_aspects: object = None
    incomplete: bool = False
    extra: dict[str, Cell] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    line: int = 0
    excerpt: str = ""


def parsed(
    source: Source, line: int, raw: str, parse: Callable[[], RawSample]
) -> RawSample | BadLine:
    """Parse a row that begins on this line; report one that cannot be parsed."""
    try:
        row = parse()
    except BadRowError as bad:
        return source.bad(line, bad.reason, bad.remedy, raw)
    row.line, row.excerpt = line, raw
    return row


def each_line(source: Source, parse: Callable[[str], RawSample]) -> Iterator[RawSample | BadLine]:
    """Read a format with one row per line. Report each line that cannot be parsed."""
    for line in source.lines():
        yield parsed(source, line.number, line.text, partial(_parse_line, line, parse))


def _parse_line(line: Line, parse: Callable[[str], RawSample]) -> RawSample:
    return parse(line.require_sound())


def _read_terms(terms: object) -> tuple[str, ...] | None:
    if terms is None:
        return None
    if not isinstance(terms, list) or not all(isinstance(t, str) and t.strip() for t in terms):
        raise BadRowError(
            "given_aspects is not a list of terms.", 'Write "given_aspects": ["food", "service"].'
        )
    return tuple(terms)


def build_sample(row: RawSample, uid: str) -> Sample:
    """Check a row and return the sample, or raise `BadRowError`."""
    text = _read_text(row.text)
    notes = list(row.notes)
    label = _read_label(row.label, notes)
    dropped = relocated = 0
    aspects: list[GoldAspect] = []
    for raw in row.aspects or ():
        polarity = read_polarity(raw.polarity)
        if polarity is None:
            dropped += 1
            notes.append(f"aspect {shown(raw.term)}: polarity {shown(raw.polarity)} left out")
            continue
        start, end, moved = _locate(text, raw)
        relocated += moved
        aspect = GoldAspect.model_validate(
            {
                "term": _term(raw),
                "from": start,
                "to": end,
                "polarity": polarity,
                "opinion": optional_text(raw.opinion, "opinion"),
                "category": optional_text(raw.category, "category"),
                "implicit": start is None,
            }
        )
        if aspect not in aspects:
            aspects.append(aspect)
    if relocated:
        notes.append(f"{relocated} aspect(s) had wrong offsets and were found by search")
    return Sample(
        uid=uid,
        text=text,
        lang=_read_language(row.lang),
        domain=optional_text(row.domain, "domain"),
        split=optional_text(row.split, "split"),
        aspects=None if row.aspects is None else tuple(aspects),
        label=label,
        given_aspects=_read_terms(row.given_aspects),
        incomplete_gold=row.incomplete or dropped > 0,
        dropped_aspects=dropped,
        relocated_aspects=relocated,
        extra=row.extra,
        notes=tuple(notes),
    )


def read_uid(value: object) -> str | None:
    """Return the uid of a row, None if it has no uid."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return optional_text(value, "uid")


def read_polarity(value: object) -> GoldPolarity | None:
    """Return the canonical polarity, or None if the value is unknown. Nothing is guessed."""
    return POLARITY_SPELLINGS.get(value.strip().lower()) if isinstance(value, str) else None


def optional_text(value: object, name: str) -> str | None:
    """Return a string field, None if it is absent or empty."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadRowError(f"{name} is {_kind(value)}, not a string.", f"Write {name} in quotes.")
    if has_surrogate(value):
        raise BadRowError(
            f"{name} contains half a character (a lone surrogate).", "Write the character in full."
        )
    return value


def find_term(text: str, term: str) -> int:
    """Return the offset of a term, preferably as a separate word; -1 if it is not in the text.

    A Korean particle can follow directly: 음식은 contains the word 음식.
    """
    word = re.search(rf"(?<!\w){re.escape(term)}(?![^\W가-힣])", text)
    return word.start() if word else text.find(term)


def _read_text(value: object) -> str:
    text = optional_text(value, "text")
    if text is None or not text.strip():
        raise BadRowError("the text is missing or empty.", "Fill it in or delete the row.")
    return text


def _read_language(value: object) -> str | None:
    code = optional_text(value, "lang")
    if code is None:
        return None
    code = code.strip().lower().replace("_", "-")
    if not LANGUAGE_CODE.fullmatch(code):
        raise BadRowError(f"lang {shown(code)} is not a language code.", "Write ko, en, ja …")
    return code


def _read_label(value: object, notes: list[str]) -> GoldLabel | None:
    if value is None or value == "":
        return None
    label = LABEL_SPELLINGS.get(value.strip().lower()) if isinstance(value, str) else None
    if label is None:
        notes.append(f"label {shown(value)} left out: no known sentence label")
    return label


def _term(raw: RawAspect) -> str | None:
    return optional_text(raw.term, "the aspect's term")


def _locate(text: str, raw: RawAspect) -> tuple[int | None, int | None, bool]:
    """Return the span of an aspect, and whether the offsets of the file had to be corrected."""
    term = _term(raw)
    start, end = _offset(raw.start, "from"), _offset(raw.end, "to")
    if term is None:
        if start or end:
            raise BadRowError("an aspect has from and to but no term.", "Write its term as well.")
        return None, None, False
    if raw.search:
        return _search(text, term)
    if start is None and end is None:
        return None, None, False
    if start is None or end is None:
        raise BadRowError(
            f"aspect {shown(term)} has only one of from and to.",
            "Give both, or neither for an implicit aspect.",
        )
    if 0 <= start < end <= len(text) and text[start:end] == term:
        return start, end, False
    return _relocate(text, term, start, end)


def _search(text: str, term: str) -> tuple[int, int, bool]:
    place = find_term(text, term)
    if place < 0:
        raise BadRowError(
            f"aspect {shown(term)} does not occur in the text.",
            "Copy the term from the text, or write NULL for an implicit aspect.",
        )
    return place, place + len(term), False


def _relocate(text: str, term: str, start: int, end: int) -> tuple[int, int, bool]:
    first = text.find(term)
    if first < 0 or text.find(term, first + 1) >= 0:
        often = "does not occur in the text" if first < 0 else "occurs more than once"
        raise BadRowError(
            f"the text from {start} to {end} is not {shown(term)}, which {often}.",
            "Offsets count characters from 0, end exclusive: correct from and to.",
        )
    return first, first + len(term), True


def _offset(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRowError(
            f"{name} is {_kind(value)}, not a whole number.", "Offsets count characters from 0."
        )
    return value


def _kind(value: object) -> str:
    kinds = {bool: "true/false", int: "a number", float: "a number", list: "a list"}
    kinds |= {dict: "an object", str: "a string", tuple: "a list"}
    return kinds.get(type(value), type(value).__name__)
