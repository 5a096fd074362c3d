"""The progress of a run: a bar on a terminal, else a line from time to time."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from absa.runs import Progress

_PLAIN_EVERY_S = 5.0
_DRAW_EVERY_S = 0.1


class RunProgress:
    """Shows a run's progress on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._shown = 0.0
        self._last: Progress | None = None
        self._drawn: Progress | None = None
        self._bar: Bar | None = None
        if console.is_terminal:
            self._bar = Bar(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[facts]}"),
                console=console,
            )
            self._task = self._bar.add_task("samples", total=None, facts="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._last and self._last != self._drawn:
            self._draw(self._last)
        if self._bar:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Store the progress, and draw if it is time."""
        self._last = progress
        now = time.monotonic()
        if now - self._shown >= (_DRAW_EVERY_S if self._bar else _PLAIN_EVERY_S):
            self._shown = now
            self._draw(progress)

    def _draw(self, progress: Progress) -> None:
        self._drawn = progress
        facts = facts_of(progress, time.monotonic() - self._started)
        if self._bar:
            self._bar.update(
                self._task, total=progress.total, completed=progress.finished, facts=facts
            )
        else:
            line = f"{progress.finished}/{progress.total} samples, {facts}"
            self._console.print(line, highlight=False, soft_wrap=True)


def facts_of(progress: Progress, elapsed: float) -> str:
    """Failures, rate, tokens, cost and remaining time, given the elapsed seconds."""
    totals = progress.totals
    here = progress.finished - progress.started_with
    rate = here / elapsed if elapsed > 0 else 0.0
    left = progress.total - progress.finished
    cost = "cost unknown" if totals.cost_usd is None else f"${totals.cost_usd:.4f}"
    parts = [
        f"{totals.failed} failed",
        # A finished run has no remaining time.
        *([f"{rate:.1f}/s"] if elapsed else []),
        f"{totals.prompt_tokens + totals.completion_tokens:,} tokens",
        cost,
    ]
    if totals.cached:
        parts.append(f"{totals.cached} cached")
    if left and rate:
        parts.append(f"ETA {_clock(left / rate)}")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds + 0.5), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
