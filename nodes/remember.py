"""`remember`: stores the finished case as an episode in memory."""

from __future__ import annotations

import threading
import time
from typing import cast

from langgraph.store.base import Item

from absa.nodes import memory
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import RememberUpdate, State

# Reading, changing and writing the index must not run in two threads at a time.
_index_lock = threading.Lock()


def remember(state: State, pipeline: PipelineSettings) -> RememberUpdate:
    """Write the episode, unless its split is evaluated."""
    split, recalled = state["split"], state.get("memory_recall")
    any_split = pipeline.memory.allow_eval_writes
    if recalled is not None and memory.may_write(split, any_split=any_split):
        store = memory.store_of_run()
        episode = memory.episode_of(state["output"], recalled.signature, split, time.time_ns())
        with _index_lock:
            stored, indexed = cast("list[Item | None]", store.batch(memory.reads(episode)))
            store.batch(memory.writes(episode, stored, indexed))
    return {"memory_recall": None, "split": None}
