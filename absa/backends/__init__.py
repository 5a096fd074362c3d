"""Backends: they answer the questions of the agents."""

from __future__ import annotations

from absa.schemas.answers import Answer, PersonaTurnAnswer
from absa.schemas.backend import Ask, Backend, Reply, recorded_reply
from absa.schemas.settings import DEFAULT_PERSONAS, MODEL_NODES, BackendSettings


def make_backend(settings: BackendSettings) -> Backend:
    """Return the backend of these settings. It opens nothing before the first question."""
    return LazyBackend(settings)


def plays_offline(node: str, answer: type[Answer]) -> bool:
    """Whether the embedded analyzer can answer for this agent. It supports the shipped agents.

    In the persona debate it supports every persona, because it only needs the stance.
    """
    return answer is PersonaTurnAnswer or node in (*MODEL_NODES, *DEFAULT_PERSONAS["patch"])


class LazyBackend:
    """Opens its backend with the first question, so that building a graph does no I/O."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._opened: Backend | None = None

    def _backend(self) -> Backend:
        if self._opened is None:
            self._opened = open_backend(self._settings)
        return self._opened

    def can_play(self, node: str, answer: type[Answer]) -> bool:
        """Whether the backend has an answer for this agent."""
        return self._settings.kind != "offline" or plays_offline(node, answer)

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        return self._backend().ask(question)

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        return await self._backend().aask(question)

    def recorded(self, question: Ask) -> Reply | None:
        """The recorded answer; None for a backend that is not a replay."""
        return recorded_reply(self._backend(), question)


def open_backend(settings: BackendSettings) -> Backend:
    """Open the backend of these settings. Its dependencies are imported only here."""
    match settings.kind:
        case "offline":
            from absa.backends.offline import OfflineBackend

            return OfflineBackend(settings.model, trust_model=settings.trust_model)
        case "replay":
            from absa.backends.replay import ReplayBackend

            return ReplayBackend(str(settings.path), settings.seed)
        case "openai":
            from absa.backends.cache import default_path
            from absa.backends.openai import OpenAIBackend
            from absa.backends.servers import FILE

            return OpenAIBackend(settings, memory=default_path().with_name(FILE))


def with_second_reader(backend: Backend, settings: BackendSettings) -> Backend:
    """Return the backend together with the embedded analyzer, which answers for `second_reader`."""
    from absa.backends.second_reader import WithSecondReader

    return WithSecondReader(backend, settings)
