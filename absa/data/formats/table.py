"""CSV and TSV with a header line.

Gold comes in one of three shapes: an `aspects` column with the JSON list of our own schema; one
aspect per row (`term`, `from`, `to`, `polarity`, `opinion`, `category`), where neighbouring rows
with one uid (without uids: one text) make one sample; or only a sentence label.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from absa.data.formats.jsonl import parse_aspects
from absa.data.problems import BadLine, BadRowError, DataError, has_surrogate, shown
from absa.data.rows import RawAspect, RawSample, parsed
from absa.data.source import Line, Source
from absa.schemas.json_text import parse_json

# Column names that are recognised without a mapping, the most specific first.
COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "text": ("text", "sentence", "review", "document", "content", "comment", "raw_text")
    + ("review_text", "sentence_form", "텍스트", "문장", "리뷰", "본문", "내용", "댓글"),
    "uid": ("uid", "id", "sentence_id", "review_id"),
    "lang": ("lang", "language", "언어"),
    "domain": ("domain", "도메인", "분야"),
    "split": ("split",),
    "label": ("label", "sentence_label", "라벨"),
    "aspects": ("aspects",),
    "term": ("term", "aspect_term", "aspect", "target", "속성"),
    "from": ("from", "start"),
    "to": ("to", "end"),
    "polarity": ("polarity", "sentiment", "극성", "감성"),
    "opinion": ("opinion", "opinion_term"),
    "category": ("category", "aspect_category", "카테고리"),
}
# Columns of `absa export --to csv` about one aspect, not about the text.
OF_ASPECTS = frozenset({"evidence", "confidence", "implicit"})
DELIMITERS = "\t,;|"
MAX_RECORD_LINES = 100  # Limits how much of the file an unclosed quote can consume.
QUOTE_REMEDY = 'Put a text with commas or quotes in "…" and double the quotes inside it.'


@dataclass(frozen=True)
class Record:
    """One record: the line it begins on, its text, its cells."""

    line: int
    raw: str
    cells: list[str]


@dataclass
class Layout:
    """Which cell of a record holds which field."""

    delimiter: str
    width: int
    cell_of: dict[str, int]
    # Columns without a meaning here. They are copied to the output.
    extra: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Use a polarity column without an aspect column as the sentence label."""
        named = {"term", "category"} & self.cell_of.keys()
        if "polarity" in self.cell_of and not named:
            polarity = self.cell_of.pop("polarity")
            self.cell_of.setdefault("label", polarity)

    @property
    def one_aspect_per_row(self) -> bool:
        """Whether gold is in several columns instead of one JSON cell."""
        return "polarity" in self.cell_of and "aspects" not in self.cell_of


def looks_like(head: str, source: Source) -> bool:
    """Return whether the first line is a header: it names a text column, or the suffix says so."""
    header = next((line for line in head.splitlines() if line.strip()), "")
    cells = {cell.casefold() for cell in _header_cells(header, _delimiter(header))}
    if source.columns.get("text", "").strip().casefold() in cells - {""}:
        return True
    return source.suffix in (".csv", ".tsv") or bool(cells.intersection(COLUMN_NAMES["text"]))


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the samples of the file."""
    lines = source.lines()
    layout = _read_header(source, lines)
    rows = (
        record
        if isinstance(record, BadLine)
        else parsed(source, record.line, record.raw, partial(_parse_record, record, layout))
        for record in _records(source, lines, layout.delimiter)
    )
    return _grouped(rows) if layout.one_aspect_per_row else rows


def _grouped(rows: Iterator[RawSample | BadLine]) -> Iterator[RawSample | BadLine]:
    """Join neighbouring rows of one sample. A bad line can belong to either neighbour."""
    group: RawSample | None = None
    after_bad_line = False
    for row in rows:
        if isinstance(row, BadLine):
            after_bad_line = True
            if group is not None:
                _mark_incomplete(group)
            yield row
            continue
        if after_bad_line:
            _mark_incomplete(row)
        after_bad_line = False
        if group is not None and (group.uid, group.text) == (row.uid, row.text):
            group.aspects = (group.aspects or []) + (row.aspects or [])
            continue
        if group is not None:
            yield group
        group = row
    if group is not None:
        yield group


def _mark_incomplete(row: RawSample) -> None:
    if not row.incomplete:
        row.incomplete = True
        row.notes.append("a neighbouring line could not be read: gold may be incomplete")


def _read_header(source: Source, lines: Iterator[Line]) -> Layout:
    line = next(lines, None)
    if line is None:
        raise DataError(source.path, "the file is empty.")
    if line.problem is not None:
        raise DataError(source.path, f"the header: {line.problem}", "Save the file as UTF-8.")
    delimiter = _delimiter(line.text)
    names = _header_cells(line.text, delimiter)
    folded = [name.casefold() for name in names]
    twice = sorted({name for name in folded if name and folded.count(name) > 1})
    if twice:
        raise DataError(source.path, f"two columns are named {shown(twice[0])}.")
    cell_of = {
        field: place
        for field, accepted in COLUMN_NAMES.items()
        if (place := _find_column(folded, accepted)) is not None
    }
    cell_of = _apply_mapping(source, names, folded, cell_of)
    if "text" not in cell_of:
        raise DataError(
            source.path,
            f"no text column was recognised; the columns are: {_listed(names)}.",
            "Name it: --column text=COLUMN.",
        )
    taken = set(cell_of.values())
    extra = {name: place for place, name in enumerate(names) if name and place not in taken}
    layout = Layout(delimiter, len(names), cell_of, extra)
    if layout.one_aspect_per_row:
        for name in OF_ASPECTS & extra.keys():
            del extra[name]
    return layout


def _apply_mapping(
    source: Source, names: list[str], folded: list[str], cell_of: dict[str, int]
) -> dict[str, int]:
    mapped: dict[str, int] = {}
    for name, column in source.columns.items():
        place = _find_column(folded, (column.strip().casefold(),))
        if place is None:
            raise DataError(
                source.path,
                f"there is no column {shown(column)}; the columns are: {_listed(names)}.",
            )
        mapped[name] = place
    taken = set(mapped.values())
    guessed = {field: place for field, place in cell_of.items() if place not in taken}
    return guessed | mapped


def _find_column(folded: list[str], accepted: tuple[str, ...]) -> int | None:
    return next((folded.index(name) for name in accepted if name in folded), None)


class _Lines:
    """The lines of the file; lines can be put back."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._waiting: deque[Line] = deque()

    def next(self) -> Line | None:
        return self._waiting.popleft() if self._waiting else next(self._lines, None)

    def put_back(self, lines: list[Line]) -> None:
        self._waiting.extendleft(reversed(lines))


def _records(source: Source, lines: Iterator[Line], delimiter: str) -> Iterator[Record | BadLine]:
    """Yield the records of the file."""
    queue = _Lines(lines)
    while (line := queue.next()) is not None:
        try:
            if delimiter == "\t":
                text = line.require_sound()
                yield Record(line.number, text, [_unquote(cell) for cell in text.split("\t")])
            else:
                yield _quoted_record(line, queue, delimiter)
        except BadRowError as bad:
            yield source.bad(line.number, bad.reason, bad.remedy, line.text)


def _quoted_record(first: Line, queue: _Lines, delimiter: str) -> Record:
    """Return the record that begins on a line. A quoted cell can span several lines.

    If the record is invalid, the further lines are put back, because they can be valid records.
    """
    text = first.require_sound()
    further: list[Line] = []
    try:
        while (cells := _parse_cells(text, delimiter)) is None:
            line = queue.next()
            if line is None or len(further) == MAX_RECORD_LINES:
                further += [line] if line else []
                raise BadRowError("a quote is opened but not closed.", QUOTE_REMEDY)
            # Blank lines were skipped. The line numbers show how many belong in between.
            text += "\n" * (line.number - (further or [first])[-1].number) + line.text
            further.append(line)
    except BadRowError:
        queue.put_back(further)
        raise
    for line in further:
        line.require_sound()
    return Record(first.number, text, cells)


def _parse_cells(text: str, delimiter: str) -> list[str] | None:
    """Return the cells of a record, None if it ends inside a quoted cell."""
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            return None
        raise BadRowError(f"this is not valid CSV ({error}).", QUOTE_REMEDY) from error


def _unquote(cell: str) -> str:
    """Return a TSV cell without CSV quotes."""
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


def _parse_record(record: Record, layout: Layout) -> RawSample:
    if len(record.cells) != layout.width:
        raise BadRowError(
            f"the line has {len(record.cells)} cells, the header {layout.width}.", QUOTE_REMEDY
        )
    values: dict[str, str | None] = {
        field: record.cells[place] or None for field, place in layout.cell_of.items()
    }
    notes: list[str] = []
    return RawSample(
        uid=values.get("uid"),
        text=values.get("text"),
        lang=values.get("lang"),
        domain=values.get("domain"),
        split=values.get("split"),
        label=values.get("label"),
        aspects=_parse_gold(values, layout, notes),
        extra={
            name: record.cells[place]
            for name, place in layout.extra.items()
            if record.cells[place].strip() and not has_surrogate(record.cells[place])
        },
        notes=notes,
    )


def _parse_gold(
    values: Mapping[str, str | None], layout: Layout, notes: list[str]
) -> list[RawAspect] | None:
    if layout.one_aspect_per_row:
        named = any(values.get(field) for field in ("term", "category", "polarity"))
        return [_parse_aspect(values)] if named else []
    cell = values.get("aspects")
    if cell is None:
        return None
    try:
        return parse_aspects(parse_json(cell), notes)
    except ValueError as error:
        raise BadRowError(
            "the aspects cell is not valid JSON.", 'Write [{"term": …, "polarity": …}].'
        ) from error


def _parse_aspect(values: Mapping[str, str | None]) -> RawAspect:
    start, end = _number(values.get("from")), _number(values.get("to"))
    term = values.get("term")
    return RawAspect(
        term=None if term is not None and term.upper() == "NULL" else term,
        start=start,
        end=end,
        polarity=values.get("polarity"),
        opinion=values.get("opinion"),
        category=values.get("category"),
        search=start is None and end is None,
    )


def _number(cell: str | None) -> int | str | None:
    """Return a whole number, or the unchanged cell, which is reported with the sample."""
    try:
        return None if cell is None else int(cell)
    except ValueError:
        return cell


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=lambda mark: (header.count(mark), mark == ","))


def _header_cells(header: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:
        cells = header.split(delimiter)
    return [cell.strip() for cell in cells]


def _listed(names: list[str]) -> str:
    return ", ".join(shown(name, 30) for name in names[:20])
