"""`ate_review`: ATE reviews the aspects. Code adds the debate's provenance."""

from __future__ import annotations

from absa.nodes.agent import Agent, Update, ate_view
from absa.nodes.provenance import Provenance, hints_view, validation_view
from absa.schemas.answers import AteReviewAnswer
from absa.schemas.state import State


def _update(state: State, answer: AteReviewAnswer) -> Update:
    source = Provenance(state)
    reviews = [source.written_into(review, review.term) for review in answer.aspect_review]
    return {"ate_reviews": answer.model_copy(update={"aspect_review": reviews})}


ate_review = Agent(
    name="ate_review",
    answer=AteReviewAnswer,
    sees=lambda state, pipeline: {
        "stage1_ate": ate_view(state),
        "stage1_validator": validation_view(state),
        "review_context": hints_view(state, pipeline),
    },
    writes="ate_reviews",
    update=_update,
)
