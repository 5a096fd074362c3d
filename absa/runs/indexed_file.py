"""Reads the JSONL files of a run sample by sample."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absa.schemas.json_text import parse_json


class Line(NamedTuple):
    """A line of an artefact: its raw bytes and its parsed record."""

    raw: str
    record: dict[str, Any]

    @property
    def seed(self) -> Any:
        """The seed of the repetition that the line belongs to."""
        return self.record.get("seed")


class Artefact:
    """A JSONL file of the run: an index of each sample's lines, which are read on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exists = path.is_file()
        self.count = 0
        self.broken: list[str] = []
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._order = hashlib.blake2b()
        self._fd = os.open(path, os.O_RDONLY) if self.exists else None

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)

    def index(self) -> Iterator[dict[str, Any]]:
        """Read the file once, index the line positions, and yield the records."""
        if not self.exists:
            return
        offset = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                start, offset = offset, offset + len(line)
                try:
                    record = parse_json(line)
                    uid = record["uid"]
                except (ValueError, KeyError, TypeError):
                    self.broken.append(
                        f"{self.path.name}:{number}: not a valid record (truncated or damaged)"
                    )
                    continue
                if not line.endswith(b"\n"):
                    self.broken.append(f"{self.path.name}:{number}: the file ends within a line")
                self.count += 1
                self._places.setdefault(str(uid), []).append((start, len(line)))
                self._order.update(f"{uid}\0".encode("utf-8", "surrogatepass"))
                yield record

    def raw(self, uid: str) -> list[str]:
        """The raw lines of a sample."""
        assert self._fd is not None or uid not in self._places
        places = self._places.get(uid, ())
        return [os.pread(self._fd or 0, length, offset).decode() for offset, length in places]

    def of(self, uid: str) -> list[Line]:
        """The parsed lines of a sample."""
        return [Line(raw, parse_json(raw)) for raw in self.raw(uid)]

    @property
    def order(self) -> bytes:
        """A hash of the uids in the order of the lines."""
        return self._order.digest()

    def times(self, uid: str) -> int:
        """The number of lines of a sample."""
        return len(self._places.get(uid, ()))

    @property
    def uids(self) -> Iterable[str]:
        """The samples that have a line."""
        return self._places.keys()
