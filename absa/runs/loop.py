"""The event loop of a batch: many small steps a second, so what surrounds them counts."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")

# Before the first sample has ended nobody knows how long one takes.
_FIRST_GAP_S = 0.02
# Below 1: the gaps must keep up when samples come to take less time.
_SPREAD = 0.8
# What one takes undisturbed is the shortest time seen; a longer one counts little by little.
_FORGETTING = 1.02

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


class Spread:
    """Starts samples at even distances over the time that one of them takes.

    Samples that start together ask together and are answered together: they queue for the one
    interpreter at every step, and the queue never dissolves. Spread out, each finds it free.
    """

    def __init__(self, width: int) -> None:
        """Spread `width` samples in flight."""
        self._width = width
        self._gap = _FIRST_GAP_S
        self._taken: float | None = None
        self._last_start = -math.inf
        self._turn = asyncio.Lock()
        self._noted = asyncio.Event()

    @asynccontextmanager
    async def start(self) -> AsyncIterator[None]:
        """Wait for a place in time; how long the sample takes is noted."""
        began = await self.wait()
        yield
        self.note(began)

    async def wait(self) -> float:
        """Wait for a place in time; when that was."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            # A gap that was too wide (the first sample was slow) shrinks while one waits for it.
            while (left := self._last_start + self._gap - loop.time()) > 0:
                self._noted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._noted.wait()
            self._last_start = loop.time()
            return self._last_start

    def note(self, began: float) -> None:
        """A sample that began then has ended now."""
        seconds = asyncio.get_running_loop().time() - began
        known = seconds if self._taken is None else _FORGETTING * self._taken
        self._taken = min(seconds, known)
        # One at a time has nobody to be spread from.
        self._gap = _SPREAD * self._taken / self._width if self._width > 1 else 0.0
        self._noted.set()
