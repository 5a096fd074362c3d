"""The debate's roles: evidence (epm), targets (tan), consistency (cj), and the judge.

EPM speaks from what the rules read in the aspect's clause. TAN, CJ and the judge speak from the
second reading of the text, TAN of its targets, CJ and the judge of what follows for each tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from absa.offline.roles import lookup
from absa.offline.roles.inputs import DebateInputs, StatedSentiment
from absa.offline.roles.lookup import key
from absa.offline.roles.verdicts import Verdict, Verdicts, mention, quote
from absa.offline.text.annotations import Analysis, Reading
from absa.schemas.answers import Edit

#: A speaker contradicts Stage 1 only when it is this sure of its own reading.
_SURE = 0.6
_MAX_EDITS = 60


def _edit(
    op: str,
    term: str,
    *,
    polarity: str | None = None,
    value: str | None = None,
    evidence: str = "",
    confidence: float = 0.6,
) -> dict[str, Any]:
    edit: dict[str, Any] = {
        "op": op,
        "target": {"aspect_ref": term, "aspect_term": term, "polarity": polarity},
        "confidence": round(confidence, 3),
    }
    if value is not None:
        edit["value"] = value
    if evidence:
        edit["evidence"] = evidence
    return edit


def _says(item: StatedSentiment, reading: Reading, quoted: str) -> dict[str, Any] | None:
    """The edit of a speaker who reads an aspect this way: confirm, or correct if sure enough."""
    term, stated, sure = item.aspect_term, item.polarity, reading.confidence
    if reading.polarity == stated:
        return _edit("confirm_tuple", term, polarity=stated, evidence=quoted, confidence=sure)
    if sure < _SURE:
        return None
    return _edit(
        "set_polarity",
        term,
        polarity=stated,
        value=reading.polarity,
        evidence=quoted,
        confidence=sure,
    )


def epm(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """Polarity from the words of the aspect's own clause, by the rules, with these words."""
    edits = []
    dropped = {key(each.term) for each in _own(analysis, inputs) if each.after is None}
    for item in inputs.stage1.sentiments:
        finding = mention(analysis, item.aspect_term)
        reading = finding.nearest_reading if finding is not None else None
        if reading is None or reading.opinion is None:
            # Named, by the contrast rule or by a model, but nothing in the text clearly judges it.
            if key(item.aspect_term) in dropped:
                term, polarity = item.aspect_term, item.polarity
                edits.append(_edit("drop_tuple", term, polarity=polarity, confidence=0.7))
            continue
        edit = _says(item, reading, lookup.evidence(analysis, reading))
        if edit is not None:
            edits.append(edit)
    return edits


def _own(analysis: Analysis, inputs: DebateInputs) -> Verdicts:
    """The verdicts before any speaker is heard."""
    return Verdicts(analysis, inputs.stage1, given=inputs.given_aspects is not None)


def tan(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """Targets: duplicates to merge, aspects that Stage 1 missed, and what names none."""
    terms = inputs.stage1.terms
    edits = []
    for position, term in enumerate(terms):
        own = key(term)
        longer = [
            other
            for other in terms
            if own and own != key(other) and own in key(other) and len(own) >= 2
        ]
        if longer and analysis.text.lower().count(term.lower()) == 1:
            edits.append(_edit("merge_tuples", term, value=longer[0], confidence=0.6))
            continue
        synonym = lookup.synonym_of(term, terms[:position], analysis.lang)
        if synonym is not None:
            edits.append(_edit("set_aspect_ref", term, value=synonym, confidence=0.5))
    items: dict[str, list[StatedSentiment]] = {}
    for item in inputs.stage1.sentiments:
        items.setdefault(key(item.aspect_term), []).append(item)
    for verdict in _own(analysis, inputs):
        stated = items.get(key(verdict.term), [])
        if verdict.before and verdict.after is None:
            polarity = verdict.before[0]
            edits.append(_edit("drop_tuple", verdict.term, polarity=polarity, confidence=0.6))
        elif not verdict.before and verdict.after and not stated:
            edits.append(_confirmed(verdict))
        elif len(stated) == 1:
            edits += _by_second_reading(analysis, stated[0])
    return edits


def _by_second_reading(analysis: Analysis, item: StatedSentiment) -> Iterator[dict[str, Any]]:
    """What the second reading says of the aspect, as an edit."""
    finding = mention(analysis, item.aspect_term)
    reading = finding.second_reading if finding is not None else None
    if finding is not None and reading is not None:
        edit = _says(item, reading, quote(analysis, finding, reading.polarity))
        if edit is not None:
            yield edit


def _confirmed(verdict: Verdict) -> dict[str, Any]:
    return _edit(
        "confirm_tuple",
        verdict.term,
        polarity=verdict.after,
        evidence=verdict.evidence,
        confidence=verdict.probability,
    )


def _decided(verdict: Verdict) -> dict[str, Any] | None:
    """A verdict as an edit."""
    if verdict.after is None:
        if not verdict.before:
            return None
        sure = 1.0 - verdict.probability if verdict.probability < 0.5 else 0.6
        return _edit("drop_tuple", verdict.term, polarity=verdict.before[0], confidence=sure)
    if len(verdict.before) > 1:
        return None
    if not verdict.before or not verdict.changes:
        return _confirmed(verdict)
    return _edit(
        "set_polarity",
        verdict.term,
        polarity=verdict.before[0],
        value=verdict.after,
        evidence=verdict.evidence,
        confidence=verdict.probability,
    )


def _verdicts(analysis: Analysis, inputs: DebateInputs) -> list[Verdict]:
    """The verdicts, the speakers heard: what the analyzer's own ones say is in them already."""
    own = [
        (edit["op"], key(edit["target"]["aspect_ref"]), edit.get("value"))
        for speaker in (epm, tan)
        for edit in speaker(analysis, inputs)
    ]
    first = _own(analysis, inputs)
    own += [
        (edit["op"], key(edit["target"]["aspect_ref"]), edit.get("value"))
        for verdict in first
        if (edit := _decided(verdict)) is not None
    ]
    seen = set(own)
    heard = [
        edit for turn in inputs.history for edit in turn.proposed_edits if _face(edit) not in seen
    ]
    if not heard:
        return first.all
    has_given_aspects = inputs.given_aspects is not None
    return Verdicts(analysis, inputs.stage1, heard, given=has_given_aspects).all


def _face(edit: Edit) -> tuple[str, str, str | None]:
    return edit.op, key(edit.target.aspect_ref or edit.target.aspect_term or ""), edit.value


def cj(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """One polarity for each aspect, by the calibrated probability of all readings together."""
    decided = map(_decided, _verdicts(analysis, inputs))
    return [edit for edit in decided if edit is not None]


def speaker(role: str, analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """A turn of the patch debate. An unknown speaker argues for consistency."""
    turn = {"epm": epm, "tan": tan}.get(role, cj)
    return {"agent": role, "proposed_edits": turn(analysis, inputs)[:_MAX_EDITS]}


def judge(analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """One consistent set of tuples, with the words of the text that carry it."""
    verdicts = _verdicts(analysis, inputs)
    patch = [edit for edit in map(_decided, verdicts) if edit is not None]
    kept = [(each, word) for each in verdicts for word in _polarities(each)]
    stated = reversed(inputs.stage1.sentiments)
    categories = {key(item.aspect_term): item.category for item in stated if item.category}
    tuples = [
        {
            "aspect_term": each.term,
            "polarity": word,
            **({"category": category} if (category := categories.get(key(each.term))) else {}),
        }
        for each, word in kept
    ]
    aspect_evidence = [
        {"aspect_ref": each.term, "evidence": each.evidence}
        for each in verdicts
        if each.after is not None and each.evidence
    ]
    sentence = lookup.label([word for _, word in kept])
    if analysis.label is not None:
        sentence = analysis.label[0]
    elif not tuples and analysis.overall is not None:
        sentence = analysis.overall.polarity
    return {
        "final_patch": patch[:_MAX_EDITS],
        "final_tuples": tuples,
        "unresolved_conflicts": [
            each.term for each in verdicts if each.after is not None and each.probability < 0.5
        ],
        "sentence_polarity": sentence,
        "sentence_evidence_spans": _sentence_evidence(analysis, aspect_evidence),
        "aspect_evidence": aspect_evidence,
        "rationale": _rationale(tuples, sentence),
    }


def _polarities(verdict: Verdict) -> tuple[str, ...]:
    """The polarities that an aspect ends with."""
    if verdict.after is None:
        return ()
    return verdict.before if len(verdict.before) > 1 else (verdict.after,)


def _sentence_evidence(analysis: Analysis, aspect_evidence: list[dict[str, str]]) -> list[str]:
    spans = list(dict.fromkeys(item["evidence"] for item in aspect_evidence))
    if not spans and analysis.overall is not None:
        spans = [quoted] if (quoted := lookup.evidence(analysis, analysis.overall)) else []
    if not spans and analysis.text.strip():
        spans = [analysis.text.strip()[:200]]
    return spans[:20]


def _rationale(tuples: list[dict[str, str]], sentence: str) -> str:
    named = ", ".join(f"{item['aspect_term']} {item['polarity']}" for item in tuples[:10])
    return f"{named or 'no aspect'}; as a whole {sentence}"
