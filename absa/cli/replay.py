"""`absa replay`: applies other rules or thresholds to recorded answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import complain, console, print_json, print_text

if TYPE_CHECKING:
    from absa.runs import RunReport


def replay(
    directory: options.RunDir,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR2", help="The new run directory.")
    ],
    config: options.Config = None,
    sets: options.Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Apply other rules or thresholds to recorded answers.

    No model is called. The settings are those of the run, or of --config, changed by --set. Data
    and gold come from the run directory. An agent that the recorded run did not ask has no recorded
    answer: its samples fail, and the error names the node.
    """
    from absa.cli.progress import RunProgress
    from absa.config import parse_override
    from absa.runs import RunError
    from absa.runs.replay import Recorded, replay_settings
    from absa.runs.replay import replay as replay_run

    recorded = Recorded.read(directory)
    changes = dict(parse_override(text) for text in sets or ())
    settings = replay_settings(recorded, config, changes)
    try:
        with RunProgress(console(stderr=True)) as show:
            report = asyncio.run(replay_run(recorded, out, settings, on_progress=show))
    except RunError as error:
        complain(str(error))
        raise typer.Exit(1) from error
    _show(report, recorded.failed, as_json=as_json)
    raise typer.Exit(report.exit_code)


def _show(report: RunReport, left_out: int, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print_json({**asdict(report), "out": str(report.out), "left_out": left_out})
        return
    totals = report.totals
    print_text(
        f"{report.status}: {totals.done} of {report.total} samples decided again, "
        f"{totals.failed} failed -> {report.out}"
    )
    for note in report.notes:
        complain(note)
    if left_out:
        complain(f"{left_out} samples failed in the recorded run: they have no answers to replay")
    if totals.failed:
        complain(f"why they failed: {report.out / 'errors.jsonl'}")
