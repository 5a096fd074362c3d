"""A person as the last reviewer: when one is asked, what is shown, what an answer does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from review_cases import BLOCKED, CALM, GIVEN, OPEN, TEXT, THREAD
from scripted import (
    ScriptedBackend,
    ate,
    atsa,
    atsa_review,
    judge,
    pairs,
    pipeline,
    said,
    set_polarity,
    turn,
    without_latency,
)

from absa import checkpoint_serde
from absa.graph import Graph, build, build_switchable
from absa.nodes.doubts import doubts
from absa.nodes.human_answer import apply_human_review, read_answer, without_human_review
from absa.nodes.human_review import answered
from absa.schemas import records
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import PipelineSettings

TESTS = Path(__file__).resolve().parent
PERSONA_TURN = {"stance": "neutral", "message": "가격이 비싸다", "key_points": []}
PERSONA = {
    **{k: v for k, v in CALM.items() if k not in ("epm", "tan", "cj", "judge")},
    **dict.fromkeys(("analyst", "critic", "empath"), PERSONA_TURN),
    "judge": {"winner": "critic", "consensus": "부정", "key_disagreements": ["가격"]},
}
PRICE = {"aspect_term": "가격", "evidence": "비싸고", "confidence": 0.8}
TASTE = {"aspect_term": "맛", "polarity": "positive", "evidence": "좋아요", "confidence": 0.9}


def action(kind: str, target: str, polarity: str | None = None, why: str = "WEAK_EVIDENCE") -> Any:
    new = {"polarity": polarity} if polarity else None
    return {
        "action_type": kind,
        "target_tuple_ids": [target],
        "new_value": new,
        "reason_code": why,
    }


# t0 맛 positive, t1 가격 negative, t2 가격 positive: about t1 and t2 no two reviewers agree.
DIVIDED = {
    "p_neg": {"triplets": [TASTE, {**PRICE, "polarity": "negative"}]},
    "p_imp": {"triplets": []},
    "p_lit": {"triplets": [{**PRICE, "polarity": "positive"}]},
    "review_a": {"review_actions": [action("DROP", "t1"), action("DROP", "t2")]},
    "review_b": {
        "review_actions": [action("FLIP", "t1", "neutral"), action("FLIP", "t2", "neutral")]
    },
    "review_c": {"review_actions": []},
}
AGREED = {**DIVIDED, "review_b": DIVIDED["review_a"]}
UNDISPUTED = {
    **DIVIDED,
    "p_lit": {"triplets": []},
}
# epm alone calls 가격 negative: too little for the gate.
OVERRULED = {**CALM, "epm": turn(set_polarity("가격", "negative", evidence="비싸고"))}
# The same, and the review follows it.
PREVAILED = {
    **OVERRULED,
    "judge": judge(tuples=[("가격", "negative"), ("맛", "positive")]),
    "atsa_review": atsa_review(("가격", "flip_polarity", "negative")),
}
# The result calls the aspect that epm spoke of by another name.
RENAMED = {
    **PREVAILED,
    "judge": judge(),
    "ate_review": {
        "aspect_review": [
            {"term": "가격", "action": "revise_span", "revised_span": "가격이 비싸고"}
        ]
    },
}
# Two rounds: epm takes it back in the second.
TOOK_IT_BACK = {
    **OVERRULED,
    ("epm", 1): turn(
        {"op": "confirm_tuple", "target": {"aspect_ref": "가격", "polarity": "positive"}}
    ),
}
CONTRADICTED = {
    **CALM,
    "validator": {
        "structural_risks": [{"type": "IRONY", "severity": "high"}],
        "correction_proposals": [],
        "suggested_label": "negative",
        "confidence": 0.99,
    },
    "validator_review": {
        "structural_risks": [{"type": "IRONY", "severity": "high"}],
        "correction_proposals": [],
        "suggested_label": "negative",
        "confidence": 0.99,
    },
}
EXTRACT = {
    "extract": {
        "tuples": [
            {
                "aspect_term": "가격",
                "polarity": "positive",
                "evidence": "비싸고",
                "confidence": 0.6,
            },
            {"aspect_term": "맛", "polarity": "positive", "evidence": "좋아요", "confidence": 0.8},
        ]
    }
}
PROTOCOLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "debate": (CALM, {}),
    "debate without a Moderator": (CALM, {"enable_moderator": False}),
    "debate of one stage": (CALM, {"enable_stage2": False}),
    "Stage 1 only": (CALM, {"enable_stage2": False, "enable_debate": False}),
    "persona debate": (PERSONA, {"debate": {"protocol": "persona", "rounds": 1}}),
    "conflict review": (DIVIDED, {"protocol": "conflict_review"}),
    "conflict review without doubt": (UNDISPUTED, {"protocol": "conflict_review"}),
    "conflict review with a model": (
        {**DIVIDED, "arbiter": {"review_actions": []}},
        {"protocol": "conflict_review", "conflict_review": {"arbiter": "llm"}},
    ),
    "debate with memory": (CALM, {"memory": {"condition": "on"}}),
    "single": (EXTRACT, {"protocol": "single"}),
    "vote": (EXTRACT, {"protocol": "vote", "vote": {"n": 3}}),
}


def asking(answers: Any, mode: str = "on_conflict", **changes: Any) -> Graph:
    """A graph that can wait for a person."""
    saver = InMemorySaver(serde=checkpoint_serde())
    settings = pipeline(human_review=mode, **changes)
    return build(settings, ScriptedBackend(answers), checkpointer=saver)


def unattended(answers: Any, mode: str = "on_conflict", **changes: Any) -> FinalOutput:
    """What comes out where nobody is there."""
    graph = build(pipeline(human_review=mode, **changes), ScriptedBackend(answers))
    output: FinalOutput = graph.invoke(GIVEN)["output"]
    return output


def question(result: Any) -> dict[str, Any]:
    """What the person is asked."""
    (asked,) = result["__interrupt__"]
    json.dumps(asked.value)  # a person may sit behind HTTP
    value: dict[str, Any] = asked.value
    return value


def decide(answers: Any, *decisions: Any, mode: str = "on_conflict", **changes: Any) -> FinalOutput:
    """Ask, answer, and go on to the end."""
    graph = asking(answers, mode, **changes)
    question(graph.invoke(GIVEN, THREAD))
    resumed = graph.invoke(Command(resume={"decisions": list(decisions)}), THREAD)
    output: FinalOutput = resumed["output"]
    return output


def keep(aspect: str, **more: Any) -> Any:
    return {"action": "keep", "aspect": aspect, **more}


def flip(aspect: str, polarity: str, **more: Any) -> Any:
    return {"action": "flip", "aspect": aspect, "polarity": polarity, **more}


def drop(aspect: str, **more: Any) -> Any:
    return {"action": "drop", "aspect": aspect, **more}


def add(aspect: str, polarity: str, evidence: str) -> Any:
    return {"action": "add", "aspect": aspect, "polarity": polarity, "evidence": evidence}


def label(word: str) -> Any:
    return {"action": "label", "label": word}


# When a person is asked --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "changes", "reasons"),
    [
        (OPEN, {}, ["unresolved_conflicts"]),
        (OPEN, {"enable_stage2": False}, ["unresolved_conflicts"]),
        (OPEN, {"enable_moderator": False}, ["unresolved_conflicts"]),
        (BLOCKED, {}, ["dissent", "adoption_blocked"]),
        (
            {**BLOCKED, "judge": {**BLOCKED["judge"], "unresolved_conflicts": ["맛"]}},
            {},
            ["dissent", "unresolved_conflicts", "adoption_blocked"],
        ),
        (OVERRULED, {}, ["dissent"]),
        (PREVAILED, {}, []),
        (RENAMED, {}, []),
        (TOOK_IT_BACK, {"debate": {"rounds": 2}}, []),
        (CONTRADICTED, {}, ["label_contradicts"]),
        (CONTRADICTED, {"enable_debate": False, "enable_stage2": False}, ["label_contradicts"]),
        (
            PERSONA,
            {"debate": {"protocol": "persona", "rounds": 1}},
            ["unresolved_conflicts"],
        ),
        (DIVIDED, {"protocol": "conflict_review"}, ["arbiter_flagged"]),
        (CALM, {}, []),
        ({**PERSONA, "judge": {"winner": "critic"}}, {"debate": {"protocol": "persona"}}, []),
        (AGREED, {"protocol": "conflict_review"}, []),
        (UNDISPUTED, {"protocol": "conflict_review"}, []),
        (CALM, {"enable_debate": False}, []),
        (CALM, {"enable_debate": False, "enable_stage2": False}, []),
        (EXTRACT, {"protocol": "single"}, []),
    ],
)
def test_a_person_is_asked_in_doubt_and_only_then(answers, changes, reasons):
    result = asking(answers, **changes).invoke(GIVEN, THREAD)
    found = [r["code"] for r in question(result)["reasons"]] if "__interrupt__" in result else []
    assert found == reasons
    output = unattended(answers, **changes)
    assert [r.code for r in doubts(output)] == reasons
    word = output.meta.human_review
    assert (word.status if word else None) == ("pending" if reasons else None)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_always_means_every_text_in_every_protocol(name):
    answers, changes = PROTOCOLS[name]
    output = decide(answers, flip("맛", "negative"), mode="always", **changes)
    assert ("맛", "negative") in pairs(output.final_result.final_tuples)
    assert output.meta.human_review.status == "reviewed"
    assert output.meta.correction_applied_log[-1].source == "human"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_where_nobody_is_there_the_text_is_finished_and_marked(name):
    answers, changes = PROTOCOLS[name]
    pending = unattended(answers, "always", **changes)
    plain = unattended(answers, "off", **changes)
    assert pending.meta.human_review.status == "pending"
    assert [r.code for r in pending.meta.human_review.reasons]
    unmarked = without_latency(pending)
    unmarked["meta"]["human_review"] = None
    assert unmarked == without_latency(plain)


@pytest.mark.parametrize("mode", ["off", "on_conflict"])
def test_nodes_that_can_never_ask_are_not_in_the_graph(mode):
    for changes in (
        {"enable_debate": False, "enable_stage2": False, "enable_moderator": False},
        {"protocol": "single"},
        {"protocol": "vote"},
    ):
        graph = build(pipeline(human_review=mode, **changes), ScriptedBackend({}))
        assert "human_review" not in graph.nodes


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("human_on_conflict", {"human_review": "on_conflict"}),
        ("human_always", {"human_review": "always"}),
        (
            "human_conflict_review",
            {"human_review": "on_conflict", "protocol": "conflict_review"},
        ),
    ],
)
def test_the_drawing_shows_the_person(name, changes, same_as_snapshot):
    graph = build(pipeline(**changes), ScriptedBackend({}))
    same_as_snapshot(f"{name}.mmd", graph.get_graph(xray=True).draw_mermaid(with_styles=False))


def test_the_switchable_graph_asks_when_its_context_says_so():
    graph = build_switchable(PipelineSettings(), ScriptedBackend(OPEN))
    graph.checkpointer = InMemorySaver(serde=checkpoint_serde())
    assert "output" in graph.invoke(GIVEN, THREAD)
    other: Any = {"configurable": {"thread_id": "other"}}
    context: Any = {"human_review": "on_conflict"}
    asked = question(graph.invoke(GIVEN, other, context=context))
    assert asked["reasons"][0]["code"] == "unresolved_conflicts"
    answer = Command(resume={"decisions": [flip("가격", "negative")]})
    out = graph.invoke(answer, other, context=context)["output"]
    fixed = decide(OPEN, flip("가격", "negative"))
    assert without_latency(out) == without_latency(fixed)


# What is shown -----------------------------------------------------------------------------------


def test_the_question_shows_evidence_candidates_and_who_said_what():
    asked = question(asking(BLOCKED).invoke(GIVEN, THREAD))
    assert (asked["text"], asked["uid"], asked["label"]) == (TEXT, "u1", "positive")
    assert set(asked["actions"]) == {"keep", "flip", "drop", "add", "label"}
    price, taste, left_out = asked["candidates"]
    assert (price["aspect"], price["polarity"], price["evidence"]) == ("가격", "positive", "비싸고")
    assert (price["confidence"], price["is_grounded"]) == (0.6, True)
    assert [(v["stage"], v["who"], v["says"]) for v in price["said"]] == [
        ("stage1", "ATSA", "positive"),
        ("debate", "epm", "set polarity negative"),
        ("debate", "judge", "positive"),
    ]
    assert price["said"][1]["evidence"] == "비싸고"
    assert taste["in_result"] and not left_out["in_result"]
    assert (left_out["aspect"], left_out["polarity"]) == ("맛", "negative")
    assert ("review", "ATSA", "flip polarity negative") in [
        (v["stage"], v["who"], v["says"]) for v in taste["said"]
    ]


def test_the_question_of_a_conflict_review_names_perspectives_and_reviewers():
    asked = question(asking(DIVIDED, protocol="conflict_review").invoke(GIVEN, THREAD))
    voices = [(v["who"], v["says"]) for c in asked["candidates"][1:2] for v in c["said"]]
    assert ("perspective A", "negative") in voices and ("perspective C", "positive") in voices
    assert ("reviewer A", "drop (weak evidence)") in voices
    assert any(who == "arbiter" for who, _ in voices)
    assert asked["reasons"][0]["detail"].endswith("가격")


def test_prose_of_a_persona_debate_is_shown_for_the_whole_text():
    changes = {"debate": {"protocol": "persona", "rounds": 1}}
    asked = question(asking(PERSONA, **changes).invoke(GIVEN, THREAD))
    assert ("analyst", "neutral: 가격이 비싸다") in [(v["who"], v["says"]) for v in asked["said"]]
    assert ("judge", "부정") in [(v["who"], v["says"]) for v in asked["said"]]


# What an answer does -----------------------------------------------------------------------------


def test_keep_changes_nothing_but_counts():
    output = decide(OPEN, keep("가격"), keep("맛"))
    plain = unattended(OPEN, "off")
    assert output.final_result == plain.final_result
    assert output.meta.correction_applied_log == plain.meta.correction_applied_log
    assert output.meta.human_review.counts.kept == 2


def test_flip_changes_the_polarity_keeps_the_evidence_and_is_certain():
    output = decide(OPEN, flip("가격은", "NEG"))  # another spelling of the aspect, and of negative
    price = output.final_result.final_aspects[0]
    assert (price.polarity, price.evidence, price.confidence) == ("negative", "비싸고", 1.0)
    assert output.final_result.label == "mixed"
    assert output.analysis_flags.correction_occurred
    (entry,) = output.meta.correction_applied_log
    assert (entry.source, entry.proposal_type, entry.applied) == ("human", "flip", True)
    assert entry.before["sentiments"][0]["polarity"] == "positive"
    assert entry.after["sentiments"][0]["polarity"] == "negative"


def test_drop_removes_the_tuple():
    output = decide(OPEN, drop("가격"))
    assert pairs(output.final_result.final_tuples) == {("맛", "positive")}
    assert output.meta.correction_applied_log[-1].after is None
    assert output.meta.human_review.counts.dropped == 1


def test_everything_may_be_dropped():
    output = decide(OPEN, drop("가격"), drop("맛"))
    assert output.final_result.final_tuples == ()
    assert (output.final_result.label, output.final_result.confidence) == ("neutral", 0.0)


def test_add_finds_the_place_of_the_aspect_or_says_that_it_is_implicit():
    output = decide(
        OPEN, add("비싸고", "neutral", "비싸고 맛"), add("가성비", "negative", "비싸고")
    )
    named, implied = output.final_result.final_aspects[-2:]
    assert TEXT[named.span.start : named.span.end] == "비싸고" and not named.is_implicit
    assert implied.span is None and implied.is_implicit
    assert output.meta.human_review.counts.added == 2
    assert output.final_result.label == "mixed"


def test_add_may_give_an_aspect_a_second_polarity():
    output = decide(OPEN, add("가격", "negative", "비싸고"))
    assert {p for a, p in pairs(output.final_result.final_tuples) if a == "가격"} == {
        "positive",
        "negative",
    }


def test_the_persons_label_is_the_label_whatever_the_tuples_say():
    output = decide(OPEN, label("Mixed"))
    assert (output.final_result.label, output.final_result.confidence) == ("mixed", 1.0)
    assert pairs(output.final_result.final_tuples) == {("가격", "positive"), ("맛", "positive")}
    (entry,) = output.meta.correction_applied_log
    assert (entry.before["label"], entry.after["label"]) == ("positive", "mixed")
    assert output.moderator.final_label == "positive"  # what the rules said stays on record
    again = decide(OPEN, flip("가격", "negative"), label("negative"))
    assert again.final_result.label == "negative"


def test_one_of_two_contested_tuples_is_named_by_its_polarity():
    contested = {("맛", "positive"), ("가격", "negative"), ("가격", "positive")}
    assert (
        pairs(unattended(DIVIDED, protocol="conflict_review").final_result.final_tuples)
        == contested
    )
    output = decide(
        DIVIDED, drop("가격", of="positive"), keep("가격", of="neg"), protocol="conflict_review"
    )
    assert pairs(output.final_result.final_tuples) == contested - {("가격", "positive")}
    both = decide(DIVIDED, flip("가격", "neutral"), protocol="conflict_review")
    assert pairs(both.final_result.final_tuples) == {("맛", "positive"), ("가격", "neutral")}


def test_a_person_outranks_the_moderators_drop_guard_for_what_they_name():
    """Stage 2 loses 0.2 of confidence, so the rules go back to Stage 1; the person does not."""
    answers = said(
        ate=ate("가격"),
        atsa=atsa(("가격", "positive", "비싸고", 0.9)),
        judge={**judge(), "unresolved_conflicts": ["가격"]},
        atsa_review=atsa_review(("가격", "flip_polarity", "negative", 0.5, "비싸고")),
    )
    changes = {"override": {"ev_threshold": 0.1}}
    plain = unattended(answers, "off", **changes)
    assert plain.moderator.arbiter_flags.stage2_rejected_due_to_confidence
    assert pairs(plain.final_result.final_tuples) == {("가격", "positive")}
    output = decide(answers, flip("가격", "negative"), **changes)
    assert pairs(output.final_result.final_tuples) == {("가격", "negative")}
    assert output.final_result.label == "negative"
    assert output.moderator == plain.moderator


def test_nothing_to_say_is_an_answer():
    output = decide(OPEN)
    assert output.meta.human_review.status == "reviewed"
    assert output.final_result == unattended(OPEN, "off").final_result


def test_the_reviewer_stands_in_the_log_and_the_record():
    graph = asking(OPEN)
    graph.invoke(GIVEN, THREAD)
    answer = {"decisions": [flip("맛", "neutral")], "reviewer": "kim", "note": "sure"}
    output = graph.invoke(Command(resume=answer), THREAD)["output"]
    word = output.meta.human_review
    assert (word.reviewer, word.note) == ("kim", "sure")
    assert output.meta.correction_applied_log[-1].provenance == "source:human/kim"


def test_an_answer_may_be_json_text():
    graph = asking(OPEN)
    graph.invoke(GIVEN, THREAD)
    text = json.dumps({"decisions": [flip("맛", "neutral")]})
    output = graph.invoke(Command(resume=text), THREAD)["output"]
    assert ("맛", "neutral") in pairs(output.final_result.final_tuples)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_agents_own_output_can_be_had_back(name):
    answers, changes = PROTOCOLS[name]
    decisions = [drop("맛"), add("값", "negative", "비싸고"), label("neutral")]
    output = decide(answers, *decisions, mode="always", **changes)
    pending = unattended(answers, "always", **changes)
    assert without_latency(without_human_review(output)) == without_latency(pending)
    assert apply_human_review(without_human_review(output), output.meta.human_review) == output


_POLARITIES = ("positive", "negative", "neutral")
_DECISIONS = st.lists(
    st.one_of(
        st.builds(keep, st.sampled_from(["가격", "맛", "값"]), of=st.sampled_from(_POLARITIES)),
        st.builds(
            flip,
            st.sampled_from(["가격", "가격이", "맛"]),
            st.sampled_from(_POLARITIES),
            of=st.sampled_from([None, *_POLARITIES]),
        ),
        st.builds(drop, st.sampled_from(["가격", "맛"]), of=st.sampled_from([None, "negative"])),
        st.builds(
            add,
            st.sampled_from(["가격", "값", "!"]),
            st.sampled_from([*_POLARITIES, "mixed"]),
            st.sampled_from(["비싸고", "싸다"]),
        ),
        st.builds(label, st.sampled_from(["mixed", "neu", "good"])),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def contested() -> FinalOutput:
    return unattended(DIVIDED, "always", protocol="conflict_review")


@given(decisions=_DECISIONS)
def test_whatever_is_decided_is_refused_or_done_and_can_be_taken_back(contested, decisions):
    """Held against the plainest reading: what is named goes, what is said comes."""
    answer, problems = read_answer({"decisions": decisions}, contested)
    assert (answer is None) == bool(problems)
    if answer is None:
        return
    names = {"가격이": "가격"}
    shown = [(a.aspect_term, a.polarity) for a in contested.final_result.final_aspects]
    expected = set(shown)
    named = [(names.get(d.get("aspect"), d.get("aspect")), d) for d in decisions]
    for aspect, d in named:
        if d["action"] in ("flip", "drop"):
            expected -= {t for t in shown if t[0] == aspect and d.get("of") in (None, t[1])}
    expected |= {(aspect, d["polarity"]) for aspect, d in named if "polarity" in d}
    word = answered(answer, contested.meta.human_review.reasons)
    output = apply_human_review(contested, word)
    assert pairs(output.final_result.final_tuples) == expected
    assert pairs(output.final_result.final_aspects) == expected
    assert without_human_review(output) == contested
    assert FinalOutput.model_validate_json(output.model_dump_json()) == output


# What is refused ---------------------------------------------------------------------------------

INVALID: dict[str, tuple[Any, str]] = {
    "unknown aspect": ({"decisions": [keep("배송")]}, "'배송' is not an aspect of the result"),
    "not a valid polarity": ({"decisions": [flip("가격", "bad")]}, "'bad' is not a valid polarity"),
    "misspelt polarity": ({"decisions": [flip("가격", "negatve")]}, "not a valid polarity"),
    "mixed is not a valid polarity": (
        {"decisions": [add("값", "mixed", "비싸고")]},
        "not a valid polarity",
    ),
    "evidence not in the text": ({"decisions": [add("값", "negative", "싸요")]}, "not in the text"),
    "empty evidence": ({"decisions": [add("값", "negative", " ")]}, "not in the text"),
    "an aspect of nothing": ({"decisions": [add(" !", "negative", "비싸고")]}, "names nothing"),
    "already there": ({"decisions": [add("맛", "positive", "좋아요")]}, "use keep"),
    "no change": ({"decisions": [flip("맛", "positive")]}, "already positive; use keep"),
    "not that tuple": ({"decisions": [drop("맛", of="negative")]}, "is not negative in the result"),
    "of no polarity": ({"decisions": [drop("맛", of="bad")]}, "of: 'bad' is not a valid polarity"),
    "no label": ({"decisions": [label("good")]}, "'good' is not a valid label"),
    "two labels": ({"decisions": [label("mixed"), label("mixed")]}, "the label is set twice"),
    "added twice": ({"decisions": [add("값", "neg", "비싸고")] * 2}, "'값' is added twice"),
    "decided twice": ({"decisions": [keep("맛"), drop("맛")]}, "decision 1 is about the same"),
    "unknown action": ({"decisions": [{"action": "merge"}]}, "'keep', 'flip'"),
    "unknown key": ({"decisions": [keep("맛", polarty="x")]}, "polarty"),
    "unknown key of the answer": ({"decisions": [], "verdict": 1}, "verdict"),
    "no decisions": ({"reviewer": "kim"}, "decisions: Field required"),
    "another type": (7, "valid dictionary"),
    "text that is no JSON": ("keep it", "Invalid JSON"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_answer_that_cannot_be_used_is_asked_for_again(name):
    answer, problem = INVALID[name]
    graph = asking(OPEN)
    first = question(graph.invoke(GIVEN, THREAD))
    assert not first["problems"]
    again = question(graph.invoke(Command(resume=answer), THREAD))
    assert problem in "\n".join(again["problems"])
    [shown] = again.pop("action_requests")
    assert problem in shown["description"]
    [unchanged] = first.pop("action_requests")
    assert {**again, "problems": []} == first
    assert shown["args"] == unchanged["args"]
    # A second mistake, then a usable answer: the thread is not lost.
    assert question(graph.invoke(Command(resume=answer), THREAD))["problems"] == again["problems"]
    usable = Command(resume={"decisions": [flip("가격", "negative")]})
    output = graph.invoke(usable, THREAD)["output"]
    assert ("가격", "negative") in pairs(output.final_result.final_tuples)
    assert len(output.process_trace) == 10  # no agent was asked again


def test_all_mistakes_are_told_at_once():
    graph = asking(OPEN)
    graph.invoke(GIVEN, THREAD)
    wrong = {"decisions": [flip("배송", "bad"), add("값", "worse", "싸요")]}
    problems = question(graph.invoke(Command(resume=wrong), THREAD))["problems"]
    assert len(problems) == 4
    assert problems[0].startswith("decision 1 (flip): ")


@pytest.mark.parametrize("decision", [drop("가격"), add("값", "negative", "비싸고")])
def test_given_aspects_are_neither_added_nor_dropped(decision):
    graph = asking(OPEN)
    graph.invoke({**GIVEN, "given_aspects": ["가격", "맛"]}, THREAD)
    again = question(graph.invoke(Command(resume={"decisions": [decision]}), THREAD))
    assert "with given aspects" in again["problems"][0]
    usable = Command(resume={"decisions": [flip("가격", "negative")]})
    output = graph.invoke(usable, THREAD)["output"]
    assert ("가격", "negative") in pairs(output.final_result.final_tuples)


# Threads -----------------------------------------------------------------------------------------


def test_it_waits_in_async_runs_too():
    async def go() -> FinalOutput:
        graph = asking(OPEN)
        question(await graph.ainvoke(GIVEN, THREAD))
        answer = Command(resume={"decisions": [flip("가격", "negative")]})
        output: FinalOutput = (await graph.ainvoke(answer, THREAD))["output"]
        return output

    assert without_latency(asyncio.run(go())) == without_latency(
        decide(OPEN, flip("가격", "negative"))
    )


def test_a_thread_takes_another_text_after_a_person_spoke():
    graph = asking(OPEN)
    graph.invoke(GIVEN, THREAD)
    graph.invoke(Command(resume={"decisions": [flip("가격", "negative")]}), THREAD)
    asked = question(graph.invoke({**GIVEN, "uid": "u2"}, THREAD))
    assert asked["uid"] == "u2" and asked["candidates"][0]["polarity"] == "positive"
    output = graph.invoke(Command(resume={"decisions": []}), THREAD)["output"]
    assert not output.meta.correction_applied_log


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (TESTS.parent / "docs" / "how-to" / "review.md").read_text("utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    scope: dict[str, Any] = {}
    exec(example, scope)
    scope["connection"].close()
    assert capsys.readouterr().out == "reviewed\n"


PROCESS = """
import sqlite3, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import BaseModel
from scripted import ScriptedBackend, pipeline
from review_cases import GIVEN, OPEN, THREAD
from absa import checkpoint_serde
from absa.graph import build

connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
saver = SqliteSaver(connection, serde=checkpoint_serde())
# Another process must not ask the agents again: it has nothing to answer them with.
backend = ScriptedBackend(OPEN if sys.argv[2] == "ask" else {})
graph = build(pipeline(human_review="on_conflict"), backend, checkpointer=saver)
if sys.argv[2] == "ask":
    print("asked" if "__interrupt__" in graph.invoke(GIVEN, THREAD) else "not asked")
else:
    flip = {"action": "flip", "aspect": "가격", "polarity": "negative"}
    answer = {"decisions": [flip]}
    print(graph.invoke(Command(resume=answer), THREAD)["output"].model_dump_json())
"""


def test_an_answer_reaches_a_thread_whose_process_is_gone(tmp_path):
    def process(step: str) -> str:
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "threads.db"), step]
        env = {"PYTHONPATH": f"{TESTS}:{TESTS.parent}", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert "Deserializing" not in done.stderr  # the serialiser knows our types
        return done.stdout

    assert process("ask").strip() == "asked"
    output = FinalOutput.model_validate_json(process("answer"))
    assert without_latency(output) == without_latency(decide(OPEN, flip("가격", "negative")))


def test_a_thread_of_a_version_with_other_module_names_is_refused() -> None:
    class StageResult(BaseModel):
        __module__ = "schemas.records"  # as it was called, now absa.schemas.records

    saved = checkpoint_serde().dumps_typed({"stage1": StageResult()})
    with pytest.raises(InputError, match=r"saved by an older version .*analyze its text again"):
        checkpoint_serde().loads_typed(saved)
    for value in ({"text": "schemas.records"}, {"stage1": records.StageResult()}):
        assert checkpoint_serde().loads_typed(checkpoint_serde().dumps_typed(value)) == value
