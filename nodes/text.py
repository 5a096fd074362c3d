"""Spans and evidence in the text."""

from __future__ import annotations

from absa.schemas.answers import Span


def piece(text: str, span: Span) -> str | None:
    """The text of a span; None if the span is outside the text."""
    return text[span.start : span.end] if 0 <= span.start < span.end <= len(text) else None


def locate(text: str, term: str, given: Span | None = None) -> Span | None:
    """The span of a term: the given span if it matches, else the first occurrence."""
    if given is not None and piece(text, given) == term:
        return given
    start = text.find(term) if term else -1
    return Span(start=start, end=start + len(term)) if start >= 0 else None


def grounded(text: str, evidence: str | None) -> bool:
    """Whether the evidence is a non-empty substring of the text."""
    return bool(evidence and evidence.strip()) and str(evidence) in text
