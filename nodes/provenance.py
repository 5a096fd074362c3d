"""The reviewers' views of Stage 1 and the debate, and the provenance of reviews."""

from __future__ import annotations

from typing import Any, TypeVar

from absa.nodes.contested import WITNESS
from absa.nodes.language import language
from absa.nodes.review_context import Mentions
from absa.schemas.answers import AspectReview, SentimentReview
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State

R = TypeVar("R", AspectReview, SentimentReview)


def validation_view(state: State) -> dict[str, Any]:
    """The Validator's Stage 1 answer."""
    return state["stage1_validation"].model_dump(exclude_none=True)


_POINT = {"speaker", "stance", "key_points", "weight", "polarity_hint"}


def hints_view(state: State, pipeline: PipelineSettings) -> dict[str, Any] | None:
    """The review context for reviewers; None without a debate.

    They see the judge's result and the hints. For a debate in prose, which has no edits, they also
    see the arguments. The rest of the context repeats these or is only for the record.
    """
    context = state["debate_hints"]
    if context is None:
        return None
    view = context.model_dump(exclude_none=True, include={"summary", "aspect_hints"})
    # The hints of the second reader are only for the gate.
    spoken = {
        term: [hint for hint in hints if hint["op"] != WITNESS]
        for term, hints in view["aspect_hints"].items()
    }
    view["aspect_hints"] = {term: hints for term, hints in spoken.items() if hints}
    if pipeline.debate.protocol == "persona":
        points = context.rebuttal_points
        view["rebuttal_points"] = [p.model_dump(include=_POINT, exclude_none=True) for p in points]
    return view


class Provenance:
    """Writes the debate's provenance into reviews. Code does this, never the model."""

    def __init__(self, state: State) -> None:
        self._lang = language(state["lang"])
        self._mentions = Mentions(state["stage1_result"], self._lang)
        context = state["debate_hints"]
        self._sources = {
            self._lang.key(term): ", ".join(
                dict.fromkeys(h.provenance_hint for h in hints if h.op != WITNESS)
            )
            for term, hints in (context.aspect_hints.items() if context else ())
        }

    def written_into(self, review: R, aspect: str | None) -> R:
        """The review with the speakers about its aspect in `provenance` and in its reason."""
        term, _ = self._mentions.first((aspect,))
        source = (self._sources.get(self._lang.key(term)) or None) if term else None
        reason = " ".join(part for part in (review.reason, source and f"[{source}]") if part)
        return review.model_copy(update={"provenance": source, "reason": reason or None})
