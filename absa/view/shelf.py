"""Run directories to browse: a row per sample as soon as it is there, the rest on demand."""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from absa.report import words
from absa.report.gold import compare
from absa.report.reading import Entry, short_names
from absa.report.samples import detail, failed_detail, failed_row, index_row
from absa.runs.directory import ERRORS, MANIFEST, OUTPUTS, SCORECARDS, NoRun, RunDirectory
from absa.runs.indexed_file import Artefact
from absa.runs.journal import FILE as JOURNAL
from absa.runs.journal import unpack
from absa.runs.watch import look
from absa.schemas.errors import InputError
from absa.schemas.json_text import parse_json
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings, Settings

Json = dict[str, Any]
# An entry, or the error of a sample that could not be analysed.
Sample = Entry | Json
Read = Callable[[], Sample]

# A run in the folder that was named, or in a folder of that one (a study has such).
_DEPTH = 2
_LOOK_EVERY_S = 0.5


class OpenRun:
    """A run directory whose samples are indexed by a thread of its own, finished or not."""

    def __init__(self, path: Path) -> None:
        """Begin to index."""
        self.path = path
        self.rows: list[Json] = []
        self.problems: list[str] = []
        self.is_complete = False
        self._reads: list[Read] = []
        threading.Thread(target=self._index, name=f"index of {path.name}", daemon=True).start()

    @cached_property
    def settings(self) -> Settings | None:
        """The settings of the run; None if they cannot be read."""
        return RunDirectory(self.path, self.problems).settings

    @property
    def override(self) -> OverrideSettings:
        """The gate's thresholds."""
        return self.settings.pipeline.debate_override if self.settings else OverrideSettings()

    @property
    def seeds(self) -> int:
        """How many seeds the run has."""
        seeds = RunDirectory(self.path, []).manifest.get("seeds")
        return len(seeds) if isinstance(seeds, list) else 1

    def about(self, name: str) -> Json:
        """What the page knows of the run."""
        return {
            "name": name,
            "count": len(self.rows),
            "seeds": self.seeds,
            "steps": words.gate_steps(self.override.allow_drop),
            "complete": self.is_complete,
            "can_review": (self.path / OUTPUTS).is_file(),
            **self._progress(),
        }

    def _progress(self) -> Json:
        try:
            seen = look(self.path)
        except NoRun:  # copied without its journal: what it has is there
            return {"state": "finished", "total": None}
        return {
            "state": seen.state,
            "total": seen.progress.total,
            "done": seen.progress.totals.done + seen.progress.totals.failed,
        }

    def sample(self, number: int) -> Sample:
        """A sample, read from the run.

        Raises:
            InputError: There is none of this number.
        """
        if not 0 <= number < len(self._reads):
            raise InputError(f"the run has no sample number {number}")
        return self._reads[number]()

    def entry(self, number: int) -> Entry:
        """An analysed sample.

        Raises:
            InputError: There is none, or it could not be analysed.
        """
        sample = self.sample(number)
        if not isinstance(sample, Entry):
            raise InputError("this sample could not be analysed")
        return sample

    def story(self, number: int) -> Json:
        """Everything about one sample."""
        sample = self.sample(number)
        if not isinstance(sample, Entry):
            return failed_detail(sample)
        return detail(sample, compare(sample), self.override)

    # The thread ------------------------------------------------------------------------------

    def _index(self) -> None:
        try:
            if (self.path / OUTPUTS).is_file():
                self._take(self._of_files())
            else:
                self._follow()
        except (OSError, NoRun, sqlite3.Error) as error:
            self.problems.append(str(error))
        self.is_complete = True

    def _take(self, samples: Iterator[tuple[Sample, Read]]) -> None:
        for sample, read in samples:
            if isinstance(sample, Entry):
                row = index_row(sample, compare(sample))
            else:
                row = failed_row(sample)
            self._reads.append(read)
            self.rows.append(row)

    def _of_files(self) -> Iterator[tuple[Sample, Read]]:
        """The samples of a finished run, in the order of its data."""
        outputs, cards = Artefact(self.path / OUTPUTS), Artefact(self.path / SCORECARDS)
        for _ in cards.index():
            pass  # only the places are wanted
        for record in outputs.index():
            output = self._output(record)
            if output is None:
                continue
            uid, seed = output.uid, output.meta.seed

            def read(uid: str = uid, seed: int | None = seed) -> Entry:
                lines = outputs.of(uid)
                line = next(
                    (x for x in lines if x.record.get("meta", {}).get("seed") == seed), lines[0]
                )
                return Entry(FinalOutput.model_validate(line.record), line.record, card(uid, seed))

            def card(uid: str, seed: int | None) -> Json:
                lines = cards.of(uid)
                line = next((x for x in lines if x.record.get("seed") == seed), None)
                return line.record if line else lines[0].record if lines else {}

            yield Entry(output, record, card(uid, seed)), read
        self.problems += [*outputs.broken, *cards.broken]
        run = RunDirectory(self.path, self.problems)
        for error in run.lines(ERRORS) if run.has(ERRORS) else ():
            if error.get("uid") is not None:
                yield error, partial(dict, error)

    def _output(self, record: Json) -> FinalOutput | None:
        try:
            return FinalOutput.model_validate(record)
        except ValidationError:
            self.problems.append(f"{OUTPUTS}: {record.get('uid')!r} is not an output")
            return None

    def _follow(self) -> None:
        """The samples of a run that goes on, in the order in which they are finished."""
        last = 0
        while True:
            goes_on = look(self.path).goes_on
            for rowid, sample, read in self._journalled(last):
                self._take(iter([(sample, read)]))
                last = rowid
            if not goes_on:
                return
            time.sleep(_LOOK_EVERY_S)

    def _journalled(self, after: int) -> Iterator[tuple[int, Sample, Read]]:
        sql = (
            "SELECT rowid, status, output, scorecard, error FROM samples "
            "WHERE rowid > ? ORDER BY rowid LIMIT 500"
        )
        for rowid, *row in self._rows(sql, after):
            if (sample := _sample(*row)) is not None:
                yield rowid, sample, partial(self._again, rowid)

    def _again(self, rowid: int) -> Sample:
        sql = "SELECT status, output, scorecard, error FROM samples WHERE rowid = ?"
        rows = self._rows(sql, rowid)
        sample = _sample(*rows[0]) if rows else None
        if sample is None:
            raise InputError("this sample is not in the journal any more: open the page again")
        return sample

    def _rows(self, sql: str, *values: int) -> list[Any]:
        uri = f"{(self.path / JOURNAL).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=5)) as journal:
            return journal.execute(sql, values).fetchall()


def _sample(status: str, output: bytes, card: bytes, error: str) -> Sample | None:
    """A row of the journal; None if it is damaged, which `absa verify` explains."""
    try:
        if status != "done":
            return dict(parse_json(error))
        raw = parse_json(unpack(output)[0])
        return Entry(FinalOutput.model_validate(raw), raw, parse_json(unpack(card)[0]))
    except (ValueError, TypeError, IndexError, zlib.error):
        return None


class Shelf:
    """The runs below some folders. A run keeps its number; new ones are added at the end."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Look into these folders."""
        self.folders = folders
        self._runs: list[OpenRun] = []
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[str, OpenRun]]:
        """The runs that are there now, each with a name that tells it from the others."""
        with self._lock:
            known = {run.path for run in self._runs}
            paths = [path for folder in self.folders for path in _runs_below(folder, _DEPTH)]
            new = [path for path in dict.fromkeys(paths) if path not in known]
            self._runs += [OpenRun(path) for path in new]
            runs = list(self._runs)
        names = short_names([run.path for run in runs]) if runs else []
        return list(zip(names, runs, strict=True))

    def run(self, number: int) -> OpenRun:
        """The run of this number.

        Raises:
            InputError: There is none.
        """
        if not 0 <= number < len(self._runs):
            raise InputError(f"there is no run number {number}")
        return self._runs[number]


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    if any((folder / name).is_file() for name in (MANIFEST, JOURNAL, OUTPUTS)):
        yield folder.resolve()
    elif depth and folder.is_dir():
        for child in sorted(folder.iterdir()):
            if child.is_dir():
                yield from _runs_below(child, depth - 1)
