"""`FinalOutput`: the result of one text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from absa.schemas.answers import DebateSummary, Span
from absa.schemas.human import Decision, Doubt, HumanCounts
from absa.schemas.memory import Recall
from absa.schemas.records import (
    Aggregate,
    ArbiterAction,
    CallRecord,
    Candidate,
    ConflictFlag,
    Contest,
    Correction,
    DiscardedAction,
    GateRecord,
    MappingFailReasons,
    MappingStats,
    ModeratorOutput,
    Named,
    ReviewAction,
    ReviewContext,
    SecondOpinion,
    ValidatorAggregate,
    ValidatorRisk,
)
from absa.schemas.sample import Cell

if TYPE_CHECKING:
    import pandas


class OutputModel(BaseModel):
    """A part of the output."""

    model_config = ConfigDict(frozen=True)


class AspectTuple(Named, OutputModel):
    """An aspect and its polarity; an unnamed aspect has no term."""

    aspect_term: str | None
    polarity: str
    category: str | None = None
    opinion_term: str | None = None


class FinalAspect(AspectTuple):
    """An aspect of the final result with its evidence and span."""

    evidence: str | None = None
    # False if evidence is missing or does not occur in the text.
    is_grounded: bool = False
    span: Span | None = None
    confidence: float = 0.0
    is_implicit: bool = False


class FinalResult(OutputModel):
    """The result: the label of the text and its aspects."""

    label: str
    confidence: float
    rationale: str = ""
    final_aspects: tuple[FinalAspect, ...] = ()
    final_tuples: tuple[AspectTuple, ...] = ()
    stage1_tuples: tuple[AspectTuple, ...] = ()
    stage2_tuples: tuple[AspectTuple, ...] = ()


class PatchedAspect(OutputModel):
    """An aspect after Stage 2; without a span it is implicit."""

    term: str | None
    category: str | None = None
    span: Span | None = None
    confidence: float | None = None


class PatchedSentiment(OutputModel):
    """A sentiment after Stage 2."""

    aspect_ref: str | None
    polarity: str
    category: str | None = None
    opinion_term: str | None = None
    evidence: str | None = None
    confidence: float
    is_implicit: bool = False
    is_backfilled: bool = False


class PatchedAte(OutputModel):
    """ATE's Stage 1 result with the corrections, reviews and overrides of Stage 2 applied."""

    aspects: tuple[PatchedAspect, ...] = ()


class PatchedAtsa(OutputModel):
    """ATSA's result with the same changes; `unanchored` sentiments have no listed aspect."""

    aspect_sentiments: tuple[PatchedSentiment, ...] = ()
    unanchored: tuple[PatchedSentiment, ...] = ()


class DebateTurn(OutputModel):
    """One speaker's turn."""

    speaker: str
    proposed_edits: tuple[dict[str, Any], ...] = ()
    # Only in the persona debate, whose turns are prose.
    stance: str | None = None
    planning: str | None = None
    reflection: str | None = None
    message: str | None = None
    key_points: tuple[str, ...] = ()


class DebateRound(OutputModel):
    """The turns of one round."""

    round: int
    turns: tuple[DebateTurn, ...] = ()


class DebateOutput(OutputModel):
    """The debate."""

    topic: str
    personas: dict[str, dict[str, str]] = Field(default_factory=dict)
    rounds: tuple[DebateRound, ...] = ()
    summary: DebateSummary
    # The hints per aspect, as reviewers read them and the gate weighs them.
    review_context: ReviewContext | None = None


class AnalysisFlags(OutputModel):
    """Four flags about the analysis."""

    correction_occurred: bool = False
    conflict_resolved: bool = False
    final_confidence_score: float = 0.0
    stage2_executed: bool = False


class OverrideStats(OutputModel):
    """Counts of the gate's verdicts."""

    # Tuples that were added, flipped or dropped.
    applied: int = 0
    # Tuples whose confidence was raised.
    confirmed: int = 0
    skipped_neutral_only: int = 0
    skipped_low_signal: int = 0
    skipped_conflict: int = 0
    skipped_already_confident: int = 0
    skipped_max_one_override_per_sample: int = 0
    skipped_no_evidence_span: int = 0
    skipped_evidence_span_not_in_text: int = 0
    skipped_evidence_span_missing_trigger: int = 0


class SkipReasons(OutputModel):
    """The parts of `skipped_conflict`."""

    action_ambiguity: int = 0
    L3_conservative: int = 0
    implicit_soft_only: int = 0
    contradictory_memory: int = 0


class Usage(OutputModel):
    """The cost of the analysis."""

    calls: int = 0
    cached_calls: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0


class MemoryUse(OutputModel):
    """The use of memory."""

    recall: Recall
    injections: tuple[str, ...] = ()


class Shown(OutputModel):
    """The result of the agents, as it was shown to a person."""

    label: str
    confidence: float
    rationale: str = ""
    final_aspects: tuple[FinalAspect, ...] = ()


class HumanReview(OutputModel):
    """The reasons to ask a person and the decisions; `pending` if no person was available."""

    status: Literal["pending", "reviewed"]
    reasons: tuple[Doubt, ...]
    reviewer: str | None = None
    note: str | None = None
    decisions: tuple[Decision, ...] = ()
    counts: HumanCounts = HumanCounts()
    shown: Shown | None = None


class Meta(OutputModel):
    """The process that led to the result."""

    protocol: str = "debate"
    # The given aspects; None if the aspects were extracted.
    given_aspects: list[str] | None = None
    gate_decision: Literal["APPLY", "SKIP"] = "SKIP"
    adopt_decision: Literal["adopted", "not_adopted"] = "not_adopted"
    adopt_reason: str = "low_signal"
    ev_score: float | None = None
    ev_threshold: float = 0.5
    ev_components: dict[str, float] = Field(default_factory=dict)
    override_skipped_reason: str | None = None
    debate_override_stats: OverrideStats = OverrideStats()
    debate_override_skip_reasons: SkipReasons = SkipReasons()
    override_gate: tuple[GateRecord, ...] = ()
    correction_applied_log: tuple[Correction, ...] = ()
    mapping_stats: MappingStats = MappingStats()
    mapping_fail_reasons: MappingFailReasons = MappingFailReasons()
    # Conflict review: candidates, flags, risks and actions.
    candidates: tuple[Candidate, ...] = ()
    conflict_flags: tuple[ConflictFlag, ...] = ()
    validator_risks: tuple[ValidatorRisk, ...] = ()
    review_actions: tuple[ReviewAction, ...] = ()
    discarded_actions: tuple[DiscardedAction, ...] = ()
    arbiter_actions: tuple[ArbiterAction, ...] = ()
    flagged_tuple_ids: tuple[str, ...] = ()
    # Why no debate was held (`debate.when: contested` and both readers agree).
    debate_skipped: str | None = None
    # Why a debate was held, and about which tuples.
    contest: Contest | None = None
    # Only if the embedded analyzer was asked beside the model.
    selective: SecondOpinion | None = None
    stage1_risks: int = 0
    stage2_risks: int | None = None
    polarity_repair_count: int = 0
    polarity_invalid_count: int = 0
    category_invalid_count: int = 0
    # Names that were trimmed, that name nothing, or with a low probability.
    name_cut_count: int = 0
    name_refused_count: int = 0
    name_unlikely_count: int = 0
    unanchored_count: int = 0
    ungrounded_count: int = 0
    stage2_review_violation: tuple[str, ...] = ()
    # Answers of agents that a user added to the graph, by node.
    answers: dict[str, Any] = Field(default_factory=dict)
    usage: Usage = Usage()
    # The recalled cases, and the calls that saw them.
    memory: MemoryUse | None = None
    # The human review; None without one.
    human_review: HumanReview | None = None
    # The seed of a batch, which identifies the repetition of a sample.
    seed: int | None = None


class FinalOutput(OutputModel):
    """Everything about one analyzed text."""

    uid: str
    text: str
    lang: str
    final_result: FinalResult
    stage1_ate: Aggregate
    stage1_atsa: Aggregate | None = None
    stage1_validator: ValidatorAggregate = ValidatorAggregate()
    stage2_ate: Aggregate | None = None
    stage2_atsa: Aggregate | None = None
    stage2_validator: ValidatorAggregate | None = None
    # The patched result behind `stage2_tuples`, adopted or not; None without Stage 2.
    patched_stage2_ate: PatchedAte | None = None
    patched_stage2_atsa: PatchedAtsa | None = None
    moderator: ModeratorOutput | None = None
    debate: DebateOutput | None = None
    analysis_flags: AnalysisFlags
    meta: Meta
    # The labels of auxiliary classifiers, which agents and rules do not see.
    aux_signals: dict[str, dict[str, Any]] = Field(default_factory=dict)
    # Other columns of the data: product, date, rating, …
    extra: dict[str, Cell] = Field(default_factory=dict)
    process_trace: tuple[CallRecord, ...] = ()

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The output as plain values, with lists: `pandas.json_normalize` refuses tuples."""
        values: dict[str, Any] = _with_lists(super().model_dump(**options))
        return values

    def __repr__(self) -> str:
        """One line: the whole output has hundreds."""
        result = self.final_result
        aspects = ", ".join(f"{a.name}: {a.polarity}" for a in result.final_aspects)
        return f"FinalOutput(uid={self.uid!r}, label={result.label!r}, aspects=[{aspects}])"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        html: str = import_module(_NOTEBOOK).html(self)
        return html

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each tuple, see `absa.to_frame`."""
        return import_module(_NOTEBOOK).to_frame(self)


# Imported when it is used, by name: the schemas must not depend on the rest of the package.
_NOTEBOOK = "absa.notebook"


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_lists(member) for member in value]
    return value
