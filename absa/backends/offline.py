"""The embedded analyser as a backend: no network, no key, no model server."""

from __future__ import annotations

from absa.offline import OfflineAnalyst
from schemas.backend import Ask, Reply


class OfflineBackend:
    """Plays every agent with lexicons, morphology and clause rules."""

    def __init__(self) -> None:
        """Take an analyst."""
        self._analyst = OfflineAnalyst()

    def ask(self, question: Ask) -> Reply:
        """Analyse now."""
        return Reply(self._analyst.answer(question.node, question.inputs), backend="offline")

    async def aask(self, question: Ask) -> Reply:
        """Analyse in the loop: it is all computation, a thread would only add a detour."""
        return self.ask(question)
