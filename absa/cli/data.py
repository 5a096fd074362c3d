"""`absa data`: statistics of a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli.options import console, print_json
from absa.cli.run import parse_columns

if TYPE_CHECKING:
    from rich.table import Table

    from absa.data import DataSummary, Share

HELP = """Show what a data file holds.

Counts samples, gold annotations, languages, repeated texts and unreadable lines. --other counts the
texts that a second file holds too, for example a test set in the training data. The exit code is 1
if lines cannot be read."""
EPILOG = "Example: absa data test.jsonl --other train.jsonl"
KINDS_SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("data", help=HELP, epilog=EPILOG)(data)


def data(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The data file.", show_default=False)
    ],
    other: Annotated[
        Path | None,
        typer.Option("--other", metavar="FILE2", help="Count the texts that this file holds too."),
    ] = None,
    data_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format of the data. Default: recognised by content."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="The column of a field, for example text=review. May be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Describe the file and print it."""
    from absa.data import describe

    columns = parse_columns(column)
    with console(stderr=True).status("reading…"):
        summary = describe(file, other, format=data_format, columns=columns)
    if as_json:
        print_json(summary.model_dump_json())
    else:
        _print(summary)
    if summary.bad_lines:
        raise typer.Exit(1)


def _print(summary: DataSummary) -> None:
    from rich.text import Text

    from absa.show import printable

    out = console()
    out.print(Text(f"{printable(summary.path)} ({_title(summary.format)})", "bold"), soft_wrap=True)
    out.print(_table(summary))
    if not summary.bad_lines:
        return
    out.print()
    out.print(Text(f"{summary.bad_lines:,} unreadable lines:", "bold red"))
    for bad in summary.bad_line_examples:
        out.print(Text(f"  {printable(str(bad))}"), soft_wrap=True)
    more = summary.bad_lines - len(summary.bad_line_examples)
    if more:
        out.print(Text(f"  … and {more:,} more", "dim"))


def _table(summary: DataSummary) -> Table:
    from rich.table import Table
    from rich.text import Text

    from absa.show import printable

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    mean = f", {summary.mean_length:.1f} on average" if summary.mean_length is not None else ""
    rows: list[tuple[str, str | None]] = [
        ("samples", f"{summary.samples:,}"),
        ("unreadable lines", f"{summary.bad_lines:,}"),
        ("characters", f"{summary.characters:,}{mean}"),
        ("languages", _kinds(summary.languages, summary.samples)),
        ("domains", _kinds(summary.domains, summary.samples)),
        ("splits", _kinds(summary.splits, summary.samples)),
        ("with gold", share_text(summary.with_gold)),
        ("  without aspects", share_text(summary.without_aspects)),
        ("  incomplete", share_text(summary.incomplete_gold)),
        ("  mixed polarities", share_text(summary.conflict)),
        ("gold aspects", f"{summary.aspects:,}"),
        ("  polarities", _kinds(summary.polarities, summary.aspects)),
        ("  implicit", share_text(summary.implicit)),
        ("  left out", _number(summary.dropped_aspects, "unknown polarity")),
        ("  moved", _number(summary.relocated_aspects, "wrong offsets, found by search")),
        ("gold labels", _kinds(summary.labels, sum(summary.labels.values()))),
        ("repeated texts", share_text(summary.duplicate_texts)),
    ]
    if summary.overlap is not None:
        also = f"{share_text(summary.overlap)} are in {printable(str(summary.other))}"
        rows.append(("shared texts", also))
    for name, value in rows:
        table.add_row(Text(name, "bold"), Text(value if value is not None else "none"))
    return table


def share_text(share: Share) -> str:
    """For example `12/34 (35.3 %)`, without a percentage if the denominator is 0."""
    n, m = share.numerator, share.denominator
    return f"{n:,}/{m:,}" + (f" ({n / m:.1%})".replace("%", " %") if m else "")


def _kinds(counts: Mapping[str, int], whole: int) -> str | None:
    from absa.data import Share
    from absa.show import printable

    shown = [
        f"{printable(name)} {share_text(Share(numerator=n, denominator=whole))}"
        for name, n in list(counts.items())[:KINDS_SHOWN]
    ]
    more = len(counts) - len(shown)
    return ", ".join([*shown, *([f"{more} others"] if more > 0 else [])]) or None


def _number(number: int, why: str) -> str:
    return f"{number:,} ({why})" if number else "0"


def _title(name: str) -> str:
    from absa.data import FORMATS

    return next((data_format.title for data_format in FORMATS if data_format.name == name), name)
