"""The debate's speakers (`epm`, `tan`, `cj` and any persona a user adds): they speak in edits."""

from __future__ import annotations

from typing import Any

from nodes import assets
from nodes.agent import Agent, Update, stage1_view
from schemas.answers import TurnAnswer
from schemas.records import Turn
from schemas.settings import PipelineSettings
from schemas.state import State


def history(state: State) -> list[dict[str, Any]]:
    """What has been said so far."""
    return [
        {
            "agent": turn.speaker,
            "proposed_edits": [e.model_dump(exclude_none=True) for e in turn.answer.proposed_edits],
        }
        for turn in state["turns"]
    ]


def speaker(name: str) -> Agent[TurnAnswer]:
    """The agent that speaks for a persona; one without a prompt of its own shares `speaker.md`."""

    def sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
        return {
            "persona": pipeline.debate.speakers[name].model_dump(exclude_defaults=True),
            "stage1": stage1_view(state),
            "history": history(state),
        }

    def spoken(state: State) -> int:
        return sum(turn.speaker == name for turn in state["turns"])

    def update(state: State, answer: TurnAnswer) -> Update:
        turns = state["turns"]
        said = Turn(index=len(turns), round=spoken(state), speaker=name, answer=answer)
        return {"turns": [*turns, said]}

    return Agent(
        name=name,
        answer=TurnAnswer,
        sees=sees,
        update=update,
        turn=spoken,
        prompt=name if name in assets.prompt_names() else "speaker",
    )
