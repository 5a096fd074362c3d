"""`arbiter`: decides on every flagged tuple, by the votes or with a model.

With `conflict_review.arbiter: rules` the votes alone decide (`nodes/count_votes.py` has the table).
With `llm` the node `count_votes` runs before this one, and the model is asked in one call about all
tuples without a majority. If its answer does not pass the reviewers' checks, the tuple stays KEEP +
FLAG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from absa.nodes.agent import Agent, Update
from absa.nodes.conflict_reviewers import checked, review_view
from absa.nodes.count_votes import (
    changes,
    count_votes,
    first_vote,
    is_marked,
    mixes_polarities,
    vote_of,
)
from absa.nodes.polarity import PolarityCounter
from absa.schemas.answers import ReviewActionsAnswer
from absa.schemas.records import ArbiterAction, Candidate, ReviewAction
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import ArbiterUpdate, State


def arbiter(state: State) -> ArbiterUpdate:
    """Decide by the votes."""
    return count_votes(state)


def undecided(state: State) -> list[str]:
    """The tuples without a majority."""
    return [a.target_tuple_ids[0] for a in state["arbiter_actions"] if a.case == "no_majority"]


def _sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
    return {
        **review_view(state, pipeline),
        "review_actions": [
            a.model_dump(mode="json", exclude_none=True) for a in state["review_actions"]
        ],
        "undecided": undecided(state),
    }


def _update(state: State, answer: ReviewActionsAnswer) -> Update:
    candidates = {c.tuple_id: c for c in state["candidates"]}
    counter, given = PolarityCounter(), state.get("given_aspects") is not None
    actions, discarded = checked(
        answer.review_actions, "arbiter", candidates, undecided(state), counter, given=given
    )
    return {
        "arbiter_actions": [
            _asked(a, actions, state["review_actions"], candidates)
            if a.case == "no_majority"
            else a
            for a in state["arbiter_actions"]
        ],
        "discarded_actions": [*state["discarded_actions"], *discarded],
        "counts": {**state["counts"], "arbiter": counter.counts()},
    }


def _asked(
    action: ArbiterAction,
    actions: Sequence[ReviewAction],
    reviews: Sequence[ReviewAction],
    candidates: Mapping[str, Candidate],
) -> ArbiterAction:
    """The model's action on a tuple; without a valid one, KEEP + FLAG."""
    (tuple_id,) = action.target_tuple_ids
    action_of_model = first_vote([a for a in actions if tuple_id in a.target_tuple_ids])
    vote = vote_of(action_of_model)
    if action_of_model is None or mixes_polarities(vote, candidates):
        return action
    return action.model_copy(
        update={
            "action_type": vote.action,
            "new_value": vote.new_value,
            "reason_code": action_of_model.reason_code,
            "case": "asked",
            "flag": is_marked(tuple_id, (*reviews, *actions)),
            "applied": changes(vote, candidates[tuple_id]),
        }
    )


asking_arbiter = Agent(
    name="arbiter",
    answer=ReviewActionsAnswer,
    sees=_sees,
    writes="arbiter_actions",
    update=_update,
    prompt="review_arbiter_action",
)
