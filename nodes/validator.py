"""`validator`: structural risks of the text. Sees the text and nothing of the others."""

from nodes.agent import Agent
from schemas.answers import ValidatorAnswer

validator = Agent(
    name="validator",
    answer=ValidatorAnswer,
    writes="validator_answer",
)
