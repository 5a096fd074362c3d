"""The data file of a run, as it was when the run started."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from absa.data import BadLine, DataError, detect_format, read_samples
from absa.runs.plan import RunError, RunPlan
from absa.schemas.sample import Sample

_CHUNK = 1 << 20


class DataFile:
    """Reads the same rows every time, even if the file is appended to meanwhile.

    Appended rows are not part of the run. Any other change ends the run, because records of old
    and new rows must not be mixed.
    """

    def __init__(self, plan: RunPlan) -> None:
        """Hash the file.

        Raises:
            DataError: There is no such file, or its format is not recognised.
        """
        self.path = plan.data
        if not self.path.is_file():
            # The reader's own message is more precise than a message from here.
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
        """Whether the file has more rows than this run reads."""
        return self._seen.st_size > self._size

    def about(self) -> dict[str, Any]:
        """The identity of the data: its hash, format and columns."""
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
        """Whether this file is the data of another run plus appended rows."""
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
        # A file that keeps growing is hashed at the end, not for each row.
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
        try:
            return beginning_sha256(self.path, self._size if size is None else size)
        except OSError as error:
            raise DataError(self.path, f"the file cannot be read ({error.strerror}).") from error

    def _changed(self) -> RunError:
        return RunError(
            f"{self.path} was changed while the run was reading it; finished samples are kept. "
            "Restore the old file and start again, or analyze the new one with another --out"
        )


def _version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def beginning_sha256(path: Path, size: int | None) -> str:
    """The hash of the first bytes of a file; None: of all."""
    left = path.stat().st_size if size is None else size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left and (chunk := file.read(min(left, _CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()
