"""A data file as text: plain or gzip, UTF-8 or UTF-16, read line by line or chunk by chunk.

Bytes that are invalid in the file's encoding become lone surrogates instead of an exception, so
that only their own line is lost.
"""

from __future__ import annotations

import codecs
import gzip
import io
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absa.data.problems import BadLine, BadRowError, DataError, has_surrogate, printable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE = 4_000_000
CHUNK = 65_536
HEAD = 65_536
DATA_SUFFIXES = frozenset({".jsonl", ".json", ".csv", ".tsv", ".txt", ".xml", ".raw"})

NOT_UTF8 = "the bytes are not valid UTF-8 (nor UTF-16 with a byte order mark)."
SAVE_AS_UTF8 = "Save the file as UTF-8; for a Korean Windows file: iconv -f CP949 -t UTF-8."
TOO_LONG = f"the line has more than {MAX_LINE:,} characters."


@dataclass(frozen=True)
class Line:
    """One line of a file without its line end. `problem` says why it cannot be used, else None."""

    number: int
    text: str
    problem: str | None = None

    def require_sound(self) -> str:
        """Return the text, or raise if the line could not be decoded or is far too long."""
        if self.problem is not None:
            raise BadRowError(self.problem, SAVE_AS_UTF8 if self.problem is NOT_UTF8 else "")
        return self.text


@dataclass
class Source:
    """One file that is being read.

    Attributes:
        path: The file.
        columns: The user's mapping from fields to columns (or JSON keys).
        cut_short: Set if the file could not be read to its end, such as a truncated gzip file.
        size: Read at most this many bytes, for a file that can grow while it is read.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    cut_short: BadLine | None = None
    size: int | None = None

    @property
    def suffix(self) -> str:
        """The file's suffix in lower case, without `.gz`."""
        return Path(_without_gz(self.path.name)).suffix.lower()

    @property
    def stem(self) -> str:
        """The file's name without suffixes, normalised so that uids are equal on every system."""
        stem = Path(_without_gz(self.path.name)).stem
        return "_".join(unicodedata.normalize("NFC", printable(stem)).split())

    def lines(self) -> Iterator[Line]:
        """Yield every line that is not blank."""
        number = 0
        with self._open() as stream:
            while True:
                text = self._guarded(lambda: stream.readline(MAX_LINE), number)
                if not text:
                    return
                number += 1
                if len(text) >= MAX_LINE and not text.endswith("\n"):
                    self._skip_rest_of_line(stream, number)
                    yield Line(number, text[:HEAD], TOO_LONG)
                    continue
                text = text.rstrip("\r\n")
                if text.strip():
                    yield Line(number, text, NOT_UTF8 if has_surrogate(text) else None)

    def chunks(self) -> Iterator[str]:
        """Yield the text in pieces of a bounded size, however long its lines are."""
        line = 0
        with self._open() as stream:
            # By lines: if a damaged file breaks off, only the current piece is lost.
            while text := self._guarded(lambda: stream.readline(CHUNK), line):
                line += text.endswith("\n")
                yield text

    def head(self) -> str:
        """Return the beginning of the text."""
        head = ""
        for chunk in self.chunks():
            head += chunk
            if len(head) >= HEAD:
                break
        return head

    def bad(self, line: int, reason: str, remedy: str, raw: str) -> BadLine:
        """Return the report of a line of this file."""
        return BadLine(
            file=str(self.path), line=line, reason=reason, remedy=remedy, excerpt=printable(raw)
        )

    def _open(self) -> io.TextIOWrapper:
        try:
            raw: Any
            if self.size is None:
                raw = self.path.open("rb")
            else:
                raw = io.BufferedReader(_Beginning(self.path, self.size), CHUNK)
        except OSError as error:
            raise DataError(self.path, f"the file cannot be read ({error.strerror}).") from error
        if raw.peek(2)[:2] == GZIP_MAGIC:
            packed, raw = raw, gzip.GzipFile(fileobj=raw)
            raw.myfileobj = packed  # the wrapper closes the file
        try:
            start = raw.peek(2)[:2]
        except (EOFError, OSError, zlib.error) as error:
            start = b""
            self._break_off(error, 0)
        encoding, errors = "utf-8-sig", "surrogateescape"
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding, errors = "utf-16", "surrogatepass"
        return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="\n")

    def _guarded(self, read: Callable[[], str], lines_before: int) -> str:
        """Read. If the file breaks off, store the error and behave as at the end of the file."""
        try:
            return read()
        except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
            self._break_off(error, lines_before)
            return ""

    def _break_off(self, error: Exception, lines_before: int) -> None:
        self.cut_short = self.bad(
            lines_before + 1,
            f"the file cannot be read beyond this line ({error}).",
            "It may be damaged or truncated: download or copy it again.",
            "",
        )

    def _skip_rest_of_line(self, stream: io.TextIOWrapper, number: int) -> None:
        while True:
            text = self._guarded(lambda: stream.readline(MAX_LINE), number)
            if not text or text.endswith("\n"):
                return


class _Beginning(io.FileIO):
    """The first bytes of a file."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(path)
        self._left = size

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        read = super().readinto(memoryview(buffer)[: self._left])
        self._left -= read or 0
        return read


def checked_source(
    path: Path | str, columns: Mapping[str, str] | None = None, size: int | None = None
) -> Source:
    """Return the source for a path, or raise `DataError` if it is not a data file."""
    path = Path(path)
    if path.is_dir():
        raise _directory_error(path)
    if not path.exists():
        raise DataError(path, "there is no such file.")
    if not path.is_file():
        raise DataError(path, "this is not a regular file.", "Copy its content to a file first.")
    if columns is not None and not isinstance(columns, Mapping):
        raise DataError(
            path, f"the column mapping {columns!r} is not valid.", "Write it as FIELD=COLUMN."
        )
    return Source(path, dict(columns or {}), size=size)


def _directory_error(path: Path) -> DataError:
    try:
        names = sorted(entry.name for entry in path.iterdir() if _looks_like_data(entry))
    except OSError as error:
        return DataError(path, f"this is a directory that cannot be read ({error.strerror}).")
    if not names:
        return DataError(path, "this is a directory without a data file.", "Name a file.")
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return DataError(path, "this is a directory.", f"Name one of its data files: {listed}.")


def _looks_like_data(entry: Path) -> bool:
    return entry.is_file() and Path(_without_gz(entry.name)).suffix.lower() in DATA_SUFFIXES


def _without_gz(name: str) -> str:
    return name[:-3] if name.lower().endswith(".gz") else name
