"""The override gate: each condition, its boundary, its place in the order, and what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

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
    edit,
    felt,
    hint,
    judge,
    pairs,
    pipeline,
    propose,
    said,
    set_polarity,
    turn,
    validator,
)

from absa.nodes.board import Board, backfilled
from absa.nodes.override_gate import (
    CONDITIONS,
    Case,
    HintedAspect,
    conditions,
    hinted_aspects,
    override,
    removed_aspects,
    verdict,
    weigh,
)
from absa.schemas.answers import JudgeAnswer, Risk
from absa.schemas.output import FinalOutput, OverrideStats, SkipReasons
from absa.schemas.records import Correction, GateRecord, Hint, ReviewContext
from absa.schemas.settings import OverrideSettings
from absa.schemas.verdicts import OVERRIDES, VERDICTS, Verdict

TEXT = "가격이 비싸요."
POSITIVE_06 = aspect(TEXT, "가격", felt("positive", 0.6, "비싸요"))

T0 = {"min_total": 1.6, "min_margin": 0.8, "min_target_conf": 0.7}


def case(**changes: Any) -> Case:
    """A case that every condition lets through to `flip`; a test changes what it is about."""
    settings = OverrideSettings(**changes.pop("settings", {}))
    base: dict[str, Any] = {
        "text": TEXT,
        "term": "가격",
        "aspect": POSITIVE_06,
        "was_removed": False,
        "overrides_so_far": 0,
        "l3_risk": False,
        "contradicted_by_memory": False,
        "evidence": "비싸요",
        "valid_hints": 4,
        "pos_score": 0.0,
        "neg_score": 2.3,
        "drop_score": 0.0,
    }
    return Case(settings=settings, **{**base, **changes})


IMPLICIT = aspect(TEXT, "배송", felt("positive", 0.6))
SAID_IMPLICIT = felt("positive", 0.6, said_implicit=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, "flip", id="nothing against it: flip"),
        # 1
        pytest.param({"overrides_so_far": 1}, "max_one_override_per_sample", id="1: one is done"),
        pytest.param(
            {"settings": {"max_overrides_per_sample": 0}},
            "max_one_override_per_sample",
            id="1: none allowed",
        ),
        pytest.param(
            {"settings": {"max_overrides_per_sample": 3}, "overrides_so_far": 2},
            "flip",
            id="1: two of three done",
        ),
        pytest.param(
            {"settings": {"max_overrides_per_sample": 3}, "overrides_so_far": 3},
            "max_one_override_per_sample",
            id="1: three of three done",
        ),
        # 2
        pytest.param({"valid_hints": 0}, "neutral_only", id="2: no polar hint"),
        pytest.param({"valid_hints": 1}, "flip", id="2: one is enough"),
        # 3 to 5
        pytest.param({"evidence": None}, "no_evidence_span", id="3: none"),
        pytest.param({"evidence": ""}, "no_evidence_span", id="3: empty"),
        pytest.param({"evidence": "싸다"}, "evidence_span_not_in_text", id="4: not in the text"),
        pytest.param({"evidence": "X"}, "evidence_span_not_in_text", id="4: before 5"),
        pytest.param({"evidence": "비"}, "evidence_span_missing_trigger", id="5: one character"),
        pytest.param({"evidence": "비싸"}, "flip", id="5: two characters are enough"),
        # 6
        pytest.param({"neg_score": 1.6}, "flip", id="6: total equal to the threshold"),
        pytest.param({"neg_score": 1.6 - 1e-10}, "flip", id="6: total within tolerance"),
        pytest.param({"neg_score": 1.6 - 1e-8}, "low_signal", id="6: total just below"),
        pytest.param(
            {"settings": {"min_total": 1.8}, "neg_score": 0.5 + 0.5 + 0.8},
            "flip",
            id="6: 0.5 + 0.5 + 0.8 reaches 1.8",
        ),
        pytest.param(
            {"neg_score": 1.3, "pos_score": 0.3}, "flip", id="6: both polarities make the total"
        ),
        # 7
        pytest.param({"neg_score": 1.3, "pos_score": 0.5}, "flip", id="7: margin equal"),
        pytest.param({"neg_score": 1.3, "pos_score": 0.6}, "action_ambiguity", id="7: below"),
        pytest.param({"neg_score": 1.3, "pos_score": 1.3}, "action_ambiguity", id="7: a tie"),
        pytest.param({"was_removed": True}, "action_ambiguity", id="7: a review removed it"),
        # 8
        pytest.param({"l3_risk": True}, "l3_conservative", id="8: under an L3 risk"),
        pytest.param(
            {"l3_risk": True, "settings": {"l3_conservative": False}}, "flip", id="8: switched off"
        ),
        # 9
        pytest.param({"aspect": IMPLICIT}, "implicit_soft_only", id="9: no place in the text"),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", SAID_IMPLICIT)}, "implicit_soft_only", id="9: says so"
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", SAID_IMPLICIT, felt("positive", 0.6))},
            "flip",
            id="9: only one of two is implicit",
        ),
        pytest.param(
            {"aspect": None, "term": "배송"}, "implicit_soft_only", id="9: none, not in the text"
        ),
        # 10
        pytest.param(
            {"contradicted_by_memory": True}, "contradictory_memory", id="10: memory warns"
        ),
        # 11
        pytest.param({"aspect": None}, "add", id="11: an aspect that Stage 1 missed"),
        pytest.param(
            {"aspect": aspect(TEXT, "가격")}, "add", id="11: an aspect without sentiments"
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", backfilled())},
            "flip",
            id="11: a backfill is a sentiment",
        ),
        # 12
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("negative", 0.7))},
            "already_confident",
            id="12: confidence equal",
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("negative", 0.7 - 1e-10))},
            "already_confident",
            id="12: confidence within tolerance",
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("negative", 0.69))}, "confirm", id="13: too unsure"
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("positive", 0.99))},
            "flip",
            id="12: other polarity",
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("negative", 0.9), felt("negative", 0.8))},
            "already_confident",
            id="12: all of several",
        ),
        pytest.param(
            {"aspect": aspect(TEXT, "가격", felt("negative", 0.9), felt("positive", 0.9))},
            "flip",
            id="12: not all of several",
        ),
        pytest.param(
            {
                "pos_score": 2.3,
                "neg_score": 0.0,
                "aspect": aspect(TEXT, "가격", felt("positive", 0.7)),
            },
            "already_confident",
            id="12: the target may be positive",
        ),
    ],
)
def test_the_condition_decides(changes, expected):
    assert verdict(case(**changes)) == expected


ALLOWED = {"settings": {"allow_drop": True, "max_overrides_per_sample": 1}}
LOUD = {"drop_score": 2.4, "pos_score": 0.0, "neg_score": 0.0, "valid_hints": 0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({**ALLOWED, **LOUD}, "drop", id="allowed and loud"),
        pytest.param(LOUD, "neutral_only", id="not allowed"),
        pytest.param({**ALLOWED, **LOUD, "drop_score": 1.6}, "drop", id="equal to min_total"),
        pytest.param({**ALLOWED, **LOUD, "drop_score": 1.5}, "neutral_only", id="too quiet"),
        pytest.param(
            {**ALLOWED, "drop_score": 2.4, "neg_score": 1.6},
            "drop",
            id="exceeds total by the margin",
        ),
        pytest.param(
            {**ALLOWED, "drop_score": 2.4, "neg_score": 1.7},
            "flip",
            id="below the margin: as usual",
        ),
        pytest.param(
            {**ALLOWED, **LOUD, "overrides_so_far": 1},
            "max_one_override_per_sample",
            id="condition 1 holds for it",
        ),
        pytest.param({**ALLOWED, **LOUD, "l3_risk": True}, "l3_conservative", id="condition 8 too"),
        pytest.param(
            {
                **LOUD,
                "l3_risk": True,
                "settings": {"allow_drop": True, "l3_conservative": False},
            },
            "drop",
            id="condition 8 switched off",
        ),
        pytest.param({**ALLOWED, **LOUD, "evidence": None}, "drop", id="it needs no evidence"),
        pytest.param(
            {**ALLOWED, **LOUD, "aspect": None}, "neutral_only", id="nothing there to drop"
        ),
    ],
)
def test_a_drop_needs_permission_and_a_loud_debate(changes, expected):
    assert verdict(case(**changes)) == expected


def test_the_first_condition_that_holds_decides():
    """Everything is against it; what stood in the way is taken away, one after another."""
    against: dict[str, Any] = {
        "overrides_so_far": 1,
        "valid_hints": 0,
        "evidence": None,
        "neg_score": 0.8,
        "pos_score": 0.7,
        "was_removed": True,
        "l3_risk": True,
        "aspect": aspect(TEXT, "배송", felt("negative", 0.9)),
        "contradicted_by_memory": True,
    }
    relieved = [
        {},
        {"overrides_so_far": 0},
        {"valid_hints": 2},
        {"evidence": "없는 말"},
        {"evidence": "비"},
        {"evidence": "비싸요"},
        {"neg_score": 1.6},
        {"was_removed": False, "pos_score": 0.0},
        {"l3_risk": False},
        {"aspect": aspect(TEXT, "가격", felt("negative", 0.9))},
        {"contradicted_by_memory": False},
        {"aspect": POSITIVE_06},
    ]
    seen = []
    for change in relieved:
        against.update(change)
        seen.append(verdict(case(**against)))
    assert seen == [
        "max_one_override_per_sample",
        "neutral_only",
        "no_evidence_span",
        "evidence_span_not_in_text",
        "evidence_span_missing_trigger",
        "low_signal",
        "action_ambiguity",
        "l3_conservative",
        "implicit_soft_only",
        "contradictory_memory",
        "already_confident",
        "flip",
    ]


def test_margin_comes_before_l3_and_removal_counts_as_ambiguity_even_with_a_clear_margin():
    assert verdict(case(was_removed=True, l3_risk=True)) == "action_ambiguity"


def test_every_verdict_has_a_condition():
    names = {name for name, _ in CONDITIONS}
    assert len(names) == 15 and {"add", "flip", "drop", "confirm"} <= names
    assert names == set(VERDICTS) == set(get_args(Verdict))


def test_every_verdict_is_counted_in_the_statistics():
    assert {f for v in VERDICTS.values() for f in v.counted_in} == set(OverrideStats.model_fields)
    conflicts = {code for code, v in VERDICTS.items() if v.counted_in == ("skipped_conflict",)}
    assert conflicts == {name.lower() for name in SkipReasons.model_fields}


def test_the_table_in_the_docs_is_that_of_the_code_in_the_order_of_the_gate():
    guide = Path(__file__).parents[1] / "docs" / "explanation" / "agents.md"
    for number, code in enumerate(conditions(allow_drop=False), start=1):
        assert VERDICTS[code].row == str(number)
    rows = [
        f"| {v.row} | {v.condition} | "
        f"{'**override** ' * (code in OVERRIDES)}`{code}` | {v.name} |\n"
        for code, v in sorted(VERDICTS.items(), key=lambda item: int(item[1].row.rstrip("a")))
    ]
    assert "|---|---|---|---|\n" + "".join(rows) + "\n" in guide.read_text(encoding="utf-8")


# Weighing ----------------------------------------------------------------------------------------


def weighed(
    *hints: Hint,
    own: tuple[str | None] | None = None,
    spans: tuple[str, ...] = ("비싸요",),
    on: Board | None = None,
    **more: Any,
) -> GateRecord:
    on = on or board(TEXT, POSITIVE_06)
    context = ReviewContext(summary=JudgeAnswer(sentence_evidence_spans=list(spans)))
    hinted = HintedAspect(
        key="가격",
        term="가격",
        hints=hints,
        own_evidence=own[0] if own else None,
        has_own_evidence=own is not None,
    )
    given: dict[str, Any] = {
        "removed": frozenset(),
        "risks": (),
        "overrides_so_far": 0,
        "settings": OverrideSettings(),
        **more,
    }
    return weigh(hinted, on, context, **given)


def test_scores_are_sums_of_weights_and_the_target_the_larger():
    record = weighed(hint("negative", 0.8), hint("neg", 0.5), hint("Positive", 0.5))
    assert (record.pos_score, record.neg_score) == (0.5, pytest.approx(1.3))
    assert (record.total, record.margin) == (pytest.approx(1.8), pytest.approx(0.8))
    assert (record.target, record.verdict, record.applied) == ("negative", "flip", True)


@pytest.mark.parametrize(
    ("spoken", "counts"),
    [
        ((hint("negative", 2.0),), (1, 0)),
        ((hint("negativ", 2.0),), (0, 1)),
        ((hint("positivee", 2.0), hint("bad", 2.0)), (0, 2)),
        ((hint("neutral", 2.0),), (0, 0)),
        ((hint(None, 2.0, op="drop_tuple"),), (0, 0)),
        ((), (0, 0)),
    ],
    ids=["exact", "misspelt: not repaired here", "two invalid", "neutral", "a drop", "no hints"],
)
def test_only_exact_spellings_of_positive_and_negative_count(spoken, counts):
    record = weighed(*spoken)
    assert (record.valid_hint_count, record.invalid_hint_count) == counts
    assert record.verdict == ("flip" if counts[0] else "neutral_only")
    assert record.target == ("negative" if counts[0] else None)


def test_a_vote_to_drop_is_no_vote_for_a_polarity():
    record = weighed(hint(None, 0.8, op="drop_tuple"), hint("negative", 1.6))
    assert (record.total, record.drop_score, record.verdict) == (1.6, 0.8, "flip")


STRONG = (hint("negative", 2.0),)


@pytest.mark.parametrize(
    ("own", "spans", "evidence", "expected"),
    [
        (("비싸요",), ("가격이",), "비싸요", "flip"),
        (("없는 말",), ("비싸요",), "없는 말", "evidence_span_not_in_text"),
        (("비",), ("비싸요",), "비", "evidence_span_missing_trigger"),
        ((None,), ("비싸요",), None, "no_evidence_span"),
        (("",), ("비싸요",), "", "no_evidence_span"),
        (None, ("비싸요", "가격이"), "비싸요", "flip"),
        (None, ("없는 말", "비싸요"), "없는 말", "evidence_span_not_in_text"),
        (None, (), None, "no_evidence_span"),
    ],
    ids=[
        "its own entry",
        "its own entry, though wrong",
        "its own entry, though short",
        "its own entry, though null",
        "its own entry, though empty",
        "the sentence's first span",
        "the sentence's first span, though wrong",
        "none at all",
    ],
)
def test_the_aspects_own_entry_comes_before_the_sentences_first_span(
    own, spans, evidence, expected
):
    record = weighed(*STRONG, own=own, spans=spans)
    assert (record.evidence, record.verdict) == (evidence, expected)
    assert record.own_evidence == (own[0] if own else None)


@pytest.mark.parametrize(
    "type_",
    ["NEGATION_SCOPE", "CONTRAST_SCOPE", "POLARITY_MISMATCH", "NEGATION", "CONTRAST", "IRONY"],
)
def test_each_l3_risk_holds_an_override_back(type_):
    assert weighed(*STRONG, risks=[Risk(type=type_)]).verdict == "l3_conservative"


@pytest.mark.parametrize(
    "type_", ["EVIDENCE_GAP", "SPAN_MISMATCH", "MISSING_SECOND_ASPECT", "OTHER"]
)
def test_other_risks_do_not(type_):
    assert weighed(*STRONG, risks=[Risk(type=type_)]).verdict == "flip"


def test_names_that_now_mean_one_aspect_are_weighed_together():
    on = board(TEXT, POSITIVE_06)
    on.revise_span("가격", on.aspects["가격"].span.model_copy(update={"end": 7}))  # 가격이 비싸요
    context = ReviewContext(
        summary=JudgeAnswer(),
        aspect_hints={
            "가격": [hint("negative", 1.0)],
            "배송": [hint("negative", 0.1)],
            "가격이 비싸요": [hint("negative", 0.6)],
        },
        aspect_evidence={"가격이 비싸요": "비싸요"},
    )
    first, second = hinted_aspects(context, on)
    assert (first.term, [h.weight for h in first.hints]) == ("가격이 비싸요", [1.0, 0.6])
    assert (first.own_evidence, first.has_own_evidence) == ("비싸요", True)
    assert (second.term, second.has_own_evidence) == ("배송", False)


def correction(**changes: Any) -> Correction:
    base: dict[str, Any] = {
        "source": "atsa_review",
        "proposal_type": "drop",
        "target_aspect": "가격",
        "applied": True,
        "after": None,
    }
    return Correction(**{**base, **changes})


@pytest.mark.parametrize(
    ("changes", "removed"),
    [
        ({}, True),
        ({"after": {"sentiments": []}}, True),
        ({"after": {"sentiments": [{"polarity": "negative"}]}}, False),
        ({"applied": False}, False),
        ({"source": "debate_override"}, False),
    ],
    ids=["aspect gone", "sentiments gone", "still there", "not applied", "not by a review"],
)
def test_an_aspect_counts_as_removed_only_by_an_applied_review(changes, removed):
    on = board(TEXT, POSITIVE_06)
    assert removed_aspects([correction(**changes)], on) == (
        frozenset({"가격"}) if removed else set()
    )


# Carrying out ------------------------------------------------------------------------------------


def record(**changes: Any) -> GateRecord:
    base: dict[str, Any] = {
        "aspect": "가격",
        "verdict": "flip",
        "applied": True,
        "hints": (
            hint("negative", 1.0),
            hint("negative", 1.0),
            hint("negative", 0.8, speaker="judge"),
        ),
        "target": "negative",
        "evidence": "비싸요",
        "own_evidence": None,
    }
    return GateRecord(**{**base, **changes})


def test_a_flip_sets_polarity_and_least_confidence_and_keeps_evidence():
    on = board(TEXT, aspect(TEXT, "가격", felt("positive", 0.6, "가격이")))
    entry = override(on, record(), 0.7)
    (only,) = on.find("가격").sentiments
    assert (only.polarity, only.confidence, only.evidence) == ("negative", 0.7, "가격이")
    assert (entry.source, entry.proposal_type) == ("debate_override", "debate_override_flip")
    assert entry.applied and entry.provenance == "source:epm/patch, source:judge/patch"
    assert entry.before["sentiments"][0]["polarity"] == "positive"
    assert entry.after["sentiments"][0]["polarity"] == "negative"


def test_a_flip_takes_the_aspects_own_evidence_and_a_higher_confidence_stays():
    on = board(TEXT, aspect(TEXT, "가격", felt("positive", 0.95, "가격이")))
    override(on, record(own_evidence="비싸요"), 0.7)
    (only,) = on.find("가격").sentiments
    assert (only.confidence, only.evidence) == (0.95, "비싸요")


def test_a_flip_touches_only_the_sentiments_that_are_not_settled():
    settled = felt("negative", 0.9, "가격이")
    on = board(TEXT, aspect(TEXT, "가격", settled, felt("negative", 0.2, "x"), backfilled()))
    override(on, record(own_evidence="비싸요"), 0.7)
    first, second, third = on.find("가격").sentiments
    assert first == settled
    assert (second.polarity, second.confidence, second.evidence) == ("negative", 0.7, "비싸요")
    assert (third.polarity, third.is_backfilled) == ("negative", False)


@pytest.mark.parametrize("known", [True, False], ids=["aspect without sentiments", "new aspect"])
def test_an_add_brings_the_aspect_along_so_that_it_survives(known):
    on = board(TEXT, *([aspect(TEXT, "가격")] if known else []))
    entry = override(on, record(verdict="add"), 0.7)
    added = on.find("가격")
    assert added.span is not None and added.span.start == 0
    (only,) = added.sentiments
    assert (only.polarity, only.confidence, only.evidence) == ("negative", 0.7, "비싸요")
    assert entry.proposal_type == "debate_override_add"


def test_a_confirm_raises_the_confidence_and_nothing_else():
    sure = felt("negative", 0.9, "가격이")
    on = board(TEXT, aspect(TEXT, "가격", felt("negative", 0.6, "가격이"), sure))
    entry = override(on, record(verdict="confirm", own_evidence="비싸요"), 0.7)
    first, second = on.find("가격").sentiments
    assert (first.polarity, first.confidence, first.evidence) == ("negative", 0.7, "가격이")
    assert second == sure
    assert (entry.proposal_type, entry.applied) == ("debate_override_confirm", True)


def test_a_drop_removes_the_aspect_and_logs_its_own_weight():
    on = board(TEXT, POSITIVE_06)
    entry = override(on, record(verdict="drop", drop_score=2.4), 0.7)
    assert "2.4" in entry.reason
    assert on.aspects == {}
    assert (entry.proposal_type, entry.after) == ("debate_override_drop", None)


# In the graph ------------------------------------------------------------------------------------

LONG = "가격이 비싸고 맛은 좋고 배송도 느려요."


def gated(changes: dict[str, Any] | None = None, **answers: Any) -> FinalOutput:
    """A debate that flips 가격 to negative, but for what a test changes."""
    base: dict[str, Any] = {
        "ate": ate("가격"),
        "atsa": atsa(("가격", "positive", "비싸요", 0.6)),
        **all_say("가격", "negative"),
        "judge": judge(set_polarity("가격", "negative"), spans=["비싸요"]),
    }
    return decide(TEXT, said(**{**base, **answers}), pipeline(override=changes or {}))


SILENT = {"epm": turn(), "tan": turn(), "cj": turn()}


@pytest.mark.parametrize(
    ("answers", "changes", "expected"),
    [
        ({}, {}, "flip"),
        ({}, {"max_overrides_per_sample": 0}, "max_one_override_per_sample"),
        (
            {**all_say("가격", "neutral"), "judge": judge(spans=["비싸요"])},
            {},
            "neutral_only",
        ),
        ({"judge": judge(set_polarity("가격", "negative"))}, {}, "no_evidence_span"),
        (
            {"judge": judge(set_polarity("가격", "negative"), spans=["싸다"])},
            {},
            "evidence_span_not_in_text",
        ),
        (
            {"judge": judge(set_polarity("가격", "negative"), evidence={"가격": "비"})},
            {},
            "evidence_span_missing_trigger",
        ),
        ({"judge": judge(spans=["비싸요"])}, {}, "low_signal"),
        ({"judge": judge(spans=["비싸요"])}, {"min_total": 1.5}, "flip"),
        (
            {"judge": judge(set_polarity("가격", "positive"), spans=["비싸요"])},
            {},
            "action_ambiguity",
        ),
        ({"atsa_review": atsa_review(("가격", "drop"))}, {}, "action_ambiguity"),
        ({"ate_review": ate_review(("가격", "drop"))}, {}, "action_ambiguity"),
        (
            {"validator": validator(proposals=[propose("DROP_ASPECT", "가격")])},
            {},
            "action_ambiguity",
        ),
        (
            {"atsa_review": atsa_review(("가격", "drop"), ("가격", "add", "positive", 0.4))},
            {},
            "action_ambiguity",
        ),
        ({"validator": validator("IRONY")}, {}, "l3_conservative"),
        ({"validator": validator("IRONY")}, {"l3_conservative": False}, "flip"),
        ({"validator_review": validator("IRONY")}, {}, "flip"),
        ({"atsa": atsa(("가격", "positive", "비싸요", 0.6, True))}, {}, "implicit_soft_only"),
        ({"ate": ate(), "atsa": atsa()}, {}, "add"),
        ({"atsa": atsa()}, {}, "flip"),
        ({"atsa": atsa(("가격", "negative", "비싸요", 0.7))}, {}, "already_confident"),
        (
            {"epm": turn(drop("가격")), "tan": turn(drop("가격")), "cj": turn(), "judge": judge()},
            {"allow_drop": True},
            "drop",
        ),
    ],
)
def test_the_verdict_in_a_whole_run(answers, changes, expected):
    out = gated(changes, **answers)
    (only,) = out.meta.override_gate
    assert only.verdict == expected
    applied = expected in ("flip", "add", "drop")
    assert out.meta.gate_decision == ("APPLY" if applied else "SKIP")
    assert out.meta.debate_override_stats.applied == int(applied)
    logged = [c for c in out.meta.correction_applied_log if c.source == "debate_override"]
    assert [c.proposal_type for c in logged] == ([f"debate_override_{expected}"] if applied else [])
    skipped = None if applied or expected == "max_one_override_per_sample" else expected
    assert out.meta.override_skipped_reason == skipped


@pytest.mark.parametrize(
    ("verdict_", "answers", "changes", "counted"),
    [
        (
            "neutral_only",
            {**SILENT, "judge": judge(drop("가격"))},
            {},
            {"neutral_only", "low_signal"},
        ),
        ("low_signal", {"judge": judge(spans=["비싸요"])}, {}, {"low_signal"}),
        ("l3_conservative", {"validator": validator("IRONY")}, {}, {"conflict"}),
        ("already_confident", {"atsa": atsa(("가격", "negative"))}, {"min_target_conf": 0.5}, None),
        ("max_one_override_per_sample", {}, {"max_overrides_per_sample": 0}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_skip_counts_where_it_belongs(verdict_, answers, changes, counted):
    stats = gated(changes, **answers).meta.debate_override_stats.model_dump()
    expected = {f"skipped_{name}" for name in counted or {verdict_}}
    assert {name for name, count in stats.items() if count} == expected


def test_the_conflicts_are_counted_by_kind():
    out = gated(validator=validator("NEGATION"))
    assert out.meta.debate_override_skip_reasons.model_dump() == {
        "action_ambiguity": 0,
        "L3_conservative": 1,
        "implicit_soft_only": 0,
        "contradictory_memory": 0,
    }


def three_flips(count: int) -> FinalOutput:
    spoken = turn(*(set_polarity(a, "negative") for a in ("맛", "가격", "배송")))
    answers = said(
        ate=ate("가격", "맛", "배송"),
        atsa=atsa(*((a, "positive", None, 0.6) for a in ("가격", "맛", "배송"))),
        epm=spoken,
        tan=spoken,
        cj=spoken,
        judge=judge(set_polarity("가격", "negative"), spans=["느려요"]),
    )
    settings = pipeline(override={"max_overrides_per_sample": count, "min_total": 1.5})
    return decide(LONG, answers, settings)


MAXED = "max_one_override_per_sample"


@pytest.mark.parametrize(
    ("count", "verdicts"),
    [
        (0, [MAXED, MAXED, MAXED]),
        (1, ["flip", MAXED, MAXED]),
        (2, ["flip", "flip", MAXED]),
        (3, ["flip", "flip", "flip"]),
    ],
)
def test_aspects_are_judged_in_order_of_first_mention_until_enough_are_overridden(count, verdicts):
    out = three_flips(count)
    assert [r.aspect for r in out.meta.override_gate] == ["맛", "가격", "배송"]
    assert [r.verdict for r in out.meta.override_gate] == verdicts
    assert out.meta.debate_override_stats.applied == count
    changed = {a for a, p in pairs(out.final_result.stage2_tuples) if p == "negative"}
    assert changed == set(["맛", "가격", "배송"][:count])


def test_the_skipped_reason_is_that_of_the_first_skip_other_than_having_had_its_one():
    spoken = turn(set_polarity("가격", "negative"), set_polarity("맛", "neutral"))
    out = decide(
        LONG,
        said(
            ate=ate("가격", "맛"),
            atsa=atsa(("가격", "positive", "비싸고", 0.6)),
            epm=turn(set_polarity("배송", "neutral"), *spoken["proposed_edits"]),
            tan=spoken,
            cj=spoken,
            judge=judge(set_polarity("가격", "negative"), spans=["비싸고"]),
        ),
    )
    assert [r.verdict for r in out.meta.override_gate] == ["neutral_only", "flip", MAXED]
    assert out.meta.override_skipped_reason == "neutral_only"


def test_an_added_tuple_survives_into_the_final_result():
    out = gated(ate=ate(), atsa=atsa())
    assert pairs(out.final_result.final_tuples) == {("가격", "negative")}
    (only,) = out.final_result.final_aspects
    assert (only.confidence, only.evidence, only.span.start) == (0.7, "비싸요", 0)


def test_edits_that_only_rename_weigh_nothing():
    out = gated(
        **{name: turn(edit("merge_tuples", "가격")) for name in ("epm", "tan", "cj")},
        judge=judge(edit("set_aspect_ref", "가격"), spans=["비싸요"]),
    )
    assert [r.verdict for r in out.meta.override_gate] == ["neutral_only"]


def test_confirming_counts_like_setting():
    spoken = turn(confirm("가격", "negative"))
    out = gated(epm=spoken, tan=spoken, cj=spoken)
    assert out.meta.override_gate[0].total == pytest.approx(2.3)
    assert out.meta.override_gate[0].verdict == "flip"


def test_a_misspelt_polarity_is_repaired_for_counting_but_not_at_the_gate():
    out = gated(**all_say("가격", "negativ"), judge=judge(spans=["비싸요"]))
    (only,) = out.meta.override_gate
    assert (only.verdict, only.invalid_hint_count) == ("neutral_only", 3)
    assert out.meta.polarity_repair_count == 3


def test_a_debate_about_nothing_skips_everything():
    out = gated(**SILENT, judge=judge())
    assert out.meta.override_gate == ()
    assert (out.meta.gate_decision, out.meta.override_skipped_reason) == ("SKIP", None)


@pytest.mark.parametrize("off", ["enable_debate_override", "enable_debate", "enable_stage2"])
def test_without_a_gate_the_decision_is_skip(off):
    answers = said(ate=ate("가격"), **all_say("가격", "negative"))
    out = decide(TEXT, answers, pipeline(**{off: False}))
    assert (out.meta.gate_decision, out.meta.override_gate) == ("SKIP", ())


def test_thresholds_of_the_shipped_profiles_let_more_and_more_through():
    """One speaker against none: 0.5 is too little for each; with the judge 1.3 is enough for t1."""
    profiles = {
        "t0": {**T0, "l3_conservative": True},
        "t1": {
            "min_total": 1.0,
            "min_margin": 0.5,
            "min_target_conf": 0.6,
            "l3_conservative": True,
        },
        "t2": {
            "min_total": 0.6,
            "min_margin": 0.3,
            "min_target_conf": 0.55,
            "l3_conservative": False,
        },
    }
    answers = {**SILENT, "epm": turn(set_polarity("가격", "negative"))}
    seen = {
        name: gated(changes, **answers, validator=validator()).meta.override_gate[0].verdict
        for name, changes in profiles.items()
    }
    assert seen == {"t0": "low_signal", "t1": "flip", "t2": "flip"}
