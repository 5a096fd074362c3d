"""`second_reader`: the embedded analyser reads the text beside the model. It costs no call."""

from absa.nodes.agent import Agent
from absa.schemas.answers import SecondReaderAnswer
from absa.schemas.settings import SECOND_READER

second_reader = Agent(
    name=SECOND_READER,
    answer=SecondReaderAnswer,
    # What a recorded answer's hash stands for: no model reads it.
    prompt="The embedded analyser reads the text. No model is asked.",
    writes="second_reader_answer",
)
