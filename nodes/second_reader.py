"""`second_reader`: the embedded analyzer also reads the text, without a model call."""

from absa.nodes.agent import Agent
from absa.schemas.answers import SecondReaderAnswer
from absa.schemas.settings import SECOND_READER

second_reader = Agent(
    name=SECOND_READER,
    answer=SecondReaderAnswer,
    # Part of the hash of recorded answers. No model reads it.
    prompt="The embedded analyser reads the text. No model is asked.",
    writes="second_reader_answer",
)
