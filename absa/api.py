"""The Python interface: analyse a text, build a graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore
from pydantic import BaseModel

from absa.aux_hf import with_signal
from absa.config import load_settings
from absa.demos import Demos
from absa.wired import wired
from graph import Graph
from schemas import answers, human, memory, output, records
from schemas.backend import Backend
from schemas.output import FinalOutput
from schemas.settings import Settings


def build_graph(
    settings: Settings | None = None,
    *,
    backend: Backend | None = None,
    store: BaseStore | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> Graph:
    """The compiled LangGraph graph of the settings.

    `graph.invoke({"text": ...})["output"]` is a `FinalOutput`; `ainvoke`, `stream`, `astream` and
    `batch` work too. What the settings switch off is not in the graph. Another `backend` than the
    settings' own may answer for the agents, and another `store` keep what they remember. A graph
    that asks a person (`pipeline.human_review`) needs a `checkpointer` to wait for the answer.
    """
    wiring = wired(settings or load_settings())
    return wiring.compile(backend=backend, store=store, checkpointer=checkpointer)


def checkpoint_serde() -> JsonPlusSerializer:
    """A serialiser for checkpointers that reads back the types of this state, and no others.

    `SqliteSaver(connection, serde=checkpoint_serde())`. LangGraph's default reads any type, warns,
    and will refuse them in a later version.
    """
    modules = (answers, human, memory, output, records)
    found = (member for module in modules for member in vars(module).values())
    models = {m for m in found if isinstance(m, type) and issubclass(m, BaseModel)}
    return JsonPlusSerializer(allowed_msgpack_modules=[(m.__module__, m.__name__) for m in models])


class _Analyser:
    """A graph with the demos of its settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.graph = build_graph(settings)

    @cached_property
    def _demos(self) -> Demos:
        return Demos(self._settings.demos, seed=self._settings.backend.seed)

    def given(self, text: str, **fields: Any) -> dict[str, Any]:
        known = {key: value for key, value in fields.items() if value is not None}
        demos = self._demos.for_text(text) if self._settings.demos.k else []
        return {"text": text, "demos": demos, **known}

    def finished(self, output: FinalOutput) -> FinalOutput:
        aux_hf = self._settings.aux_hf
        return with_signal(output, aux_hf) if aux_hf.enabled else output


@lru_cache(maxsize=8)
def _analyser_for(settings_json: str) -> _Analyser:
    return _Analyser(Settings.model_validate_json(settings_json))


def _analyser(settings: Settings | None) -> _Analyser:
    """Graphs are kept: the settings' text is the key, since personas make them unhashable."""
    return _analyser_for((settings or load_settings()).model_dump_json())


def analyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
    given_aspects: Sequence[str] | None = None,
) -> FinalOutput:
    """Analyse one text with the given settings (default: the debate, offline).

    With `given_aspects` these terms are judged, and no others are searched for.
    """
    analyser = _analyser(settings)
    given = analyser.given(text, lang=lang, domain=domain, uid=uid, given_aspects=given_aspects)
    return analyser.finished(analyser.graph.invoke(given)["output"])


async def aanalyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
    given_aspects: Sequence[str] | None = None,
) -> FinalOutput:
    """Analyse one text without blocking the event loop."""
    analyser = _analyser(settings)
    given = analyser.given(text, lang=lang, domain=domain, uid=uid, given_aspects=given_aspects)
    return analyser.finished((await analyser.graph.ainvoke(given))["output"])
