"""`absa doctor`: checks the installation, the settings and the backend."""

from __future__ import annotations

import json
import locale
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from absa.cli import options
from absa.cli.options import console, print_json, settings_from
from absa.schemas.json_text import parse_json
from absa.show import printable

if TYPE_CHECKING:
    from absa.schemas.backend import Ask
    from absa.schemas.settings import BackendSettings, RoleSettings, Settings


PACKAGES = {
    "absa": "absa-debate-graph",
    "langgraph": "langgraph",
    "langchain-openai": "langchain-openai",
    "pydantic": "pydantic",
    "kiwipiepy": "kiwipiepy",
}
FOLDERS = ("configs", "prompts", "resources")
QUESTION = "사용감은 좋지만 가격은 비싸요."
LONGEST_WAIT_S = 30.0
TOGGLES = ("validator", "debate", "stage2", "debate_override", "moderator")

Finding = dict[str, Any]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    config: options.Config = None,
    sets: options.Set = None,
) -> None:
    """Check the installation and whether the backend answers.

    Shows versions, files and the settings in force, and asks the backend one real question. The
    exit code is 0 if the backend answers, else 1.
    """
    settings = settings_from(config, sets)
    findings: Finding = {
        "python": {"version": platform.python_version(), "path": sys.executable},
        "platform": platform.platform(),
        "versions": {name: _version(package) for name, package in PACKAGES.items()},
        "folders": {name: _folder(name) for name in FOLDERS},
        "config": config,
        "settings": settings.model_dump(mode="json"),
        "korean": _korean(),
        "backend": _backend(settings),
        "tracing": _tracing(),
        "terminal": _terminal(),
    }
    findings["ok"] = findings["backend"]["answers"]
    if as_json:
        print_json(findings, indent=2)
    else:
        _print(findings)
    if not findings["ok"]:
        raise typer.Exit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _folder(name: str) -> Finding:
    from absa.nodes.assets import data_dir

    path = data_dir(name)
    files = sum(file.is_file() for file in path.rglob("*")) if path.is_dir() else 0
    return {"path": str(path), "files": files}


def _korean() -> Finding:
    from absa.nodes.morphemes import kiwi

    start = time.perf_counter()
    try:
        morphemes = [f"{token.form}/{token.tag}" for token in kiwi().tokenize("가격은")]
    except Exception as error:  # native code or a missing model can raise any error
        return {"loads": False, "reason": f"{type(error).__name__}: {error}"}
    return {"loads": True, "ms": _since(start), "example": " ".join(morphemes)}


def _backend(settings: Settings) -> Finding:
    backend = settings.backend
    about: Finding = {"kind": backend.kind}
    if backend.kind == "openai":
        about |= _server(backend.role(""))
        about["roles"] = {node: _server(backend.role(node)) for node in backend.roles}
    elif backend.kind == "replay":
        about["path"] = backend.path
    start = time.perf_counter()
    try:
        if backend.kind == "offline":
            _check_models()
        answer = _ask(settings)
    except Exception as error:  # the error is the result of the check
        return {**about, "answers": False, "reason": _reason(error, backend)}
    return {**about, "answers": True, "ms": _since(start), "answer": answer}


def _check_models() -> None:
    """Load all models, because the Korean test question does not use those of other languages."""
    from absa.offline.models import folder

    folder.shipped().check()


def _server(role: RoleSettings) -> Finding:
    """Model, server and mode of a role, and the place of its key; never the key."""
    from absa.backends.cache import default_path
    from absa.backends.keys import OPENAI_URL, Keys
    from absa.backends.servers import FILE, Servers

    servers = Servers(default_path().with_name(FILE))
    servers.load()
    url, key = role.base_url or OPENAI_URL, Keys().find(role)
    return {
        "model": role.model,
        "base_url": url,
        "asked_by": servers.dialect(url, role.model or "").mode,
        "key": key.value is not None,
        "key_from": key.where,
    }


def _ask(settings: Settings) -> Mapping[str, Any]:
    """Ask one real question without retries."""
    from absa.backends import open_backend
    from absa.nodes.atsa import atsa
    from absa.schemas.state import State

    limits = {"max_retries": 0, "timeout_s": min(settings.backend.timeout_s, LONGEST_WAIT_S)}
    backend = open_backend(settings.backend.model_copy(update=limits))
    state: State = {
        "text": QUESTION,
        "uid": "doctor",
        "lang": "ko",
        "domain": None,
        "demos": [],
        "given_aspects": None,
    }
    question = atsa.question(state, settings.pipeline)
    if settings.backend.kind == "replay":
        question = _first_recorded(question, Path(str(settings.backend.path)))
    return backend.ask(question).output


def _first_recorded(question: Ask, path: Path) -> Ask:
    from absa.schemas.errors import InputError

    file = path / "traces.jsonl" if path.is_dir() else path
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                record = parse_json(line)
                uid, node, turn = record["uid"], record["node"], record.get("turn") or 0
                return replace(question, uid=str(uid), node=str(node), turn=int(turn))
    raise InputError(f"{file} has no recorded answers")


def _base_url(backend: BackendSettings) -> str:
    from absa.backends.keys import OPENAI_URL

    return backend.base_url or OPENAI_URL


def _reason(error: Exception, backend: BackendSettings) -> str:
    from absa.schemas.errors import BackendError, InputError

    if isinstance(error, BackendError):
        text = str(error).removeprefix(f"{error.node}: ")
        unheard = error.attempts > 0 and error.details.get("status") is None
        trouble = _connection_trouble(_base_url(backend)) if unheard else None
        return f"{text} ({trouble})" if trouble else text
    if isinstance(error, InputError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _connection_trouble(url: str) -> str | None:
    """The network error of a server that did not answer; None if it can be reached."""
    import socket

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=5):
            return None
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _tracing() -> bool:
    """Whether LangChain sends traces to a tracing service."""
    names = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")
    return any(os.environ.get(name, "").lower() in ("true", "1") for name in names)


def _terminal() -> Finding:
    out = console()
    return {
        "encoding": sys.stdout.encoding,
        "locale": ".".join(part for part in locale.getlocale() if part) or None,
        "is_terminal": out.is_terminal,
        "width": out.width,
        "colour": out.color_system,
        "korean": _can_show(QUESTION),
    }


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 1)


def _print(findings: Finding) -> None:
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    for state, name, text in _lines(findings):
        style = {"ok": "green", "no": "bold red", "!": "yellow"}.get(state, "")
        lines.add_row(Text(state, style), Text(name, "bold"), Text(printable(text)))
    console().print(lines)


def _lines(f: Finding) -> list[tuple[str, str, str]]:
    """State, name and text of each line. The state is also readable without colour."""
    yes = {True: "ok", False: "no"}
    lines = [("ok", "python", f"{f['python']['version']} ({f['python']['path']})")]
    for name, installed in f["versions"].items():
        lines.append((yes[installed is not None], name, installed or "not installed"))
    for name, folder in f["folders"].items():
        lines.append(
            (yes[folder["files"] > 0], name, f"{folder['files']} files in {folder['path']}")
        )
    lines.append(("", "settings", _settings_line(f)))
    korean, backend, terminal = f["korean"], f["backend"], f["terminal"]
    text = f"loaded in {korean['ms']:.0f} ms" if korean["loads"] else korean["reason"]
    lines.append((yes[korean["loads"]], "Korean", text))
    lines.append(("", "backend", _backend_line(backend)))
    for node, server in backend.get("roles", {}).items():
        lines.append(("", node, _server_line(server)))
    if backend["answers"]:
        lines.append(("ok", "answers", f"in {backend['ms']:.0f} ms: {_answer_line(backend)}"))
    else:
        lines.append(("no", "answers", backend["reason"]))
    if f["tracing"]:
        lines.append(("!", "tracing", "LangSmith tracing is on: texts are sent to its server"))
    shown = ", ".join(
        str(part)
        for part in (
            terminal["encoding"],
            f"{terminal['width']} columns",
            f"{terminal['colour'] or 'no'} colour",
            "" if terminal["is_terminal"] else "not a terminal",
            "" if terminal["korean"] else "cannot show Korean: set PYTHONUTF8=1",
        )
        if part
    )
    lines.append(("ok" if terminal["korean"] else "!", "terminal", shown))
    return lines


def _settings_line(f: Finding) -> str:
    pipeline = f["settings"]["pipeline"]
    toggles = ", ".join(
        f"{name} {'on' if pipeline[f'enable_{name}'] else 'off'}"
        for name in TOGGLES
        if f"enable_{name}" in pipeline
    )
    source = f["config"] or "defaults"
    profile = pipeline["override_profile"]
    return f"{source}: {pipeline['protocol']} protocol, {toggles}, override profile {profile}"


def _backend_line(backend: Finding) -> str:
    match backend["kind"]:
        case "openai":
            return f"openai: {_server_line(backend)}"
        case "replay":
            return f"replay of {backend['path']}"
        case kind:
            return f"{kind}: no network, no key"


def _server_line(server: Finding) -> str:
    key = "is set" if server["key"] else "is not set"
    return (
        f"{server['model']} at {server['base_url']}, asked by {server['asked_by']}; "
        f"its key: {server['key_from']} {key}"
    )


def _answer_line(backend: Finding) -> str:
    sentiments = backend["answer"].get("aspect_sentiments")
    if not isinstance(sentiments, list) or backend["kind"] == "replay":
        text = json.dumps(backend["answer"], ensure_ascii=False)
        return text if len(text) <= 200 else f"{text[:199]}…"
    shown = ", ".join(
        f"{item.get('aspect_ref')} {item.get('polarity')} ({item.get('evidence')})"
        for item in sentiments
        if isinstance(item, dict)
    )
    return f"{QUESTION} {shown or 'no aspects found'}"
