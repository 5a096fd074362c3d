"""`arbiter`: three reviewers' votes on a flagged tuple become one action.

A reviewer's vote is its first action on the tuple other than FLAG; silence, or FLAG alone, is a
KEEP. A FLAG marks the tuple, whatever wins.

| case             | votes                          | action                                       |
|------------------|--------------------------------|----------------------------------------------|
| `majority`       | two or more are equal          | that one                                     |
| `merge_refused`  | … a MERGE of tuples that had   | KEEP + FLAG                                  |
|                  | different polarities           |                                              |
| `flip_drop_keep` | one FLIP, one DROP, one KEEP   | FLIP if its reason is about structure        |
|                  |                                | (`STRUCTURAL`), else KEEP + FLAG             |
| `no_majority`    | anything else                  | KEEP + FLAG, or what the model says (`asked`)|

Votes are equal if action and new value are and, for a MERGE, the targets. The model is asked only
with `conflict_review.arbiter: llm`, in one call for all tuples without a majority; an answer that
does not pass the reviewers' checks leaves KEEP + FLAG.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nodes.agent import Agent, Update
from nodes.conflict_reviewers import ACTORS, checked, review_view
from nodes.merge_candidates import flagged_ids
from nodes.polarity import PolarityCounter
from schemas.answers import ReviewActionsAnswer
from schemas.records import (
    ActionType,
    ArbiterAction,
    Candidate,
    DiscardedAction,
    ReviewAction,
)
from schemas.settings import PipelineSettings
from schemas.state import ArbiterUpdate, State

STRUCTURAL = ("NEGATION_SCOPE", "CONTRAST_CLAUSE", "STRUCTURAL_INCONSISTENT")
UNCERTAIN = "POLARITY_UNCERTAIN"


class Vote(NamedTuple):
    """What a reviewer wants done with one tuple; equal votes are equal tuples."""

    action: ActionType
    value: str | None = None
    # Of a MERGE, in a fixed order.
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The vote in short, as the output shows it."""
        merged = "+".join(self.targets)
        return ":".join(part for part in (self.action, merged, self.value) if part)

    @property
    def new_value(self) -> dict[str, str] | None:
        """The value as an action carries it."""
        names = {"FLIP": "polarity", "MERGE": "normalized_ref"}
        return {names[self.action]: self.value} if self.value is not None else None


KEEP = Vote("KEEP")


def arbiter(state: State) -> ArbiterUpdate:
    """Check what the reviewers said and decide about every flagged tuple."""
    candidates = {c.tuple_id: c for c in state["candidates"]}
    flagged = flagged_ids(state["conflict_flags"], state["validator_risks"])
    given = state.get("given_aspects") is not None
    counter = PolarityCounter()
    actions: list[ReviewAction] = []
    discarded: list[DiscardedAction] = []
    for name, actor in ACTORS.items():
        said = state["review_answers"][name].review_actions
        accepted, refused = checked(said, actor, candidates, flagged, counter, given=given)
        actions += accepted
        discarded += refused
    return {
        "review_actions": actions,
        "discarded_actions": discarded,
        "arbiter_actions": [
            arbitrate(tuple_id, actions, candidates)
            for tuple_id in candidates
            if tuple_id in flagged
        ],
        "counts": {**state["counts"], "reviews": counter.counts()},
    }


def arbitrate(
    tuple_id: str, actions: Sequence[ReviewAction], candidates: Mapping[str, Candidate]
) -> ArbiterAction:
    """The action on one tuple, by the table above."""
    mine = {
        actor: [a for a in actions if a.actor == actor and tuple_id in a.target_tuple_ids]
        for actor in ACTORS.values()
    }
    first = {actor: _first_vote(said) for actor, said in mine.items()}
    votes = {actor: _vote(action) for actor, action in first.items()}

    def reason_for(vote: Vote) -> str | None:
        reasons = (a.reason_code for actor, a in first.items() if a and votes[actor] == vote)
        return next(reasons, None)

    cast = list(votes.values())
    wanted = next((vote for vote in cast if cast.count(vote) > 1), None)
    flip = next((vote for vote in cast if vote.action == "FLIP"), None)
    if wanted is not None and not _mixes_polarities(wanted, candidates):
        case, decided, reason = "majority", wanted, reason_for(wanted)
    elif wanted is not None:
        case, decided, reason = "merge_refused", None, UNCERTAIN
    elif flip is not None and {v.action for v in cast} == {"FLIP", "DROP", "KEEP"}:
        structural = reason_for(flip) in STRUCTURAL
        case, decided = "flip_drop_keep", flip if structural else None
        reason = reason_for(flip) if structural else UNCERTAIN
    else:
        case, decided, reason = "no_majority", None, UNCERTAIN
    vote = decided or KEEP
    return ArbiterAction(
        action_type=vote.action,
        target_tuple_ids=(tuple_id,),
        new_value=vote.new_value,
        reason_code=reason,
        actor="arbiter",
        case=case,
        flag=decided is None or _marked(tuple_id, actions),
        applied=_changes(vote, candidates[tuple_id]),
        votes={actor: str(vote) for actor, vote in votes.items()},
    )


def _marked(tuple_id: str, actions: Iterable[ReviewAction]) -> bool:
    return any(a.action_type == "FLAG" and tuple_id in a.target_tuple_ids for a in actions)


def _first_vote(said: Sequence[ReviewAction]) -> ReviewAction | None:
    return next((a for a in said if a.action_type != "FLAG"), None)


def _vote(action: ReviewAction | None) -> Vote:
    if action is None:
        return KEEP
    value = next(iter(action.new_value.values())) if action.new_value else None
    targets = tuple(sorted(action.target_tuple_ids)) if action.action_type == "MERGE" else ()
    return Vote(action.action_type, value, targets)


def _mixes_polarities(vote: Vote, candidates: Mapping[str, Candidate]) -> bool:
    """Whether a MERGE would make one of tuples that the perspectives felt differently about."""
    return len({candidates[tuple_id].polarity for tuple_id in vote.targets}) > 1


def _changes(vote: Vote, candidate: Candidate) -> bool:
    """Whether the vote, carried out, can be seen in the tuple."""
    now = {"FLIP": candidate.polarity, "MERGE": candidate.aspect_ref}
    return vote.action == "DROP" or (vote.action in now and now[vote.action] != vote.value)


# With a model ------------------------------------------------------------------------------------


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
    counter = PolarityCounter()
    actions, discarded = checked(
        answer.review_actions,
        "arbiter",
        candidates,
        undecided(state),
        counter,
        given=state.get("given_aspects") is not None,
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
    said: Sequence[ReviewAction],
    reviews: Sequence[ReviewAction],
    candidates: Mapping[str, Candidate],
) -> ArbiterAction:
    """What the model says about a tuple; where it says nothing usable, KEEP + FLAG stays."""
    (tuple_id,) = action.target_tuple_ids
    found = _first_vote([a for a in said if tuple_id in a.target_tuple_ids])
    vote = _vote(found)
    if found is None or _mixes_polarities(vote, candidates):
        return action
    return action.model_copy(
        update={
            "action_type": vote.action,
            "new_value": vote.new_value,
            "reason_code": found.reason_code,
            "case": "asked",
            "flag": _marked(tuple_id, (*reviews, *said)),
            "applied": _changes(vote, candidates[tuple_id]),
        }
    )


asking_arbiter = Agent(
    name="arbiter",
    answer=ReviewActionsAnswer,
    sees=_sees,
    update=_update,
    prompt="review_arbiter_action",
)
