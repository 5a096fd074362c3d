"""Run directories to browse: a row per finished sample; details are read on demand."""

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
# An entry, or the error of a sample that could not be analyzed.
Sample = Entry | Json
Read = Callable[[], Sample]

# A run is the given folder or a folder inside it, as in a study.
_DEPTH = 2
_LOOK_EVERY_S = 0.5


class OpenRun:
    """A run directory, finished or not. A thread indexes its samples."""

    def __init__(self, path: Path) -> None:
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
        """The number of seeds."""
        seeds = RunDirectory(self.path, []).manifest.get("seeds")
        return len(seeds) if isinstance(seeds, list) else 1

    def about(self, name: str) -> Json:
        """The data of the run for the page."""
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
        except NoRun:  # a copy without its journal counts as finished
            return {"state": "finished", "total": None}
        return {
            "state": seen.state,
            "total": seen.progress.total,
            "done": seen.progress.totals.done + seen.progress.totals.failed,
        }

    def sample(self, number: int) -> Sample:
        """A sample, read from the run.

        Raises:
            InputError: The run has no sample with this number.
        """
        if not 0 <= number < len(self._reads):
            raise InputError(f"the run has no sample number {number}")
        return self._reads[number]()

    def entry(self, number: int) -> Entry:
        """An analyzed sample.

        Raises:
            InputError: There is no such sample, or it could not be analyzed.
        """
        sample = self.sample(number)
        if not isinstance(sample, Entry):
            raise InputError("this sample could not be analyzed")
        return sample

    def story(self, number: int) -> Json:
        """All details of one sample."""
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
            pass  # only the positions are needed
        for record in outputs.index():
            output = self._output(record)
            if output is None:
                continue
            uid, seed = output.uid, output.meta.seed
            read = partial(_entry, outputs, cards, uid, seed)
            yield Entry(output, record, _card(cards, uid, seed)), read
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
        """The samples of a running run, in the order in which they finish."""
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


def _entry(outputs: Artefact, cards: Artefact, uid: str, seed: int | None) -> Entry:
    records = [line.record for line in outputs.of(uid)]
    same = (record for record in records if record.get("meta", {}).get("seed") == seed)
    record = next(same, records[0])
    return Entry(FinalOutput.model_validate(record), record, _card(cards, uid, seed))


def _card(cards: Artefact, uid: str, seed: int | None) -> Json:
    records = [line.record for line in cards.of(uid)]
    same = (record for record in records if record.get("seed") == seed)
    return next(same, records[0] if records else {})


def _sample(status: str, output: bytes, card: bytes, error: str) -> Sample | None:
    """A sample of the journal; None if its row is damaged (see `absa verify`)."""
    try:
        if status != "done":
            return dict(parse_json(error))
        raw = parse_json(unpack(output)[0])
        return Entry(FinalOutput.model_validate(raw), raw, parse_json(unpack(card)[0]))
    except (ValueError, TypeError, IndexError, zlib.error):
        return None


class RunList:
    """The runs below some folders. Numbers stay the same; new runs are added at the end."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders
        self._runs: list[OpenRun] = []
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[str, OpenRun]]:
        """The present runs, each with a different name."""
        with self._lock:
            opened = {run.path for run in self._runs}
            paths = [path for folder in self.folders for path in _runs_below(folder, _DEPTH)]
            new = [path for path in dict.fromkeys(paths) if path not in opened]
            self._runs += map(OpenRun, new)
            runs = list(self._runs)
        names = short_names([run.path for run in runs]) if runs else []
        return list(zip(names, runs, strict=True))

    def run(self, number: int) -> OpenRun:
        """The run of this number.

        Raises:
            InputError: There is no run with this number.
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
