"""`apply_reviews`: applies the Validator's proposals and the reviews to a copy of Stage 1.

They are applied in this order, with one log entry each:

| who         | action          | effect                                                       |
|-------------|-----------------|--------------------------------------------------------------|
| validator   | `FLIP_POLARITY` | positive and negative swapped; a neutral stays               |
|             | `DROP_ASPECT`   | aspect and sentiments removed                                |
|             | `REVISE_SPAN`   | another span, and so another term                            |
| ate_review  | `revise_span`   | as above                                                     |
|             | `drop`          | as above                                                     |
|             | `add`           | a new aspect; its unanchored sentiments, or a backfilled one |
| atsa_review | `flip_polarity` | to `revised_polarity`, else the opposite                     |
|             | `drop`          | the sentiments only                                          |
|             | `add`           | if there is none, or instead of a backfilled one             |
| debate      | `set_category`  | another category, if one speaker asked for the judge's       |

`keep` and `maintain` are not corrections. An action without an effect is marked as not applied, so
that every applied entry is visible in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from absa.nodes.board import DEFAULT_CONFIDENCE, Board, backfilled
from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.language import language
from absa.nodes.polarity import OPPOSITE, PolarityCounter, exact
from absa.nodes.review_context import JUDGE, Mentions, mentions_of, provenance
from absa.nodes.text import locate, piece
from absa.schemas.answers import SET_CATEGORY, AspectReview, Edit, Proposal, SentimentReview, Span
from absa.schemas.records import Correction, Sentiment, Turn
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import ApplyUpdate, State

NOT_CORRECTIONS = ("keep", "maintain")
# Reasons why an action was not applied.
NO_CHANGE = "no_change"
TARGET_NOT_FOUND = "target_not_found"
NOT_IN_TEXT = "not_in_text"
NEUTRAL_FLIP = "neutral_flip"
SPAN_NOT_IN_TEXT = "span_not_in_text"
INVALID_POLARITY = "invalid_polarity"
HAS_SENTIMENT = "has_sentiment"
UNKNOWN_ACTION = "unknown_action"
ASPECT_GIVEN = "aspect_given"
INVALID_CATEGORY = "invalid_category"
# Only the judge asked for it.
NOT_SECONDED = "not_seconded"
_CHANGES_ASPECTS = {
    ("validator", "DROP_ASPECT"),
    ("validator", "REVISE_SPAN"),
    ("ate_review", "revise_span"),
    ("ate_review", "drop"),
    ("ate_review", "add"),
    ("atsa_review", "drop"),
}

# An action changes the board and returns the changed key, or returns the reason why it could not.
Outcome = tuple[str, None] | tuple[None, str]


def apply_reviews(state: State, pipeline: PipelineSettings) -> ApplyUpdate:
    """Apply the reviews to a copy of Stage 1."""
    has_given_aspects = state.get("given_aspects") is not None
    board = Board(
        state["stage1_result"], state["text"], language(state["lang"]), given=has_given_aspects
    )
    counter = PolarityCounter(categories_of(pipeline))
    log: list[Correction] = []
    for proposal in state["stage1_validation"].correction_proposals:
        log.append(apply_proposal(board, proposal))
    for review in state["ate_reviews"].aspect_review:
        if review.action not in NOT_CORRECTIONS:
            log.append(apply_aspect_review(board, review, counter))
    for opinion in state["atsa_reviews"].sentiment_review:
        if opinion.action not in NOT_CORRECTIONS:
            log.append(apply_sentiment_review(board, opinion, counter))
    if counter.categories is not None and state["judge_answer"] is not None:
        patch, turns = state["judge_answer"].final_patch, state["turns"]
        mentions = Mentions(state["stage1_result"], board.lang)
        for edit in patch:
            if edit.op == SET_CATEGORY:
                log.append(apply_category(board, edit, turns, mentions, counter.categories))
    if (validation := state["stage2_validation"]) is not None:
        counter.label(validation.suggested_label)
    counts = {**state["counts"], "stage2": counter.counts()}
    return {"patched_result": board.result(), "corrections": log, "counts": counts}


def apply_proposal(board: Board, proposal: Proposal) -> Correction:
    """Apply one proposal of the Validator."""

    def act(key: str) -> Outcome:
        match proposal.proposal_type:
            case "FLIP_POLARITY":
                return _flip(board, key, None)
            case "DROP_ASPECT":
                return _drop_aspect(board, key)
            case "REVISE_SPAN":
                return _revise_span(board, key, proposal.revised_span)
        return None, UNKNOWN_ACTION

    action, target = proposal.proposal_type, proposal.target_aspect
    return _logged(board, "validator", action, target, proposal.rationale, None, act)


def apply_category(
    board: Board, edit: Edit, turns: Sequence[Turn], mentions: Mentions, categories: CategorySet
) -> Correction:
    """Apply the judge's category, if a speaker asked for the same."""
    target, category = mentions.first(mentions_of(edit))[0], categories.find(edit.value)
    seconders = dict.fromkeys(
        turn.speaker
        for turn in turns
        for other in getattr(turn.answer, "proposed_edits", ())
        if other.op == SET_CATEGORY
        and categories.find(other.value) == category
        and (meant := mentions.first(mentions_of(other))[0]) is not None
        and target is not None
        and board.lang.key(meant) == board.lang.key(target)
    )

    def act(key: str) -> Outcome:
        if category is None:
            return None, INVALID_CATEGORY
        if target is None or key not in board.aspects or not board.aspects[key].sentiments:
            return None, TARGET_NOT_FOUND
        if not seconders:
            return None, NOT_SECONDED
        return board.set_category(key, category, exact(edit.target.polarity)), None

    sources = ", ".join(provenance(speaker) for speaker in (*seconders, JUDGE))
    return _logged(board, "debate", SET_CATEGORY, target, None, sources, act)


def apply_aspect_review(
    board: Board, review: AspectReview, counter: PolarityCounter | None = None
) -> Correction:
    """Apply one review of ATE."""

    def act(key: str) -> Outcome:
        match review.action:
            case "revise_span":
                return _revise_span(board, key, review.revised_span)
            case "drop":
                return _drop_aspect(board, key)
            case "add":
                category = counter.category(review.category) if counter else None
                return _add_aspect(board, key, review, category)
        return None, UNKNOWN_ACTION

    source = review.provenance
    return _logged(board, "ate_review", review.action, review.term, review.reason, source, act)


def apply_sentiment_review(
    board: Board, review: SentimentReview, counter: PolarityCounter
) -> Correction:
    """Apply one review of ATSA."""
    revised = review.revised_polarity
    polarity = counter.read(revised) if revised is not None else None

    def act(key: str) -> Outcome:
        if revised is not None and polarity is None:
            return None, INVALID_POLARITY
        match review.action:
            case "flip_polarity":
                return _flip(board, key, polarity, review)
            case "drop":
                return _drop_sentiments(board, key)
            case "add":
                category = counter.category(review.category)
                return _add_sentiment(board, key, polarity, review, category)
        return None, UNKNOWN_ACTION

    action, target, source = review.action, review.aspect_ref, review.provenance
    return _logged(board, "atsa_review", action, target, review.reason, source, act)


def _logged(
    board: Board,
    source: str,
    action: str,
    target: str | None,
    reason: str | None,
    provenance: str | None,
    act: Callable[[str], Outcome],
) -> Correction:
    """Run an action and log the actual change."""
    key = board.resolve(target)
    before, saved = board.snapshot(key), board.saved()
    # Given aspects cannot be added, dropped or renamed.
    keeps_aspects = board.given and (source, action) in _CHANGES_ASPECTS
    new_key, refused = (None, ASPECT_GIVEN) if keeps_aspects else act(key)
    after = board.snapshot(new_key) if new_key is not None else before
    if refused is None and _face(before) == _face(after):
        board.restore(saved)
        after, refused = before, NO_CHANGE
    return Correction(
        source=source,
        proposal_type=action,
        target_aspect=target,
        applied=refused is None,
        reason=reason if refused is None else refused,
        before=before,
        after=after,
        provenance=provenance,
    )


def _face(snapshot: dict[str, Any] | None) -> Any:
    """What must differ for a change to be visible: a tuple (with category), span or confidence."""
    if snapshot is None:
        return None
    sentiments = sorted(
        (s["polarity"], s["confidence"], s.get("category") or "") for s in snapshot["sentiments"]
    )
    return snapshot["aspect_term"], snapshot["span"], sentiments


def _flip(board: Board, key: str, to: str | None, review: SentimentReview | None = None) -> Outcome:
    """Flip an aspect. Confidence and evidence stay unless the review gives new ones."""
    aspect = board.aspects.get(key)
    if aspect is None or not aspect.sentiments:
        return None, TARGET_NOT_FOUND
    targets = [to or OPPOSITE.get(s.polarity, s.polarity) for s in aspect.sentiments]
    if all(new == s.polarity for new, s in zip(targets, aspect.sentiments, strict=True)):
        return None, NO_CHANGE if to else NEUTRAL_FLIP
    changes: dict[str, Any] = {"is_backfilled": False}
    if review is not None and review.confidence is not None:
        changes["confidence"] = review.confidence
    if review is not None and review.evidence:
        changes["evidence"] = review.evidence
    flipped = [
        s if s.polarity == new else s.model_copy(update={**changes, "polarity": new})
        for s, new in zip(aspect.sentiments, targets, strict=True)
    ]
    board.put(key, flipped)
    return key, None


def _drop_aspect(board: Board, key: str) -> Outcome:
    if key not in board.aspects:
        return None, TARGET_NOT_FOUND
    board.drop_aspect(key)
    return key, None


def _drop_sentiments(board: Board, key: str) -> Outcome:
    if key not in board.aspects or not board.aspects[key].sentiments:
        return None, TARGET_NOT_FOUND
    board.put(key, ())
    return key, None


def _revise_span(board: Board, key: str, revised: Span | str | None) -> Outcome:
    if key not in board.aspects:
        return None, TARGET_NOT_FOUND
    span = locate(board.text, revised) if isinstance(revised, str) else revised
    term = piece(board.text, span) if span is not None else None
    if span is None or not term or not board.lang.key(term):
        return None, SPAN_NOT_IN_TEXT
    return board.revise_span(key, span), None


def _add_aspect(board: Board, key: str, review: AspectReview, category: str | None) -> Outcome:
    if key in board.aspects:
        return None, NO_CHANGE
    term = board.lang.strip_particle(review.term or "")
    if not board.lang.key(term) or term not in board.text:
        return None, NOT_IN_TEXT
    span = review.revised_span if isinstance(review.revised_span, Span) else None
    new_key = board.add_aspect(term, span)
    board.put(new_key, board.take_unanchored(new_key) or [backfilled(category)])
    return new_key, None


def _add_sentiment(
    board: Board, key: str, polarity: str | None, review: SentimentReview, category: str | None
) -> Outcome:
    aspect = board.aspects.get(key)
    if aspect is None:
        return None, TARGET_NOT_FOUND
    kept = [s for s in aspect.sentiments if not s.is_backfilled]
    if aspect.sentiments and len(kept) == len(aspect.sentiments):
        return None, HAS_SENTIMENT
    if polarity is None:
        return None, INVALID_POLARITY
    confidence = DEFAULT_CONFIDENCE if review.confidence is None else review.confidence
    added = Sentiment(
        polarity=polarity,
        confidence=confidence,
        evidence=review.evidence,
        category=category or aspect.category,
    )
    board.put(key, [*kept, added])
    return key, None
