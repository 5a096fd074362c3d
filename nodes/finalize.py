"""Everything that was decided, as one `FinalOutput`.

`finalize` is the last node of a graph without a Moderator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nodes.adopt import first_skip
from nodes.aggregates import ate_aggregate, atsa_aggregate, validator_aggregate
from nodes.board import Board, tuples
from nodes.human_answer import with_word
from nodes.language import Language, language
from nodes.override_gate import gate_log
from nodes.polarity import exact
from nodes.text import grounded
from schemas.answers import DISCARDED, POLARITIES
from schemas.output import (
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
    SkipReasons,
    Usage,
)
from schemas.records import (
    Adoption,
    CallRecord,
    GateRecord,
    ModeratorOutput,
    ReviewContext,
    StageResult,
)
from schemas.settings import PipelineSettings
from schemas.state import FinishUpdate, State

# Verdicts of the gate that count as `skipped_conflict`, by their name in the statistics.
_CONFLICTS = {
    "action_ambiguity": "action_ambiguity",
    "l3_conservative": "L3_conservative",
    "implicit_soft_only": "implicit_soft_only",
    "contradictory_memory": "contradictory_memory",
}


def finalize(state: State, pipeline: PipelineSettings) -> FinishUpdate:
    """Give the output without a Moderator: its label is the aggregate of the final tuples."""
    return finish(state, final_output(state, pipeline, state["adoption"], None))


def finish(state: State, output: FinalOutput) -> FinishUpdate:
    """The end of a text, with a person's word on it where there is one.

    Another text on the same thread must not inherit its id or language.
    """
    return {
        "output": with_word(output, state.get("persons_word")),
        "uid": None,
        "lang": None,
        "domain": None,
        "demos": [],
        "given_aspects": None,
    }


def final_output(
    state: State,
    pipeline: PipelineSettings,
    adoption: Adoption,
    moderation: ModeratorOutput | None,
) -> FinalOutput:
    """Build the output: the patched result if it was adopted, else Stage 1's."""
    lang = language(state["lang"])
    text = state["text"]
    stage1, patched = state["stage1_result"], state["patched_result"]
    final = patched if adoption.decision == "adopted" and patched else stage1
    plain = ate_aggregate(final)
    label = moderation.final_label if moderation else plain.label
    confidence = moderation.confidence if moderation else plain.confidence
    stage2_validation = state["stage2_validation"]
    hints = state["debate_hints"]
    calls = tuple(state["calls"].values())
    log = gate_log(state["gate_outcomes"])
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
            stage2_tuples=tuple_list(patched, lang) if patched else (),
        ),
        stage1_ate=ate_aggregate(stage1),
        stage1_atsa=atsa_aggregate(stage1, text),
        stage1_validator=validator_aggregate(state["stage1_validation"]),
        stage2_ate=ate_aggregate(patched) if patched else None,
        stage2_atsa=atsa_aggregate(patched, text) if patched else None,
        stage2_validator=validator_aggregate(stage2_validation) if stage2_validation else None,
        moderator=moderation,
        debate=debate_output(state, pipeline),
        analysis_flags=AnalysisFlags(
            correction_occurred=tuples(final, lang) != tuples(stage1, lang),
            conflict_resolved=conflict_resolved(stage1, final, hints, text, lang),
            final_confidence_score=confidence,
            stage2_executed=patched is not None,
        ),
        meta=Meta(
            protocol=pipeline.protocol,
            given_aspects=state.get("given_aspects"),
            gate_decision="APPLY" if any(r.applied for r in log) else "SKIP",
            adopt_decision=adoption.decision,
            adopt_reason=adoption.reason,
            ev_score=adoption.ev_score,
            ev_threshold=pipeline.debate_override.ev_threshold,
            ev_components=adoption.ev_components,
            override_skipped_reason=first_skip(log),
            debate_override_stats=override_stats(log),
            debate_override_skip_reasons=skip_reasons(log),
            override_gate=tuple(log),
            correction_applied_log=tuple(state["corrections"]),
            **(
                {
                    "mapping_stats": hints.mapping_stats,
                    "mapping_fail_reasons": hints.mapping_fail_reasons,
                }
                if hints
                else {}
            ),
            stage1_risks=len(state["stage1_validation"].structural_risks),
            stage2_risks=len(stage2_validation.structural_risks) if stage2_validation else None,
            polarity_repair_count=sum(c.polarity_repair_count for c in state["counts"].values()),
            polarity_invalid_count=sum(c.polarity_invalid_count for c in state["counts"].values()),
            unanchored_count=len(final.unanchored),
            ungrounded_count=ungrounded_count(final, text),
            stage2_review_violation=violations(calls),
            usage=usage(calls),
            memory=memory_use(state, state.get("memory_injections", [])),
        ),
        process_trace=calls,
    )


def final_aspects(result: StageResult, text: str) -> tuple[FinalAspect, ...]:
    """One entry per sentiment. Evidence stays what the agent said; whether it holds is said too."""
    return tuple(
        FinalAspect(
            aspect_term=aspect.term,
            polarity=s.polarity,
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
    """The tuples of a result, each once."""
    found = {
        (lang.key(a.term), s.polarity): AspectTuple(aspect_term=a.term, polarity=s.polarity)
        for a in result.aspects
        for s in a.sentiments
    }
    return tuple(found.values())


def debate_output(state: State, pipeline: PipelineSettings) -> DebateOutput | None:
    """The debate as it was held, None if there was none."""
    summary = state["judge_answer"]
    if summary is None:
        return None
    rounds: dict[int, list[DebateTurn]] = {}
    for turn in state["turns"]:
        said = turn.answer.model_dump(exclude={"agent", "speaker"})
        rounds.setdefault(turn.round, []).append(DebateTurn(speaker=turn.speaker, **said))
    speakers = pipeline.debate.speakers
    return DebateOutput(
        topic=state["text"],
        personas={name: speakers[name].model_dump() for name in pipeline.debate.order},
        rounds=tuple(DebateRound(round=n, turns=tuple(t)) for n, t in sorted(rounds.items())),
        summary=summary,
    )


def conflict_resolved(
    stage1: StageResult,
    final: StageResult,
    hints: ReviewContext | None,
    text: str,
    lang: Language,
) -> bool:
    """Stage 1 or the debate gave an aspect two polarities, and the final result has one."""
    board = Board(final, text, lang)
    said: dict[str, set[str]] = {}
    for aspect in stage1.aspects:
        said.setdefault(board.resolve(aspect.term), set()).update(aspect.polarities)
    for term, spoken in hints.aspect_hints.items() if hints else ():
        words = {exact(h.polarity_hint) for h in spoken} & set(POLARITIES)
        said.setdefault(board.resolve(term), set()).update(str(w) for w in words)
    contested = [key for key, polarities in said.items() if len(polarities) > 1]
    return bool(contested) and all(
        key in board.aspects and len(board.aspects[key].polarities) == 1 for key in contested
    )


def override_stats(log: Sequence[GateRecord]) -> OverrideStats:
    """Counts per verdict; `neutral_only` is also a low signal."""
    count = Counter(r.verdict for r in log)
    return OverrideStats(
        applied=sum(r.applied for r in log),
        skipped_neutral_only=count["neutral_only"],
        skipped_low_signal=count["low_signal"] + count["neutral_only"],
        skipped_conflict=sum(n for name, n in count.items() if name in _CONFLICTS),
        skipped_already_confident=count["already_confident"],
        skipped_max_one_override_per_sample=count["max_one_override_per_sample"],
        skipped_no_evidence_span=count["no_evidence_span"],
        skipped_evidence_span_not_in_text=count["evidence_span_not_in_text"],
        skipped_evidence_span_missing_trigger=count["evidence_span_missing_trigger"],
    )


def skip_reasons(log: Sequence[GateRecord]) -> SkipReasons:
    """What the conflicts were."""
    count = Counter(_CONFLICTS[r.verdict] for r in log if r.verdict in _CONFLICTS)
    return SkipReasons(**count)


def ungrounded_count(result: StageResult, text: str) -> int:
    """Sentiments whose evidence is not in the text: hallucinations."""
    return sum(
        bool(s.evidence) and not grounded(text, s.evidence)
        for a in result.aspects
        for s in a.sentiments
    )


def violations(calls: Sequence[CallRecord]) -> tuple[str, ...]:
    """Reviewers that gave a full list where only reviews were asked for."""
    return tuple(f"{c.node}: {note}" for c in calls for note in c.notes if note.endswith(DISCARDED))


def memory_use(state: State, shown: Sequence[str]) -> MemoryUse | None:
    """What memory held and who was shown it, None where there is none."""
    recall = state.get("memory_recall")
    if recall is None:
        return None
    return MemoryUse(recall=recall, injections=tuple(shown))


def usage(calls: Sequence[CallRecord]) -> Usage:
    """What the calls cost together."""
    spent = [c.usage or {} for c in calls]
    return Usage(
        calls=len(calls),
        cached_calls=sum(c.cached for c in calls),
        attempts=sum(c.attempts for c in calls),
        prompt_tokens=sum(u.get("prompt_tokens", 0) for u in spent),
        completion_tokens=sum(u.get("completion_tokens", 0) for u in spent),
        latency_ms=sum(c.latency_ms for c in calls),
    )
