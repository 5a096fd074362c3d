"""`human_review`: a person is asked before the result is final.

| reason                 | where                                                                  |
|------------------------|------------------------------------------------------------------------|
| `unresolved_conflicts` | the debate's judge left them (in the persona debate: its disagreements)|
| `arbiter_flagged`      | the arbiter, or a reviewer, marked a tuple as uncertain                |
| `adoption_blocked`     | Stage 2 was not adopted because of a conflict (`conflict_blocked`)     |
| `always`               | none of these, but every text is shown                                 |

A graph without a checkpointer cannot wait. There the text is finished without a person and marked
as pending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from langgraph.types import interrupt

from absa.nodes.finalize import final_output
from absa.nodes.human_answer import read_answer
from absa.nodes.human_question import question_of
from absa.schemas.answers import DebateSummary, PersonaJudgeAnswer
from absa.schemas.human import Doubt, HumanAnswer
from absa.schemas.output import FinalOutput, HumanReview
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import HumanUpdate, State

_BLOCKED = "conflict_blocked"
_ALWAYS = Doubt(code="always", detail="every text is shown to a person")


def doubts_of_state(state: State, pipeline: PipelineSettings) -> tuple[Doubt, ...]:
    """Why a person is to be asked, under these settings; nothing: nobody is."""
    if pipeline.human_review == "off":
        return ()
    marked = {a.target_tuple_ids[0] for a in state.get("arbiter_actions", ()) if a.flag}
    names = (c.aspect_term for c in state.get("candidates", ()) if c.tuple_id in marked)
    found = tuple(_doubts(state["judge_answer"], names, state["adoption"].reason))
    return found or ((_ALWAYS,) if pipeline.human_review == "always" else ())


def doubts_of_output(output: FinalOutput) -> tuple[Doubt, ...]:
    """The same from a finished output, whatever the settings of its run were."""
    meta = output.meta
    names = (c.aspect_term for c in meta.candidates if c.tuple_id in meta.flagged_tuple_ids)
    summary = output.debate.summary if output.debate else None
    return tuple(_doubts(summary, names, meta.adopt_reason))


def _doubts(
    summary: DebateSummary | None, marked: Iterable[str], adopt_reason: str
) -> Iterator[Doubt]:
    if open_points := _left_open(summary):
        detail = f"the debate left open: {'; '.join(open_points)}"
        yield Doubt(code="unresolved_conflicts", detail=detail)
    if names := list(dict.fromkeys(marked)):
        yield Doubt(code="arbiter_flagged", detail=f"marked as uncertain: {', '.join(names)}")
    if adopt_reason == _BLOCKED:
        detail = "Stage 2 was blocked: its tuples contradict the debate's, or each other"
        yield Doubt(code="adoption_blocked", detail=detail)


def _left_open(summary: DebateSummary | None) -> list[str]:
    if summary is None:
        return []
    points = (
        summary.key_disagreements
        if isinstance(summary, PersonaJudgeAnswer)
        else summary.unresolved_conflicts
    )
    return [p if isinstance(p, str) else json.dumps(p, ensure_ascii=False) for p in points]


def human_review(state: State, pipeline: PipelineSettings) -> HumanUpdate:
    """Show a person the output as it would be without one, and ask until the answer can be used.

    Every question is an interrupt of its own. LangGraph waits, not this function.
    """
    draft = final_output(state, pipeline)
    question = question_of(draft, doubts_of_state(state, pipeline))
    while True:
        reply = interrupt(question.model_dump(mode="json"), response_schema=_ANSWER_SCHEMA)
        answer, problems = read_answer(reply, draft)
        if answer is not None:
            return {"human_answer": answered(answer, question.reasons)}
        question = question.model_copy(update={"problems": tuple(problems)})


# Plain JSON schema, not the model: LangGraph would raise for an answer that does not fit it.
_ANSWER_SCHEMA = HumanAnswer.model_json_schema()


def pending_review(state: State, pipeline: PipelineSettings) -> HumanUpdate:
    """The node `human_review` of a graph that cannot wait: marks the text as pending."""
    reasons = doubts_of_state(state, pipeline)
    return {"human_answer": HumanReview(status="pending", reasons=reasons)}


def answered(answer: HumanAnswer, reasons: tuple[Doubt, ...]) -> HumanReview:
    """The decisions of a person, to be laid over the output."""
    return HumanReview(
        status="reviewed",
        reasons=reasons,
        reviewer=answer.reviewer,
        note=answer.note,
        decisions=answer.decisions,
    )
