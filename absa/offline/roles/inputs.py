"""What a role sees of the other agents, read once from the inputs of its question.

The nodes make these inputs. A field that does not have the form they give it counts as absent: an
agent of the user's own may have a role's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import InstanceOf, ValidationError

from absa.offline.roles.lookup import key
from absa.schemas.answers import (
    POLARITIES,
    AspectEvidence,
    AspectItem,
    AteReviewAnswer,
    AtsaReviewAnswer,
    DebateTuple,
    Edit,
    Item,
    TurnAnswer,
    ValidatorAnswer,
)
from absa.schemas.records import ConflictFlag, ValidatorRisk


class RoleInputs(Item):
    """The text, and the aspects that the user gave."""

    text: InstanceOf[str] = ""
    lang: InstanceOf[str] | None = None
    domain: InstanceOf[str] | None = None
    given_aspects: tuple[str, ...] | None = None
    categories: tuple[str, ...] = ()

    @classmethod
    def read(cls, inputs: Mapping[str, Any]) -> Self:
        """Take what this role reads of a question's inputs."""
        try:
            return cls.model_validate(inputs)
        except ValidationError as error:
            unreadable = {problem["loc"][0] for problem in error.errors()}
            return cls.model_validate({k: v for k, v in inputs.items() if k not in unreadable})


class StatedSentiment(Item):
    """A sentiment of Stage 1."""

    aspect_term: str
    category: str | None = None
    polarity: Literal["positive", "negative", "neutral"]
    evidence: str | None = None
    confidence: float = 0.5
    is_implicit: bool = False
    is_backfilled: bool = False


class Stage1(Item):
    """What Stage 1 gave, or one agent's part of it."""

    aspects: tuple[AspectItem, ...] = ()
    sentiments: tuple[StatedSentiment, ...] = ()

    @property
    def terms(self) -> list[str]:
        """The aspect terms, in order, each once."""
        named = (*(a.term for a in self.aspects), *(s.aspect_term for s in self.sentiments))
        by_key: dict[str, str] = {}
        for term in filter(None, named):
            by_key.setdefault(key(term), term)
        return list(by_key.values())


class Persona(Item):
    """Who speaks, and for which side."""

    name: str = ""
    stance: str = ""


class DebateInputs(RoleInputs):
    """What a speaker or a judge sees."""

    persona: Persona | None = None
    stage1: Stage1 = Stage1()
    history: tuple[TurnAnswer, ...] = ()


class Summary(Item):
    """What the judge decided, and on which words."""

    final_tuples: tuple[DebateTuple, ...] = ()
    aspect_evidence: tuple[AspectEvidence, ...] = ()


class EditHint(Item):
    """What an edit of the debate says about an aspect, and how much it counts."""

    op: str
    weight: float
    polarity_hint: str | None = None
    confidence: float | None = None


class DebateContext(Item):
    """The debate as the reviewers see it."""

    summary: Summary = Summary()
    aspect_hints: dict[str, tuple[EditHint, ...]] = {}


class ReviewInputs(RoleInputs):
    """What ATE and ATSA see in Stage 2."""

    stage1_ate: Stage1 = Stage1()
    stage1_atsa: Stage1 = Stage1()
    stage1_validator: ValidatorAnswer = ValidatorAnswer()
    review_context: DebateContext | None = None


class ValidatorReviewInputs(RoleInputs):
    """What the Validator sees in Stage 2."""

    stage1_validator: ValidatorAnswer = ValidatorAnswer()
    ate_review: AteReviewAnswer = AteReviewAnswer()
    atsa_review: AtsaReviewAnswer = AtsaReviewAnswer()


class ReviewedCandidate(Item):
    """A numbered triplet of one perspective."""

    tuple_id: str
    aspect_term: str | None = None
    polarity: str
    evidence: str | None = None


class ConflictInputs(RoleInputs):
    """What a reviewer or the arbiter of the conflict review sees."""

    candidates: tuple[ReviewedCandidate, ...] = ()
    conflict_flags: tuple[ConflictFlag, ...] = ()
    validator_risks: tuple[ValidatorRisk, ...] = ()
    undecided: tuple[str, ...] | None = None


def canonical(polarity: str | None) -> str | None:
    """A polarity as a model wrote it in canonical form; None if it is not one."""
    name = (polarity or "").strip().lower()
    return name if name in POLARITIES else None


def edit_target(edit: Edit) -> str:
    """The term that an edit is about."""
    return edit.target.aspect_ref or edit.target.aspect_term or ""


def edit_polarity(edit: Edit) -> str | None:
    """The polarity that an edit argues for, if it argues for one."""
    if edit.op == "set_polarity":
        return canonical(edit.value)
    return canonical(edit.target.polarity) if edit.op == "confirm_tuple" else None
