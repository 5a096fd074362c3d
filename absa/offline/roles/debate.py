"""The debate's roles: evidence (epm), targets (tan), consistency (cj), and the judge."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from absa.offline.roles import lookup
from absa.offline.roles.inputs import DebateInputs, StatedSentiment, edit_polarity, edit_target
from absa.offline.roles.lookup import key
from absa.offline.text.annotations import NEUTRAL, Analysis, Finding
from absa.schemas.answers import Edit

#: A speaker contradicts Stage 1 only when it is this sure of its own reading.
_SURE = 0.68
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


def _absent(item: StatedSentiment, analysis: Analysis) -> bool:
    return not item.is_implicit and item.aspect_term.lower() not in analysis.text.lower()


def _judges(finding: Finding) -> bool:
    """Whether the words nearest to an aspect clearly praise or blame it."""
    nearest = finding.nearest_reading
    return (
        nearest.opinion is not None and nearest.polarity != NEUTRAL and nearest.confidence >= _SURE
    )


def epm(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """Polarity from the one explicit expression nearest to the aspect, with that expression."""
    edits = []
    for item in inputs.stage1.sentiments:
        term, polarity = item.aspect_term, item.polarity
        finding = lookup.find(analysis, term)
        doubtful = finding is None or not _judges(finding)
        if item.is_backfilled and doubtful and not inputs.given_aspects:
            # Named, most often by the contrast rule, but nothing in the text clearly judges it.
            edits.append(_edit("drop_tuple", term, polarity=polarity, confidence=0.7))
            continue
        if finding is None or finding.nearest_reading.opinion is None:
            if _absent(item, analysis) and not (item.evidence and item.evidence in analysis.text):
                edits.append(_edit("drop_tuple", term, polarity=polarity, confidence=0.7))
            continue
        nearest = finding.nearest_reading
        quoted = lookup.evidence(analysis, nearest)
        if nearest.polarity == polarity:
            edits.append(
                _edit(
                    "confirm_tuple",
                    term,
                    polarity=polarity,
                    evidence=quoted,
                    confidence=nearest.confidence,
                )
            )
        elif _judges(finding):
            edits.append(
                _edit(
                    "set_polarity",
                    term,
                    polarity=polarity,
                    value=nearest.polarity,
                    evidence=quoted,
                    confidence=nearest.confidence,
                )
            )
    return edits


def _missed(analysis: Analysis, known: list[str]) -> list[Finding]:
    """Aspects that were not reported although something explicit is said about them."""
    keys = {key(term) for term in known}
    joined = " ".join(keys)
    found = []
    for finding in (*lookup.distinct(analysis), *analysis.reserve):
        own = key(finding.aspect.term)
        if (
            own
            and own not in keys
            and own not in joined
            and finding.clause_reading.opinion is not None
            and finding.clause_reading.polarity != NEUTRAL
            and finding.clause_reading.confidence >= 0.75
            and finding.aspect.termness >= 0.45
        ):
            keys.add(own)
            found.append(finding)
    return found


def tan(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """Targets: duplicates to merge, boundaries to correct, aspects that Stage 1 missed."""
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
    polarities: dict[str, list[StatedSentiment]] = defaultdict(list)
    for item in inputs.stage1.sentiments:
        polarities[key(item.aspect_term)].append(item)
    for group in polarities.values():
        term, polarity = group[0].aspect_term, group[0].polarity
        finding = lookup.find(analysis, term)
        if (
            len(group) == 1
            and finding is not None
            and (finding.clause_reading.polarity == polarity != NEUTRAL)
        ):
            edits.append(
                _edit(
                    "confirm_tuple",
                    term,
                    polarity=polarity,
                    evidence=lookup.evidence(analysis, finding.clause_reading),
                    confidence=finding.clause_reading.confidence,
                )
            )
    for finding in _missed(analysis, terms):
        edits.append(
            _edit(
                "confirm_tuple",
                finding.aspect.term,
                polarity=finding.clause_reading.polarity,
                evidence=lookup.evidence(analysis, finding.clause_reading),
                confidence=finding.clause_reading.confidence,
            )
        )
    return edits


class _Votes:
    """What Stage 1, the speakers and the analyser's own reading say about each aspect."""

    def __init__(self, analysis: Analysis, inputs: DebateInputs) -> None:
        self.terms: dict[str, str] = {}
        self.stage1: dict[str, list[str]] = defaultdict(list)
        self.weights: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.quotes: dict[tuple[str, str], str] = {}
        self.dropped: dict[str, float] = defaultdict(float)
        self.found_later: set[str] = set()
        for term in inputs.stage1.terms:
            self.terms.setdefault(key(term), term)
        for item in inputs.stage1.sentiments:
            own = key(item.aspect_term)
            self.stage1[own].append(item.polarity)
            self._vote(own, item.polarity, 0.2 if item.is_backfilled else 0.8)
            self._quote(analysis, own, item.polarity, item.evidence)
        for turn in inputs.history:
            for edit in turn.proposed_edits:
                self._hear(analysis, edit)
        for own, term in list(self.terms.items()):
            finding = lookup.find(analysis, term)
            if finding is not None and finding.clause_reading.opinion is not None:
                view = finding.clause_reading
                self._vote(own, view.polarity, 0.5 * view.confidence)
                self._quote(analysis, own, view.polarity, lookup.evidence(analysis, view))

    def _vote(self, own: str, polarity: str, weight: float) -> None:
        self.weights[own][polarity] += weight

    def _quote(self, analysis: Analysis, own: str, polarity: str, quoted: str | None) -> None:
        if quoted and quoted in analysis.text:
            self.quotes.setdefault((own, polarity), quoted)

    def _hear(self, analysis: Analysis, edit: Edit) -> None:
        term = edit_target(edit)
        own = key(term)
        if not own:
            return
        polarity = edit_polarity(edit)
        confidence = 0.6 if edit.confidence is None else edit.confidence
        if edit.op == "drop_tuple":
            self.dropped[own] += confidence
        elif polarity is not None:
            if edit.evidence and edit.evidence not in analysis.text:
                return
            if own not in self.terms:
                if term not in analysis.text:
                    return
                self.terms[own] = term
                self.found_later.add(own)
            self._vote(own, polarity, 0.6 * confidence)
            self._quote(analysis, own, polarity, edit.evidence)

    def verdict(self, own: str) -> tuple[str, float] | None:
        """The polarity with the most weight, and its share; nothing for a dropped aspect."""
        weights = self.weights.get(own)
        if not weights or self.dropped[own] > max(weights.values()):
            return None
        total = sum(weights.values())
        # Ties go to Stage 1's word, then to the alphabet, so that the answer is always the same.
        first = self.stage1[own][:1]
        best = max(sorted(weights), key=lambda name: (round(weights[name], 9), name in first))
        return best, weights[best] / total if total else 0.0


def cj(analysis: Analysis, inputs: DebateInputs) -> list[dict[str, Any]]:
    """One polarity for each aspect: weigh Stage 1, what was said, and the aspect's clause."""
    votes = _Votes(analysis, inputs)
    edits = []
    for own, term in votes.terms.items():
        verdict = votes.verdict(own)
        before = votes.stage1[own]
        if verdict is None:
            if before and votes.dropped[own]:
                edits.append(_edit("drop_tuple", term, polarity=before[0], confidence=0.6))
            continue
        polarity, share = verdict
        op = "confirm_tuple" if set(before) <= {polarity} else "set_polarity"
        edits.append(
            _edit(
                op,
                term,
                polarity=polarity if op == "confirm_tuple" else before[0],
                value=None if op == "confirm_tuple" else polarity,
                evidence=votes.quotes.get((own, polarity), ""),
                confidence=0.5 + 0.45 * share,
            )
        )
    return edits


def speaker(role: str, analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """A turn of the patch debate. An unknown speaker argues for consistency."""
    turn = {"epm": epm, "tan": tan}.get(role, cj)
    return {"agent": role, "proposed_edits": turn(analysis, inputs)[:_MAX_EDITS]}


def judge(analysis: Analysis, inputs: DebateInputs) -> dict[str, Any]:
    """One consistent set of tuples, with the words of the text that carry it."""
    votes = _Votes(analysis, inputs)
    patch: list[dict[str, Any]] = []
    tuples: list[dict[str, str]] = []
    proofs: list[dict[str, str]] = []
    unresolved: list[str] = []
    for own, term in votes.terms.items():
        verdict = votes.verdict(own)
        before = votes.stage1[own]
        if verdict is None:
            if before:
                patch.append(_edit("drop_tuple", term, polarity=before[0], confidence=0.7))
            continue
        polarity, share = verdict
        quoted = votes.quotes.get((own, polarity), "")
        if own in votes.found_later and not quoted:
            continue
        tuples.append({"aspect_term": term, "polarity": polarity})
        if quoted:
            proofs.append({"aspect_ref": term, "evidence": quoted})
        if share < 0.55:
            unresolved.append(term)
        changed = set(before) != {polarity} and bool(before)
        patch.append(
            _edit(
                "set_polarity" if changed else "confirm_tuple",
                term,
                polarity=before[0] if changed else polarity,
                value=polarity if changed else None,
                evidence=quoted,
                confidence=0.5 + 0.45 * share,
            )
        )
    polarities = [item["polarity"] for item in tuples]
    sentence = lookup.label(polarities)
    if not tuples and analysis.overall is not None:
        sentence = analysis.overall.polarity
    return {
        "final_patch": patch[:_MAX_EDITS],
        "final_tuples": tuples,
        "unresolved_conflicts": unresolved,
        "sentence_polarity": sentence,
        "sentence_evidence_spans": _sentence_evidence(analysis, proofs),
        "aspect_evidence": proofs,
        "rationale": _rationale(tuples, sentence),
    }


def _sentence_evidence(analysis: Analysis, proofs: list[dict[str, str]]) -> list[str]:
    spans = list(dict.fromkeys(item["evidence"] for item in proofs))
    if not spans and analysis.overall is not None:
        spans = [quoted] if (quoted := lookup.evidence(analysis, analysis.overall)) else []
    if not spans and analysis.text.strip():
        spans = [analysis.text.strip()[:200]]
    return spans[:20]


def _rationale(tuples: list[dict[str, str]], sentence: str) -> str:
    named = ", ".join(f"{item['aspect_term']} {item['polarity']}" for item in tuples[:10])
    return f"{named or 'no aspect'}; as a whole {sentence}"
