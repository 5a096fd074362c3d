"""`validator`: structural risks of the text. Sees only the text."""

from absa.nodes.agent import Agent
from absa.schemas.answers import ValidatorAnswer

validator = Agent(name="validator", answer=ValidatorAnswer, writes="validator_answer")
