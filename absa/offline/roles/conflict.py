"""The conflict review: three perspectives, three reviewers, and the arbiter where they disagree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from absa.offline.roles import lookup
from absa.offline.roles.categories import category_of, unnamed
from absa.offline.roles.inputs import ConflictInputs, ReviewedCandidate, RoleInputs
from absa.offline.roles.lookup import key
from absa.offline.roles.stage1 import span
from absa.offline.text.annotations import NEUTRAL, Analysis, Finding, Reading

_FLIP_REASONS = {
    "review_a": "NEGATION_SCOPE",
    "review_b": "STRUCTURAL_INCONSISTENT",
    "review_c": "STRUCTURAL_INCONSISTENT",
    "arbiter": "STRUCTURAL_INCONSISTENT",
}


def perspective(role: str, analysis: Analysis, inputs: RoleInputs) -> dict[str, Any]:
    """A: clauses with negation and contrast; B: what is implied too; C: the nearest words."""
    triplets: list[dict[str, Any]] = []
    for finding in lookup.distinct(analysis):
        view = finding.nearest_reading if role == "p_lit" else finding.clause_reading
        if role == "p_neg" or view.opinion is not None:
            category = category_of(analysis, finding, inputs)
            triplets.append({**_triplet(analysis, finding, view), "category": category})
    for judgement in unnamed(analysis, inputs) if role == "p_imp" else ():
        triplets.append(
            {
                "aspect_term": None,
                "aspect_ref": None,
                "category": judgement.category,
                "evidence": judgement.evidence,
                "opinion_term": judgement.evidence or None,
                "polarity": judgement.polarity,
                "span": None,
                "confidence": judgement.confidence,
                "rationale": "an opinion without a named aspect",
            }
        )
    return {"triplets": triplets}


def _triplet(analysis: Analysis, finding: Finding, view: Reading) -> dict[str, Any]:
    quoted = lookup.evidence(analysis, view)
    return {
        "aspect_term": finding.aspect.term,
        "aspect_ref": finding.aspect.term,
        "evidence": lookup.grounds(analysis, finding, quoted),
        "opinion_term": quoted or None,
        "polarity": view.polarity,
        "span": span(finding),
        "confidence": view.confidence,
        "rationale": "judged in its clause" if quoted else "named among judged aspects",
    }


def review(role: str, analysis: Analysis, inputs: ConflictInputs) -> dict[str, Any]:
    """One action per tuple in doubt: flip against the text, drop without evidence, else keep."""
    doubted = _in_doubt(inputs)
    candidates = [item for item in inputs.candidates if item.tuple_id in doubted]
    actions = [] if role == "review_a" else _merges(role, candidates, inputs)
    merged = {tuple_id for action in actions for tuple_id in action["target_tuple_ids"]}
    for item in candidates:
        if item.tuple_id not in merged:
            actions.append(_verdict(role, analysis, item))
    return {"review_actions": actions}


def _in_doubt(inputs: ConflictInputs) -> set[str]:
    """The tuples an action may be about: the undecided ones for the arbiter, else all flagged."""
    if inputs.undecided is not None:
        return set(inputs.undecided)
    return {
        *(tuple_id for flag in inputs.conflict_flags for tuple_id in flag.tuple_ids),
        *(risk.tuple_id for risk in inputs.validator_risks),
    }


def _merges(
    role: str, candidates: list[ReviewedCandidate], inputs: ConflictInputs
) -> list[dict[str, Any]]:
    """Overlapping terms with one polarity are one thing, and the longer name says which."""
    by_id = {item.tuple_id: item for item in candidates}
    actions = []
    for flag in inputs.conflict_flags:
        group = [by_id[tuple_id] for tuple_id in flag.tuple_ids if tuple_id in by_id]
        polarities = {item.polarity for item in group}
        if flag.conflict_type != "aspect_overlap" or len(group) < 2 or len(polarities) > 1:
            continue
        name = max((item.aspect_term or "" for item in group), key=len)
        ids = [item.tuple_id for item in group]
        value = {"normalized_ref": name}
        actions.append(_action("MERGE", ids, value, "SPAN_OVERLAP_MERGE", role))
    return actions


def _verdict(role: str, analysis: Analysis, item: ReviewedCandidate) -> dict[str, Any]:
    ids = [item.tuple_id]
    finding = lookup.find(analysis, item.aspect_term or "")
    view = None
    if finding is not None:
        view = finding.nearest_reading if role == "review_c" else finding.clause_reading
    quoted = item.evidence or ""
    if view is not None and view.opinion is not None and view.polarity != NEUTRAL:
        if view.polarity != item.polarity:
            value = {"polarity": view.polarity}
            return _action("FLIP", ids, value, _FLIP_REASONS[role], role)
    elif not key(quoted) or quoted not in analysis.text:
        return _action("DROP", ids, None, "WEAK_EVIDENCE", role)
    return _action("KEEP", ids, None, "KEEP_BEST_SUPPORTED", role)


def _action(kind: str, ids: list[str], value: Any, reason: str, role: str) -> dict[str, Any]:
    return {
        "action_type": kind,
        "target_tuple_ids": ids,
        "new_value": value,
        "reason_code": reason,
        "actor": role.removeprefix("review_").upper(),
    }


PERSPECTIVES: dict[str, Callable[[Analysis, RoleInputs], dict[str, Any]]] = {
    role: partial(perspective, role) for role in ("p_neg", "p_imp", "p_lit")
}
REVIEWERS: dict[str, Callable[[Analysis, ConflictInputs], dict[str, Any]]] = {
    role: partial(review, role) for role in _FLIP_REASONS
}
