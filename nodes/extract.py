"""`extract`: everything in one call, for the baselines that a debate is held against."""

from absa.nodes.agent import Agent
from absa.schemas.answers import ExtractAnswer

extract = Agent(
    name="extract",
    answer=ExtractAnswer,
    writes="extract_answers",
    update=lambda state, answer: {"extract_answers": {str(state.get("call_number", 0)): answer}},
    turn=lambda state: state.get("call_number", 0),
    temperature=lambda p: p.vote.temperature if p.protocol == "vote" else None,
    repeats=True,
)
