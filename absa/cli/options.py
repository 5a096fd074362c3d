"""Shared by commands: options for settings, and output functions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.schemas.json_text import parse_json

if TYPE_CHECKING:
    from rich.console import Console

    from absa.schemas.settings import Settings

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings: a YAML file, or the name of a shipped one such as abl_no_debate.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, for example pipeline.debate.rounds=2. May be repeated.",
        show_default=False,
    ),
]
WiringOption = Annotated[
    str | None,
    typer.Option(
        "--wiring",
        metavar="MODULE:FUNCTION",
        help="A function of yours that changes nodes and edges of the graph.",
        show_default=False,
    ),
]

DemosOption = Annotated[
    Path | None,
    typer.Option(
        "--demos",
        metavar="FILE",
        help="Show the model the 10 most similar labelled texts of this file (demos.k).",
        show_default=False,
    ),
]
DEMOS = 10


# Far above any use, to guard against typing errors. The settings have the same limit, but are not
# imported here, so that `absa --help` is fast.
MAX_CONCURRENCY = 10_000
MAX_WORKERS = 1_000


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
    return load_settings(config, {**changes, "wiring": wiring} if wiring else changes)


def console(*, stderr: bool = False) -> Console:
    """A rich console that prints text unchanged: no markup, emoji codes or highlighting."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def complain(message: str, who: str = "absa") -> None:
    """Print problems on stderr, one per line. Texts that look like API keys are hidden."""
    from absa.schemas.secrets import hide_keys
    from absa.show import printable

    for line in hide_keys(message).splitlines() or [""]:
        print_text(f"{who}: {printable(line)}", stderr=True)


def print_text(text: str, *, stderr: bool = False) -> None:
    """Write a text and a line end."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def print_json(text: str) -> None:
    """Write JSON, with escapes if the encoding of the output is not Unicode."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(parse_json(text), indent=2 if "\n" in text else None)
    print_text(text)
