"""The graph's state: a narrow input, a narrow output, and what passes between the nodes.

A node is never called like a key of the state (LangGraph refuses it), hence `ate_answer` for what
the node `ate` said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, get_type_hints

from typing_extensions import TypedDict

from schemas.answers import (
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    DebateSummary,
    ExtractAnswer,
    ReviewActionsAnswer,
    TripletsAnswer,
    ValidatorAnswer,
)
from schemas.memory import Recall
from schemas.output import FinalOutput, HumanReview
from schemas.records import (
    Adoption,
    ArbiterAction,
    CallRecord,
    Candidate,
    ConflictFlag,
    Correction,
    Counts,
    DiscardedAction,
    GateOutcome,
    GateRecord,
    ReviewAction,
    ReviewContext,
    StageResult,
    Turn,
    ValidatorRisk,
)


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """For what parallel nodes write, by key: the same update twice is the same state."""
    return {**old, **new}


class InputState(TypedDict):
    """What a user gives."""

    text: str
    uid: NotRequired[str]
    lang: NotRequired[str | None]
    domain: NotRequired[str | None]
    demos: NotRequired[list[dict[str, Any]]]
    given_aspects: NotRequired[list[str] | None]


class MemoryInputState(InputState):
    """What a user gives to a graph with memory."""

    # The part of a data set that the text belongs to: memory keeps them apart.
    split: NotRequired[str | None]
    # What memory held when a recorded run is decided again.
    memory_recall: NotRequired[Recall | None]


class OutputState(TypedDict):
    """What a user gets."""

    output: FinalOutput


class FinishUpdate(OutputState):
    """The output; what was given for this text is not kept for the next one on the thread."""

    uid: None
    lang: None
    domain: None
    demos: list[dict[str, Any]]
    given_aspects: None


class State(TypedDict, total=False):
    """Everything the nodes share about one text."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
    # The user's own aspects, to be judged as they are; None: find them
    given_aspects: list[str] | None
    split: str | None
    calls: Annotated[dict[str, CallRecord], merge]
    # Stage 1
    ate_answer: AteAnswer
    atsa_answer: AtsaAnswer
    validator_answer: ValidatorAnswer | None
    stage1_result: StageResult
    stage1_validation: ValidatorAnswer
    # Baselines: the joint answers by number, and the number of the call that is made
    extract_answers: Annotated[dict[str, ExtractAnswer], merge]
    call_number: int
    # Memory: what it holds for this case, and the calls that were shown it
    memory_recall: Recall | None
    memory_injections: list[str]
    # Debate
    turns: list[Turn]
    judge_answer: DebateSummary | None
    debate_hints: ReviewContext | None
    # Stage 2
    ate_reviews: AteReviewAnswer
    atsa_reviews: AtsaReviewAnswer
    stage2_validation: ValidatorAnswer | None
    patched_result: StageResult | None
    corrections: list[Correction]
    # Override gate
    gate_verdicts: list[GateRecord]
    gate_outcomes: Annotated[dict[str, GateOutcome], merge]
    # Conflict review: answers by agent, and what the rules made of them
    triplet_answers: Annotated[dict[str, TripletsAnswer], merge]
    candidates: list[Candidate]
    conflict_flags: list[ConflictFlag]
    validator_risks: list[ValidatorRisk]
    review_answers: Annotated[dict[str, ReviewActionsAnswer], merge]
    review_actions: list[ReviewAction]
    discarded_actions: list[DiscardedAction]
    arbiter_actions: list[ArbiterAction]
    # Decision
    adoption: Adoption
    # What a person said, or was to be asked
    persons_word: HumanReview | None
    counts: dict[str, Counts]
    output: FinalOutput


_ONLY_IN: Mapping[str, frozenset[str]] = {
    "human_review": frozenset({"persons_word"}),
    "memory": frozenset({"split", "memory_recall", "memory_injections"}),
    "vote": frozenset({"extract_answers", "call_number"}),
    "conflict_review": frozenset(
        {"triplet_answers", "candidates", "conflict_flags", "validator_risks"}
        | {"review_answers", "review_actions", "discarded_actions", "arbiter_actions"}
    ),
}


def state_schema(*parts: str) -> type[Any]:
    """The state of a graph that has these parts.

    LangGraph walks every key of the state at every step, so a graph does not carry those of the
    others: it would take a tenth longer.
    """
    absent = frozenset[str]().union(*(_ONLY_IN[part] for part in _ONLY_IN.keys() - set(parts)))
    hints = get_type_hints(State, include_extras=True)
    kept = {key: hint for key, hint in hints.items() if key not in absent}
    schema: type[Any] = TypedDict("State", kept, total=False)  # type: ignore[misc]
    return schema


class IntakeUpdate(TypedDict):
    """A checked input and a clean slate: a thread may be used for one text after another."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
    given_aspects: list[str] | None
    split: str | None
    memory_recall: Recall | None
    memory_injections: list[str]
    calls: Any
    extract_answers: Any
    validator_answer: None
    turns: list[Turn]
    judge_answer: None
    debate_hints: None
    stage2_validation: None
    patched_result: None
    corrections: list[Correction]
    gate_verdicts: list[GateRecord]
    gate_outcomes: Any
    triplet_answers: Any
    review_answers: Any
    review_actions: list[ReviewAction]
    discarded_actions: list[DiscardedAction]
    arbiter_actions: list[ArbiterAction]
    adoption: Adoption
    persons_word: None
    counts: dict[str, Counts]


class Stage1Update(TypedDict):
    """Stage 1 merged."""

    stage1_result: StageResult
    stage1_validation: ValidatorAnswer
    counts: dict[str, Counts]


class ReviewContextUpdate(TypedDict):
    """The debate as hints."""

    debate_hints: ReviewContext
    counts: dict[str, Counts]


class ApplyUpdate(TypedDict):
    """Stage 1 with the reviews applied."""

    patched_result: StageResult
    corrections: list[Correction]
    counts: dict[str, Counts]


class GateUpdate(TypedDict):
    """The verdicts on the debate's aspects, in the order in which they were judged."""

    gate_verdicts: list[GateRecord]


class OutcomeUpdate(TypedDict):
    """Verdicts on record or carried out, by aspect."""

    gate_outcomes: dict[str, GateOutcome]


class AdoptUpdate(TypedDict):
    """The patched result with its overrides, and whether it replaces Stage 1."""

    patched_result: StageResult
    corrections: list[Correction]
    adoption: Adoption


class CandidatesUpdate(TypedDict):
    """All triplets, numbered, and what is in doubt about them."""

    candidates: list[Candidate]
    conflict_flags: list[ConflictFlag]
    validator_risks: list[ValidatorRisk]
    counts: dict[str, Counts]


class ArbiterUpdate(TypedDict):
    """The reviews that count, and one action for each flagged tuple."""

    review_actions: list[ReviewAction]
    discarded_actions: list[DiscardedAction]
    arbiter_actions: list[ArbiterAction]
    counts: dict[str, Counts]


class HumanUpdate(TypedDict):
    """A person's word on the result, or that it is still to be had."""

    persons_word: HumanReview
