"""`absa insights`: what the texts of a run say, without gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from absa.cli import options
from absa.cli.options import console, numbers_table, print_json
from absa.show import printable

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 12
POLARITIES = ("positive", "negative", "neutral")
# In a narrower terminal, quotes and topics come below the tables.
WIDE = 90


def insights(
    run: options.RunDir,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Compare the values of this column. Default: the first column with few values.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what people say: liked, disliked, trends.

    Topics (categories, or aspects with their synonyms) with polarities and a quote; a trend where a
    column of the data holds dates; a comparison by another column, with the most liked and disliked
    aspects of each value. Each text counts once for a topic and polarity.
    """
    from absa.insights import insights_of

    with console(stderr=True).status("counting…"):
        summary = insights_of(run).summary(by, limit=1000 if as_json else SHOWN)
    if as_json:
        print_json(summary)
        return
    out = console()
    for part in _tables(summary, is_wide=out.width >= WIDE):
        out.print(part)
        out.print()


def _tables(summary: dict[str, Any], *, is_wide: bool) -> list[Any]:
    from rich.text import Text

    from absa.insights import sparkline

    words = ", ".join(
        f"{n:,} {what if n == 1 else f'{what}s'}"
        for n, what in ((summary["texts"], "text"), (summary["judgements"], "judgement"))
    )
    parts: list[Any] = [Text(words, "bold")]
    for title, polarity in (("Disliked", "negative"), ("Liked", "positive")):
        names = summary["disliked" if polarity == "negative" else "liked"]
        counts = {topic["name"]: topic[polarity] for topic in summary["topics"]}
        line = ", ".join(f"{name} {counts[name]:,}" if name in counts else name for name in names)
        if line:
            parts.append(Text.assemble((f"{title}: ", "bold"), printable(line)))
    parts += _topics(summary, is_wide=is_wide)
    if summary["by"]:
        parts += _by(summary["by"], is_wide=is_wide)
    if summary["trend"]:
        trend = summary["trend"]
        shares = [bucket["negative_share"] for bucket in trend["buckets"]]
        first, last = trend["buckets"][0]["bucket"], trend["buckets"][-1]["bucket"]
        line = "".join(sparkline(shares))
        parts.append(
            Text.assemble(
                (f"negative share by {trend['column']} ", "bold"), f"{first} {line} {last}"
            )
        )
    return parts


def _topics(summary: dict[str, Any], *, is_wide: bool) -> list[Any]:
    """The table of topics with a quote each; the quotes follow it in a narrow terminal."""
    from rich.text import Text

    table = _table("what", "in their words" if is_wide else None, POLARITIES)
    below = []
    for topic in summary["topics"]:
        most = max(("negative", "positive"), key=lambda p: topic[p])
        quotes = topic["quotes"].get(most) or [{"quote": ""}]
        words = quotes[0]["quote"]
        _add(table, topic["name"], topic, POLARITIES, words if is_wide else None)
        if words and not is_wide:
            below.append(f"{topic['name']}: “{words}”")
    if summary["topics_left_out"]:
        table.caption = f"{summary['topics_left_out']:,} more with --json"
    return [table, Text(printable("\n".join(below), newlines=True))] if below else [table]


def _by(by: dict[str, Any], *, is_wide: bool) -> list[Any]:
    from rich.text import Text

    counted = ("texts", *POLARITIES) if is_wide else ("texts", "positive", "negative")
    table = _table(by["column"], "liked; disliked" if is_wide else None, counted)
    below = []
    for value in by["values"]:
        liked, disliked = (
            ", ".join(f"{name} {count}" for name, count in value[kind]) or "–"
            for kind in ("liked", "disliked")
        )
        _add(table, value["value"], value, counted, f"{liked}; {disliked}" if is_wide else None)
        if not is_wide:
            below.append(f"{value['value']}: liked {liked}; disliked {disliked}")
    return [table, Text(printable("\n".join(below), newlines=True))] if below else [table]


def _table(first: str, last: str | None, counted: Sequence[str]) -> Table:
    """A table of counts; with a column of text at the end if `last` names one."""
    table = numbers_table(printable(first), *counted, "% negative")
    table.columns[0].min_width = 10
    if last is not None:
        table.add_column(last, overflow="fold", min_width=16)
    return table


def _add(
    table: Table, name: str, counts: dict[str, Any], counted: Sequence[str], last: str | None
) -> None:
    """Add the counts of a topic or value, and the text of the last column if there is one."""
    share = counts["negative_share"]
    negative = "–" if share is None else f"{100 * share:.0f}"
    words = [] if last is None else [printable(last)]
    table.add_row(printable(name), *(f"{counts[c]:,}" for c in counted), negative, *words)
