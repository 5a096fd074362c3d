"""The persona debate: prose instead of edits, hints from stances, the same graph around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    ate,
    ate_review,
    atsa,
    atsa_review,
    pairs,
    pipeline,
    validator,
)

from absa import build_graph, load_settings
from absa.cli import run as absa
from absa.graph import build
from absa.nodes.language import language
from absa.schemas.output import FinalOutput

TEXT = "화면은 선명한데 소리가 별로 크지 않네요."
PERSONA = {"debate": {"protocol": "persona"}}


def turn(stance: str | None = None, message: str = "", *points: str) -> dict[str, Any]:
    return {
        "speaker": "someone",
        "stance": stance,
        "planning": "p",
        "reflection": "r",
        "message": message,
        "key_points": list(points),
    }


def judge(**said: Any) -> dict[str, Any]:
    silent = {"winner": None, "consensus": None, "rationale": None}
    return {**silent, "key_agreements": [], "key_disagreements": [], **said}


def answers(**given: Any) -> dict[Any, Any]:
    silent = {
        "ate": ate("화면", "소리"),
        "atsa": atsa(("화면", "positive", "선명한데", 0.9), ("소리", "positive", "크지", 0.6)),
        "validator": validator(),
        "analyst": turn("neutral"),
        "critic": turn("con"),
        "empath": turn("pro"),
        "judge": judge(),
        "ate_review": ate_review(),
        "atsa_review": atsa_review(),
        "validator_review": validator(),
    }
    return {**silent, **given}


def held(given: dict[Any, Any], text: str = TEXT, **changes: Any) -> FinalOutput:
    settings = pipeline(**{**PERSONA, **changes})
    graph = build(settings, ScriptedBackend(given))
    output: FinalOutput = graph.invoke({"text": text, "lang": "ko"})["output"]
    return output


def hints_on(output: FinalOutput) -> dict[str, list[tuple[str, float, str | None]]]:
    return {
        r.aspect: [(h.speaker, h.weight, h.polarity_hint) for h in r.hints]
        for r in output.meta.override_gate
    }


def test_the_protocol_brings_its_speakers_its_order_and_its_rounds() -> None:
    debate = load_settings("configs/persona_debate.yaml").pipeline.debate
    assert (debate.rounds, debate.order) == (2, ("analyst", "critic", "empath"))
    assert {name: p.stance for name, p in debate.speakers.items()} == {
        "analyst": "neutral",
        "critic": "con",
        "empath": "pro",
    }
    once = load_settings(None, {"pipeline.debate": {"protocol": "persona", "rounds": 1}})
    assert once.pipeline.debate.rounds == 1
    assert load_settings().pipeline.debate.order == ("epm", "tan", "cj")


def test_two_rounds_are_a_loop_and_every_turn_is_kept() -> None:
    output = held(answers())
    spoken = [(c.node, c.turn) for c in output.process_trace if c.node in ("analyst", "critic")]
    assert spoken == [("analyst", 0), ("critic", 0), ("analyst", 1), ("critic", 1)]
    assert output.debate is not None
    assert [len(r.turns) for r in output.debate.rounds] == [3, 3]
    first = output.debate.rounds[0].turns[0]
    assert (first.speaker, first.stance, first.planning) == ("analyst", "neutral", "p")
    assert first.proposed_edits == ()


def test_later_speakers_hear_what_was_said_but_not_what_was_planned() -> None:
    backend = ScriptedBackend(answers(analyst=turn("neutral", "화면 only", "화면")))
    build(pipeline(**PERSONA), backend).invoke({"text": TEXT})
    (heard,) = backend.inputs_of("critic")["history"]
    assert heard == {
        "agent": "analyst",
        "stance": "neutral",
        "message": "화면 only",
        "key_points": ["화면"],
    }


@pytest.mark.parametrize(
    ("stance", "weight", "polarity"),
    [
        ("pro", 1.0, "positive"),
        ("con", 1.0, "negative"),
        ("neutral", 0.6, "neutral"),
        ("doubtful", 0.8, "neutral"),
        (None, 1.0, "negative"),  # the critic's own
    ],
)
def test_hints_come_from_the_stance(stance: str | None, weight: float, polarity: str) -> None:
    said = answers(analyst=turn("x"), empath=turn("x"), critic=turn(stance, "소리가 작다"))
    output = held(said, debate={"protocol": "persona", "rounds": 1})
    assert hints_on(output) == {"소리": [("critic", weight, polarity)]}


def test_a_synonym_names_an_aspect_too() -> None:
    group = next(iter(language("ko").synonyms("가격")))
    said = answers(
        ate=ate("가격"),
        atsa=atsa(("가격", "positive", "가격은", 0.9)),
        analyst=turn("x"),
        empath=turn("x"),
        critic=turn("con", f"{group}이 문제다"),
    )
    output = held(said, "가격은 괜찮아요.", debate={"protocol": "persona", "rounds": 1})
    assert hints_on(output) == {"가격": [("critic", 1.0, "negative")]}


@pytest.mark.parametrize(
    ("given", "stats", "reason"),
    [
        ({"critic": turn("con", "소리가 작다")}, "direct", None),
        ({"critic": turn("pro", "다 좋다")}, "fallback", "fallback_used"),
        ({"critic": turn("con", "다 나쁘다")}, "none", "no_match"),
        ({"critic": turn("neutral", "글쎄")}, "none", "neutral_stance"),
        ({"critic": turn("con", "소리"), "ate": ate(), "atsa": atsa()}, "none", "no_aspects"),
    ],
)
def test_each_way_a_turn_can_be_mapped_or_not(
    given: dict[str, Any], stats: str, reason: str | None
) -> None:
    debate = {"protocol": "persona", "rounds": 1, "order": ["critic"]}
    output = held(answers(**given), debate=debate)
    assert {k: v for k, v in output.meta.mapping_stats.model_dump().items() if v} == {stats: 1}
    why = {k: v for k, v in output.meta.mapping_fail_reasons.model_dump().items() if v}
    assert why == ({reason: 1} if reason else {})


def test_a_fallback_speaks_of_every_aspect_of_its_polarity() -> None:
    debate = {"protocol": "persona", "rounds": 1, "order": ["empath"]}
    output = held(answers(empath=turn("pro", "다 좋다")), debate=debate)
    assert set(hints_on(output)) == {"화면", "소리"}


def test_the_gate_takes_stage_1s_evidence_and_the_sentiment_keeps_it() -> None:
    said = answers(
        critic=turn("con", "소리가 작다"),
        empath=turn("con", "소리가 작다"),
        judge=judge(consensus="mixed"),
    )
    output = held(said, override={"ev_threshold": 0.0})
    (record,) = [r for r in output.meta.override_gate if r.aspect == "소리"]
    assert (record.verdict, record.evidence, record.total) == ("flip", "크지", 4.0)
    (sound,) = [a for a in output.final_result.final_aspects if a.aspect_term == "소리"]
    assert (sound.polarity, sound.evidence) == ("negative", "크지")
    (entry,) = output.meta.correction_applied_log
    assert entry.provenance == "source:critic/con, source:empath/con"


def test_without_stage_1_evidence_there_is_none() -> None:
    said = answers(
        atsa=atsa(("소리", "positive", "", 0.6)),
        critic=turn("con", "소리가 작다"),
        empath=turn("con", "소리가 작다"),
    )
    assert "no_evidence_span" in [r.verdict for r in held(said).meta.override_gate]


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ({"consensus": "의견이 엇갈린다"}, "mixed"),
        ({"consensus": "대체로 긍정적이다"}, "positive"),
        ({"rationale": "The panel finds it NEGATIVE."}, "negative"),
        ({"key_agreements": ["비판이 많다"]}, "negative"),
        ({"key_disagreements": ["판단이 모호하다"]}, "neutral"),
        # The first of the list wins, wherever it stands.
        ({"consensus": "부정", "rationale": "mixed"}, "mixed"),
        ({"consensus": "no idea"}, None),
    ],
)
def test_rule_e_reads_the_judges_words(said: dict[str, Any], label: str | None) -> None:
    low = atsa(("화면", "positive", "선명한데", 0.5), ("소리", "positive", "크지", 0.5))
    output = held(answers(atsa=low, judge=judge(**said)))
    assert output.moderator is not None
    flags = output.moderator.arbiter_flags
    if label is None:
        assert flags.rule_e_block_reason == "inferred_empty"
    elif label == "positive":
        assert flags.rule_e_block_reason == "label_unchanged"
    else:
        assert (flags.rule_e_fired, output.final_result.label) == (True, label)


def test_reviews_about_an_aspect_carry_who_spoke_of_it() -> None:
    said = answers(
        critic=turn("con", "소리가 작다"),
        atsa_review=atsa_review(("소리", "flip_polarity", "negative")),
    )
    output = held(said, debate={"protocol": "persona", "rounds": 1})
    (entry,) = [c for c in output.meta.correction_applied_log if c.source == "atsa_review"]
    # The empath named nothing and so spoke of everything positive.
    assert entry.provenance == "source:critic/con, source:empath/pro"


def test_reviewers_hear_the_arguments_and_the_output_holds_what_they_were_told() -> None:
    backend = ScriptedBackend(answers(critic=turn("con", "소리가 작다", "소리: 크지 않네요")))
    graph = build(pipeline(debate={"protocol": "persona", "rounds": 1}), backend)
    out = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    told = {
        "speaker": "critic",
        "stance": "con",
        "key_points": ("소리: 크지 않네요",),
        "weight": 1.0,
        "polarity_hint": "negative",
    }
    for reviewer in ("ate_review", "atsa_review"):
        question = next(q for q in backend.asked if q.node == reviewer)
        assert told in question.inputs["review_context"]["rebuttal_points"]
        # The model reads it too, weights included.
        shown = json.loads(question.user)["review_context"]
        assert {**told, "key_points": ["소리: 크지 않네요"]} in shown["rebuttal_points"]
        # Weights of single hints are not for a model.
        assert "weight" not in shown["aspect_hints"]["소리"][0]
    context = out.debate.review_context
    assert context is not None and context.aspect_hints["소리"][0].weight == 1.0
    assert told.items() <= context.rebuttal_points[1].model_dump().items()
    assert FinalOutput.model_validate_json(out.model_dump_json()).debate == out.debate


def test_a_persona_that_a_user_adds_is_one_more_speaker() -> None:
    neighbour = {"name": "Neighbour", "role": "Neighbour", "goal": "Say how loud", "stance": "con"}
    debate = {
        "protocol": "persona",
        "rounds": 1,
        "personas": {"neighbour": neighbour},
        "order": ["analyst", "neighbour"],
    }
    settings = pipeline(debate=debate)
    graph = build(settings, ScriptedBackend(answers(neighbour=turn(None, "소리가 작다"))))
    drawn = graph.get_graph().draw_mermaid()
    assert "analyst --> neighbour" in drawn and "neighbour --> judge" in drawn
    output: FinalOutput = graph.invoke({"text": TEXT})["output"]
    assert hints_on(output)["소리"] == [("neighbour", 1.0, "negative")]
    assert [c.node for c in output.process_trace].count("neighbour") == 1


def test_the_drawing_is_the_one_on_record(same_as_snapshot: Any) -> None:
    graph = build_graph(load_settings("configs/persona_debate.yaml"))
    same_as_snapshot("persona_debate.mmd", graph.get_graph().draw_mermaid())


@pytest.mark.parametrize(
    ("prose", "term", "named"),
    [
        ("배터리 수명이 짧다", "배터리수명", True),
        ("가격은 좋다", "가격은", True),
        ("소리만", "화면", False),
    ],
)
def test_korean_prose_names_terms_whatever_is_attached(prose: str, term: str, named: bool) -> None:
    assert language("ko").names(prose, term) is named


@pytest.mark.parametrize(
    ("prose", "term", "named"),
    [
        ("The Battery  life is short", "battery life", True),
        ("a great start", "art", False),
        ("", "art", False),
    ],
)
def test_english_prose_names_whole_words(prose: str, term: str, named: bool) -> None:
    assert language("en").names(prose, term) is named


def test_a_run_verifies_replays_and_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text(json.dumps({"uid": "a", "text": TEXT}, ensure_ascii=False), encoding="utf-8")
    out, again, page = tmp_path / "run", tmp_path / "again", tmp_path / "report.html"
    config = ["--config", "configs/persona_debate.yaml"]
    assert absa(["run", str(data), "--out", str(out), *config]) == 0
    assert absa(["verify", str(out)]) == 0
    assert absa(["replay", str(out), "--out", str(again)]) == 0
    first, second = (
        json.loads((d / "outputs.jsonl").read_text(encoding="utf-8")) for d in (out, again)
    )
    assert first["final_result"] == second["final_result"]
    assert len(first["process_trace"]) == 13
    assert absa(["report", str(out), "-o", str(page)]) == 0
    assert "reflection" in page.read_text(encoding="utf-8")


def test_offline_each_stance_argues_its_side() -> None:
    output = build_graph(load_settings("configs/persona_debate.yaml")).invoke(
        {"text": "사용감은 좋지만 가격은 비싸요."}
    )["output"]
    assert pairs(output.final_result.final_tuples) == {
        ("사용감", "positive"),
        ("가격", "negative"),
    }
    points = {t.speaker: t.key_points for t in output.debate.rounds[0].turns}
    assert points["critic"] == ("가격: 비싸요",)
    assert points["empath"] == ("사용감: 좋지만",)
