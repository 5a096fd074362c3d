"""`validator`: structural risks of the text. Sees the text and nothing of the others."""

from nodes.agent import Agent
from schemas.answers import ValidatorAnswer

validator = Agent(
    name="validator",
    answer=ValidatorAnswer,
    sees=lambda state, pipeline: {},
    update=lambda state, answer: {"validator_answer": answer},
)
