"""`human_review`: asks a person before the result is final.

The reasons are those of `absa.nodes.doubts`. The reason `always` is used if there is none but every
text is shown. A graph without a checkpointer cannot wait. It finishes the text without a person and
marks it as pending.
"""

from __future__ import annotations

from langgraph.types import interrupt

from absa.nodes.doubts import doubts
from absa.nodes.finalize import final_output
from absa.nodes.human_page import Postponed, read_reply, request
from absa.nodes.human_question import question_of
from absa.schemas.human import Doubt, HumanAnswer
from absa.schemas.output import HumanReview
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import HumanUpdate, State

_ALWAYS = Doubt(code="always", detail="every text is shown to a person")


def doubts_of_state(state: State, pipeline: PipelineSettings) -> tuple[Doubt, ...]:
    """The reasons to ask a person under these settings; empty: no question."""
    if pipeline.human_review == "off":
        return ()
    reasons = doubts(final_output(state, pipeline))
    return reasons or ((_ALWAYS,) if pipeline.human_review == "always" else ())


def human_review(state: State, pipeline: PipelineSettings) -> HumanUpdate:
    """Show a person the agents' output, and repeat the question until the answer is valid.

    Each question is a separate interrupt. LangGraph waits, not this function.
    """
    draft = final_output(state, pipeline)
    question = question_of(draft, doubts_of_state(state, pipeline))
    while True:
        value = {**question.model_dump(mode="json"), **request(question)}
        reply = interrupt(value, response_schema=_ANSWER_SCHEMA)
        answer, problems = read_reply(reply, draft)
        if isinstance(answer, Postponed):
            pending = HumanReview(status="pending", reasons=question.reasons, note=answer.note)
            return {"human_answer": pending}
        if answer is not None:
            return {"human_answer": answered(answer, question.reasons)}
        question = question.model_copy(update={"problems": tuple(problems)})


# A plain JSON schema instead of the model: LangGraph would raise an error for an invalid answer.
_ANSWER_SCHEMA = HumanAnswer.model_json_schema()


def pending_review(state: State, pipeline: PipelineSettings) -> HumanUpdate:
    """`human_review` in a graph that cannot wait: mark the text as pending."""
    reasons = doubts_of_state(state, pipeline)
    return {"human_answer": HumanReview(status="pending", reasons=reasons)}


def answered(answer: HumanAnswer, reasons: tuple[Doubt, ...]) -> HumanReview:
    """The state value for the decisions of a person."""
    return HumanReview(
        status="reviewed",
        reasons=reasons,
        reviewer=answer.reviewer,
        note=answer.note,
        decisions=answer.decisions,
    )
