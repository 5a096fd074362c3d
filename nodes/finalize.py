"""`finalize`: builds the `FinalOutput`. The last node of every graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from absa.nodes.adopt import first_skip
from absa.nodes.aggregates import ate_aggregate, atsa_aggregate, validator_aggregate
from absa.nodes.board import Board, tuples
from absa.nodes.conflict_result import decided_by_arbiter
from absa.nodes.decision import Decision
from absa.nodes.human_answer import apply_human_review
from absa.nodes.language import Language, language
from absa.nodes.override_gate import gate_log
from absa.nodes.polarity import exact
from absa.nodes.text import grounded
from absa.schemas.answers import DISCARDED, POLARITIES
from absa.schemas.output import (
    AnalysisFlags,
    AspectTuple,
    DebateOutput,
    DebateRound,
    DebateTurn,
    FinalAspect,
    FinalOutput,
    FinalResult,
    MemoryUse,
    Meta,
    OverrideStats,
    PatchedAspect,
    PatchedAte,
    PatchedAtsa,
    PatchedSentiment,
    SkipReasons,
    Usage,
)
from absa.schemas.records import (
    CallRecord,
    Counts,
    GateRecord,
    MappingFailReasons,
    MappingStats,
    ReviewContext,
    Sentiment,
    StageResult,
)
from absa.schemas.settings import SECOND_READER, PipelineSettings
from absa.schemas.state import FinishUpdate, State
from absa.schemas.verdicts import VERDICTS


def finalize(state: State, pipeline: PipelineSettings) -> FinishUpdate:
    """Build the output, with the decisions of a person if one was asked.

    The id and the language are reset, so that the next text on the thread does not inherit them.
    """
    return {
        "output": apply_human_review(final_output(state, pipeline), state.get("human_answer")),
        "uid": None,
        "lang": None,
        "domain": None,
        "demos": [],
        "given_aspects": None,
        "reader_trust": None,
    }


def final_output(state: State, pipeline: PipelineSettings) -> FinalOutput:
    """Build the output of any protocol, before human review."""
    decided_by = {"conflict_review": decided_by_arbiter, "selective": decided_by_fusion}
    decision = decided_by.get(pipeline.protocol, decided_by_adoption)(state)
    stage1, stage2, final = decision.stage1, decision.stage2, decision.final
    lang, text = language(state["lang"]), state["text"]
    moderation = state["moderation"]
    plain = ate_aggregate(final)
    label = moderation.final_label if moderation else plain.label
    confidence = moderation.confidence if moderation else plain.confidence
    calls = tuple(state["calls"].values())
    counts, recall = state["counts"].values(), state.get("memory_recall")
    return FinalOutput(
        uid=state["uid"],
        text=text,
        lang=state["lang"],
        final_result=FinalResult(
            label=label,
            confidence=confidence,
            rationale=moderation.rationale if moderation else "",
            final_aspects=final_aspects(final, text),
            final_tuples=tuple_list(final, lang),
            stage1_tuples=tuple_list(stage1, lang),
            stage2_tuples=tuple_list(stage2, lang) if stage2 else (),
        ),
        stage1_ate=ate_aggregate(stage1),
        stage1_atsa=atsa_aggregate(stage1, text),
        stage1_validator=decision.stage1_validator,
        stage2_ate=ate_aggregate(stage2) if stage2 else None,
        stage2_atsa=atsa_aggregate(stage2, text) if stage2 else None,
        stage2_validator=decision.stage2_validator,
        patched_stage2_ate=patched_ate(stage2, lang) if stage2 else None,
        patched_stage2_atsa=patched_atsa(stage2) if stage2 else None,
        moderator=moderation,
        debate=debate_output(state, pipeline),
        analysis_flags=AnalysisFlags(
            correction_occurred=tuples(final, lang) != tuples(stage1, lang),
            conflict_resolved=decision.conflict_resolved,
            final_confidence_score=confidence,
            stage2_executed=stage2 is not None,
        ),
        meta=Meta(
            protocol=pipeline.protocol,
            given_aspects=state.get("given_aspects"),
            ev_threshold=pipeline.debate_override.ev_threshold,
            **{name: sum(getattr(c, name) for c in counts) for name in Counts.model_fields},
            unanchored_count=len(final.unanchored),
            ungrounded_count=ungrounded_count(final, text),
            stage2_review_violation=violations(calls),
            answers=plain_answers(state),
            usage=usage(calls),
            memory=MemoryUse(recall=recall, injections=tuple(decision.shown_memory))
            if recall
            else None,
            **decision.meta,
        ),
        process_trace=calls,
    )


def decided_by_adoption(state: State) -> Decision:
    """The patched result if it was adopted, else Stage 1. A vote has only a Stage 1."""
    stage1, patched, adoption = state["stage1_result"], state["patched_result"], state["adoption"]
    final = patched if adoption.decision == "adopted" and patched else stage1
    hints, log = state["debate_hints"], gate_log(state["gate_outcomes"])
    before, after = state["stage1_validation"], state["stage2_validation"]
    return Decision(
        stage1=stage1,
        stage2=patched,
        final=final,
        conflict_resolved=conflict_resolved(
            stage1, final, hints, state["text"], language(state["lang"])
        ),
        stage1_validator=validator_aggregate(before),
        stage2_validator=validator_aggregate(after) if after else None,
        shown_memory=state.get("memory_injections", ()),
        meta={
            "debate_skipped": state.get("debate_skipped"),
            "contest": state.get("contest"),
            "gate_decision": "APPLY" if any(r.applied for r in log) else "SKIP",
            "adopt_decision": adoption.decision,
            "adopt_reason": adoption.reason,
            "ev_score": adoption.ev_score,
            "ev_components": adoption.ev_components,
            "override_skipped_reason": first_skip(log),
            "debate_override_stats": OverrideStats(
                **Counter(name for r in log for name in VERDICTS[r.verdict].counted_in)
            ),
            "debate_override_skip_reasons": skip_reasons(log),
            "override_gate": tuple(log),
            "correction_applied_log": tuple(state["corrections"]),
            "mapping_stats": hints.mapping_stats if hints else MappingStats(),
            "mapping_fail_reasons": hints.mapping_fail_reasons if hints else MappingFailReasons(),
            "stage1_risks": len(before.structural_risks),
            "stage2_risks": len(after.structural_risks) if after else None,
        },
    )


def decided_by_fusion(state: State) -> Decision:
    """The fused result, or the first call if both readers agree."""
    decision = decided_by_adoption(state)
    opinion = state["second_opinion"]
    final = state["fused_result"] or decision.stage1
    return replace(decision, final=final, meta={**decision.meta, "selective": opinion})


def final_aspects(result: StageResult, text: str) -> tuple[FinalAspect, ...]:
    """One entry per sentiment, with the agent's evidence and whether it is in the text."""
    return tuple(
        FinalAspect(
            aspect_term=aspect.term,
            polarity=s.polarity,
            category=s.category,
            opinion_term=s.opinion_term,
            evidence=s.evidence,
            is_grounded=grounded(text, s.evidence),
            span=aspect.span,
            confidence=s.confidence,
            is_implicit=aspect.is_implicit(s),
        )
        for aspect in result.aspects
        for s in aspect.sentiments
    )


def tuple_list(result: StageResult, lang: Language) -> tuple[AspectTuple, ...]:
    """The unique tuples of a result."""
    pairs = {
        (lang.key(a.name), s.category, s.polarity): AspectTuple(
            aspect_term=a.term,
            polarity=s.polarity,
            category=s.category,
            opinion_term=s.opinion_term,
        )
        for a in result.aspects
        for s in a.sentiments
    }
    return tuple(pairs.values())


def patched_ate(result: StageResult, lang: Language) -> PatchedAte:
    """The unique aspects of a result."""
    first = {lang.key(a.name): a for a in reversed(result.aspects)}
    aspects = [
        PatchedAspect(**{name: value for name, value in a if name != "sentiments"})
        for a in first.values()
    ]
    return PatchedAte(aspects=tuple(reversed(aspects)))


def patched_atsa(result: StageResult) -> PatchedAtsa:
    """The sentiments of a result with the names of their aspects."""

    def sentiment(aspect: str | None, s: Sentiment, is_implicit: bool) -> PatchedSentiment:
        fields = {name: value for name, value in s if name not in ("aspect_term", "said_implicit")}
        return PatchedSentiment(aspect_ref=aspect, is_implicit=is_implicit, **fields)

    return PatchedAtsa(
        aspect_sentiments=tuple(
            sentiment(a.term, s, a.is_implicit(s)) for a in result.aspects for s in a.sentiments
        ),
        unanchored=tuple(sentiment(s.aspect_term, s, s.said_implicit) for s in result.unanchored),
    )


def debate_output(state: State, pipeline: PipelineSettings) -> DebateOutput | None:
    """The debate; None if none was held."""
    summary = state["judge_answer"]
    if summary is None:
        return None
    rounds: dict[int, list[DebateTurn]] = {}
    for turn in state["turns"]:
        content = turn.answer.model_dump(exclude={"agent", "speaker"})
        rounds.setdefault(turn.round, []).append(DebateTurn(speaker=turn.speaker, **content))
    speakers = pipeline.debate.speakers
    return DebateOutput(
        topic=state["text"],
        personas={name: speakers[name].model_dump() for name in pipeline.debate.order},
        rounds=tuple(DebateRound(round=n, turns=tuple(t)) for n, t in sorted(rounds.items())),
        summary=summary,
        review_context=state["debate_hints"],
    )


def conflict_resolved(
    stage1: StageResult, final: StageResult, hints: ReviewContext | None, text: str, lang: Language
) -> bool:
    """Whether Stage 1 or the debate gave an aspect two polarities and the final result has one."""
    board = Board(final, text, lang)
    polarities_of: dict[str, set[str]] = {}
    for aspect in stage1.aspects:
        polarities_of.setdefault(board.resolve(aspect.name), set()).update(aspect.polarities)
    for term, hints_of_term in hints.aspect_hints.items() if hints else ():
        hinted = {exact(h.polarity_hint) for h in hints_of_term} & set(POLARITIES)
        polarities_of.setdefault(board.resolve(term), set()).update(str(p) for p in hinted)
    contested = [key for key, polarities in polarities_of.items() if len(polarities) > 1]
    return bool(contested) and all(
        key in board.aspects and len(board.aspects[key].polarities) == 1 for key in contested
    )


def skip_reasons(log: Sequence[GateRecord]) -> SkipReasons:
    """Counts of the conflicts by reason."""
    fields = {name.lower(): name for name in SkipReasons.model_fields}
    return SkipReasons(**Counter(fields[r.verdict] for r in log if r.verdict in fields))


def ungrounded_count(result: StageResult, text: str) -> int:
    """Sentiments whose evidence is not in the text: hallucinations."""
    return sum(
        bool(s.evidence) and not grounded(text, s.evidence)
        for a in result.aspects
        for s in a.sentiments
    )


def violations(calls: Sequence[CallRecord]) -> tuple[str, ...]:
    """Reviewers that returned a full list instead of reviews."""
    return tuple(f"{c.node}: {note}" for c in calls for note in c.notes if note.endswith(DISCARDED))


def plain_answers(state: State) -> dict[str, Any]:
    """The answers of a user's own agents as plain values."""
    return {
        node: answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer
        for node, answer in state.get("answers", {}).items()
    }


def usage(calls: Sequence[CallRecord]) -> Usage:
    """The total cost of the calls. The second reader makes none."""
    made = [c for c in calls if c.node != SECOND_READER]
    spent = [c.usage for c in made if c.usage]
    return Usage(
        calls=len(made),
        cached_calls=sum([c.cached for c in made]),
        attempts=sum([c.attempts for c in made]),
        prompt_tokens=sum([u.get("prompt_tokens", 0) for u in spent]),
        completion_tokens=sum([u.get("completion_tokens", 0) for u in spent]),
        latency_ms=sum([c.latency_ms for c in made]),
    )
