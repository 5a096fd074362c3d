"""`atsa`: aspect term sentiment analysis. Sees the text and nothing of the others."""

from nodes.agent import Agent
from schemas.answers import AtsaAnswer

atsa = Agent(
    name="atsa",
    answer=AtsaAnswer,
    sees=lambda state, pipeline: {},
    update=lambda state, answer: {"atsa_answer": answer},
)
