"""`judge`: one patch and one consistent set of tuples out of all that was said."""

from nodes.agent import Agent, stage1_view
from nodes.speaker import history
from schemas.answers import JudgeAnswer

judge = Agent(
    name="judge",
    answer=JudgeAnswer,
    sees=lambda state, pipeline: {"stage1": stage1_view(state), "history": history(state)},
    update=lambda state, answer: {"judge_answer": answer},
)
