"""`absa data`: statistics of a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import console, facts_table, print_json
from absa.cli.run import parse_columns
from absa.show import printable

if TYPE_CHECKING:
    from rich.table import Table

    from absa.data import DataSummary, Share

KINDS_SHOWN = 12


def data(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The data file.")],
    other: Annotated[
        Path | None, typer.Option(metavar="FILE2", help="Count the texts that this file holds too.")
    ] = None,
    data_format: options.Format = None,
    columns: options.Column = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Show what a data file holds.

    Counts samples, gold annotations, languages, repeated texts and unreadable lines. --other counts
    the texts that a second file holds too, for example a test set in the training data. The exit
    code is 1 if lines cannot be read.
    """
    from absa.data import describe

    with console(stderr=True).status("reading…"):
        summary = describe(file, other, format=data_format, columns=parse_columns(columns))
    if as_json:
        print_json(summary.model_dump_json())
    else:
        _print(summary)
    if summary.bad_lines:
        raise typer.Exit(1)


def _print(summary: DataSummary) -> None:
    out = console()
    title = f"{printable(summary.path)} ({_title(summary.format)})"
    out.print(title, style="bold", soft_wrap=True)
    out.print(_table(summary))
    if not summary.bad_lines:
        return
    out.print()
    out.print(
        f"{summary.bad_lines:,} unreadable {'line' if summary.bad_lines == 1 else 'lines'}:",
        style="bold red",
    )
    for bad in summary.bad_line_examples:
        out.print(f"  {printable(str(bad))}", soft_wrap=True)
    more = summary.bad_lines - len(summary.bad_line_examples)
    if more:
        out.print(f"  … and {more:,} more", style="dim")


def _table(summary: DataSummary) -> Table:

    mean = f", {summary.mean_length:.1f} on average" if summary.mean_length is not None else ""
    rows = [
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
    return facts_table(rows)


def share_text(share: Share) -> str:
    """For example `12/34 (35.3 %)`, without a percentage if the denominator is 0."""
    n, m = share.numerator, share.denominator
    return f"{n:,}/{m:,}" + (f" ({n / m:.1%})".replace("%", " %") if m else "")


def _kinds(counts: Mapping[str, int], whole: int) -> str:
    from absa.data import Share

    shown = [
        f"{printable(name)} {share_text(Share(numerator=n, denominator=whole))}"
        for name, n in list(counts.items())[:KINDS_SHOWN]
    ]
    more = len(counts) - len(shown)
    return ", ".join([*shown, *([f"{more} others"] if more > 0 else [])]) or "none"


def _number(number: int, why: str) -> str:
    return f"{number:,} ({why})" if number else "0"


def _title(name: str) -> str:
    from absa.data import FORMATS

    return next((data_format.title for data_format in FORMATS if data_format.name == name), name)
