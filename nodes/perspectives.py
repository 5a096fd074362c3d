"""`p_neg`, `p_imp`, `p_lit`: three agents read the text, each with its own question.

A looks for negation and contrast, B for implied aspects, C for explicit ones. They work
independently.
"""

from __future__ import annotations

from absa.nodes.agent import Agent, Update
from absa.schemas.answers import TripletsAnswer
from absa.schemas.state import State

# The perspectives in the order in which their triplets are numbered.
ORIGINS = {"p_neg": "A", "p_imp": "B", "p_lit": "C"}


def perspective(name: str) -> Agent[TripletsAnswer]:
    """The agent of one perspective."""

    def update(state: State, answer: TripletsAnswer) -> Update:
        return {"triplet_answers": {name: answer}}

    return Agent(name=name, answer=TripletsAnswer, writes="triplet_answers", update=update)


p_neg, p_imp, p_lit = PERSPECTIVES = tuple(perspective(name) for name in ORIGINS)
