"""NIKL (국립국어원) aspect corpus: JSONL with `sentence_form` and `annotation`.

An annotation is [category, [term, from, to], polarity]; a null term is an implicit aspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from absa.data.formats.jsonl import parse_object
from absa.data.problems import BadLine, BadRowError
from absa.data.rows import RawAspect, RawSample, each_line
from absa.data.source import Source

SENTENCE_KEY = re.compile(r'^\s*\{.*"sentence_form"\s*:', re.MULTILINE)


def looks_like(head: str, source: Source) -> bool:
    """Return whether the head has the corpus's key for the sentence."""
    return SENTENCE_KEY.search(head) is not None


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the sentences of the file."""
    return each_line(source, _parse)


def _parse(text: str) -> RawSample:
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
            implicit = term is None
            return RawAspect(
                term=term,
                start=None if implicit else start,
                end=None if implicit else end,
                polarity=polarity,
                category=category,
            )
    raise BadRowError(
        "an annotation does not have the expected form.",
        "Write [category, [term, from, to], polarity].",
    )
