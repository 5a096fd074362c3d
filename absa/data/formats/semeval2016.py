"""SemEval-2015/2016 XML: `<Opinion target="" category="" polarity="" from="" to=""/>`.

A target that is NULL or missing (laptops) is an implicit aspect. A sentence marked OutOfScope has
no annotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from absa.data.formats.hash_text import none_if_null
from absa.data.formats.semeval_xml import offset_of, read_sentences, text_of
from absa.data.problems import BadLine
from absa.data.rows import RawAspect, RawSample
from absa.data.source import Source


def looks_like(head: str, source: Source) -> bool:
    """Return whether the head is XML with sentences in reviews, or with opinions."""
    return (
        head.lstrip().startswith("<")
        and "<sentence" in head
        and ("<Review" in head or "<Opinion" in head)
    )


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the sentences of the file."""
    # Distinguishes "no opinion" from "no gold".
    has_gold = "<Opinion " in source.head()

    def parse(sentence: Element) -> RawSample:
        nonlocal has_gold
        opinions = list(sentence.iter("Opinion"))
        has_gold = has_gold or bool(opinions)
        out_of_scope = sentence.get("OutOfScope", "").upper() == "TRUE"
        no_gold = not has_gold or (out_of_scope and not opinions)
        return RawSample(
            uid=sentence.get("id"),
            text=text_of(sentence),
            aspects=None if no_gold else [_aspect(element) for element in opinions],
        )

    return read_sentences(source, parse)


def _aspect(element: Element) -> RawAspect:
    target = none_if_null(element.get("target"))
    start, end = offset_of(element, "from"), offset_of(element, "to")
    return RawAspect(
        term=target,
        start=start if target else None,
        end=end if target else None,
        polarity=element.get("polarity"),
        category=element.get("category"),
        search=start is None and end is None,
    )
