"""`absa graph`: draws the graph of the settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from absa.cli import options
from absa.cli.options import print_text, settings_from


class Format(StrEnum):
    """The format of the drawing."""

    mermaid = "mermaid"
    ascii = "ascii"
    svg = "svg"


def graph(
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.mermaid,
    no_gate: Annotated[
        bool,
        typer.Option("--no-gate", help="Draw the override gate as one box, without its verdicts."),
    ] = False,
    config: options.Config = None,
    sets: options.Set = None,
    wiring: options.Wiring = None,
) -> None:
    """Draw the graph of the settings.

    Parts that the settings switch off are left out. Drawing needs no network.
    """
    settings = settings_from(config, sets, wiring)
    from absa.api import build_graph
    from absa.drawing import closed, draw_ascii, draw_svg

    drawable = build_graph(settings).get_graph()
    if no_gate:
        drawable = closed(drawable)
    match form:
        case Format.mermaid:
            print_text(drawable.draw_mermaid().rstrip("\n"))
        case Format.ascii:
            print_text(draw_ascii(drawable))
        case Format.svg:
            print_text(draw_svg(drawable))
