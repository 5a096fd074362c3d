"""The supported formats, in the order in which a file is tested against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from absa.data.formats import acos, hash_text, jsonl, nikl, semeval2014, semeval2016, table
from absa.data.problems import BadLine, DataError
from absa.data.rows import RawSample, each_line
from absa.data.source import Source

Reader = Callable[[Source], Iterator[RawSample | BadLine]]


class Format(NamedTuple):
    """One format: its name, what people call it, and its two functions."""

    name: str
    title: str
    looks_like: Callable[[str, Source], bool]
    read: Reader


def _by_line(
    parse: Callable[[str], RawSample],
) -> Callable[[Source], Iterator[RawSample | BadLine]]:
    """Return the reader of a format with one row per line."""
    return lambda source: each_line(source, parse)


FORMATS = (
    Format("semeval2016", "SemEval-2015/2016 XML", semeval2016.looks_like, semeval2016.read),
    Format("semeval2014", "SemEval-2014 XML", semeval2014.looks_like, semeval2014.read),
    Format("nikl", "NIKL JSONL", nikl.looks_like, _by_line(nikl.parse)),
    Format("jsonl", "JSONL", jsonl.looks_like, jsonl.read),
    Format("aste", "ASTE-Data-V2 text", hash_text.looks_like_aste, _by_line(hash_text.parse_aste)),
    Format("asqp", "ASQP text", hash_text.looks_like_asqp, _by_line(hash_text.parse_asqp)),
    Format("mabsa", "M-ABSA text", hash_text.looks_like_mabsa, _by_line(hash_text.parse_mabsa)),
    Format("acos", "ACOS TSV", acos.looks_like, _by_line(acos.parse)),
    Format("csv", "CSV or TSV with a header", table.looks_like, table.read),
)
ALIASES = {"tsv": "csv", "semeval2015": "semeval2016", "m-absa": "mabsa", "aste-data-v2": "aste"}
# Only these formats have named fields, so only these accept a column mapping.
MAPPABLE = {"jsonl": jsonl.ROW_KEYS, "csv": frozenset(table.COLUMN_NAMES)}


def format_named(name: str, source: Source) -> Format:
    """Return the format a user asked for."""
    wanted = name.strip().lower()
    by_name = {data_format.name: data_format for data_format in FORMATS}
    data_format = by_name.get(ALIASES.get(wanted, wanted))
    if data_format is None:
        names = ", ".join(by_name)
        raise DataError(source.path, f"format {name!r} is not known.", f"The formats are: {names}.")
    return data_format


def recognise(source: Source) -> Format:
    """Return the format of a file by its content, or raise `DataError`."""
    head = source.head()
    if not head.strip():
        reason = source.cut_short.reason if source.cut_short else "the file is empty."
        raise DataError(source.path, reason)
    if "\x00" in head:
        raise DataError(
            source.path,
            "this is not a text file, or it is UTF-16 without a byte order mark.",
            "Save the data as UTF-8 text.",
        )
    for data_format in FORMATS:
        if data_format.looks_like(head, source):
            return data_format
    if head.lstrip().startswith("["):
        raise DataError(
            source.path,
            "the file is one JSON list.",
            "Write one JSON object per line instead (JSONL).",
        )
    titles = ", ".join(data_format.title for data_format in FORMATS)
    raise DataError(
        source.path,
        f"the format is not recognised; supported are: {titles}.",
        "Name the format, or write one JSON object per line.",
    )


def check_columns(source: Source, data_format: Format) -> None:
    """Raise `DataError` if the column mapping does not fit the format."""
    if not source.columns:
        return
    fields = MAPPABLE.get(data_format.name)
    if fields is None:
        raise DataError(
            source.path,
            f"the format {data_format.title} has no named columns.",
            "Leave --column out.",
        )
    for field in source.columns:
        if field not in fields:
            raise DataError(
                source.path,
                f"{field!r} in the column mapping is not a known field.",
                f"Fields are: {', '.join(sorted(fields))}.",
            )
