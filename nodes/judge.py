"""`judge`: summarises the debate. Its answer type depends on the debate protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from absa.nodes.agent import Agent, Variants, shared_view, stage1_view
from absa.nodes.injection import memory_shown
from absa.nodes.speaker import history
from absa.schemas.answers import JudgeAnswer, PersonaJudgeAnswer, WeighedJudgeAnswer
from absa.schemas.settings import DebateProtocol, PipelineSettings
from absa.schemas.state import State


def _sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
    return {
        "stage1": stage1_view(state),
        **shared_view(state),
        "history": history(state),
        **memory_shown(state, pipeline),
    }


_judge: Agent[Any] = Agent(name="judge", answer=JudgeAnswer, sees=_sees, writes="judge_answer")

JUDGES: dict[DebateProtocol, Agent[Any]] = {
    # One patch and one consistent set of tuples out of all edits.
    "patch": _judge,
    # A winner and a consensus.
    "persona": replace(_judge, answer=PersonaJudgeAnswer, prompt="persona_judge"),
}
CONTESTED_JUDGES = {
    **JUDGES,
    "patch": replace(_judge, answer=WeighedJudgeAnswer, note="contested_judge"),
}

judge = Variants(
    name="judge",
    writes="judge_answer",
    under=lambda pipeline: (CONTESTED_JUDGES if pipeline.debate.when == "contested" else JUDGES)[
        pipeline.debate.protocol
    ],
)
