"""Reads a data file: detects the format, yields samples, and rejects duplicate uids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from absa.data.problems import BadLine, BadRowError, shown
from absa.data.registry import Format, check_columns, format_named, recognise
from absa.data.rows import build_sample, read_uid
from absa.data.source import Source, checked_source
from absa.schemas.sample import Sample


def detect_format(path: Path | str) -> str:
    """Return the name of a file's format, recognised by its content.

    Raises:
        DataError: There is no such file, it is a directory, or no format fits.
    """
    return recognise(checked_source(path)).name


def read_samples(
    path: Path | str,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    size: int | None = None,
) -> Iterator[Sample | BadLine]:
    """Yield the samples of a data file, and a `BadLine` for each row that cannot be used.

    The file is streamed: only the uids stay in memory.

    Args:
        path: The file; may be gzip-compressed; UTF-8, or UTF-16 with a byte order mark.
        format: Name of the format; recognised by content if None.
        columns: For CSV and JSONL, which column holds which field: {"text": "review"}.
        size: Read this many bytes of the file; None reads all.

    Raises:
        DataError: The file cannot be used at all. The call itself raises it if the error shows
        before the first row (no file, no format, no such field), else the iteration does.
    """
    return open_samples(path, format, columns, size)[1]


def open_samples(
    path: Path | str, format: str | None, columns: Mapping[str, str] | None, size: int | None = None
) -> tuple[Format, Iterator[Sample | BadLine]]:
    """Return the format of a file along with its samples."""
    source = checked_source(path, columns, size)
    data_format = recognise(source) if format is None else format_named(format, source)
    check_columns(source, data_format)
    source.cut_short = None  # A read error in the head occurs again later, with its line number.
    return data_format, _samples(source, data_format)


def _samples(source: Source, data_format: Format) -> Iterator[Sample | BadLine]:
    first_lines: dict[str, int] = {}
    made_up = _UidMaker(source.stem)
    for row in data_format.read(source):
        if isinstance(row, BadLine):
            yield row
            continue
        try:
            uid = read_uid(row.uid) or made_up.uid(row.line)
            sample = build_sample(row, uid)
            if uid in first_lines:
                raise BadRowError(
                    f"uid {shown(uid)} was already used on line {first_lines[uid]}.",
                    "Give each row its own uid.",
                )
            first_lines[uid] = row.line
        except BadRowError as bad:
            yield source.bad(row.line, bad.reason, bad.remedy, row.excerpt)
            continue
        yield sample
    if source.cut_short is not None:
        yield source.cut_short


class _UidMaker:
    """Makes stable uids from file name and line number, for rows without a uid."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._line = 0
        self._on_line = 0

    def uid(self, line: int) -> str:
        self._on_line = self._on_line + 1 if line == self._line else 1
        self._line = line
        which = f".{self._on_line}" if self._on_line > 1 else ""  # XML can be on one line
        return f"{self._stem}-{line:05d}{which}"
