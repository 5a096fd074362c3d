"""Who may use the LangGraph server and how much one may send; `langgraph.json` names both.

With `ABSA_TOKEN` in the server's environment every request needs it, as a bearer token. Without it
the server answers its own machine only.

`ABSA_MAX_BODY_BYTES` bounds the body of a request (default 10,000,000).
"""

from __future__ import annotations

import hmac
import os
from collections import deque
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from typing import Any

from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from absa.schemas.context import RunContext
from absa.schemas.errors import InputError

TOKEN = "ABSA_TOKEN"
HEALTH = "/ok"
MAX_BODY = "ABSA_MAX_BODY_BYTES"
_DEFAULT_MAX_BODY = 10_000_000

auth = Auth()


def _token() -> bytes | None:
    """The token of the environment; an empty one is a mistake that would open the server."""
    given = os.environ.get(TOKEN)
    if given is None:
        return None
    if not given.strip():
        raise InputError(f"{TOKEN} is empty: give it a secret, or unset it to serve this machine")
    return given.strip().encode()


def _max_body() -> int:
    """The bound of the environment, or the default."""
    given = os.environ.get(MAX_BODY, "").strip()
    if not given:
        return _DEFAULT_MAX_BODY
    if not given.isascii() or not given.isdigit() or not int(given):
        raise InputError(f"{MAX_BODY} must be a number of bytes such as 10000000, got {given!r}")
    return int(given)


_TOKEN = _token()
_MAX_BODY = _max_body()


@auth.authenticate
async def authenticate(
    authorization: str | None, scope: dict[str, Any]
) -> Auth.types.MinimalUserDict:
    """Let a request in, or say why not."""
    if (refused := _refusal(authorization, scope)) is not None:
        raise Auth.exceptions.HTTPException(*refused)
    return {"identity": "bearer of the token" if _TOKEN else "this machine"}


@auth.on
async def check_switches(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Allow what the token allows, and refuse switches that the graphs do not have.

    The server would drop them silently, and a misspelt one would leave its part switched on.
    """
    if isinstance(value, Mapping):
        # A run's context stands in its keyword arguments, an assistant's beside its name.
        _check_context(value.get("context"))
        _check_context((value.get("kwargs") or {}).get("context"))
    return True


def _check_context(context: Any) -> None:
    unknown = sorted(set(context or {}) - RunContext.model_fields.keys())
    if unknown:
        close = get_close_matches(unknown[0], RunContext.model_fields, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        names = ", ".join(map(repr, unknown))
        raise Auth.exceptions.HTTPException(422, f"the context has no switch {names}{hint}")


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


class BoundedBody:
    """Refuses a request whose body is larger than the bound, before it is kept in memory."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length")
        if length is not None:
            # The HTTP server itself holds a client to the length that it announced.
            too_large = not length.isdigit() or int(length) > _MAX_BODY
        elif "transfer-encoding" in headers:
            receive, too_large = await _read_ahead(receive)
        else:
            too_large = False  # no body
        if too_large:
            why = f"the body is larger than {_MAX_BODY:,} bytes: send less, or raise {MAX_BODY}"
            close = {"connection": "close"}  # the rest of the body is not read
            await JSONResponse({"detail": why}, 413, close)(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _read_ahead(receive: Receive) -> tuple[Receive, bool]:
    """A body of unknown length: what gives it once more, and whether it is too large."""
    messages: deque[Message] = deque()
    size = 0
    while size <= _MAX_BODY:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return again, size > _MAX_BODY


app = Starlette(middleware=[Middleware(Door), Middleware(BoundedBody)])


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
