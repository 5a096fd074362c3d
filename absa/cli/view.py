"""`absa view`: the local page."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from absa.cli import options
from absa.cli.options import UsageError, print_text, settings_from

DEFAULT_PORT = 8484


def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR…]", help="Run directories, or folders of them."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")
    ] = DEFAULT_PORT,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = False,
    config: options.Config = None,
    sets: options.Set = None,
    wiring: options.Wiring = None,
) -> None:
    """Open a local page to watch the agents and browse runs.

    The page needs no network and is served to this machine only. DIR is a run directory, or a
    folder that holds run directories (default: runs, if there is such a folder); runs that are
    still going on are shown as they grow. With ABSA_TOKEN in the environment the page asks for that
    token, and --host may name another interface.
    """
    if missing := [folder for folder in folders or () if not folder.is_dir()]:
        raise UsageError(f"{missing[0]} is not a directory")
    settings = settings_from(config, sets, wiring)
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; --port 0 takes a free one") from error
    from absa.view.serve import serve

    default = [Path("runs")] if Path("runs").is_dir() else []
    url = f"http://{host}:{listener.getsockname()[1]}/view/"
    print_text(f"{url}   (Ctrl-C ends it)")
    if browser:
        import webbrowser

        webbrowser.open(url)
    serve(listener, settings, folders or default)
