"""What Stage 2 sees of Stage 1 and the debate, and where a review about an aspect comes from."""

from __future__ import annotations

from typing import Any, TypeVar

from absa.nodes.language import language
from absa.nodes.review_context import Mentions
from absa.schemas.answers import AspectReview, SentimentReview
from absa.schemas.state import State

R = TypeVar("R", AspectReview, SentimentReview)


def validation_view(state: State) -> dict[str, Any]:
    """The Validator's Stage 1 answer."""
    return state["stage1_validation"].model_dump(exclude_none=True)


def hints_view(state: State) -> dict[str, Any] | None:
    """The debate review context: what the judge gave and the edits; None without a debate."""
    context = state["debate_hints"]
    shown = {"summary", "aspect_hints"}  # the rest repeats them, or is for the record
    return context.model_dump(exclude_none=True, include=shown) if context else None


class Provenance:
    """Writes the debate's provenance into reviews: by code, never by the model."""

    def __init__(self, state: State) -> None:
        """Collect, per aspect the debate spoke of, who spoke of it."""
        self._lang = language(state["lang"])
        self._mentions = Mentions(state["stage1_result"], self._lang)
        context = state["debate_hints"]
        self._sources = {
            self._lang.key(term): ", ".join(dict.fromkeys(h.provenance_hint for h in hints))
            for term, hints in (context.aspect_hints.items() if context else ())
        }

    def written_into(self, review: R, aspect: str | None) -> R:
        """The review with the sources of its aspect in `provenance` and in its reason."""
        term, _ = self._mentions.first((aspect,))
        source = self._sources.get(self._lang.key(term)) if term else None
        reason = " ".join(part for part in (review.reason, source and f"[{source}]") if part)
        return review.model_copy(update={"provenance": source, "reason": reason or None})
