"""Episodes of the memory: the shape of a case and its outcome, never its words or its gold."""

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
    """The shape of a text, by which similar cases are found."""

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

    # A hash of the text, to recognise it without storing it.
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
    # A sequence number: of two equally similar cases the later one is recalled.
    at: int


class Advice(_Remembered):
    """The advice of an episode for a similar case. It contains no label."""

    type: AdviceType
    message: str


class Recall(_Remembered):
    """The recalled cases, and whether an agent saw them."""

    condition: Literal["silent", "on"]
    # The hash of the text for which the cases were recalled.
    sample: str
    signature: Signature
    episodes: tuple[Episode, ...] = ()
    advice: tuple[Advice, ...] = ()
