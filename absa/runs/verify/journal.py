"""Compares the journal with the files: one record per finished sample, and the run's facts."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from absa.backends.meter import Spent
from absa.runs.directory import ERRORS, GATE, OUTPUTS, SCORECARDS, TRACES
from absa.runs.indexed_file import Artefact
from absa.runs.journal import FILE, unpack
from absa.runs.verify.words import TOLERANCE, compared, mapping_of, number_of, shown
from absa.schemas.json_text import parse_json

Problem = tuple[str | None, int | None, str]
"""A uid, its seed and the problem. The uid is None if the problem is about the run."""

_COLUMNS = {OUTPUTS: "output", TRACES: "traces", GATE: "gate", SCORECARDS: "scorecard"}
_WRITE_AGAIN = (
    "if the journal is right, delete the file and repeat the command of the run to write it again"
)


@dataclass(frozen=True)
class Record:
    """The row of a sample without its lines."""

    position: int
    status: str
    spent: Spent
    cached: int


class JournalError(RuntimeError):
    """The journal cannot be read."""


class RecordedJournal:
    """The journal of a run, opened read-only."""

    def __init__(self, directory: Path) -> None:
        """Open it. Raises JournalError: it is missing or damaged."""
        path = directory / FILE
        if not path.is_file():
            raise JournalError(f"{FILE} is missing: the files cannot be compared with the records")
        uri = path.absolute().as_uri()
        try:
            self._db = sqlite3.connect(f"{uri}?mode=ro", uri=True)
            self.facts: dict[str, Any] = self._facts()
        except sqlite3.OperationalError:
            # On a read-only medium SQLite cannot create its lock file.
            self._db = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
            self.facts = self._facts()

    def _facts(self) -> dict[str, Any]:
        return {str(key): _json(value) for key, value in self._read("SELECT key, value FROM run")}

    def _read(self, sql: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(sql)
        except sqlite3.OperationalError:
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise JournalError(f"{FILE} is damaged ({error})") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self) -> Iterator[tuple[str, int, Record, dict[str, list[str] | None], str | None]]:
        """Uid, seed, record, lines per file and error of every sample, in the order of the data."""
        sql = (
            "SELECT uid, seed, position, status, calls, cached, prompt_tokens, completion_tokens,"
            f" cost_usd, error, {', '.join(_COLUMNS.values())} FROM samples ORDER BY position, seed"
        )
        for row in self._read(sql):
            uid, seed, position, status, calls, cached, prompt, completion, cost, error = row[:10]
            for value in (seed, position, calls, cached, prompt, completion, cost or 0):
                if not isinstance(value, int | float):
                    raise JournalError(f"{FILE}: the record of {uid} has {value!r} for a number")
            record = Record(position, status, Spent(calls, prompt, completion, cost), cached)
            lines = {name: _lines(blob) for name, blob in zip(_COLUMNS, row[10:], strict=True)}
            yield str(uid), number_of(seed), record, lines, error

    def bad_lines(self) -> list[str]:
        """The records of lines of the data that could not be read."""
        return [str(text) for (text,) in self._read("SELECT error FROM bad_lines ORDER BY number")]


@dataclass
class JournalCheck:
    """Compares files and manifest with the journal."""

    directory: Path
    manifest: Mapping[str, Any]
    files: Mapping[str, Artefact]
    facts: Mapping[str, Any] = field(default_factory=dict)
    records: dict[tuple[str, int], Record] = field(default_factory=dict)
    # A hash of the journal's records.
    fingerprint: str | None = None
    notes: list[str] = field(default_factory=list)

    def problems(self, *, finished: bool) -> Iterator[Problem]:
        """Everything that differs."""
        try:
            journal = RecordedJournal(self.directory)
        except (JournalError, sqlite3.Error) as error:
            yield None, None, _about(error)
            return
        try:
            self.facts = journal.facts
            if self.facts.get("exported") is not True:
                behind = "the files are older than the journal: start the run again"
                if finished:
                    yield None, None, behind
                self.notes.append(behind)
                return
            yield from self._compare(journal)
            if finished:
                yield from self._compare_manifest()
        except (JournalError, sqlite3.Error) as error:
            yield None, None, _about(error)
        finally:
            journal.close()

    def _compare(self, journal: RecordedJournal) -> Iterator[Problem]:
        seen = hashlib.sha256(_canonical(journal.facts.get("identity")).encode())
        taken: dict[tuple[str, str], int] = {}
        order = {name: hashlib.blake2b() for name in _COLUMNS}
        differ: set[str] = set()
        errors = journal.bad_lines()
        for uid, seed, record, lines, error in journal.rows():
            self.records[uid, seed] = record
            if record.status == "failed":
                errors.append(str(error))
            seen.update(_canonical([uid, seed, record.status, error]).encode())
            for name, expected in lines.items():
                if expected is None:
                    if record.status == "done":
                        yield uid, seed, f"{FILE}: the part {_COLUMNS[name]} cannot be read"
                    continue
                seen.update("\n".join(expected).encode())
                first = taken.get((name, uid), 0)
                taken[name, uid] = first + len(expected)
                order[name].update(f"{uid}\0".encode() * len(expected))
                for what in _differences(self.files[name], uid, first, expected):
                    differ.add(name)
                    yield uid, seed, what
        for name, file in self.files.items():
            if name not in _COLUMNS or not file.exists:
                continue
            for uid in file.uids:
                if file.times(uid) > taken.get((name, uid), 0):
                    differ.add(name)
                    yield uid, None, f"{name} has a line that the journal does not have"
            if name not in differ and file.order != order[name].digest():
                yield None, None, f"{name}: its lines are in another order than the journal's"
        yield from self._compare_errors(errors)
        for line in errors:
            seen.update(line.encode())
        self.fingerprint = seen.hexdigest()

    def _compare_errors(self, expected: list[str]) -> Iterator[Problem]:
        file = self.files[ERRORS]
        if not file.exists:
            return
        with file.path.open("rb") as lines:
            pairs = zip_longest(expected, lines)
            for number, (one, raw) in enumerate(pairs, 1):
                if one is None or raw is None:
                    has = "less" if raw is None else "more"
                    what = f"{ERRORS} has {has} lines than the journal ({len(expected)})"
                    yield None, None, what
                    return
                if not _same(raw.decode("utf-8", "replace"), one):
                    record = mapping_of(_json(one))
                    uid = record.get("uid")
                    what = f"{ERRORS}:{number} is not what the journal holds"
                    yield (None if uid is None else str(uid)), None, what

    def _compare_manifest(self) -> Iterator[Problem]:
        """Compare the run's facts, which the journal stores before the manifest is written."""
        total = self.total
        noted = self.facts.get("spent")
        try:
            spent = Spent(**noted) if isinstance(noted, dict) else Spent()
            most = max(spent, total, key=lambda one: one.calls)
        except TypeError:
            yield None, None, f"{FILE}: what was spent cannot be read ({shown(noted)})"
            return
        facts = {
            "run_id": self.facts.get("run_id"),
            "identity": self.facts.get("identity"),
            "seeds": self.facts.get("seeds"),
            "elapsed_s": self.facts.get("elapsed_s", 0.0),
            "spent": vars(most),
            "usage.cost_usd": total.cost_usd,
        }
        recorded = {name: self.manifest.get(name) for name in facts}
        recorded["usage.cost_usd"] = mapping_of(self.manifest.get("usage")).get("cost_usd")
        for what in compared(recorded, facts, "the journal has"):
            yield None, None, f"manifest.json: {what}"
        for name, least in vars(total).items():
            spent_of = getattr(most, name)
            if spent_of is not None and least is not None and spent_of < least - TOLERANCE:
                what = f"{FILE}: {name} spent is {spent_of}, its records have {least}"
                yield None, None, what

    @property
    def total(self) -> Spent:
        """What the records cost together."""
        spent = [record.spent for record in self.records.values()]
        costs = [one.cost_usd for one in spent]
        return Spent(
            sum(one.calls for one in spent),
            sum(one.prompt_tokens for one in spent),
            sum(one.completion_tokens for one in spent),
            None if None in costs else math.fsum(cost for cost in costs if cost is not None),
        )


def _differences(file: Artefact, uid: str, first: int, expected: list[str]) -> Iterator[str]:
    if not file.exists:
        return
    lines = file.raw(uid)[first : first + len(expected)]
    name = file.path.name
    if len(lines) < len(expected):
        yield f"{name} has {len(lines)} of {len(expected)} lines of the journal; {_WRITE_AGAIN}"
        return
    changed = sum(not _same(*pair) for pair in zip(lines, expected, strict=True))
    if changed:
        of = f" ({changed} of {len(expected)} lines)" if len(expected) > 1 else ""
        yield f"{name} is not what the journal holds{of}; {_WRITE_AGAIN}"


def _same(raw: str, expected: str) -> bool:
    """Whether two lines are equal apart from white space."""
    raw = raw.rstrip("\n")
    return raw == expected or _canonical_text(raw) == _canonical_text(expected)


def _canonical_text(raw: str) -> str:
    try:
        # Pairs keep duplicate keys; repr distinguishes 1, 1.0 and true.
        return repr(json.loads(raw, object_pairs_hook=tuple))  # noqa: TID251
    except (ValueError, RecursionError):
        return raw


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _json(text: Any) -> Any:
    try:
        return parse_json(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _lines(blob: Any) -> list[str] | None:
    """The lines of a part, None if it cannot be unpacked."""
    try:
        return unpack(blob)
    except (zlib.error, UnicodeDecodeError, TypeError):
        return None


def _about(error: Exception) -> str:
    what = str(error) if isinstance(error, JournalError) else f"{FILE} is damaged ({error})"
    return f"{what}; restore it from a copy"


def record_costs(
    uid: str, seed: int, record: Record, spent: Mapping[str, Any]
) -> Iterator[Problem]:
    """Compare the costs of a row with those of its record."""
    for name, value in {**vars(record.spent), "cached_calls": record.cached}.items():
        if name in spent:
            for what in compared({name: value}, {name: spent[name]}, "the record has"):
                yield uid, seed, f"{FILE}: {what}"
