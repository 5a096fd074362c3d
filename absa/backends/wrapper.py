"""The base of backends that wrap another one: with a cache, a meter, a coordinator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from absa.schemas.backend import Ask, Backend, Reply


@dataclass(eq=False)
class Wrapper:
    """A backend around `inner` that defines `aask`."""

    inner: Backend

    def ask(self, question: Ask) -> Reply:
        """Answer in an event loop of its own. Batches use only `aask`."""
        return asyncio.run(self.aask(question))

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        return await self.inner.aask(question)
