"""The conflict-review protocol: three perspectives and three reviewers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absa.offline import lens, reading
from absa.offline.model import NEUTRAL, Analysis, Finding, Reading
from absa.offline.reading import key
from absa.offline.stage1 import span

_REASONS = {
    "review_a": "NEGATION_SCOPE",
    "review_b": "STRUCTURAL_INCONSISTENT",
    "review_c": "STRUCTURAL_INCONSISTENT",
}


def _triplet(analysis: Analysis, finding: Finding, view: Reading, why: str) -> dict[str, Any]:
    quoted = lens.evidence(analysis, view)
    return {
        "aspect_term": finding.aspect.term,
        "aspect_ref": finding.aspect.term,
        "polarity": view.polarity,
        "opinion_term": quoted or None,
        "evidence": quoted or lens.clause_text(analysis, finding),
        "span": span(finding),
        "confidence": view.confidence,
        "rationale": why,
    }


def perspective(role: str, analysis: Analysis) -> dict[str, Any]:
    """A: clauses with negation and contrast; B: what is implied; C: the nearest words."""
    triplets = []
    for finding in lens.distinct(analysis):
        if role == "p_lit":
            if finding.nearest_reading.opinion is not None:
                triplets.append(
                    _triplet(analysis, finding, finding.nearest_reading, "nearest words")
                )
        elif role == "p_neg" or finding.clause_reading.opinion is not None:
            triplets.append(_triplet(analysis, finding, finding.clause_reading, "clause"))
    whole = analysis.overall
    if role == "p_imp" and not triplets and whole is not None and lens.implicit_term(analysis):
        triplets.append(
            {
                "aspect_term": lens.implicit_term(analysis),
                "aspect_ref": lens.implicit_term(analysis),
                "polarity": whole.polarity,
                "opinion_term": lens.evidence(analysis, whole) or None,
                "evidence": lens.evidence(analysis, whole),
                "span": None,
                "confidence": whole.confidence,
                "rationale": "an opinion without a named aspect",
            }
        )
    return {"triplets": triplets}


def _action(kind: str, ids: list[str], value: Any, reason: str, actor: str) -> dict[str, Any]:
    return {
        "action_type": kind,
        "target_tuple_ids": ids,
        "new_value": value,
        "reason_code": reason,
        "actor": actor,
    }


def review(role: str, analysis: Analysis, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Actions on the flagged tuples only: flip against the clause, drop without evidence."""
    actor = {"review_a": "A", "review_b": "B", "review_c": "C"}.get(role, "A")
    flagged: dict[str, None] = {}
    for name in ("conflict_flags", "validator_risks"):
        for flag in reading.items(inputs.get(name)):
            ids = flag.get("tuple_ids")
            one = flag.get("tuple_id")
            for tuple_id in ids if isinstance(ids, list) else [one]:
                if isinstance(tuple_id, str):
                    flagged[tuple_id] = None
    actions = []
    for item in reading.items(inputs.get("candidates")):
        tuple_id = reading.word(item.get("tuple_id")) or reading.word(item.get("id"))
        polarity = reading.polarity(item.get("polarity"))
        if tuple_id not in flagged or polarity is None:
            continue
        term = reading.word(item.get("aspect_term"))
        finding = lens.find(analysis, term)
        view = None
        if finding is not None:
            view = finding.nearest_reading if role == "review_c" else finding.clause_reading
        quoted = reading.word(item.get("evidence"))
        if view is not None and view.opinion is not None and view.polarity != NEUTRAL:
            if view.polarity != polarity:
                actions.append(
                    _action(
                        "FLIP",
                        [tuple_id],
                        {"polarity": view.polarity},
                        _REASONS.get(role, "NEGATION_SCOPE"),
                        actor,
                    )
                )
                continue
        elif key(term) and (not quoted or quoted not in analysis.text):
            actions.append(_action("DROP", [tuple_id], None, "WEAK_EVIDENCE", actor))
            continue
        actions.append(_action("KEEP", [tuple_id], None, "KEEP_BEST_SUPPORTED", actor))
    return {"review_actions": actions}
