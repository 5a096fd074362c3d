"""The persona debate offline: each stance argues from the opinions that serve it."""

from __future__ import annotations

from typing import Any

from absa.offline.roles import debate, lookup
from absa.offline.roles.inputs import DebateInputs, Persona
from absa.offline.text.annotations import Analysis

_WANTED = {"pro": 1.0, "con": -1.0}
_MAX_POINTS = 5


def turn(analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """A turn: the aspects whose opinions speak for this side, with the words that do."""
    persona = inputs.persona or Persona()
    stance = persona.stance or "neutral"
    wanted = _WANTED.get(stance)
    points = [
        f"{finding.aspect.term}: {lookup.evidence(analysis, finding.clause_reading)}"
        for finding in lookup.distinct(analysis)
        if finding.clause_reading.opinion is not None
        and (wanted is None or finding.clause_reading.score * wanted > 0)
    ][:_MAX_POINTS]
    return {
        "speaker": persona.name,
        "stance": stance,
        "planning": "quote the words that judge each aspect",
        "reflection": f"{len(inputs.history)} turns heard",
        "message": "; ".join(points) or "nothing in the text speaks for this side",
        "key_points": points,
    }


def judge(analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """Who was right, by the label that the text supports."""
    verdict = debate.judge(analysis, inputs)
    sentence = verdict["sentence_polarity"]
    agreed = [f"{t['aspect_term']}: {t['polarity']}" for t in verdict["final_tuples"]]
    return {
        "winner": {"positive": "empath", "negative": "critic"}.get(sentence, "analyst"),
        "consensus": f"{sentence}: {', '.join(verdict['sentence_evidence_spans'][:3])}",
        "key_agreements": agreed[:_MAX_POINTS],
        "key_disagreements": verdict["unresolved_conflicts"][:_MAX_POINTS],
        "rationale": verdict["rationale"],
    }
