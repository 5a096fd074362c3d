"""Three independent answers become one result."""

from __future__ import annotations

import unicodedata

import pytest
from scripted import ate, atsa, decide, pairs, pipeline, polarities, said, validator

from absa.nodes.board import backfilled
from absa.nodes.language import language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.stage1 import anchor, merge_aspects, second_aspect, with_missing_second_aspect
from absa.schemas.answers import AteAnswer, AtsaAnswer, Span, ValidatorAnswer
from absa.schemas.records import AspectRecord, StageResult

KO, EN = language("ko"), language("en")
TEXT = "가격은 비싸지만 맛은 좋아요."


def merged(answer: dict, text: str = TEXT) -> list[tuple[str, tuple[int, int] | None]]:
    found = merge_aspects(AteAnswer.model_validate(answer), text, KO)
    return [(a.term, (a.span.start, a.span.end) if a.span else None) for a in found]


def anchored(text: str, answer: dict, *terms: str) -> tuple[StageResult, PolarityCounter]:
    counter = PolarityCounter()
    aspects = merge_aspects(AteAnswer.model_validate(ate(*terms)), text, KO)
    return anchor(AtsaAnswer.model_validate(answer), aspects, KO, counter), counter


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ate("가격", "맛"), [("가격", (0, 2)), ("맛", (9, 10))]),
        (ate("가격은"), [("가격", (0, 2))]),
        (ate({"term": "가격은", "span": [0, 3]}), [("가격", (0, 2))]),
        (ate({"term": "가격", "span": [5, 7]}), [("가격", (0, 2))]),
        (ate({"term": "가격", "span": [-4, 99]}), [("가격", (0, 2))]),
        (ate("배송"), [("배송", None)]),
        (ate({"term": "배송", "span": [0, 2]}), [("배송", None)]),
        (ate("가격", "가격은", "가격!"), [("가격", (0, 2))]),
        (ate("..."), []),
        (ate("", "  ", "NULL", {"term": None}), [(None, None)]),
        (ate(), []),
    ],
    ids=[
        "two aspects",
        "particle stripped",
        "particle stripped, span cut",
        "span re-located",
        "span outside the text",
        "not in the text: implicit",
        "not in the text, a span given",
        "duplicates by key dropped, the first kept",
        "no letters: no aspect",
        "named nothing: one unnamed aspect",
        "nothing",
    ],
)
def test_aspects_are_stripped_located_and_told_apart(answer, expected):
    assert merged(answer) == expected


def test_a_span_of_the_second_occurrence_is_kept():
    assert merged(ate({"term": "맛은", "span": [6, 8]}), "맛은 맛, 맛은 별로") == [("맛", (6, 7))]


def test_decomposed_hangul_is_found_in_its_decomposed_text():
    text = unicodedata.normalize("NFD", "가격은 비싸요.")
    term = unicodedata.normalize("NFD", "가격은")
    assert merged(ate(term), text) == [(unicodedata.normalize("NFD", "가격"), (0, 5))]


@pytest.mark.parametrize(
    ("text", "lang", "terms", "second"),
    [
        (TEXT, KO, ["가격"], "맛"),
        (TEXT, KO, ["맛"], "가격"),
        (TEXT, KO, [], "가격"),
        (TEXT, KO, ["가격", "맛"], None),
        ("가격은 비싸지만 좋아요.", KO, [], None),
        ("가격은 비싸고 맛은 좋아요.", KO, ["가격"], None),
        ("가격은 비싸지만 좋아요.", KO, ["가격"], None),
        ("가격은 비싸지만 가격은 괜찮아요.", KO, ["가격"], None),
        ("The food was good but the service was slow.", EN, ["food"], "service"),
        ("The food was good but slow.", EN, ["food"], None),
    ],
    ids=[
        "other clause after",
        "other clause before",
        "no aspect at all: the first clause",
        "two aspects already",
        "no aspect at all and one side without a subject",
        "no contrast marker",
        "other clause without a subject",
        "other clause about the same aspect",
        "english",
        "english, no subject",
    ],
)
def test_a_contrast_with_one_side_takes_the_aspect_of_the_other_clause(text, lang, terms, second):
    aspects = merge_aspects(AteAnswer.model_validate(ate(*terms)), text, lang)
    found = second_aspect(aspects, text, lang)
    assert (found.term if found else None) == second
    if found is not None:
        assert found.span is not None and text[found.span.start : found.span.end] == second


def test_an_implicit_aspect_does_not_occupy_a_clause():
    found = second_aspect([AspectRecord(term="배송")], TEXT, KO)
    assert found is not None and found.term == "가격"


def test_the_injected_aspect_is_backfilled_and_the_validator_gains_a_risk():
    out = decide(TEXT, said(ate=ate("가격"), atsa=atsa(("가격", "negative", "비싸지만", 0.9))))
    assert pairs(out.final_result.stage1_tuples) == {("가격", "negative"), ("맛", "neutral")}
    assert out.stage1_validator.issues == ("MISSING_SECOND_ASPECT:mid",)


def test_the_injected_aspect_takes_the_sentiment_that_atsa_found_for_it():
    out = decide(
        TEXT,
        said(
            ate=ate("가격"),
            atsa=atsa(("가격", "negative", "비싸지만", 0.9), ("맛은", "positive", "좋아요", 0.8)),
        ),
    )
    assert pairs(out.final_result.stage1_tuples) == {("가격", "negative"), ("맛", "positive")}
    assert out.meta.unanchored_count == 0


def test_without_a_validator_the_second_aspect_comes_and_no_risk_does():
    answers = said(ate=ate("가격"))
    del answers["validator"], answers["validator_review"]
    out = decide(TEXT, answers, pipeline(enable_validator=False))
    assert {t.aspect_term for t in out.final_result.stage1_tuples} == {"가격", "맛"}
    assert out.stage1_validator.issues == () and out.meta.stage1_risks == 0


def test_the_missing_second_aspect_is_added_to_the_risks_that_were_seen():
    answer = ValidatorAnswer.model_validate(validator("IRONY"))
    second = AspectRecord(term="맛", span=Span(start=9, end=10))
    risks = with_missing_second_aspect(answer, second).structural_risks
    assert [r.type for r in risks] == ["IRONY", "MISSING_SECOND_ASPECT"]
    assert risks[1].span == second.span
    assert len(answer.structural_risks) == 1


@pytest.mark.parametrize(
    ("answer", "expected", "apart"),
    [
        (atsa(("가격은", "negative", "비싸지만", 0.9)), {"가격": ["negative"]}, 0),
        (atsa(("가격", "positive"), ("가격", "negative")), {"가격": ["positive", "negative"]}, 0),
        (atsa(("맛", "positive")), {"가격": ["neutral"]}, 1),
        (atsa((None, "positive")), {"가격": ["neutral"]}, 1),
        (atsa(("값", "negative")), {"가격": ["neutral"]}, 1),
        (atsa(), {"가격": ["neutral"]}, 0),
        (atsa(("가격", "bad")), {"가격": ["neutral"]}, 0),
    ],
    ids=[
        "anchored by key",
        "two sentiments of one aspect",
        "unanchored: another aspect",
        "unanchored: no aspect named",
        "a synonym is not the same aspect",
        "backfilled",
        "invalid left out, then backfilled",
    ],
)
def test_sentiments_are_anchored_by_aspect_key(answer, expected, apart):
    result, _ = anchored(TEXT, answer, "가격")
    assert polarities(result) == expected
    assert len(result.unanchored) == apart


def test_a_backfill_is_marked_weak_and_without_evidence():
    result, _ = anchored(TEXT, atsa(), "가격")
    (only,) = result.aspects[0].sentiments
    assert only == backfilled()
    assert (only.polarity, only.confidence, only.evidence) == ("neutral", 0.3, None)
    assert only.is_backfilled


def test_an_unanchored_sentiment_is_counted_and_in_no_tuple():
    out = decide(
        "가격이 비싸요.", said(ate=ate("가격"), atsa=atsa(("배송", "positive", "비싸요", 0.9)))
    )
    assert out.meta.unanchored_count == 1
    assert pairs(out.final_result.final_tuples) == {("가격", "neutral")}


@pytest.mark.parametrize(
    ("term", "says_so", "implicit"),
    [("가격", False, False), ("가격", None, False), ("가격", True, True), ("배송", False, True)],
    ids=["in the text", "not said", "said to be", "no place in the text"],
)
def test_a_sentiment_is_implicit_if_it_says_so_or_has_no_place(term, says_so, implicit):
    out = decide(
        "가격이 비싸요.",
        said(ate=ate(term), atsa=atsa((term, "negative", "비싸요", 0.9, says_so))),
    )
    assert out.final_result.final_aspects[0].is_implicit is implicit


def test_a_sentiment_keeps_confidence_zero_and_gets_a_half_where_none_is_given():
    answer = atsa(("가격", "negative", None, 0.0), ("가격", "positive"))
    result, _ = anchored(TEXT, answer, "가격")
    assert [s.confidence for s in result.aspects[0].sentiments] == [0.0, 0.5]


def test_polarity_words_are_counted_while_anchoring():
    _, counter = anchored(TEXT, atsa(("가격", "negatve"), ("맛", "??"), ("가격", "NEG")), "가격")
    assert (counter.repaired, counter.invalid) == (1, 1)


def test_evidence_that_is_not_in_the_text_is_kept_marked_and_counted():
    out = decide(
        "가격이 비싸요.", said(ate=ate("가격"), atsa=atsa(("가격", "negative", "너무 비쌈", 0.9)))
    )
    (only,) = out.final_result.final_aspects
    assert (only.evidence, only.is_grounded) == ("너무 비쌈", False)
    assert out.meta.ungrounded_count == 1
    assert out.stage1_atsa is None


def test_without_a_validator_an_empty_validation_stands_in_the_output():
    answers = said(ate=ate("가격"))
    del answers["validator"], answers["validator_review"]
    out = decide("가격이 비싸요.", answers, pipeline(enable_validator=False))
    assert (out.stage1_validator.issues, out.stage1_validator.suggested_label) == ((), None)
    assert out.stage2_validator is None and out.meta.stage2_risks is None
