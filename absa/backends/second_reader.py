"""The embedded analyzer beside another backend: it answers for `second_reader` only."""

from __future__ import annotations

from functools import cache

from absa.backends.offline import OfflineBackend
from absa.schemas.answers import Answer
from absa.schemas.backend import Ask, Backend, Reply, recorded_reply
from absa.schemas.errors import InputError
from absa.schemas.settings import SECOND_READER, BackendSettings


class WithSecondReader:
    """Another backend plus the analyzer for one node. A recorded answer is preferred.

    It is not cached or metered: the analyzer costs nothing and does not count as a call.
    """

    def __init__(self, backend: Backend, settings: BackendSettings) -> None:
        """Add the analyzer to `backend`.

        `backend.roles.second_reader.model` may name a model folder that `absa train` made.
        """
        self._backend = backend
        role = settings.roles.get(SECOND_READER)
        self._model = role.model if role else None
        self._trusted = settings.trust_model

    def can_play(self, node: str, answer: type[Answer]) -> bool:
        """Whether one of the two has an answer for this agent."""
        can_play = getattr(self._backend, "can_play", None)
        return node == SECOND_READER or can_play is None or can_play(node, answer)

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        if question.node != SECOND_READER:
            return self._backend.ask(question)
        return self._recorded(question) or _analyser(self._model, self._trusted).ask(question)

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        if question.node != SECOND_READER:
            return await self._backend.aask(question)
        recorded = self._recorded(question)
        return recorded or await _analyser(self._model, self._trusted).aask(question)

    def _recorded(self, question: Ask) -> Reply | None:
        if isinstance(self._backend, OfflineBackend):
            raise InputError(
                "second_reader compares a language model with the offline analyzer, but "
                "backend.kind is offline too; set backend.kind to openai or replay"
            )
        return recorded_reply(self._backend, question)


@cache
def _analyser(model: str | None, trusted: bool) -> OfflineBackend:
    return OfflineBackend(model, trust_model=trusted)
