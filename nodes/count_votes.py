"""`count_votes`: decides on each flagged tuple by the votes of the three reviewers.

A reviewer's vote is its first action on the tuple other than FLAG. No action, or only FLAG, counts
as KEEP. A FLAG marks the tuple in every case.

| case             | votes                          | action                                       |
|------------------|--------------------------------|----------------------------------------------|
| `majority`       | two or more are equal          | that vote                                    |
| `merge_refused`  | … a MERGE of tuples that had   | KEEP + FLAG                                  |
|                  | different polarities           |                                              |
| `flip_drop_keep` | one FLIP, one DROP, one KEEP   | FLIP if its reason is about structure        |
|                  |                                | (`STRUCTURAL`), else KEEP + FLAG             |
| `no_majority`    | anything else                  | KEEP + FLAG, or the model's action (`asked`) |

Votes are equal if their actions, new values and, for a MERGE, targets are equal. With
`conflict_review.arbiter: llm` the model is asked about the tuples without a majority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from absa.nodes.conflict_reviewers import ACTORS, checked
from absa.nodes.merge_candidates import flagged_ids
from absa.nodes.polarity import PolarityCounter
from absa.schemas.records import ActionType, ArbiterAction, Candidate, DiscardedAction, ReviewAction
from absa.schemas.state import ArbiterUpdate, State

STRUCTURAL = ("NEGATION_SCOPE", "CONTRAST_CLAUSE", "STRUCTURAL_INCONSISTENT")
UNCERTAIN = "POLARITY_UNCERTAIN"


class Vote(NamedTuple):
    """A reviewer's vote on one tuple; equal votes compare equal."""

    action: ActionType
    value: str | None = None
    # The targets of a MERGE, in a fixed order.
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        merged = "+".join(self.targets)
        return ":".join(part for part in (self.action, merged, self.value) if part)

    @property
    def new_value(self) -> dict[str, str] | None:
        """The new value in the form of an action."""
        names = {"FLIP": "polarity", "MERGE": "normalized_ref"}
        return {names[self.action]: self.value} if self.value is not None else None


KEEP = Vote("KEEP")


def count_votes(state: State) -> ArbiterUpdate:
    """Check the reviewers' actions and decide on every flagged tuple."""
    candidates = {c.tuple_id: c for c in state["candidates"]}
    flagged = flagged_ids(state["conflict_flags"], state["validator_risks"])
    has_user_aspects = state.get("given_aspects") is not None
    counter = PolarityCounter()
    actions: list[ReviewAction] = []
    discarded: list[DiscardedAction] = []
    for name, actor in ACTORS.items():
        answered = state["review_answers"][name].review_actions
        accepted, refused = checked(
            answered, actor, candidates, flagged, counter, given=has_user_aspects
        )
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
    about_it = [a for a in actions if tuple_id in a.target_tuple_ids]
    first = {
        actor: first_vote([a for a in about_it if a.actor == actor]) for actor in ACTORS.values()
    }
    votes = {actor: vote_of(action) for actor, action in first.items()}

    def reason_for(vote: Vote) -> str | None:
        reasons = (a.reason_code for actor, a in first.items() if a and votes[actor] == vote)
        return next(reasons, None)

    cast = list(votes.values())
    wanted = next((vote for vote in cast if cast.count(vote) > 1), None)
    flip = next((vote for vote in cast if vote.action == "FLIP"), None)
    if wanted is not None and not mixes_polarities(wanted, candidates):
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
        flag=decided is None or is_marked(tuple_id, actions),
        applied=changes(vote, candidates[tuple_id]),
        votes={actor: str(vote) for actor, vote in votes.items()},
    )


def is_marked(tuple_id: str, actions: Iterable[ReviewAction]) -> bool:
    """Whether a reviewer flagged the tuple."""
    return any(a.action_type == "FLAG" and tuple_id in a.target_tuple_ids for a in actions)


def first_vote(actions: Sequence[ReviewAction]) -> ReviewAction | None:
    """The first action other than FLAG."""
    return next((a for a in actions if a.action_type != "FLAG"), None)


def vote_of(action: ReviewAction | None) -> Vote:
    """The vote of an action; no action is a KEEP."""
    if action is None:
        return KEEP
    value = next(iter(action.new_value.values())) if action.new_value else None
    targets = tuple(sorted(action.target_tuple_ids)) if action.action_type == "MERGE" else ()
    return Vote(action.action_type, value, targets)


def mixes_polarities(vote: Vote, candidates: Mapping[str, Candidate]) -> bool:
    """Whether a MERGE would combine tuples with different polarities."""
    return len({candidates[tuple_id].polarity for tuple_id in vote.targets}) > 1


def changes(vote: Vote, candidate: Candidate) -> bool:
    """Whether the vote would change the tuple."""
    now = {"FLIP": candidate.polarity, "MERGE": candidate.aspect_ref}
    return vote.action == "DROP" or (vote.action in now and now[vote.action] != vote.value)
