"""`absa verify`: checks that a run directory is complete and consistent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import UsageError, console, numbers_table, print_json
from absa.show import printable

if TYPE_CHECKING:
    from absa.runs.verify import Check, VerifyReport

SHOWN = 10


def verify(
    directory: options.RunDir,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The data file, if it was moved since the run."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="Fail unless the run has this fingerprint, printed by an earlier verify.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check that the files of a run are complete and consistent.

    Decides every sample again from its recorded answers and compares the result, compares all files
    with the journal, and computes the scores again. The end of the output lists what is not
    checked. The exit code is 1 if a check fails or the run is unfinished.
    """
    from absa.runs.verify import verify as verify_run

    if data is not None and not data.is_file():
        raise UsageError(f"--data: {data} is not a file")
    with console(stderr=True).status("verifying…"):
        report = verify_run(directory, data=data, expect=expect)
    if as_json:
        print_json(report.model_dump_json())
    else:
        _print(report)
    raise typer.Exit(report.exit_code)


def _print(report: VerifyReport) -> None:
    from rich.text import Text

    out = console()
    out.print(f"{report.directory}: {report.samples} outputs, run {report.status}")
    table = numbers_table("check", "what must hold", "checked", "violations")
    table.columns[0].no_wrap = True
    table.columns[1].no_wrap, table.columns[1].justify = False, "left"
    table.columns[1].overflow = "fold"
    for check in report.checks:
        violations = len(check.violations)
        table.add_row(
            check.name,
            check.title,
            f"{check.checked:,} {check.unit}",
            Text(f"{violations:,}", "bold red" if violations else "green"),
        )
    out.print(table)
    for check in report.checks:
        if check.violations:
            out.print()
            _print_violations(check)
    for warning in report.warnings:
        out.print(Text.assemble(("warning ", "bold yellow"), printable(warning)))
    for note in report.notes:
        out.print(Text.assemble(("note ", "bold"), printable(note)))
    out.print("not covered:", style="dim")
    for what in report.not_covered:
        out.print(f"  - {what}", style="dim")
    if report.fingerprint:
        out.print(f"fingerprint {report.fingerprint}", soft_wrap=True)
    out.print()
    good = "bold yellow" if report.warnings else "bold green"
    out.print(_verdict(report), style=good if report.ok else "bold red")


def _print_violations(check: Check) -> None:
    from rich.text import Text

    out = console()
    out.print(f"{check.name}: {check.title}", style="bold")
    for v in check.violations[:SHOWN]:
        seed = f" (seed {v.seed})" if v.seed is not None else ""
        who = f"{printable(v.uid)}{seed}: " if v.uid is not None else ""
        out.print(Text.assemble("  ", (who, "bold"), printable(v.what)))
    if (more := len(check.violations) - SHOWN) > 0:
        out.print(f"  … and {more:,} more; --json lists all", style="dim")


def _verdict(report: VerifyReport) -> str:
    failed = [check.name for check in report.checks if check.violations]
    if failed:
        verdict = f"violations in {', '.join(failed)}"
    elif report.warnings:
        verdict = "what could be checked holds; not everything could (see the warnings)"
    else:
        verdict = "everything holds"
    if not report.finished:
        verdict += f"; the run is {report.status}: only what is there was checked"
    return verdict
