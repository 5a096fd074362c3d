"""Tuples with a category and an opinion term, where a category set is in force."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from scripted import (
    ScriptedBackend,
    ate,
    atsa,
    decide,
    judge,
    pipeline,
    said,
    turn,
    without_latency,
)

from absa.config import load_settings
from absa.graph import build, wiring
from absa.nodes.categories import categories_of, from_gold, shipped
from absa.schemas.answers import AteAnswer, ExtractAnswer, TurnAnswer, with_categories
from absa.schemas.errors import InputError
from absa.schemas.settings import SHIPPED_CATEGORIES, PipelineSettings

TEXT = "음식은 맛있지만 비싸고, 직원은 느려요. 최고예요!"
SET = ("food quality", "food prices", "service general", "restaurant general")


def item(term: str | None, category: str | None, polarity: str, **more: Any) -> dict[str, Any]:
    return {"aspect_term": term, "category": category, "polarity": polarity, **more}


def full(output: Any) -> list[tuple[str | None, str | None, str]]:
    return [(t.aspect_term, t.category, t.polarity) for t in output.final_result.final_tuples]


JOINT = {
    "tuples": [
        item("음식", "food quality", "positive", evidence="맛있지만", opinion_term="맛있"),
        item("음식", "FOOD#PRICES", "negative", evidence="비싸고"),
        item(None, "restaurant general", "positive", evidence="최고예요"),
        item("NULL", "service general", "negative", evidence="느려요"),
        item("직원", "staff mood", "negative", evidence="느려요"),
    ]
}


@pytest.mark.parametrize("protocol", ["single", "vote"])
def test_tuples_differ_by_their_category_and_unnamed_ones_are_told_apart(protocol: str) -> None:
    output = decide(TEXT, {"extract": JOINT}, pipeline(protocol=protocol, categories=SET))
    assert full(output) == [
        ("음식", "food quality", "positive"),
        ("음식", "food prices", "negative"),
        (None, "restaurant general", "positive"),
        (None, "service general", "negative"),
        ("직원", None, "negative"),
    ]
    assert output.meta.category_invalid_count == (1 if protocol == "single" else 10)
    assert output.final_result.final_aspects[0].opinion_term == "맛있"


def test_without_a_set_categories_say_nothing() -> None:
    backend = ScriptedBackend({"extract": JOINT})
    graph = build(pipeline(protocol="single"), backend)
    output = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    assert {c for _, c, _ in full(output)} == {None}
    assert (None, None, "positive") in full(output) and output.meta.category_invalid_count == 0
    (asked,) = backend.asked
    assert "categor" not in asked.system and "category" not in str(asked.answer.model_json_schema())


def test_agents_are_shown_the_set_with_a_gloss_in_the_language_of_the_text() -> None:
    for lang, gloss in (("ko", "음식: 품질"), ("en", "food: quality")):
        backend = ScriptedBackend({"extract": JOINT})
        build(pipeline(protocol="single", categories="restaurants"), backend).invoke(
            {"text": TEXT, "lang": lang}
        )
        (asked,) = backend.asked
        assert f"food quality: {gloss}" in asked.system
        schema = str(asked.answer.model_json_schema())
        assert "'restaurant miscellaneous'" in schema and "opinion_term" in schema
        assert "categories" not in asked.user


def test_the_schema_lists_the_categories_and_the_edit_only_with_a_set() -> None:
    for answer in (AteAnswer, ExtractAnswer, TurnAnswer):
        plain = str(answer.model_json_schema())
        shown = str(with_categories(answer, SET).model_json_schema())
        assert "x-with" not in plain + shown
        assert "set_category" not in plain and "food prices" not in plain
    assert "set_category" in str(with_categories(TurnAnswer, SET).model_json_schema())


def test_the_unnamed_item_of_ate_stands_for_all_categories() -> None:
    answers = said(
        ate=ate("음식", {"term": None}),
        atsa=atsa(
            {"aspect_ref": "음식", "category": "food quality", "polarity": "positive"},
            {"aspect_ref": None, "category": "restaurant general", "polarity": "positive"},
            {"aspect_ref": None, "category": "service general", "polarity": "negative"},
        ),
    )
    output = decide(TEXT, answers, pipeline(categories=SET))
    assert full(output) == [
        ("음식", "food quality", "positive"),
        (None, "restaurant general", "positive"),
        (None, "service general", "negative"),
    ]


def set_category(aspect: str | None, value: str, **target: Any) -> dict[str, Any]:
    return {"op": "set_category", "target": {"aspect_ref": aspect, **target}, "value": value}


STAGE1 = said(
    ate=ate("음식", {"term": None, "category": "service general"}),
    atsa=atsa(
        {
            "aspect_ref": "음식",
            "category": "food quality",
            "polarity": "negative",
            "evidence": "비싸고",
        },
        {
            "aspect_ref": None,
            "category": "service general",
            "polarity": "positive",
            "evidence": "최고예요",
        },
    ),
)


def debated(*, speaker: Any, patch: Any, tuples: Any = ()) -> Any:
    summary = judge(*patch)
    summary["final_tuples"] = list(tuples)
    answers = {**STAGE1, "epm": turn(*speaker), "judge": summary}
    return decide(TEXT, answers, pipeline(categories=SET))


@pytest.mark.parametrize(
    ("aspect", "target", "value", "before", "after"),
    [
        ("음식", {}, "food prices", ("음식", "food quality"), ("음식", "food prices")),
        (
            None,
            {"category": "service general"},
            "restaurant general",
            (None, "service general"),
            (None, "restaurant general"),
        ),
        (
            "service general",
            {},
            "RESTAURANT#GENERAL",
            (None, "service general"),
            (None, "restaurant general"),
        ),
    ],
)
def test_set_category_takes_effect_where_the_judge_and_a_speaker_agree(
    aspect: str | None, target: Any, value: str, before: Any, after: Any
) -> None:
    edit = set_category(aspect, value, **target)
    output = debated(speaker=[edit], patch=[edit])
    (entry,) = output.meta.correction_applied_log
    assert (entry.source, entry.proposal_type, entry.applied) == ("debate", "set_category", True)
    assert entry.provenance == "source:epm/patch, source:judge/patch"
    two = {(t.aspect_term, t.category) for t in output.final_result.stage2_tuples}
    assert after in two and before not in two
    hints = [h for found in output.debate.review_context.aspect_hints.values() for h in found]
    assert {(h.op, h.weight, h.polarity_hint) for h in hints} == {("set_category", 0.0, None)}


@pytest.mark.parametrize(
    ("speaker", "value", "reason", "invalid"),
    [
        ([], "food prices", "not_seconded", 0),
        ([set_category("음식", "service general")], "food prices", "not_seconded", 0),
        ([set_category("음식", "맛")], "맛", "invalid_category", 2),
        ([set_category("음식", "food quality")], "food quality", "no_change", 0),
    ],
)
def test_set_category_has_no_effect_otherwise(
    speaker: Any, value: str, reason: str, invalid: int
) -> None:
    output = debated(speaker=speaker, patch=[set_category("음식", value)])
    (entry,) = output.meta.correction_applied_log
    assert (entry.applied, entry.reason) == (False, reason)
    assert output.meta.category_invalid_count == invalid
    assert output.final_result.stage1_tuples == output.final_result.stage2_tuples


def test_another_category_is_a_change_that_can_be_adopted_or_blocked() -> None:
    edit = set_category("음식", "food prices")
    right = [
        item("음식", "food prices", "negative"),
        item(None, "service general", "positive"),
    ]
    adopted = debated(speaker=[edit], patch=[edit], tuples=right)
    assert (adopted.meta.adopt_decision, adopted.meta.adopt_reason) == ("adopted", "debate_action")
    assert ("음식", "food prices", "negative") in full(adopted)
    assert adopted.analysis_flags.correction_occurred
    blocked = debated(speaker=[edit], patch=[edit], tuples=right[1:])
    assert blocked.meta.adopt_reason == "conflict_blocked"
    assert ("음식", "food quality", "negative") in full(blocked)


def test_in_a_conflict_review_candidates_of_two_categories_are_two_tuples() -> None:
    items = [
        {**item("음식", "food quality", "positive"), "evidence": "맛있지만"},
        {**item(None, "weather", "positive"), "evidence": "최고예요"},
    ]
    answers = {node: {"triplets": items} for node in ("p_neg", "p_imp", "p_lit")}
    answers["p_neg"] = {"triplets": [{**items[0], "category": "food prices"}]}
    output = decide(TEXT, answers, pipeline(protocol="conflict_review", categories=SET))
    assert full(output) == [
        ("음식", "food prices", "positive"),
        ("음식", "food quality", "positive"),
        (None, None, "positive"),
    ]
    assert output.meta.category_invalid_count == 2


@pytest.mark.parametrize("protocol", ["single", "vote", "debate"])
def test_without_langgraph_the_decision_is_the_same(protocol: str) -> None:
    edit = set_category(None, "restaurant general", category="service general")
    answers = {**STAGE1, "extract": JOINT, "epm": turn(edit), "judge": judge(edit)}
    edges = wiring(pipeline(protocol=protocol, categories=SET))
    sample = {"text": TEXT, "uid": "u1"}
    compiled = edges.compile(backend=ScriptedBackend(answers)).invoke(sample)["output"]
    walked = edges.direct(ScriptedBackend(answers)).invoke(sample)["output"]
    assert without_latency(walked) == without_latency(compiled)


def test_settings_take_a_list_a_shipped_set_or_that_of_the_data() -> None:
    assert load_settings(overrides={"categories": ["a", "b"]}).pipeline.categories == ("a", "b")
    assert (
        load_settings(overrides={"pipeline.categories": "hotels"}).pipeline.categories == "hotels"
    )
    on_top = load_settings("default", overrides={"categories": "hotels"})
    assert on_top.pipeline.categories == "hotels"
    for wrong in ("hotel", (), ("a", "A")):
        with pytest.raises(ValidationError):
            PipelineSettings(categories=wrong)
    with pytest.raises(InputError, match="from_data"):
        categories_of(PipelineSettings(categories="from_data"))
    assert from_gold(["b", None, "A#x", "a x", " "]) == ("A#x", "b")


@pytest.mark.parametrize("name", SHIPPED_CATEGORIES)
def test_every_shipped_category_has_a_korean_and_an_english_gloss(name: str) -> None:
    found = shipped(name)
    for lang in ("ko", "en"):
        glosses = found.glosses(lang)
        assert glosses.keys() == set(found.names) and all(glosses.values())
    assert len(found.names) >= 12


def test_solved_examples_show_categories_only_with_a_set() -> None:
    demo = {"review": "x", "aspects": [item("soup", "food quality", "positive")]}
    for categories, shown in ((None, False), (SET, True)):
        backend = ScriptedBackend({"extract": JOINT})
        graph = build(pipeline(protocol="single", categories=categories), backend)
        graph.invoke({"text": TEXT, "lang": "ko", "demos": [demo]})
        (asked,) = backend.asked
        assert ("food quality" in asked.user) == shown
