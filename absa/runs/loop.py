"""The event loop of a batch: many small steps a second, so what surrounds them counts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# A sample makes thousands of short-lived objects and hardly a cycle: the collector's default of a
# look every 700 costs six percent of the run.
_COLLECT_EVERY = (50_000, 20, 50)


def run_in_quick_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in uvloop where there is one, with a collector that looks less often."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(work)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # not to be had on Windows
        return None
    return uvloop.new_event_loop
