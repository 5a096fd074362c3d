"""The debate's speakers: `epm`, `tan`, `cj` write edits; `analyst`, `critic`, `empath` write prose.

Personas that a user adds follow their protocol.
"""

from __future__ import annotations

from typing import Any

from absa.nodes import assets
from absa.nodes.agent import Agent, Update, shared_view, stage1_view
from absa.nodes.injection import memory_shown
from absa.schemas.answers import PersonaTurnAnswer, TurnAnswer, WeighedTurnAnswer
from absa.schemas.records import Turn
from absa.schemas.settings import DEFAULT_PERSONAS, DebateProtocol, PipelineSettings
from absa.schemas.state import State

CONTESTED_NOTES: dict[DebateProtocol, str] = {"patch": "contested", "persona": "contested_prose"}
"""The additional prompt of the speakers in a contested debate."""


def history(state: State) -> list[dict[str, Any]]:
    """The previous turns, without the plans of other speakers."""
    return [
        {
            "agent": turn.speaker,
            **turn.answer.model_dump(
                exclude={"agent", "speaker", "planning", "reflection"}, exclude_none=True
            ),
        }
        for turn in state["turns"]
    ]


def speaker(name: str, protocol: DebateProtocol = "patch", when: str = "always") -> Agent[Any]:
    """The agent of a persona."""

    def sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
        persona = pipeline.debate.speakers[name]
        # Its own prompt introduces it already, unless the settings changed the persona.
        is_shipped = protocol == "patch" and persona == DEFAULT_PERSONAS[protocol].get(name)
        return {
            "persona": None if is_shipped else persona.model_dump(exclude_defaults=True),
            "stage1": stage1_view(state),
            **shared_view(state),
            "history": history(state),
            # The speaker that consolidates the debate can see the advice of memory.
            **(memory_shown(state, pipeline) if name == "cj" else {}),
        }

    def spoken(state: State) -> int:
        return sum(turn.speaker == name for turn in state["turns"])

    def update(state: State, answer: TurnAnswer | PersonaTurnAnswer) -> Update:
        turns = state["turns"]
        turn = Turn(index=len(turns), round=spoken(state), speaker=name, answer=answer)
        return {"turns": [*turns, turn]}

    contested = when == "contested"
    own_prompt = name if name in assets.prompt_names() else "speaker"
    answer = PersonaTurnAnswer if protocol == "persona" else TurnAnswer
    return Agent(
        name=name,
        answer=WeighedTurnAnswer if contested and protocol == "patch" else answer,
        sees=sees,
        writes="turns",
        update=update,
        turn=spoken,
        # A persona that a user added has no prompt of its own.
        prompt="persona" if protocol == "persona" else own_prompt,
        note=CONTESTED_NOTES[protocol] if contested else None,
    )
