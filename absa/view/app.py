"""The HTTP routes of the page: its files, and the answers to its script.

The routes are below `/view`, in the server of `absa view` and in LangGraph's server.
`absa.auth.TokenMiddleware` checks the token; `SameOrigin` refuses requests from other sites.
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
from typing import TYPE_CHECKING, Any
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

if TYPE_CHECKING:
    from absa.view.analysis import Analyses
    from absa.view.choices import Choice
    from absa.view.run_list import RunList

PREFIX = "/view"
# The environment variable with the folders of runs in LangGraph's server, separated as in PATH.
FOLDERS = "ABSA_RUNS"

# Modules of the page, and the package that each lies in.
_FILES = {
    "samples.js": "report",
    "view.js": "view",
    "graph.js": "view",
    "compare.js": "view",
    "review.js": "view",
    "korean.js": "view",
}
# These need no token: they hold no data, and the page asks for the token.
PUBLIC = frozenset((PREFIX, f"{PREFIX}/", *(f"{PREFIX}/{name}" for name in _FILES)))

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ROWS_AT_ONCE = 1000

Json = dict[str, Any]


class PageApi:
    """The answers to the page's script: a method per route, of the parameters and the body.

    Settings, analyses and runs are loaded with the first request that needs them.
    """

    def __init__(self, read_settings: Callable[[], Settings], folders: Sequence[Path]) -> None:
        self._read_settings = read_settings
        self._folders = folders

    @cached_property
    def settings(self) -> Settings:
        """The settings in force unless the page chooses others."""
        return self._read_settings()

    @cached_property
    def analyses(self) -> Analyses:
        """The analyzed texts."""
        from absa.view.analysis import Analyses

        return Analyses(self.settings)

    @cached_property
    def run_list(self) -> RunList:
        """The runs in the folders."""
        from absa.view.run_list import RunList

        return RunList(self._folders)

    def about(self, parameters: Json, body: Json) -> Json:
        """The data with which the page begins."""
        from absa.report import words
        from absa.view import choices

        backend = self.settings.backend
        return {
            "runs": self.runs(parameters, body),
            **words.names(),
            "controls": choices.controls(),
            "values": choices.values(self.settings),
            "protocols": choices.PROTOCOLS,
            "backend": {"kind": backend.kind, "model": backend.model},
        }

    def graph(self, parameters: Json, body: Json) -> Json:
        """The drawing of a choice."""
        return self.analyses.drawing(_choice(body))

    def analyze(self, parameters: Json, body: Json) -> Iterator[Json]:
        """The events of the analysis of a text."""
        text, lang = body.get("text"), body.get("lang") or None
        if not isinstance(text, str) or not text.strip():
            raise InputError("type a sentence first")
        return self.analyses.stream(text, _choice(body), lang)

    def what_if(self, parameters: Json, body: Json) -> Json:
        """A text decided again under another choice."""
        return self.analyses.what_if(str(body.get("id")), _choice(body))

    def runs(self, parameters: Json, body: Json) -> list[Json]:
        """The runs and their progress."""
        return [run.about(name) for name, run in self.run_list.runs()]

    def rows(self, parameters: Json, body: Json) -> Json:
        """The next rows of a run."""
        run = self.run_list.run(parameters["run"])
        is_complete = run.is_complete  # read first: the last rows come before it
        start = max(0, int(parameters.get("from", 0)))
        rows = run.rows[start : start + _ROWS_AT_ONCE]
        is_last = is_complete and start + len(rows) >= len(run.rows)
        return {"rows": rows, "complete": is_last, "problems": run.problems[:20]}

    def story(self, parameters: Json, body: Json) -> Json:
        """All details of one sample."""
        return self.run_list.run(parameters["run"]).story(parameters["number"])

    def open(self, parameters: Json, body: Json) -> Json:
        """A sample of a run, ready for "what if"."""
        run = self.run_list.run(parameters["run"])
        if run.settings is None:
            raise InputError("the settings of this run cannot be read")
        return self.analyses.open(run.entry(parameters["number"]), run.settings)

    def review(self, parameters: Json, body: Json) -> Json:
        """The question to a reviewer about a sample, and the decisions so far."""
        from absa.view import reviewing

        run = self.run_list.run(parameters["run"])
        return reviewing.question(run.path, run.entry(parameters["number"]).output)

    def decide(self, parameters: Json, body: Json) -> Json:
        """A reviewer's decision about a sample."""
        from absa.view import reviewing

        run = self.run_list.run(parameters["run"])
        return reviewing.decide(run.path, run.entry(parameters["number"]).output, body)


def _choice(body: Json) -> Choice:
    from absa.view.choices import Choice

    return Choice.model_validate(body.get("choice") or {})


class SameOrigin:
    """Refuses requests that another site makes the browser send (also by DNS rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
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


def routes(api: PageApi) -> list[Any]:
    """The routes of the page, for an application that checks the token."""
    answers = [
        ("GET", "/api/about", api.about),
        ("POST", "/api/graph", api.graph),
        ("POST", "/api/analyze", api.analyze),
        ("POST", "/api/what-if", api.what_if),
        ("GET", "/api/runs", api.runs),
        ("GET", "/api/runs/{run:int}/rows", api.rows),
        ("GET", "/api/runs/{run:int}/samples/{number:int}", api.story),
        ("POST", "/api/runs/{run:int}/samples/{number:int}/open", api.open),
        ("GET", "/api/runs/{run:int}/samples/{number:int}/review", api.review),
        ("POST", "/api/runs/{run:int}/samples/{number:int}/review", api.decide),
    ]
    own = Router(
        [
            Route("/", _page, include_in_schema=False),
            *(Route(f"/{name}", _file(name)) for name in _FILES),
            *(Route(path, _answer(work), methods=[method]) for method, path, work in answers),
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
    """The page with its style sheet inside, and its content policy.

    The policy allows only the page's own modules and no other server. With trusted types the
    browser refuses to parse markup at run time.
    """
    style = _asset("report", "page.css") + _asset("view", "view.css")
    page = _asset("view", "page.html").replace("<style>", f"<style>{style}")
    page = page.replace("<!-- samples.html -->", _asset("report", "samples.html"))
    own = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'sha256-{own}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return page, policy


@cache
def _asset(folder: str, name: str) -> str:
    # By its folder: `files("absa.report")` would import the report for a style sheet, in 1.4 s.
    return (files("absa") / folder / name).read_text(encoding="utf-8")


def _file(name: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        text = await run_in_threadpool(_asset, _FILES[name], name)
        return Response(text, media_type="text/javascript", headers=_HEADERS)

    return answer


def _answer(work: Callable[[Json, Any], Any]) -> Callable[[Request], Any]:
    """The endpoint of a method of `PageApi`.

    A user's mistake is an answer with a `problem` and status 200, because a browser logs other
    statuses as errors of the page.
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
    """Each event as a line of JSON, as soon as it happens."""
    async for event in iterate_in_threadpool(events):
        yield _line(event)


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")


def server_api() -> PageApi:
    """For LangGraph's server: settings and folders from the environment."""

    def read() -> Settings:
        from absa.config import load_settings

        return load_settings(os.environ.get("ABSA_CONFIG") or None)

    folders = os.environ.get(FOLDERS, "")
    return PageApi(read, [Path(part) for part in folders.split(os.pathsep) if part])
