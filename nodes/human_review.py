"""`human_review`: a person is asked before the result is final.

The reasons are those of `absa.nodes.doubts`; `always` stands where there are none, but every text
is shown. A graph without a checkpointer cannot wait. There the text is finished without a person
and marked as pending.
"""

from __future__ import annotations

from langgraph.types import interrupt

from absa.nodes.doubts import doubts
from absa.nodes.finalize import final_output
from absa.nodes.human_answer import read_answer
from absa.nodes.human_question import question_of
from absa.schemas.human import Doubt, HumanAnswer
from absa.schemas.output import HumanReview
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import HumanUpdate, State

_ALWAYS = Doubt(code="always", detail="every text is shown to a person")


def doubts_of_state(state: State, pipeline: PipelineSettings) -> tuple[Doubt, ...]:
    """Why a person is to be asked, under these settings; nothing: nobody is."""
    if pipeline.human_review == "off":
        return ()
    found = doubts(final_output(state, pipeline))
    return found or ((_ALWAYS,) if pipeline.human_review == "always" else ())


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
