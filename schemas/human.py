"""Human review: the question to a person and the format of the answer.

A person's answer is validated strictly, because a person can correct it. A model's answer is parsed
leniently.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from absa.schemas.answers import Span
from absa.schemas.records import Record

# The strongest doubt first. Only the queue of `absa review` uses `low_confidence`.
DoubtCode = Literal[
    "dissent",
    "label_contradicts",
    "unresolved_conflicts",
    "arbiter_flagged",
    "adoption_blocked",
    "low_confidence",
    "always",
]


class Doubt(Record):
    """A reason to ask a person."""

    code: DoubtCode
    detail: str


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Keep(_Said):
    """Keep the tuple."""

    action: Literal["keep"] = "keep"
    aspect: str
    # The polarity of the aspect's tuple; None means all its tuples.
    of: str | None = None


class Flip(_Said):
    """Change the polarity of the aspect."""

    action: Literal["flip"] = "flip"
    aspect: str
    of: str | None = None
    polarity: str


class Drop(_Said):
    """Remove the tuple from the result."""

    action: Literal["drop"] = "drop"
    aspect: str
    of: str | None = None


class Add(_Said):
    """Add a missing tuple."""

    action: Literal["add"] = "add"
    aspect: str
    polarity: str
    evidence: str


class SetLabel(_Said):
    """Set the label of the whole text."""

    action: Literal["label"] = "label"
    label: str


Decision = Annotated[Keep | Flip | Drop | Add | SetLabel, Field(discriminator="action")]


class HumanAnswer(_Said):
    """A person's decisions about a text. Without decisions the result does not change."""

    decisions: tuple[Decision, ...]
    reviewer: str | None = None
    note: str | None = None


class Voice(Record):
    """One agent's statement about an aspect or, without an aspect, about the text."""

    stage: Literal["stage1", "debate", "review"]
    who: str
    aspect: str | None = None
    says: str
    evidence: str | None = None
    confidence: float | None = None


class CandidateTuple(Record):
    """A tuple that an agent proposed, with all statements about its aspect."""

    aspect: str
    polarity: str
    evidence: str | None = None
    # False if evidence is missing or not in the text.
    is_grounded: bool = False
    confidence: float | None = None
    span: Span | None = None
    is_implicit: bool = False
    # Tuples in the result can be kept, flipped or dropped. Others can be added.
    in_result: bool = True
    said: tuple[Voice, ...] = ()


class HumanQuestion(Record):
    """The question to a person: the value of the graph's interrupt."""

    uid: str
    text: str
    lang: str
    reasons: tuple[Doubt, ...]
    label: str
    confidence: float
    candidates: tuple[CandidateTuple, ...] = ()
    # Statements about the whole text.
    said: tuple[Voice, ...] = ()
    # Examples of valid decisions.
    actions: dict[str, dict[str, str]] = Field(default_factory=dict)
    # The errors of the previous answer.
    problems: tuple[str, ...] = ()


class HumanCounts(Record):
    """Counts of a person's decisions by kind."""

    kept: int = 0
    flipped: int = 0
    dropped: int = 0
    added: int = 0
    labelled: int = 0
