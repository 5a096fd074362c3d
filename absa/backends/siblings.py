"""Agents of one sample that ask at the same time: a failure of one waits for the others' answers.

LangGraph cancels the nodes that run beside one that fails. Their calls are sent and will be
charged, so they have to end first: the answers are stored, and the next start does not pay again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from absa.backends.meter import StopRun
from absa.schemas.backend import Ask, Backend, Reply
from absa.schemas.errors import BackendError


class SiblingsFirst:
    """Another backend; an error is raised when the sample's other calls have ended."""

    def __init__(self, inner: Backend) -> None:
        """Ask `inner`."""
        self._inner = inner
        self._calls: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def ask(self, question: Ask) -> Reply:
        """Answer in a thread, which cannot be cancelled."""
        return self._inner.ask(question)

    async def aask(self, question: Ask) -> Reply:
        """Answer, or fail after the other calls of the sample."""
        siblings = self._calls[question.uid]
        call = asyncio.get_running_loop().create_future()
        siblings.add(call)
        try:
            return await self._inner.aask(question)
        except (BackendError, StopRun):
            # Two calls that fail must not wait for each other.
            self._end(question.uid, call)
            if siblings:
                await asyncio.wait(siblings.copy())
            raise
        finally:
            self._end(question.uid, call)

    def _end(self, uid: str, call: asyncio.Future[None]) -> None:
        if call.done():
            return
        call.set_result(None)
        self._calls[uid].discard(call)
        if not self._calls[uid]:
            del self._calls[uid]
