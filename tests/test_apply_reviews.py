"""Proposals and reviews on a copy of Stage 1: every action, and every reason not to act."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    all_say,
    aspect,
    ate,
    ate_review,
    atsa,
    atsa_review,
    board,
    decide,
    felt,
    judge,
    pairs,
    pipeline,
    polarities,
    propose,
    said,
    validator,
)

from absa.nodes.apply_reviews import apply_aspect_review, apply_proposal, apply_sentiment_review
from absa.nodes.board import Board, backfilled
from absa.nodes.polarity import PolarityCounter
from absa.schemas.answers import AspectReview, Proposal, SentimentReview
from absa.schemas.records import Correction, Unanchored

TEXT = "배터리 가격이 비싸고 맛은 좋아요."
PRICE, TASTE = {"start": 4, "end": 6}, {"start": 12, "end": 13}


def laid_out(*, unanchored: tuple[Unanchored, ...] = ()) -> Board:
    """가격 negative, 맛 positive, 배터리 backfilled."""
    return board(
        TEXT,
        aspect(TEXT, "가격", felt("negative", 0.9, "비싸고")),
        aspect(TEXT, "맛", felt("positive", 0.8, "좋아요")),
        aspect(TEXT, "배터리", backfilled()),
        unanchored=unanchored,
    )


def proposed(on: Board, kind: str, target: str | None, revised_span: Any = None) -> Correction:
    return apply_proposal(on, Proposal.model_validate(propose(kind, target, revised_span)))


def reviewed(on: Board, term: str | None, action: str, revised_span: Any = None) -> Correction:
    review = {"term": term, "action": action, "revised_span": revised_span, "reason": "so"}
    return apply_aspect_review(on, AspectReview.model_validate(review))


def opined(on: Board, aspect_ref: str | None, action: str, **more: Any) -> Correction:
    review = {"aspect_ref": aspect_ref, "action": action, "reason": "so", **more}
    return apply_sentiment_review(on, SentimentReview.model_validate(review), PolarityCounter())


def unanchored(term: str, polarity: str = "positive") -> Unanchored:
    return Unanchored(aspect_term=term, polarity=polarity, confidence=0.6, evidence="좋아요")


# Applied -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "flipped"), [("가격", ("가격", "positive")), ("맛은", ("맛", "negative"))]
)
def test_a_flip_proposal_swaps_positive_and_negative(target, flipped):
    on = laid_out()
    entry = proposed(on, "FLIP_POLARITY", target)
    assert entry.applied and entry.source == "validator"
    assert (entry.proposal_type, entry.reason) == ("FLIP_POLARITY", "said the Validator")
    assert polarities(on.result())[flipped[0]] == [flipped[1]]


def test_a_flip_proposal_leaves_the_neutral_of_an_aspect_alone():
    on = board(TEXT, aspect(TEXT, "가격", felt("negative"), felt("neutral")))
    assert proposed(on, "FLIP_POLARITY", "가격").applied
    assert polarities(on.result()) == {"가격": ["positive", "neutral"]}


@pytest.mark.parametrize("who", ["validator", "ate_review"])
def test_a_drop_removes_the_aspect_and_its_sentiments(who):
    on = laid_out()
    if who == "validator":
        entry = proposed(on, "DROP_ASPECT", "가격")
    else:
        entry = reviewed(on, "가격", "drop")
    assert entry.applied and entry.source == who and entry.after is None
    assert polarities(on.result()) == {"맛": ["positive"], "배터리": ["neutral"]}


@pytest.mark.parametrize(
    "revised", [{"start": 0, "end": 6}, [0, 6], "배터리 가격"], ids=["object", "list", "words"]
)
@pytest.mark.parametrize("who", ["validator", "ate_review"])
def test_a_revised_span_renames_the_aspect_and_its_sentiments_follow(who, revised):
    on = laid_out()
    if who == "validator":
        entry = proposed(on, "REVISE_SPAN", "가격", revised)
    else:
        entry = reviewed(on, "가격", "revise_span", revised)
    assert entry.applied and entry.source == who
    assert entry.before is not None and entry.before["aspect_term"] == "가격"
    assert entry.after is not None
    assert (entry.after["aspect_term"], entry.after["span"]) == (
        "배터리 가격",
        {"start": 0, "end": 6},
    )
    assert list(polarities(on.result()).items())[0] == ("배터리 가격", ["negative"])
    # The old name still finds it, and so does the new one.
    assert on.find("가격") is on.find("배터리 가격이") is not None


def test_a_span_may_move_to_another_occurrence_of_the_same_term():
    text = "맛, 맛은 좋아요"
    on = board(text, aspect(text, "맛", felt("positive")))
    entry = reviewed(on, "맛", "revise_span", [3, 4])
    assert entry.applied
    assert on.find("맛").span.start == 3
    assert on.result().renamed == {}


def test_a_span_revised_onto_another_aspect_merges_the_two():
    on = laid_out()
    entry = reviewed(on, "가격", "revise_span", TASTE)
    assert entry.applied
    assert polarities(on.result()) == {"맛": ["positive", "negative"], "배터리": ["neutral"]}
    merged = on.find("가격")
    assert merged is on.find("맛") and merged.term == "맛"
    assert merged.span.model_dump() == TASTE


def test_a_merge_keeps_term_and_span_of_the_existing_aspect_even_if_spelt_otherwise():
    on = laid_out()
    entry = reviewed(on, "가격", "revise_span", [12, 14])  # 맛은: the key of 맛
    assert entry.applied
    assert (on.find("가격").term, on.find("가격").span.model_dump()) == ("맛", TASTE)


def test_renames_are_followed_through_chains_and_back():
    on = laid_out()
    assert reviewed(on, "가격", "revise_span", [0, 6]).applied  # 배터리 가격
    assert reviewed(on, "가격", "revise_span", "비싸고").applied
    assert on.find("가격") is on.find("배터리 가격") is on.find("비싸고")
    assert reviewed(on, "배터리 가격", "revise_span", PRICE).applied
    assert on.find("가격").term == "가격"
    assert on.find("비싸고") is on.find("가격")
    assert polarities(on.result())["가격"] == ["negative"]


def test_two_aspects_may_trade_places():
    on = laid_out()
    assert reviewed(on, "가격", "revise_span", "비싸고").applied
    assert reviewed(on, "맛", "revise_span", PRICE).applied
    assert reviewed(on, "비싸고", "revise_span", TASTE).applied
    assert polarities(on.result()) == {
        "맛": ["negative"],
        "가격": ["positive"],
        "배터리": ["neutral"],
    }


def test_an_added_aspect_takes_its_unanchored_sentiments():
    on = laid_out(unanchored=(unanchored("비싸고"), unanchored("비싸고", "negative")))
    on.drop_aspect("가격")
    entry = reviewed(on, "비싸고", "add")
    assert entry.applied and entry.before is None
    assert polarities(on.result())["비싸고"] == ["positive", "negative"]
    assert on.unanchored == []


def test_an_added_aspect_without_a_sentiment_is_backfilled_and_leaves_other_unanchored_ones():
    on = laid_out(unanchored=(unanchored("배송"),))
    entry = reviewed(on, "좋아요", "add")
    assert entry.applied
    assert on.find("좋아요").sentiments == (backfilled(),)
    assert len(on.unanchored) == 1


def test_an_added_aspect_loses_its_particle_and_is_located():
    on = board(TEXT)
    assert reviewed(on, "가격이", "add").applied
    (only,) = on.result().aspects
    assert (only.term, only.span.model_dump()) == ("가격", PRICE)


@pytest.mark.parametrize(
    ("target", "polarity", "expected"),
    [
        ("가격", None, "positive"),
        ("맛", None, "negative"),
        ("가격", "neutral", "neutral"),
        ("배터리", "positive", "positive"),
        ("가격", "POS", "positive"),
        ("가격", "positve", "positive"),
    ],
    ids=["opposite", "opposite", "to neutral", "from neutral", "short", "misspelt: repaired"],
)
def test_a_flip_goes_to_the_revised_polarity_else_to_the_opposite(target, polarity, expected):
    on = laid_out()
    entry = opined(on, target, "flip_polarity", revised_polarity=polarity)
    assert entry.applied and entry.source == "atsa_review"
    assert polarities(on.result())[target] == [expected]


def test_a_flip_keeps_confidence_and_evidence():
    on = laid_out()
    opined(on, "가격", "flip_polarity")
    (only,) = on.find("가격").sentiments
    assert (only.confidence, only.evidence) == (0.9, "비싸고")


def test_a_flip_takes_the_confidence_and_evidence_that_the_review_gives():
    on = laid_out()
    opined(on, "가격", "flip_polarity", confidence=0.0, evidence="좋아요")
    (only,) = on.find("가격").sentiments
    assert (only.confidence, only.evidence) == (0.0, "좋아요")


def test_a_flip_with_a_target_changes_only_the_sentiments_that_differ():
    on = board(TEXT, aspect(TEXT, "가격", felt("positive", 0.4, "a"), felt("negative", 0.9, "b")))
    entry = opined(on, "가격", "flip_polarity", revised_polarity="negative", confidence=0.7)
    assert entry.applied
    assert [(s.polarity, s.confidence) for s in on.find("가격").sentiments] == [
        ("negative", 0.7),
        ("negative", 0.9),
    ]


def test_a_flipped_backfill_is_no_backfill_any_more():
    on = laid_out()
    opined(on, "배터리", "flip_polarity", revised_polarity="negative")
    assert not on.find("배터리").sentiments[0].is_backfilled


def test_a_dropped_sentiment_leaves_its_aspect():
    on = laid_out()
    entry = opined(on, "가격", "drop")
    assert entry.applied
    assert polarities(on.result())["가격"] == []


@pytest.mark.parametrize("emptied", [False, True], ids=["in place of a backfill", "where none is"])
def test_a_sentiment_can_be_added(emptied):
    on = laid_out()
    if emptied:
        opined(on, "배터리", "drop")
    entry = opined(on, "배터리", "add", revised_polarity="negative", evidence="비싸고")
    assert entry.applied
    (only,) = on.find("배터리").sentiments
    assert (only.polarity, only.confidence, only.evidence) == ("negative", 0.5, "비싸고")
    assert not only.is_backfilled


def test_an_added_sentiment_keeps_the_confidence_it_comes_with():
    on = laid_out()
    opined(on, "배터리", "add", revised_polarity="negative", confidence=0.0)
    assert on.find("배터리").sentiments[0].confidence == 0.0


# Not applied -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "target", "span", "reason"),
    [
        ("FLIP_POLARITY", "배송", None, "target_not_found"),
        ("FLIP_POLARITY", None, None, "target_not_found"),
        ("FLIP_POLARITY", "배터리", None, "neutral_flip"),
        ("DROP_ASPECT", "배송", None, "target_not_found"),
        ("REVISE_SPAN", "배송", [0, 2], "target_not_found"),
        ("REVISE_SPAN", "가격", None, "span_not_in_text"),
        ("REVISE_SPAN", "가격", [0, 99], "span_not_in_text"),
        ("REVISE_SPAN", "가격", [-1, 2], "span_not_in_text"),
        ("REVISE_SPAN", "가격", [4, 4], "span_not_in_text"),
        ("REVISE_SPAN", "가격", [3, 4], "span_not_in_text"),
        ("REVISE_SPAN", "가격", "배송", "span_not_in_text"),
        ("REVISE_SPAN", "가격", "", "span_not_in_text"),
        ("REVISE_SPAN", "가격", [4, 6], "no_change"),
        ("EXPLODE", "가격", None, "unknown_action"),
    ],
)
def test_a_proposal_that_cannot_be_carried_out_says_why(kind, target, span, reason):
    on, untouched = laid_out(), laid_out()
    entry = proposed(on, kind, target, span)
    assert (entry.applied, entry.reason, entry.target_aspect) == (False, reason, target)
    assert entry.before == entry.after
    assert on.result() == untouched.result()


@pytest.mark.parametrize(
    ("term", "action", "span", "reason"),
    [
        ("배송", "drop", None, "target_not_found"),
        (None, "drop", None, "target_not_found"),
        ("배송", "revise_span", [0, 2], "target_not_found"),
        ("가격", "revise_span", [90, 99], "span_not_in_text"),
        ("가격", "revise_span", None, "span_not_in_text"),
        ("가격", "revise_span", [4, 6], "no_change"),
        ("가격은", "add", None, "no_change"),
        ("배송", "add", None, "not_in_text"),
        ("", "add", None, "not_in_text"),
        (".", "add", None, "not_in_text"),
        (None, "add", None, "not_in_text"),
        ("가격", "explode", None, "unknown_action"),
    ],
)
def test_an_aspect_review_that_cannot_be_carried_out_says_why(term, action, span, reason):
    on, untouched = laid_out(), laid_out()
    entry = reviewed(on, term, action, span)
    assert (entry.applied, entry.reason) == (False, reason)
    assert entry.before == entry.after
    assert on.result() == untouched.result()


@pytest.mark.parametrize(
    ("target", "action", "polarity", "reason"),
    [
        ("배송", "flip_polarity", "positive", "target_not_found"),
        ("가격", "flip_polarity", "negative", "no_change"),
        ("배터리", "flip_polarity", None, "neutral_flip"),
        ("배터리", "flip_polarity", "neutral", "no_change"),
        ("가격", "flip_polarity", "bad", "invalid_polarity"),
        ("배송", "drop", None, "target_not_found"),
        ("배송", "add", "positive", "target_not_found"),
        ("가격", "add", "positive", "has_sentiment"),
        ("배터리", "add", None, "invalid_polarity"),
        ("배터리", "add", "bad", "invalid_polarity"),
        ("가격", "explode", None, "unknown_action"),
    ],
)
def test_a_sentiment_review_that_cannot_be_carried_out_says_why(target, action, polarity, reason):
    on, untouched = laid_out(), laid_out()
    entry = opined(on, target, action, revised_polarity=polarity)
    assert (entry.applied, entry.reason) == (False, reason)
    assert entry.before == entry.after
    assert on.result() == untouched.result()


def test_sentiments_cannot_be_dropped_twice_nor_flipped_when_gone():
    on = laid_out()
    assert opined(on, "가격", "drop").applied
    assert opined(on, "가격", "drop").reason == "target_not_found"
    assert opined(on, "가격", "flip_polarity").reason == "target_not_found"


@pytest.mark.parametrize("case", ["backfill replaced by its like", "two polarities swapped"])
def test_an_action_that_is_not_applied_leaves_no_trace(case):
    if case == "backfill replaced by its like":
        on, untouched = laid_out(), laid_out()
        entry = opined(
            on, "배터리", "add", revised_polarity="neutral", confidence=0.3, evidence="비싸고"
        )
    else:
        both = aspect(
            TEXT, "가격", felt("positive", 0.5, "좋아요"), felt("negative", 0.5, "비싸고")
        )
        on, untouched = board(TEXT, both), board(TEXT, both)
        entry = proposed(on, "FLIP_POLARITY", "가격")
    assert not entry.applied
    assert on.result() == untouched.result()


# In the graph ------------------------------------------------------------------------------------


def test_keep_and_maintain_are_no_corrections():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸요", 0.9)),
            ate_review=ate_review(("가격", "keep")),
            atsa_review=atsa_review(("가격", "maintain")),
        ),
    )
    assert out.meta.correction_applied_log == ()


def test_validator_then_ate_then_atsa_each_on_what_the_one_before_left():
    out = decide(
        TEXT,
        said(
            ate=ate("가격", "맛"),
            atsa=atsa(("가격", "negative", "비싸고", 0.9), ("맛", "positive", "좋아요", 0.9)),
            validator=validator(proposals=[propose("FLIP_POLARITY", "가격")]),
            ate_review=ate_review(("가격", "revise_span", "배터리 가격"), ("맛", "drop")),
            atsa_review=atsa_review(("가격", "flip_polarity", "neutral"), ("맛", "drop")),
        ),
    )
    log = [
        (c.source, c.proposal_type, c.applied, c.reason) for c in out.meta.correction_applied_log
    ]
    assert log == [
        ("validator", "FLIP_POLARITY", True, "said the Validator"),
        ("ate_review", "revise_span", True, None),
        ("ate_review", "drop", True, None),
        ("atsa_review", "flip_polarity", True, None),
        ("atsa_review", "drop", False, "target_not_found"),
    ]
    assert pairs(out.final_result.stage2_tuples) == {("배터리 가격", "neutral")}
    assert out.patched_stage2_ate.model_dump(mode="json")["aspects"] == [
        {
            "term": "배터리 가격",
            "category": None,
            "span": {"start": 0, "end": 6},
            "confidence": 0.9,
        }
    ]
    assert out.patched_stage2_atsa.model_dump(mode="json") == {
        "aspect_sentiments": [
            {
                "aspect_ref": "배터리 가격",
                "polarity": "neutral",
                "category": None,
                "opinion_term": None,
                "evidence": "비싸고",
                "confidence": 0.9,
                "is_implicit": False,
                "is_backfilled": False,
            }
        ],
        "unanchored": [],
    }


def test_a_sentiment_without_an_aspect_stays_apart_in_the_patched_result():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸요", 0.9), ("맛", "positive", "좋아요", 0.4)),
        ),
    )
    assert [s.aspect_ref for s in out.patched_stage2_atsa.aspect_sentiments] == ["가격"]
    assert [s.aspect_ref for s in out.patched_stage2_atsa.unanchored] == ["맛"]
    assert [a.term for a in out.patched_stage2_ate.aspects] == ["가격"]


def test_without_stage2_there_is_no_patched_result():
    out = decide("가격이 비싸요.", said(ate=ate("가격")), pipeline(enable_stage2=False))
    assert out.patched_stage2_ate is out.patched_stage2_atsa is None


def test_the_second_validators_proposals_are_not_applied():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸요", 0.9)),
            validator_review=validator(proposals=[propose("DROP_ASPECT", "가격")]),
        ),
    )
    assert out.meta.correction_applied_log == ()


def test_stage1_stays_what_it_was():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸요", 0.9)),
            ate_review=ate_review(("가격", "drop")),
        ),
    )
    assert pairs(out.final_result.stage1_tuples) == {("가격", "negative")}
    assert pairs(out.final_result.stage2_tuples) == set()


def test_what_the_debate_says_under_the_old_name_counts_for_the_renamed_aspect():
    out = decide(
        TEXT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "positive", "비싸고", 0.6)),
            **all_say("가격", "negative"),
            judge=judge(spans=["비싸고"], tuples=[("가격", "negative")]),
            ate_review=ate_review(("가격", "revise_span", "배터리 가격")),
        ),
        lang="ko",
    )
    (record,) = out.meta.override_gate
    assert (record.aspect, record.verdict) == ("배터리 가격", "low_signal")  # 1.5 < 1.6
