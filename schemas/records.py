"""Results of the rules: stage results, hints, corrections, verdicts, decisions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from absa.schemas.answers import DebateSummary, PersonaTurnAnswer, Span, TurnAnswer, name_of
from absa.schemas.verdicts import Verdict


class Named:
    """Gives a name to a record with `aspect_term` and `category`."""

    @property
    def name(self: Any) -> str:
        """The term, or the display name of an unnamed aspect."""
        return name_of(self.aspect_term, self.category)


class Record(BaseModel):
    """An immutable value that rules pass on."""

    model_config = ConfigDict(frozen=True)


class Sentiment(Record):
    """A polarity with its evidence, from an agent or a correction."""

    polarity: str
    confidence: float
    evidence: str | None = None
    opinion_term: str | None = None
    category: str | None = None
    said_implicit: bool = False
    is_backfilled: bool = False


class Unanchored(Named, Sentiment):
    """A sentiment whose aspect ATE did not extract. It is counted, but is not in any tuple."""

    aspect_term: str | None


class AspectRecord(Record):
    """An aspect with its sentiments; without a span it is implicit.

    Without a term the text judges something that it does not name. The category then distinguishes
    it from other unnamed aspects.
    """

    term: str | None
    category: str | None = None
    span: Span | None = None
    confidence: float | None = None
    sentiments: tuple[Sentiment, ...] = ()

    def is_implicit(self, sentiment: Sentiment) -> bool:
        """Whether a sentiment is implicit: it is marked so, or the aspect has no span."""
        return sentiment.said_implicit or self.span is None

    @property
    def name(self) -> str:
        """The term, or the display name of an unnamed aspect."""
        return name_of(self.term, self.category)

    @property
    def polarities(self) -> frozenset[str]:
        """The polarities of its sentiments."""
        return frozenset(s.polarity for s in self.sentiments)


class StageResult(Record):
    """The aspects of a stage with their sentiments."""

    aspects: tuple[AspectRecord, ...] = ()
    unanchored: tuple[Unanchored, ...] = ()
    # For aspects with a revised span: the key of each earlier name -> the current key.
    renamed: dict[str, str] = Field(default_factory=dict)


class FusedTuple(Named, Record):
    """A tuple from a call or the second reader, and its score."""

    aspect_term: str | None
    category: str | None = None
    polarity: str
    is_implicit: bool = False
    votes: int
    # The second reader's probability; 0 if it does not have the tuple.
    p: float
    # Whether the probability is above the second reader's reporting threshold.
    reported: bool
    score: float
    kept: bool


class Agreement(Record):
    """The agreement of the first call and the second reader on one text, in explicit tuples.

    Sums of these over texts show whether the model is too weak for further calls.
    """

    matched: int = 0
    called: int = 0
    reported: int = 0
    # Sums of the reader's probabilities: over reported tuples, and over all tuples.
    p_reported: float = 0.0
    p_seen: float = 0.0


class SecondOpinion(Record):
    """The effect of the second reader on the result."""

    outcome: Literal["agreed", "contested", "reader_alone"]
    reads_language: bool
    knows_domain: bool
    trust: float
    trust_from: Literal["setting", "run", "default"]
    calls: int
    agreement: Agreement
    tuples: tuple[FusedTuple, ...] = ()


ContestReason = Literal["language", "tuples", "risks", "proposals", "backfilled", "unanchored"]


class ContestedTuple(Named, Record):
    """A tuple on which Stage 1 and the second reader differ, without its source."""

    aspect_term: str | None
    category: str | None = None
    polarity: str
    evidence: str | None = None


class Contest(Record):
    """The comparison of Stage 1 and the second reader: reason and topic of a debate."""

    # Empty: the debate is skipped.
    reasons: tuple[ContestReason, ...] = ()
    tuples: tuple[ContestedTuple, ...] = ()


class Counts(Record):
    """Counts of polarity words and names that were changed or left out."""

    polarity_repair_count: int = 0
    polarity_invalid_count: int = 0
    # An opinion word was cut from the name.
    name_cut_count: int = 0
    # The name is only an adjective, which names nothing.
    name_refused_count: int = 0
    # The name's probability is below `pipeline.min_name_probability`.
    name_unlikely_count: int = 0
    # The category is not in the set.
    category_invalid_count: int = 0


class Hint(Record):
    """An edit of the debate as a hint about one aspect. The polarity is the raw word."""

    speaker: str
    op: str
    weight: float
    polarity_hint: str | None = None
    confidence: float | None = None
    provenance_hint: str


class MappingStats(Record):
    """Counts of turns that map to Stage 1 aspects. Turns without edits are not counted."""

    direct: int = 0
    fallback: int = 0
    none: int = 0


class MappingFailReasons(Record):
    """Counts of reasons why turns could not be mapped directly."""

    no_aspects: int = 0
    no_match: int = 0
    neutral_stance: int = 0
    fallback_used: int = 0


class RebuttalPoint(Record):
    """The summary of a turn of the debate for the reviewers."""

    speaker: str
    stance: str
    aspect_refs: tuple[str, ...] = ()
    key_points: tuple[str, ...] = ()
    # For a turn in prose: its text, and the weight and polarity of its stance.
    message: str | None = None
    weight: float | None = None
    polarity_hint: str | None = None
    provenance_hint: str


class ReviewContext(Record):
    """The debate as hints per aspect: what reviewers read and the gate weighs."""

    summary: DebateSummary
    rebuttal_points: tuple[RebuttalPoint, ...] = ()
    aspect_terms: tuple[str, ...] = ()
    synonym_hints: dict[str, list[str]] = Field(default_factory=dict)
    aspect_hints: dict[str, list[Hint]] = Field(default_factory=dict)
    # The judge's evidence per aspect of `aspect_hints`. An entry can be empty or wrong.
    aspect_evidence: dict[str, str | None] = Field(default_factory=dict)
    # Stage 1's evidence, for the persona debate, whose judge names none.
    stage1_evidence: dict[str, str | None] = Field(default_factory=dict)
    mapping_stats: MappingStats = MappingStats()
    mapping_fail_reasons: MappingFailReasons = MappingFailReasons()
    review_guidance: str = ""
    fallback_mapping_policy: str = ""


class Turn(Record):
    """A turn of the debate with its round and speaker."""

    index: int
    round: int
    speaker: str
    answer: TurnAnswer | PersonaTurnAnswer


class Correction(Record):
    """An entry of `correction_applied_log`: the request, whether it was applied, and why."""

    source: str
    proposal_type: str
    target_aspect: str | None
    applied: bool
    reason: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    provenance: str | None = None


class GateRecord(Record):
    """The gate's verdict on one aspect, with all its numbers."""

    aspect: str
    verdict: Verdict
    # Whether a tuple was added, flipped or dropped. A confirm only raises a confidence.
    applied: bool
    hints: tuple[Hint, ...] = ()
    valid_hint_count: int = 0
    invalid_hint_count: int = 0
    pos_score: float = 0.0
    neg_score: float = 0.0
    drop_score: float = 0.0
    total: float = 0.0
    margin: float = 0.0
    target: str | None = None
    evidence: str | None = None
    # The aspect's entry of `aspect_evidence`; None if the judge gave only one for the sentence.
    own_evidence: str | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)


class GateOutcome(Record):
    """A recorded verdict; an override also has its correction and the changed aspect."""

    order: int
    record: GateRecord
    correction: Correction | None = None
    aspect: AspectRecord | None = None


class Adoption(Record):
    """Whether Stage 2 replaces Stage 1, and why."""

    decision: Literal["adopted", "not_adopted"]
    reason: str
    ev_score: float | None = None
    ev_components: dict[str, float] = Field(default_factory=dict)


class Aggregate(Record):
    """A label with its confidence; ATSA's has the covering span of its aspects."""

    label: str
    confidence: float
    span: Span | None = None


class ValidatorAggregate(Record):
    """The Validator's result for the Moderator."""

    issues: tuple[str, ...] = ()
    suggested_label: str | None = None
    confidence: float = 0.0


RuleEBlock = Literal["inferred_empty", "label_unchanged", "confidence_too_high"]


class ArbiterFlags(Record):
    """The effects of the Moderator's rules."""

    stage2_rejected_due_to_confidence: bool = False
    validator_override_applied: bool = False
    confidence_margin_used: float = 0.0
    rule_e_fired: bool = False
    rule_e_block_reason: RuleEBlock | None = None
    rule_b_applied: bool = False
    rule_e_attempted_after_b: bool = False


class ModeratorOutput(Record):
    """The Moderator's decision."""

    final_label: str
    confidence: float
    rationale: str = ""
    selected_stage: Literal["stage1", "stage2"] = "stage1"
    applied_rules: tuple[str, ...] = ()
    arbiter_flags: ArbiterFlags = ArbiterFlags()


class Candidate(Named, Record):
    """A triplet of one perspective, numbered."""

    tuple_id: str
    origin_agent: str
    aspect_term: str | None
    aspect_ref: str | None = None
    category: str | None = None
    polarity: str
    opinion_term: str | None = None
    evidence: str | None = None
    # The term's span in the text, and the span in the answer.
    span: Span | None = None
    said_span: Span | None = None
    confidence: float
    rationale: str | None = None


ConflictType = Literal["polarity_mismatch", "aspect_overlap", "single_support"]


class ConflictFlag(Record):
    """Candidates that contradict each other or need a review."""

    aspect_term: str | None
    tuple_ids: tuple[str, ...]
    conflict_type: ConflictType


class ValidatorRisk(Record):
    """A risk of one candidate, found by a rule."""

    tuple_id: str
    type: Literal["EVIDENCE_GAP", "SPAN_MISMATCH", "NEGATION_SCOPE"]
    description: str


ActionType = Literal["DROP", "MERGE", "FLIP", "KEEP", "FLAG"]


class ReviewAction(Record):
    """A valid action with a canonical polarity."""

    action_type: ActionType
    target_tuple_ids: tuple[str, ...]
    new_value: dict[str, str] | None = None
    reason_code: str | None = None
    actor: str


class DiscardedAction(Record):
    """An invalid action, unchanged, with the reason."""

    actor: str
    why: str
    action: dict[str, Any]


class ArbiterAction(ReviewAction):
    """The decision on one flagged tuple."""

    case: Literal["majority", "merge_refused", "flip_drop_keep", "no_majority", "asked"]
    # Whether the decision or a reviewer's FLAG marks the tuple as uncertain.
    flag: bool = False
    # Whether the tuple changed.
    applied: bool = False
    votes: dict[str, str] = Field(default_factory=dict)


class CallRecord(Record):
    """One agent call: a line of `traces.jsonl` without the sample's id."""

    node: str
    turn: int = 0
    seed: int | None = None
    backend: str
    model: str | None = None
    host: str | None = None
    prompt_sha256: str | None = None
    output: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    usage: dict[str, int] | None = None
    latency_ms: float = 0.0
    cached: bool = False
    attempts: int = 1
    error: str | None = None
