"""The embedded analyst: one object that answers for every agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from absa.offline.analysis import Analyser, AnalysisCache, Read
from absa.offline.roles import conflict, debate, personas, reviews, stage1
from absa.offline.roles.inputs import (
    ConflictInputs,
    DebateInputs,
    ReviewInputs,
    RoleInputs,
    ValidatorReviewInputs,
)
from absa.offline.text.annotations import Analysis

In = TypeVar("In", bound=RoleInputs)
Json = dict[str, Any]
Role = tuple[type[RoleInputs], Callable[[Analysis, Any], Json]]


def _alone(play: Callable[[Analysis], Json]) -> Role:
    return RoleInputs, lambda analysis, _: play(analysis)


def _seeing(inputs: type[In], play: Callable[[Analysis, In], Json]) -> Role:
    return inputs, play


def _speaker(name: str) -> Role:
    return _seeing(DebateInputs, partial(debate.speaker, name))


_ROLES: dict[str, Role] = {
    "ate": _seeing(RoleInputs, stage1.ate),
    "atsa": _seeing(RoleInputs, stage1.atsa),
    "validator": _alone(stage1.validator),
    "extract": _seeing(RoleInputs, stage1.extract),
    "second_reader": _seeing(RoleInputs, stage1.second_reader),
    "epm": _speaker("epm"),
    "tan": _speaker("tan"),
    "cj": _speaker("cj"),
    "judge": _seeing(DebateInputs, debate.judge),
    "persona": _seeing(DebateInputs, personas.turn),
    "persona_judge": _seeing(DebateInputs, personas.judge),
    "ate_review": _seeing(ReviewInputs, reviews.ate_review),
    "atsa_review": _seeing(ReviewInputs, reviews.atsa_review),
    "validator_review": _seeing(ValidatorReviewInputs, reviews.validator_review),
    **{name: _seeing(RoleInputs, play) for name, play in conflict.PERSPECTIVES.items()},
    **{name: _seeing(ConflictInputs, play) for name, play in conflict.REVIEWERS.items()},
}


class OfflineAnalyst:
    """Plays every role from one shared analysis of the text.

    Answers depend on the role and its inputs alone; the object may be shared between threads.
    """

    def __init__(self, read: Read | None = None) -> None:
        """Take another ``read`` to put another analyzer under the same roles."""
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
        if role in _ROLES:
            inputs_type, play = _ROLES[role]
        elif isinstance(inputs.get("persona"), Mapping):
            inputs_type, play = _speaker(role)
        else:
            raise ValueError(f"the offline analyst knows no role {role!r}")
        seen = inputs_type.read(inputs)
        analysis = self._analysis(
            seen.text, seen.lang or None, seen.domain or None, seen.given_aspects
        )
        return play(analysis, seen)
