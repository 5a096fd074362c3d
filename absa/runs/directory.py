"""Reads a run directory: its file names, manifest, settings and records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from absa.schemas.errors import InputError
from absa.schemas.json_text import parse_json
from absa.schemas.output import FinalOutput
from absa.schemas.settings import Settings
from absa.small_files import bounded_lines

MANIFEST = "manifest.json"
OUTPUTS = "outputs.jsonl"
TRACES = "traces.jsonl"
SCORECARDS = "scorecards.jsonl"
GATE = "override_gate_debug.jsonl"
GATE_SUMMARY = "override_gate_debug_summary.json"
ERRORS = "errors.jsonl"
METRICS = "metrics.json"


class NoRun(InputError):
    """The path is not a run directory, or one of its files is missing or damaged. A usage error."""


@dataclass
class RunDirectory:
    """The files of a run.

    A missing or damaged file raises `NoRun`. With a list of `problems`, it is appended there
    instead, and everything readable is read.
    """

    path: Path
    problems: list[str] | None = None

    def require(self, *names: str) -> RunDirectory:
        """Check that this is a run directory with these files.

        Raises:
            NoRun: It is not a run, or a file is missing.
        """
        if not self.has(MANIFEST):
            raise not_a_run(self.path)
        for name in names:
            if not self.has(name):
                raise self._unfinished(name)
        return self

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).is_file()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the run; empty if it cannot be read."""
        return self.document(MANIFEST) or {}

    @cached_property
    def settings(self) -> Settings | None:
        """The settings of the run; None if they cannot be read."""
        if not self.manifest and self.problems:
            return None
        try:
            return Settings.model_validate(self.manifest.get("settings"))
        except ValidationError as error:
            self._note_damage(MANIFEST, f"its settings: {first_problem(error)}")
            return None

    def not_a_manifest(self, why: object) -> NoRun:
        """Raise or note the error for a file that is not a valid manifest."""
        return NoRun(
            f"{self.path / MANIFEST}: not a valid manifest ({why}); repeat the command of the "
            "run to write it again"
        )

    def document(self, name: str) -> dict[str, Any] | None:
        """A file that holds one JSON object; None if it cannot be read."""
        if not self.has(name):
            self._note_missing(name)
            return None
        try:
            return _object((self.path / name).read_bytes())
        except (OSError, ValueError) as error:
            self._note_damage(name, error)
            return None

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The records of a JSONL file, one after the other."""
        if not self.has(name):
            self._note_missing(name)
            return
        number = 0
        try:
            with (self.path / name).open("rb") as file:
                for number, line in enumerate(bounded_lines(file), 1):
                    # If problems are collected, a character that is not UTF-8 is replaced.
                    text = line if self.problems is None else line.decode(errors="replace")
                    if (record := self._record(text, f"{name}, line {number}")) is not None:
                        yield record
        except OSError as error:
            self._note_damage(f"{name}, line {number + 1}", error.strerror)

    def _record(self, text: str | bytes, where: str) -> dict[str, Any] | None:
        try:
            return _object(text) if text.strip() else None
        except ValueError as error:
            self._note_damage(where, error)
            return None

    def samples(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield each output with its scorecard. Raises NoRun: the two files do not match."""
        for output, card in zip_longest(self.lines(OUTPUTS), self.lines(SCORECARDS)):
            if output is None or card is None:
                what = f"{OUTPUTS} and {SCORECARDS} have different numbers of lines"
            elif (uid := output.get("uid")) != (other := card.get("uid")):
                what = f"{OUTPUTS} has {uid!r} on the line where {SCORECARDS} has {other!r}"
            else:
                yield output, card
                continue
            raise NoRun(f"{self.path}: {what}: see absa verify")

    def output(self, record: dict[str, Any]) -> FinalOutput:
        """Parse a line of the outputs. Raises NoRun: the line is not a valid output."""
        try:
            return FinalOutput.model_validate(record)
        except ValidationError as error:
            raise NoRun(
                f"{self.path / OUTPUTS}: {record.get('uid')!r} is not a valid output "
                f"({first_problem(error)}): see absa verify"
            ) from error

    def _unfinished(self, name: str) -> NoRun:
        return NoRun(
            f"{self.path} has no {name}: repeat the command that made the run; it writes the file "
            "again, and finished samples are not analyzed again"
        )

    def _note_missing(self, name: str) -> None:
        if self.problems is None:
            raise self._unfinished(name)
        self.problems.append(f"{name} is missing")

    def _note_damage(self, where: str, why: object) -> None:
        if self.problems is not None:
            self.problems.append(f"{where} cannot be read: {why}")
        elif where == MANIFEST:
            raise self.not_a_manifest(why)
        else:
            raise NoRun(f"{self.path / where} cannot be read: {why}: see absa verify")


_SHOWN_RUNS = 3


def not_a_run(path: Path) -> NoRun:
    """The error for a path that is not a run directory; it names the runs inside, if any."""
    if not path.exists():
        return NoRun(f"{path}: no such directory; give a run directory (absa run --out makes one)")
    inside = sorted(file.parent.name for file in path.glob(f"*/{MANIFEST}"))
    if not inside:
        return NoRun(f"{path} is not a run directory (absa run --out makes one)")
    names = ", ".join(inside[:_SHOWN_RUNS]) + (", …" if len(inside) > _SHOWN_RUNS else "")
    return NoRun(f"{path} is not a run directory; name one of the runs inside it: {names}")


def first_problem(error: ValidationError) -> str:
    """The first error of a validation error, with its key."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'value'}: {first['msg']}"


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
