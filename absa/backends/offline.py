"""The embedded analyzer as a backend: no network, no key, no model server."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from absa.backends import plays_offline
from absa.offline import Analyser, OfflineAnalyst
from absa.offline.models.loading import Models
from absa.offline.stopping import stoppable
from absa.schemas.answers import Answer, PersonaJudgeAnswer, PersonaTurnAnswer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import InputError

#: Characters from which on a text is analyzed in a thread: about a tenth of a second of work.
LONG_TEXT = 2_000
_THREADS = 6

# In the persona debate every name can be a speaker, and the judge summarises persona turns.
_BY_ANSWER: dict[type[Answer], str] = {
    PersonaTurnAnswer: "persona",
    PersonaJudgeAnswer: "persona_judge",
}


class OfflineBackend:
    """Answers for every agent with learned models, lexicons, morphology and clause rules."""

    def __init__(self, model: str | None = None, *, trust_model: bool = False) -> None:
        """Use the shipped models, or those of a folder that `absa train` made.

        `trust_model` accepts a folder whose manifest is missing or does not match its files.

        Raises:
            InputError: The folder does not hold a model, or the model is damaged.
        """
        try:
            models = Models(model, trusted=trust_model)
        except ValueError as error:
            raise InputError(f"backend.model: {error}") from error
        self._analyst = OfflineAnalyst(Analyser(models))
        # Threads start with the first long text. The three agents of Stage 1 share one analysis.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="absa-offline")

    def can_play(self, node: str, answer: type[Answer]) -> bool:
        """Whether the analyzer can answer for this agent."""
        return plays_offline(node, answer)

    def ask(self, question: Ask) -> Reply:
        """Analyze now."""
        role = _BY_ANSWER.get(question.answer, question.node)
        return Reply(self._analyst.answer(role, question.inputs), backend="offline")

    async def aask(self, question: Ask) -> Reply:
        """Analyze a short text in the event loop (milliseconds), a long one in a thread.

        The event loop must stay free for other requests and for signals.
        """
        text = question.inputs.get("text")
        if not isinstance(text, str) or len(text) <= LONG_TEXT:
            return self.ask(question)
        flag = threading.Event()

        def ask() -> Reply:
            with stoppable(flag):
                return self.ask(question)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        finally:
            flag.set()  # the caller has stopped waiting for the thread
