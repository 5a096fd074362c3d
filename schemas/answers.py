"""What each agent is asked for: one pydantic model per answer.

The models are lenient on purpose. A language model's answer is hostile input: a missing
confidence or a span written as a list must not cost the whole answer, so field types accept what
is meant, and `read_answer` leaves out the items that cannot be read and says which. Polarities
stay the words that were said; judging them is a rule (`absa.nodes.polarity`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from absa.schemas.errors import AnswerError

POLARITIES = ("positive", "negative", "neutral")
LABELS = (*POLARITIES, "mixed")
RISK_TYPES = (
    "NEGATION_SCOPE",
    "CONTRAST_SCOPE",
    "POLARITY_MISMATCH",
    "NEGATION",
    "CONTRAST",
    "IRONY",
    "EVIDENCE_GAP",
    "SPAN_MISMATCH",
    "MISSING_SECOND_ASPECT",
    "OTHER",
)
L3_RISKS = frozenset(
    ("NEGATION_SCOPE", "CONTRAST_SCOPE", "POLARITY_MISMATCH", "NEGATION", "CONTRAST", "IRONY")
)
"""Risks under which an aspect's polarity is not to be overridden lightly."""
SEVERITIES = ("low", "mid", "high")
SET_CATEGORY = "set_category"
"""An edit that there is only where a category set is in force."""
EDIT_OPS = ("set_polarity", "set_aspect_ref", "merge_tuples", "drop_tuple", "confirm_tuple")
PROPOSALS = ("FLIP_POLARITY", "DROP_ASPECT", "REVISE_SPAN")
ASPECT_ACTIONS = ("keep", "revise_span", "drop", "add")
# The note of a reviewer that gave a full list where only reviews were asked for.
DISCARDED = "discarded: reviews only"
SENTIMENT_ACTIONS = ("maintain", "flip_polarity", "drop", "add")
REVIEW_ACTIONS = ("DROP", "MERGE", "FLIP", "KEEP", "FLAG")
REASON_CODES = (
    "NEGATION_SCOPE",
    "CONTRAST_CLAUSE",
    "IMPLICIT_ASPECT",
    "ASPECT_REF_MISMATCH",
    "SPAN_OVERLAP_MERGE",
    "DUPLICATE_TUPLE",
    "WEAK_EVIDENCE",
    "POLARITY_UNCERTAIN",
    "FORMAT_INCOMPLETE",
    "KEEP_BEST_SUPPORTED",
    "WEAK_INFERENCE",
    "EXPLICIT_NOT_REQUIRED",
    "STRUCTURAL_INCONSISTENT",
)


def _text(value: Any) -> Any:
    """A word as the model said it; numbers become text, a list gives its first string."""
    if type(value) is str or value is None:
        return value  # nearly always, and every field of every answer passes here
    if isinstance(value, list | tuple):
        return next((item for item in value if isinstance(item, str)), None)
    if isinstance(value, bool | int | float):
        return str(value)
    return value


UNNAMED = "implicit"
"""Names an aspect that has neither a term nor a category."""
# What models and annotators write where nothing is named.
_NO_NAME = frozenset({"", "null", "none"})


def _name(value: Any) -> Any:
    """The name of an aspect; None where the answer names nothing."""
    name = _text(value)
    return None if isinstance(name, str) and name.strip().lower() in _NO_NAME else name


def name_of(term: str | None, category: str | None = None) -> str:
    """What an aspect is called where a name is needed: an unnamed one by its category."""
    return term or category or UNNAMED


def _confidence(value: Any) -> float | None:
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else min(1.0, max(0.0, number))


def _flag(value: Any) -> bool | None:
    """True or false as models write it; anything else is not given."""
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int) else None


def _target(value: Any) -> Any:
    """A target given as a bare word is the aspect it names; no target names none."""
    if value is None:
        return {}
    return {"aspect_ref": value} if isinstance(value, str) else value


def _span(value: Any) -> Any:
    """`{start, end}`, `[start, end]` or nothing; offsets are checked against the text later."""
    if isinstance(value, Span):
        return value
    if isinstance(value, Mapping):
        value = [value.get("start"), value.get("end")]
    if isinstance(value, list | tuple) and len(value) == 2:
        start, end = value
        if all(isinstance(v, int) and not isinstance(v, bool) for v in (start, end)):
            return Span(start=start, end=end)
    return None


def _span_or_words(value: Any) -> Any:
    """A revised span may also be given as the words it covers: models count characters badly."""
    return value if isinstance(value, str) else _span(value)


def _risk_type(value: Any) -> str:
    name = str(value).strip().upper().replace(" ", "_")
    return name if name in RISK_TYPES else "OTHER"


def _severity(value: Any) -> str:
    name = str(value).strip().lower()
    return {"medium": "mid", "moderate": "mid"}.get(name, name if name in SEVERITIES else "mid")


def _one_of(words: tuple[str, ...], *, optional: bool = False) -> WithJsonSchema:
    """The schema a model sees names the allowed words; the reader accepts any and judges later."""
    choice: dict[str, Any] = {"type": "string", "enum": list(words)}
    return WithJsonSchema({"anyOf": [choice, {"type": "null"}]} if optional else choice)


class Span(BaseModel):
    """Character offsets into the original text, end exclusive."""

    model_config = ConfigDict(frozen=True)
    start: int
    end: int


# What the schema that a model is shown has only where a category set is in force.
_WITH_CATEGORIES = "x-with-categories"
_OR_NULL: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}

Flag = Annotated[bool | None, BeforeValidator(_flag)]
Word = Annotated[str | None, BeforeValidator(_text)]
Required = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str | None, BeforeValidator(_name)]
# A category as it was said; whether it is one of the set is a rule.
SaidCategory = Annotated[
    str | None,
    BeforeValidator(_name),
    WithJsonSchema({**_OR_NULL, _WITH_CATEGORIES: "category"}),
]
CategoryWord = Annotated[
    str | None,
    BeforeValidator(_text),
    WithJsonSchema({**_OR_NULL, _WITH_CATEGORIES: "word"}),
]
Confidence = Annotated[
    float | None,
    BeforeValidator(_confidence),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
# A model is not asked for it: a server tells it of the tokens that the name was written in.
NameProbability = SkipJsonSchema[Annotated[float | None, BeforeValidator(_confidence)]]
# Offsets are computed from the words, so a model is never asked to count characters.
OptionalSpan = SkipJsonSchema[Annotated[Span | None, BeforeValidator(_span)]]
RevisedSpan = Annotated[
    Span | str | None,
    BeforeValidator(_span_or_words),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}),
]
SpokenPolarity = Annotated[str | None, BeforeValidator(_text), _one_of(POLARITIES)]
OptionalPolarity = Annotated[str | None, BeforeValidator(_text), _one_of(POLARITIES, optional=True)]
OptionalLabel = Annotated[str | None, BeforeValidator(_text), _one_of(LABELS, optional=True)]


class Item(BaseModel):
    """A part of an answer; keys nobody asked for are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # The key that holds its name, where it matters how likely the model held it.
    named_by: ClassVar[str | None] = None
    # It is an edit whose polarity, or drop, is weighed in the same way.
    is_edit: ClassVar[bool] = False


class Answer(Item):
    """A whole answer of one agent."""

    # Full lists that a reviewer must not give; they are discarded and the violation is recorded.
    forbidden: ClassVar[tuple[str, ...]] = ()
    # Lists that an answer may do without, also where it was cut off before them.
    optional: ClassVar[tuple[str, ...]] = ()
    # Whether it speaks of tuples that others found.
    in_debate: ClassVar[bool] = False
    # The categories in force, which the schema lists.
    categories: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema that a model is shown: with categories only where there are any."""
        schema = super().model_json_schema(*args, **kwargs)
        _fit_categories(schema, cls.categories)
        return schema


def _fit_categories(node: Any, categories: tuple[str, ...]) -> None:
    """Take out of a schema what belongs to categories, or fill it in."""
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _fit_categories(part, categories)
    for name, part in list(node.get("properties", {}).items()) if isinstance(node, dict) else ():
        kind = part.pop(_WITH_CATEGORIES, None)
        if kind == "op" and categories:
            part["enum"] = [*part["enum"], SET_CATEGORY]
        elif kind == "category" and categories:
            part["anyOf"] = [{"type": "string", "enum": list(categories)}, {"type": "null"}]
        elif kind in ("category", "word") and not categories:
            del node["properties"][name]


@cache
def with_categories(answer: type[Answer], categories: tuple[str, ...]) -> type[Answer]:
    """The answer type whose schema lists these categories."""
    made = create_model(answer.__name__, __base__=answer, __module__=answer.__module__)
    made.categories = categories
    return made


@cache
def has_categories(answer: type[Answer]) -> bool:
    """Whether items of the answer may have a category, or edits may set one."""
    return _WITH_CATEGORIES in json.dumps(super(Answer, answer).model_json_schema())


class AspectItem(Item):
    """One aspect term that ATE found."""

    named_by: ClassVar[str | None] = "term"
    # None where the text judges something that it does not name.
    term: Name
    category: SaidCategory = None
    span: OptionalSpan = None
    confidence: Confidence = None
    name_probability: NameProbability = None
    rationale: SkipJsonSchema[Word] = None


class AteAnswer(Answer):
    """ATE: the aspect terms of the text."""

    aspects: list[AspectItem] = Field(default_factory=list)


class SentimentItem(Item):
    """One sentiment that ATSA found."""

    aspect_ref: Name = None
    category: SaidCategory = None
    polarity: SpokenPolarity = None
    opinion_term: CategoryWord = None
    evidence: Word = None
    confidence: Confidence = None
    # Models are not asked: whether the aspect has a place in the text says it.
    is_implicit: SkipJsonSchema[Flag] = None


class AtsaAnswer(Answer):
    """ATSA: the sentiments of the text, aspect by aspect."""

    aspect_sentiments: list[SentimentItem] = Field(default_factory=list)


class Risk(Item):
    """A structural risk the Validator saw."""

    type: Annotated[str, BeforeValidator(_risk_type), _one_of(RISK_TYPES)]
    severity: Annotated[str, BeforeValidator(_severity), _one_of(SEVERITIES)] = "mid"
    span: OptionalSpan = None
    description: Word = None


class Proposal(Item):
    """A correction the Validator proposes."""

    target_aspect: Name = None
    proposal_type: Annotated[str, BeforeValidator(_text), _one_of(PROPOSALS)]
    rationale: Word = None
    revised_span: RevisedSpan = None


class ValidatorAnswer(Answer):
    """The Validator, in Stage 1 and (as `validator_review`) in Stage 2."""

    structural_risks: list[Risk] = Field(default_factory=list)
    correction_proposals: list[Proposal] = Field(default_factory=list)
    suggested_label: OptionalLabel = None
    confidence: Confidence = None


class EditTarget(Item):
    """What an edit is about."""

    aspect_ref: Name = None
    aspect_term: SkipJsonSchema[Name] = None
    category: SkipJsonSchema[SaidCategory] = None
    # Not asked for: a small model writes the new polarity here instead of into `value`, and the
    # one that the tuple has now is known.
    polarity: SkipJsonSchema[OptionalPolarity] = None


class Edit(Item):
    """One edit of the patch debate."""

    op: Annotated[
        str,
        BeforeValidator(_text),
        WithJsonSchema({"type": "string", "enum": [*EDIT_OPS], _WITH_CATEGORIES: "op"}),
    ]
    target: Annotated[EditTarget, BeforeValidator(_target)] = EditTarget()
    value: Word = None
    evidence: Word = None
    confidence: Confidence = None
    # As the server tells it, of the word that names the polarity or the drop.
    word_probability: SkipJsonSchema[Annotated[float | None, BeforeValidator(_confidence)]] = None


class TurnAnswer(Answer):
    """A speaker of the patch debate says edits and nothing else."""

    in_debate: ClassVar[bool] = True
    agent: Word = None
    proposed_edits: list[Edit] = Field(default_factory=list)


class WeighedEdit(Edit):
    """An edit that counts by how likely the model held its polarity, or its drop."""

    is_edit: ClassVar[bool] = True


class WeighedTurnAnswer(TurnAnswer):
    """A turn of a contested debate."""

    proposed_edits: list[WeighedEdit] = Field(default_factory=list)  # type: ignore[assignment]


class DebateTuple(Item):
    """An aspect and the polarity the judge gives it."""

    aspect_term: Name = None
    category: SaidCategory = None
    polarity: SpokenPolarity = None


class AspectEvidence(Item):
    """The judge's evidence for one aspect."""

    aspect_ref: Name = None
    evidence: Word = None


def _evidence_list(value: Any) -> Any:
    """`{"가격": "비싸요"}` means the same as `[{"aspect_ref": "가격", "evidence": "비싸요"}]`."""
    if isinstance(value, Mapping):
        return [{"aspect_ref": ref, "evidence": evidence} for ref, evidence in value.items()]
    return value


def _string_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class JudgeAnswer(Answer):
    """The judge: one patch, one consistent set of tuples, the sentence's polarity and evidence."""

    optional: ClassVar[tuple[str, ...]] = ("aspect_evidence",)
    in_debate: ClassVar[bool] = True

    final_patch: list[Edit] = Field(default_factory=list)
    final_tuples: list[DebateTuple] = Field(default_factory=list)
    unresolved_conflicts: Annotated[
        list[Any],
        BeforeValidator(_string_list),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ] = Field(default_factory=list)
    sentence_polarity: Annotated[str | None, BeforeValidator(_text), _one_of(LABELS)] = None
    sentence_evidence_spans: Annotated[list[str], BeforeValidator(_string_list)] = Field(
        default_factory=list
    )
    aspect_evidence: Annotated[list[AspectEvidence], BeforeValidator(_evidence_list)] = Field(
        default_factory=list
    )
    rationale: Word = None

    @property
    def words(self) -> str:
        """What the judge says in prose."""
        return self.rationale or ""


class WeighedJudgeAnswer(JudgeAnswer):
    """The judge of a contested debate."""

    final_patch: list[WeighedEdit] = Field(default_factory=list)  # type: ignore[assignment]


class PersonaTurnAnswer(Answer):
    """A speaker of the persona debate: it plans, looks at its plan, and speaks."""

    speaker: Word = None
    stance: Word = None
    planning: Word = None
    reflection: Word = None
    message: Word = None
    key_points: Annotated[list[str], BeforeValidator(_string_list)] = Field(default_factory=list)


class PersonaJudgeAnswer(Answer):
    """The judge of the persona debate: who won, and what was agreed on."""

    winner: Word = None
    consensus: Word = None
    key_agreements: Annotated[list[str], BeforeValidator(_string_list)] = Field(
        default_factory=list
    )
    key_disagreements: Annotated[list[str], BeforeValidator(_string_list)] = Field(
        default_factory=list
    )
    rationale: Word = None

    # What the other judge gives and this one does not.
    final_patch: ClassVar[list[Edit]] = []
    final_tuples: ClassVar[list[DebateTuple]] = []
    unresolved_conflicts: ClassVar[list[Any]] = []
    sentence_polarity: ClassVar[str | None] = None
    sentence_evidence_spans: ClassVar[list[str]] = []
    aspect_evidence: ClassVar[list[AspectEvidence]] = []

    @property
    def words(self) -> str:
        """What the judge says in prose."""
        prose = (self.consensus, self.rationale, *self.key_agreements, *self.key_disagreements)
        return "\n".join(words for words in prose if words)


DebateSummary = JudgeAnswer | PersonaJudgeAnswer


class AspectReview(Item):
    """What ATE's second look says about one aspect. `provenance` is written by code."""

    term: Name = None
    # Of an aspect that is added.
    category: SaidCategory = None
    action: Annotated[str, BeforeValidator(_text), _one_of(ASPECT_ACTIONS)]
    revised_span: RevisedSpan = None
    reason: Word = None
    evidence: SkipJsonSchema[Word] = None
    provenance: SkipJsonSchema[str | None] = None


class AteReviewAnswer(Answer):
    """ATE in Stage 2: reviews only."""

    forbidden: ClassVar[tuple[str, ...]] = ("aspects", "aspect_sentiments")
    aspect_review: list[AspectReview] = Field(default_factory=list)


class SentimentReview(Item):
    """What ATSA's second look says about one sentiment. `provenance` is written by code."""

    aspect_ref: Name = None
    # Of a sentiment that is added.
    category: SaidCategory = None
    action: Annotated[str, BeforeValidator(_text), _one_of(SENTIMENT_ACTIONS)]
    revised_polarity: OptionalPolarity = None
    confidence: Confidence = None
    evidence: Word = None
    reason: Word = None
    provenance: SkipJsonSchema[str | None] = None


class AtsaReviewAnswer(Answer):
    """ATSA in Stage 2: reviews only."""

    forbidden: ClassVar[tuple[str, ...]] = ("aspects", "aspect_sentiments")
    sentiment_review: list[SentimentReview] = Field(default_factory=list)


class ExtractedTuple(Item):
    """An aspect with its polarity, found in one go."""

    named_by: ClassVar[str | None] = "aspect_term"
    aspect_term: Name = None
    category: SaidCategory = None
    span: OptionalSpan = None
    evidence: Word = None
    opinion_term: CategoryWord = None
    polarity: SpokenPolarity = None
    confidence: Confidence = None
    name_probability: NameProbability = None
    is_implicit: SkipJsonSchema[Flag] = None


class ExtractAnswer(Answer):
    """The joint call of the baselines: aspects, polarities and evidence at once."""

    tuples: list[ExtractedTuple] = Field(default_factory=list)


class ReaderTuple(ExtractedTuple):
    """A tuple of the second reader: how likely it is right, and whether it would report it."""

    probability: Confidence = None
    reported: Flag = None


class SecondReaderAnswer(Answer):
    """What the embedded analyser reads in a text, tuples below its reporting bar included."""

    tuples: list[ReaderTuple] = Field(default_factory=list)
    reads_language: SkipJsonSchema[Flag] = None
    """Whether it has a model of the text's language; a missing value counts as yes."""
    knows_domain: SkipJsonSchema[Flag] = None
    """Whether its model was trained on texts of this domain; a missing value counts as no."""


class ASTETripletItem(Item):
    """An aspect, its polarity and the words that show it, as one perspective sees them."""

    aspect_term: Name = None
    aspect_ref: Name = None
    category: SaidCategory = None
    evidence: Word = None
    opinion_term: Word = None
    polarity: SpokenPolarity = None
    span: OptionalSpan = None
    confidence: Confidence = None
    rationale: SkipJsonSchema[Word] = None


class TripletsAnswer(Answer):
    """A perspective of the conflict review."""

    triplets: list[ASTETripletItem] = Field(default_factory=list)


class NewValue(Item):
    """What a FLIP or a MERGE wants: a polarity, or one name for all its targets."""

    polarity: OptionalPolarity = None
    normalized_ref: Word = None


def _new_value(value: Any) -> Any:
    """A bare word is the value its action needs; anything else that is no object gives none."""
    if isinstance(value, str):
        return {"polarity": value, "normalized_ref": value}
    return value if isinstance(value, Mapping | NewValue) else None


def _tuple_ids(value: Any) -> list[str]:
    """The targets as said; one that is no id is no tuple either, and refused with its action."""
    given = value if isinstance(value, list | tuple) else [value] if value is not None else []
    return [str(one) for one in given]


class ReviewActionItem(Item):
    """What a reviewer would do to flagged tuples. Whether it may is a rule."""

    action_type: Annotated[str | None, BeforeValidator(_text), _one_of(REVIEW_ACTIONS)] = None
    target_tuple_ids: Annotated[list[str], BeforeValidator(_tuple_ids)] = Field(
        default_factory=list
    )
    new_value: Annotated[NewValue | None, BeforeValidator(_new_value)] = None
    reason_code: Annotated[str | None, BeforeValidator(_text), _one_of(REASON_CODES)] = None
    actor: SkipJsonSchema[Word] = None


class ReviewActionsAnswer(Answer):
    """A reviewer of the conflict review, or its arbiter: actions only, never tuples."""

    forbidden: ClassVar[tuple[str, ...]] = ("triplets", "candidates")
    review_actions: list[ReviewActionItem] = Field(default_factory=list)


A = TypeVar("A", bound=Answer)

MOST_ITEMS = 2_000
"""Items of one list of an answer: no review has more aspects, and each takes memory many times."""
_LONGEST_NOTE = 500


def read_answer(model: type[A], raw: Any) -> tuple[A, list[str]]:
    """Read an answer, leaving out what cannot be read.

    Returns the answer and a note for each part left out. Raises `AnswerError` when nothing of
    what was asked for is there: an answer without any expected key is a failure, not an empty
    list.
    """
    if isinstance(raw, model):
        return raw, []
    if not isinstance(raw, Mapping):
        raise AnswerError(f"expected a JSON object, got {type(raw).__name__}")
    # A null stands for "not given" everywhere.
    given = {
        key: list(value) if isinstance(value, list) else value
        for key, value in raw.items()
        if value is not None
    }
    expected = {*model.model_fields, *model.forbidden}
    if not expected & given.keys():
        raise AnswerError(
            f"none of the expected keys {sorted(model.model_fields)} is in the answer"
        )
    for key, value in given.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            raise AnswerError(f"{key} has {len(value):,} items, more than {MOST_ITEMS:,}")
    notes = [f"{key} {DISCARDED}" for key in model.forbidden if key in given]
    try:
        return model.model_validate(given), notes
    except ValidationError as error:
        broken = {problem["loc"][:2]: problem["msg"] for problem in error.errors()}
    for loc in sorted(broken, key=str, reverse=True):
        field, place = str(loc[0]), ".".join(map(str, loc))
        notes.append(f"{place}: {broken[loc]}"[:_LONGEST_NOTE])
        value = given.get(field)
        if len(loc) == 2 and isinstance(loc[1], int) and isinstance(value, list):
            value[loc[1]] = None  # marked here, removed below: indices must not shift meanwhile
        else:
            given.pop(field, None)
    given = {
        key: [item for item in value if item is not None] if isinstance(value, list) else value
        for key, value in given.items()
    }
    try:
        return model.model_validate(given), notes
    except ValidationError as error:  # a required part is missing, or cannot be read
        first = error.errors()[0]
        raise AnswerError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


@cache
@cache
def as_answer(model: type[BaseModel]) -> type[Answer]:
    """The model as an answer: a user's own agent may answer with any pydantic model."""
    if issubclass(model, Answer):
        return model
    bases: Any = (model, Answer)
    made: Any = create_model(model.__name__, __base__=bases, __module__=model.__module__)
    return cast(type[Answer], made)
