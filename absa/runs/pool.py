"""The local engine: several samples at a time in the event loop of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from absa.backends.cache import AnswerKeys, Answers, CachedBackend
from absa.backends.meter import Meter, MeteredBackend, StopRun
from absa.backends.siblings import SiblingsFirst
from absa.demos import Demos
from absa.graph import DirectGraph, Graph
from absa.memory import open_memory
from absa.runs.journal import Finished
from absa.runs.loop import Spread
from absa.runs.plan import Control, RunPlan
from absa.runs.sample import analyse
from absa.schemas.backend import Backend
from absa.schemas.sample import Sample
from absa.schemas.settings import BackendSettings, MemorySettings
from absa.wired import replaying, wired


@dataclass(frozen=True)
class Batch:
    """The samples of one seed without a record, and their shared objects."""

    plan: RunPlan
    # The backend's settings with this seed.
    backend: BackendSettings
    # An iterator of samples with their positions, and their approximate number.
    samples: Iterator[tuple[int, Sample]]
    size: int
    keys: AnswerKeys
    # Only for paid backends.
    answers: Answers | None
    meter: Meter | None
    demos: Demos
    control: Control
    # Additional graph input for memory or a second reader.
    extra_input: Callable[[Sample], Mapping[str, Any]]
    # Counts the record at once. It is on the disk when the coroutine has ended.
    save: Callable[[Finished], Coroutine[Any, Any, None]]
    has_record: Callable[[str], bool]

    @property
    def seed(self) -> int:
        """The seed of all its samples."""
        return self.backend.seed

    def take(self) -> tuple[int, Sample] | None:
        """The next sample; None if there are no more or the run stops."""
        return None if self.control.draining else next(self.samples, None)


@dataclass(frozen=True)
class Worker:
    """A worker process, for the progress display."""

    name: str
    in_flight: int
    done: int


class RunEngine(Protocol):
    """Works on batches."""

    async def work(self, batch: Batch) -> None:
        """Record every sample of the batch, unless the run is stopped."""
        ...

    def workers(self) -> list[Worker]:
        """The worker processes; empty if all work is in this process."""
        ...

    async def close(self) -> None:
        """Release its resources."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Works in this event loop, with the backends that `backend_for` makes."""

    backend_for: Callable[[BackendSettings], Backend]

    def workers(self) -> list[Worker]:
        """Empty: all work is in this process."""
        return []

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    async def work(self, batch: Batch) -> None:
        """Build the graph and run every sample of the batch through it."""
        backend = self.backend_for(batch.backend)
        if batch.meter is not None:
            backend = MeteredBackend(backend, batch.meter)
        if batch.answers is not None:
            backend = SiblingsFirst(CachedBackend(backend, batch.keys, batch.answers))
        settings = batch.plan.settings
        memory = settings.pipeline.memory
        is_replay = batch.backend.kind == "replay"
        if is_replay:
            # The recalled cases are given, and the text must not be stored a second time.
            memory = MemorySettings(condition=memory.condition)
        with open_memory(memory) as store:
            if is_replay:
                graph = replaying(settings, backend, store)
            else:
                graph = wired(settings).compile(backend=backend, store=store)
            await _work_on(batch, graph)


async def _work_on(batch: Batch, graph: Graph | DirectGraph) -> None:
    """Start `width` coroutines, each of which takes one sample after another."""
    control, aux_hf = batch.control, batch.plan.settings.aux_hf
    spread = Spread(batch.plan.width)

    async def work() -> None:
        saving: asyncio.Task[None] | None = None
        try:
            while (item := batch.take()) is not None:
                position, sample = item
                async with spread.start():
                    if control.draining:
                        break
                    demos = batch.demos.for_text(sample.text)
                    extra = batch.extra_input(sample)
                    record = await analyse(
                        graph, sample, position, batch.seed, demos, aux_hf, extra
                    )
                # The next sample starts while this record is being written.
                if saving is not None:
                    await saving
                saving = asyncio.create_task(batch.save(record))
        finally:
            if saving is not None:
                await saving

    async def work_or_end() -> None:
        try:
            await work()
        except StopRun as stop:
            control.drain(str(stop), stop.remedy)
        except Exception as error:
            control.drain(str(error))
            raise

    control.tasks = {asyncio.create_task(work_or_end()) for _ in range(batch.plan.width)}
    results = await asyncio.gather(*control.tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
