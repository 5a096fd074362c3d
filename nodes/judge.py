"""`judge`: summarises the debate. Its answer type depends on the debate protocol."""

from __future__ import annotations

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


JUDGES: dict[DebateProtocol, Agent[Any]] = {
    # One patch and one consistent set of tuples out of all edits.
    "patch": Agent(name="judge", answer=JudgeAnswer, sees=_sees, writes="judge_answer"),
    # A winner and a consensus.
    "persona": Agent(
        name="judge",
        answer=PersonaJudgeAnswer,
        sees=_sees,
        writes="judge_answer",
        prompt="persona_judge",
    ),
}

CONTESTED_JUDGES: dict[DebateProtocol, Agent[Any]] = {
    "patch": Agent(
        name="judge",
        answer=WeighedJudgeAnswer,
        sees=_sees,
        writes="judge_answer",
        note="contested_judge",
    ),
    "persona": Agent(
        name="judge",
        answer=PersonaJudgeAnswer,
        sees=_sees,
        writes="judge_answer",
        prompt="persona_judge",
    ),
}

judge = Variants(
    name="judge",
    writes="judge_answer",
    under=lambda pipeline: (CONTESTED_JUDGES if pipeline.debate.when == "contested" else JUDGES)[
        pipeline.debate.protocol
    ],
)
