"""The data file of a run, as it was when the run started."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from absa.data import BadLine, DataError, detect_format, read_samples
from absa.runs.plan import RunError, RunPlan
from absa.schemas.sample import Sample

_CHUNK = 1 << 20


class DataFile:
    """Reads the same rows whenever it is asked, although the file may be written to meanwhile.

    Rows that are appended are left for another run. A file that was changed otherwise ends the
    run: records of its old and its new rows must not be mixed.
    """

    def __init__(self, plan: RunPlan) -> None:
        """Hash the file.

        Raises:
            DataError: There is no such file, or its format is not recognised.
        """
        self.path = plan.data
        if not self.path.is_file():
            # The reader's own message is better than anything that could be said here.
            detect_format(self.path)
            raise DataError(self.path, "is not a file.")
        self._columns = plan.columns
        self._given_aspects = plan.given_aspects
        self._seen = os.stat(self.path)
        self._size = self._seen.st_size
        self._sha256 = self._hash()
        self._format = plan.format or detect_format(self.path)
        self._rows_format = plan.format

    @property
    def has_grown(self) -> bool:
        """Whether there is more in the file than this run reads."""
        return self._seen.st_size > self._size

    def about(self) -> dict[str, Any]:
        """What the data is: its hash and how it is read."""
        return {
            "sha256": self._sha256,
            "bytes": self._size,
            "format": self._format,
            "columns": self._columns,
            **({"given_aspects": True} if self._given_aspects else {}),
        }

    def rows(self) -> Iterator[Sample | BadLine]:
        """The samples and bad lines.

        Raises:
            RunError: The file was changed, not only appended to.
        """
        for row in read_samples(self.path, self._rows_format, self._columns, self._size):
            self._check()
            yield row
        self._check()
        if self.has_grown and self._hash() != self._sha256:
            raise self._changed()

    def begins_with(self, data: Mapping[str, Any]) -> bool:
        """Whether this file is the data of another run with more after it."""
        size = data.get("bytes")
        return (
            isinstance(size, int)
            and 0 < size < self._size
            and self._hash(size) == data.get("sha256")
        )

    def _check(self) -> None:
        now = self._stat()
        if _version(now) == _version(self._seen):
            return
        # A file that is appended to all the time is not hashed for each row, but at the end.
        appended = now.st_ino == self._seen.st_ino and now.st_size > self._seen.st_size
        if not appended and self._hash() != self._sha256:
            raise self._changed()
        self._seen = now

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.path)
        except OSError as error:
            raise self._changed() from error

    def _hash(self, size: int | None = None) -> str:
        left = self._size if size is None else size
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                while left and (chunk := file.read(min(left, _CHUNK))):
                    digest.update(chunk)
                    left -= len(chunk)
        except OSError as error:
            raise DataError(self.path, f"the file cannot be read ({error.strerror}).") from error
        return digest.hexdigest()

    def _changed(self) -> RunError:
        return RunError(
            f"{self.path} was changed while the run was reading it; what is finished is safe. "
            "Put the old file back and start again, or analyse the new one with another --out"
        )


def _version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
