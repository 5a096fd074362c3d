"""When agents of one sample ask in parallel and one fails, it waits for the other answers.

LangGraph cancels the nodes that run in parallel with a failing node. Their requests are already
sent and will be charged. So the failure waits until their answers are stored, and the next start
does not pay for them again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from absa.backends.meter import StopRun
from absa.backends.wrapper import Wrapper
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError


@dataclass(eq=False)
class SiblingsFirst(Wrapper):
    """A backend that raises an error only after the sample's other calls have ended."""

    calls: defaultdict[str, set[asyncio.Future[None]]] = field(
        default_factory=lambda: defaultdict(set)
    )

    async def aask(self, question: Ask) -> Reply:
        """Answer, or fail after the other calls of the sample."""
        siblings = self.calls[question.uid]
        call = asyncio.get_running_loop().create_future()
        siblings.add(call)
        try:
            return await self.inner.aask(question)
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
        self.calls[uid].discard(call)
        if not self.calls[uid]:
            del self.calls[uid]
