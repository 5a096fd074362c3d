"""`absa mcp`: the analysis as a tool for agents."""

from __future__ import annotations

from typing import Annotated

import typer

from absa.cli import options
from absa.cli.options import UsageError, settings_from


def mcp(
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve HTTP on this port of the loopback interface instead.",
        ),
    ] = None,
    config: options.Config = None,
    sets: options.Set = None,
    wiring: options.Wiring = None,
) -> None:
    """Serve the analysis as a tool to MCP clients.

    An MCP client (a chat program, an editor, an agent) starts this command itself. With --http the
    tool is served at http://127.0.0.1:PORT/mcp to programs on this machine. Needs the extra mcp.
    """
    settings = settings_from(config, sets, wiring)
    try:
        from absa.mcp_server import build_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError(
            "absa mcp needs the package mcp: pip install 'absa-debate-graph[mcp]'"
        ) from None
    server = build_server(settings)
    if http is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=http)
