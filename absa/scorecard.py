"""The scorecard of one sample: process counts with numerators and denominators."""

from __future__ import annotations

from collections import Counter
from typing import Any

from absa.nodes.language import language
from absa.schemas.output import FinalOutput
from absa.schemas.records import Correction
from absa.schemas.sample import Sample
from absa.schemas.verdicts import CONFIRM

VERSION = 2
"""Counts of scorecards and metrics are comparable within one version.

Version 1 (and cards without a version) counted a raised confidence as an applied override.
"""


_COUNTS = (
    *("unanchored_count", "polarity_repair_count", "polarity_invalid_count"),
    *("category_invalid_count", "name_cut_count", "name_refused_count", "name_unlikely_count"),
)


def scorecard(output: FinalOutput, sample: Sample, seed: int) -> dict[str, Any]:
    """The counts of one sample, and its gold, which is never in prompts or traces."""
    meta, result = output.meta, output.final_result
    flags = output.moderator.arbiter_flags if output.moderator else None
    mapping = meta.mapping_stats
    mapped = mapping.direct + mapping.fallback
    return {
        "version": VERSION,
        "uid": output.uid,
        "seed": seed,
        "lang": output.lang,
        "domain": sample.domain,
        "split": sample.split,
        "gold": gold(sample),
        "label": result.label,
        "confidence": result.confidence,
        "stage1_tuples": [t.model_dump() for t in result.stage1_tuples],
        "stage2_tuples": [t.model_dump() for t in result.stage2_tuples],
        "final_tuples": [t.model_dump() for t in result.final_tuples],
        "stage_delta": stage_delta(output),
        "risks": {
            "stage1": meta.stage1_risks,
            "stage2": meta.stage2_risks,
            "risk_resolution_rate": risk_resolution(output),
        },
        "ignored_proposal": ignored_proposal(output),
        "debate": {
            "held": output.debate is not None,
            "skipped": meta.debate_skipped,
            "contest": list(meta.contest.reasons) if meta.contest else None,
            "mapping_stats": mapping.model_dump(),
            "mapping_fail_reasons": meta.mapping_fail_reasons.model_dump(),
            "mapping_coverage": rate(mapped, mapped + mapping.none),
        },
        "override": {
            "gate_decision": meta.gate_decision,
            "skipped_reason": meta.override_skipped_reason,
            "stats": meta.debate_override_stats.model_dump(),
            "skip_reasons": meta.debate_override_skip_reasons.model_dump(),
            "verdicts": [r.verdict for r in meta.override_gate],
        },
        "corrections": [
            c.model_dump(include={"source", "proposal_type", "applied", "reason"})
            for c in meta.correction_applied_log
        ],
        "adoption": {
            "stage2_executed": output.analysis_flags.stage2_executed,
            "decision": meta.adopt_decision,
            "reason": meta.adopt_reason,
            "ev_score": meta.ev_score,
            "ev_components": meta.ev_components,
        },
        "conflict_review": conflict_review(output),
        "selective": selective(output, sample),
        "human_review": human_review(output),
        "moderator": {
            "ran": output.moderator is not None,
            "drop_guard": flags.stage2_rejected_due_to_confidence if flags else False,
            "applied_rules": list(output.moderator.applied_rules) if output.moderator else [],
            "rule_e_fired": flags.rule_e_fired if flags else False,
            "rule_e_block_reason": flags.rule_e_block_reason if flags else None,
        },
        "hallucination": {
            "evidence": rate(
                sum(bool(a.evidence) and not a.is_grounded for a in result.final_aspects),
                sum(bool(a.evidence) for a in result.final_aspects),
            ),
            "aspects": rate(
                sum(a.span is None for a in result.final_aspects), len(result.final_aspects)
            ),
        },
        **{name: getattr(meta, name) for name in _COUNTS},
        "stage2_review_violation": list(meta.stage2_review_violation),
        "aux_signals": output.aux_signals,
        "usage": meta.usage.model_dump(),
    }


def rate(numerator: int, denominator: int) -> dict[str, int | float | None]:
    """A rate with numerator and denominator; null, not 0, if the denominator is 0."""
    return {
        "numerator": numerator,
        "denominator": denominator,
        "rate": numerator / denominator if denominator else None,
    }


def gold(sample: Sample) -> dict[str, Any] | None:
    """The gold of a sample, None if it has none."""
    if sample.aspects is None and sample.label is None:
        return None
    aspects = sample.aspects
    return {
        "aspects": [a.model_dump(by_alias=True) for a in aspects] if aspects is not None else None,
        "label": sample.label,
        "incomplete": sample.incomplete_gold,
    }


def stage_delta(output: FinalOutput) -> dict[str, Any]:
    """Whether the result differs from Stage 1, and whether a correction caused that."""
    label_moved = output.final_result.label != output.stage1_ate.label
    settled = any(a.applied for a in output.meta.arbiter_actions)
    changed = output.analysis_flags.correction_occurred or label_moved or settled
    opinion = output.meta.selective
    fused = opinion is not None and opinion.outcome != "agreed"
    corrected = settled or fused or any(map(_corrects, output.meta.correction_applied_log))
    kind = "none" if not changed else "guided" if corrected else "unguided"
    return {"changed": changed, "change_type": kind}


def _corrects(entry: Correction) -> bool:
    """Whether an entry changed more than a confidence."""
    return entry.applied and entry.proposal_type != CONFIRM


def conflict_review(output: FinalOutput) -> dict[str, Any] | None:
    """The counts of flags, reviewers and arbiter; None without a conflict review."""
    meta = output.meta
    if meta.protocol != "conflict_review":
        return None
    return {
        "candidates": len(meta.candidates),
        "conflicts": Counter(flag.conflict_type for flag in meta.conflict_flags),
        "risks": Counter(risk.type for risk in meta.validator_risks),
        "reviewed": output.analysis_flags.stage2_executed,
        "resolved": output.analysis_flags.conflict_resolved,
        "actions": Counter(action.action_type for action in meta.review_actions),
        "discarded": Counter(action.why for action in meta.discarded_actions),
        "arbiter": [
            a.model_dump(include={"case", "action_type", "applied", "flag", "votes"})
            for a in meta.arbiter_actions
        ],
    }


def selective(output: FinalOutput, sample: Sample) -> dict[str, Any] | None:
    """The effect of the second reader; None without one.

    `right` counts which source the gold confirms, over the explicit tuples of contested texts:
    tuples of at least half of the calls only, of the reader only, and of both.
    """
    opinion = output.meta.selective
    if opinion is None:
        return None
    scored = sample.aspects is not None and not sample.incomplete_gold
    key = language(output.lang).key
    gold: set[tuple[str, str]] = {(key(a.term), a.polarity) for a in sample.aspects or () if a.term}
    by_witness: dict[str, list[bool]] = {"both": [], "calls": [], "reader": []}
    for t in opinion.tuples if scored and opinion.outcome == "contested" else ():
        called = 2 * t.votes >= opinion.calls
        if called or t.reported:
            witness = "both" if called and t.reported else "calls" if called else "reader"
            by_witness[witness].append((key(t.name), t.polarity) in gold)
    return {
        "outcome": opinion.outcome,
        "reads_language": opinion.reads_language,
        "trust": opinion.trust,
        "trust_from": opinion.trust_from,
        "tuples": len(opinion.tuples),
        "kept": sum(t.kept for t in opinion.tuples),
        "right": {name: rate(sum(hits), len(hits)) for name, hits in by_witness.items()},
    }


def human_review(output: FinalOutput) -> dict[str, Any] | None:
    """Why a person was asked, and what they decided; None without human review."""
    review = output.meta.human_review
    if review is None:
        return None
    return {
        "status": review.status,
        "reasons": [reason.code for reason in review.reasons],
        "counts": review.counts.model_dump(),
    }


def risk_resolution(output: FinalOutput) -> dict[str, int | float | None]:
    """The number of resolved risks of Stage 1."""
    before, after = output.meta.stage1_risks, output.meta.stage2_risks
    return rate(before - after, before) if after is not None else rate(0, 0)


def ignored_proposal(output: FinalOutput) -> dict[str, Any]:
    """The reason why a flagged risk led to no change."""
    ignored = output.meta.stage1_risks > 0 and not stage_delta(output)["changed"]
    return {
        "flagged": output.meta.stage1_risks > 0,
        "ignored": ignored,
        "why": _why_ignored(output) if ignored else None,
    }


def _why_ignored(output: FinalOutput) -> str:
    log = output.meta.correction_applied_log
    requested = {a.action_type for a in output.meta.review_actions} - {"KEEP", "FLAG"}
    if requested or any(map(_corrects, log)):
        return "blocked_at_adoption"
    refused = [c.reason for c in log if c.source == "validator"]
    if not refused:
        return "no_proposal"
    reasons = ("target_not_found", "neutral_flip")
    return next((reason for reason in refused if reason in reasons), "no_change")
