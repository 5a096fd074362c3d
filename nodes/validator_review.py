"""`validator_review`: the Validator lists the risks that remain after the reviews."""

from absa.nodes.agent import Agent
from absa.nodes.provenance import validation_view
from absa.schemas.answers import ValidatorAnswer

validator_review = Agent(
    name="validator_review",
    answer=ValidatorAnswer,
    sees=lambda state, pipeline: {
        "stage1_validator": validation_view(state),
        "ate_review": state["ate_reviews"].model_dump(exclude_none=True),
        "atsa_review": state["atsa_reviews"].model_dump(exclude_none=True),
    },
    writes="stage2_validation",
)
