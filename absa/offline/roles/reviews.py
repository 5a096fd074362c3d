"""The reviewers of the second stage: keep, revise, drop or add; never a full list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absa.offline.roles import lookup, reading
from absa.offline.roles.reading import key
from absa.offline.text.annotations import NEUTRAL, Analysis

#: Weight of hints on one side that a reviewer follows, with the analyser's own word for it.
_HEARD = 0.8


def _summary(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return reading.mapping(reading.mapping(inputs.get("review_context")).get("summary"))


def _debated(inputs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What the judge decided: aspect key -> (term, polarity)."""
    decided = {}
    for item in reading.items(_summary(inputs).get("final_tuples")):
        term, polarity = (
            reading.word(item.get("aspect_term")),
            reading.polarity(item.get("polarity")),
        )
        if term and polarity:
            decided[key(term)] = (term, polarity)
    return decided


def _quotes(inputs: Mapping[str, Any], text: str) -> dict[str, str]:
    quotes: dict[str, str] = {}
    for item in reading.items(_summary(inputs).get("aspect_evidence")):
        quoted = reading.word(item.get("evidence"))
        if quoted and quoted in text:
            quotes.setdefault(key(reading.word(item.get("aspect_ref"))), quoted)
    return quotes


def _hints(inputs: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Weight of the debate's hints: aspect key -> polarity or `drop` -> weight."""
    context = reading.mapping(inputs.get("review_context"))
    weights: dict[str, dict[str, float]] = {}
    for term, hints in reading.mapping(context.get("aspect_hints")).items():
        own = weights.setdefault(key(reading.word(term)), {})
        for hint in reading.items(hints):
            weight = reading.number(hint.get("weight"), 0.0)
            polarity = reading.polarity(hint.get("polarity_hint"))
            name = "drop" if hint.get("op") == "drop_tuple" else polarity
            if name:
                own[name] = own.get(name, 0.0) + weight
    return weights


def ate_review(analysis: Analysis, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what stands in the text, drop what the debate dropped, add what it found."""
    hints, decided = _hints(inputs), _debated(inputs)
    quotes = _quotes(inputs, analysis.text)
    reviews: list[dict[str, Any]] = []
    known: set[str] = set()
    for term in reading.terms(inputs.get("stage1_ate")):
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


def atsa_review(analysis: Analysis, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Maintain, or follow the debate where the text itself bears it out."""
    stage1 = reading.mapping(inputs.get("stage1_atsa"))
    hints, decided = _hints(inputs), _debated(inputs)
    quotes = _quotes(inputs, analysis.text)
    reviews: list[dict[str, Any]] = []
    known: set[str] = set()
    for item in reading.sentiments(stage1):
        term, polarity = item["aspect_term"], str(reading.polarity(item["polarity"]))
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
            action = "add" if item.get("is_backfilled") else "flip_polarity"
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
            item.get("is_backfilled")
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
                    "confidence": reading.number(item.get("confidence")),
                    "evidence": quoted or reading.word(item.get("evidence")),
                }
            )
    for own, (term, polarity) in decided.items():
        if own in known or hints.get(own, {}).get(polarity, 0.0) < _HEARD:
            continue
        if term not in analysis.text or not quotes.get(own):
            continue
        finding = lookup.find(analysis, term)
        reviews.append(
            {
                "aspect_ref": term,
                "action": "add",
                "revised_polarity": polarity,
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


def validator_review(analysis: Analysis, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The risks of Stage 1 that no review has answered."""
    stage1 = reading.mapping(inputs.get("stage1_validator"))
    answered: list[tuple[int, int]] = []
    gone: set[str] = set()
    sentiment_reviews = reading.mapping(inputs.get("atsa_review")).get("sentiment_review")
    aspect_reviews = reading.mapping(inputs.get("ate_review")).get("aspect_review")
    for review in reading.items(sentiment_reviews):
        quoted = reading.word(review.get("evidence"))
        at = analysis.text.find(quoted) if quoted else -1
        if at >= 0 and review.get("action") in ("flip_polarity", "add"):
            answered.append((at, at + len(quoted)))
        if review.get("action") in ("flip_polarity", "add", "drop"):
            gone.add(key(reading.word(review.get("aspect_ref"))))
    for review in reading.items(aspect_reviews):
        if review.get("action") in ("drop", "revise_span"):
            gone.add(key(reading.word(review.get("term"))))
        elif review.get("action") == "add":
            gone.add("+")
    remaining = []
    for risk in reading.items(stage1.get("structural_risks")):
        place = reading.mapping(risk.get("span"))
        start, end = place.get("start"), place.get("end")
        if isinstance(start, int) and isinstance(end, int):
            if key(analysis.text[max(0, start) : max(0, end)]) in gone:
                continue
            if any(first < end and start < last for first, last in answered):
                continue
        if risk.get("type") == "MISSING_SECOND_ASPECT" and "+" in gone:
            continue
        remaining.append(dict(risk))
    answer: dict[str, Any] = {"structural_risks": remaining, "correction_proposals": []}
    for name in ("suggested_label", "confidence"):
        if stage1.get(name) is not None:
            answer[name] = stage1[name]
    return answer
