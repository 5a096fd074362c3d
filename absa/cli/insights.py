"""`absa insights`: what the texts of a run say, without gold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from absa.cli.options import console, print_json

if TYPE_CHECKING:
    from rich.table import Table

HELP = """Show what people say: liked, disliked, trends.

Topics (categories, or aspects with their synonyms) with polarities and quotes; a trend where a
column of the data holds dates; a comparison by another column."""
EPILOG = "Example: absa insights runs/reviews --by product"
SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("insights", help=HELP, epilog=EPILOG)(insights)


def insights(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the run.", show_default=False)
    ],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Compare the values of this column. Default: the first column with few values.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Count and print."""
    import json

    from absa.insights import insights_of

    with console(stderr=True).status("counting…"):
        summary = insights_of(run).summary(by, limit=1000 if as_json else SHOWN)
    if as_json:
        print_json(json.dumps(summary, ensure_ascii=False))
        return
    out = console()
    for part in _tables(summary):
        out.print(part)
        out.print()


def _tables(found: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    from absa.insights import sparkline

    words = f"{found['texts']:,} texts, {found['judgements']:,} judgements"
    parts: list[Any] = [Text(words, "bold"), _topics(found)]
    if found["by"]:
        parts.append(_by(found["by"]))
    if found["trend"]:
        trend = found["trend"]
        shares = [bucket["negative_share"] for bucket in trend["buckets"]]
        first, last = trend["buckets"][0]["bucket"], trend["buckets"][-1]["bucket"]
        line = "".join(sparkline(shares))
        parts.append(
            Text.assemble(
                (f"negative share by {trend['column']} ", "bold"), f"{first} {line} {last}"
            )
        )
    return parts


def _topics(found: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from absa.show import printable

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("what", overflow="fold", min_width=10)
    for name in ("positive", "negative", "neutral", "% negative"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("in their words", overflow="fold", min_width=16)
    for topic in found["topics"]:
        most = max(("negative", "positive"), key=lambda p: topic[p])
        quotes = topic["quotes"].get(most) or [{"quote": ""}]
        share = topic["negative_share"]
        table.add_row(
            printable(topic["name"]),
            *(f"{topic[p]:,}" for p in ("positive", "negative", "neutral")),
            "–" if share is None else f"{100 * share:.0f}",
            printable(quotes[0]["quote"]),
        )
    if found["topics_left_out"]:
        table.caption = f"{found['topics_left_out']:,} more with --json"
        table.caption_justify = "left"
    return table


def _by(by: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from absa.show import printable

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column(printable(by["column"]), overflow="fold")
    for name in ("texts", "positive", "negative", "% negative"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("disliked", overflow="fold", min_width=16)
    for value in by["values"]:
        share = value["negative_share"]
        table.add_row(
            printable(value["value"]),
            *(f"{value[name]:,}" for name in ("texts", "positive", "negative")),
            "–" if share is None else f"{100 * share:.0f}",
            printable(", ".join(f"{name} {count}" for name, count in value["disliked"])),
        )
    return table
