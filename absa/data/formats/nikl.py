"""NIKL (국립국어원) aspect corpus: JSONL with `sentence_form` and `annotation`.

An annotation is [category, [term, from, to], polarity]; a null term is an implicit aspect.
"""

from __future__ import annotations

import re

from absa.data.formats.jsonl import parse_object
from absa.data.problems import BadRowError
from absa.data.rows import RawAspect, RawSample
from absa.data.source import Source

SENTENCE_KEY = re.compile(r'^\s*\{.*"sentence_form"\s*:', re.MULTILINE)


def looks_like(head: str, source: Source) -> bool:
    """Return whether the head has the corpus's key for the sentence."""
    return SENTENCE_KEY.search(head) is not None


def parse(text: str) -> RawSample:
    """Parse a line of the corpus."""
    row = parse_object(text)
    annotation = row.get("annotation")
    if annotation is not None and not isinstance(annotation, list):
        raise BadRowError("annotation is not a list.", "Write [] if there is none.")
    return RawSample(
        uid=row.get("id"),
        text=row.get("sentence_form"),
        lang="ko",
        aspects=None if annotation is None else [_parse_annotation(a) for a in annotation],
    )


def _parse_annotation(item: object) -> RawAspect:
    match item:
        case [category, [term, start, end], polarity]:
            place = (None, None) if term is None else (start, end)
            return RawAspect(term, *place, polarity=polarity, category=category)
    raise BadRowError(
        "an annotation does not have the expected form.",
        "Write [category, [term, from, to], polarity].",
    )
