"""`atsa`: aspect term sentiment analysis. Sees only the text."""

from absa.nodes.agent import Agent
from absa.schemas.answers import AtsaAnswer

atsa = Agent(name="atsa", answer=AtsaAnswer, writes="atsa_answer")
