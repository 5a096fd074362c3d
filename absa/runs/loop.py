"""The event loop of a batch, with settings for many small steps per second."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")

# The gap while the duration of a sample is not yet known.
_FIRST_GAP_S = 0.02
# Below 1, so that the gaps shrink when samples become faster.
_SPREAD = 0.8
# The shortest duration estimates an undisturbed sample. Longer ones change it slowly.
_FORGETTING = 1.02

# A sample makes thousands of short-lived objects and few cycles. The garbage collector's default
# threshold of 700 would cost six percent of the run.
_COLLECT_EVERY = (50_000, 20, 50)


def run_in_quick_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in uvloop if it is installed, with a less frequent garbage collection."""
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
    except ImportError:  # not available on Windows
        return None
    return uvloop.new_event_loop


class Spread:
    """Starts samples at even intervals over the duration of one sample.

    Samples that start together also get their answers together. They then wait for the one
    interpreter at every step. With even intervals they rarely wait.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._gap = _FIRST_GAP_S
        self._taken: float | None = None
        self._last_start = -math.inf
        self._turn = asyncio.Lock()
        self._noted = asyncio.Event()

    @asynccontextmanager
    async def start(self) -> AsyncIterator[None]:
        """Wait for the next slot, and measure the duration of the sample."""
        began = await self.wait()
        yield
        self.note(began)

    async def wait(self) -> float:
        """Wait for the next slot; return its time."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            # A gap that was too wide (the first sample was slow) shrinks during the wait.
            while (left := self._last_start + self._gap - loop.time()) > 0:
                self._noted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._noted.wait()
            self._last_start = loop.time()
            return self._last_start

    def note(self, began: float) -> None:
        """Count a sample that started at this time and has ended now."""
        seconds = asyncio.get_running_loop().time() - began
        average = seconds if self._taken is None else _FORGETTING * self._taken
        self._taken = min(seconds, average)
        # A single slot needs no gaps.
        self._gap = _SPREAD * self._taken / self._width if self._width > 1 else 0.0
        self._noted.set()
