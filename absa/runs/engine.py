"""Runs a batch: many samples at a time through the graph, each with one record."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from langgraph.store.memory import InMemoryStore

from absa.backends import make_backend
from absa.backends.cache import AnswerKeys, Answers, default_path
from absa.backends.meter import Meter, Spent
from absa.data import BadLine
from absa.data.source import Source
from absa.database import StorageError
from absa.demos import Demos
from absa.nodes.categories import from_gold
from absa.offline.text.other_languages import other_language, unread_note
from absa.runs.artefacts import ARTEFACTS, export, write_json
from absa.runs.data_file import DataFile
from absa.runs.directory import ERRORS, MANIFEST
from absa.runs.identity import differences, identity, versions
from absa.runs.journal import FILE as JOURNAL
from absa.runs.journal import Finished, Journal
from absa.runs.lock import locked
from absa.runs.plan import GOES_ON, Control, Progress, RunError, RunMismatch, RunPlan, RunReport
from absa.runs.pool import Batch, LocalEngine, RunEngine
from absa.runs.reader_trust import ReaderTrust, measures_trust
from absa.runs.status import EVERY_S, StatusFile
from absa.schemas.backend import Backend
from absa.schemas.errors import InputError
from absa.schemas.json_text import parse_json
from absa.schemas.sample import Sample
from absa.schemas.settings import FROM_DATA, SHIPPED_CATEGORIES, BackendSettings
from absa.wired import wired

SCRATCH = "scratch.db"
# Annotated data is evaluated, even if its split is not named.
UNNAMED_SPLIT = "evaluated"
_GATHER_S = 0.005
# Unreadable lines that are named at the end of a run.
_SHOWN_LINES = 5
_SHOWN_DIFFERENCES = 10
_OF_DASK = ("dask", "distributed", "msgpack")


async def run(
    plan: RunPlan,
    *,
    control: Control | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    backend_for: Callable[[BackendSettings], Backend] = make_backend,
) -> RunReport:
    """Start a run, or resume the one in `plan.out`.

    `backend_for` makes the backend of the local engine. Cluster workers make their own.
    """
    control = control or Control()
    reject_what_needs_one_process(plan)
    data = DataFile(plan)
    plan = with_categories_of(data, plan)
    # An invalid graph is rejected before the first sample.
    wired(plan.settings).compile(backend=make_backend(plan.settings.backend), store=InMemoryStore())
    engine = open_engine(plan, backend_for)
    with locked(plan.out):
        reject_results_without_journal(plan.out)
        try:
            with closing(Journal(plan.out)) as journal:
                return await _Run(plan, journal, control, data, on_progress).go(engine)
        except StorageError as error:
            # The command can be repeated if the journal exists.
            raise RunError(str(error) if error.is_final else f"{error}; {GOES_ON}") from error


def with_categories_of(data: DataFile, plan: RunPlan) -> RunPlan:
    """The plan with the data's own categories where its settings ask for them (`from_data`)."""
    pipeline = plan.settings.pipeline
    if pipeline.categories != FROM_DATA:
        return plan
    aspects = chain.from_iterable(
        row.aspects or () for row in data.rows() if isinstance(row, Sample)
    )
    names = from_gold(aspect.category for aspect in aspects)
    if not names:
        raise InputError(
            f"categories: {FROM_DATA} finds no category in the gold of {data.path}; list the "
            f"categories or name a shipped set: {', '.join(SHIPPED_CATEGORIES)}"
        )
    pipeline = pipeline.model_copy(update={"categories": names})
    return replace(plan, settings=plan.settings.model_copy(update={"pipeline": pipeline}))


def open_engine(plan: RunPlan, backend_for: Callable[[BackendSettings], Backend]) -> RunEngine:
    """The engine of a plan. It starts nothing before its first batch."""
    if plan.engine == "local":
        return LocalEngine(backend_for)
    try:
        from absa.runs.cluster.engine import ClusterEngine
    except ModuleNotFoundError as error:
        if error.name not in _OF_DASK:
            raise
        raise InputError(
            "--engine dask needs more packages: pip install 'absa-debate-graph[dask]'"
        ) from error
    return ClusterEngine(plan)


def reject_what_needs_one_process(plan: RunPlan) -> None:
    """Reject settings that need one process: episodic memory, measured trust, replays."""
    if plan.engine == "local":
        return
    if plan.settings.pipeline.memory.condition != "off":
        raise InputError(
            "--engine dask does not support episodic memory: each case must be stored before the "
            "next one is recalled; set pipeline.memory.condition=off or use --engine local"
        )
    if measures_trust(plan.settings.pipeline):
        raise InputError(
            "--engine dask cannot measure the trust in the analyzer; set "
            "pipeline.selective.trust, or use --engine local"
        )
    if plan.settings.backend.kind == "replay":
        raise InputError("--engine dask cannot replay recorded answers; use --engine local")


def reject_results_without_journal(out: Path) -> None:
    """Reject a directory with results but without a journal: it cannot be resumed."""
    journal = out / JOURNAL
    if not journal.exists():
        state = "is not there"
    elif not journal.stat().st_size:
        # SQLite would treat an empty file as a new database.
        state = "is empty"
    else:
        return
    _refuse_results(out, state)


def _refuse_results(out: Path, state: str) -> None:
    for name in (MANIFEST, *ARTEFACTS):
        if (out / name).exists():
            raise RunMismatch(
                f"{out} has {name}, but its {JOURNAL} {state}. The results are not changed; "
                f"restore {JOURNAL} from a backup, or use another --out"
            )


def other_run(out: Path, differences: Sequence[str], remedy: str) -> RunMismatch:
    """The error for a directory with a run that differs in these lines."""
    shown = [*differences[:_SHOWN_DIFFERENCES]]
    if (more := len(differences) - _SHOWN_DIFFERENCES) > 0:
        shown.append(f"and {more} more")
    return RunMismatch(
        "\n  ".join([f"{out} holds another run; it differs in", *shown])
        + f"\ngive another --out, or {remedy}"
    )


class _Run:
    def __init__(
        self,
        plan: RunPlan,
        journal: Journal,
        control: Control,
        data: DataFile,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._control = control
        self._data = data
        self._on_progress = on_progress
        self._identity = identity(plan.settings, data.about())
        self._run_id = self._check_identity()
        self._exported = bool(journal.recall("exported"))
        self._all_seeds, self._seeds = self._recall_seeds()
        self._ask_again: frozenset[str] = frozenset()
        self._trust_notes: list[str] = []
        # Texts that the offline analyzer does not read, by language.
        self._unread_languages: Counter[str] = Counter()
        self._without_gold = 0
        if plan.retry_failed:
            self._mark_outdated()
            self._ask_again = journal.forget_failures()
        size = self._size = self._scan_data()
        # Seeds and samples of an earlier start beyond those of this one are part of the run, too.
        self._total = size * len(self._seeds) + journal.records_beyond(self._seeds, size)
        self._totals = journal.totals()
        # Failed samples whose record is being written.
        self._failing = 0
        before: Spent = journal.recall("spent", Spent) or Spent()
        models = plan.settings.backend.models
        self._meter = Meter(plan.budget, self._at_least_recorded(before), models)
        self._elapsed_before = self._elapsed_s = journal.recall("elapsed_s", float) or 0.0
        self._began = time.monotonic()
        self._stored_progress = (self._meter.total, self._totals)
        self._bad_lines = journal.bad_line_count()
        self._started_with = self._totals.done + self._totals.failed

    def _check_identity(self) -> str:
        """Write the run's identity to the directory, or raise if another run is in it."""
        stored = self._journal.recall("identity", dict[str, Any])
        if stored is None:
            _refuse_results(self._plan.out, "has no record of a run")
            # In this order, so that every directory with an identity also has an id.
            self._journal.note("run_id", uuid.uuid4().hex)
            self._journal.note("identity", self._identity)
        elif lines := differences(stored, parse_json(json.dumps(self._identity))):
            raise other_run(self._plan.out, lines, self._old_data(stored))
        return str(self._journal.recall("run_id"))

    def _old_data(self, stored: dict[str, Any]) -> str:
        """The hint how to resume the run that is in the directory."""
        data = stored.get("data") or {}
        if not self._data.begins_with(data):
            return "the settings and data of that run"
        size = data["bytes"]
        return (
            f"the data of that run, which are the first {size} bytes of this file, as they were "
            f"before it grew: head -c {size} {self._plan.data}"
        )

    def _recall_seeds(self) -> tuple[list[int], tuple[int, ...]]:
        """All seeds of the run, and the seeds to work on: the requested ones, else all."""
        recorded_seeds: list[int] = self._journal.recall("seeds", list[int]) or []
        seeds = self._plan.seeds or tuple(recorded_seeds) or (self._plan.settings.backend.seed,)
        together = list(dict.fromkeys([*recorded_seeds, *seeds]))
        if together != recorded_seeds:
            self._journal.note("seeds", together)
        return together, seeds

    def _mark_outdated(self) -> None:
        """Mark the artefacts as outdated, before the journal changes."""
        if self._exported:
            self._journal.note("exported", False)
            self._exported = False

    def _rows(self) -> Iterator[Sample | BadLine]:
        """The samples and bad lines up to the limit."""
        left = self._plan.limit
        for item in self._data.rows():
            if isinstance(item, Sample) and left is not None:
                if left == 0:
                    return
                left -= 1
            yield item

    def _samples(self) -> Iterator[tuple[int, Sample]]:
        return enumerate(item for item in self._rows() if isinstance(item, Sample))

    def _scan_data(self) -> int:
        """Read the data once: count the samples, record bad lines and languages not read."""
        size = bad = 0
        is_offline = self._plan.settings.backend.kind == "offline"
        known_bad = self._journal.bad_line_count()
        stem = Source(self._plan.data).stem
        is_named_after_file = False
        for item in self._rows():
            if isinstance(item, Sample):
                size += 1
                self._without_gold += item.aspects is None
                is_named_after_file |= item.uid.startswith(f"{stem}-")
                if is_offline and (language := other_language(item.text, item.lang)):
                    self._unread_languages[language] += 1
                continue
            if bad >= known_bad:
                self._mark_outdated()
                error = {"uid": None, "kind": "bad_line", **item.model_dump()}
                self._journal.add_bad_line(bad, error)
            bad += 1
        self._journal.flush()
        if is_named_after_file:
            self._check_file_name(stem)
        return size

    def _check_file_name(self, stem: str) -> None:
        """Reject a renamed file if uids were made from its old name."""
        file_name = self._journal.recall("file_name")
        if file_name is None:
            self._journal.note("file_name", stem)
        elif file_name != stem:
            line = f"data.name: was {file_name!r}, is {stem!r}, and samples are named after it"
            raise other_run(self._plan.out, [line], "the file its old name")

    async def go(self, engine: RunEngine) -> RunReport:
        """Work on all samples without a record, then write the artefacts."""
        self._write_manifest()
        self._report_progress()
        self._check_failures()
        status = StatusFile(self._plan.out, self._plan.engine)
        writing_status = asyncio.create_task(self._write_status(status, engine))
        try:
            for seed in self._seeds:
                if not self._control.draining:
                    await self._run_seed(seed, engine)
            # A stopped worker can still have a record in its queue.
            self._journal.flush()
            self._totals = self._journal.totals()
            out = self._plan.out
            if not self._exported or not all((out / name).exists() for name in ARTEFACTS):
                export(self._journal, out)
                self._journal.note("exported", True)
            self._store_progress()
            self._write_manifest()
        finally:
            writing_status.cancel()
            self._store_progress()
            await engine.close()
            status.remove()
        return self._report()

    async def _write_status(self, status: StatusFile, engine: RunEngine) -> None:
        while True:
            self._store_progress()
            status.write(self._progress(), self._control, engine.workers())
            await asyncio.sleep(EVERY_S)

    async def _run_seed(self, seed: int, engine: RunEngine) -> None:
        trust = ReaderTrust(
            self._plan.settings.pipeline, (s for _, s in self._samples()), self._journal, seed
        )
        if measures_trust(self._plan.settings.pipeline):
            await self._work_on(seed, engine, trust, trust.is_measured_on)
            if self._control.draining:
                return
            self._journal.flush()
            trust.measure()
            self._trust_notes += trust.notes()
        await self._work_on(seed, engine, trust, lambda sample: True)

    async def _work_on(
        self, seed: int, engine: RunEngine, trust: ReaderTrust, wanted: Callable[[Sample], bool]
    ) -> None:
        """Work on every wanted sample of this seed without a record."""
        finished = self._journal.finished(seed)
        todo = (
            (n, self._with_given_aspects(s))
            for n, s in self._samples()
            if s.uid not in finished and wanted(s)
        )
        first = next(todo, None)
        if first is None:
            return
        settings = self._plan.settings
        backend = settings.backend.model_copy(update={"seed": seed})
        keys = AnswerKeys(backend, self._run_id, shared=self._plan.use_cache)
        paid = backend.kind == "openai"
        # Only paid answers are cached. Free ones can be computed again as quickly.
        answers = self._open_answers() if paid else None

        async def write(record: Finished) -> None:
            if meter is not None:
                record = record.with_spent(meter.take(record.uid))
            self._mark_outdated()
            await asyncio.wrap_future(self._journal.add(record))
            if answers is not None and not keys.shared and record.status == "done":
                answers.forget(keys.of_sample(record.uid))
            self._failing -= record.status == "failed"
            self._totals = self._totals.plus(record)
            self._report_progress()

        def save(record: Finished) -> Coroutine[Any, Any, None]:
            # Counted before the record is written, because the next sample starts meanwhile.
            self._failing += record.status == "failed"
            self._check_failures()
            return write(record)

        meter = self._meter if paid else None
        batch = Batch(
            plan=self._plan,
            backend=backend,
            samples=chain([first], todo),
            size=max(1, self._size - len(finished)),
            keys=keys,
            answers=answers,
            meter=meter,
            demos=Demos(
                settings.demos,
                seed=seed,
                evaluated=(s.text for _, s in self._samples()),
                are_used=backend.kind != "offline",
            ),
            control=self._control,
            extra_input=lambda sample: {
                **self._memory_input(sample, seed),
                "reader_trust": trust.of(sample),
            },
            save=save,
            has_record=lambda uid: self._journal.has(seed, uid),
        )
        try:
            await engine.work(batch)
        finally:
            if answers is not None:
                answers.close()

    def _at_least_recorded(self, spent: Spent) -> Spent:
        """What all starts have spent, including unfinished samples and those to retry.

        After a crash the stored value can be one second older than the records.
        """
        total = self._totals
        recorded = Spent(total.calls, total.prompt_tokens, total.completion_tokens, total.cost_usd)
        most = max(spent, recorded, key=lambda one: one.calls)
        return replace(most, calls_without_usage=spent.calls_without_usage)

    def _store_progress(self) -> None:
        """Store what all starts have spent. A start without work adds nothing."""
        now = (self._meter.total, self._totals)
        if now != self._stored_progress:
            self._stored_progress = now
            self._elapsed_s = round(self._elapsed_before + time.monotonic() - self._began, 3)
            self._journal.note_soon("spent", asdict(self._at_least_recorded(self._meter.total)))
            self._journal.note_soon("elapsed_s", self._elapsed_s)

    def _open_answers(self) -> Answers:
        plan = self._plan
        own = plan.out / SCRATCH
        path = plan.cache_path or default_path() if plan.use_cache else own
        # One process writes for the whole cluster, so it groups its writes.
        gather_s = _GATHER_S if plan.engine == "dask" else 0.0
        return Answers(path, gather_s=gather_s, ask_again=self._ask_again, is_shared=plan.use_cache)

    def _with_given_aspects(self, sample: Sample) -> Sample:
        """The sample with the given aspects, if the plan uses them."""
        if not self._plan.given_aspects:
            return sample
        return sample.model_copy(update={"given_aspects": sample.terms})

    def _memory_input(self, sample: Sample, seed: int) -> dict[str, Any]:
        if self._plan.settings.pipeline.memory.condition == "off":
            return {}
        return {
            "split": sample.split or (UNNAMED_SPLIT if sample.aspects is not None else None),
            "memory_recall": self._plan.recalls.get((sample.uid, seed)),
        }

    def _check_failures(self) -> None:
        """Stop the run if more samples failed than `--fail-on-error` allows."""
        limit = self._plan.fail_on_error
        if limit is None:
            return
        failed = self._totals.failed + self._failing
        allowed = limit * self._total if isinstance(limit, float) else limit
        if failed > allowed:
            self._control.drain(
                f"{failed} failed, more than --fail-on-error {limit} allows",
                "fix the cause and add --retry-failed, or raise --fail-on-error",
            )

    def _report_progress(self) -> None:
        self._on_progress(self._progress())

    def _progress(self) -> Progress:
        return Progress(
            total=self._total,
            totals=self._totals,
            bad_lines=self._bad_lines,
            started_with=self._started_with,
        )

    def _report(self) -> RunReport:
        totals = self._totals
        complete = totals.done + totals.failed >= self._total
        return RunReport(
            out=self._plan.out,
            status="finished" if complete else "unfinished",
            total=self._total,
            totals=totals,
            bad_lines=self._bad_lines,
            stopped_because=None if complete else self._control.reason,
            remedy=None if complete or not self._control.draining else self._control.remedy,
            not_read=self._not_read() if complete else {},
            notes=self._notes(),
        )

    def _not_read(self) -> dict[str, int]:
        seeds = len(self._all_seeds)
        return {language: n * seeds for language, n in self._unread_languages.items()}

    def _notes(self) -> list[str]:
        notes = [*self._trust_notes, *self._unreadable()]
        if self._unread_languages:
            notes.append(unread_note(self._unread_languages))
        if self._plan.given_aspects and self._without_gold:
            notes.append(
                f"{self._without_gold} of {self._size} samples have no gold aspects, so "
                "--given-aspects judges nothing in them"
            )
        if self._data.has_grown:
            notes.append(
                f"{self._plan.data} has grown during the run; the run covers only the rows that it "
                "had at the start. Use another --out to analyze the whole file"
            )
        settings = self._plan.settings
        if settings.backend.kind == "replay" and (why := wired(settings).only_as_graph):
            notes.append(f"LangGraph runs this replay, which is slower than a direct replay: {why}")
        return notes

    def _unreadable(self) -> Iterator[str]:
        """Which lines of the data could not be read, and why."""
        if not self._bad_lines:
            return
        shown = self._journal.bad_lines(_SHOWN_LINES)
        lines = "; ".join(f"line {e.get('line', '?')}: {e.get('reason', '?')}" for e in shown)
        more = (
            f"; and {self._bad_lines - len(shown):,} more" if self._bad_lines > len(shown) else ""
        )
        where = self._plan.out / ERRORS
        yield (
            f"unreadable in {self._plan.data}: {lines}{more} (all of them: {where}). "
            "After repairing the file use another --out: this run keeps to the old content"
        )

    def _write_manifest(self) -> None:
        report = self._report()
        plan = self._plan
        write_json(
            plan.out / MANIFEST,
            {
                "run_id": self._run_id,
                "status": report.status,
                "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "settings": plan.settings.model_dump(mode="json"),
                "seeds": self._all_seeds,
                "limit": plan.limit,
                "data": {"path": str(plan.data), **self._data.about()},
                "identity": self._identity,
                "versions": versions(),
                "counts": {
                    "samples": report.total,
                    "done": report.totals.done,
                    "failed": report.totals.failed,
                    "bad_lines": report.bad_lines,
                    **(
                        {"unread_languages": self._unread_languages}
                        if self._unread_languages
                        else {}
                    ),
                },
                "usage": {
                    "calls": report.totals.calls,
                    "cached_calls": report.totals.cached,
                    "prompt_tokens": report.totals.prompt_tokens,
                    "completion_tokens": report.totals.completion_tokens,
                    "cost_usd": report.totals.cost_usd,
                },
                "spent": asdict(self._at_least_recorded(self._meter.total)),
                "elapsed_s": self._elapsed_s,
            },
        )
