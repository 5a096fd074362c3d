"""A judgement of something that the text does not name: `aspect_term` is null, from end to end."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    all_say,
    ate,
    atsa,
    decide,
    judge,
    pipeline,
    said,
    set_polarity,
    without_latency,
)

from absa.graph import build, wiring

TEXT = "정말 최고예요! 그런데 배송은 느려요."
NOTHING = [None, "NULL", "null", "None", "", "  "]


def tuples(output: Any) -> list[tuple[str | None, str]]:
    return [(t.aspect_term, t.polarity) for t in output.final_result.final_tuples]


def extracted(term: str | None) -> dict[str, Any]:
    return {
        "tuples": [
            {"aspect_term": "배송", "polarity": "negative", "evidence": "느려요"},
            {"aspect_term": term, "polarity": "positive", "evidence": "정말 최고예요"},
        ]
    }


@pytest.mark.parametrize("term", NOTHING)
@pytest.mark.parametrize("protocol", ["single", "vote"])
def test_a_joint_answer_that_names_nothing_gives_an_unnamed_tuple(
    protocol: str, term: str | None
) -> None:
    settings = pipeline(protocol=protocol, vote={"n": 2})
    output = decide(TEXT, {"extract": extracted(term)}, settings)
    assert tuples(output) == [("배송", "negative"), (None, "positive")]
    unnamed = output.final_result.final_aspects[1]
    assert (unnamed.span, unnamed.is_implicit, unnamed.is_grounded) == (None, True, True)
    assert output.meta.unanchored_count == 0
    assert output.final_result.label == "mixed"


def test_a_text_that_names_nothing_has_the_label_of_its_judgement() -> None:
    answer = {"tuples": [{"aspect_term": None, "polarity": "positive", "evidence": "최고예요"}]}
    assert (
        decide(
            "정말 최고예요!", {"extract": answer}, pipeline(protocol="single")
        ).final_result.label
        == "positive"
    )


def test_an_adjective_that_stands_for_a_name_is_still_set_apart() -> None:
    answer = {"tuples": [{"aspect_term": "tasty", "polarity": "positive", "evidence": "so tasty"}]}
    output = decide("It was so tasty!", {"extract": answer}, pipeline(protocol="single"), "en")
    assert (tuples(output), output.meta.unanchored_count) == ([], 1)


UNNAMED = said(
    ate=ate("배송", {"term": "NULL"}),
    atsa=atsa(("배송", "negative", "느려요", 0.9), (None, "positive", "정말 최고예요", 0.5)),
)


def test_in_the_debate_ate_and_atsa_meet_in_the_unnamed_aspect() -> None:
    output = decide(TEXT, UNNAMED)
    assert tuples(output) == [("배송", "negative"), (None, "positive")]
    assert output.patched_stage2_atsa is not None
    assert [s.aspect_ref for s in output.patched_stage2_atsa.aspect_sentiments] == ["배송", None]


def test_what_names_nothing_and_is_not_judged_is_not_backfilled() -> None:
    output = decide(TEXT, said(ate=ate("배송", ""), atsa=atsa(("배송", "negative", "느려요"))))
    assert tuples(output) == [("배송", "negative")]


@pytest.mark.parametrize("ref", [None, "implicit", "Implicit"])
def test_the_debate_speaks_of_it_by_its_name_or_by_naming_nothing(ref: str | None) -> None:
    summary = judge(set_polarity(ref, "negative"), evidence={ref: "정말 최고예요"})
    output = decide(TEXT, {**UNNAMED, **all_say(ref, "negative"), "judge": summary})
    (record,) = output.meta.override_gate
    assert (record.aspect, record.verdict) == ("implicit", "implicit_soft_only")
    assert output.meta.mapping_stats.direct > 0
    assert tuples(output) == [("배송", "negative"), (None, "positive")]


def test_agents_are_shown_a_name_for_it() -> None:
    backend = ScriptedBackend(UNNAMED)
    build(pipeline(), backend).invoke({"text": TEXT, "lang": "ko"})
    shown = [s["aspect_term"] for s in backend.inputs_of("epm")["stage1"]["sentiments"]]
    assert shown == ["배송", "implicit"]


def test_a_candidate_of_the_conflict_review_may_name_nothing() -> None:
    item = {"aspect_term": None, "polarity": "positive", "evidence": "정말 최고예요"}
    answers = {node: {"triplets": [item]} for node in ("p_neg", "p_imp", "p_lit")}
    output = decide(TEXT, answers, pipeline(protocol="conflict_review"))
    assert tuples(output) == [(None, "positive")]
    assert [c.aspect_term for c in output.meta.candidates] == [None] * 3


@pytest.mark.parametrize("protocol", ["single", "debate"])
def test_without_langgraph_the_decision_is_the_same(protocol: str) -> None:
    answers = {**UNNAMED, "extract": extracted(None)}
    edges, sample = wiring(pipeline(protocol=protocol)), {"text": TEXT, "uid": "u1"}
    compiled = edges.compile(backend=ScriptedBackend(answers)).invoke(sample)["output"]
    walked = edges.direct(ScriptedBackend(answers)).invoke(sample)["output"]
    assert without_latency(walked) == without_latency(compiled)
    assert tuples(walked) == [("배송", "negative"), (None, "positive")]
