"""A run directory as every command reads it: names of its files, manifest, settings and lines."""

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
    """There is no run at a place, or one of its files is missing or damaged. Wrong use."""


@dataclass
class RunDirectory:
    """The files of a run.

    A missing or damaged file raises `NoRun`. With a list of `problems` it is noted there, and
    whatever can be read is read.
    """

    path: Path
    problems: list[str] | None = None

    def require(self, *names: str) -> RunDirectory:
        """Make sure that this is a run, and that it has these files.

        Raises:
            NoRun: It is not a run, or a file is missing.
        """
        if not self.path.is_dir():
            raise NoRun(f"{self.path}: there is no such directory")
        if not self.has(MANIFEST):
            raise NoRun(f"{self.path} is no run directory: it has no {MANIFEST}")
        for name in names:
            if not self.has(name):
                raise self._unfinished(name)
        return self

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).is_file()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the run says about itself; empty if it cannot be read."""
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
        """The manifest does not say what the manifest of a run says."""
        return NoRun(
            f"{self.path / MANIFEST}: not the manifest of a run ({why}); the command of the run "
            "writes it again"
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
                    # Where problems are noted, a character that is not UTF-8 costs no sample.
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
        """The outputs with their scorecards, one sample after the other.

        Raises:
            NoRun: The two files do not fit together.
        """
        for output, card in zip_longest(self.lines(OUTPUTS), self.lines(SCORECARDS)):
            if output is None or card is None:
                what = f"{OUTPUTS} and {SCORECARDS} are not of equal length"
            elif (uid := output.get("uid")) != (other := card.get("uid")):
                what = f"{OUTPUTS} has {uid!r} where {SCORECARDS} has {other!r}"
            else:
                yield output, card
                continue
            raise NoRun(f"{self.path}: {what}: see absa verify")

    def output(self, record: dict[str, Any]) -> FinalOutput:
        """A line of the outputs.

        Raises:
            NoRun: It is not an output.
        """
        try:
            return FinalOutput.model_validate(record)
        except ValidationError as error:
            raise NoRun(
                f"{self.path / OUTPUTS}: {record.get('uid')!r} is not an output "
                f"({first_problem(error)}): see absa verify"
            ) from error

    def _unfinished(self, name: str) -> NoRun:
        return NoRun(f"{self.path} has no {name}: start the run again, so that it is finished")

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


def first_problem(error: ValidationError) -> str:
    """What the first of its errors is."""
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
