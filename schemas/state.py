"""The graph's state: a narrow input, a narrow output, and what passes between the nodes.

A node is never called like a key of the state (LangGraph refuses it), hence `ate_answer` for what
the node `ate` said.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from schemas.answers import (
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    ExtractAnswer,
    JudgeAnswer,
    ValidatorAnswer,
)
from schemas.output import FinalOutput
from schemas.records import (
    Adoption,
    CallRecord,
    Correction,
    Counts,
    GateOutcome,
    GateRecord,
    ReviewContext,
    StageResult,
    Turn,
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


class OutputState(TypedDict):
    """What a user gets."""

    output: FinalOutput


class FinishUpdate(OutputState):
    """The output; what was given for this text is not kept for the next one on the thread."""

    uid: None
    lang: None
    domain: None
    demos: list[dict[str, Any]]


class State(TypedDict, total=False):
    """Everything the nodes share about one text."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
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
    # Debate
    turns: list[Turn]
    judge_answer: JudgeAnswer | None
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
    # Decision
    adoption: Adoption
    counts: dict[str, Counts]
    output: FinalOutput


class IntakeUpdate(TypedDict):
    """A checked input and a clean slate: a thread may be used for one text after another."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
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
    adoption: Adoption
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
