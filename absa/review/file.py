"""`reviews.jsonl`: every decision of a person, written at once.

The last line of a sample has all its decisions. Only the last line of the file can be truncated by
a crash. If only its newline is missing, the line counts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from absa.schemas.errors import InputError
from absa.schemas.human import HumanAnswer

FILE = "reviews.jsonl"


class Review(HumanAnswer):
    """The decisions about a sample so far; `finished` if the person went on to the next."""

    uid: str
    seed: int
    # The hash of the result that the person saw (`Item.shown`). A line without it is outdated.
    shown: str = ""
    finished: bool
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


class ReviewFile:
    """Reads and writes the reviews of a run."""

    def __init__(self, directory: Path) -> None:
        """Read the reviews of the run in `directory`.

        Raises:
            InputError: A line of the file cannot be read.
        """
        self.path = directory / FILE
        self._fd: int | None = None
        self.latest: dict[str, Review] = {}
        for number, line in enumerate(self._lines(), 1):
            try:
                review = Review.model_validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                where = ".".join(map(str, first["loc"])) or "line"
                raise InputError(
                    f"{self.path}:{number}: not a review ({where}: {first['msg']}); "
                    "correct or delete the line"
                ) from error
            self.latest[review.uid] = review

    def _lines(self) -> Iterator[bytes]:
        if self.path.exists():
            yield from _whole(self.path.read_bytes()).splitlines()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the file for writing against a second reviewer.

        Raises:
            InputError: Another process has the lock, or the file cannot be written.
        """
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror} (the file of the reviews)") from error
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: this run is being reviewed in another process"
                ) from None
            self._end_last_line(self._fd)
            yield
        finally:
            os.close(self._fd)
            self._fd = None

    def _end_last_line(self, fd: int) -> None:
        """End a truncated last line, so that it does not become part of the next line."""
        content = self.path.read_bytes()
        whole = _whole(content)
        if len(whole) < len(content):
            os.ftruncate(fd, len(whole))
        else:
            os.pwrite(fd, whole[len(content) :], len(content))

    def write(self, review: Review) -> None:
        """Append a line and sync it to the disk."""
        assert self._fd is not None, "open() before write()"
        os.lseek(self._fd, 0, os.SEEK_END)
        os.write(self._fd, f"{review.model_dump_json(exclude_none=True)}\n".encode())
        os.fsync(self._fd)
        self.latest[review.uid] = review


def _whole(content: bytes) -> bytes:
    """The complete lines. A readable last line without a newline counts."""
    lines, newline, rest = content.rpartition(b"\n")
    try:
        Review.model_validate_json(rest)
    except ValidationError:
        return lines + newline
    return content + b"\n"
