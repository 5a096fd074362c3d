"""Shows the advice of memory to `cj` and the judge, once, and only at a deadlock."""

from __future__ import annotations

from typing import Any

from absa.nodes.language import language
from absa.nodes.memory import deadlock, is_deadlock, memory_context
from absa.nodes.polarity import PolarityCounter
from absa.nodes.review_context import build_context, stance_context
from absa.schemas.answers import JudgeAnswer, PersonaJudgeAnswer
from absa.schemas.memory import Observation
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State


def observations(state: State, pipeline: PipelineSettings) -> tuple[Observation, ...]:
    """The signs of deadlock in the debate so far."""
    stage1, turns, lang = state["stage1_result"], state["turns"], language(state["lang"])
    debate = pipeline.debate
    if debate.protocol == "persona":
        hints = stance_context(stage1, turns, PersonaJudgeAnswer(), lang, debate)
    else:
        weights, given = debate.hint_weights, state.get("given_aspects") is not None
        no_counts = PolarityCounter()
        hints = build_context(stage1, turns, JudgeAnswer(), lang, weights, no_counts, given=given)
    risks = state["stage1_validation"].structural_risks
    return deadlock(turns, hints, stage1, risks, state["text"], lang)


def memory_slot(state: State, pipeline: PipelineSettings) -> str | None:
    """The advice for the next speaker; None if there is none or no deadlock."""
    advice = memory_context(state.get("memory_recall"))
    again = pipeline.debate.injection.allow_multiple_injections
    if advice is None or (state.get("memory_injections") and not again):
        return None
    return advice if is_deadlock(observations(state, pipeline)) else None


def memory_shown(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
    """The slot `memory` of the shared context."""
    slot = memory_slot(state, pipeline)
    return {} if slot is None else {"memory": slot}
