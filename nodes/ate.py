"""`ate`: aspect term extraction. Sees only the text."""

from absa.nodes.agent import Agent
from absa.schemas.answers import AteAnswer

ate = Agent(name="ate", answer=AteAnswer, writes="ate_answer")
