"""What the debate said, as weighted hints per aspect."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    aspect,
    ate,
    ate_review,
    atsa,
    atsa_review,
    confirm,
    decide,
    drop,
    edit,
    felt,
    judge,
    pipeline,
    said,
    set_polarity,
    stage,
    turn,
)

from absa.graph import build
from absa.nodes.language import language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.review_context import build_context
from absa.schemas.answers import JudgeAnswer, TurnAnswer
from absa.schemas.records import ReviewContext, StageResult, Turn
from absa.schemas.sample import Sample
from absa.schemas.settings import HintWeights, PipelineSettings
from absa.scorecard import scorecard

KO = language("ko")
TEXT = "가격이 비싸고 맛은 좋아요."
STAGE1 = stage(aspect(TEXT, "가격", felt("negative")), aspect(TEXT, "맛", felt("positive")))


def context(
    *turns: dict[str, Any],
    summary: dict[str, Any] | None = None,
    stage1: StageResult = STAGE1,
    weights: HintWeights | None = None,
) -> ReviewContext:
    held = [
        Turn(index=n, round=0, speaker=("epm", "tan", "cj")[n % 3], answer=TurnAnswer(**t))
        for n, t in enumerate(turns)
    ]
    judged = JudgeAnswer.model_validate(summary or {})
    return build_context(stage1, held, judged, KO, weights or HintWeights(), PolarityCounter())


@pytest.mark.parametrize(
    ("spoken", "weight", "polarity"),
    [
        (set_polarity("가격", "negative"), 0.5, "negative"),
        (set_polarity("가격", "neutral"), 0.5, "neutral"),
        (set_polarity("가격", None), 0.5, None),
        (set_polarity("가격", "negativ"), 0.5, "negativ"),
        (confirm("가격", "positive"), 0.5, "positive"),
        (confirm("가격"), 0.5, "negative"),
        (drop("가격"), 0.8, None),
        ({**drop("가격"), "value": "positive"}, 0.8, None),
        (edit("set_aspect_ref", "가격"), 0.0, None),
        (edit("merge_tuples", "가격"), 0.0, None),
    ],
    ids=[
        "set_polarity takes its value",
        "set_polarity neutral",
        "set_polarity without a value",
        "a misspelling stays what was said",
        "confirm_tuple takes the target's polarity",
        "confirm_tuple without one takes Stage 1's",
        "drop_tuple has no polarity",
        "drop_tuple with a value has none either",
        "set_aspect_ref weighs nothing",
        "merge_tuples weighs nothing",
    ],
)
def test_each_edit_is_one_hint_with_its_weight_and_polarity(spoken, weight, polarity):
    (hint,) = context(turn(spoken)).aspect_hints["가격"]
    assert (hint.speaker, hint.op, hint.weight) == ("epm", spoken["op"], weight)
    assert hint.polarity_hint == polarity
    assert hint.provenance_hint == "source:epm/patch"


@pytest.mark.parametrize(
    ("spoken", "weight"),
    [
        (set_polarity("가격", "negative"), 0.8),
        (confirm("가격", "negative"), 0.8),
        (drop("가격"), 0.8),
        (edit("set_aspect_ref", "가격"), 0.0),
        (edit("merge_tuples", "가격"), 0.0),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else None,
)
def test_in_the_judges_patch_a_polarity_or_drop_edit_weighs_more(spoken, weight):
    (hint,) = context(summary=judge(spoken)).aspect_hints["가격"]
    assert (hint.speaker, hint.weight) == ("judge", weight)
    assert hint.provenance_hint == "source:judge/patch"


def test_confirming_an_aspect_that_has_two_polarities_names_none():
    both = stage(aspect(TEXT, "가격", felt("negative"), felt("positive")))
    (hint,) = context(turn(confirm("가격")), stage1=both).aspect_hints["가격"]
    assert hint.polarity_hint is None


def test_confirming_an_aspect_that_stage1_missed_names_none():
    (hint,) = context(turn(confirm("배송"))).aspect_hints["배송"]
    assert hint.polarity_hint is None


def test_weights_are_settings():
    weights = HintWeights(set_polarity=0.1, drop_tuple=0.2, final_patch=0.3, merge_tuples=0.4)
    found = context(
        turn(set_polarity("가격", "positive"), drop("가격"), edit("merge_tuples", "가격")),
        summary=judge(drop("가격"), edit("merge_tuples", "가격")),
        weights=weights,
    ).aspect_hints["가격"]
    assert [h.weight for h in found] == [0.1, 0.2, 0.4, 0.3, 0.4]


@pytest.mark.parametrize(
    ("ref", "term", "meant"),
    [
        ("가격", None, "가격"),
        ("가격은", None, "가격"),
        ("값", None, "가격"),
        ("비용이", None, "가격"),
        (None, "맛", "맛"),
        ("", "맛", "맛"),
        ("...", "맛", "맛"),
        ("가격", "맛", "가격"),
        ("t3", "맛", "맛"),
        ("배송", None, "배송"),
        ("배송", "포장", "배송"),
    ],
    ids=[
        "by key",
        "by key, with a particle",
        "by synonym",
        "by synonym, with a particle",
        "by aspect_term",
        "an empty ref",
        "a ref without letters",
        "the ref before the term",
        "a ref that means nothing, a term that does",
        "unknown: its own term",
        "both unknown: the ref",
    ],
)
def test_a_mention_means_an_aspect_by_key_then_by_synonym(ref, term, meant):
    hints = context(turn(edit("drop_tuple", ref, term))).aspect_hints
    assert list(hints) == [meant]


def test_spellings_of_one_unknown_aspect_are_one_aspect():
    hints = context(turn(drop("배송")), turn(drop("배송은"))).aspect_hints
    assert [(name, len(found)) for name, found in hints.items()] == [("배송", 2)]


def test_hints_keep_the_order_in_which_the_debate_first_named_the_aspects():
    hints = context(
        turn(drop("맛"), drop("배송")), turn(drop("가격"), drop("맛")), summary=judge(drop("포장"))
    ).aspect_hints
    assert list(hints) == ["맛", "배송", "가격", "포장"]


def test_an_edit_that_names_nothing_or_has_a_made_up_op_says_nothing():
    assert context(turn(edit("drop_tuple"), edit("explode", "가격"))).aspect_hints == {}


@pytest.mark.parametrize(
    ("spoken", "stage1", "stats", "reasons"),
    [
        (turn(drop("가격")), STAGE1, (1, 0, 0), (0, 0)),
        (turn(drop("배송"), drop("값")), STAGE1, (1, 0, 0), (0, 0)),
        (turn(drop("배송")), STAGE1, (0, 0, 1), (0, 1)),
        (turn(), STAGE1, (0, 0, 0), (0, 0)),
        (turn(drop("가격")), stage(), (0, 0, 1), (1, 0)),
    ],
    ids=["direct", "one of its edits maps", "no match", "silent", "no aspects"],
)
def test_each_turn_is_mapped_or_says_why_not(spoken, stage1, stats, reasons):
    found = context(spoken, stage1=stage1)
    mapped, failed = found.mapping_stats, found.mapping_fail_reasons
    assert (mapped.direct, mapped.fallback, mapped.none) == stats
    assert (failed.no_aspects, failed.no_match) == reasons
    # In the patch protocol no turn has a stance to fall back on.
    assert (failed.neutral_stance, failed.fallback_used) == (0, 0)


def test_mapping_counts_turns_and_not_the_judges_patch():
    out = decide(
        TEXT,
        said(
            ate=ate("가격", "맛"),
            epm=turn(drop("가격")),
            tan=turn(drop("배송")),
            judge=judge(drop("가격"), drop("맛")),
        ),
    )
    # cj is silent: it agrees with everything, and is in no rate.
    assert out.meta.mapping_stats.model_dump() == {"direct": 1, "fallback": 0, "none": 1}
    assert out.meta.mapping_fail_reasons.no_match == 1
    card = scorecard(out, Sample(uid=out.uid, text=TEXT), 0)
    assert card["debate"]["mapping_coverage"] == {"numerator": 1, "denominator": 2, "rate": 0.5}


def test_the_judges_evidence_is_filed_under_the_hinted_aspects_first_entry_first():
    summary = judge()
    summary["aspect_evidence"] = [
        {"aspect_ref": "값", "evidence": "비싸고"},
        {"aspect_ref": "가격", "evidence": "later"},
        {"aspect_ref": "맛", "evidence": "nobody spoke of it"},
        {"aspect_ref": None, "evidence": "of nothing"},
        {"aspect_ref": "배송은", "evidence": None},
    ]
    found = context(turn(drop("가격"), drop("배송")), summary=summary)
    assert found.aspect_evidence == {"가격": "비싸고", "배송": None}


def test_the_context_names_stage1_aspects_their_synonyms_and_what_each_speaker_said():
    found = context(turn(set_polarity("값", "negative", evidence="비싸고")), turn())
    assert found.aspect_terms == ("가격", "맛")
    assert found.synonym_hints == {"가격": ["값", "비용", "가격대"], "맛": ["풍미"]}
    first, second = found.rebuttal_points
    assert (first.speaker, first.stance, first.aspect_refs) == ("epm", "patch", ("가격",))
    assert first.key_points == ('set_polarity 값 negative ("비싸고")',)
    assert (second.speaker, second.aspect_refs, second.key_points) == ("tan", (), ())
    assert found.review_guidance and found.fallback_mapping_policy


def test_reviewers_see_the_context_and_without_a_debate_none():
    backend = ScriptedBackend(said(ate=ate("가격"), epm=turn(set_polarity("가격", "positive"))))
    build(PipelineSettings(), backend).invoke({"text": TEXT, "lang": "ko"})
    for reviewer in ("ate_review", "atsa_review"):
        shown = backend.inputs_of(reviewer)["review_context"]
        assert shown["aspect_hints"]["가격"][0]["polarity_hint"] == "positive"
    backend = ScriptedBackend(said(ate=ate("가격")))
    build(pipeline(enable_debate=False), backend).invoke({"text": TEXT, "lang": "ko"})
    assert backend.inputs_of("ate_review")["review_context"] is None


def test_provenance_is_written_by_code_into_each_review_about_a_hinted_aspect():
    reviews = atsa_review(("값", "flip_polarity", "positive"), ("맛", "flip_polarity", "negative"))
    for review in reviews["sentiment_review"]:
        review.update(reason="I say so", provenance="source:a model's invention")
    out = decide(
        TEXT,
        said(
            ate=ate("가격", "맛"),
            atsa=atsa(("가격", "negative", "비싸고", 0.9), ("맛", "positive", "좋아요", 0.9)),
            epm=turn(set_polarity("가격", "positive")),
            judge=judge(confirm("가격", "positive")),
            ate_review=ate_review(("가격은", "revise_span", "가격이")),
            atsa_review=reviews,
        ),
    )
    spoken_of = "source:epm/patch, source:judge/patch"
    revised, price, taste = out.meta.correction_applied_log
    assert (revised.proposal_type, revised.provenance) == ("revise_span", spoken_of)
    # A synonym that is no aspect of Stage 1 is not found there; who spoke of it is still known.
    assert (price.target_aspect, price.provenance) == ("값", spoken_of)
    assert (taste.provenance, taste.reason) == (None, "I say so")


def test_provenance_is_part_of_an_applied_reviews_reason():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "positive", "비싸요", 0.9)),
            tan=turn(set_polarity("가격", "negative")),
            atsa_review=atsa_review(("가격", "flip_polarity")),
        ),
    )
    (entry,) = out.meta.correction_applied_log
    assert (entry.applied, entry.reason) == (True, "[source:tan/patch]")
