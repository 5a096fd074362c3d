"""`extract`: one joint call; `extract_again` asks the same question again."""

from dataclasses import replace

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

# A separate node of the graph. Traces and settings use the name `extract`.
extract_again = replace(
    extract, name="extract_again", asks_as="extract", temperature=lambda p: p.selective.temperature
)
