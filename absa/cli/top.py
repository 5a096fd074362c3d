"""`absa top`: shows the progress of a run from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import console, print_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from absa.runs.watch import Seen

_LOOK_EVERY_S = 1.0
_PLAIN_EVERY_S = 5.0
_STATES = {
    "starting": "starting: reading the data",
    "running": "running",
    "stopped": "stopped: its process has ended; repeat the command to continue",
    "finished": "finished",
    "unfinished": "unfinished: repeat the command to continue",
}


def top(
    directory: options.RunDir,
    once: Annotated[bool, typer.Option("--once", help="Print the present state and exit.")] = False,
) -> None:
    """Watch the progress of a run from another terminal.

    Works for runs of one process and for Dask runs; it only reads the run directory. The exit code
    is 1 if the run stopped before its end.
    """
    from absa.runs.watch import look

    seen = look(directory)
    screen = console()
    if once:
        print_text("\n".join(_lines(directory, seen)))
    elif screen.is_terminal:
        from rich.live import Live

        with Live(_picture(directory, seen), console=screen, auto_refresh=False) as live:
            while seen.goes_on:
                time.sleep(_LOOK_EVERY_S)
                seen = look(directory)
                live.update(_picture(directory, seen), refresh=True)
    else:
        print_text("\n".join(_lines(directory, seen)))
        printed_at = time.monotonic()
        while seen.goes_on:
            time.sleep(_LOOK_EVERY_S)
            seen = look(directory)
            if not seen.goes_on or time.monotonic() - printed_at >= _PLAIN_EVERY_S:
                printed_at = time.monotonic()
                print_text(_headline(directory, seen))
    raise typer.Exit(0 if seen.goes_on or seen.state == "finished" else 1)


def _headline(directory: Path, seen: Seen) -> str:
    from absa.cli.progress import facts_of

    progress = seen.progress
    stopping = f", stopping: {seen.stopping}" if seen.stopping and seen.goes_on else ""
    facts = facts_of(progress, seen.elapsed_s)
    return (
        f"{directory}: {_STATES[seen.state]}{stopping}; "
        f"{progress.finished}/{progress.total} samples, {facts}"
    )


def _lines(directory: Path, seen: Seen) -> list[str]:
    from absa.runs.watch import latencies

    return [
        _headline(directory, seen),
        *(f"worker {w.name}: {w.in_flight} in flight, {w.done} done" for w in seen.workers),
        *(f"node {node}: {ms:.0f} ms" for node, ms in latencies(directory).items()),
    ]


def _picture(directory: Path, seen: Seen) -> RenderableType:
    from rich.columns import Columns
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from absa.cli.progress import facts_of
    from absa.runs.watch import latencies

    progress = seen.progress
    head = Text(f"{directory}  ", style="bold")
    head.append(_STATES[seen.state], style="red" if seen.state == "stopped" else "green")
    if seen.stopping and seen.goes_on:
        head.append(f"  stopping: {seen.stopping}", style="yellow")
    tables = [
        _table(
            ("worker", "in flight", "done"),
            [(w.name, str(w.in_flight), str(w.done)) for w in seen.workers],
        ),
        _table(
            ("node", "median ms"),
            [(node, f"{ms:.0f}") for node, ms in latencies(directory).items()],
        ),
    ]
    return Group(
        head,
        # Padding ends the line, which a bar alone does not.
        Padding(ProgressBar(total=max(1, progress.total), completed=progress.finished), 0),
        f"{progress.finished}/{progress.total} samples, {facts_of(progress, seen.elapsed_s)}",
        Columns([table for table in tables if table is not None], padding=(1, 4)),
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> RenderableType | None:
    from rich.table import Table

    if not rows:
        return None
    table = Table(box=None, pad_edge=False)
    for n, name in enumerate(head):
        table.add_column(name, justify="right" if n else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
