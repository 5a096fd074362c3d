"""The Moderator's inputs from a stage and from the Validator.

A stage gives a label with a confidence twice: over all sentiments, and over the explicit, grounded
ones. The Validator gives its issues.
"""

from __future__ import annotations

from absa.nodes.polarity import aggregate, read
from absa.nodes.text import grounded
from absa.schemas.answers import LABELS, Span, ValidatorAnswer
from absa.schemas.records import Aggregate, StageResult, ValidatorAggregate


def ate_aggregate(result: StageResult) -> Aggregate:
    """Label and confidence over all anchored sentiments."""
    label, confidence = aggregate(s for a in result.aspects for s in a.sentiments)
    return Aggregate(label=label, confidence=confidence)


def atsa_aggregate(result: StageResult, text: str) -> Aggregate | None:
    """Label, confidence and covering span over the explicit, grounded sentiments, if any."""
    chosen = [
        (aspect.span, sentiment)
        for aspect in result.aspects
        for sentiment in aspect.sentiments
        if not aspect.is_implicit(sentiment) and grounded(text, sentiment.evidence)
    ]
    if not chosen:
        return None
    label, confidence = aggregate(sentiment for _, sentiment in chosen)
    spans = [span for span, _ in chosen if span is not None]
    covering = Span(start=min(s.start for s in spans), end=max(s.end for s in spans))
    return Aggregate(label=label, confidence=confidence, span=covering)


def validator_aggregate(answer: ValidatorAnswer) -> ValidatorAggregate:
    """The Validator's issues, label and confidence (0 if not given)."""
    suggested = read(answer.suggested_label, LABELS).value if answer.suggested_label else None
    return ValidatorAggregate(
        issues=tuple(f"{r.type}:{r.severity}" for r in answer.structural_risks),
        suggested_label=suggested,
        confidence=answer.confidence or 0.0,
    )
