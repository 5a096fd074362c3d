"""The server of `absa view`: the page's routes behind the checks of LangGraph's server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from absa.auth import MIDDLEWARE
from absa.schemas.settings import Settings
from absa.view.app import PageApi, routes

_WARM_UP_AFTER_S = 2.0


def serve(listener: socket.socket, settings: Settings, folders: Sequence[Path]) -> None:
    """Serve the page until the process is interrupted."""
    api = PageApi(lambda: settings, folders)
    app = Starlette(routes=routes(api), middleware=MIDDLEWARE)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    # The libraries of the graph take seconds to load. They wait until the page is displayed.
    warm_up = threading.Timer(_WARM_UP_AFTER_S, _warm_up, [api])
    warm_up.daemon = True
    warm_up.start()
    uvicorn.Server(config).run(sockets=[listener])


def _warm_up(api: PageApi) -> None:
    """Load the modules and models for the first request and the first text."""
    api.about({}, {})
    api.graph({}, {})
    offline = {"choice": {"backend": "offline", "protocol": "single"}}
    for text in ("가격은 비싸요.", "The price is high."):
        for _ in api.analyze({}, {"text": text, **offline}):
            pass
