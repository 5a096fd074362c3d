"""The result of a conflict review: applies the arbiter's actions and merges duplicates.

Of several tuples with the same aspect and polarity, the best supported one is kept: first a term in
the text, then evidence in the text, then the higher confidence, then the lower number. A given
aspect without a tuple is backfilled as neutral.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from absa.nodes.board import backfilled
from absa.nodes.conflict_reviewers import advised
from absa.nodes.decision import Decision
from absa.nodes.language import Language, language
from absa.nodes.merge_candidates import aspect_of
from absa.nodes.stage1 import given_records
from absa.nodes.text import grounded
from absa.schemas.records import (
    ArbiterAction,
    AspectRecord,
    Candidate,
    ConflictFlag,
    Sentiment,
    StageResult,
)
from absa.schemas.state import State


def decided_by_arbiter(state: State) -> Decision:
    """The candidates before and after the arbiter's actions."""
    text, lang = state["text"], language(state["lang"])
    candidates, actions = state["candidates"], state["arbiter_actions"]
    conflicts, risks = state["conflict_flags"], state["validator_risks"]
    reviewed = carry_out(candidates, actions)
    user_aspects = given_records(state.get("given_aspects") or [], text, lang)
    final = stage_result(collapse(reviewed, text, lang), user_aspects)
    corrected = any(a.applied for a in actions)
    return Decision(
        stage1=stage_result(candidates, user_aspects),
        stage2=final if state["review_answers"] else None,
        final=final,
        conflict_resolved=conflicts_resolved(conflicts, reviewed),
        shown_memory=advised(state),
        meta={
            "adopt_decision": "adopted" if corrected else "not_adopted",
            "adopt_reason": "review_applied" if corrected else "low_signal",
            "candidates": tuple(candidates),
            "conflict_flags": tuple(conflicts),
            "validator_risks": tuple(risks),
            "review_actions": tuple(state["review_actions"]),
            "discarded_actions": tuple(state["discarded_actions"]),
            "arbiter_actions": tuple(actions),
            "flagged_tuple_ids": tuple(a.target_tuple_ids[0] for a in actions if a.flag),
            "stage1_risks": len(risks),
        },
    )


def carry_out(candidates: Iterable[Candidate], actions: Iterable[ArbiterAction]) -> list[Candidate]:
    """The candidates after the arbiter's actions."""
    by_id = {a.target_tuple_ids[0]: a for a in actions}
    left: list[Candidate] = []
    for candidate in candidates:
        action = by_id.get(candidate.tuple_id)
        match action.action_type if action else "KEEP":
            case "DROP":
                continue
            case "FLIP" if action and action.new_value:
                candidate = candidate.model_copy(update={"polarity": action.new_value["polarity"]})
            case "MERGE" if action and action.new_value:
                candidate = candidate.model_copy(
                    update={"aspect_ref": action.new_value["normalized_ref"]}
                )
        left.append(candidate)
    return left


def collapse(candidates: Iterable[Candidate], text: str, lang: Language) -> list[Candidate]:
    """One tuple for each aspect, category and polarity: the best supported."""

    def support(candidate: Candidate) -> tuple[bool, bool, float]:
        evident = grounded(text, candidate.evidence)
        return candidate.span is not None, evident, candidate.confidence

    groups: dict[tuple[str, str | None, str], list[Candidate]] = {}
    for candidate in candidates:
        key = (aspect_of(candidate, lang), candidate.category, candidate.polarity)
        groups.setdefault(key, []).append(candidate)
    # Of equal ones `max` takes the first, which has the lower number.
    return [max(group, key=support) for group in groups.values()]


def stage_result(
    candidates: Sequence[Candidate], given: Iterable[AspectRecord] = ()
) -> StageResult:
    """Candidates as a stage result, the common form of all protocols."""
    judged = {c.aspect_term for c in candidates}
    missing = [
        aspect.model_copy(update={"sentiments": (backfilled(),)})
        for aspect in given
        if aspect.term not in judged
    ]
    aspects = [
        AspectRecord(
            term=c.aspect_term,
            category=c.category,
            span=c.span,
            confidence=c.confidence,
            sentiments=(
                Sentiment(
                    polarity=c.polarity,
                    confidence=c.confidence,
                    evidence=c.evidence,
                    opinion_term=c.opinion_term,
                    category=c.category,
                ),
            ),
        )
        for c in candidates
    ]
    return StageResult(aspects=(*aspects, *missing))


def conflicts_resolved(conflicts: Sequence[ConflictFlag], reviewed: Sequence[Candidate]) -> bool:
    """Whether every aspect with two polarities now has one."""
    contested = [f.tuple_ids for f in conflicts if f.conflict_type == "polarity_mismatch"]
    left = [{c.polarity for c in reviewed if c.tuple_id in ids} for ids in contested]
    return bool(contested) and all(len(polarities) == 1 for polarities in left)
