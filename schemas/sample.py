"""One row of a data file: a text and, if it is annotated, its gold.

A `Sample` is always valid: its text is not empty, and every span matches its term. Readers report
other rows as bad lines.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

GoldPolarity = Literal["positive", "negative", "neutral"]
GoldLabel = Literal["positive", "negative", "neutral", "mixed"]
#: A cell of another column, such as a product, a date or a rating.
Cell = str | int | float | bool


class GoldAspect(BaseModel):
    """One gold tuple: an aspect with its polarity.

    Attributes:
        term: The aspect as written in the text; None if nothing in the text names it.
        from_: Offset of the first character of the term (`from` in JSON); None if implicit.
        to: Offset after the last character of the term; None if implicit.
        polarity: The polarity of the aspect.
        opinion: The opinion term, if it is annotated.
        category: The annotation's category, such as `FOOD#QUALITY`.
        implicit: True if the aspect has no span. It follows from `from_`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    term: str | None = None
    from_: int | None = Field(default=None, alias="from", ge=0)
    to: int | None = Field(default=None, ge=1)
    polarity: GoldPolarity
    opinion: str | None = None
    category: str | None = None
    implicit: bool

    @model_validator(mode="before")
    @classmethod
    def _fill_implicit(cls, data: Any) -> Any:
        if isinstance(data, dict) and "implicit" not in data:
            start = data.get("from", data.get("from_"))
            return {**data, "implicit": start is None}
        return data

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if (self.from_ is None) != (self.to is None):
            raise ValueError("from and to must be given together")
        if self.implicit != (self.from_ is None):
            raise ValueError("an aspect is implicit exactly when it has no from and to")
        if self.from_ is not None and self.term is None:
            raise ValueError("an aspect with from and to needs its term")
        return self


class Sample(BaseModel):
    """One text with its metadata and gold.

    Attributes:
        uid: Name of the sample, unique in its file.
        text: The review, exactly as in the file.
        lang: Language code in lower case (`ko`, `en`), or None if the file does not say.
        domain: What the review is about (`restaurant`), or None.
        split: The part of the data set it belongs to (`train`), or None.
        aspects: The gold tuples; empty if the annotators found none; None if there is no gold.
        given_aspects: Terms to judge instead of extracting aspects; None: extract.
        label: Gold label of the whole text, if the format has one.
        incomplete_gold: True if gold tuples are known to be missing: do not score such a sample.
        dropped_aspects: Number of gold tuples left out because their polarity is unknown.
        relocated_aspects: Number of gold tuples with wrong offsets that were found by search.
        extra: The other columns of the data, by name. They are copied to the output, not prompts.
        notes: Messages about what the reader changed or ignored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uid: str = Field(min_length=1)
    text: str
    lang: str | None = None
    domain: str | None = None
    split: str | None = None
    aspects: tuple[GoldAspect, ...] | None = None
    given_aspects: tuple[str, ...] | None = None
    label: GoldLabel | None = None
    incomplete_gold: bool = False
    dropped_aspects: int = Field(default=0, ge=0)
    relocated_aspects: int = Field(default=0, ge=0)
    extra: dict[str, Cell] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if not self.text.strip():
            raise ValueError("the text is empty")
        for aspect in self.aspects or ():
            if not self._stands_there(aspect):
                raise ValueError(f"the text from {aspect.from_} to {aspect.to} is not the term")
        return self

    @property
    def terms(self) -> list[str]:
        """The gold's terms, each once, without their polarities."""
        return list(dict.fromkeys(a.term for a in self.aspects or () if a.term))

    def _stands_there(self, aspect: GoldAspect) -> bool:
        if aspect.from_ is None or aspect.to is None:
            return True
        # A slice can reach past the end of the text and still equal the term.
        inside = aspect.to <= len(self.text)
        return inside and self.text[aspect.from_ : aspect.to] == aspect.term
