"""The reviewers of the second stage: keep, revise, drop or add; never a full list."""

from __future__ import annotations

from typing import Any

from absa.offline.roles import lookup
from absa.offline.roles.inputs import DebateContext, ReviewInputs, ValidatorReviewInputs, canonical
from absa.offline.roles.lookup import key
from absa.offline.text.annotations import NEUTRAL, Analysis

#: Weight of hints on one side that a reviewer follows, with the analyser's own word for it.
_HEARD = 0.8


def _debated(context: DebateContext) -> dict[str, tuple[str, str]]:
    """What the judge decided: aspect key -> (term, polarity)."""
    decided = {}
    for item in context.summary.final_tuples:
        polarity = canonical(item.polarity)
        if item.aspect_term and polarity:
            decided[key(item.aspect_term)] = (item.aspect_term, polarity)
    return decided


def _quotes(context: DebateContext, text: str) -> dict[str, str]:
    quotes: dict[str, str] = {}
    for item in context.summary.aspect_evidence:
        if item.evidence and item.evidence in text:
            quotes.setdefault(key(item.aspect_ref or ""), item.evidence)
    return quotes


def _hints(context: DebateContext) -> dict[str, dict[str, float]]:
    """Weight of the debate's hints: aspect key -> polarity or `drop` -> weight."""
    weights: dict[str, dict[str, float]] = {}
    for term, hints in context.aspect_hints.items():
        own = weights.setdefault(key(term), {})
        for hint in hints:
            name = "drop" if hint.op == "drop_tuple" else canonical(hint.polarity_hint)
            if name:
                own[name] = own.get(name, 0.0) + hint.weight
    return weights


def ate_review(analysis: Analysis, inputs: ReviewInputs) -> dict[str, Any]:
    """Keep what stands in the text, drop what the debate dropped, add what it found."""
    context = inputs.review_context or DebateContext()
    hints, decided, quotes = _hints(context), _debated(context), _quotes(context, analysis.text)
    reviews: list[dict[str, Any]] = []
    known: set[str] = set()
    for term in inputs.stage1_ate.terms:
        own = key(term)
        known.add(own)
        said = hints.get(own, {})
        spoken_for = sum(weight for name, weight in said.items() if name != "drop")
        if said.get("drop", 0.0) >= _HEARD and said["drop"] > spoken_for and own not in decided:
            reviews.append(
                {"term": term, "action": "drop", "reason": "the debate found no ground for it"}
            )
            continue
        reviews.append({"term": term, "action": "keep"})
    for own, (term, polarity) in decided.items():
        at = analysis.text.find(term)
        if own in known or at < 0 or hints.get(own, {}).get(polarity, 0.0) < _HEARD:
            continue
        reviews.append(
            {
                "term": term,
                "action": "add",
                "revised_span": {"start": at, "end": at + len(term)},
                "reason": "found in the debate",
                "evidence": quotes.get(own, term),
            }
        )
    return {"aspect_review": reviews}


def atsa_review(analysis: Analysis, inputs: ReviewInputs) -> dict[str, Any]:
    """Maintain, or follow the debate where the text itself bears it out."""
    context = inputs.review_context or DebateContext()
    hints, decided, quotes = _hints(context), _debated(context), _quotes(context, analysis.text)
    reviews: list[dict[str, Any]] = []
    known: set[str] = set()
    for item in inputs.stage1_atsa.sentiments:
        term, polarity = item.aspect_term, item.polarity
        own = key(term)
        if own in known:
            continue
        known.add(own)
        finding = lookup.find(analysis, term)
        view = finding.clause_reading if finding is not None else None
        seen = view.polarity if view is not None and view.opinion is not None else None
        said = hints.get(own, {})
        verdict = decided.get(own, (term, polarity))[1]
        against = said.get(verdict, 0.0)
        quoted = quotes.get(own, "")
        if not quoted and view is not None and view.polarity == verdict:
            quoted = lookup.evidence(analysis, view)
        if verdict != polarity and against >= _HEARD and (seen == verdict or seen is None):
            action = "add" if item.is_backfilled else "flip_polarity"
            reviews.append(
                {
                    "aspect_ref": term,
                    "action": action,
                    "revised_polarity": verdict,
                    "confidence": view.confidence if view is not None else 0.6,
                    "evidence": quoted,
                    "reason": "the words about it say so, and so did the debate",
                }
            )
        elif (
            item.is_backfilled
            and seen is not None
            and seen != NEUTRAL
            and view is not None
            and own not in decided
        ):
            reviews.append(
                {
                    "aspect_ref": term,
                    "action": "add",
                    "revised_polarity": seen,
                    "confidence": view.confidence,
                    "evidence": lookup.evidence(analysis, view),
                    "reason": "an opinion about it stands in its clause",
                }
            )
        else:
            reviews.append(
                {
                    "aspect_ref": term,
                    "action": "maintain",
                    "confidence": item.confidence,
                    "evidence": quoted or item.evidence,
                }
            )
    for own, (term, verdict) in decided.items():
        if own in known or hints.get(own, {}).get(verdict, 0.0) < _HEARD:
            continue
        if term not in analysis.text or not quotes.get(own):
            continue
        finding = lookup.find(analysis, term)
        reviews.append(
            {
                "aspect_ref": term,
                "action": "add",
                "revised_polarity": verdict,
                "confidence": finding.clause_reading.confidence if finding is not None else 0.6,
                "evidence": quotes[own],
                "reason": "found in the debate",
            }
        )
    return {"sentiment_review": [_grounded(review, analysis.text) for review in reviews]}


def _grounded(review: dict[str, Any], text: str) -> dict[str, Any]:
    """A review without evidence that is not in the text."""
    if not review.get("evidence") or review["evidence"] not in text:
        review.pop("evidence", None)
    return review


def validator_review(analysis: Analysis, inputs: ValidatorReviewInputs) -> dict[str, Any]:
    """The risks of Stage 1 that no review has answered."""
    answered: list[tuple[int, int]] = []
    gone: set[str] = set()
    for review in inputs.atsa_review.sentiment_review:
        quoted = review.evidence or ""
        at = analysis.text.find(quoted) if quoted else -1
        if at >= 0 and review.action in ("flip_polarity", "add"):
            answered.append((at, at + len(quoted)))
        if review.action in ("flip_polarity", "add", "drop"):
            gone.add(key(review.aspect_ref or ""))
    for aspect_review in inputs.ate_review.aspect_review:
        if aspect_review.action in ("drop", "revise_span"):
            gone.add(key(aspect_review.term or ""))
        elif aspect_review.action == "add":
            gone.add("+")
    remaining = []
    for risk in inputs.stage1_validator.structural_risks:
        if risk.span is not None:
            start, end = risk.span.start, risk.span.end
            if key(analysis.text[max(0, start) : max(0, end)]) in gone:
                continue
            if any(first < end and start < last for first, last in answered):
                continue
        if risk.type == "MISSING_SECOND_ASPECT" and "+" in gone:
            continue
        remaining.append(risk)
    return inputs.stage1_validator.model_copy(
        update={"structural_risks": remaining, "correction_proposals": []}
    ).model_dump(exclude_none=True)
