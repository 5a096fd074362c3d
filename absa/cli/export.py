"""`absa export`: the results of a run in a format that another tool reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from absa.cli import options
from absa.cli.options import console
from absa.show import printable


def export_run(
    run: options.RunDir,
    to: Annotated[str, typer.Option(metavar="FORMAT", help="The format.")] = "csv",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file to write. Default: DIR-FORMAT.ENDING, beside the run."
        ),
    ] = None,
) -> None:
    """Write the results of a run in another format.

    csv, parquet (one row per tuple), jsonl (read by every command), semeval, aste, tasd, acos,
    asqp, nikl, label-studio (tasks with predictions), argilla, annoabsa-json, annoabsa-csv, hf (a
    data set folder). parquet and hf need: pip install 'absa-debate-graph[export]'.
    """
    from absa.export import WRITERS, export

    suffix = WRITERS[to].suffix if to in WRITERS else ""
    path = out or run.with_name(f"{run.resolve().name}-{to}{suffix}")
    screen = console(stderr=True)
    with screen.status("exporting…"):
        notes = export(run, to, path)
    screen.print(f"wrote {printable(str(path))}")
    for note in notes:
        screen.print(note)
