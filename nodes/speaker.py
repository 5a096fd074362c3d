"""The debate's speakers: `epm`, `tan`, `cj` speak in edits, `analyst`, `critic`, `empath` in prose.

Any persona that a user adds speaks as its protocol does.
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

CONTESTED_NOTES: dict[DebateProtocol, str] = {
    "patch": "contested",
    "persona": "contested_prose",
}
"""What the speakers of a contested debate are asked besides their own prompt."""


def history(state: State) -> list[dict[str, Any]]:
    """What has been said so far. A plan is its maker's own."""
    return [
        {
            "agent": turn.speaker,
            **turn.answer.model_dump(
                exclude={"agent", "speaker", "planning", "reflection"}, exclude_none=True
            ),
        }
        for turn in state["turns"]
    ]


def speaker(
    name: str, protocol: DebateProtocol = "patch", when: str = "always"
) -> Agent[TurnAnswer] | Agent[PersonaTurnAnswer]:
    """The agent that speaks for a persona."""

    def sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
        persona = pipeline.debate.speakers[name]
        # A prompt of its own has introduced it already, unless the settings changed it.
        known = protocol == "patch" and persona == DEFAULT_PERSONAS[protocol].get(name)
        return {
            "persona": None if known else persona.model_dump(exclude_defaults=True),
            "stage1": stage1_view(state),
            **shared_view(state),
            "history": history(state),
            # Who has to make ends meet may be told how it went in cases like this one.
            **(memory_shown(state, pipeline) if name == "cj" else {}),
        }

    def spoken(state: State) -> int:
        return sum(turn.speaker == name for turn in state["turns"])

    def update(state: State, answer: TurnAnswer | PersonaTurnAnswer) -> Update:
        turns = state["turns"]
        said = Turn(index=len(turns), round=spoken(state), speaker=name, answer=answer)
        return {"turns": [*turns, said]}

    note = CONTESTED_NOTES[protocol] if when == "contested" else None
    if protocol == "persona":
        return Agent(
            name=name,
            answer=PersonaTurnAnswer,
            sees=sees,
            writes="turns",
            update=update,
            turn=spoken,
            prompt="persona",
            note=note,
        )
    return Agent(
        name=name,
        answer=WeighedTurnAnswer if when == "contested" else TurnAnswer,
        sees=sees,
        writes="turns",
        update=update,
        turn=spoken,
        # One that a user added has no prompt of its own.
        prompt=name if name in assets.prompt_names() else "speaker",
        note=note,
    )
