"""`atsa_review`: ATSA reviews the sentiments. Code adds the debate's provenance."""

from __future__ import annotations

from absa.nodes.agent import Agent, Update, atsa_view
from absa.nodes.provenance import Provenance, hints_view, validation_view
from absa.schemas.answers import AtsaReviewAnswer
from absa.schemas.state import State


def _update(state: State, answer: AtsaReviewAnswer) -> Update:
    source = Provenance(state)
    reviews = [source.written_into(review, review.aspect_ref) for review in answer.sentiment_review]
    return {"atsa_reviews": answer.model_copy(update={"sentiment_review": reviews})}


atsa_review = Agent(
    name="atsa_review",
    answer=AtsaReviewAnswer,
    sees=lambda state, pipeline: {
        "stage1_atsa": atsa_view(state),
        "stage1_validator": validation_view(state),
        "review_context": hints_view(state, pipeline),
    },
    writes="atsa_reviews",
    update=_update,
)
