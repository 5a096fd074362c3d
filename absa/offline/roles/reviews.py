"""The reviewers of the second stage: keep, revise, drop or add; never a full list."""

from __future__ import annotations

from typing import Any

from absa.offline.roles.inputs import DebateContext, ReviewInputs, ValidatorReviewInputs, canonical
from absa.offline.roles.lookup import key
from absa.offline.roles.verdicts import mention, quote
from absa.offline.text.annotations import NEUTRAL, Analysis
from absa.schemas.answers import L3_RISKS
from absa.schemas.settings import OverrideSettings

#: Weight of hints on one side that a reviewer follows.
_HEARD = 0.8
#: A correction that reaches these thresholds by itself is the override gate's, not a reviewer's.
_GATE = OverrideSettings()
_DEFAULT = 0.6


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
    seen: set[str] = set()
    for term in inputs.stage1_ate.terms:
        own = key(term)
        seen.add(own)
        weights = hints.get(own, {})
        spoken_for = sum(weight for name, weight in weights.items() if name != "drop")
        if (
            weights.get("drop", 0.0) >= _HEARD
            and weights["drop"] > spoken_for
            and own not in decided
        ):
            reviews.append(
                {"term": term, "action": "drop", "reason": "the debate found no ground for it"}
            )
            continue
        reviews.append({"term": term, "action": "keep"})
    for own, (term, polarity) in decided.items():
        at = analysis.text.find(term)
        if own in seen or at < 0 or hints.get(own, {}).get(polarity, 0.0) < _HEARD:
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


def _sure(context: DebateContext) -> dict[str, float]:
    """How sure the judge is of each aspect: the last hint is the judge's."""
    return {
        key(term): hints[-1].confidence if hints[-1].confidence is not None else _DEFAULT
        for term, hints in context.aspect_hints.items()
        if hints
    }


def _override(inputs: ReviewInputs, context: DebateContext, text: str) -> str | None:
    """The aspect whose correction is left to the override gate, if there is one.

    It is the first that the debate corrects with the weight and the certainty that the gate asks
    for. A risk of negation, contrast or irony closes the gate.
    """
    if any(risk.type in L3_RISKS for risk in inputs.stage1_validator.structural_risks):
        return None
    proposed = {
        key(each.target_aspect or "") for each in inputs.stage1_validator.correction_proposals
    }
    before = {key(i.aspect_term): i for i in inputs.stage1_atsa.sentiments if not i.is_implicit}
    hints, sure, quotes = _hints(context), _sure(context), _quotes(context, text)
    for own, (_, polarity) in _debated(context).items():
        item, said = before.get(own), hints.get(own, {})
        if item is None or item.polarity == polarity or polarity == NEUTRAL or own in proposed:
            continue
        total = said.get("positive", 0.0) + said.get("negative", 0.0)
        margin = 2 * said.get(polarity, 0.0) - total
        if (
            total >= _GATE.min_total
            and margin >= _GATE.min_margin
            and sure.get(own, 0.0) >= _GATE.min_target_conf
            and len(quotes.get(own, "")) > 1
        ):
            return own
    return None


def atsa_review(analysis: Analysis, inputs: ReviewInputs) -> dict[str, Any]:
    """Maintain, or follow the debate; the correction it is surest of is the override gate's."""
    context = inputs.review_context or DebateContext()
    hints, decided, quotes = _hints(context), _debated(context), _quotes(context, analysis.text)
    sure = _sure(context)
    overridden = _override(inputs, context, analysis.text)
    reviews: list[dict[str, Any]] = []
    seen_keys: set[str] = set()
    for item in inputs.stage1_atsa.sentiments:
        term, polarity = item.aspect_term, item.polarity
        own = key(term)
        if own in seen_keys:
            continue
        seen_keys.add(own)
        verdict = decided.get(own, (term, polarity))[1]
        finding = mention(analysis, term)
        quoted = quotes.get(own, "")
        if not quoted and finding is not None and finding.verdict == verdict:
            quoted = quote(analysis, finding, verdict)
        heard = hints.get(own, {}).get(verdict, 0.0)
        if verdict != polarity and heard >= _HEARD and own != overridden:
            reviews.append(
                {
                    "aspect_ref": term,
                    "action": "add" if item.is_backfilled else "flip_polarity",
                    "revised_polarity": verdict,
                    "confidence": sure.get(own, _DEFAULT),
                    "evidence": quoted,
                    "reason": "the words about it say so, and so did the debate",
                }
            )
        elif (
            item.is_backfilled
            and own not in decided
            and finding is not None
            and finding.verdict not in (None, NEUTRAL)
        ):
            reviews.append(
                {
                    "aspect_ref": term,
                    "action": "add",
                    "revised_polarity": finding.verdict,
                    "confidence": round(max(finding.likely), 3),
                    "evidence": quote(analysis, finding, str(finding.verdict)),
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
        if own in seen_keys or hints.get(own, {}).get(verdict, 0.0) < _HEARD:
            continue
        if term not in analysis.text or not quotes.get(own):
            continue
        reviews.append(
            {
                "aspect_ref": term,
                "action": "add",
                "revised_polarity": verdict,
                "confidence": sure.get(own, _DEFAULT),
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
    """The risks of Stage 1 that neither a proposal nor a review has answered."""
    answered: list[tuple[int, int]] = []
    gone: set[str] = set()
    for review in inputs.atsa_review.sentiment_review:
        quoted = review.evidence or ""
        at = analysis.text.find(quoted) if quoted else -1
        if at >= 0 and review.action in ("flip_polarity", "add"):
            answered.append((at, at + len(quoted)))
        if review.action in ("flip_polarity", "add", "drop"):
            gone.add(key(review.aspect_ref or ""))
    for proposal in inputs.stage1_validator.correction_proposals:
        gone.add(key(proposal.target_aspect or ""))
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
