"""`absa report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from absa.cli.options import UsageError, complain, print_json, print_text

HELP = """Write one HTML page about a run or several.

The page holds scores, charts, the graph and every sample. It is one file that loads nothing from a
network. Several runs are shown side by side. Scores need `absa evaluate` first. Damaged or missing
samples are listed on the page and on stderr; then the exit code is 1."""
PROBLEMS_SHOWN = 10
EPILOG = "Example: absa report runs/debate runs/no_debate -o report.html"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", help=HELP, epilog=EPILOG)(report)


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Run directories.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="The HTML file.")
    ] = Path("report.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write the report and say where it is."""
    import json

    from absa.report import write_report

    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out.parent} is not a directory, so {out.name} cannot be written there")
    written = write_report(runs, out)
    for problem in written.problems[:PROBLEMS_SHOWN]:
        complain(problem)
    if (more := len(written.problems) - PROBLEMS_SHOWN) > 0:
        complain(f"… and {more:,} more problems, listed in {written.path}")
    if as_json:
        facts = {**written._asdict(), "path": str(written.path)}
        print_json(json.dumps(facts, ensure_ascii=False))
    else:
        print_text(
            f"{written.path}: {written.samples:,} samples of {written.runs} "
            f"{'run' if written.runs == 1 else 'runs'}, {written.size / 1e6:.1f} MB"
        )
    if written.left_out:
        raise typer.Exit(1)
