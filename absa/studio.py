"""The graphs that `langgraph.json` offers to LangGraph Studio.

The environment variable `ABSA_CONFIG` can name a settings file. It replaces the defaults in every
graph, for example to use your own model.
"""

from __future__ import annotations

import os
from dataclasses import replace

import yaml
from langsmith import tracing_context

from absa.backends import open_backend
from absa.backends.offline import OfflineBackend
from absa.backends.second_reader import WithSecondReader
from absa.chat import chat
from absa.config import load_settings
from absa.graph import Graph, build, build_switchable
from absa.graph import wiring as shipped_wiring
from absa.nodes.assets import data_dir
from absa.nodes.morphemes import kiwi
from absa.own_files import read_own_files
from absa.schemas.settings import MemorySettings, PipelineSettings

_GIVEN = os.environ.get("ABSA_CONFIG") or None


def _ablated(name: str) -> PipelineSettings:
    """The base settings with those of a shipped ablation applied."""
    file = data_dir("configs") / f"{name}.yaml"
    switches = yaml.safe_load(file.read_text(encoding="utf-8"))
    return load_settings(_GIVEN, switches).pipeline


def _offered(config: str, name: str) -> Graph:
    # The server provides the checkpointer that a graph needs to wait for a person.
    wiring = replace(
        shipped_wiring(_ablated(config)),
        own_files=_own_files,
        with_reader=lambda backend: WithSecondReader(backend, _settings.backend),
    )
    return wiring.compile(backend=_backend, name=name, interactive=True)


def _warm_up(pipeline: PipelineSettings) -> None:
    """Load prompts, patterns, lexicons and the Korean analyzer now.

    Otherwise the first text would load them in the event loop that all runs of the server share.
    """
    kiwi()  # once, before the agents ask for it in parallel
    # Without memory, because these texts must not be stored.
    graph = build(pipeline.model_copy(update={"memory": MemorySettings()}), OfflineBackend())
    with tracing_context(enabled=False):
        graph.batch([{"text": "가격은 비싸요."}, {"text": "The price is high."}])


_settings = load_settings(_GIVEN)
_backend = open_backend(_settings.backend)
_own_files = read_own_files(_settings)
_warm_up(_settings.pipeline)

absa = build_switchable(
    _settings.pipeline, WithSecondReader(_backend, _settings.backend), own_files=_own_files
)
absa_no_debate = _offered("abl_no_debate", "absa_no_debate")
absa_no_override = _offered("abl_no_debate_override", "absa_no_override")
conflict_review = _offered("conflict_review", "conflict_review")
selective = _offered("selective", "selective")
absa_chat = chat(absa, _settings.pipeline.debate_override)
