"""Access control of the LangGraph server: a bearer token and a limit on the request size.

`langgraph.json` loads both objects, `auth` and `app`. If `ABSA_TOKEN` is set in the server's
environment, every request needs it as a bearer token. If not, the server answers requests from its
own machine only.

`ABSA_MAX_BODY_BYTES` limits the body of a request (default 10,000,000).
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
from absa.view.app import PUBLIC, routes, server_api

TOKEN = "ABSA_TOKEN"
HEALTH = "/ok"
MAX_BODY = "ABSA_MAX_BODY_BYTES"
_DEFAULT_MAX_BODY = 10_000_000

auth = Auth()


def _token() -> bytes | None:
    """The token from the environment; an empty one is an error, since it would admit everyone."""
    token = os.environ.get(TOKEN)
    if token is None:
        return None
    if not token.strip():
        raise InputError(f"{TOKEN} is empty: set a secret, or unset it to serve this machine only")
    return token.strip().encode()


def _max_body() -> int:
    value = os.environ.get(MAX_BODY, "").strip()
    if not value:
        return _DEFAULT_MAX_BODY
    if not value.isascii() or not value.isdigit() or not int(value):
        raise InputError(f"{MAX_BODY} must be a number of bytes such as 10000000, got {value!r}")
    return int(value)


_TOKEN = _token()
_MAX_BODY = _max_body()


def has_token() -> bool:
    """Whether requests need a token."""
    return _TOKEN is not None


@auth.authenticate
async def authenticate(
    authorization: str | None, scope: dict[str, Any]
) -> Auth.types.MinimalUserDict:
    """Admit a request, or raise the HTTP error."""
    if (refused := _refusal(authorization, scope)) is not None:
        raise Auth.exceptions.HTTPException(*refused)
    return {"identity": "bearer of the token" if _TOKEN else "this machine"}


@auth.on
async def check_switches(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Refuse a run whose context has keys that the graphs do not have.

    The server would drop them silently: a misspelt toggle would leave its part switched on.
    """
    if isinstance(value, Mapping):
        # The context of a run is in its `kwargs`, that of an assistant at the top level.
        _check_context(value.get("context"))
        _check_context((value.get("kwargs") or {}).get("context"))
    return True


def _check_context(context: Any) -> None:
    unknown = sorted(set(context or {}) - RunContext.model_fields.keys())
    if unknown:
        close = get_close_matches(unknown[0], RunContext.model_fields, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        names = ", ".join(map(repr, unknown))
        raise Auth.exceptions.HTTPException(422, f"the context has no setting {names}{hint}")


class TokenMiddleware:
    """Checks the token before every route except the health check and the files of the page.

    LangGraph's server calls `authenticate` on its documented routes only. It has others, for its
    own tests and for deployment, that read and delete threads or start programs without a check.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "lifespan" and not _is_open(scope):
            authorization = Headers(scope=scope).get("authorization")
            if (refused := _refusal(authorization, scope)) is not None:
                status, detail = refused
                await JSONResponse({"detail": detail}, status)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BoundedBody:
    """Refuses a request whose body is larger than the limit, before it is held in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length")
        if length is not None:
            # The HTTP server itself enforces the length that a client announced.
            too_large = not length.isdigit() or int(length) > _MAX_BODY
        elif "transfer-encoding" in headers:
            receive, too_large = await _read_ahead(receive)
        else:
            too_large = False  # no body
        if too_large:
            detail = f"the body is larger than {_MAX_BODY:,} bytes: send less, or raise {MAX_BODY}"
            close = {"connection": "close"}  # the rest of the body is not read
            await JSONResponse({"detail": detail}, 413, close)(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _read_ahead(receive: Receive) -> tuple[Receive, bool]:
    """Read a body of unknown length up to the limit.

    Returns a `receive` that replays it, and whether it is too large.
    """
    messages: deque[Message] = deque()
    size = 0
    while size <= _MAX_BODY:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break

    async def replay() -> Message:
        return messages.popleft() if messages else await receive()

    return replay, size > _MAX_BODY


MIDDLEWARE = [Middleware(TokenMiddleware), Middleware(BoundedBody)]
app = Starlette(routes=routes(server_api()), middleware=MIDDLEWARE)


def _refusal(authorization: str | None, scope: Mapping[str, Any]) -> tuple[int, str] | None:
    """HTTP status and reason of a refusal; None if the request is admitted."""
    if _TOKEN is not None:
        scheme, _, token = (authorization or "").partition(" ")
        matches = hmac.compare_digest(token.strip().encode(), _TOKEN)
        if scheme.lower() != "bearer" or not matches:
            return 401, f"send the header 'Authorization: Bearer ...' with the server's {TOKEN}"
    elif not _is_local(scope):
        return (403, f"without {TOKEN} this server serves its own machine only: set it, restart")
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


def _is_open(scope: Mapping[str, Any]) -> bool:
    """Whether the token is not asked for. The page holds no data; its script sends the token."""
    is_page = has_token() and scope["path"] in PUBLIC
    # A CORS preflight is sent without a token and answered before any route.
    return scope["path"] == HEALTH or is_page or scope.get("method") == "OPTIONS"
