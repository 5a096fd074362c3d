"""What to run, how far it is, how it is stopped and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from absa.backends.meter import Budget
from absa.runs.journal import Totals
from absa.schemas.memory import Recall
from absa.schemas.settings import Settings

Engine = Literal["local", "dask"]
SAME_COMMAND = "the same command goes on from here"


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
    engine: Engine = "local"
    # Of Dask: a running scheduler, or else how many worker processes to start here.
    scheduler: str | None = None
    workers: int | None = None

    @property
    def width(self) -> int:
        """How many samples may be under way, wherever they are."""
        return self.concurrency or self.settings.backend.max_concurrency


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
    # What lets it go on.
    remedy: str | None = None
    # What the user should know although the run went well.
    notes: list[str] = field(default_factory=list)

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
    remedy: str = SAME_COMMAND
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def drain(self, reason: str, remedy: str = SAME_COMMAND) -> None:
        """Take no new samples; let those under way finish. The first reason counts."""
        if not self.draining:
            self.reason, self.remedy = reason, remedy
        self.draining = True

    def stop(self) -> None:
        """Give up what is under way."""
        self.drain("stopped")
        for task in self.tasks:
            task.cancel()
