"""The embedded analyser as a backend: no network, no key, no model server."""

from __future__ import annotations

from absa.offline import Analyser, OfflineAnalyst
from absa.offline.models import Models
from schemas.answers import Answer, PersonaJudgeAnswer, PersonaTurnAnswer
from schemas.backend import Ask, Reply
from schemas.errors import InputError

# In the persona debate any name may speak, and the judge sums up another kind of debate.
_BY_ANSWER: dict[type[Answer], str] = {
    PersonaTurnAnswer: "persona",
    PersonaJudgeAnswer: "persona_judge",
}


class OfflineBackend:
    """Plays every agent with learned models, lexicons, morphology and clause rules."""

    def __init__(self, model: str | None = None) -> None:
        """Take the shipped models, or those of a folder that `absa train` made.

        Raises:
            InputError: the folder is no model.
        """
        try:
            models = Models(model)
        except ValueError as error:
            raise InputError(f"backend.model: {error}") from error
        self._analyst = OfflineAnalyst(Analyser(models))

    def ask(self, question: Ask) -> Reply:
        """Analyse now."""
        role = _BY_ANSWER.get(question.answer, question.node)
        return Reply(self._analyst.answer(role, question.inputs), backend="offline")

    async def aask(self, question: Ask) -> Reply:
        """Analyse in the loop: it is all computation, a thread would only add a detour."""
        return self.ask(question)
