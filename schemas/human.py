"""A person as the last reviewer: what is asked, and how the answer is written.

A person's answer is checked strictly, where a model's is read leniently: a person can be asked
again and told what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from absa.schemas.answers import Span
from absa.schemas.records import Record

# The most doubtful first. `low_confidence` is a reason only in the queue of `absa review`.
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
    """Why a person is asked."""

    code: DoubtCode
    detail: str


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Keep(_Said):
    """The tuple is right."""

    action: Literal["keep"] = "keep"
    aspect: str
    # Which of the aspect's tuples, by polarity; None means all of them.
    of: str | None = None


class Flip(_Said):
    """The aspect is right, its polarity is not."""

    action: Literal["flip"] = "flip"
    aspect: str
    of: str | None = None
    polarity: str


class Drop(_Said):
    """The tuple does not belong in the result."""

    action: Literal["drop"] = "drop"
    aspect: str
    of: str | None = None


class Add(_Said):
    """A tuple is missing."""

    action: Literal["add"] = "add"
    aspect: str
    polarity: str
    evidence: str


class SetLabel(_Said):
    """The label of the whole sentence."""

    action: Literal["label"] = "label"
    label: str


Decision = Annotated[Keep | Flip | Drop | Add | SetLabel, Field(discriminator="action")]


class HumanAnswer(_Said):
    """What a person decided about a text; no decisions: the result stands as it is."""

    decisions: tuple[Decision, ...]
    reviewer: str | None = None
    note: str | None = None


class Voice(Record):
    """What one agent said about an aspect or, without one, about the text."""

    stage: Literal["stage1", "debate", "review"]
    who: str
    aspect: str | None = None
    says: str
    evidence: str | None = None
    confidence: float | None = None


class CandidateTuple(Record):
    """A tuple that an agent proposed, with everything that was said about its aspect."""

    aspect: str
    polarity: str
    evidence: str | None = None
    # False for evidence that is missing, or not in the text.
    is_grounded: bool = False
    confidence: float | None = None
    span: Span | None = None
    is_implicit: bool = False
    # Only what is in the result can be kept, flipped or dropped; the others can be added.
    in_result: bool = True
    said: tuple[Voice, ...] = ()


class HumanQuestion(Record):
    """What a person is shown: the value of the graph's interrupt."""

    uid: str
    text: str
    lang: str
    reasons: tuple[Doubt, ...]
    label: str
    confidence: float
    candidates: tuple[CandidateTuple, ...] = ()
    # What was said about no aspect in particular.
    said: tuple[Voice, ...] = ()
    # What may be answered, by example.
    actions: dict[str, dict[str, str]] = Field(default_factory=dict)
    # What was wrong with the answer before.
    problems: tuple[str, ...] = ()


class HumanCounts(Record):
    """How often a person did what."""

    kept: int = 0
    flipped: int = 0
    dropped: int = 0
    added: int = 0
    labelled: int = 0
