"""The HTTP side of the page: its files, and the answers to its script.

The routes stand below `/view`, in the server of `absa view` and in LangGraph's server. Requests
are checked twice: `absa.auth.TokenMiddleware` asks for the token, `SameOrigin` refuses what another
site made the browser send.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache, cached_property
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from absa.runs.directory import NoRun
from absa.schemas.errors import BackendError, InputError, WiringError
from absa.schemas.json_text import parse_json
from absa.schemas.settings import Settings

PREFIX = "/view"
# Folders with runs for the page of LangGraph's server, separated as in PATH.
FOLDERS = "ABSA_RUNS"

# Modules of the page, and the package that each lies in.
_FILES = {
    "samples.js": "absa.report",
    "view.js": "absa.view",
    "graph.js": "absa.view",
    "compare.js": "absa.view",
    "review.js": "absa.view",
    "korean.js": "absa.view",
}
# They hold no data: the page must be there before its reader can type the token.
PUBLIC = frozenset((PREFIX, f"{PREFIX}/", *(f"{PREFIX}/{name}" for name in _FILES)))

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ROWS_AT_ONCE = 1000

Json = dict[str, Any]


class Desk:
    """What the routes work on; loaded with the first request that needs it."""

    def __init__(self, read_settings: Callable[[], Settings], folders: Sequence[Path]) -> None:
        """Take what reads the settings, and the folders with runs."""
        self._read_settings = read_settings
        self._folders = folders

    @cached_property
    def settings(self) -> Settings:
        """The settings in force where nothing is chosen."""
        return self._read_settings()

    @cached_property
    def analyses(self) -> Any:
        """The analysed texts."""
        from absa.view.analysis import Analyses

        return Analyses(self.settings)

    @cached_property
    def shelf(self) -> Any:
        """The runs."""
        from absa.view.shelf import Shelf

        return Shelf(self._folders)

    # Answers to the script. Each takes the request's parameters and its body. --------------------

    def about(self, given: Json, body: Any) -> Json:
        """What the page needs to begin."""
        from absa.report import words
        from absa.schemas.verdicts import CONFIRMS, OVERRIDES, SKIPS
        from absa.view import choices

        backend = self.settings.backend
        return {
            "runs": self.runs(given, body),
            "gate": words.GATE,
            "gate_order": [*OVERRIDES, *CONFIRMS, *SKIPS],
            "adopt": words.adoption_names(),
            "outcomes": words.OUTCOMES,
            "controls": choices.controls(),
            "values": choices.values(self.settings),
            "protocols": choices.PROTOCOLS,
            "backend": {"kind": backend.kind, "model": backend.model},
        }

    def graph(self, given: Json, body: Any) -> Json:
        """The drawing of a choice."""
        drawn: Json = self.analyses.drawing(_choice(body))
        return drawn

    def analyze(self, given: Json, body: Any) -> Iterator[Json]:
        """The events of a text."""
        text, lang = body.get("text"), body.get("lang") or None
        if not isinstance(text, str) or not text.strip():
            raise InputError("type a sentence first")
        events: Iterator[Json] = self.analyses.stream(text, _choice(body), lang)
        return events

    def what_if(self, given: Json, body: Any) -> Json:
        """A text decided again under another choice."""
        decided: Json = self.analyses.what_if(str(body.get("id")), _choice(body))
        return decided

    def runs(self, given: Json, body: Any) -> list[Json]:
        """The runs and how they are doing."""
        return [run.about(name) for name, run in self.shelf.runs()]

    def rows(self, given: Json, body: Any) -> Json:
        """The next rows of a run."""
        run = self.shelf.run(given["run"])
        is_complete = run.is_complete  # asked first: the last rows come before it
        start = max(0, int(given.get("from", 0)))
        rows = run.rows[start : start + _ROWS_AT_ONCE]
        is_last = is_complete and start + len(rows) >= len(run.rows)
        return {"rows": rows, "complete": is_last, "problems": run.problems[:20]}

    def story(self, given: Json, body: Any) -> Json:
        """Everything about one sample."""
        story: Json = self.shelf.run(given["run"]).story(given["number"])
        return story

    def open(self, given: Json, body: Any) -> Json:
        """A sample of a run, ready for "what if"."""
        run = self.shelf.run(given["run"])
        if run.settings is None:
            raise InputError("the settings of this run cannot be read")
        opened: Json = self.analyses.open(run.entry(given["number"]), run.settings)
        return opened

    def review(self, given: Json, body: Any) -> Json:
        """What a person is asked about a sample, and what was decided so far."""
        from absa.view import reviewing

        entry = self.shelf.run(given["run"]).entry(given["number"])
        return reviewing.question(self.shelf.run(given["run"]).path, entry.output)

    def decide(self, given: Json, body: Any) -> Json:
        """A person's decision about a sample."""
        from absa.view import reviewing

        entry = self.shelf.run(given["run"]).entry(given["number"])
        return reviewing.decide(self.shelf.run(given["run"]).path, entry.output, body)


def _choice(body: Any) -> Any:
    from absa.view.choices import Choice

    return Choice.model_validate(body.get("choice") or {})


class SameOrigin:
    """Refuses requests that another site made a browser send (also by DNS rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and (why := _foreign(scope)) is not None:
            await JSONResponse({"detail": why}, 403, _HEADERS)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _foreign(scope: Scope) -> str | None:
    from absa.auth import has_token

    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if not has_token() and not _is_loopback(host):
        return f"without a token this page answers to localhost only, not to {host!r}"
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return "this request comes from another site"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "this request comes from another site"
    return None


def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def routes(desk: Desk) -> list[Any]:
    """The routes of the page, for an application that asks for the token itself."""
    api = [
        ("GET", "/api/about", desk.about),
        ("POST", "/api/graph", desk.graph),
        ("POST", "/api/analyze", desk.analyze),
        ("POST", "/api/what-if", desk.what_if),
        ("GET", "/api/runs", desk.runs),
        ("GET", "/api/runs/{run:int}/rows", desk.rows),
        ("GET", "/api/runs/{run:int}/samples/{number:int}", desk.story),
        ("POST", "/api/runs/{run:int}/samples/{number:int}/open", desk.open),
        ("GET", "/api/runs/{run:int}/samples/{number:int}/review", desk.review),
        ("POST", "/api/runs/{run:int}/samples/{number:int}/review", desk.decide),
    ]
    own = Router(
        [
            Route("/", _page, include_in_schema=False),
            *(Route(f"/{name}", _file(name)) for name in _FILES),
            *(Route(path, _answer(work), methods=[method]) for method, path, work in api),
        ]
    )

    async def to_page(request: Request) -> Response:
        return RedirectResponse(f"{PREFIX}/", headers=_HEADERS)

    return [Route(PREFIX, to_page, include_in_schema=False), Mount(PREFIX, SameOrigin(own))]


async def _page(request: Request) -> Response:
    text, policy = await run_in_threadpool(_page_text)
    headers = {**_HEADERS, "Content-Security-Policy": policy}
    return Response(text, media_type="text/html", headers=headers)


@cache
def _page_text() -> tuple[str, str]:
    """The page with its style in it, so that it is painted at once; and its policy.

    Nothing runs but the page's own modules, nothing is loaded from elsewhere. Trusted types make
    every sink that parses markup throw.
    """
    style = _asset("absa.report", "page.css") + _asset("absa.view", "view.css")
    page = _asset("absa.view", "page.html").replace("<style>", f"<style>{style}")
    page = page.replace("<!-- samples.html -->", _asset("absa.report", "samples.html"))
    own = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'sha256-{own}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return page, policy


@cache
def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _file(name: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        text = await run_in_threadpool(_asset, _FILES[name], name)
        return Response(text, media_type="text/javascript", headers=_HEADERS)

    return answer


def _answer(work: Callable[[Json, Any], Any]) -> Callable[[Request], Any]:
    """The endpoint of one kind of work.

    What cannot be done is an answer with a `problem`. A browser would log another status as an
    error of the page, and it is none to switch a part on that was not asked.
    """

    async def answer(request: Request) -> Response:
        try:
            body = parse_json(await request.body()) if request.method == "POST" else {}
        except ValueError as error:
            return JSONResponse({"detail": str(error)}, 400, _HEADERS)
        try:
            if not isinstance(body, dict):
                raise InputError("send a JSON object")
            parameters = {**request.query_params, **request.path_params}
            value = await run_in_threadpool(work, parameters, body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            value = {"problem": f"{where}: {first['msg']}".lstrip(": ")}
        except (InputError, BackendError, WiringError, NoRun) as error:
            value = {"problem": str(error)}
        if isinstance(value, Iterator):
            return StreamingResponse(
                _lines(value), media_type="application/x-ndjson", headers=_HEADERS
            )
        return Response(_line(value), media_type="application/json", headers=_HEADERS)

    return answer


async def _lines(events: Iterator[Json]) -> AsyncIterator[bytes]:
    """Each event as a line of JSON, as soon as it is there."""
    async for event in iterate_in_threadpool(events):
        yield _line(event)


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")


def server_desk() -> Desk:
    """For LangGraph's server: the settings of its graphs, runs where the environment says."""

    def read() -> Settings:
        from absa.config import load_settings

        return load_settings(os.environ.get("ABSA_CONFIG") or None)

    folders = os.environ.get(FOLDERS, "")
    return Desk(read, [Path(part) for part in folders.split(os.pathsep) if part])
