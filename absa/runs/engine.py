"""A batch: samples through the graph, many at a time, each recorded once."""

from __future__ import annotations

import asyncio
import fcntl
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from absa.aux_hf import with_signal
from absa.backends import make_backend
from absa.backends.cache import CachedBackend, default_path
from absa.backends.meter import Budget, MeteredBackend, Spent, StopRun
from absa.data import BadLine, DataError, detect_format, read_samples
from absa.data.source import Source
from absa.database import StorageError
from absa.demos import Demos
from absa.memory import open_memory
from absa.prices import cost_of
from absa.runs.artefacts import ARTEFACTS, export, write_json
from absa.runs.identity import RunMismatch, differences, file_sha256, identity, versions
from absa.runs.journal import FILE as JOURNAL
from absa.runs.journal import Finished, Journal, Totals
from absa.runs.loop import Spread
from absa.scorecard import scorecard
from graph import build
from graph.build import Graph
from schemas.backend import Backend
from schemas.errors import BackendError, InputError
from schemas.memory import Recall
from schemas.output import FinalOutput
from schemas.sample import Sample
from schemas.settings import AuxHfSettings, BackendSettings, MemorySettings, Settings

MANIFEST = "manifest.json"
SCRATCH = "scratch.db"
# Annotated data is evaluated, whether or not it says which split it is.
UNNAMED_SPLIT = "evaluated"
LOCK = ".lock"


class RunError(RuntimeError):
    """The run cannot go on, but what is finished is safe and a new start continues it."""


class RunBusy(RuntimeError):
    """The directory cannot be used now: another process is in it, or it cannot be written."""


@dataclass(frozen=True)
class RunPlan:
    """What to run, where to, and how."""

    data: Path
    out: Path
    settings: Settings
    seeds: tuple[int, ...] = ()
    limit: int | None = None
    concurrency: int | None = None
    use_cache: bool = True
    cache_path: Path | None = None
    retry_failed: bool = False
    # Stop when more samples failed than this count (int) or share (float); None never stops.
    fail_on_error: int | float | None = None
    format: str | None = None
    columns: dict[str, str] | None = None
    # Judge the terms of the data's gold instead of searching for aspects.
    given_aspects: bool = False
    budget: Budget = Budget()
    # A replay: what memory held for each sample and seed.
    recalls: Mapping[tuple[str, int], Recall] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    total: int
    totals: Totals
    bad_lines: int
    started_with: int

    @property
    def finished(self) -> int:
        """Samples with a record."""
        return self.totals.done + self.totals.failed


@dataclass
class RunReport:
    """How a run ended."""

    out: Path
    status: str
    total: int
    totals: Totals
    bad_lines: int
    stopped_because: str | None = None

    @property
    def exit_code(self) -> int:
        """0 if everything is done, 1 if something failed or is missing."""
        complete = self.status == "finished"
        return 0 if complete and not self.totals.failed and not self.bad_lines else 1


@dataclass
class Control:
    """How a run is told to stop: first drain, then at once."""

    draining: bool = False
    reason: str | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def drain(self, reason: str) -> None:
        """Take no new samples; let those under way finish."""
        self.draining = True
        self.reason = self.reason or reason

    def stop(self) -> None:
        """Give up what is under way."""
        self.drain("stopped")
        for task in self.tasks:
            task.cancel()


async def run(
    plan: RunPlan,
    *,
    control: Control | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    backend_for: Callable[[BackendSettings], Backend] = make_backend,
) -> RunReport:
    """Start a run, or go on with the one that is in `plan.out`."""
    control = control or Control()
    about = describe_data(plan)
    with locked(plan.out):
        refuse_leftovers(plan.out)
        try:
            with closing(Journal(plan.out)) as journal:
                return await _Run(plan, journal, control, about, on_progress, backend_for).go()
        except StorageError as error:
            raise RunError(
                f"{error}; what is finished is safe, the same command goes on from there"
            ) from error


def describe_data(plan: RunPlan) -> dict[str, Any]:
    """What the data is: its hash and how it is read."""
    if not plan.data.is_file():
        # The reader's own message is better than anything that could be said here.
        detect_format(plan.data)
        raise DataError(plan.data, "is not a file.")
    return {
        "sha256": file_sha256(plan.data),
        "format": plan.format or detect_format(plan.data),
        "columns": plan.columns,
        **({"given_aspects": True} if plan.given_aspects else {}),
    }


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Make the directory and keep a second process out of it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("w")
    except OSError as error:
        raise RunBusy(f"{out}: {error.strerror}; give an --out that can be written") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunBusy(f"another process is running in {out}; wait for it to end") from None
        yield


def refuse_leftovers(out: Path) -> None:
    """Results whose journal is gone cannot be continued, and must not be overwritten."""
    found = [name for name in (MANIFEST, *ARTEFACTS) if (out / name).exists()]
    if found and not (out / JOURNAL).exists():
        raise RunMismatch(
            f"{out} has {found[0]} but no {JOURNAL}: it was not made by a run, or its journal is "
            "gone; give another --out"
        )


class _Run:
    def __init__(
        self,
        plan: RunPlan,
        journal: Journal,
        control: Control,
        about: dict[str, Any],
        on_progress: Callable[[Progress], None],
        backend_for: Callable[[BackendSettings], Backend],
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._control = control
        self._about = about
        self._on_progress = on_progress
        self._backend_for = backend_for
        self._identity = identity(plan.settings, about)
        self._run_id = self._claim()
        self._exported = bool(journal.recall("exported"))
        self._all_seeds, self._seeds = self._recall_seeds()
        if plan.retry_failed:
            self._touch()
            journal.forget_failures()
        size = self._survey()
        # What an earlier start did beyond what this one asks for is part of the run as well.
        self._total = size * len(self._seeds) + journal.records_beyond(self._seeds, size)
        self._totals = journal.totals()
        self._bad_lines = journal.bad_line_count()
        self._started_with = self._totals.done + self._totals.failed

    def _claim(self) -> str:
        """Take the directory for this run, or refuse to mix it with another."""
        known = self._journal.recall("identity")
        if known is None:
            # In this order: a directory with an identity has an id.
            self._journal.note("run_id", uuid.uuid4().hex)
            self._journal.note("identity", self._identity)
        elif found := differences(known, json.loads(json.dumps(self._identity))):
            shown = "\n  ".join(found[:10])
            raise RunMismatch(
                f"{self._plan.out} holds another run; it differs in\n  {shown}\n"
                "give another --out, or the settings and data of that run"
            )
        return str(self._journal.recall("run_id"))

    def _recall_seeds(self) -> tuple[list[int], tuple[int, ...]]:
        """All seeds of the run, and those to work on: the ones asked for, else all of them."""
        known: list[int] = self._journal.recall("seeds") or []
        seeds = self._plan.seeds or tuple(known) or (self._plan.settings.backend.seed,)
        together = list(dict.fromkeys([*known, *seeds]))
        if together != known:
            self._journal.note("seeds", together)
        return together, seeds

    def _touch(self) -> None:
        """Before the journal changes: from now on the artefacts are behind it."""
        if self._exported:
            self._journal.note("exported", False)
            self._exported = False

    def _rows(self) -> Iterator[Sample | BadLine]:
        """The samples and bad lines up to the limit."""
        left = self._plan.limit
        for item in read_samples(self._plan.data, self._plan.format, self._plan.columns):
            if isinstance(item, Sample) and left is not None:
                if left == 0:
                    return
                left -= 1
            yield item

    def _samples(self) -> Iterator[tuple[int, Sample]]:
        """The samples with their positions."""
        return enumerate(item for item in self._rows() if isinstance(item, Sample))

    def _survey(self) -> int:
        """Go through the data once: how many samples there are; bad lines cost only themselves."""
        size = bad = 0
        known_bad = self._journal.bad_line_count()
        stem = Source(self._plan.data).stem
        is_named_after_file = False
        for item in self._rows():
            if isinstance(item, Sample):
                size += 1
                is_named_after_file |= item.uid.startswith(f"{stem}-")
                continue
            if bad >= known_bad:
                self._touch()
                error = {"uid": None, "kind": "bad_line", **item.model_dump()}
                self._journal.add_bad_line(bad, error)
            bad += 1
        self._journal.flush()
        if is_named_after_file:
            self._check_file_name(stem)
        return size

    def _check_file_name(self, stem: str) -> None:
        """Samples without a uid are named after their file: under another name they are others."""
        known = self._journal.recall("file_name")
        if known is None:
            self._journal.note("file_name", stem)
        elif known != stem:
            raise RunMismatch(
                f"{self._plan.out} holds another run; it differs in\n"
                f"  data.name: was {known!r}, is {stem!r}, and samples are named after it\n"
                "give another --out, or the file its old name"
            )

    async def go(self) -> RunReport:
        """Everything that has no record yet, then the artefacts."""
        self._write_manifest()
        self._tell()
        self._check_failures()
        for seed in self._seeds:
            if not self._control.draining:
                await self._one_seed(seed)
        # A worker that was stopped may have left a record on its way.
        self._journal.flush()
        self._totals = self._journal.totals()
        out = self._plan.out
        if not self._exported or not all((out / name).exists() for name in ARTEFACTS):
            export(self._journal, out)
            self._journal.note("exported", True)
        self._write_manifest()
        return self._report()

    async def _one_seed(self, seed: int) -> None:
        finished = self._journal.finished(seed)
        todo = ((n, s) for n, s in self._samples() if s.uid not in finished)
        first = next(todo, None)
        if first is None:
            return
        settings = self._plan.settings
        asked = settings.backend.model_copy(update={"seed": seed})
        backend = self._backend_for(asked)
        meter = None
        if asked.kind == "openai":
            totals = self._totals
            spent = Spent(
                totals.calls, totals.prompt_tokens, totals.completion_tokens, totals.cost_usd
            )
            backend = meter = MeteredBackend(backend, self._plan.budget, spent)
        cache = self._cached(backend, asked)
        demos = Demos(settings.demos, seed=seed, evaluated=(s.text for _, s in self._samples()))
        replayed = settings.backend.kind == "replay"
        # A replay is told what was recalled, and must not be remembered a second time.
        memory = MemorySettings() if replayed else settings.pipeline.memory
        try:
            with open_memory(memory) as store:
                graph = build(settings.pipeline, cache or backend, store=store)
                await self._pool(graph, seed, demos, cache, meter, first, todo)
        finally:
            if cache is not None:
                cache.close()

    def _cached(self, backend: Backend, settings: BackendSettings) -> CachedBackend | None:
        """A memory for answers that cost something; the others are as quick to make again."""
        if settings.kind != "openai":
            return None
        shared = self._plan.use_cache
        path = self._plan.cache_path or default_path() if shared else self._plan.out / SCRATCH
        return CachedBackend(backend, settings, path, run_id=self._run_id, shared=shared)

    async def _pool(
        self,
        graph: Graph,
        seed: int,
        demos: Demos,
        cache: CachedBackend | None,
        meter: MeteredBackend | None,
        first: tuple[int, Sample],
        rest: Iterator[tuple[int, Sample]],
    ) -> None:
        """So many workers, each taking the next sample when it is done with one."""
        waiting = [first]

        def take() -> tuple[int, Sample] | None:
            if self._control.draining:
                return None
            return waiting.pop() if waiting else next(rest, None)

        async def save(record: Finished) -> None:
            await asyncio.wrap_future(self._journal.add(record))
            if cache is not None and record.status == "done":
                cache.forget(record.uid)
            self._totals = self._totals.plus(record)
            self._check_failures()
            self._tell()

        async def work() -> None:
            saving: asyncio.Task[None] | None = None
            try:
                while (item := take()) is not None:
                    position, sample = item
                    async with spread.start():
                        if self._control.draining:
                            break
                        shown = demos.for_text(sample.text)
                        aux_hf = self._plan.settings.aux_hf
                        if self._plan.given_aspects:
                            sample = sample.model_copy(update={"given_aspects": sample.terms})
                        record = await analyse(
                            graph,
                            sample,
                            position,
                            seed,
                            shown,
                            aux_hf,
                            self._known_to_memory(sample, seed),
                        )
                    if meter is not None:
                        record = record.with_spent(meter.take(sample.uid))
                    self._touch()
                    # The next sample starts while this one is being written.
                    if saving is not None:
                        await saving
                    saving = asyncio.create_task(save(record))
            finally:
                if saving is not None:
                    await saving

        async def work_or_end() -> None:
            try:
                await work()
            except StopRun as stop:
                self._control.drain(str(stop))
            except Exception as error:
                self._control.drain(str(error))
                raise

        size = self._plan.concurrency or self._plan.settings.backend.max_concurrency
        spread = Spread(size)
        self._control.tasks = {asyncio.create_task(work_or_end()) for _ in range(size)}
        results = await asyncio.gather(*self._control.tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _known_to_memory(self, sample: Sample, seed: int) -> dict[str, Any]:
        """What a graph with memory is given besides."""
        if self._plan.settings.pipeline.memory.condition == "off":
            return {}
        return {
            "split": sample.split or (UNNAMED_SPLIT if sample.aspects is not None else None),
            "memory_recall": self._plan.recalls.get((sample.uid, seed)),
        }

    def _check_failures(self) -> None:
        """Stop when more failed than the user accepts."""
        limit = self._plan.fail_on_error
        if limit is None:
            return
        failed = self._totals.failed
        allowed = limit * self._total if isinstance(limit, float) else limit
        if failed > allowed:
            self._control.drain(f"{failed} failed, more than --fail-on-error {limit} allows")

    def _tell(self) -> None:
        progress = Progress(
            total=self._total,
            totals=self._totals,
            bad_lines=self._bad_lines,
            started_with=self._started_with,
        )
        self._on_progress(progress)

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
                "data": {"path": str(plan.data), **self._about},
                "identity": self._identity,
                "versions": versions(),
                "counts": {
                    "samples": report.total,
                    "done": report.totals.done,
                    "failed": report.totals.failed,
                    "bad_lines": report.bad_lines,
                },
                "usage": {
                    "calls": report.totals.calls,
                    "cached_calls": report.totals.cached,
                    "prompt_tokens": report.totals.prompt_tokens,
                    "completion_tokens": report.totals.completion_tokens,
                    "cost_usd": report.totals.cost_usd,
                },
            },
        )


async def output_of(graph: Graph, given: dict[str, Any]) -> FinalOutput:
    """What `ainvoke` gives, without the updates it collects on the way: 5 % of a sample's time."""
    values = graph.astream(given, stream_mode="values", output_keys="output")
    output: Any = [value async for value in values][-1]
    assert isinstance(output, FinalOutput), "every graph ends with an output"
    return output


async def analyse(
    graph: Graph,
    sample: Sample,
    position: int,
    seed: int,
    demos: list[dict[str, Any]],
    aux_hf: AuxHfSettings,
    known_to_memory: Mapping[str, Any],
) -> Finished:
    """One sample through the graph: a record, or an error with what is known about it."""
    given = {
        "text": sample.text,
        "uid": sample.uid,
        "lang": sample.lang,
        "domain": sample.domain,
        "demos": demos,
        "given_aspects": sample.given_aspects,
        **known_to_memory,
    }
    try:
        output = await output_of(graph, given)
        if aux_hf.enabled:
            # All computation: in a thread, so that calls under way are not held up.
            output = await asyncio.to_thread(with_signal, output, aux_hf)
        return record_of(output, sample, position, seed)
    except (StorageError, StopRun):  # no fault of the sample
        raise
    except Exception as error:  # one bad sample must not end the batch; it is recorded
        return Finished(seed, sample.uid, position, error=describe_error(error, sample, seed))


def record_of(output: FinalOutput, sample: Sample, position: int, seed: int) -> Finished:
    """The record of an analysed sample."""
    usage = output.meta.usage
    output = output.model_copy(update={"meta": output.meta.model_copy(update={"seed": seed})})
    return Finished(
        seed,
        sample.uid,
        position,
        parts={
            "output": [output.model_dump_json()],
            "traces": [
                # The run's seed, also where a model takes none: it tells the repetitions apart.
                _line({"uid": output.uid, **c.model_dump(), "seed": seed})
                for c in output.process_trace
            ],
            "gate": [
                _line({"uid": output.uid, "seed": seed, **r.model_dump()})
                for r in output.meta.override_gate
            ],
            "scorecard": [_line(scorecard(output, sample, seed))],
        },
        calls=usage.calls - usage.cached_calls,
        cached=usage.cached_calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=cost_of(output.process_trace),
    )


def describe_error(error: Exception, sample: Sample, seed: int) -> dict[str, Any]:
    """An error as a line of `errors.jsonl`: reason, node, attempts and the raw answer."""
    about: dict[str, Any] = {
        "uid": sample.uid,
        "seed": seed,
        "kind": "failed",
        "reason": str(error) or type(error).__name__,
        "node": None,
        "turn": None,
        "attempts": None,
        "raw": None,
    }
    if isinstance(error, BackendError):
        about |= {
            "node": error.node,
            "turn": error.turn,
            "attempts": error.attempts,
            "raw": error.raw,
        }
    elif not isinstance(error, InputError):
        about["reason"] = f"internal error: {type(error).__name__}: {error}"
    return about


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
