"""Does Stage 2 replace Stage 1? Each reason, each component of the evidence value."""

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
    confirm,
    decide,
    drop,
    felt,
    hint,
    judge,
    pairs,
    pipeline,
    propose,
    said,
    set_polarity,
    stage,
    turn,
    validator,
)

from absa.nodes.adopt import EV_REASONS, AdoptionInputs, changes, first_skip, weighted_mean
from absa.nodes.adopt import decide as adopted
from absa.nodes.board import backfilled
from absa.nodes.language import language
from absa.schemas.answers import JudgeAnswer, Span
from absa.schemas.records import Adoption, GateRecord, ReviewContext, StageResult, Unanchored
from absa.schemas.settings import OverrideSettings

TEXT = "배터리 가격이 비싸고 맛은 좋아요."
NEG, POS = felt("negative", 0.9, "비싸고"), felt("positive", 0.9, "비싸고")
BEFORE = stage(aspect(TEXT, "가격", POS))
AFTER = stage(aspect(TEXT, "가격", NEG))


def evidence(**parts: Any) -> AdoptionInputs:
    """가격 went from positive to negative by a review, without a debate or risks."""
    base: dict[str, Any] = {
        "text": TEXT,
        "lang": language("ko"),
        "stage1": BEFORE,
        "patched": AFTER,
        "summary": None,
        "context": None,
        "gate_log": (),
        "risks_before": 0,
        "risks_after": 0,
    }
    summary = parts.get("summary")
    if isinstance(summary, dict):
        parts["summary"] = JudgeAnswer.model_validate(summary)
    return AdoptionInputs(**{**base, **parts})


def run(settings: dict[str, Any] | None = None, **parts: Any) -> Adoption:
    return adopted(evidence(**parts), OverrideSettings(**(settings or {})))


def hints(**by_aspect: Any) -> ReviewContext:
    return ReviewContext(summary=JudgeAnswer(), aspect_hints=by_aspect)


def skip(verdict: str) -> GateRecord:
    return GateRecord(aspect="가격", verdict=verdict, applied=False)


FLIPPED = GateRecord(aspect="가격", verdict="flip", applied=True)
MAXED = "max_one_override_per_sample"


# 1: nothing to adopt -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patched", [stage(), stage(aspect(TEXT, "가격"))], ids=["no aspect", "no sentiment"]
)
def test_no_tuple_left_is_a_low_signal(patched):
    adoption = run(patched=patched, gate_log=[skip("l3_conservative")], risks_before=3)
    assert (adoption.decision, adoption.reason, adoption.ev_score) == (
        "not_adopted",
        "low_signal",
        None,
    )


@pytest.mark.parametrize(
    ("gate_log", "reason"),
    [
        ([], "low_signal"),
        ([skip("l3_conservative")], "l3_conservative"),
        ([skip("no_evidence_span")], "no_evidence_span"),
        ([skip("evidence_span_not_in_text")], "evidence_span_not_in_text"),
        ([skip("evidence_span_missing_trigger")], "evidence_span_missing_trigger"),
        ([skip("action_ambiguity")], "action_ambiguity"),
        ([skip("implicit_soft_only")], "implicit_soft_only"),
        ([skip("contradictory_memory")], "contradictory_memory"),
        ([skip("low_signal")], "low_signal"),
        ([skip("neutral_only")], "low_signal"),
        ([skip("already_confident")], "low_signal"),
        ([skip("already_confident"), skip("l3_conservative")], "low_signal"),
        ([skip(MAXED)], "low_signal"),
        ([skip(MAXED), skip("action_ambiguity")], "action_ambiguity"),
    ],
)
def test_nothing_changed_gives_the_gates_reason_if_it_is_an_allowed_one(gate_log, reason):
    adoption = run(patched=BEFORE, gate_log=gate_log)
    assert (adoption.decision, adoption.reason) == ("not_adopted", reason)
    assert reason in EV_REASONS


def test_the_first_skip_that_is_not_for_having_had_its_one():
    assert (
        first_skip([FLIPPED, skip(MAXED), skip("low_signal"), skip("neutral_only")]) == "low_signal"
    )
    assert first_skip([FLIPPED]) is None


# What has changed --------------------------------------------------------------------------------

PRICE = aspect(TEXT, "가격", NEG)
BATTERY_PRICE = aspect(TEXT, "배터리 가격", NEG)
TASTE = aspect(TEXT, "맛", felt("positive"))
TASTE_BOTH = aspect(TEXT, "맛", felt("positive"), NEG)


@pytest.mark.parametrize(
    ("stage1", "patched", "expected"),
    [
        (stage(PRICE), stage(PRICE), []),
        (stage(PRICE), stage(aspect(TEXT, "가격", POS)), ["가격"]),
        (stage(PRICE), stage(aspect(TEXT, "가격", felt("negative", 0.1, "x"))), []),
        (stage(PRICE), stage(aspect(TEXT, "가격", NEG, NEG)), []),
        (stage(PRICE), stage(PRICE, TASTE), ["맛"]),
        (stage(PRICE, TASTE), stage(PRICE), ["맛"]),
        (stage(PRICE), stage(aspect(TEXT, "가격")), ["가격"]),
        (stage(PRICE), stage(aspect(TEXT, "가격", NEG, at=Span(start=0, end=2))), ["가격"]),
        (
            stage(aspect(TEXT, "가격")),
            stage(aspect(TEXT, "가격", at=Span(start=0, end=2))),
            [],
        ),
        (stage(aspect(TEXT, "가격")), stage(), []),
        (stage(PRICE), stage(BATTERY_PRICE, 가격="배터리가격"), ["배터리가격"]),
        (stage(PRICE, TASTE), stage(TASTE_BOTH, 가격="맛"), ["맛"]),
    ],
    ids=[
        "nothing",
        "a polarity",
        "only confidence and evidence: nothing",
        "the same polarity twice: nothing",
        "an aspect added",
        "an aspect dropped",
        "its sentiments dropped",
        "a span",
        "a span without tuples: nothing",
        "an aspect that had no tuple: nothing",
        "renamed: one aspect, not two",
        "merged: one aspect",
    ],
)
def test_an_aspect_has_changed_in_its_polarities_or_its_span(stage1, patched, expected):
    changed = changes(evidence(stage1=stage1, patched=patched))
    assert [c.key for c in changed] == expected


def test_a_renamed_aspect_has_changed_its_span_and_not_its_polarity():
    (only,) = changes(
        evidence(stage1=stage(PRICE), patched=stage(BATTERY_PRICE, 가격="배터리가격"))
    )
    assert (only.span_changed, only.polarity_changed) == (True, False)


def test_aspects_that_trade_names_stay_who_they_were():
    """가격 becomes 배터리 가격, then 맛 moves to the place that 가격 left."""
    on = board(TEXT, PRICE, TASTE)
    on.revise_span("가격", Span(start=0, end=6))
    on.revise_span("맛", Span(start=4, end=6))
    changed = changes(evidence(stage1=stage(PRICE, TASTE), patched=on.result()))
    # Both moved, neither changed its polarity.
    assert {c.key: (c.span_changed, c.polarity_changed) for c in changed} == {
        "배터리가격": (True, False),
        "가격": (True, False),
    }


# 2: conflict -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tuples", "decision"),
    [
        ([("가격", "negative")], "adopted"),
        ([("가격은", "NEG")], "adopted"),
        ([("가격", "negatve")], "adopted"),
        ([("가격", "positive")], "not_adopted"),
        ([("가격", "negative"), ("맛", "positive")], "not_adopted"),
        ([("맛", "negative")], "not_adopted"),
        ([], "adopted"),
        ([("가격", "awful")], "adopted"),
        ([("가격", "negative"), ("맛", "awful")], "adopted"),
        ([("...", "positive")], "adopted"),
    ],
    ids=[
        "the same",
        "the same, spelt otherwise",
        "the same, misspelt",
        "another polarity",
        "one more",
        "another aspect",
        "an empty list is none given",
        "only invalid ones are none given",
        "an invalid one is left out",
        "one without an aspect is left out",
    ],
)
def test_debate_tuples_that_differ_from_the_patched_ones_block(tuples, decision):
    adoption = run(summary=judge(tuples=tuples))
    assert adoption.decision == decision
    assert (adoption.reason == "conflict_blocked") is (decision == "not_adopted")


def test_debate_tuples_under_the_old_name_mean_the_renamed_aspect():
    adoption = run(
        stage1=stage(PRICE),
        patched=stage(BATTERY_PRICE, 가격="배터리가격"),
        summary=judge(tuples=[("가격", "negative")]),
    )
    assert adoption.decision == "adopted"


@pytest.mark.parametrize(
    ("before", "after", "blocked"),
    [
        ([POS], [POS, NEG], True),
        ([], [POS, NEG], True),
        ([POS, NEG], [POS], False),
        ([POS, NEG], [POS, felt("neutral")], False),
        ([POS], [NEG], False),
    ],
    ids=["one to two", "none to two", "two to one", "two to another two", "one to another"],
)
def test_an_aspect_that_gains_a_second_polarity_blocks(before, after, blocked):
    adoption = run(
        stage1=stage(aspect(TEXT, "가격", *before)), patched=stage(aspect(TEXT, "가격", *after))
    )
    assert (adoption.reason == "conflict_blocked") is blocked


def test_a_new_aspect_with_two_polarities_blocks():
    adoption = run(stage1=stage(TASTE), patched=stage(TASTE, aspect(TEXT, "가격", POS, NEG)))
    assert adoption.reason == "conflict_blocked"


def test_a_merge_of_two_polarities_blocks():
    adoption = run(stage1=stage(PRICE, TASTE), patched=stage(TASTE_BOTH, 가격="맛"))
    assert adoption.reason == "conflict_blocked"


# 3 to 6: candidates ------------------------------------------------------------------------------

UNGROUNDED = stage(aspect(TEXT, "가격", felt("positive", 0.9, "없는 말")))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"risks_before": 2, "risks_after": 1}, "risk_resolved"),
        ({"risks_before": 1, "risks_after": 0, "gate_log": [FLIPPED]}, "risk_resolved"),
        ({"risks_before": 1, "risks_after": 1, "gate_log": [FLIPPED]}, "debate_action"),
        ({"risks_before": 0, "risks_after": 1, "gate_log": [FLIPPED]}, "debate_action"),
        ({"gate_log": [skip("low_signal")]}, "review_applied"),
        ({"summary": judge(set_polarity("맛", "positive"))}, "debate_action"),
        ({"summary": judge(drop("맛"))}, "debate_action"),
        ({"summary": judge(confirm("가격"))}, "review_applied"),
        ({"summary": judge({"op": "explode"})}, "review_applied"),
        ({"summary": judge(confirm("가격"), drop("맛"))}, "debate_action"),
        ({"summary": judge()}, "review_applied"),
        ({"stage1": UNGROUNDED}, "grounding_improved"),
        ({"stage1": UNGROUNDED, "gate_log": [FLIPPED]}, "debate_action"),
        ({"stage1": UNGROUNDED, "patched": stage(aspect(TEXT, "맛", felt("negative")))}, None),
        ({}, "review_applied"),
    ],
    ids=[
        "fewer risks",
        "fewer risks before an override",
        "as many risks, an override",
        "more risks, an override",
        "a skip is no action",
        "the patch sets",
        "the patch drops",
        "the patch confirms",
        "the patch says nothing known",
        "the patch confirms and drops",
        "an empty patch",
        "grounded for the first time",
        "an override before grounding",
        "grounding did not improve",
        "a review alone",
    ],
)
def test_the_reason_of_a_candidate(given, reason):
    adoption = run({"ev_threshold": 0.0}, **given)
    assert (adoption.decision, adoption.reason) == ("adopted", reason or "review_applied")


def test_an_implicit_sentiment_does_not_ground_a_stage():
    implicit = stage(aspect(TEXT, "가격", felt("positive", 0.9, "비싸고", said_implicit=True)))
    assert run(stage1=implicit).reason == "grounding_improved"


@pytest.mark.parametrize(
    ("threshold", "decision"),
    [(0.0, "adopted"), (0.5, "adopted"), (0.5 + 1e-10, "adopted"), (0.5001, "not_adopted")],
)
def test_a_candidate_is_adopted_if_its_value_reaches_the_threshold(threshold, decision):
    # Of 맛 (grounded) and 가격 (not) half is grounded; alignment is weighed with 0.
    adoption = run(
        {"ev_threshold": threshold, "ev_weights": {"alignment_improvement": 0.0}},
        stage1=stage(aspect(TEXT, "가격", POS), aspect(TEXT, "맛", POS)),
        patched=stage(
            aspect(TEXT, "가격", felt("negative")),
            aspect(TEXT, "맛", felt("negative", 0.9, "좋아요")),
        ),
    )
    assert adoption.ev_score == pytest.approx(0.5)
    assert adoption.decision == decision
    assert adoption.reason == ("review_applied" if decision == "adopted" else "ev_below_threshold")


# Components --------------------------------------------------------------------------------------


def component(name: str, **parts: Any) -> float | None:
    return run(**parts).ev_components.get(name)


@pytest.mark.parametrize(
    ("said_", "share"),
    [
        ([hint("negative", 0.5)], 1.0),
        ([hint("positive", 0.5)], 0.0),
        ([hint("negative", 0.8), hint("positive", 0.2)], 0.8),
        ([hint("negative", 0.5), hint("neutral", 0.5)], 0.5),
        ([hint("negativ", 0.5)], 1.0),
        ([hint("negative", 0.5), hint("terrible", 0.5)], 1.0),
        ([hint("negative", 0.5), hint(None, 0.8, op="drop_tuple")], 1.0),
        ([hint(None, 0.8, op="drop_tuple")], 0.0),
        ([hint("negative", 0.0)], 0.0),
        ([], 0.0),
    ],
    ids=[
        "agrees",
        "disagrees",
        "by weight",
        "neutral disagrees",
        "misspelt",
        "invalid says nothing",
        "a drop says nothing of a polarity",
        "only a drop",
        "no weight",
        "nobody spoke",
    ],
)
def test_debate_support_is_the_share_of_the_weight_that_agrees(said_, share):
    assert component("debate_support", context=hints(가격=said_)) == pytest.approx(share)


def test_a_neutral_hint_agrees_with_a_change_to_neutral():
    patched = stage(aspect(TEXT, "가격", felt("neutral", 0.9, "비싸고")))
    value = component("debate_support", patched=patched, context=hints(가격=[hint("neutral")]))
    assert value == 1.0


@pytest.mark.parametrize("gone", ["aspect", "sentiments"])
def test_for_an_aspect_with_no_tuple_left_drops_agree_and_polarities_disagree(gone):
    left = [aspect(TEXT, "가격")] if gone == "sentiments" else []
    said_ = [hint(None, 0.6, op="drop_tuple"), hint("negative", 0.1), hint("neutral", 0.1)]
    value = component(
        "debate_support",
        stage1=stage(PRICE, TASTE),
        patched=stage(*left, TASTE),
        context=hints(가격=said_),
    )
    assert value == pytest.approx(0.75)


def test_debate_support_is_a_mean_over_the_aspects_whose_polarity_changed():
    value = component(
        "debate_support",
        stage1=stage(aspect(TEXT, "가격", POS), aspect(TEXT, "맛", POS)),
        patched=stage(aspect(TEXT, "가격", NEG), aspect(TEXT, "맛", NEG)),
        context=hints(가격=[hint("negative")], 배송=[hint("positive")]),
    )
    assert value == 0.5


def test_hints_under_the_old_name_support_the_renamed_aspect():
    value = component(
        "debate_support",
        stage1=stage(aspect(TEXT, "가격", POS)),
        patched=stage(BATTERY_PRICE, 가격="배터리가격"),
        context=hints(가격=[hint("negative")]),
    )
    assert value == 1.0


@pytest.mark.parametrize(
    "given",
    [
        {"context": None},
        {
            "context": hints(가격=[hint("negative")]),
            "stage1": stage(PRICE),
            "patched": stage(BATTERY_PRICE, 가격="배터리가격"),
        },
    ],
    ids=["no debate", "only a span changed"],
)
def test_debate_support_is_not_available(given):
    assert component("debate_support", **given) is None


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [(0, 0, None), (0, 2, None), (2, 0, 1.0), (4, 3, 0.25), (2, 2, 0.0), (2, 5, 0.0)],
)
def test_validator_resolved_is_the_share_of_risks_that_are_gone(before, after, value):
    assert component("validator_resolved", risks_before=before, risks_after=after) == value


GONE = stage(TASTE)


@pytest.mark.parametrize(
    ("stage1", "patched", "value"),
    [
        (BEFORE, AFTER, 1.0),
        (BEFORE, stage(aspect(TEXT, "가격", felt("negative", 0.9, "없는 말"))), 0.0),
        (BEFORE, stage(aspect(TEXT, "가격", felt("negative", 0.9, ""))), 0.0),
        (BEFORE, stage(aspect(TEXT, "가격", felt("negative"))), 0.0),
        (
            stage(aspect(TEXT, "가격", POS, felt("neutral"))),
            stage(aspect(TEXT, "가격", felt("negative"), felt("neutral", 0.5, "비싸고"))),
            1.0,
        ),
        (stage(TASTE, aspect(TEXT, "가격", POS)), GONE, 0.0),
        (stage(TASTE, aspect(TEXT, "가격", felt("positive", 0.9, "없는 말"))), GONE, 1.0),
        (stage(TASTE, aspect(TEXT, "가격", backfilled())), GONE, 0.0),
        (stage(TASTE, aspect(TEXT, "가격", felt("positive", 0.9, ""))), GONE, 0.0),
        (stage(TASTE, aspect(TEXT, "배송", POS)), GONE, 1.0),
        (
            stage(aspect(TEXT, "가격", POS), aspect(TEXT, "맛", POS)),
            stage(aspect(TEXT, "가격", NEG), aspect(TEXT, "맛", felt("negative"))),
            0.5,
        ),
    ],
    ids=[
        "evidence in the text",
        "evidence not in the text",
        "empty evidence",
        "no evidence",
        "one of its sentiments is enough",
        "dropped though grounded",
        "dropped, its evidence was made up",
        "dropped, it never had evidence",
        "dropped, its evidence was empty",
        "dropped, its term was made up",
        "one of two",
    ],
)
def test_grounding_is_the_share_of_changes_that_are_grounded(stage1, patched, value):
    assert component("grounding_improvement", stage1=stage1, patched=patched) == value


@pytest.mark.parametrize(("apart", "value"), [(0, 1.0), (1, 0.5), (3, 0.25)])
def test_alignment_is_the_share_of_sentiments_that_are_anchored(apart, value):
    loose = [Unanchored(aspect_term="배송", polarity="positive", confidence=0.5)] * apart
    patched = StageResult(aspects=AFTER.aspects, unanchored=tuple(loose))
    assert component("alignment_improvement", patched=patched) == value


def test_only_available_components_are_weighed():
    assert run().ev_score == pytest.approx(1.0)
    adoption = run(context=hints(가격=[hint("positive")]), risks_before=2, risks_after=1)
    # (0.4 * 0 + 0.3 * 0.5 + 0.2 * 1 + 0.1 * 1) / 1.0
    assert adoption.ev_score == pytest.approx(0.45)
    assert (adoption.decision, adoption.reason) == ("not_adopted", "ev_below_threshold")
    assert set(adoption.ev_components) == {
        "debate_support",
        "validator_resolved",
        "grounding_improvement",
        "alignment_improvement",
    }


def test_the_mean_of_components_without_any_weight_is_0():
    assert weighted_mean({"a": 1.0}, {"a": 0.0}) == 0.0
    assert weighted_mean({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 3.0, "c": 9.0}) == 0.625


# In the graph ------------------------------------------------------------------------------------

SHORT = "가격이 비싸요."
STAGE1 = {"ate": ate("가격"), "atsa": atsa(("가격", "positive", "비싸요", 0.8))}


@pytest.mark.parametrize(
    ("answers", "outcome", "final"),
    [
        ({}, ("not_adopted", "low_signal"), "positive"),
        (
            {"atsa_review": atsa_review(("가격", "flip_polarity"))},
            ("not_adopted", "ev_below_threshold"),  # 0.4 * 0 + 0.2 + 0.1 of 0.7: nobody supports it
            "positive",
        ),
        (
            {
                "atsa_review": atsa_review(("가격", "flip_polarity")),
                "epm": turn(set_polarity("가격", "negative")),
            },
            ("adopted", "review_applied"),
            "negative",
        ),
        (
            {
                "validator": validator(
                    "EVIDENCE_GAP", proposals=[propose("FLIP_POLARITY", "가격")]
                ),
                "cj": turn(confirm("가격", "negative")),
            },
            ("adopted", "risk_resolved"),
            "negative",
        ),
        (
            {
                **all_say("가격", "negative"),
                "judge": judge(set_polarity("가격", "negative"), spans=["비싸요"]),
            },
            ("adopted", "debate_action"),
            "negative",
        ),
        (
            {
                **all_say("가격", "negative"),
                "judge": judge(
                    set_polarity("가격", "negative"),
                    spans=["비싸요"],
                    tuples=[("가격", "negative"), ("배송", "positive")],
                ),
            },
            ("not_adopted", "conflict_blocked"),
            "positive",
        ),
        ({"ate_review": ate_review(("가격", "drop"))}, ("not_adopted", "low_signal"), "positive"),
        (
            {
                **all_say("가격", "negative"),
                "judge": judge(set_polarity("가격", "negative"), spans=["비싸요"]),
                "validator": validator("NEGATION"),
                "validator_review": validator("NEGATION"),
            },
            ("not_adopted", "l3_conservative"),
            "positive",
        ),
    ],
    ids=[
        "nothing said",
        "a review that nobody supports",
        "a review that a speaker supports",
        "a proposal and a risk resolved",
        "an override",
        "the judge's tuples differ",
        "everything dropped",
        "the gate held it back",
    ],
)
def test_the_outcome_of_a_whole_run(answers, outcome, final):
    out = decide(SHORT, said(**{**STAGE1, **answers}))
    assert (out.meta.adopt_decision, out.meta.adopt_reason) == outcome
    assert pairs(out.final_result.final_tuples) == {("가격", final)}
    assert out.analysis_flags.correction_occurred is (final == "negative")


def test_without_a_debate_a_grounded_review_can_be_adopted():
    out = decide(
        SHORT,
        said(**STAGE1, atsa_review=atsa_review(("가격", "flip_polarity"))),
        pipeline(enable_debate=False),
    )
    assert out.meta.adopt_decision == "adopted"
    assert set(out.meta.ev_components) == {"grounding_improvement", "alignment_improvement"}


def test_without_stage2_nothing_is_adopted():
    answers = said(**STAGE1, atsa_review=atsa_review(("가격", "flip_polarity")))
    out = decide(SHORT, answers, pipeline(enable_stage2=False))
    assert (out.meta.adopt_decision, out.meta.adopt_reason) == ("not_adopted", "low_signal")
    assert out.final_result.stage2_tuples == ()
    assert not out.analysis_flags.stage2_executed


def test_an_adopted_rename_is_final_although_the_judge_used_the_old_name():
    out = decide(
        TEXT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸고", 0.9)),
            judge=judge(tuples=[("가격", "negative")]),
            ate_review=ate_review(("가격", "revise_span", "배터리 가격")),
        ),
    )
    assert out.meta.adopt_decision == "adopted"
    assert pairs(out.final_result.final_tuples) == {("배터리 가격", "negative")}
