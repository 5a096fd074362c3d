"""The embedded analyst: one object that answers for every agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from absa.offline.analysis import Analyser, AnalysisCache, Read
from absa.offline.roles import conflict, debate, personas, reading, reviews, stage1
from absa.offline.text.annotations import Analysis

_INDEPENDENT: dict[str, Callable[[Analysis], dict[str, Any]]] = {
    "ate": stage1.ate,
    "atsa": stage1.atsa,
    "validator": stage1.validator,
    "extract": stage1.extract,
    **conflict.PERSPECTIVES,
}
_REVIEWS: dict[str, Callable[[Analysis, Mapping[str, Any]], dict[str, Any]]] = {
    "judge": debate.judge,
    "ate_review": reviews.ate_review,
    "atsa_review": reviews.atsa_review,
    "validator_review": reviews.validator_review,
    "persona": personas.turn,
    "persona_judge": personas.judge,
    **conflict.REVIEWERS,
}
_SPEAKERS = ("epm", "tan", "cj")


class OfflineAnalyst:
    """Plays every role from one shared analysis of the text.

    Answers depend on the role and its inputs alone; the object may be shared between threads.
    """

    def __init__(self, read: Read | None = None) -> None:
        """Take another ``read`` to put another analyser under the same roles."""
        self._analysis = AnalysisCache(read or Analyser())

    def answer(self, role: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The agent's answer as JSON values.

        Args:
            role: The agent's name; a name that is none of the known ones with a ``persona``
                among its inputs speaks in the debate.
            inputs: ``text``, ``lang``, ``domain`` and what the role sees of the others.

        Raises:
            ValueError: The role is unknown and no persona describes it.
        """
        text = reading.word(inputs.get("text"))
        lang, domain = (reading.word(inputs.get(name)) or None for name in ("lang", "domain"))
        given = inputs.get("given_aspects")
        terms = tuple(map(str, given)) if isinstance(given, list | tuple) else None
        analysis = self._analysis(text, lang, domain, terms)
        if role in _INDEPENDENT:
            return _INDEPENDENT[role](analysis)
        if role in _REVIEWS:
            return _REVIEWS[role](analysis, inputs)
        if role in _SPEAKERS or isinstance(inputs.get("persona"), Mapping):
            return debate.speaker(role, analysis, inputs)
        raise ValueError(f"the offline analyst knows no role {role!r}")
