"""`absa run`: analyzes a data file into a run directory."""

from __future__ import annotations

import asyncio
import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import (
    MAX_WORKERS,
    UsageError,
    complain,
    print_json,
    print_text,
    settings_from,
)

if TYPE_CHECKING:
    from absa.runs import RunPlan, RunReport


class Engine(StrEnum):
    """The engine of a run."""

    local = "local"
    dask = "dask"


# Servers and the journal store a seed in 64 bits.
_SEEDS = 2**63
# Seconds that samples of the embedded analyzer may take after an interrupt.
_GRACE_S = 1.0


def run(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Reviews: JSONL, CSV, SemEval XML, ASTE, ACOS, ASQP, NIKL, M-ABSA."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="The run directory.")
    ],
    config: options.Config = None,
    sets: options.Set = None,
    wiring: options.Wiring = None,
    demos: options.Demos = None,
    limit: options.Limit = None,
    concurrency: options.Concurrency = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="1,2,3", help="Analyze every sample once per seed, into the same directory."
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Do not use the answer cache that runs share.")
    ] = False,
    retry_failed: options.RetryFailed = False,
    fail_on_error: Annotated[
        str,
        typer.Option(
            metavar="LIMIT", help="Abort when failures exceed a count (20) or a fraction (0.1)."
        ),
    ] = "none",
    budget_usd: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Stop after this many US dollars."),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Stop after this many tokens, as the server counts them."
        ),
    ] = None,
    budget_calls: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Stop after this many calls to a model server."),
    ] = None,
    given_aspects: Annotated[
        bool,
        typer.Option(
            "--given-aspects",
            help="Judge only the aspects of the gold; the data must have gold.",
        ),
    ] = False,
    data_format: options.Format = None,
    columns: options.Column = None,
    engine: Annotated[
        Engine, typer.Option(help="local: this process; dask: worker processes, here or elsewhere.")
    ] = Engine.local,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler. Default: start one here."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_WORKERS,
            metavar="N",
            help="Dask workers to start. Default: one per core.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Analyze a data file into a run directory.

    The same command resumes an interrupted run. Ctrl-C finishes the samples that are being
    analyzed and leaves the rest for the next start; a second Ctrl-C stops at once.
    """
    from absa.backends.meter import Budget
    from absa.runs import RunPlan

    check_engine(engine, scheduler, workers)
    plan = RunPlan(
        data=data,
        out=out,
        settings=settings_from(config, sets, wiring, demos),
        seeds=parse_seeds(seeds),
        limit=limit,
        concurrency=concurrency,
        use_cache=not no_cache,
        retry_failed=retry_failed,
        fail_on_error=parse_fail_on_error(fail_on_error),
        format=data_format,
        columns=parse_columns(columns),
        given_aspects=given_aspects,
        budget=Budget(usd=budget_usd, tokens=budget_tokens, calls=budget_calls),
        engine=engine.value,
        scheduler=scheduler,
        workers=workers,
    )
    report = carry_out(plan)
    show_report(report, as_json=as_json)
    raise typer.Exit(report.exit_code)


def carry_out(plan: RunPlan) -> RunReport:
    """Run with a progress display; the first Ctrl-C drains, the second stops."""
    from rich.console import Console

    from absa.cli.progress import RunProgress
    from absa.runs import RunError
    from absa.runs import run as run_batch
    from absa.runs.loop import run_in_quick_loop
    from absa.runs.plan import Control

    console = Console(stderr=True)
    control = Control()

    def interrupted() -> None:
        if control.draining:
            control.stop()
            return
        control.drain("interrupted")
        console.print("finishing the samples under way; once more to stop at once")
        if plan.engine == "local" and plan.settings.backend.kind == "offline":
            # A longer text is cancelled and analyzed again later. It has cost nothing.
            asyncio.get_running_loop().call_later(_GRACE_S, control.stop)

    async def go(show: RunProgress) -> RunReport:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted)
        return await run_batch(plan, control=control, on_progress=show)

    try:
        with RunProgress(console) as show:
            return run_in_quick_loop(go(show))
    except RunError as error:
        complain(str(error))
        raise typer.Exit(1) from error


def show_report(report: RunReport, *, as_json: bool) -> None:
    """Print the result and what to do next."""
    from dataclasses import asdict

    if as_json:
        print_json({**asdict(report), "out": str(report.out)})
        return
    totals = report.totals
    not_read = sum(report.not_read.values())
    parts = [f"{totals.done - not_read} of {report.total} samples analyzed"]
    if not_read:
        languages = ", ".join(sorted(report.not_read))
        parts.append(f"{not_read} not read ({languages}; recorded as neutral 0.00)")
    parts.append(f"{totals.failed} failed")
    bad_lines = report.bad_lines
    parts.append(f"{bad_lines} unreadable {'line' if bad_lines == 1 else 'lines'}")
    print_text(f"{report.status}: {', '.join(parts)} -> {report.out}")
    for note in report.notes:
        print_text(f"note: {note}", stderr=True)
    if report.stopped_because:
        print_text(f"stopped: {report.stopped_because}; {report.remedy}", stderr=True)
    if totals.failed:
        errors = report.out / "errors.jsonl"
        print_text(f"why they failed: {errors}; --retry-failed tries again", stderr=True)


def check_engine(engine: Engine, scheduler: str | None, workers: int | None) -> None:
    """Reject options that would have no effect."""
    if engine != Engine.dask and (scheduler or workers):
        raise UsageError("--scheduler and --workers need --engine dask")
    if scheduler and workers:
        raise UsageError("--workers starts local workers and cannot be used with --scheduler")


def parse_seeds(text: str | None) -> tuple[int, ...]:
    """Parse `1,2,3` to unique numbers."""
    if text is None:
        return ()
    try:
        seeds = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--seeds takes whole numbers such as 1,2,3, got {text!r}") from None
    if any(not 0 <= seed < _SEEDS for seed in seeds):
        raise UsageError(f"--seeds takes numbers from 0 to 2^63 - 1, got {text!r}")
    return seeds


def parse_fail_on_error(text: str) -> int | float | None:
    """Parse `none`, a count, or a fraction between 0 and 1."""
    if text == "none":
        return None
    try:
        value = float(text) if "." in text else int(text)
    except ValueError:
        value = -1
    if value < 0 or (isinstance(value, float) and value > 1):
        raise UsageError(
            f"--fail-on-error: use none, a count (20) or a fraction (0.1), not {text!r}"
        )
    return value


def parse_columns(pairs: list[str] | None) -> dict[str, str] | None:
    """Parse `text=review` pairs to a mapping."""
    if not pairs:
        return None
    columns = {}
    for pair in pairs:
        field, _, column = pair.partition("=")
        if not field or not column:
            raise UsageError(f"--column takes FIELD=COLUMN such as text=review, got {pair!r}")
        columns[field] = column
    return columns
