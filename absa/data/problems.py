"""Data errors: a file that cannot be used, and a line that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

EXCERPT_LENGTH = 200


@dataclass(eq=False, repr=False)
class DataError(ValueError):
    """The whole file cannot be used. The reader stops.

    `remedy` says what the user can do; it can be empty.
    """

    path: Path | str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} {self.remedy}".rstrip()


class BadLine(BaseModel):
    """One line (or XML element, or CSV record) that was skipped, and why. The others are read.

    Attributes:
        file: The file, as the user named it.
        line: Where the line, element or record begins, from 1.
        reason: What is wrong with it.
        remedy: What the user can do about it.
        excerpt: The beginning of the line, made printable.
    """

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    reason: str
    remedy: str
    excerpt: str

    def __str__(self) -> str:
        """Return it in the format of compilers: `file:line: reason remedy`."""
        return f"{self.file}:{self.line}: {self.reason} {self.remedy}".rstrip()


@dataclass(eq=False, repr=False)
class BadRowError(Exception):
    """Raised while a row is parsed. The caller adds the line number and makes a `BadLine`."""

    reason: str
    remedy: str = ""


def shown(value: object, length: int = 60) -> str:
    """Return a value in a form that fits a message and is safe to print on a terminal."""
    return printable(value if isinstance(value, str) else repr(value), length)


def printable(text: str, length: int = EXCERPT_LENGTH) -> str:
    """Return the beginning of a text with control characters and lone surrogates escaped."""
    cut = text[:length] + ("…" if len(text) > length else "")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def has_surrogate(text: str) -> bool:
    """Return whether a text holds half a surrogate pair, which cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
