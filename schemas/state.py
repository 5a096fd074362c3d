"""The graph's state: a narrow input, a narrow output, and the keys that nodes share.

LangGraph does not allow a node with the name of a state key. So the answer of the node `ate` has
the key `ate_answer`.

`State` is the only list of the keys. What `intake` resets (`blank_state`), the keys that one graph
carries (`state_schema`) and the names that a node may not have (`STATE_KEYS`) are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from langgraph.channels import UntrackedValue
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from absa.schemas.answers import (
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    DebateSummary,
    ExtractAnswer,
    ReviewActionsAnswer,
    SecondReaderAnswer,
    TripletsAnswer,
    ValidatorAnswer,
)
from absa.schemas.memory import Recall
from absa.schemas.output import FinalOutput, HumanReview
from absa.schemas.records import (
    Adoption,
    ArbiterAction,
    CallRecord,
    Candidate,
    ConflictFlag,
    Contest,
    ContestedTuple,
    Correction,
    Counts,
    DiscardedAction,
    GateOutcome,
    GateRecord,
    ModeratorOutput,
    ReviewAction,
    ReviewContext,
    SecondOpinion,
    StageResult,
    Turn,
    ValidatorRisk,
)


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Reducer for keys that parallel nodes write. Applying an update twice changes nothing."""
    return {**old, **new}


@dataclass(frozen=True)
class Initially:
    """The initial value of a key, if its type does not imply one."""

    value: Any


class InputState(TypedDict):
    """The input of every graph."""

    text: str
    uid: NotRequired[str]
    lang: NotRequired[str | None]
    domain: NotRequired[str | None]
    demos: NotRequired[list[dict[str, Any]]]
    given_aspects: NotRequired[list[str] | None]


class MemoryInputState(InputState):
    """The input of a graph with memory."""

    # The split of the text. Memory separates the splits.
    split: NotRequired[str | None]
    # In a replay: the recorded recall.
    memory_recall: NotRequired[Recall | None]


class ReaderInputState(InputState):
    """The input of a graph with a second reader."""

    # The measured weight of the embedded analyzer; None: not measured.
    reader_trust: NotRequired[float | None]


class OutputState(TypedDict):
    """The output of every graph."""

    output: FinalOutput


class FinishUpdate(OutputState):
    """The output. The input is reset for the next text on the thread."""

    uid: None
    lang: None
    domain: None
    demos: list[dict[str, Any]]
    given_aspects: None
    reader_trust: None


class State(TypedDict, total=False):
    """All values that nodes share about one text."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
    # The given aspects; None: extract aspects
    given_aspects: list[str] | None
    split: str | None
    calls: Annotated[dict[str, CallRecord], merge]
    # Stage 1
    ate_answer: AteAnswer
    atsa_answer: AtsaAnswer
    validator_answer: ValidatorAnswer | None
    stage1_result: StageResult
    stage1_validation: ValidatorAnswer
    # Baselines: the joint answers by number, and the number of the current call
    extract_answers: Annotated[dict[str, ExtractAnswer], merge]
    call_number: int
    # The embedded analyzer beside the model
    second_reader_answer: SecondReaderAnswer
    reader_trust: float | None
    second_opinion: SecondOpinion | None
    fused_result: StageResult | None
    # Stage 1 beside the second reader (`debate.when: contested`)
    contest: Contest
    contested_tuples: list[ContestedTuple]
    debate_skipped: str | None
    # Memory: the recalled cases, and the calls that saw them
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
    # Conflict review: answers by agent, and the results of the rules
    triplet_answers: Annotated[dict[str, TripletsAnswer], merge]
    candidates: list[Candidate]
    conflict_flags: list[ConflictFlag]
    validator_risks: list[ValidatorRisk]
    review_answers: Annotated[dict[str, ReviewActionsAnswer], merge]
    review_actions: list[ReviewAction]
    discarded_actions: list[DiscardedAction]
    arbiter_actions: list[ArbiterAction]
    # Decision. The initial value of `adoption` is final if Stage 2 is switched off.
    adoption: Annotated[Adoption, Initially(Adoption(decision="not_adopted", reason="low_signal"))]
    moderation: ModeratorOutput | None
    # The decisions of a person, or a pending question
    human_answer: HumanReview | None
    # Answers of a user's own agents, by node
    answers: Annotated[dict[str, Any], merge]
    # The subset that the debate's speakers see
    shared_answers: Annotated[dict[str, Any], merge]
    counts: dict[str, Counts]
    output: FinalOutput


STATE_KEYS = frozenset(get_type_hints(State))
_INPUT_KEYS = frozenset(get_type_hints(MemoryInputState)) | {"reader_trust"}

# Keys that exist only in graphs with one of these nodes.
_ONLY_WITH: Mapping[str, frozenset[str]] = {
    "human_review": frozenset({"human_answer"}),
    "recall": frozenset({"split", "memory_recall", "memory_injections"}),
    "extract": frozenset({"extract_answers", "call_number"}),
    "second_reader": frozenset({"second_reader_answer"}),
    "compare": frozenset({"reader_trust", "second_opinion", "fused_result"}),
    "compare_stage1": frozenset({"contest", "contested_tuples", "debate_skipped"}),
    "merge_candidates": frozenset(
        {"triplet_answers", "candidates", "conflict_flags", "validator_risks"}
        | {"review_answers", "review_actions", "discarded_actions", "arbiter_actions"}
    ),
}


# LangGraph asks all channels at every write whether one is untracked, and stops at the first. This
# one comes first, holds nothing, and saves a twentieth of the time around the nodes.
NEVER_WRITTEN = "never_written"


def state_schema(nodes: Iterable[str], own: Mapping[str, Any], *, with_answers: bool) -> type[Any]:
    """The state schema of a graph with these nodes and the keys of a user's nodes.

    LangGraph processes every key at every step. Without the keys of other protocols a graph is 10 %
    faster.
    """
    absent = frozenset[str]().union(*(_ONLY_WITH[node] for node in _ONLY_WITH.keys() - set(nodes)))
    if not with_answers:
        absent |= {"answers", "shared_answers"}
    hints = get_type_hints(State, include_extras=True)
    kept = {key: hint for key, hint in hints.items() if key not in absent}
    first = {NEVER_WRITTEN: Annotated[None, UntrackedValue]}
    schema: type[Any] = TypedDict("State", {**first, **kept, **own}, total=False)  # type: ignore[misc]
    return schema


def blank_state(keys: Iterable[str]) -> dict[str, Any]:
    """The reset that `intake` writes, so that a thread can be used for several texts.

    Lists, dictionaries and optional values become empty. Other models are always written before
    they are read. The user's input stays.
    """
    blanks = _blanks()
    return {key: blanks[key] for key in keys if key in blanks}


@cache
def _blanks() -> dict[str, Any]:
    hints = get_type_hints(State, include_extras=True)
    blanks = {key: _blank(hint) for key, hint in hints.items() if key not in _INPUT_KEYS}
    return {key: value for key, value in blanks.items() if value is not _WRITTEN_FIRST}


_WRITTEN_FIRST = object()


def _blank(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        # `merge` would keep the entries of the previous text.
        return Overwrite({}) if merge in parts else next(p.value for p in parts[1:])
    if origin in (list, dict):
        return origin()
    return None if NoneType in parts else _WRITTEN_FIRST


class IntakeUpdate(TypedDict):
    """The checked input."""

    text: str
    uid: str
    lang: str
    domain: str | None
    demos: list[dict[str, Any]]
    given_aspects: list[str] | None
    # Only in graphs with memory.
    split: str | None
    memory_recall: Recall | None


class Stage1Update(TypedDict):
    """Stage 1 merged."""

    stage1_result: StageResult
    stage1_validation: ValidatorAnswer
    counts: dict[str, Counts]


class CompareUpdate(Stage1Update):
    """The comparison of the first call and the second reader."""

    second_opinion: SecondOpinion


class FuseUpdate(TypedDict):
    """The fusion of the calls and the second reader."""

    fused_result: StageResult
    second_opinion: SecondOpinion
    counts: dict[str, Counts]


class CompareStage1Update(TypedDict):
    """The comparison of Stage 1 and the second reader."""

    contest: Contest


class ContestedUpdate(TypedDict):
    """The contested tuples of the debate."""

    contested_tuples: list[ContestedTuple]


class SkipUpdate(TypedDict):
    """The reason why no debate is held."""

    debate_skipped: str


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
    """Recorded and applied verdicts, by aspect."""

    gate_outcomes: dict[str, GateOutcome]


class AdoptUpdate(TypedDict):
    """The patched result with its overrides, and whether it replaces Stage 1."""

    patched_result: StageResult
    corrections: list[Correction]
    adoption: Adoption


class CandidatesUpdate(TypedDict):
    """All triplets, numbered, with their flags and risks."""

    candidates: list[Candidate]
    conflict_flags: list[ConflictFlag]
    validator_risks: list[ValidatorRisk]
    counts: dict[str, Counts]


class ArbiterUpdate(TypedDict):
    """The valid reviews, and one action for each flagged tuple."""

    review_actions: list[ReviewAction]
    discarded_actions: list[DiscardedAction]
    arbiter_actions: list[ArbiterAction]
    counts: dict[str, Counts]


class ModeratorUpdate(TypedDict):
    """The Moderator's decision; a drop guard withdraws the adoption."""

    moderation: ModeratorOutput
    adoption: Adoption


class HumanUpdate(TypedDict):
    """The decisions of a person, or a pending question."""

    human_answer: HumanReview


class RecallUpdate(TypedDict):
    """The episodes and the advice for this case."""

    memory_recall: Recall


class RememberUpdate(TypedDict):
    """Resets the recalled cases for the next text on the thread."""

    memory_recall: None
    split: None
