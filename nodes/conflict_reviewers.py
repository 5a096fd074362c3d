"""`review_a`, `review_b`, `review_c`: actions on flagged tuples, and the checks of them.

A (negation and contrast), B (implied aspects, merging) and C (explicit evidence) see the same
candidates and flags, but not each other's actions. An action is discarded and recorded for the
first reason that applies:

| the action                                               | why                    |
|----------------------------------------------------------|------------------------|
| is not DROP, MERGE, FLIP, KEEP or FLAG                   | `unknown_action`       |
| has no reason code, or one that is not on the list       | `unknown_reason_code`  |
| has no target                                            | `no_target`            |
| has a target that is not a candidate                     | `unknown_tuple`        |
| has a target that is not flagged                         | `not_under_review`     |
| is a MERGE of fewer than two tuples                      | `merge_needs_two`      |
| is a MERGE without `normalized_ref`                      | `merge_needs_ref`      |
| is a FLIP without a valid polarity                       | `flip_needs_polarity`  |

With given aspects a MERGE is discarded, too (`aspect_given`), because none may disappear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

from absa.nodes.agent import Agent, Update
from absa.nodes.memory import memory_context
from absa.nodes.polarity import PolarityCounter
from absa.schemas.answers import (
    REASON_CODES,
    REVIEW_ACTIONS,
    NewValue,
    ReviewActionItem,
    ReviewActionsAnswer,
)
from absa.schemas.records import ActionType, DiscardedAction, ReviewAction
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State

ACTORS = {"review_a": "A", "review_b": "B", "review_c": "C"}
_SHOWN = {
    *("tuple_id", "aspect_term", "aspect_ref", "category", "polarity"),
    *("evidence", "span", "confidence", "origin_agent"),
}


def review_view(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
    """The view of reviewers and arbiter: candidates, conflicts and risks."""
    return {
        "candidates": [
            c.model_dump(include=_SHOWN, exclude_none=True) for c in state["candidates"]
        ],
        "conflict_flags": [flag.model_dump(mode="json") for flag in state["conflict_flags"]],
        "validator_risks": [risk.model_dump() for risk in state["validator_risks"]],
    }


def advice(state: State) -> str | None:
    """The advice of memory for the reviewers."""
    return memory_context(state.get("memory_recall"))


def advised(state: State) -> tuple[str, ...]:
    """The calls that saw the advice of memory."""
    return tuple(f"{name}#0" for name in state["review_answers"]) if advice(state) else ()


def reviewer(name: str) -> Agent[ReviewActionsAnswer]:
    """The agent of one reviewer."""

    def sees(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
        return {**review_view(state, pipeline), "memory_context": advice(state)}

    def update(state: State, answer: ReviewActionsAnswer) -> Update:
        return {"review_answers": {name: answer}}

    return Agent(
        name=name, answer=ReviewActionsAnswer, sees=sees, writes="review_answers", update=update
    )


review_a, review_b, review_c = REVIEWERS = tuple(reviewer(name) for name in ACTORS)


def checked(
    items: Iterable[ReviewActionItem],
    actor: str,
    candidates: Collection[str],
    open_ids: Collection[str],
    counter: PolarityCounter,
    *,
    given: bool = False,
) -> tuple[list[ReviewAction], list[DiscardedAction]]:
    """The valid actions, and the discarded ones with their reasons."""
    accepted: list[ReviewAction] = []
    discarded: list[DiscardedAction] = []
    for item in items:
        targets = tuple(dict.fromkeys(item.target_tuple_ids))
        value = item.new_value or NewValue()
        why = _refusal(item, targets, candidates, open_ids)
        new_value: dict[str, str] | None = None
        if why is None and item.action_type == "MERGE" and given:
            why = "aspect_given"
        elif why is None and item.action_type == "MERGE":
            name = (value.normalized_ref or "").strip()
            new_value = {"normalized_ref": name} if name else None
            why = None if name else "merge_needs_ref"
        elif why is None and item.action_type == "FLIP":
            polarity = counter.read(value.polarity)
            new_value = {"polarity": polarity} if polarity else None
            why = None if polarity else "flip_needs_polarity"
        if why is not None:
            shown = item.model_dump(mode="json", exclude={"actor"})
            discarded.append(DiscardedAction(actor=actor, why=why, action=shown))
            continue
        accepted.append(
            ReviewAction(
                action_type=cast(ActionType, item.action_type),
                target_tuple_ids=targets,
                new_value=new_value,
                reason_code=item.reason_code,
                actor=actor,
            )
        )
    return accepted, discarded


def _refusal(
    item: ReviewActionItem,
    targets: tuple[str, ...],
    candidates: Collection[str],
    open_ids: Collection[str],
) -> str | None:
    if item.action_type not in REVIEW_ACTIONS:
        return "unknown_action"
    if item.reason_code not in REASON_CODES:
        return "unknown_reason_code"
    if not targets:
        return "no_target"
    if any(t not in candidates for t in targets):
        return "unknown_tuple"
    if any(t not in open_ids for t in targets):
        return "not_under_review"
    if item.action_type == "MERGE" and len(targets) < 2:
        return "merge_needs_two"
    return None
