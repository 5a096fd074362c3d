"""`p_neg`, `p_imp`, `p_lit`: three readers of one text, each with its own question.

A reads negation and contrast, B what is implied, C what is written. None sees the others.
"""

from __future__ import annotations

from absa.nodes.agent import Agent, Update
from absa.schemas.answers import TripletsAnswer
from absa.schemas.state import State

# Who the triplets come from, in the order in which they are numbered.
ORIGINS = {"p_neg": "A", "p_imp": "B", "p_lit": "C"}


def perspective(name: str) -> Agent[TripletsAnswer]:
    """The agent of one perspective."""

    def update(state: State, answer: TripletsAnswer) -> Update:
        return {"triplet_answers": {name: answer}}

    return Agent(name=name, answer=TripletsAnswer, writes="triplet_answers", update=update)


p_neg, p_imp, p_lit = PERSPECTIVES = tuple(perspective(name) for name in ORIGINS)
