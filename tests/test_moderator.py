"""The Moderator: each rule firing, not firing, and switched off by itself."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    all_say,
    aspect,
    ate,
    atsa,
    atsa_review,
    decide,
    felt,
    judge,
    pairs,
    pipeline,
    said,
    set_polarity,
    stage,
    turn,
    validator,
)

from absa.nodes.language import language
from absa.nodes.moderator import (
    Inputs,
    ate_aggregate,
    atsa_aggregate,
    critical_risks,
    inferred_label,
    iou,
    moderate,
    validator_aggregate,
)
from absa.schemas.answers import JudgeAnswer, Span, ValidatorAnswer
from absa.schemas.records import Aggregate, ModeratorOutput, ValidatorAggregate
from absa.schemas.settings import RULE_NAMES

WHOLE = (0, 10)


def agg(label: str, confidence: float, span: tuple[int, int] | None = None) -> Aggregate:
    place = Span(start=span[0], end=span[1]) if span else None
    return Aggregate(label=label, confidence=confidence, span=place)


def run(rules: str = "ZBMCADE", **inputs: Any) -> ModeratorOutput:
    """Stage 1 alone says positive, 0.8, and nobody else says anything, but for what is given."""
    if isinstance(suggestion := inputs.pop("validator", None), tuple):
        inputs["validator"] = ValidatorAggregate(
            suggested_label=suggestion[0], confidence=suggestion[1], issues=suggestion[2:]
        )
    if "debate_label" in inputs:
        inputs.setdefault("debate_held", True)
    base: dict[str, Any] = {
        "stage1_ate": agg("positive", 0.8),
        "stage1_atsa": None,
        "stage2_ate": None,
        "stage2_atsa": None,
        "validator": ValidatorAggregate(),
        "debate_label": None,
        "debate_held": False,
    }
    return moderate(Inputs(**{**base, **inputs}), tuple(rules))


def without(rule: str) -> str:
    return "".join(name for name in RULE_NAMES if name != rule)


def outcome(found: ModeratorOutput) -> tuple[str, float, list[str]]:
    return found.final_label, found.confidence, [r[-1] for r in found.applied_rules]


# What makes each rule fire, and what the label is with it and without it.
FIRING: dict[str, tuple[dict[str, Any], tuple[str, float], tuple[str, float]]] = {
    "Z": (
        {"stage1_ate": agg("positive", 0.0), "validator": ("negative", 0.9)},
        ("neutral", 0.0),
        ("negative", 0.9),
    ),
    "B": ({"stage2_ate": agg("positive", 0.9)}, ("positive", 0.9), ("positive", 0.8)),
    "M": ({"stage2_ate": agg("negative", 0.9)}, ("mixed", 0.9), ("negative", 0.9)),
    "C": ({"validator": ("negative", 0.9)}, ("negative", 0.9), ("positive", 0.8)),
    "A": (
        {
            "stage2_ate": agg("positive", 0.8),
            "stage1_atsa": agg("positive", 0.5, WHOLE),
            "stage2_atsa": agg("positive", 0.7, WHOLE),
        },
        ("positive", 0.6),
        ("positive", 0.8),
    ),
    "D": ({"stage1_atsa": agg("negative", 0.9)}, ("negative", 0.9), ("positive", 0.8)),
    "E": (
        {"stage1_ate": agg("positive", 0.5), "debate_label": "negative"},
        ("negative", 0.5),
        ("positive", 0.5),
    ),
}


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_each_rule_fires_alone_and_says_so_in_one_sentence(rule):
    inputs, (label, confidence), _ = FIRING[rule]
    decision = run(**inputs)
    assert (decision.final_label, decision.confidence) == (label, pytest.approx(confidence))
    assert f"Rule{rule}" in decision.applied_rules
    assert decision.rationale.count("Rule") == len(decision.applied_rules)
    for name in decision.applied_rules:
        assert f"{name}: " in decision.rationale


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_each_rule_can_be_switched_off_by_itself(rule):
    inputs, _, (label, confidence) = FIRING[rule]
    decision = run(without(rule), **inputs)
    assert (decision.final_label, decision.confidence) == (label, pytest.approx(confidence))
    assert f"Rule{rule}" not in decision.applied_rules


def test_without_any_rule_the_label_is_stage1s():
    inputs = {
        "stage2_ate": agg("negative", 0.9),
        "validator": ("mixed", 1.0),
        "debate_label": "neutral",
    }
    assert outcome(run("", **inputs)) == ("positive", 0.8, [])


def test_nothing_to_decide_leaves_stage1_and_no_rationale():
    decision = run()
    assert outcome(decision) == ("positive", 0.8, [])
    assert (decision.rationale, decision.selected_stage) == ("", "stage1")


# Z -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "stops"),
    [
        (0.0, None, True),
        (0.0, 0.0, True),
        (0.1, None, False),
        (0.1, 0.0, False),
        (0.0, 0.1, False),
    ],
)
def test_rule_z_stops_only_if_both_confidences_are_0(one, two, stops):
    stage2 = agg("positive", two) if two is not None else None
    decision = run(stage1_ate=agg("positive", one), stage2_ate=stage2, debate_label="negative")
    assert ("RuleZ" in decision.applied_rules) is stops
    if stops:
        assert outcome(decision) == ("neutral", 0.0, ["Z"])
        assert not decision.arbiter_flags.rule_e_attempted_after_b
        assert decision.arbiter_flags.rule_e_block_reason is None


def test_rule_z_selects_the_adopted_stage():
    zero = agg("positive", 0.0)
    assert run(stage1_ate=zero, stage2_ate=zero).selected_stage == "stage2"
    assert run(stage1_ate=zero).selected_stage == "stage1"


# B, M --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "guarded"),
    [
        (0.7, 0.5, True),
        (0.7, 0.5 + 1e-10, True),
        (0.7, 0.51, False),
        (0.9, 0.1, True),
        (0.5, 0.9, False),
        (0.5, 0.5, False),
    ],
    ids=["0.7 - 0.5 is 0.2", "within tolerance", "just less", "much", "a rise", "equal"],
)
def test_rule_b_keeps_stage1_where_the_confidence_drops_by_a_fifth(one, two, guarded):
    decision = run(stage1_ate=agg("positive", one), stage2_ate=agg("positive", two))
    assert outcome(decision) == ("positive", one if guarded else two, ["B"])
    assert decision.selected_stage == ("stage1" if guarded else "stage2")
    flags = decision.arbiter_flags
    assert (flags.stage2_rejected_due_to_confidence, flags.rule_b_applied) == (guarded, True)
    assert flags.confidence_margin_used == pytest.approx(abs(one - two))


def test_without_stage2_rule_b_does_not_act_and_the_margin_is_0():
    flags = run().arbiter_flags
    assert (flags.rule_b_applied, flags.confidence_margin_used) == (False, 0.0)


def test_without_rule_b_there_is_no_drop_guard_and_the_adopted_stage_stays_selected():
    decision = run(without("B"), stage2_ate=agg("positive", 0.1))
    assert (decision.selected_stage, decision.confidence) == ("stage2", 0.8)
    assert decision.arbiter_flags.confidence_margin_used == pytest.approx(0.7)


@pytest.mark.parametrize("two", [0.9, 0.3], ids=["stage 2 preferred", "under the drop guard"])
def test_rule_m_makes_different_labels_mixed_with_the_larger_confidence(two):
    decision = run(stage2_ate=agg("negative", two))
    assert outcome(decision) == ("mixed", max(0.8, two), ["B", "M"])


def test_rule_m_does_not_fire_on_equal_labels():
    assert "RuleM" not in run(stage2_ate=agg("positive", 0.9)).applied_rules


# C -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        (("negative", 0.9), ("negative", 0.9)),
        (("negative", 0.8), ("negative", 0.8)),
        (("negative", 0.8 - 1e-10), ("negative", 0.8)),
        (("negative", 0.7), None),
        (("negative", 0.0, "NEGATION_SCOPE:low"), ("negative", 0.8)),
        (("negative", 0.0, "CONTRAST:mid"), ("negative", 0.8)),
        (("negative", 0.0, "IRONY:low"), ("negative", 0.8)),
        (("negative", 0.0, "EVIDENCE_GAP:high"), ("negative", 0.8)),
        (("negative", 0.0, "EVIDENCE_GAP:mid"), None),
        ((None, 0.9, "IRONY:high"), None),
        (("positive", 0.95), ("positive", 0.95)),
    ],
    ids=[
        "surer",
        "as sure",
        "as sure within tolerance",
        "less sure",
        "about negation",
        "about contrast",
        "about irony",
        "of high severity",
        "less sure and not critical",
        "no label suggested",
        "the same label, surer",
    ],
)
def test_rule_c_takes_the_validators_label_if_critical_or_as_sure(suggestion, expected):
    decision = run(validator=suggestion)
    label, confidence = expected or ("positive", 0.8)
    assert (decision.final_label, decision.confidence) == (label, pytest.approx(confidence))
    assert ("RuleC" in decision.applied_rules) is bool(expected)
    assert decision.arbiter_flags.validator_override_applied is bool(expected)


@pytest.mark.parametrize(
    ("issues", "critical"),
    [
        ([], False),
        (["OTHER:mid"], False),
        (["SPAN_MISMATCH:low", "OTHER:high"], True),
        (["CONTRAST_SCOPE:low"], True),
        (["POLARITY_MISMATCH:mid"], False),
        (["MISSING_SECOND_ASPECT:mid"], False),
    ],
)
def test_an_issue_is_critical_by_its_topic_or_its_severity(issues, critical):
    assert bool(critical_risks(issues)) is critical


# A -----------------------------------------------------------------------------------------------

ALIGNED = FIRING["A"][0]


@pytest.mark.parametrize(
    ("changes", "fires"),
    [
        ({}, True),
        ({"stage2_atsa": agg("positive", 0.7, (0, 8))}, True),
        ({"stage2_atsa": agg("positive", 0.7, (0, 7))}, False),
        ({"stage2_atsa": agg("positive", 0.7, (20, 30))}, False),
        ({"stage1_atsa": None}, False),
        ({"stage2_atsa": None}, False),
        ({"stage2_ate": None}, False),
        ({"stage2_ate": agg("positive", 0.6)}, False),
        ({"stage2_atsa": agg("negative", 0.8, WHOLE)}, False),
        ({"stage1_atsa": agg("negative", 0.5, WHOLE)}, True),
    ],
    ids=[
        "same span",
        "IoU exactly 0.8",
        "IoU 0.7",
        "apart",
        "no stage 1 ATSA",
        "no stage 2 ATSA",
        "no stage 2",
        "under the drop guard",
        "stage 2's ATSA has another label",
        "stage 1's ATSA label does not matter",
    ],
)
def test_rule_a_averages_where_the_spans_agree(changes, fires):
    decision = run(without("D"), **{**ALIGNED, **changes})
    assert ("RuleA" in decision.applied_rules) is fires
    if fires:
        assert decision.confidence == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("one", "two", "value"),
    [
        ((0, 10), (0, 10), 1.0),
        ((0, 10), (5, 15), 1 / 3),
        ((0, 10), (10, 20), 0.0),
        ((0, 10), (2, 4), 0.2),
        (None, (0, 1), 0.0),
        ((0, 1), None, 0.0),
        ((3, 3), (3, 3), 0.0),
    ],
)
def test_intersection_over_union_of_spans(one, two, value):
    spans = [Span(start=s[0], end=s[1]) if s else None for s in (one, two)]
    assert iou(*spans) == pytest.approx(value)


# D -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("atsa_", "expected", "acts"),
    [
        (("negative", 0.9), ("negative", 0.9), True),
        (("negative", 0.9 - 1e-10), ("negative", 0.9), True),
        (("negative", 0.89), ("positive", 0.8), True),
        (("negative", 0.71), ("positive", 0.8), True),
        (("negative", 0.5), ("positive", 0.8), True),
        (("positive", 0.99), ("positive", 0.8), False),
        (None, ("positive", 0.8), False),
    ],
    ids=[
        "surer by 0.1",
        "by 0.1 within tolerance",
        "too close above",
        "too close below",
        "less sure",
        "same label",
        "no ATSA",
    ],
)
def test_rule_d_lets_the_surer_label_win(atsa_, expected, acts):
    decision = run(stage1_atsa=agg(*atsa_, WHOLE) if atsa_ else None)
    assert (decision.final_label, decision.confidence) == (expected[0], pytest.approx(expected[1]))
    assert ("RuleD" in decision.applied_rules) is acts


@pytest.mark.parametrize(
    ("stage2", "candidate"),
    [(None, "stage1"), (agg("positive", 0.8), "stage2"), (agg("positive", 0.1), "stage1")],
    ids=["without stage 2", "with stage 2", "under the drop guard"],
)
def test_rule_d_looks_at_the_atsa_of_the_stage_that_holds(stage2, candidate):
    decision = run(
        stage2_ate=stage2,
        stage1_atsa=agg("negative", 0.95, WHOLE),
        stage2_atsa=agg("neutral", 0.95, WHOLE),
    )
    assert decision.final_label == {"stage1": "negative", "stage2": "neutral"}[candidate]


def test_rule_d_has_no_candidate_if_stage2_has_no_atsa():
    decision = run(stage2_ate=agg("positive", 0.8), stage1_atsa=agg("negative", 0.95, WHOLE))
    assert "RuleD" not in decision.applied_rules


# E -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "fires", "blocked"),
    [
        ({"stage1_ate": agg("positive", 0.54), "debate_label": "negative"}, True, None),
        (
            {"stage1_ate": agg("positive", 0.55), "debate_label": "negative"},
            False,
            "confidence_too_high",
        ),
        (
            {"stage1_ate": agg("positive", 0.55 - 1e-10), "debate_label": "negative"},
            False,
            "confidence_too_high",
        ),
        ({"stage1_ate": agg("mixed", 0.99), "debate_label": "negative"}, True, None),
        (
            {"stage1_ate": agg("positive", 0.1), "debate_label": "positive"},
            False,
            "label_unchanged",
        ),
        ({"stage1_ate": agg("mixed", 0.1), "debate_label": "mixed"}, False, "label_unchanged"),
        (
            {"stage1_ate": agg("positive", 0.9), "debate_label": "positive"},
            False,
            "label_unchanged",
        ),
        ({"stage1_ate": agg("positive", 0.1), "debate_label": None}, False, "inferred_empty"),
        ({"stage1_ate": agg("positive", 0.9), "debate_label": None}, False, "inferred_empty"),
        ({"stage1_ate": agg("positive", 0.1), "debate_held": False}, False, None),
    ],
    ids=[
        "unsure",
        "0.55 is too sure",
        "0.55 within tolerance",
        "mixed, however sure",
        "the same label",
        "mixed by both",
        "unchanged before too high",
        "nothing inferred",
        "nothing inferred before too high",
        "no debate",
    ],
)
def test_rule_e_fires_or_says_what_blocked_it(given, fires, blocked):
    decision = run(**given)
    assert decision.arbiter_flags.rule_e_fired is fires
    assert decision.arbiter_flags.rule_e_block_reason == blocked
    assert decision.confidence == given["stage1_ate"].confidence
    assert decision.final_label == (given["debate_label"] if fires else given["stage1_ate"].label)


def test_switched_off_rule_e_is_neither_fired_nor_blocked():
    flags = run(without("E"), debate_label="negative").arbiter_flags
    assert (flags.rule_e_fired, flags.rule_e_block_reason) == (False, None)
    assert not flags.rule_e_attempted_after_b


@pytest.mark.parametrize(("rules", "both"), [("BE", True), ("B", False), ("E", False)])
def test_rule_e_after_b_means_both_were_reached(rules, both):
    decision = run(rules, stage2_ate=agg("positive", 0.8), debate_label="negative")
    assert decision.arbiter_flags.rule_e_attempted_after_b is both


@pytest.mark.parametrize(
    ("summary", "label"),
    [
        (judge(label="negative", tuples=[("가격", "positive")], rationale="긍정"), "negative"),
        (judge(label="mixd", tuples=[("가격", "positive")]), "mixed"),
        (judge(label="whatever", tuples=[("가격", "positive")]), "positive"),
        (judge(tuples=[("가격", "positive"), ("맛", "negative")], rationale="긍정"), "mixed"),
        (judge(tuples=[("가격", "neutral")], rationale="긍정"), "neutral"),
        (judge(tuples=[("가격", "awful"), ("…", "positive")], rationale="부정적"), "negative"),
        (judge(tuples=[("가격", "awful"), ("", "positive")], rationale="부정적"), "positive"),
        (judge(rationale="긍정과 부정이 엇갈린다"), "mixed"),
        (judge(rationale="양면이 있다"), "mixed"),
        (judge(rationale="혼합된 평가"), "mixed"),
        (judge(rationale="A Mixed bag, mostly positive"), "mixed"),
        (judge(rationale="긍정과 부정"), "positive"),
        (judge(rationale="호의적"), "positive"),
        (judge(rationale="맛이 좋다"), "positive"),
        (judge(rationale="POSITIVE on the whole"), "positive"),
        (judge(rationale="부정적이고 중립은 아니다"), "negative"),
        (judge(rationale="비판이 많다"), "negative"),
        (judge(rationale="나쁘다"), "negative"),
        (judge(rationale="clearly negative"), "negative"),
        (judge(rationale="중립"), "neutral"),
        (judge(rationale="모호하다"), "neutral"),
        (judge(rationale="neutral"), "neutral"),
        (judge(rationale="그저 그렇다"), None),
        (judge(), None),
        (None, None),
    ],
)
def test_the_debates_label_comes_from_its_polarity_its_tuples_or_its_words(summary, label):
    answer = JudgeAnswer.model_validate(summary) if summary is not None else None
    assert inferred_label(answer, language("ko")) == label


# Together ----------------------------------------------------------------------------------------


def test_the_rules_run_in_their_own_order_whatever_the_settings_list():
    inputs: dict[str, Any] = {
        "stage2_ate": agg("negative", 0.8),
        "stage1_atsa": agg("mixed", 0.9, WHOLE),
        "stage2_atsa": agg("mixed", 0.5, WHOLE),
        "validator": ("mixed", 0.9),
        "debate_label": "negative",
    }
    decision = run(**inputs)
    # B, M to mixed; C stays mixed; A averages to 0.7; D agrees; E may always leave mixed.
    assert outcome(decision) == ("negative", pytest.approx(0.7), ["B", "M", "C", "A", "E"])
    assert run("EACMBZD", **inputs) == decision


def test_each_rule_sees_what_the_one_before_left():
    # C lifts the confidence to 0.9, so that D's ATSA (0.95) is too close to win.
    decision = run(validator=("negative", 0.9), stage1_atsa=agg("positive", 0.95, WHOLE))
    assert outcome(decision) == ("negative", 0.9, ["C", "D"])


# Inputs ------------------------------------------------------------------------------------------

TEXT = "가격이 비싸고 맛은 좋아요."


def test_the_ate_side_is_over_all_anchored_sentiments():
    result = stage(aspect(TEXT, "가격", felt("negative", 0.6, "made up")), aspect(TEXT, "배송"))
    assert ate_aggregate(result) == agg("negative", 0.6)
    assert ate_aggregate(stage()) == agg("neutral", 0.0)


def test_the_atsa_side_is_over_the_explicit_grounded_ones_with_their_covering_span():
    result = stage(
        aspect(TEXT, "가격", felt("negative", 0.6, "비싸고")),
        aspect(TEXT, "맛", felt("negative", 0.8, "좋아요"), felt("positive", 0.9, "made up")),
        aspect(TEXT, "배송", felt("positive", 0.9, "좋아요")),
        aspect(TEXT, "비싸고", felt("positive", 0.9, "좋아요", said_implicit=True)),
    )
    aggregate = atsa_aggregate(result, TEXT)
    assert (aggregate.label, aggregate.confidence) == ("negative", pytest.approx(0.7))
    assert aggregate.span == Span(start=0, end=9)


def test_the_atsa_side_is_absent_if_nothing_is_explicit_and_grounded():
    assert atsa_aggregate(stage(aspect(TEXT, "가격", felt("negative"))), TEXT) is None


def test_the_validators_side_reads_its_label_and_defaults_its_confidence():
    answer = ValidatorAnswer.model_validate(validator("IRONY", label="negatve"))
    aggregate = validator_aggregate(answer)
    assert (aggregate.issues, aggregate.suggested_label, aggregate.confidence) == (
        ("IRONY:mid",),
        "negative",
        0,
    )
    odd = ValidatorAnswer.model_validate(validator(label="odd"))
    assert validator_aggregate(odd).suggested_label is None


# In the graph ------------------------------------------------------------------------------------

SHORT = "가격이 비싸요."


def test_a_drop_guard_takes_the_adoption_and_the_tuples_back():
    out = decide(
        SHORT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "positive", "비싸요", 0.9)),
            epm=turn(set_polarity("가격", "negative")),
            atsa_review=atsa_review(("가격", "flip_polarity", "negative", 0.3)),
        ),
    )
    assert out.moderator.arbiter_flags.stage2_rejected_due_to_confidence
    assert out.moderator.selected_stage == "stage1"
    assert (out.meta.adopt_decision, out.meta.adopt_reason) == ("not_adopted", "low_signal")
    assert pairs(out.final_result.final_tuples) == {("가격", "positive")}
    assert not out.analysis_flags.correction_occurred


def test_an_unadopted_stage2_does_not_reach_the_moderator():
    out = decide(
        SHORT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "positive", "비싸요", 0.9)),
            atsa_review=atsa_review(("가격", "flip_polarity")),
        ),
    )
    assert out.meta.adopt_decision == "not_adopted"
    assert out.stage2_ate.label == "negative"
    assert "RuleB" not in out.moderator.applied_rules
    assert (out.final_result.label, out.moderator.selected_stage) == ("positive", "stage1")


def test_the_second_validation_speaks_even_if_stage2_was_not_adopted():
    out = decide(
        SHORT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "positive", "비싸요", 0.6)),
            validator=validator("IRONY", label="mixed", confidence=0.9),
            validator_review=validator(label="negative", confidence=0.7),
        ),
    )
    assert out.meta.adopt_decision == "not_adopted"
    assert (out.final_result.label, out.final_result.confidence) == ("negative", 0.7)


def test_without_stage2_the_first_validation_and_the_debate_speak():
    answers = said(
        ate=ate("가격"),
        atsa=atsa(("가격", "positive", "비싸요", 0.5)),
        validator=validator(label="neutral", confidence=0.1),
        judge=judge(label="negative"),
    )
    out = decide(SHORT, answers, pipeline(enable_stage2=False))
    assert out.moderator.applied_rules == ("RuleE",)
    assert out.final_result.label == "negative"


def test_without_a_moderator_the_label_is_added_up_from_the_final_tuples():
    answers = said(
        ate=ate("가격"),
        atsa=atsa(("가격", "positive", "비싸요", 0.6)),
        **all_say("가격", "negative"),
        judge=judge(set_polarity("가격", "negative"), spans=["비싸요"], label="positive"),
        validator_review=validator(label="mixed", confidence=1.0),
    )
    out = decide(SHORT, answers, pipeline(enable_moderator=False))
    assert out.moderator is None
    assert out.meta.adopt_decision == "adopted"
    assert (out.final_result.label, out.final_result.confidence) == ("negative", 0.7)
    assert out.final_result.rationale == ""


def test_rules_are_ablated_by_settings():
    answers = said(
        ate=ate("가격"),
        atsa=atsa(("가격", "positive", "비싸요", 0.6)),
        **all_say("가격", "negative"),
        judge=judge(set_polarity("가격", "negative"), spans=["비싸요"], label="negative"),
    )
    assert decide(SHORT, answers).moderator.applied_rules == ("RuleB", "RuleM", "RuleD", "RuleE")
    ablated = decide(SHORT, answers, pipeline(rules="ZBCADE"))
    assert ablated.moderator.applied_rules == ("RuleB", "RuleA")
    assert ablated.final_result.label == "negative"


def test_a_text_without_any_aspect_is_neutral_by_rule_z():
    out = decide(SHORT, said(judge=judge(label="negative")))
    assert (out.final_result.label, out.final_result.confidence) == ("neutral", 0.0)
    assert out.moderator.applied_rules == ("RuleZ",)
