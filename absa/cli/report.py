"""`absa report`: writes one HTML page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from absa.cli.options import UsageError, complain, console, print_json, print_text

PROBLEMS_SHOWN = 10


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Run directories, or one study.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="The HTML file.")
    ] = Path("report.html"),
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Without gold: compare the values of this column of the data. "
            "Default: the first column with few values.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write one HTML page about a run or several, or about a study.

    The page holds scores, charts, the graph and every sample. It is one file that loads nothing
    from a network. Several runs are shown side by side. Scores need `absa evaluate` first. Damaged
    or missing samples are listed on the page and on stderr; then the exit code is 1.

    Given the directory of `absa ablate`, the page begins with the verdict. Its figures are also
    written as SVG files, to NAME_figures beside the page, and as PNG files with the extra png.
    """
    from absa.report import write_report

    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out.parent} is not a directory, so {out.name} cannot be written there")
    from absa.report.study_numbers import is_study

    if studies := [run for run in runs if is_study(run)]:
        if len(runs) > 1:
            raise UsageError(f"{studies[0]} is a study: give only the study, or the runs inside it")
        _report_study(studies[0], out, as_json)
        return
    with console(stderr=True).status("reading the runs…"):
        written = write_report(runs, out, by)
    for problem in written.problems[:PROBLEMS_SHOWN]:
        complain(problem)
    if (more := len(written.problems) - PROBLEMS_SHOWN) > 0:
        complain(f"… and {more:,} more problems, listed in {written.path}")
    if as_json:
        facts = {**written._asdict(), "path": str(written.path)}
        print_json(facts)
    else:
        print_text(
            f"{written.path}: {written.samples:,} samples of {written.runs} "
            f"{'run' if written.runs == 1 else 'runs'}, {written.size / 1e6:.1f} MB"
        )
    if written.left_out:
        raise typer.Exit(1)


def _report_study(directory: Path, out: Path, as_json: bool) -> None:

    from absa.report.study import write_study

    with console(stderr=True).status("reading the study…"):
        written = write_study(directory, out)
    if written.problem:
        complain(written.problem)
    if as_json:
        facts = {**written._asdict(), "path": str(written.path)}
        facts |= {name: [str(path) for path in facts[name]] for name in ("figures", "png")}
        print_json(facts)
    else:
        print_text(
            f"{written.path}: {written.configurations} configurations, {written.samples:,} texts; "
            f"{len(written.figures)} figures in {written.figures[0].parent} "
            f"({'SVG and PNG' if written.png else 'SVG'})"
        )
