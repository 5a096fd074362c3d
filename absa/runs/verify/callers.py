"""S1: the calls used the backend, server, model and seed of the settings."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import httpx2

from absa.runs.directory import TRACES
from absa.runs.verify.evidence import Evidence, Findings
from absa.runs.verify.words import call_key, call_name, dicts_of, shown
from absa.schemas.settings import SECOND_READER, BackendSettings

_KINDS = get_args(BackendSettings.model_fields["kind"].annotation)


def called_as_set(e: Evidence, backend: BackendSettings, seed: int) -> Findings:
    """Compare the recorded calls with the settings.

    Only the shipped backends are checked; a program can use its own backend under another name.
    A replay repeats the models of the recorded run.
    """
    asked = backend.model_copy(update={"seed": seed})
    for call in dicts_of(e.raw.get("process_trace")):
        key = call_key(call)
        name = call.get("backend")
        if key[0] == SECOND_READER and name in ("offline", backend.kind):
            continue
        if name not in _KINDS:
            continue
        if name != backend.kind:
            yield "S1", f"{TRACES}: {call_name(key)} names the backend {name}, not {backend.kind}"
        elif name != "replay":
            for part, allowed in _allowed(asked, *key).items():
                if call.get(part) not in allowed:
                    what = f"has the {part} {shown(call.get(part))}, the settings have"
                    yield "S1", f"{TRACES}: {call_name(key)} {what} {shown(allowed[0])}"


def _allowed(backend: BackendSettings, node: str, turn: int) -> dict[str, tuple[Any, ...]]:
    """The allowed values in a trace. A seed is not recorded if the model does not accept it."""
    if backend.kind == "offline":
        return {"model": (None,), "seed": (None,), "host": (None,)}
    role = backend.role(node)
    assert role.seed is not None, "a role without a seed has the backend's"
    # Only a repeated question adds its turn to the seed. Turns of a debate are different questions.
    seed = role.seed + (turn if node == "extract" else 0)
    allowed: dict[str, tuple[Any, ...]] = {"model": (role.model,), "seed": (seed, None)}
    # Without a base_url the environment named the server. Cached answers of earlier versions do
    # not contain the server.
    if role.base_url is not None and not backend.allow_redirects:
        allowed["host"] = (_host(role.base_url), None)
    return allowed


@cache
def _host(base_url: str) -> str:
    return httpx2.URL(base_url).netloc.decode()
