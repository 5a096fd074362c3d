"""What the rules compute: stage results, hints, corrections, verdicts, decisions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from absa.schemas.answers import DebateSummary, PersonaTurnAnswer, Span, TurnAnswer, name_of
from absa.schemas.verdicts import Verdict


class Record(BaseModel):
    """A value the rules pass on; never changed in place."""

    model_config = ConfigDict(frozen=True)


class Sentiment(Record):
    """A polarity with its evidence, as an agent or a correction gave it."""

    polarity: str
    confidence: float
    evidence: str | None = None
    opinion_term: str | None = None
    category: str | None = None
    said_implicit: bool = False
    is_backfilled: bool = False


class Unanchored(Sentiment):
    """A sentiment whose aspect ATE did not find: counted, kept apart, in no tuple."""

    aspect_term: str | None

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.aspect_term, self.category)


class AspectRecord(Record):
    """An aspect and the sentiments anchored to it; without a span it is implicit.

    Without a term the text judges something that it does not name; the category then tells it
    apart from other unnamed aspects.
    """

    term: str | None
    category: str | None = None
    span: Span | None = None
    confidence: float | None = None
    sentiments: tuple[Sentiment, ...] = ()

    def is_implicit(self, sentiment: Sentiment) -> bool:
        """Whether a sentiment is implicit: it says so, or the aspect has no place in the text."""
        return sentiment.said_implicit or self.span is None

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.term, self.category)

    @property
    def polarities(self) -> frozenset[str]:
        """The polarities its sentiments have."""
        return frozenset(s.polarity for s in self.sentiments)


class StageResult(Record):
    """The aspects of a stage with their sentiments."""

    aspects: tuple[AspectRecord, ...] = ()
    unanchored: tuple[Unanchored, ...] = ()
    # Aspects whose span was revised: the key of each earlier name -> the key they have now.
    renamed: dict[str, str] = Field(default_factory=dict)


class FusedTuple(Record):
    """A tuple that a call or the second reader sees, and what became of it."""

    aspect_term: str | None
    category: str | None = None
    polarity: str
    is_implicit: bool = False
    votes: int
    # The second reader's probability, 0 for a tuple that it does not see.
    p: float
    # Whether the second reader reports it, or only suspects it.
    reported: bool
    score: float
    kept: bool

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.aspect_term, self.category)


class Agreement(Record):
    """How the first call and the second reader compare on one text, in explicit tuples.

    Sums of these over texts say whether the model is too weak to be asked again.
    """

    matched: int = 0
    called: int = 0
    reported: int = 0
    # Sums of the reader's probabilities: of what it reports, and of all it sees.
    p_reported: float = 0.0
    p_seen: float = 0.0


class SecondOpinion(Record):
    """What the second reader had to do with the result."""

    outcome: Literal["agreed", "contested", "reader_alone"]
    reads_language: bool
    knows_domain: bool
    trust: float
    trust_from: Literal["setting", "run", "default"]
    calls: int
    agreement: Agreement
    tuples: tuple[FusedTuple, ...] = ()


ContestReason = Literal["language", "tuples", "risks", "proposals", "backfilled", "unanchored"]


class ContestedTuple(Record):
    """A tuple on which Stage 1 and the second reader differ, without who found it."""

    aspect_term: str | None
    category: str | None = None
    polarity: str
    evidence: str | None = None

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.aspect_term, self.category)


class Contest(Record):
    """Stage 1 beside the second reader: why a debate is held, and about which tuples."""

    # Nothing: the debate is skipped.
    reasons: tuple[ContestReason, ...] = ()
    tuples: tuple[ContestedTuple, ...] = ()


class Counts(Record):
    """Polarity words and names that had to be changed or left out."""

    polarity_repair_count: int = 0
    polarity_invalid_count: int = 0
    # A judgement was cut from the name.
    name_cut_count: int = 0
    # The name names nothing: an adjective alone.
    name_refused_count: int = 0
    # The model held the name for unlikely (`pipeline.min_name_probability`).
    name_unlikely_count: int = 0
    # A category outside the set in force.
    category_invalid_count: int = 0


class Hint(Record):
    """What one edit of the debate says about one aspect. The polarity is the word that was said."""

    speaker: str
    op: str
    weight: float
    polarity_hint: str | None = None
    confidence: float | None = None
    provenance_hint: str


class MappingStats(Record):
    """How many turns could be mapped to Stage 1 aspects. A turn without edits is not counted."""

    direct: int = 0
    fallback: int = 0
    none: int = 0


class MappingFailReasons(Record):
    """Why turns could not be mapped directly."""

    no_aspects: int = 0
    no_match: int = 0
    neutral_stance: int = 0
    fallback_used: int = 0


class RebuttalPoint(Record):
    """One turn of the debate, boiled down for the reviewers."""

    speaker: str
    stance: str
    aspect_refs: tuple[str, ...] = ()
    key_points: tuple[str, ...] = ()
    # Of a turn in prose: what it said, and the weight and polarity of its stance.
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
    # The judge's evidence per aspect of `aspect_hints`; an entry may be empty or wrong.
    aspect_evidence: dict[str, str | None] = Field(default_factory=dict)
    # Where the judge names no evidence at all (the persona debate): Stage 1's.
    stage1_evidence: dict[str, str | None] = Field(default_factory=dict)
    mapping_stats: MappingStats = MappingStats()
    mapping_fail_reasons: MappingFailReasons = MappingFailReasons()
    review_guidance: str = ""
    fallback_mapping_policy: str = ""


class Turn(Record):
    """A turn of the debate in its place."""

    index: int
    round: int
    speaker: str
    answer: TurnAnswer | PersonaTurnAnswer


class Correction(Record):
    """One entry of `correction_applied_log`: what was asked for, whether it happened, and why."""

    source: str
    proposal_type: str
    target_aspect: str | None
    applied: bool
    reason: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    provenance: str | None = None


class GateRecord(Record):
    """How one aspect fared at the gate, with every number the verdict rests on."""

    aspect: str
    verdict: Verdict
    # A tuple was added, flipped or dropped. A confirm raises a confidence only.
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
    # The aspect's own entry of `aspect_evidence`; None where only the sentence's span is known.
    own_evidence: str | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)


class GateOutcome(Record):
    """A verdict on record; an override also with its correction and what became of the aspect."""

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
    """A label with its confidence; ATSA's carries the covering span of its aspects."""

    label: str
    confidence: float
    span: Span | None = None


class ValidatorAggregate(Record):
    """The Validator as the Moderator sees it."""

    issues: tuple[str, ...] = ()
    suggested_label: str | None = None
    confidence: float = 0.0


RuleEBlock = Literal["inferred_empty", "label_unchanged", "confidence_too_high"]


class ArbiterFlags(Record):
    """What the Moderator's rules did."""

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


class Candidate(Record):
    """A triplet of one perspective, numbered."""

    tuple_id: str
    origin_agent: str
    aspect_term: str | None
    aspect_ref: str | None = None
    category: str | None = None
    polarity: str
    opinion_term: str | None = None
    evidence: str | None = None
    # The term's place in the text, and the place the answer gave.
    span: Span | None = None
    said_span: Span | None = None
    confidence: float
    rationale: str | None = None

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.aspect_term, self.category)


class ConflictFlag(Record):
    """Candidates that cannot all stand as they are."""

    aspect_term: str | None
    tuple_ids: tuple[str, ...]
    conflict_type: Literal["polarity_mismatch", "aspect_overlap", "single_support"]


class ValidatorRisk(Record):
    """What a rule finds wrong with one candidate."""

    tuple_id: str
    type: Literal["EVIDENCE_GAP", "SPAN_MISMATCH", "NEGATION_SCOPE"]
    description: str


ActionType = Literal["DROP", "MERGE", "FLIP", "KEEP", "FLAG"]


class ReviewAction(Record):
    """An action that passed the checks, its polarity canonical."""

    action_type: ActionType
    target_tuple_ids: tuple[str, ...]
    new_value: dict[str, str] | None = None
    reason_code: str | None = None
    actor: str


class DiscardedAction(Record):
    """An action that did not pass, as it was said, and why."""

    actor: str
    why: str
    action: dict[str, Any]


class ArbiterAction(ReviewAction):
    """What became of one flagged tuple."""

    case: Literal["majority", "merge_refused", "flip_drop_keep", "no_majority", "asked"]
    # The tuple is marked as uncertain, by the decision or by a reviewer's FLAG.
    flag: bool = False
    # Something about the tuple changed.
    applied: bool = False
    votes: dict[str, str] = Field(default_factory=dict)


class CallRecord(Record):
    """One agent call: a line of `traces.jsonl`, less the sample's id."""

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
