"""The plan of a run, its progress, its stop control and its report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from absa.backends.meter import Budget
from absa.runs.journal import Totals
from absa.schemas.errors import InputError
from absa.schemas.memory import Recall
from absa.schemas.settings import Settings

Engine = Literal["local", "dask"]
SAME_COMMAND = "repeat the command to continue"
GOES_ON = f"finished samples are kept; {SAME_COMMAND}"


class RunError(RuntimeError):
    """The run must stop. Finished samples are kept and a new start resumes the run."""


class RunMismatch(InputError):
    """The directory holds another run. A usage error; the message lists the differences."""


class RunBusy(InputError):
    """The directory cannot be used: another process uses it, or it is not writable."""


@dataclass(frozen=True)
class RunPlan:
    """What to run, the output directory, and how to run it."""

    data: Path
    out: Path
    settings: Settings
    seeds: tuple[int, ...] = ()
    limit: int | None = None
    concurrency: int | None = None
    use_cache: bool = True
    cache_path: Path | None = None
    retry_failed: bool = False
    # Stop when more samples failed than this count (int) or fraction (float); None: never.
    fail_on_error: int | float | None = None
    format: str | None = None
    columns: dict[str, str] | None = None
    # Use the gold terms as given aspects instead of extracting aspects.
    given_aspects: bool = False
    budget: Budget = Budget()
    # In a replay: what memory recalled for each sample and seed.
    recalls: Mapping[tuple[str, int], Recall] = field(default_factory=dict)
    engine: Engine = "local"
    # For Dask: the address of a scheduler, else the number of local worker processes.
    scheduler: str | None = None
    workers: int | None = None

    @property
    def width(self) -> int:
        """The maximum number of samples in flight, over all processes."""
        return self.concurrency or self.settings.backend.max_concurrency


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

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
    # What the user can do to continue the run.
    remedy: str | None = None
    # Texts in languages that the offline analyzer does not read, by language. They are recorded as
    # neutral, and `totals.done` counts them.
    not_read: dict[str, int] = field(default_factory=dict)
    # Notes for the user about a run that went well.
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if every sample is done, 1 if one failed or is missing."""
        complete = self.status == "finished"
        return 0 if complete and not self.totals.failed and not self.bad_lines else 1


@dataclass
class Control:
    """Stops a run: first after the samples in flight, then at once."""

    draining: bool = False
    reason: str | None = None
    remedy: str = SAME_COMMAND
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def drain(self, reason: str, remedy: str = SAME_COMMAND) -> None:
        """Start no new samples and finish those in flight. The first reason is kept."""
        if not self.draining:
            self.reason, self.remedy = reason, remedy
        self.draining = True

    def stop(self) -> None:
        """Cancel the samples in flight."""
        self.drain("stopped")
        for task in self.tasks:
            task.cancel()
