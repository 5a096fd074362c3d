"""Code shared by the SemEval XML formats: reads `<sentence>` elements safely, one at a time.

Safely: a document that declares an entity is rejected, so nothing can expand or be fetched. One at
a time: the text is split before each `<sentence`, and the parser gets one piece after the other.
After a broken element, each piece gets its own parser, so that no other sentence is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from xml.etree.ElementTree import Element
from xml.parsers import expat

from absa.data.problems import BadLine, BadRowError, DataError
from absa.data.rows import RawSample, parsed
from absa.data.source import MAX_LINE, NOT_UTF8, SAVE_AS_UTF8, Source

SENTENCE = "sentence"
SENTENCE_START = re.compile(r"(?=<sentence[\s/>])")
SURROGATE = re.compile("[\ud800-\udfff]")
# Stands for a byte that could not be decoded: a private character that no text uses.
UNDECODABLE = "\U0010fffd"
REMEDY = "Correct the element; & and < are written &amp; and &lt; in XML."


@dataclass(frozen=True)
class Piece:
    """The text from one `<sentence` to the next, and the line it begins on."""

    line: int
    text: str

    @property
    def is_sentence(self) -> bool:
        """Whether this is a sentence, not the text before the first one."""
        return SENTENCE_START.match(self.text) is not None


class _ForbiddenEntityError(Exception):
    """The document declares an entity."""


class _UnknownEntityError(Exception):
    """A sentence uses an entity that the document does not declare."""


class _SentenceParser:
    """A parser that keeps the current sentence and drops everything outside of sentences."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._data
        self._expat.EntityDeclHandler = self._forbid_entity
        self._expat.UnparsedEntityDeclHandler = self._forbid_entity
        self._expat.ExternalEntityRefHandler = self._forbid_entity
        self._expat.SkippedEntityHandler = self._unknown_entity
        self._open: list[Element] = []
        self.finished: Element | None = None
        self.nested = False

    def feed(self, text: str, last: bool = False) -> None:
        self.finished = None
        self._expat.Parse(text, last)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == SENTENCE and self._open:
            self.nested = True
        if name == SENTENCE or self._open:
            element = Element(name, attributes)
            element.text = ""
            if self._open:
                self._open[-1].append(element)
            self._open.append(element)

    def _end(self, name: str) -> None:
        if self._open:
            element = self._open.pop()
            if not self._open:
                self.finished = element

    def _data(self, text: str) -> None:
        if self._open:
            self._open[-1].text = (self._open[-1].text or "") + text

    def _forbid_entity(self, *_: object) -> int:
        raise _ForbiddenEntityError

    def _unknown_entity(self, name: str, _: bool) -> None:
        raise _UnknownEntityError(f"undefined entity {name}")


def read_sentences(
    source: Source, parse: Callable[[Element], RawSample]
) -> Iterator[RawSample | BadLine]:
    """Yield what `parse` makes of each sentence, and a report for each that is broken."""
    for piece, outcome in _sentences(source):
        if isinstance(outcome, BadLine):
            yield outcome
        elif UNDECODABLE in piece.text:
            yield source.bad(piece.line, NOT_UTF8, SAVE_AS_UTF8, piece.text)
        else:
            yield parsed(source, piece.line, piece.text, partial(parse, outcome))


def text_of(sentence: Element) -> str | None:
    """Return the text of a sentence exactly as written."""
    texts = sentence.findall("text")
    if len(texts) > 1 or (texts and len(texts[0])):
        raise BadRowError("the sentence has more than one text, or elements in it.", REMEDY)
    return texts[0].text if texts else None


def offset_of(element: Element, name: str) -> int | None:
    """Return a character offset that an element carries, None if it does not."""
    value = element.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError as error:
        raise BadRowError(f'{name}="{value[:20]}" is not a whole number.', REMEDY) from error


def _sentences(source: Source) -> Iterator[tuple[Piece, Element | BadLine]]:
    parser = _SentenceParser()
    whole = True  # Until an element is broken, one parser reads the whole document.
    seen = False
    unclosed: Piece | None = None  # a sentence that did not end within its piece
    piece = Piece(1, "")
    for piece in _pieces(source):
        if not whole:
            parser = _fresh_parser()
        problem = _feed(parser, piece, source)
        if not piece.is_sentence:
            if problem:
                raise DataError(source.path, f"this is not well-formed XML ({problem}).")
            continue
        seen = True
        if unclosed is not None and (problem or parser.nested or not whole):
            yield unclosed, _broken(source, unclosed, "the element is not closed")
            unclosed, whole, parser = None, False, _fresh_parser()
            problem = _feed(parser, piece, source)
        current = piece if unclosed is None else Piece(unclosed.line, unclosed.text + piece.text)
        unclosed = None
        if parser.finished is not None:
            yield current, parser.finished
            if problem and whole:
                yield current, _broken(source, current, f"after this sentence: {problem}")
        elif problem:
            yield current, _broken(source, current, problem)
        else:
            unclosed = current
        whole = whole and not problem
    if unclosed is not None:
        yield unclosed, _broken(source, unclosed, "the file ends inside the element")
    elif not seen:
        raise DataError(source.path, "the XML does not contain a <sentence> element.")
    elif whole and _feed(parser, Piece(piece.line, ""), source, last=True):
        yield piece, _broken(source, piece, "the file ends before its root element is closed")


def _feed(parser: _SentenceParser, piece: Piece, source: Source, last: bool = False) -> str:
    """Parse a piece and return what is wrong with it, or an empty string."""
    try:
        parser.feed(piece.text, last)
    except _ForbiddenEntityError:
        raise DataError(
            source.path,
            "the XML declares entities, which is not safe to read.",
            "Remove the <!ENTITY …> declarations.",
        ) from None
    except (expat.ExpatError, _UnknownEntityError) as error:
        return str(error).partition(":")[0]
    return ""


def _fresh_parser() -> _SentenceParser:
    parser = _SentenceParser()
    parser.feed("<sentences>")
    return parser


def _broken(source: Source, piece: Piece, reason: str) -> BadLine:
    return source.bad(piece.line, f"the XML is broken: {reason}.", REMEDY, piece.text)


def _pieces(source: Source) -> Iterator[Piece]:
    line, rest = 1, ""
    for chunk in source.chunks():
        *done, rest = SENTENCE_START.split(rest + SURROGATE.sub(UNDECODABLE, chunk))
        for text in filter(None, done):
            yield Piece(line, text)
            line += text.count("\n")
        if len(rest) > MAX_LINE:
            raise DataError(
                source.path, f"a piece of the XML has more than {MAX_LINE:,} characters."
            )
    if rest:
        yield Piece(line, rest)
