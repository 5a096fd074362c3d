"""`absa export`: the results of a run in a format that another tool reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from absa.cli.options import console

HELP = """Write the results of a run in another format.

csv, parquet (one row per tuple), jsonl (read by every command), semeval, aste, tasd, acos, asqp,
nikl, label-studio (tasks with predictions), argilla, annoabsa-json, annoabsa-csv, hf (a data set
folder). parquet and hf need: pip install 'absa-debate-graph[export]'."""
EPILOG = "Example: absa export runs/reviews --to label-studio --out tasks.json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", help=HELP, epilog=EPILOG)(export_run)


def export_run(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the run.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The format.")] = "csv",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file to write. Default: DIR with the format's ending.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the file and say what it leaves out."""
    from absa.export import WRITERS, export
    from absa.show import printable

    suffix = WRITERS[to].suffix if to in WRITERS else ""
    path = out or run.with_name(f"{run.resolve().name}-{to}{suffix}")
    screen = console(stderr=True)
    with screen.status("exporting…"):
        notes = export(run, to, path)
    screen.print(f"wrote {printable(str(path))}", markup=False, highlight=False)
    for note in notes:
        screen.print(note, markup=False, highlight=False)
