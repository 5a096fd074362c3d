"""The answer types of the agents: one pydantic model per answer.

The models are lenient on purpose, because a language model's answer is untrusted input. A missing
confidence or a span written as a list must not cost the whole answer. Field types accept common
variants, and `read_answer` leaves out unreadable items and lists them. Polarities stay the raw
words; a rule (`absa.nodes.polarity`) reads them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
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
"""L3 risks: structures in which a polarity should rarely be overridden."""
SEVERITIES = ("low", "mid", "high")
SET_CATEGORY = "set_category"
"""The edit that exists only if a category set is in force."""
EDIT_OPS = ("set_polarity", "set_aspect_ref", "merge_tuples", "drop_tuple", "confirm_tuple")
PROPOSALS = ("FLIP_POLARITY", "DROP_ASPECT", "REVISE_SPAN")
ASPECT_ACTIONS = ("keep", "revise_span", "drop", "add")
# The note for a reviewer that returned a full list instead of reviews.
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
    """A raw word. Numbers become text; of a list the first string is taken."""
    if type(value) is str or value is None:
        return value  # nearly always, and every field of every answer passes here
    if isinstance(value, list | tuple):
        return next((item for item in value if isinstance(item, str)), None)
    if isinstance(value, bool | int | float):
        return str(value)
    return value


UNNAMED = "implicit"
"""The display name of an aspect without term and category."""
# Words that models and annotators write for an unnamed aspect.
_NO_NAME = frozenset({"", "null", "none"})


def _name(value: Any) -> Any:
    """The name of an aspect; None if it is unnamed."""
    name = _text(value)
    return None if isinstance(name, str) and name.strip().lower() in _NO_NAME else name


def name_of(term: str | None, category: str | None = None) -> str:
    """The display name of an aspect. An unnamed one is called by its category."""
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
    """True or false in the spellings of models; None for other values."""
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int) else None


def _target(value: Any) -> Any:
    """Read a target that is a bare word as the name of an aspect."""
    if value is None:
        return {}
    return {"aspect_ref": value} if isinstance(value, str) else value


def _span(value: Any) -> Any:
    """Read `{start, end}`, `[start, end]` or nothing. Offsets are checked later."""
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
    """Read a revised span, which can also be given as its words: models count badly."""
    return value if isinstance(value, str) else _span(value)


def _risk_type(value: Any) -> str:
    name = str(value).strip().upper().replace(" ", "_")
    return name if name in RISK_TYPES else "OTHER"


def _severity(value: Any) -> str:
    name = str(value).strip().lower()
    return {"medium": "mid", "moderate": "mid"}.get(name, name if name in SEVERITIES else "mid")


def _one_of(words: tuple[str, ...], *, optional: bool = False) -> WithJsonSchema:
    """A field whose schema lists the allowed words. The parser accepts any; rules check later."""
    choice: dict[str, Any] = {"type": "string", "enum": list(words)}
    return WithJsonSchema({"anyOf": [choice, {"type": "null"}]} if optional else choice)


class Span(BaseModel):
    """Character offsets into the original text, end exclusive."""

    model_config = ConfigDict(frozen=True)
    start: int
    end: int


# Parts of the model's schema that exist only if a category set is in force.
_WITH_CATEGORIES = "x-with-categories"
_OR_NULL: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}

Flag = Annotated[bool | None, BeforeValidator(_flag)]
Word = Annotated[str | None, BeforeValidator(_text)]
Required = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str | None, BeforeValidator(_name)]
# The raw category. A rule checks whether it is in the set.
SaidCategory = Annotated[
    str | None, BeforeValidator(_name), WithJsonSchema({**_OR_NULL, _WITH_CATEGORIES: "category"})
]
CategoryWord = Annotated[
    str | None, BeforeValidator(_text), WithJsonSchema({**_OR_NULL, _WITH_CATEGORIES: "word"})
]
Confidence = Annotated[
    float | None,
    BeforeValidator(_confidence),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
# Not in the model's schema: computed from the token probabilities of the words.
Probability = SkipJsonSchema[Annotated[float | None, BeforeValidator(_confidence)]]
# Not in the model's schema: offsets are computed from the words.
OptionalSpan = SkipJsonSchema[Annotated[Span | None, BeforeValidator(_span)]]
RevisedSpan = Annotated[
    Span | str | None,
    BeforeValidator(_span_or_words),
    WithJsonSchema(_OR_NULL),
]
SpokenPolarity = Annotated[str | None, BeforeValidator(_text), _one_of(POLARITIES)]
OptionalPolarity = Annotated[str | None, BeforeValidator(_text), _one_of(POLARITIES, optional=True)]
OptionalLabel = Annotated[str | None, BeforeValidator(_text), _one_of(LABELS, optional=True)]


class Item(BaseModel):
    """A part of an answer; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # The key of the name whose token probability is used; None: not used.
    named_by: ClassVar[str | None] = None
    # Whether it is an edit whose polarity or drop gets a token probability.
    is_edit: ClassVar[bool] = False


class Answer(Item):
    """A whole answer of one agent."""

    # Full lists that a reviewer must not return. They are discarded and the violation is recorded.
    forbidden: ClassVar[tuple[str, ...]] = ()
    # Optional lists, which can be missing, for example because the answer was cut off.
    optional: ClassVar[tuple[str, ...]] = ()
    # Whether it is about tuples that other agents found.
    in_debate: ClassVar[bool] = False
    # The categories that the schema lists.
    categories: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema for a model, with categories only if a set is in force."""
        schema = super().model_json_schema(*args, **kwargs)
        _fit_categories(schema, cls.categories)
        return schema


def _fit_categories(node: Any, categories: tuple[str, ...]) -> None:
    """Remove the category fields from a schema, or fill in the categories."""
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
    """Whether items of the answer can have a category, or edits can set one."""
    return _WITH_CATEGORIES in json.dumps(super(Answer, answer).model_json_schema())


class AspectItem(Item):
    """One aspect term that ATE found."""

    named_by: ClassVar[str | None] = "term"
    # None if the text judges something without naming it.
    term: Name
    category: SaidCategory = None
    span: OptionalSpan = None
    confidence: Confidence = None
    name_probability: Probability = None
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
    # Not in the model's schema: it follows from whether the aspect has a span.
    is_implicit: SkipJsonSchema[Flag] = None


class AtsaAnswer(Answer):
    """ATSA: the sentiments of the text, aspect by aspect."""

    aspect_sentiments: list[SentimentItem] = Field(default_factory=list)


class Risk(Item):
    """A structural risk that the Validator reports."""

    type: Annotated[str, BeforeValidator(_risk_type), _one_of(RISK_TYPES)]
    severity: Annotated[str, BeforeValidator(_severity), _one_of(SEVERITIES)] = "mid"
    span: OptionalSpan = None
    description: Word = None


class Proposal(Item):
    """A correction that the Validator proposes."""

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
    """The target of an edit."""

    aspect_ref: Name = None
    aspect_term: SkipJsonSchema[Name] = None
    category: SkipJsonSchema[SaidCategory] = None
    # Not in the model's schema, because small models write the new polarity here instead of into
    # `value`. The current polarity is known.
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
    # The token probability of the word that names the polarity or the drop.
    word_probability: Probability = None


class TurnAnswer(Answer):
    """A turn of the patch debate: only edits."""

    in_debate: ClassVar[bool] = True
    agent: Word = None
    proposed_edits: list[Edit] = Field(default_factory=list)


class WeighedEdit(Edit):
    """An edit weighted by the token probability of its polarity or drop."""

    is_edit: ClassVar[bool] = True


class WeighedTurnAnswer(TurnAnswer):
    """A turn of a contested debate."""

    proposed_edits: list[WeighedEdit] = Field(default_factory=list)  # type: ignore[assignment]


class DebateTuple(Item):
    """An aspect and the polarity that the judge gives it."""

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


Strings = Annotated[list[str], BeforeValidator(_string_list)]
AspectEvidences = Annotated[list[AspectEvidence], BeforeValidator(_evidence_list)]


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
    sentence_evidence_spans: Strings = Field(default_factory=list)
    aspect_evidence: AspectEvidences = Field(default_factory=list)
    rationale: Word = None

    @property
    def words(self) -> str:
        """The judge's text."""
        return self.rationale or ""


class WeighedJudgeAnswer(JudgeAnswer):
    """The judge of a contested debate."""

    final_patch: list[WeighedEdit] = Field(default_factory=list)  # type: ignore[assignment]


class PersonaTurnAnswer(Answer):
    """A turn of the persona debate: a plan, a reflection on it, and the message."""

    speaker: Word = None
    stance: Word = None
    planning: Word = None
    reflection: Word = None
    message: Word = None
    key_points: Strings = Field(default_factory=list)


class PersonaJudgeAnswer(Answer):
    """The judge of the persona debate: the winner and the consensus."""

    winner: Word = None
    consensus: Word = None
    key_agreements: Strings = Field(default_factory=list)
    key_disagreements: Strings = Field(default_factory=list)
    rationale: Word = None

    # Fields of the other judge that this one does not have.
    final_patch: ClassVar[list[Edit]] = []
    final_tuples: ClassVar[list[DebateTuple]] = []
    unresolved_conflicts: ClassVar[list[Any]] = []
    sentence_polarity: ClassVar[str | None] = None
    sentence_evidence_spans: ClassVar[list[str]] = []
    aspect_evidence: ClassVar[list[AspectEvidence]] = []

    @property
    def words(self) -> str:
        """The judge's text."""
        prose = (self.consensus, self.rationale, *self.key_agreements, *self.key_disagreements)
        return "\n".join(words for words in prose if words)


DebateSummary = JudgeAnswer | PersonaJudgeAnswer


class AspectReview(Item):
    """ATE's review of one aspect. Code fills in `provenance`."""

    term: Name = None
    # For an added aspect.
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
    """ATSA's review of one sentiment. Code fills in `provenance`."""

    aspect_ref: Name = None
    # For an added sentiment.
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
    """An aspect with its polarity from a joint call."""

    named_by: ClassVar[str | None] = "aspect_term"
    aspect_term: Name = None
    category: SaidCategory = None
    span: OptionalSpan = None
    evidence: Word = None
    opinion_term: CategoryWord = None
    polarity: SpokenPolarity = None
    confidence: Confidence = None
    name_probability: Probability = None
    is_implicit: SkipJsonSchema[Flag] = None


class ExtractAnswer(Answer):
    """The joint call of the baselines: aspects, polarities and evidence at once."""

    tuples: list[ExtractedTuple] = Field(default_factory=list)


class ReaderTuple(ExtractedTuple):
    """A tuple of the second reader with its probability, and whether it is reported."""

    probability: Confidence = None
    reported: Flag = None


class SecondReaderAnswer(Answer):
    """The tuples of the embedded analyser, including those below its reporting threshold."""

    tuples: list[ReaderTuple] = Field(default_factory=list)
    reads_language: SkipJsonSchema[Flag] = None
    """Whether it has a model of the text's language; a missing value counts as yes."""
    knows_domain: SkipJsonSchema[Flag] = None
    """Whether its model was trained on texts of this domain; a missing value counts as no."""


class ASTETripletItem(Item):
    """An aspect, its polarity and its evidence from one perspective."""

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
    """The new value of a FLIP (a polarity) or a MERGE (one name for all targets)."""

    polarity: OptionalPolarity = None
    normalized_ref: Word = None


def _new_value(value: Any) -> Any:
    """Read a bare word as the value of the action; other values that are not objects as None."""
    if isinstance(value, str):
        return {"polarity": value, "normalized_ref": value}
    return value if isinstance(value, Mapping | NewValue) else None


def _tuple_ids(value: Any) -> list[str]:
    """Read the targets. Invalid ids are kept, so that a rule can discard the action."""
    values = value if isinstance(value, list | tuple) else [value] if value is not None else []
    return [str(one) for one in values]


class ReviewActionItem(Item):
    """A reviewer's action on flagged tuples. A rule checks whether it is allowed."""

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
"""The maximum number of items in a list of an answer. It bounds the memory."""
_LONGEST_NOTE = 500


def read_answer(model: type[A], raw: Any) -> tuple[A, list[str]]:
    """Read an answer without its unreadable items.

    Returns the answer and a note for each part that was left out. Raises `AnswerError` if no
    expected key is there: such an answer is a failure, not an empty list.
    """
    if isinstance(raw, model):
        return raw, []
    if not isinstance(raw, Mapping):
        raise AnswerError(f"expected a JSON object, got {type(raw).__name__}")
    # A null means that a value is missing.
    values = {
        key: list(value) if isinstance(value, list) else value
        for key, value in raw.items()
        if value is not None
    }
    expected = {*model.model_fields, *model.forbidden}
    if not expected & values.keys():
        raise AnswerError(
            f"none of the expected keys {sorted(model.model_fields)} is in the answer"
        )
    for key, value in values.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            raise AnswerError(f"{key} has {len(value):,} items, more than {MOST_ITEMS:,}")
    notes = [f"{key} {DISCARDED}" for key in model.forbidden if key in values]
    try:
        return model.model_validate(values), notes
    except ValidationError as error:
        broken = {problem["loc"][:2]: problem["msg"] for problem in error.errors()}
    for loc in sorted(broken, key=str, reverse=True):
        field, place = str(loc[0]), ".".join(map(str, loc))
        notes.append(f"{place}: {broken[loc]}"[:_LONGEST_NOTE])
        value = values.get(field)
        if len(loc) == 2 and isinstance(loc[1], int) and isinstance(value, list):
            value[loc[1]] = None  # marked here and removed below, so that indices do not shift
        else:
            values.pop(field, None)
    values = {
        key: [item for item in value if item is not None] if isinstance(value, list) else value
        for key, value in values.items()
    }
    try:
        return model.model_validate(values), notes
    except ValidationError as error:  # a required part is missing, or cannot be read
        first = error.errors()[0]
        raise AnswerError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


@cache
def as_answer(model: type[BaseModel]) -> type[Answer]:
    """Make an answer type from any pydantic model, for a user's own agent."""
    if issubclass(model, Answer):
        return model
    bases: Any = (model, Answer)
    made: Any = create_model(model.__name__, __base__=bases, __module__=model.__module__)
    return cast(type[Answer], made)
