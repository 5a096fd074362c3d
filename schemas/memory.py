"""What is remembered of a case: its shape and how it went, never its words or its gold."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Structure = Literal["negation", "contrast", "irony", "implicit", "plain"]
Length = Literal["short", "mid", "long"]
Outcome = Literal["success", "harm", "neutral"]
AdviceType = Literal["successful_override", "failed_override_warning", "consistency_anchor"]
Observation = Literal[
    "polarity_disagreement", "confirmed_and_dropped", "contested_without_evidence", "l3_risk"
]


class _Remembered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Signature(_Remembered):
    """The shape of a text: what makes one case like another."""

    lang: str
    structures: tuple[Structure, ...]
    aspects: int
    length: Length


class MaskedTuple(_Remembered):
    """A tuple without its term: aspects are called A1, A2, … in their order."""

    aspect: str
    polarity: str


class Episode(_Remembered):
    """One finished case."""

    # A hash of the text: enough to know it again, not enough to find it.
    sample: str
    split: str | None = None
    signature: Signature
    stage1: tuple[MaskedTuple, ...] = ()
    final: tuple[MaskedTuple, ...] = ()
    risks_before: int = 0
    risks_after: int | None = None
    corrections: tuple[str, ...] = ()
    override: Literal["applied", "skipped", "none"] = "none"
    outcome: Outcome
    # Counts up in time: of two equally alike cases the later one is recalled.
    at: int


class Advice(_Remembered):
    """What an episode has to say about a case like it. It names no label."""

    type: AdviceType
    message: str


class Recall(_Remembered):
    """What memory held for a case, and whether an agent got to see it."""

    condition: Literal["silent", "on"]
    # The hash of the text that this was recalled for.
    sample: str
    signature: Signature
    episodes: tuple[Episode, ...] = ()
    advice: tuple[Advice, ...] = ()
