"""Who may use the LangGraph server; `langgraph.json` names `auth` and `app`.

With `ABSA_TOKEN` in the server's environment every request needs it, as a bearer token. Without it
the server answers its own machine and nobody else.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from schemas.errors import InputError

TOKEN = "ABSA_TOKEN"
HEALTH = "/ok"

auth = Auth()


def _token() -> bytes | None:
    """The token of the environment; an empty one is a mistake that would open the server."""
    given = os.environ.get(TOKEN)
    if given is None:
        return None
    if not given.strip():
        raise InputError(f"{TOKEN} is empty: give it a secret, or unset it to serve this machine")
    return given.strip().encode()


_TOKEN = _token()


@auth.authenticate
async def authenticate(
    authorization: str | None, scope: dict[str, Any]
) -> Auth.types.MinimalUserDict:
    """Let a request in, or say why not."""
    if (refused := _refusal(authorization, scope)) is not None:
        raise Auth.exceptions.HTTPException(*refused)
    return {"identity": "bearer of the token" if _TOKEN else "this machine"}


class Door:
    """The same question before all routes but the health check.

    LangGraph's server asks it where its data are meant to be read. It has other routes, for its own
    tests and for deployment, that read and delete threads or start programs, and asks nobody there.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "lifespan" and scope["path"] != HEALTH and not _is_preflight(scope):
            authorization = Headers(scope=scope).get("authorization")
            if (refused := _refusal(authorization, scope)) is not None:
                status, why = refused
                await JSONResponse({"detail": why}, status)(scope, receive, send)
                return
        await self._app(scope, receive, send)


app = Starlette(middleware=[Middleware(Door)])


def _refusal(authorization: str | None, scope: Mapping[str, Any]) -> tuple[int, str] | None:
    """Status and reason, None for who may come in."""
    if _TOKEN is not None:
        scheme, _, given = (authorization or "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), _TOKEN)
        if scheme.lower() != "bearer" or not right:
            return 401, f"send the header 'Authorization: Bearer ...' with the server's {TOKEN}"
    elif not _is_local(scope):
        return 403, f"without {TOKEN} this server answers its own machine only: set it, start again"
    return None


def _is_local(scope: Mapping[str, Any]) -> bool:
    if not (client := scope.get("client")):
        return False
    try:
        address = ip_address(client[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_preflight(scope: Mapping[str, Any]) -> bool:
    """A browser asks what it may send, without a token; the server answers without its routes."""
    return scope.get("method") == "OPTIONS"
