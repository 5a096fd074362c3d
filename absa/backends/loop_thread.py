"""An event loop in its own thread, for callers without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any thread. It ends with the process or with `stop`."""

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        """Start the thread. `at_end` runs in the loop before it closes."""
        loop: Future[asyncio.AbstractEventLoop] = Future()
        self._over = asyncio.Event()

        async def until_over(over: asyncio.Event = self._over) -> None:
            loop.set_result(asyncio.get_running_loop())
            await over.wait()
            await at_end()

        self._thread = threading.Thread(
            target=asyncio.run, args=(until_over(),), name="asking", daemon=True
        )
        self._thread.start()
        self._loop = loop.result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine with the caller's context variables and return its result."""
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        finally:
            done.cancel()  # does nothing unless this thread was interrupted

    def stop(self) -> None:
        """Ask the loop to end and close its connections. Does not wait; any thread may call it."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._over.set)

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()
