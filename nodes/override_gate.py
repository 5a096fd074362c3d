"""The debate-override gate: decides whether the debate may change an aspect after the reviews.

The aspects of the debate are judged one by one, in the order in which the debate first mentioned
them. The first matching condition of `CONDITIONS` decides. A separate edge leads from each verdict
to a node, which records a skip or prepares the change of an override or a confirm. `adopt` applies
the prepared changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from absa.nodes.board import Board
from absa.nodes.categories import categories_of
from absa.nodes.language import language
from absa.nodes.memory import warns
from absa.nodes.polarity import exact, read
from absa.nodes.thresholds import reaches
from absa.schemas.answers import L3_RISKS, Risk
from absa.schemas.records import (
    AspectRecord,
    Correction,
    GateOutcome,
    GateRecord,
    Hint,
    ReviewContext,
    Sentiment,
)
from absa.schemas.settings import OverrideSettings, PipelineSettings
from absa.schemas.state import GateUpdate, OutcomeUpdate, State
from absa.schemas.verdicts import OVERRIDES, Verdict

MIN_EVIDENCE = 2
OVERRIDE = "debate_override"
_THRESHOLDS = ("min_total", "min_margin", "min_target_conf")


@dataclass(frozen=True)
class HintedAspect:
    """An aspect under its current name, with all its hints."""

    key: str
    term: str
    hints: tuple[Hint, ...]
    own_evidence: str | None
    has_own_evidence: bool
    stage1_evidence: str | None = None


@dataclass(frozen=True)
class Case:
    """The inputs of the conditions for one aspect."""

    settings: OverrideSettings
    text: str
    term: str
    aspect: AspectRecord | None
    was_removed: bool
    overrides_so_far: int
    l3_risk: bool
    contradicted_by_memory: bool
    evidence: str | None
    valid_hints: int
    pos_score: float
    neg_score: float
    drop_score: float

    @property
    def total(self) -> float:
        """The total weight of positive and negative hints."""
        return self.pos_score + self.neg_score

    @property
    def margin(self) -> float:
        """The difference of the two weights."""
        return abs(self.pos_score - self.neg_score)

    @property
    def target(self) -> str:
        """The polarity with the larger weight."""
        return "positive" if self.pos_score > self.neg_score else "negative"

    @property
    def sentiments(self) -> tuple[Sentiment, ...]:
        """The aspect's sentiments; a backfilled one counts."""
        return self.aspect.sentiments if self.aspect else ()

    @property
    def is_implicit(self) -> bool:
        """Whether all its sentiments are implicit, or it has neither a sentiment nor a span."""
        if self.aspect is not None and self.sentiments:
            return all(self.aspect.is_implicit(s) for s in self.sentiments)
        return self.term not in self.text

    @property
    def wants_drop(self) -> bool:
        """Whether the weight of the drops suffices. Only with `allow_drop` (off by default)."""
        return (
            self.settings.allow_drop
            and bool(self.sentiments)
            and reaches(self.drop_score, self.settings.min_total)
            and reaches(self.drop_score - self.total, self.settings.min_margin)
        )

    def settled(self, sentiment: Sentiment) -> bool:
        """Whether the sentiment has the target polarity with enough confidence."""
        return sentiment.polarity == self.target and reaches(
            sentiment.confidence, self.settings.min_target_conf
        )


Condition = tuple[Verdict, Callable[[Case], bool]]

# Only with `allow_drop`.
DROP_CONDITIONS: tuple[Condition, ...] = (
    ("l3_conservative", lambda c: c.wants_drop and c.settings.l3_conservative and c.l3_risk),
    ("drop", lambda c: c.wants_drop),
)
CONDITIONS: tuple[Condition, ...] = (
    (
        "max_one_override_per_sample",
        lambda c: c.overrides_so_far >= c.settings.max_overrides_per_sample,
    ),
    *DROP_CONDITIONS,
    ("neutral_only", lambda c: c.valid_hints == 0),
    ("no_evidence_span", lambda c: not c.evidence),
    ("evidence_span_not_in_text", lambda c: str(c.evidence) not in c.text),
    ("evidence_span_missing_trigger", lambda c: len(str(c.evidence)) < MIN_EVIDENCE),
    ("low_signal", lambda c: not reaches(c.total, c.settings.min_total)),
    # The speakers disagree, or a review removed the aspect.
    ("action_ambiguity", lambda c: not reaches(c.margin, c.settings.min_margin) or c.was_removed),
    ("l3_conservative", lambda c: c.settings.l3_conservative and c.l3_risk),
    ("implicit_soft_only", lambda c: c.is_implicit),
    ("contradictory_memory", lambda c: c.contradicted_by_memory),
    ("add", lambda c: not c.sentiments),
    ("already_confident", lambda c: all(c.settled(s) for s in c.sentiments)),
    ("confirm", lambda c: all(s.polarity == c.target for s in c.sentiments)),
    ("flip", lambda c: True),
)


def conditions(allow_drop: bool) -> list[Verdict]:
    """The conditions in the order in which the gate checks them."""
    return [c[0] for c in CONDITIONS if allow_drop or c not in DROP_CONDITIONS]


def verdict(case: Case) -> Verdict:
    """The first condition that holds decides."""
    return next(name for name, holds in CONDITIONS if holds(case))


def override_gate(state: State, pipeline: PipelineSettings) -> GateUpdate:
    """Judge the aspects of the debate one by one."""
    context, patched = state["debate_hints"], state["patched_result"]
    assert context is not None and patched is not None, "the gate comes after debate and reviews"
    settings = pipeline.debate_override
    if state.get("given_aspects") is not None:
        # Given aspects are not dropped.
        settings = settings.model_copy(update={"allow_drop": False})
    board = Board(patched, state["text"], language(state["lang"]))
    removed = removed_aspects(state["corrections"], board)
    verdicts: list[GateRecord] = []
    for aspect in hinted_aspects(context, board):
        record = weigh(
            aspect,
            board,
            context,
            removed=removed,
            risks=state["stage1_validation"].structural_risks,
            # An override changes only its own aspect, so a verdict depends on the others only by
            # the number of overrides. A confirm changes no tuple and is not counted.
            overrides_so_far=sum(r.applied for r in verdicts),
            settings=settings,
            memory_warns=warns(state.get("memory_recall")),
        )
        verdicts.append(record)
    return {"gate_verdicts": verdicts}


def record_verdict(verdict: Verdict) -> Callable[[State], OutcomeUpdate]:
    """The node that records a skip."""

    def record(state: State) -> OutcomeUpdate:
        outcomes = [
            GateOutcome(order=n, record=r)
            for n, r in enumerate(state["gate_verdicts"])
            if r.verdict == verdict
        ]
        return {"gate_outcomes": {o.record.aspect: o for o in outcomes}}

    return record


def carry_out(verdict: Verdict) -> Callable[[State, PipelineSettings], OutcomeUpdate]:
    """The node that prepares an override or a confirm; `adopt` applies it."""

    def apply(state: State, pipeline: PipelineSettings) -> OutcomeUpdate:
        patched = state["patched_result"]
        assert patched is not None, "the gate comes after the reviews"
        board = Board(patched, state["text"], language(state["lang"]))
        outcomes: dict[str, GateOutcome] = {}
        for n, record in enumerate(state["gate_verdicts"]):
            if record.verdict == verdict:
                category = judged_category(state, pipeline, board, record)
                least = pipeline.debate_override.min_target_conf
                correction = override(board, record, least, category)
                outcomes[record.aspect] = GateOutcome(
                    order=n,
                    record=record,
                    correction=correction,
                    aspect=board.aspects.get(board.lang.key(record.aspect)),
                )
        return {"gate_outcomes": outcomes}

    return apply


def apply_overrides(board: Board, outcomes: Mapping[str, GateOutcome]) -> list[Correction]:
    """Apply the overrides to the board; return their corrections in order."""
    applied = [o for o in in_order(outcomes) if o.correction is not None]
    for outcome in applied:
        key = board.lang.key(outcome.record.aspect)
        if outcome.aspect is not None:
            board.aspects[key] = outcome.aspect
        else:
            board.drop_aspect(key)
    return [o.correction for o in applied if o.correction is not None]


def in_order(outcomes: Mapping[str, GateOutcome]) -> list[GateOutcome]:
    """The outcomes in the order in which the aspects were judged."""
    return sorted(outcomes.values(), key=lambda o: o.order)


def gate_log(outcomes: Mapping[str, GateOutcome]) -> list[GateRecord]:
    """The recorded and applied verdicts in order."""
    return [o.record for o in in_order(outcomes)]


def hinted_aspects(context: ReviewContext, board: Board) -> list[HintedAspect]:
    """The aspects of the debate under their current names. A revised span renames an aspect."""
    names: dict[str, list[str]] = {}
    for name in context.aspect_hints:
        names.setdefault(board.resolve(name), []).append(name)
    aspects = []
    for key, aliases in names.items():
        aspect = board.aspects.get(key)
        entries = [context.aspect_evidence[n] for n in aliases if n in context.aspect_evidence]
        aspects.append(
            HintedAspect(
                key=key,
                term=aspect.name if aspect else board.lang.strip_particle(aliases[0]),
                hints=tuple(h for n in aliases for h in context.aspect_hints[n]),
                own_evidence=entries[0] if entries else None,
                has_own_evidence=bool(entries),
                stage1_evidence=next(
                    (e for n in aliases if (e := context.stage1_evidence.get(n))), None
                ),
            )
        )
    return aspects


def removed_aspects(corrections: Sequence[Correction], board: Board) -> frozenset[str]:
    """Aspects that a review removed or left without a sentiment at any time."""
    return frozenset(
        board.resolve(c.target_aspect)
        for c in corrections
        if c.applied and c.source != OVERRIDE and not (c.after and c.after["sentiments"])
    )


def weigh(
    aspect: HintedAspect,
    board: Board,
    context: ReviewContext,
    *,
    removed: frozenset[str],
    risks: Sequence[Risk],
    overrides_so_far: int,
    settings: OverrideSettings,
    memory_warns: bool = False,
) -> GateRecord:
    """Judge one aspect; return the verdict with all its numbers."""
    # The gate does not repair misspelt polarities: a doubtful word must not change a tuple.
    readings = [(exact(h.polarity_hint), h.weight) for h in aspect.hints]
    spans = context.summary.sentence_evidence_spans
    fallback = spans[0] if spans else aspect.stage1_evidence
    case = Case(
        settings=settings,
        text=board.text,
        term=aspect.term,
        aspect=board.aspects.get(aspect.key),
        was_removed=aspect.key in removed,
        overrides_so_far=overrides_so_far,
        l3_risk=any(r.type in L3_RISKS for r in risks),
        contradicted_by_memory=memory_warns,
        evidence=aspect.own_evidence if aspect.has_own_evidence else fallback,
        valid_hints=sum(polarity in ("positive", "negative") for polarity, _ in readings),
        pos_score=sum(weight for polarity, weight in readings if polarity == "positive"),
        neg_score=sum(weight for polarity, weight in readings if polarity == "negative"),
        drop_score=sum(h.weight for h in aspect.hints if h.op == "drop_tuple"),
    )
    decided = verdict(case)
    polarities = [h.polarity_hint for h in aspect.hints if h.polarity_hint is not None]
    return GateRecord(
        aspect=aspect.term,
        verdict=decided,
        applied=decided in OVERRIDES,
        hints=aspect.hints,
        valid_hint_count=case.valid_hints,
        invalid_hint_count=sum(exact(word) is None for word in polarities),
        pos_score=case.pos_score,
        neg_score=case.neg_score,
        drop_score=case.drop_score,
        total=case.total,
        margin=case.margin,
        target=case.target if case.valid_hints else None,
        evidence=case.evidence,
        own_evidence=aspect.own_evidence,
        thresholds={name: getattr(settings, name) for name in _THRESHOLDS},
    )


def judged_category(
    state: State, pipeline: PipelineSettings, board: Board, record: GateRecord
) -> str | None:
    """The category of an added tuple, from the judge's tuple."""
    categories, summary = categories_of(pipeline), state["judge_answer"]
    if categories is None or summary is None:
        return None
    matching = (
        categories.find(t.category)
        for t in summary.final_tuples
        if board.resolve(t.aspect_term) == board.lang.key(record.aspect)
        and read(t.polarity).value == record.target
    )
    return next(matching, None)


def override(
    board: Board, record: GateRecord, min_target_conf: float, category: str | None = None
) -> Correction:
    """Apply a verdict to the board and log it."""
    key = board.lang.key(record.aspect)
    before = board.snapshot(key)
    if record.verdict == "drop":
        board.drop_aspect(key)
    elif record.verdict == "add":
        if key not in board.aspects:
            key = board.add_aspect(record.aspect)
        assert record.target is not None
        added = Sentiment(
            polarity=record.target,
            confidence=min_target_conf,
            evidence=record.evidence,
            category=category,
        )
        board.put(key, [added])
    elif record.verdict == "confirm":
        board.put(key, [_confirmed(s, min_target_conf) for s in board.aspects[key].sentiments])
    else:
        board.put(
            key, [_overridden(s, record, min_target_conf) for s in board.aspects[key].sentiments]
        )
    sources = ", ".join(dict.fromkeys(h.provenance_hint for h in record.hints))
    return Correction(
        source=OVERRIDE,
        proposal_type=f"{OVERRIDE}_{record.verdict}",
        target_aspect=record.aspect,
        applied=True,
        reason=_weighed(record),
        before=before,
        after=board.snapshot(key),
        provenance=sources,
    )


def _weighed(record: GateRecord) -> str:
    if record.verdict == "drop":
        return f"drop weight {record.drop_score:.4g}, total {record.total:.4g}"
    return f"total {record.total:.4g}, margin {record.margin:.4g}"


def _confirmed(sentiment: Sentiment, min_target_conf: float) -> Sentiment:
    """The confirmed sentiment: polarity and evidence stay, the confidence is raised."""
    if reaches(sentiment.confidence, min_target_conf):
        return sentiment
    return sentiment.model_copy(update={"confidence": min_target_conf})


def _overridden(sentiment: Sentiment, record: GateRecord, min_target_conf: float) -> Sentiment:
    if sentiment.polarity == record.target and reaches(sentiment.confidence, min_target_conf):
        return sentiment
    return sentiment.model_copy(
        update={
            "polarity": record.target,
            "confidence": max(sentiment.confidence, min_target_conf),
            "evidence": record.own_evidence or sentiment.evidence,
            "is_backfilled": False,
        }
    )
