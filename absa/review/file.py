"""`reviews.jsonl`: every decision of a person, written when it is made.

The last line of a sample holds all its decisions. A line that was cut short by a crash is the last
one of the file; what stood before it is whole. If only its newline is missing, it counts.
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
    """What a person has decided about a sample so far; `finished` when they went on to the next."""

    uid: str
    seed: int
    # Of the result that the person saw (`Item.shown`); a line without it fits none.
    shown: str = ""
    finished: bool
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


class ReviewFile:
    """The reviews of a run, and the pen to write more."""

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
                    "mend the line or take it out"
                ) from error
            self.latest[review.uid] = review

    def _lines(self) -> Iterator[bytes]:
        if self.path.exists():
            yield from _whole(self.path.read_bytes()).splitlines()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the file for writing; a second reviewer is kept out.

        Raises:
            InputError: Somebody else is at it, or it cannot be written.
        """
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}; reviews are kept there") from error
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path}: another review of this run is going on") from None
            self._end_last_line(self._fd)
            yield
        finally:
            os.close(self._fd)
            self._fd = None

    def _end_last_line(self, fd: int) -> None:
        """What a crash left of a line must not become the beginning of the next one."""
        content = self.path.read_bytes()
        whole = _whole(content)
        if len(whole) < len(content):
            os.ftruncate(fd, len(whole))
        else:
            os.pwrite(fd, whole[len(content) :], len(content))

    def write(self, review: Review) -> None:
        """Append a line; it is on disk when this returns."""
        assert self._fd is not None, "the file is open while reviews are written"
        os.lseek(self._fd, 0, os.SEEK_END)
        os.write(self._fd, f"{review.model_dump_json(exclude_none=True)}\n".encode())
        os.fsync(self._fd)
        self.latest[review.uid] = review


def _whole(content: bytes) -> bytes:
    """The lines without the rest of a torn one; a last line that can be read gets its newline."""
    lines, newline, rest = content.rpartition(b"\n")
    try:
        Review.model_validate_json(rest)
    except ValidationError:
        return lines + newline
    return content + b"\n"
