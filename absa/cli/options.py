"""Shared by commands: options for settings, and output functions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.schemas.json_text import parse_json
from absa.show import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from absa.schemas.settings import Settings

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings: a YAML file, or the name of a shipped one such as abl_no_debate.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, for example pipeline.debate.rounds=2. May be repeated.",
    ),
]
Wiring = Annotated[
    str | None,
    typer.Option(
        "--wiring",
        metavar="MODULE:FUNCTION",
        help="A function of yours that changes nodes and edges of the graph.",
    ),
]

Demos = Annotated[
    Path | None,
    typer.Option(
        "--demos",
        metavar="FILE",
        help="For language models: use as examples the 10 texts of this labelled file that are "
        "most similar to the analyzed one (another number: --set demos.k=N).",
    ),
]
DEMOS = 10
RunDir = Annotated[Path, typer.Argument(metavar="DIR", help="The run directory.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of the data. Default: recognised by content."
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=COLUMN",
        help="The column of a field, for example text=review. May be repeated.",
    ),
]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Only the first N samples. Default: all.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Analyze failed samples again.")]

# Far above any use, to guard against typing errors. The settings have the same limit, but are not
# imported here, so that `absa --help` is fast.
MAX_CONCURRENCY = 10_000
MAX_WORKERS = 1_000
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_CONCURRENCY,
        metavar="N",
        help="Samples at a time. Default: backend.max_concurrency.",
    ),
]


class UsageError(ValueError):
    """A usage error that Typer cannot detect: one line on stderr, exit code 2."""


def settings_from(
    config: str | None,
    sets: Sequence[str] | None,
    wiring: str | None = None,
    demos: Path | None = None,
) -> Settings:
    """The settings of `--config`, `--set`, `--wiring` and `--demos`.

    Raises:
        SettingsError: The settings are not valid.
    """
    from absa.config import load_settings, parse_override

    changes = dict(parse_override(text) for text in sets or ())
    if demos is not None:
        changes = {"demos.k": DEMOS, **changes, "demos.path": str(demos)}
    settings = load_settings(config, {**changes, "wiring": wiring} if wiring else changes)
    if demos is not None and settings.backend.kind == "offline":
        complain("--demos has no effect: the offline analyzer does not use examples")
    return settings


def console(*, stderr: bool = False) -> Console:
    """A rich console that prints text unchanged: no markup, emoji codes or highlighting."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def complain(message: str, who: str = "absa") -> None:
    """Print problems on stderr, one per line. Texts that look like API keys are hidden."""
    from absa.schemas.secrets import hide_keys

    for line in hide_keys(message).splitlines() or [""]:
        print_text(f"{who}: {printable(line)}", stderr=True)


def print_text(text: str, *, stderr: bool = False) -> None:
    """Write a text and a line end."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def print_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON; a text is JSON already.

    If the encoding of the output is not Unicode, characters are written as escapes.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(parse_json(text), indent=2 if "\n" in text else None)
    print_text(text)


def numbers_table(first: str, *columns: str) -> Table:
    """A table whose first column is text; the others are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.caption_justify = "left"
    table.add_column(first, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names in bold beside their values, without a frame."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
