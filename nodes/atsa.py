"""`atsa`: aspect term sentiment analysis. Sees the text and nothing of the others."""

from absa.nodes.agent import Agent
from absa.schemas.answers import AtsaAnswer

atsa = Agent(
    name="atsa",
    answer=AtsaAnswer,
    writes="atsa_answer",
)
