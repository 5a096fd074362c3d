"""SemEval-2014 task 4 XML (and MAMS): `<aspectTerm term="" polarity="" from="" to=""/>`.

`<aspectCategory>` is read as an implicit aspect, but only from a file without `<aspectTerm>`.
If a file has both, the categories repeat what the terms say.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from absa.data.formats.semeval_xml import offset_of, read_sentences, text_of
from absa.data.problems import BadLine
from absa.data.rows import RawAspect, RawSample
from absa.data.source import Source


def looks_like(head: str, source: Source) -> bool:
    """Return whether the head is XML with sentences outside of reviews."""
    return head.lstrip().startswith("<") and "<sentence" in head and "<Review" not in head


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the sentences of the file."""
    head = source.head()
    # The kinds of gold in the file distinguish "no aspect" from "no gold".
    has_terms, has_categories = "<aspectTerm " in head, "<aspectCategory " in head

    def parse(sentence: Element) -> RawSample:
        nonlocal has_terms, has_categories
        terms = list(sentence.iter("aspectTerm"))
        categories = list(sentence.iter("aspectCategory"))
        has_terms = has_terms or bool(terms)
        has_categories = has_categories or bool(categories)
        aspects: list[RawAspect] | None = None
        if has_terms:
            aspects = [_term(element) for element in terms]
        elif has_categories:
            aspects = [_category(element) for element in categories]
        return RawSample(uid=sentence.get("id"), text=text_of(sentence), aspects=aspects)

    return read_sentences(source, parse)


def _term(element: Element) -> RawAspect:
    return RawAspect(
        term=element.get("term"),
        start=offset_of(element, "from"),
        end=offset_of(element, "to"),
        polarity=element.get("polarity"),
        search=element.get("from") is None and element.get("to") is None,
    )


def _category(element: Element) -> RawAspect:
    return RawAspect(category=element.get("category"), polarity=element.get("polarity"))
