"""Human review in agent chat pages: the form of the question, and what their answers do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from review_cases import GIVEN, OPEN, TEXT, THREAD
from scripted import ScriptedBackend, pairs, pipeline, without_latency

from absa import checkpoint_serde
from absa.graph import Graph, build
from absa.schemas.output import FinalOutput

Json = dict[str, Any]
PRICE = {"aspect": "가격", "polarity": "positive", "evidence": "비싸고"}
TASTE = {"aspect": "맛", "polarity": "positive", "evidence": "좋아요"}
CHEAP = {**PRICE, "polarity": "negative"}
KOREAN_VALUE = {"aspect": "값", "polarity": "negative", "evidence": "비싸고"}


def asked() -> tuple[Graph, Json]:
    """A graph that waits, and its question."""
    saver = InMemorySaver(serde=checkpoint_serde())
    settings = pipeline(human_review="on_conflict")
    graph = build(settings, ScriptedBackend(OPEN), checkpointer=saver)
    [waiting] = graph.invoke(GIVEN, THREAD)["__interrupt__"]
    return graph, waiting.value


def edit(aspects: Any = None, label: str | None = None) -> Json:
    """An edit of the current agent-chat-ui. It sends a field that was edited as text."""
    args: Json = {"aspects": [PRICE, TASTE], "label": "positive"}
    if aspects is not None:
        args["aspects"] = json.dumps(aspects, ensure_ascii=False)
    if label is not None:
        args["label"] = label
    return {"type": "edit", "edited_action": {"name": "review_result", "args": args}}


def in_agent_inbox(reply: Json) -> list[Json]:
    """The same answer as Agent Inbox sends it."""
    if reply["type"] == "edit":
        action = reply["edited_action"]
        return [{"type": "edit", "args": {"action": action["name"], "args": action["args"]}}]
    old = {"approve": "accept", "reject": "ignore"}[reply["type"]]
    return [{"type": old, "args": reply.get("message")}]


def answered(reply: Any) -> FinalOutput:
    graph, _ = asked()
    output: FinalOutput = graph.invoke(Command(resume=reply), THREAD)["output"]
    return output


def test_the_question_is_a_form_of_agent_chat_ui_and_still_ours() -> None:
    _, question = asked()
    [action], [config] = question["action_requests"], question["review_configs"]
    assert action["name"] == config["action_name"] == "review_result"
    assert config["allowed_decisions"] == ["approve", "edit", "reject"]
    assert action["args"] == {"aspects": [PRICE, TASTE], "label": "positive"}
    assert TEXT in action["description"] and "Why you are asked" in action["description"]
    assert {"uid", "candidates", "reasons", "actions", "problems"} <= set(question)


CASES: dict[str, tuple[Json, list[tuple[str, str]], str]] = {
    "approve": ({"type": "approve"}, [("가격", "positive"), ("맛", "positive")], "positive"),
    "untouched": (edit(), [("가격", "positive"), ("맛", "positive")], "positive"),
    "flip": (edit([CHEAP, TASTE]), [("가격", "negative"), ("맛", "positive")], "mixed"),
    "drop": (edit([TASTE]), [("맛", "positive")], "positive"),
    "add": (
        edit([PRICE, TASTE, KOREAN_VALUE]),
        [("가격", "positive"), ("맛", "positive"), ("값", "negative")],
        "mixed",
    ),
    "label": (edit(label="neutral"), [("가격", "positive"), ("맛", "positive")], "neutral"),
    "both": (
        edit([CHEAP, TASTE], "neutral"),
        [("가격", "negative"), ("맛", "positive")],
        "neutral",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_answer_of_a_page_does_what_the_page_shows(name: str) -> None:
    reply, tuples, label = CASES[name]
    output = answered({"decisions": [reply]})
    assert pairs(output.final_result.final_tuples) == set(tuples)
    assert output.final_result.label == label
    assert output.meta.human_review is not None and output.meta.human_review.status == "reviewed"
    for other in (in_agent_inbox(reply), json.dumps({"decisions": [reply]})):
        assert without_latency(answered(other)) == without_latency(output)


def test_approval_counts_as_kept() -> None:
    review = answered({"decisions": [{"type": "approve"}]}).meta.human_review
    assert review is not None and review.counts.kept == 2


def test_whoever_rejects_leaves_the_text_pending_with_the_reason() -> None:
    for reply in (
        {"decisions": [{"type": "reject", "message": "ask Kim"}]},
        [{"type": "ignore", "args": "ask Kim"}],
    ):
        output = answered(reply)
        review = output.meta.human_review
        assert review is not None
        assert (review.status, review.note) == ("pending", "ask Kim")
        assert review.reasons and not review.decisions
        assert pairs(output.final_result.final_tuples) == {("가격", "positive"), ("맛", "positive")}
        assert not any(c.source == "human" for c in output.meta.correction_applied_log)


def test_a_response_may_hold_our_decisions_as_json() -> None:
    ours = json.dumps({"decisions": [{"action": "drop", "aspect": "가격"}]})
    output = answered([{"type": "response", "args": ours}])
    assert pairs(output.final_result.final_tuples) == {("맛", "positive")}


INVALID: dict[str, tuple[Any, str]] = {
    "a polarity": ({"decisions": [edit([{**PRICE, "polarity": "bad"}])]}, "'bad' is not a valid"),
    "no JSON": (
        [{"type": "edit", "args": {"action": "x", "args": {"aspects": "가격: positive"}}}],
        "the JSON cannot be read",
    ),
    "a field": ({"decisions": [edit([{**PRICE, "polarty": "x"}])]}, "aspects.0.polarty"),
    "evidence of an addition": (
        {"decisions": [edit([PRICE, TASTE, {**KOREAN_VALUE, "evidence": "싸요"}])]},
        "not in the text",
    ),
    "evidence of a tuple": (
        {"decisions": [edit([{**PRICE, "evidence": "맛은"}, TASTE])]},
        "the evidence of a tuple in the result stays",
    ),
    "a label": ({"decisions": [edit(label="good")]}, "'good' is not a valid label"),
    "free text": ([{"type": "response", "args": "price is negative"}], "use edit"),
    "a type": ({"decisions": [{"type": "maybe"}]}, "type 'maybe' is not known"),
    "two answers": ({"decisions": [{"type": "approve"}] * 2}, "2 answers to one question"),
    "an edit of nothing": ({"decisions": [{"type": "edit"}]}, "an edit needs args"),
    "types that are none": ([{"type": ["edit"], "args": {}}], "is not known"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_answer_is_asked_for_again_with_the_error_in_the_form(name: str) -> None:
    reply, problem = INVALID[name]
    graph, _ = asked()
    [again] = graph.invoke(Command(resume=reply), THREAD)["__interrupt__"]
    assert problem in "\n".join(again.value["problems"])
    assert problem in again.value["action_requests"][0]["description"]
    end = graph.invoke(Command(resume={"decisions": [edit([CHEAP, TASTE])]}), THREAD)
    assert ("가격", "negative") in pairs(end["output"].final_result.final_tuples)
