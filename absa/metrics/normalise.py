"""Converts predictions and gold to one kind of tuple with one normaliser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from absa.nodes.categories import spelling
from absa.nodes.language import Language, language
from absa.nodes.text import locate
from absa.schemas.answers import Span
from absa.schemas.output import FinalOutput
from absa.schemas.records import Candidate, Correction
from absa.schemas.sample import GoldAspect

Place = tuple[int, int]
# Protocols with one stage. Their final aspects have more detail than their tuples.
_STAGE1_IS_FINAL = ("single", "vote")


@dataclass(frozen=True, slots=True)
class AbsaTuple:
    """A tuple in the form for the scorer.

    Attributes:
        key: The aspect's key; empty for a tuple without a term.
        span: The span of the aspect, end exclusive; None if it is not in the text.
        category: The category in normalised spelling.
        opinion: Key of the opinion term; empty without one.
        implicit: Whether the aspect has no span, or is marked as implicit.
    """

    key: str
    polarity: str
    span: Place | None = None
    category: str | None = None
    opinion: str = ""
    opinion_span: Place | None = None
    implicit: bool = False


class Normaliser:
    """Makes tuples of one text, in the same way for gold and predictions."""

    def __init__(self, text: str, lang: str) -> None:
        self._text = text
        self._lang: Language = language(lang)

    def key(self, term: str | None) -> str:
        """The aspect key of a term; empty without a term."""
        return self._lang.key(term) if term else ""

    def tuple(
        self,
        term: str | None,
        polarity: str,
        *,
        span: Place | None = None,
        category: str | None = None,
        opinion: str | None = None,
        implicit: bool = False,
    ) -> AbsaTuple:
        """Make a tuple. A term without a span gets the span of its first occurrence."""
        return AbsaTuple(
            key=self.key(term),
            polarity=polarity,
            span=span or self._find(term),
            category=spelling(category) if category else None,
            opinion=self.key(opinion),
            opinion_span=self._find(opinion),
            implicit=implicit,
        )

    def gold(self, aspects: Iterable[GoldAspect]) -> list[AbsaTuple]:
        """The gold tuples of a sample."""
        return [
            self.tuple(
                a.term,
                a.polarity,
                span=(a.from_, a.to) if a.from_ is not None and a.to is not None else None,
                category=a.category,
                opinion=a.opinion,
                implicit=a.implicit,
            )
            for a in aspects
        ]

    def final(self, output: FinalOutput) -> list[AbsaTuple]:
        """The tuples of the final result."""
        return [
            self.tuple(
                a.aspect_term,
                a.polarity,
                span=_place(a.span),
                category=a.category,
                opinion=opinion_of(a),
                implicit=a.is_implicit,
            )
            for a in output.final_result.final_aspects
        ]

    def stage1(self, output: FinalOutput) -> list[AbsaTuple]:
        """The tuples of Stage 1.

        The output has only their terms and polarities. Spans and evidence come from the `before` of
        the first correction in the log or, for aspects without a correction, from the final result.
        In a conflict review they come from the candidates.
        """
        meta = output.meta
        if meta.protocol in _STAGE1_IS_FINAL and meta.human_review is None:
            return self.final(output)
        before = self._proposed(meta.candidates) or self._before(meta.correction_applied_log)
        after: dict[str, dict[str, Any]] = {}
        for a in output.final_result.final_aspects:
            aspect = after.setdefault(self.key(a.aspect_term), {"span": _place(a.span), "said": {}})
            aspect["said"].setdefault(a.polarity, opinion_of(a))
        tuples = []
        for t in output.final_result.stage1_tuples:
            key = self.key(t.aspect_term)
            record = before.get(key) or after.get(key) or {"span": None, "said": {}}
            tuples.append(
                self.tuple(
                    t.aspect_term,
                    t.polarity,
                    span=record["span"],
                    category=t.category,
                    opinion=t.opinion_term or record["said"].get(t.polarity),
                    implicit=record["span"] is None,
                )
            )
        return tuples

    def _proposed(self, candidates: Iterable[Candidate]) -> dict[str, dict[str, Any]]:
        aspects: dict[str, dict[str, Any]] = {}
        for c in candidates:
            record: dict[str, Any] = {"span": _place(c.span), "said": {}}
            entry = aspects.setdefault(self.key(c.aspect_term), record)
            entry["said"].setdefault(c.polarity, c.evidence)
        return aspects

    def _before(self, log: Iterable[Correction]) -> dict[str, dict[str, Any]]:
        aspects: dict[str, dict[str, Any]] = {}
        for correction in log:
            shot = correction.before
            if shot is None or "sentiments" not in shot:  # a label that a person set
                continue
            span = shot["span"]
            evidence_of = {s["polarity"]: s["evidence"] for s in reversed(shot["sentiments"])}
            entry = {"span": (span["start"], span["end"]) if span else None, "said": evidence_of}
            aspects.setdefault(self.key(shot["aspect_term"]), entry)
        return aspects

    def _find(self, words: str | None) -> Place | None:
        return _place(locate(self._text, words)) if words else None


def opinion_of(aspect: Any) -> str | None:
    """The opinion term of a final aspect, else its evidence."""
    own: str | None = getattr(aspect, "opinion_term", None)
    evidence: str | None = aspect.evidence
    return own or evidence


def _place(span: Span | None) -> Place | None:
    return (span.start, span.end) if span is not None else None
