"""The samples as JSON for the browser: a short row for the list, and all details.

Review texts and answers of models can contain markup. The page inserts them only as text.
"""

from __future__ import annotations

from typing import Any

from absa import outcome, show
from absa.report import words
from absa.report.gold import Comparison, side_by_side
from absa.report.reading import Entry
from absa.schemas.output import FinalOutput
from absa.schemas.records import ArbiterAction, CallRecord, Correction, GateRecord
from absa.schemas.settings import OverrideSettings

# Parts of `meta` that only some protocols have; the page shows them as JSON.
_EXTRAS = (
    "candidates",
    "conflict_flags",
    "validator_risks",
    "review_actions",
    "discarded_actions",
    "arbiter_actions",
    "flagged_tuple_ids",
)
_TURN_TEXTS = ("stance", "planning", "reflection", "message", "key_points")
_SUMMARY_TEXTS = ("winner", "consensus", "key_agreements", "key_disagreements", "rationale")


def index_row(entry: Entry, comparison: Comparison) -> dict[str, Any]:
    """The values for the list, the search and the filters."""
    output = entry.output
    meta, result = output.meta, output.final_result
    polarities = [t.polarity for t in (*result.stage1_tuples, *result.final_tuples)]
    if comparison.aspects:
        polarities += [a.polarity for a in comparison.aspects]
    row = {
        "u": output.uid,
        "s": entry.seed,
        "t": output.text,
        "l": output.lang,
        "b": result.label,
        "c": round(result.confidence, 3),
        "f": [[show.aspect_name(t), t.polarity] for t in result.final_tuples],
        "o": comparison.pair_outcome,
        "lo": comparison.label_outcome,
        "g": sorted({r.verdict for r in meta.override_gate}),
        "a": f"{meta.adopt_decision}:{meta.adopt_reason}"
        if output.analysis_flags.stage2_executed
        else None,
        "r": list(output.moderator.applied_rules) if output.moderator else [],
        "ch": output.analysis_flags.correction_occurred or result.label != output.stage1_ate.label,
        "x": {"positive", "negative"} <= set(polarities),
        "d": any(r.pos_score and r.neg_score for r in meta.override_gate),
    }
    return _lean(row)


def failed_row(error: dict[str, Any]) -> dict[str, Any]:
    """The row of a sample that could not be analyzed."""
    return _lean({"u": str(error.get("uid")), "s": error.get("seed") or 0, "e": True})


def failed_detail(error: dict[str, Any]) -> dict[str, Any]:
    """The error of a sample that could not be analyzed."""
    raw = error.get("raw")
    return _lean(
        {
            "error": str(error.get("reason") or "no reason given"),
            "node": error.get("node"),
            "attempts": error.get("attempts"),
            "raw": raw if raw is None or isinstance(raw, str) else str(raw),
        }
    )


def detail(entry: Entry, comparison: Comparison, settings: OverrideSettings) -> dict[str, Any]:
    """All details of one sample."""
    output = entry.output
    events = show.events(output, settings)
    size = len(output.meta.correction_applied_log)
    return _lean(
        {
            "domain": entry.card.get("domain"),
            "gold": _lean({"label": comparison.label, "decides": comparison.pairs is not None})
            if comparison.aspects is not None or comparison.label is not None
            else None,
            "stage1": {
                "label": output.stage1_ate.label,
                "confidence": output.stage1_ate.confidence,
            },
            "rows": [_lean(vars(row)) for row in side_by_side(entry, comparison)],
            "places": [[p.row, p.part[0], p.polarity, p.start, p.end] for p in show.places(output)],
            "gold_places": [
                [n, "a", a.polarity, a.from_, a.to]
                for n, a in enumerate(comparison.aspects or (), start=1)
                if a.from_ is not None and a.to is not None
            ],
            "aspects": [
                _lean(
                    {
                        "term": show.aspect_name(a),
                        "polarity": a.polarity,
                        "evidence": a.evidence,
                        "grounded": a.is_grounded,
                        "confidence": a.confidence,
                        "implicit": a.is_implicit,
                        "origin": show.origin(a, output),
                    }
                )
                for a in output.final_result.final_aspects
            ],
            "violations": list(output.meta.stage2_review_violation),
            "adoption": show.adoption(output, settings),
            "ev": {
                "score": output.meta.ev_score,
                "threshold": output.meta.ev_threshold,
                "components": output.meta.ev_components,
            }
            if output.meta.ev_score is not None
            else None,
            "why": outcome.label_reason(output),
            "outcome": [*outcome.debate(output, settings), *outcome.reviews(output)],
            "debate": _debate(entry.raw),
            "gate": [_gate(r, output, settings) for r in output.meta.override_gate],
            "moderator": _moderator(output),
            "log": [
                *(
                    _correction(entry, event.text)
                    for entry, event in zip(
                        output.meta.correction_applied_log, events[:size], strict=True
                    )
                ),
                *(_decided(action, output) for action in output.meta.arbiter_actions),
            ],
            "risks": [
                list(output.stage1_validator.issues),
                list(output.stage2_validator.issues) if output.stage2_validator else None,
            ],
            "calls": [_call(c, output) for c in output.process_trace],
            "extras": _extras(entry.raw),
        }
    )


def _lean(values: dict[str, Any]) -> dict[str, Any]:
    """The values without None, False and empty lists."""
    return {k: v for k, v in values.items() if v is not None and v is not False and v != []}


def _debate(raw: dict[str, Any]) -> dict[str, Any] | None:
    """The debate of any protocol: with edits, with words, or with both."""
    debate = raw.get("debate")
    if not isinstance(debate, dict):
        return None
    summary = debate.get("summary") or {}
    return {
        "personas": {
            key: [persona.get("name"), persona.get("role")]
            for key, persona in (debate.get("personas") or {}).items()
        },
        "rounds": [
            [turn_part(turn.get("speaker"), turn) for turn in held.get("turns") or ()]
            for held in debate.get("rounds") or ()
        ],
        "judge": judge_part(summary),
        "context": _context(debate.get("review_context") or {}),
    }


def turn_part(speaker: str | None, turn: dict[str, Any]) -> dict[str, Any]:
    """A turn of the debate: its edits, its words, or both."""
    edits = [_edit(e) for e in turn.get("proposed_edits") or ()]
    return _lean({"speaker": speaker, "edits": edits, **_words(turn, _TURN_TEXTS)})


def judge_part(summary: dict[str, Any]) -> dict[str, Any]:
    """The judge's answer in any protocol."""
    return _lean(
        {
            "patch": [_edit(e) for e in summary.get("final_patch") or ()],
            "tuples": [
                [t.get("aspect_term") or show.NOT_NAMED, t.get("polarity")]
                for t in summary.get("final_tuples") or ()
            ],
            "polarity": summary.get("sentence_polarity"),
            "spans": list(summary.get("sentence_evidence_spans") or ()),
            "unresolved": [str(c) for c in summary.get("unresolved_conflicts") or ()],
            **_words(summary, _SUMMARY_TEXTS),
        }
    )


def _context(context: dict[str, Any]) -> dict[str, Any]:
    """The summary of the debate that the reviewers got."""
    points = context.get("rebuttal_points") or ()
    return {
        "hints": list((context.get("aspect_hints") or {}).items()),
        "points": [point for point in points if point.get("weight") is not None],
    }


def _words(raw: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """The fields with text, for example of a persona's turn. A list becomes one text."""
    words: dict[str, Any] = {}
    for key in keys if isinstance(raw, dict) else ():
        value = raw.get(key)
        if isinstance(value, list):
            value = "; ".join(map(str, value))
        if value:
            words[key] = str(value)
    return words


def _edit(edit: dict[str, Any]) -> dict[str, Any]:
    target = edit.get("target") or {}
    return _lean(
        {
            **{key: edit.get(key) for key in ("op", "value", "evidence", "confidence")},
            "aspect": target.get("aspect_ref") or target.get("aspect_term"),
            "polarity": target.get("polarity"),
        }
    )


def _gate(record: GateRecord, output: FinalOutput, settings: OverrideSettings) -> dict[str, Any]:
    return _lean(
        {
            **record.model_dump(exclude={"valid_hint_count", "invalid_hint_count", "own_evidence"}),
            "why": show.gate_reason(record, output, settings),
            # For an aspect to drop, the gate checks this condition first.
            "early": record.verdict == "l3_conservative" and _wants_drop(record, settings),
            "sentence_evidence": bool(record.evidence) and record.own_evidence is None,
        }
    )


def _wants_drop(record: GateRecord, settings: OverrideSettings) -> bool:
    loud = record.drop_score >= settings.min_total - 1e-9
    clear = record.drop_score - record.total >= settings.min_margin - 1e-9
    return settings.allow_drop and loud and clear


def _moderator(output: FinalOutput) -> dict[str, Any] | None:
    decision = output.moderator
    if decision is None:
        return None
    sentences = outcome.rule_sentences(decision.rationale)
    block = decision.arbiter_flags.rule_e_block_reason
    return _lean(
        {
            "label": decision.final_label,
            "confidence": decision.confidence,
            "stage": decision.selected_stage,
            "rules": [
                [rule, words.RULES.get(rule, ""), sentences.get(rule, "")]
                for rule in decision.applied_rules
            ],
            "block": words.RULE_E_BLOCKS.get(block or "", block),
            "guard": decision.arbiter_flags.stage2_rejected_due_to_confidence,
        }
    )


def _correction(entry: Correction, text: str) -> dict[str, Any]:
    facts = entry.model_dump(include={"source", "proposal_type", "applied", "provenance"})
    return _lean({**facts, "aspect": entry.target_aspect, "text": text})


def _decided(action: ArbiterAction, output: FinalOutput) -> dict[str, Any]:
    event = show.arbiter_event(action, output)
    votes = ", ".join(f"{actor} {vote}" for actor, vote in action.votes.items())
    return _lean(
        {
            "source": "arbiter",
            "proposal_type": action.action_type,
            "aspect": event.aspect if event else None,
            "applied": action.applied,
            "text": event.text if event else f"{action.target_tuple_ids[0]} was kept",
            "provenance": votes,
        }
    )


def _call(call: CallRecord, output: FinalOutput) -> dict[str, Any]:
    debate = output.debate
    # The page shows these answers as part of the debate.
    is_in_debate = debate is not None and (call.node in debate.personas or call.node == "judge")
    facts = ("node", "turn", "backend", "model", "usage", "cached", "attempts", "error")
    return _lean(
        {
            **call.model_dump(include=set(facts)),
            "latency_ms": round(call.latency_ms, 1),
            "notes": list(call.notes),
            "answer": None if is_in_debate else call.output,
        }
    )


def _extras(raw: dict[str, Any]) -> dict[str, Any] | None:
    meta = raw.get("meta")
    extras = {k: meta[k] for k in _EXTRAS if meta.get(k)} if isinstance(meta, dict) else {}
    return extras or None
