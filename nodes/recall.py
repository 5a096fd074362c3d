"""`recall`: looks up similar past cases in memory."""

from __future__ import annotations

from typing import cast

from langgraph.store.base import Item

from absa.nodes import memory
from absa.schemas.memory import Recall
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import RecallUpdate, State


def recall(state: State, pipeline: PipelineSettings) -> RecallUpdate:
    """Look up the most similar episodes and their advice."""
    settings = pipeline.memory
    assert settings.condition != "off", "a graph without memory does not have this node"
    if (recorded := state.get("memory_recall")) is not None:
        # In a replay the recorded recall is used, because memory can have changed.
        return {"memory_recall": recorded.model_copy(update={"condition": settings.condition})}
    store = memory.store_of_run()
    signature, sample = memory.signature_of_state(state), memory.sample_id(state["text"])
    places = memory.best(
        cast("list[Item | None]", store.batch(memory.index_reads(signature))),
        signature,
        sample=sample,
        split=state["split"],
        any_split=settings.allow_eval_writes,
    )
    episodes = memory.episodes_in(cast("list[Item | None]", store.batch(places)))
    return {
        "memory_recall": Recall(
            condition=settings.condition,
            sample=sample,
            signature=signature,
            episodes=episodes,
            advice=tuple(memory.advice_of(e) for e in episodes),
        )
    }
