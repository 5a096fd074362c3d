"""The journal: one row per sample and seed, finished or failed, and the unreadable lines.

The run's own files are made from it. A row is written in one synced transaction. A killed run has
the rows of its finished and failed samples and nothing of the others.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from absa.backends.meter import Spent
from absa.database import Database
from absa.prices import add_costs
from absa.schemas.json_text import parse_json

FILE = "journal.db"
Part = Literal["output", "traces", "gate", "scorecard"]
_PARTS: tuple[Part, ...] = ("output", "traces", "gate", "scorecard")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS samples (
    seed INTEGER NOT NULL, uid TEXT NOT NULL, position INTEGER NOT NULL, status TEXT NOT NULL,
    calls INTEGER NOT NULL, cached INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost_usd REAL,
    output BLOB, traces BLOB, gate BLOB, scorecard BLOB, error TEXT,
    PRIMARY KEY (seed, uid)
);
CREATE INDEX IF NOT EXISTS samples_in_order ON samples (position, seed);
CREATE TABLE IF NOT EXISTS bad_lines (number INTEGER PRIMARY KEY, error TEXT NOT NULL);
"""
# The columns before the parts, in the order of the schema.
_PLAIN_COLUMNS = (
    *("seed", "uid", "position", "status", "calls", "cached"),
    *("prompt_tokens", "completion_tokens", "cost_usd"),
)
_IF_DAMAGED = (
    "the journal of this run is damaged: restore it from a copy, or start again with another --out"
)


@dataclass(frozen=True)
class Finished:
    """A finished sample: its record as lines of the artefacts, or its error."""

    seed: int
    uid: str
    position: int
    parts: dict[Part, bytes] | None = None
    error: dict[str, Any] | None = None
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    def with_spent(self, spent: Spent) -> Finished:
        """Add the cost to a failure. A result already contains its calls."""
        if self.error is None:
            return self
        return replace(
            self,
            error={**self.error, "spent": asdict(spent)},
            calls=spent.calls,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            cost_usd=spent.cost_usd,
        )

    @property
    def status(self) -> str:
        """`done` or `failed`."""
        return "failed" if self.error is not None else "done"


@dataclass(frozen=True)
class Totals:
    """Counts and costs of a run."""

    done: int = 0
    failed: int = 0
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    def plus(self, record: Finished) -> Totals:
        """Add one sample."""
        return Totals(
            done=self.done + (record.status == "done"),
            failed=self.failed + (record.status == "failed"),
            calls=self.calls + record.calls,
            cached=self.cached + record.cached,
            prompt_tokens=self.prompt_tokens + record.prompt_tokens,
            completion_tokens=self.completion_tokens + record.completion_tokens,
            cost_usd=add_costs(self.cost_usd, record.cost_usd),
        )


class Journal:
    """The records of one run directory."""

    def __init__(self, directory: Path) -> None:
        self._db = Database(
            directory / FILE,
            _SCHEMA,
            if_damaged=_IF_DAMAGED,
            is_final=True,
            functions={"packed": lambda lines: None if lines is None else zlib.compress(lines, 3)},
        )

    def close(self) -> None:
        """Write pending records and close."""
        self._db.close()

    def recall(self, key: str, kind: Any = object) -> Any:
        """A stored fact about the run; None if it was never stored.

        Raises:
            StorageError: The stored value has another type.
        """
        row = self._db.one("SELECT value FROM run WHERE key = ?", key)
        if row is None:
            return None
        try:
            return TypeAdapter(kind).validate_python(parse_json(row[0]), strict=kind is not Spent)
        except (ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise self._db.damaged(f"{key} of the run cannot be read ({reason})") from error

    def note(self, key: str, value: Any) -> None:
        """Store a fact about the run."""
        self.note_soon(key, value).result()

    def note_soon(self, key: str, value: Any) -> Future[None]:
        """Store a fact without waiting for the disk."""
        return self._db.write("INSERT OR REPLACE INTO run VALUES (?, ?)", key, _line(value))

    def flush(self) -> None:
        """Wait until every record is on the disk."""
        self._db.flush()

    def add(self, record: Finished) -> Future[None]:
        """Write the record of a finished sample. A sample has exactly one record."""
        parts = record.parts or {}
        error = _line(record.error) if record.error is not None else None
        return self._db.write(
            "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " packed(?), packed(?), packed(?), packed(?), ?)",
            *(getattr(record, column) for column in _PLAIN_COLUMNS),
            *(parts.get(name) for name in _PARTS),
            error,
        )

    def add_bad_line(self, number: int, error: dict[str, Any]) -> None:
        """Record a data line that could not be read, numbered from 0."""
        self._db.write("INSERT OR IGNORE INTO bad_lines VALUES (?, ?)", number, _line(error))

    def finished(self, seed: int) -> dict[str, str]:
        """The uids that have a record, with their status."""
        return dict(self._db.read("SELECT uid, status FROM samples WHERE seed = ?", seed))

    def has(self, seed: int, uid: str) -> bool:
        """Whether a sample has a record."""
        sql = "SELECT 1 FROM samples WHERE seed = ? AND uid = ?"
        return self._db.one(sql, seed, uid) is not None

    def forget_failures(self) -> frozenset[str]:
        """Delete the records of failed samples, so that they are analyzed again.

        Returns the uids of samples that failed after their answers arrived. An answer caused the
        failure, so they need new answers.
        """
        rows = self._db.read("SELECT uid, error FROM samples WHERE status = 'failed'")
        try:
            answered = frozenset(uid for uid, error in rows if parse_json(error)["node"] is None)
        except (ValueError, TypeError, KeyError) as error:
            raise self._db.damaged(f"an error of a sample cannot be read ({error!r})") from error
        self._db.write("DELETE FROM samples WHERE status = 'failed'").result()
        return answered

    def records_beyond(self, seeds: Sequence[int], size: int) -> int:
        """The number of records of other seeds, or of samples after the first `size`."""
        asked = ", ".join("?" * len(seeds))
        sql = f"SELECT count(*) FROM samples WHERE position >= ? OR seed NOT IN ({asked})"
        return self._count(sql, size, *seeds)

    def totals(self) -> Totals:
        """The totals so far. The cost is None if the cost of any call is unknown."""
        row = self._db.one(
            "SELECT coalesce(sum(status = 'done'), 0), coalesce(sum(status = 'failed'), 0),"
            " coalesce(sum(calls), 0), coalesce(sum(cached), 0),"
            " coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),"
            " CASE WHEN count(*) = count(cost_usd) THEN coalesce(sum(cost_usd), 0.0) END"
            " FROM samples"
        )
        assert row is not None
        return Totals(*row)

    def lines(self, part: Part) -> Iterator[str]:
        """The lines of one artefact, in the order of the data."""
        sql = f"SELECT {part} FROM samples WHERE status = 'done' ORDER BY position, seed"
        for (blob,) in self._db.read(sql):
            try:
                lines = unpack(blob)
            except (zlib.error, TypeError, ValueError) as error:
                raise self._db.damaged(f"{part} of a sample cannot be read ({error})") from error
            yield from lines

    def outputs(self, seed: int, uids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the finished outputs of some samples, each with its uid."""
        sql = "SELECT output FROM samples WHERE status = 'done' AND seed = ? AND uid = ?"
        for uid in uids:
            if (row := self._db.one(sql, seed, uid)) is not None:
                yield uid, unpack(row[0])[0]

    def errors(self) -> Iterator[str]:
        """Yield the errors: first unreadable lines, then failed samples."""
        for (text,) in self._db.read("SELECT error FROM bad_lines ORDER BY number"):
            yield text
        sql = "SELECT error FROM samples WHERE status = 'failed' ORDER BY position, seed"
        for (text,) in self._db.read(sql):
            yield text

    def bad_lines(self, limit: int) -> list[dict[str, Any]]:
        """The first lines of the data that could not be read."""
        rows = self._db.read("SELECT error FROM bad_lines ORDER BY number LIMIT ?", limit)
        return [parse_json(text) for (text,) in rows]

    def bad_line_count(self) -> int:
        """The number of unreadable data lines."""
        return self._count("SELECT count(*) FROM bad_lines")

    def _count(self, sql: str, *values: Any) -> int:
        row = self._db.one(sql, *values)
        return int(row[0]) if row else 0


def _line(value: Any) -> str:
    # A raw answer can hold half a surrogate pair, which cannot be encoded.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def unpack(blob: bytes) -> list[str]:
    """Unpack the lines of an artefact from a column of a record."""
    # Not splitlines, because a JSON line can contain U+2028.
    text = zlib.decompress(blob).decode()
    return text.split("\n") if text else []
