"""Answers are read leniently: what cannot be read is left out and noted, the rest counts."""

from __future__ import annotations

import copy
import json

import pytest
from scripted import ate, decide, said

from absa.schemas.answers import (
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    JudgeAnswer,
    Span,
    TurnAnswer,
    ValidatorAnswer,
    read_answer,
)
from absa.schemas.errors import AnswerError, BackendError


@pytest.mark.parametrize(
    ("model", "raw", "field", "left", "noted"),
    [
        (AteAnswer, {"aspects": [{"term": "가격"}, {"confidence": 1}]}, "aspects", 1, "aspects.1"),
        (AteAnswer, {"aspects": [{"term": {}}, {"term": "맛"}]}, "aspects", 1, "aspects.0"),
        (AteAnswer, {"aspects": [None, "가격", 3, {"term": "맛"}]}, "aspects", 1, "aspects.0"),
        (AteAnswer, {"aspects": "가격"}, "aspects", 0, "aspects"),
        (AteAnswer, {"aspects": {"term": "가격"}}, "aspects", 0, "aspects"),
        (
            AtsaAnswer,
            {"aspect_sentiments": [{"aspect_ref": {"a": 1}}, {"aspect_ref": "맛"}]},
            "aspect_sentiments",
            1,
            "aspect_sentiments.0",
        ),
        (
            ValidatorAnswer,
            {"structural_risks": [{}, {"type": "IRONY"}]},
            "structural_risks",
            1,
            "0",
        ),
        (TurnAnswer, {"proposed_edits": [{"op": None}, {"op": "x"}]}, "proposed_edits", 1, "0"),
        (
            JudgeAnswer,
            {"sentence_evidence_spans": [{"a": 1}, "비싸요"], "final_patch": []},
            "sentence_evidence_spans",
            1,
            "sentence_evidence_spans.0",
        ),
        (JudgeAnswer, {"final_tuples": 7, "final_patch": []}, "final_tuples", 0, "final_tuples"),
        (AteReviewAnswer, {"aspect_review": [{"term": "가격"}]}, "aspect_review", 0, "0"),
    ],
)
def test_an_unreadable_item_is_left_out_with_a_note(model, raw, field, left, noted):
    answer, notes = read_answer(model, raw)
    assert len(getattr(answer, field)) == left
    assert notes and any(noted in note for note in notes)


def test_every_bad_item_of_a_long_list_goes_and_every_good_one_stays():
    raw = {"aspects": [{"term": str(n)} if n % 3 else {"bad": n} for n in range(30)]}
    answer, notes = read_answer(AteAnswer, raw)
    assert [a.term for a in answer.aspects] == [str(n) for n in range(30) if n % 3]
    assert len(notes) == 10


@pytest.mark.parametrize(
    ("model", "raw"),
    [
        (AteAnswer, {}),
        (AteAnswer, {"aspects": None}),
        (AteAnswer, {"error": "I cannot do that"}),
        (ValidatorAnswer, {"risks": []}),
        (TurnAnswer, {"edits": []}),
        (AteReviewAnswer, {"reviews": []}),
        (AteAnswer, []),
        (AteAnswer, "가격"),
        (AteAnswer, None),
        (AteAnswer, 3),
    ],
)
def test_an_answer_with_nothing_that_was_asked_for_is_a_failure(model, raw):
    with pytest.raises(AnswerError):
        read_answer(model, raw)


def test_a_null_stands_for_not_given():
    answer, notes = read_answer(
        ValidatorAnswer,
        {
            "structural_risks": None,
            "correction_proposals": [{"proposal_type": "FLIP_POLARITY", "target_aspect": None}],
            "suggested_label": None,
            "confidence": None,
        },
    )
    assert (answer.structural_risks, answer.suggested_label, answer.confidence) == ([], None, None)
    assert answer.correction_proposals[0].target_aspect is None
    assert notes == []


@pytest.mark.parametrize("key", ["aspects", "aspect_sentiments"])
@pytest.mark.parametrize("model", [AteReviewAnswer, AtsaReviewAnswer])
def test_a_full_list_from_a_reviewer_is_discarded_and_noted(model, key):
    (own,) = model.model_fields
    answer, notes = read_answer(model, {own: [], key: [{"term": "가격"}]})
    assert getattr(answer, own) == []
    assert notes == [f"{key} discarded: reviews only"]


def test_a_reviewer_that_gives_only_a_full_list_has_reviewed_nothing():
    answer, notes = read_answer(AteReviewAnswer, {"aspects": [{"term": "가격"}]})
    assert (answer.aspect_review, len(notes)) == ([], 1)


def test_the_violation_is_recorded_in_the_output_and_changes_nothing():
    full_list = {"aspect_review": [], "aspects": [{"term": "맛"}]}
    out = decide("가격이 비싸요.", said(ate=ate("가격"), ate_review=full_list))
    assert out.meta.stage2_review_violation == ("ate_review: aspects discarded: reviews only",)
    assert [t.aspect_term for t in out.final_result.stage2_tuples] == ["가격"]


def test_the_callers_answer_is_not_touched():
    raw = {
        "aspects": [{"term": "가격", "span": [0, 2]}, None, {"bad": 1}],
        "aspect_sentiments": None,
        "more": {"deep": [1, 2]},
    }
    before = copy.deepcopy(raw)
    read_answer(AteAnswer, raw)
    assert raw == before


def test_an_answer_that_is_already_read_is_returned_as_it_is():
    answer = AteAnswer()
    assert read_answer(AteAnswer, answer) == (answer, [])


@pytest.mark.parametrize(
    ("said_span", "read_span"),
    [
        ({"start": 0, "end": 2}, Span(start=0, end=2)),
        ([0, 2], Span(start=0, end=2)),
        (None, None),
        ([0], None),
        (["0", "2"], None),
        ([True, 2], None),
        ({"start": 0}, None),
        ("0-2", None),
        (5, None),
    ],
)
def test_a_span_is_read_in_either_spelling_or_not_at_all(said_span, read_span):
    answer, notes = read_answer(AteAnswer, {"aspects": [{"term": "가격", "span": said_span}]})
    assert (answer.aspects[0].span, notes) == (read_span, [])


@pytest.mark.parametrize(
    ("spoken", "understood"),
    [
        (0.4, 0.4),
        ("0.4", 0.4),
        (7, 1.0),
        (-1, 0.0),
        (True, 1.0),
        ("high", None),
        (None, None),
        ([0.4], None),
        (float("nan"), None),
        (float("inf"), 1.0),
    ],
)
def test_a_confidence_is_a_number_between_0_and_1_or_not_given(spoken, understood):
    answer, _ = read_answer(AteAnswer, {"aspects": [{"term": "가격", "confidence": spoken}]})
    assert answer.aspects[0].confidence == understood


@pytest.mark.parametrize(
    ("spoken", "understood"),
    [("가격", "가격"), (3, "3"), (["가격", "맛"], "가격"), (True, "True")],
)
def test_a_word_may_come_as_a_number_or_in_a_list(spoken, understood):
    answer, _ = read_answer(AteAnswer, {"aspects": [{"term": spoken}]})
    assert answer.aspects[0].term == understood


@pytest.mark.parametrize(
    ("risk", "understood"),
    [
        ({"type": "NEGATION_SCOPE", "severity": "high"}, ("NEGATION_SCOPE", "high")),
        ({"type": "negation scope", "severity": "Medium"}, ("NEGATION_SCOPE", "mid")),
        ({"type": "sarcasm", "severity": "severe"}, ("OTHER", "mid")),
        ({"type": None}, ("OTHER", "mid")),
    ],
)
def test_risks_of_unknown_type_or_severity_are_kept_under_a_known_one(risk, understood):
    answer, _ = read_answer(ValidatorAnswer, {"structural_risks": [risk]})
    (only,) = answer.structural_risks
    assert (only.type, only.severity) == understood


def test_the_judges_evidence_may_be_a_mapping_and_its_span_a_single_string():
    answer, notes = read_answer(
        JudgeAnswer,
        {"aspect_evidence": {"가격": "비싸요"}, "sentence_evidence_spans": "비싸요"},
    )
    assert [(e.aspect_ref, e.evidence) for e in answer.aspect_evidence] == [("가격", "비싸요")]
    assert (answer.sentence_evidence_spans, notes) == (["비싸요"], [])


def test_an_answer_that_cannot_be_read_fails_the_run_with_its_raw_text():
    with pytest.raises(BackendError) as failure:
        decide("가격이 비싸요.", said(atsa={"sorry": "못 하겠습니다"}))
    assert failure.value.node == "atsa"
    assert json.loads(str(failure.value.raw)) == {"sorry": "못 하겠습니다"}


def test_an_agent_without_an_answer_fails_the_run_and_is_named():
    answers = said()
    del answers["cj"]
    with pytest.raises(BackendError, match="cj"):
        decide("가격이 비싸요.", answers)


def test_what_was_left_out_is_noted_in_the_trace_beside_the_raw_answer():
    raw = {"aspects": [{"term": "가격"}, {"confidence": 1}]}
    out = decide("가격이 비싸요.", said(ate=raw))
    call = next(c for c in out.process_trace if c.node == "ate")
    assert call.output == raw
    assert len(call.notes) == 1 and call.notes[0].startswith("aspects.1")


def test_a_flag_that_is_no_flag_is_not_given():
    raw = {"aspect_sentiments": [{"aspect_ref": "가격", "is_implicit": "perhaps"}]}
    answer, notes = read_answer(AtsaAnswer, raw)
    assert answer.aspect_sentiments[0].is_implicit is None
    assert not notes


@pytest.mark.parametrize(("target", "means"), [("가격", "가격"), (None, None)])
def test_a_bare_word_as_target_is_the_aspect_it_names(target, means):
    raw = {"proposed_edits": [{"op": "drop_tuple", "target": target}]}
    answer, _ = read_answer(TurnAnswer, raw)
    assert answer.proposed_edits[0].target.aspect_ref == means


def test_a_confidence_beyond_all_numbers_does_not_end_the_run():
    raw = json.loads('{"aspects": [{"term": "가격", "confidence": 1%s}]}' % ("0" * 400))
    answer, _ = read_answer(AteAnswer, raw)
    assert answer.aspects[0].confidence in (None, 1.0)
