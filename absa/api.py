"""The Python interface: analyse a text, build a graph."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from absa.backends import make_backend
from absa.config import load_settings
from graph import build
from graph.build import Graph
from schemas.backend import Backend
from schemas.output import FinalOutput
from schemas.settings import Settings


def build_graph(settings: Settings | None = None, *, backend: Backend | None = None) -> Graph:
    """The compiled LangGraph graph of the settings.

    `graph.invoke({"text": ...})["output"]` is a `FinalOutput`; `ainvoke`, `stream`, `astream` and
    `batch` work too. What the settings switch off is not in the graph. Another `backend` than the
    settings' own may answer for the agents.
    """
    settings = settings or load_settings()
    return build(settings.pipeline, backend or make_backend(settings.backend))


@lru_cache(maxsize=8)
def _graph_for(settings_json: str) -> Graph:
    return build_graph(Settings.model_validate_json(settings_json))


def _graph(settings: Settings | None) -> Graph:
    return _graph_for((settings or load_settings()).model_dump_json())


def _given(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, **{key: value for key, value in fields.items() if value is not None}}


def analyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
) -> FinalOutput:
    """Analyse one text with the given settings (default: the debate, offline)."""
    given = _given(text, {"lang": lang, "domain": domain, "uid": uid})
    output: FinalOutput = _graph(settings).invoke(given)["output"]
    return output


async def aanalyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
) -> FinalOutput:
    """Analyse one text without blocking the event loop."""
    given = _given(text, {"lang": lang, "domain": domain, "uid": uid})
    output: FinalOutput = (await _graph(settings).ainvoke(given))["output"]
    return output
