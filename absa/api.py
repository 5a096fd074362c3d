"""The Python interface: analyze a text, build a graph."""

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
from absa.graph import Graph
from absa.inputs import graph_input
from absa.own_files import read_own_files
from absa.schemas import answers, human, memory, output, records
from absa.schemas.backend import Backend
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import Settings
from absa.wired import wired


def build_graph(
    settings: Settings | None = None,
    *,
    backend: Backend | None = None,
    store: BaseStore | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> Graph:
    """Build the compiled LangGraph graph of the settings.

    `graph.invoke({"text": ...})["output"]` is a `FinalOutput`; `ainvoke`, `stream`, `astream` and
    `batch` work too. Parts that the settings switch off are not in the graph. `backend` and `store`
    replace those of the settings. A graph that asks a person (`pipeline.human_review`) needs a
    `checkpointer` to wait for the answer.
    """
    wiring = wired(settings or load_settings())
    return wiring.compile(backend=backend, store=store, checkpointer=checkpointer)


def checkpoint_serde() -> JsonPlusSerializer:
    """A serialiser for checkpointers that deserialises only the types of this state.

    `SqliteSaver(connection, serde=checkpoint_serde())`. LangGraph's default reads any type, warns,
    and will reject unknown types in a later version.
    """
    members = [member for module in _STATE_MODULES for member in vars(module).values()]
    models = {m for m in members if isinstance(m, type) and issubclass(m, BaseModel)}
    return _Serializer(allowed_msgpack_modules=[(m.__module__, m.__name__) for m in models])


_STATE_MODULES = (answers, human, memory, output, records)


class _Serializer(JsonPlusSerializer):
    """Rejects threads from versions in which these modules were not yet part of `absa`.

    LangGraph stores a model as a MessagePack list of four that begins with the module's name. For a
    module that it does not find, it would return a plain dict.
    """

    _OLD_NAMES = tuple(module.__name__.removeprefix("absa.") for module in _STATE_MODULES)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        for name in self._OLD_NAMES:
            if bytes([0x94, 0xA0 + len(name), *name.encode()]) in data[1]:
                raise InputError(
                    f"this thread was saved by an older version (its types are in {name}, now "
                    f"absa.{name}): finish it with that version, or analyze its text again"
                )
        return super().loads_typed(data)


class TextAnalyser:
    """The graph of the settings, with the demos and the auxiliary classifier."""

    def __init__(self, settings: Settings, backend: Backend | None = None) -> None:
        """Compile the graph; `backend` replaces that of the settings."""
        self._settings = settings
        self.graph = build_graph(settings, backend=backend)

    @cached_property
    def _demos(self) -> Demos:
        backend = self._settings.backend
        return Demos(self._settings.demos, seed=backend.seed, are_used=backend.kind != "offline")

    def analyze(self, text: str, **fields: Any) -> FinalOutput:
        """Analyze one text; `fields` are those of `graph_input`."""
        return self._finished(self.graph.invoke(self.input(text, **fields))["output"])

    async def aanalyze(self, text: str, **fields: Any) -> FinalOutput:
        """Analyze one text without blocking the event loop."""
        return self._finished((await self.graph.ainvoke(self.input(text, **fields)))["output"])

    def input(self, text: str, **fields: Any) -> dict[str, Any]:
        """The input of the graph for a text."""
        demos = self._demos.for_text(text) if self._settings.demos.k else []
        return graph_input(text, demos=demos, **fields)

    def _finished(self, output: FinalOutput) -> FinalOutput:
        aux_hf = self._settings.aux_hf
        return with_signal(output, aux_hf) if aux_hf.enabled else output


@lru_cache(maxsize=8)
def _analyser_for(settings_json: str, own_files: str) -> TextAnalyser:
    return TextAnalyser(Settings.model_validate_json(settings_json))


def _analyser(settings: Settings | None) -> TextAnalyser:
    """Cache graphs by the JSON of their settings, because settings are not hashable."""
    chosen = settings or load_settings()
    return _analyser_for(chosen.model_dump_json(), repr(read_own_files(chosen)))


def analyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
    given_aspects: Sequence[str] | None = None,
) -> FinalOutput:
    """Analyze one text with the given settings (default: the debate, offline).

    With `given_aspects`, only these terms are judged and no others are extracted.
    """
    return _analyser(settings).analyze(
        text, lang=lang, domain=domain, uid=uid, given_aspects=given_aspects
    )


async def aanalyze(
    text: str,
    settings: Settings | None = None,
    *,
    lang: str | None = None,
    domain: str | None = None,
    uid: str | None = None,
    given_aspects: Sequence[str] | None = None,
) -> FinalOutput:
    """Analyze one text without blocking the event loop."""
    return await _analyser(settings).aanalyze(
        text, lang=lang, domain=domain, uid=uid, given_aspects=given_aspects
    )
