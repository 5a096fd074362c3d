"""What LangGraph Studio sees: the real local server, without a key and without a network."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai_server
import pytest
from langgraph_server import (
    CONFIG,
    ROOT,
    SAMPLE,
    TEXT,
    Json,
    Serving,
    Studio,
    langgraph_dev,
    tuples,
)
from scripted import all_say, ate, ate_review, atsa, atsa_review, judge, said, set_polarity

from absa.drawing import draw_svg

DEBATES = ("absa", "absa_no_debate", "absa_no_override")
GRAPHS = (*DEBATES, "conflict_review", "selective")
RIGHT = {"사용감": "positive", "가격": "negative"}
WRONG = {"사용감": "positive", "가격": "positive"}
DEBATERS = {"epm", "tan", "cj", "judge"}

# Stage 1 gets the price wrong, and the whole debate says so: 0.5 * 3 + 0.8 = 2.3 for negative.
ANSWERS = said(
    ate=ate("사용감", "가격"),
    atsa=atsa(("사용감", "positive", "좋지만", 0.9), ("가격", "positive", "비싸요", 0.6)),
    **all_say("가격", "negative"),
    judge=judge(
        set_polarity("가격", "negative"),
        tuples=list(RIGHT.items()),
        label="mixed",
        spans=["비싸요"],
        evidence={"가격": "비싸요"},
    ),
    ate_review=ate_review(("가격", "keep")),
    atsa_review=atsa_review(("가격", "maintain")),
)
# Two perspectives differ about the price, and two reviewers take the side of the first.
FLIP = {
    "action_type": "FLIP",
    "target_tuple_ids": ["t2"],
    "new_value": {"polarity": "negative"},
    "reason_code": "NEGATION_SCOPE",
}
FEEL = {"aspect_term": "사용감", "polarity": "positive", "evidence": "좋지만", "confidence": 0.9}
PRICE = {"aspect_term": "가격", "polarity": "negative", "evidence": "비싸요", "confidence": 0.8}
ANSWERS |= {
    "p_neg": {"triplets": [FEEL, PRICE]},
    "p_imp": {"triplets": []},
    "p_lit": {"triplets": [{**PRICE, "polarity": "positive"}]},
    "review_a": {"review_actions": [FLIP]},
    "review_b": {"review_actions": []},
    "review_c": {"review_actions": [FLIP]},
    # As the analyzer reads it.
    "extract": {"tuples": [FEEL, PRICE]},
}
REVIEWERS = {"review_a", "review_b", "review_c"}
ANSWER_TYPES = {
    "AteAnswer": "ate",
    "AtsaAnswer": "atsa",
    "ValidatorAnswer": "validator",
    "TurnAnswer": "epm",
    "JudgeAnswer": "judge",
    "AteReviewAnswer": "ate_review",
    "AtsaReviewAnswer": "atsa_review",
    "TripletsAnswer": "p_neg",
    "ReviewActionsAnswer": "review_b",
}


def asked(output: Json) -> set[str]:
    return {call["node"] for call in output["process_trace"]}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """The server over recorded answers."""
    folder = tmp_path_factory.mktemp("recorded")
    lines = [
        json.dumps({"uid": SAMPLE["uid"], "node": node, "turn": turn, "output": answer})
        for node, answer in ANSWERS.items()
        for turn in (0, 1)
    ]
    traces = folder / "traces.jsonl"
    traces.write_text("\n".join(lines), encoding="utf-8")
    own = {
        "backend": {"kind": "replay", "path": str(traces)},
        "pipeline": {"debate_override": {"ev_threshold": 0.4}},
    }
    # One test asks for what the form does not allow.
    refused = ("validation error for RunContext", "Remove `format_exc_info`")
    with langgraph_dev(folder, Serving(settings=own, expected=refused)) as studio:
        yield studio


def test_every_graph_of_langgraph_json_is_served(recorded: Studio) -> None:
    declared = json.loads(CONFIG.read_text(encoding="utf-8"))["graphs"]
    assert set(recorded.assistants) == set(declared) == {*GRAPHS, "absa_chat"}


def test_an_ablation_is_another_drawing(recorded: Studio) -> None:
    everything = recorded.nodes("absa")
    without_debate = everything - recorded.nodes("absa_no_debate")
    without_override = everything - recorded.nodes("absa_no_override")
    assert without_debate >= {*DEBATERS, "review_context", "override_gate", "apply_flip"}
    assert without_override >= {"override_gate", "apply_flip"}
    assert not without_override & {*DEBATERS, "review_context"}


def test_toggles_are_conditional_edges_in_the_switchable_graph_only(recorded: Studio) -> None:
    chosen = {e["source"] for e in recorded.edges("absa") if e.get("conditional")}
    assert {"intake", "stage1", "review_context", "apply_reviews", "adopt"} <= chosen
    # Of the graph without switches only the way past ATE is open: aspects may be given.
    fixed = [e for e in recorded.edges("absa_no_debate") if e.get("conditional")]
    assert {e["source"] for e in fixed} == {"intake"}


@pytest.mark.parametrize("graph", GRAPHS)
def test_input_and_output_are_narrow(recorded: Studio, graph: str) -> None:
    given, got = recorded.schema(graph, "input"), recorded.schema(graph, "output")
    assert given["required"] == ["text"]
    assert {"text", "uid", "lang", "domain", "demos"} <= set(given["properties"])
    assert not {"stage1_result", "candidates"} & set(given["properties"])
    assert list(got["properties"]) == ["output"]


def test_the_context_is_a_form_with_words_for_every_field(recorded: Studio) -> None:
    fields = recorded.schema("absa", "context")["properties"]
    assert {"enable_debate", "enable_validator", "rounds", "min_total", "ev_threshold"} <= set(
        fields
    )
    for name, field in fields.items():
        assert field["description"] and "default" in field
        assert field["title"] != name.replace("_", " ").title()  # what pydantic makes up
    assert fields["enable_debate"]["type"] == "boolean"
    assert fields["min_total"]["type"] == "number"
    assert fields["human_review"]["enum"] == ["off", "on_conflict", "always"]
    assert (fields["rounds"]["minimum"], fields["rounds"]["maximum"]) == (1, 10)
    assert fields["ev_threshold"]["default"] == 0.4  # the settings in force


def test_a_value_that_the_form_does_not_allow_is_refused(recorded: Studio) -> None:
    answer: Any = recorded.client.runs.wait(
        recorded.thread(), "absa", input=SAMPLE, context={"rounds": 11}, raise_error=False
    )
    assert "rounds" in answer["__error__"]["message"]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_picture_in_the_docs_is_that_of_the_graph(graph: str) -> None:
    """Made anew with ABSA_UPDATE_SNAPSHOTS=1."""
    from absa import studio

    picture = ROOT / "docs" / "images" / f"{graph}.svg"
    drawn = draw_svg(getattr(studio, graph).get_graph()) + "\n"
    if os.environ.get("ABSA_UPDATE_SNAPSHOTS") == "1":
        picture.write_text(drawn, encoding="utf-8")
    assert picture.read_text(encoding="utf-8") == drawn


def test_every_graph_says_what_it_is(recorded: Studio) -> None:
    told = {a["graph_id"]: a["description"] for a in recorded.client.assistants.search()}
    declared = json.loads(CONFIG.read_text(encoding="utf-8"))["graphs"]
    assert told == {name: graph["description"] for name, graph in declared.items()}
    assert all(told.values())


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_node_on_the_screen_is_explained(recorded: Studio, graph: str) -> None:
    guide = (ROOT / "docs" / "how-to" / "studio.md").read_text(encoding="utf-8")
    shown = recorded.nodes(graph) - {"__start__", "__end__"}
    assert shown and not {node for node in shown if f"`{node}`" not in guide}


def test_a_graph_of_fixed_settings_offers_no_switches(recorded: Studio) -> None:
    assert not recorded.schema("absa_no_debate", "context")


@pytest.mark.parametrize(
    ("graph", "final"),
    [
        ("absa", RIGHT),
        ("absa_no_debate", WRONG),
        ("absa_no_override", WRONG),
        ("conflict_review", RIGHT),
        ("selective", RIGHT),
    ],
)
def test_each_graph_decides_as_it_is_drawn(
    recorded: Studio, graph: str, final: dict[str, str]
) -> None:
    output = recorded.run(graph)
    assert (output["uid"], output["text"], output["lang"]) == ("ko-1", TEXT, "ko")
    assert tuples(output) == final
    assert (DEBATERS <= asked(output)) == (graph in ("absa", "absa_no_override"))
    assert (REVIEWERS <= asked(output)) == (graph == "conflict_review")


@pytest.mark.parametrize("graph", GRAPHS)
def test_settings_of_ones_own_hold_in_every_graph(recorded: Studio, graph: str) -> None:
    assert recorded.run(graph)["meta"]["ev_threshold"] == 0.4


def test_the_debate_is_switched_off_by_the_context(recorded: Studio) -> None:
    output = recorded.run("absa", context={"enable_debate": False})
    assert not DEBATERS & asked(output)
    assert tuples(output) == WRONG == tuples(recorded.run("absa_no_debate"))


def test_a_threshold_is_raised_by_the_context(recorded: Studio) -> None:
    output = recorded.run("absa", context={"min_total": 3.0})
    assert DEBATERS <= asked(output)
    assert output["meta"]["debate_override_stats"]["skipped_low_signal"] == 1
    assert tuples(output) == WRONG


def test_rounds_are_set_by_the_context(recorded: Studio) -> None:
    output = recorded.run("absa", context={"rounds": 2})
    assert len(output["debate"]["rounds"]) == 2


def test_updates_are_streamed_node_by_node(recorded: Studio) -> None:
    chunks = recorded.client.runs.stream(
        recorded.thread(), "absa", input=SAMPLE, stream_mode="updates"
    )
    updates = [item for c in chunks if c.event == "updates" for item in c.data.items()]
    order = [node for node, _ in updates]
    assert order[0] == "intake"
    assert set(order[1:4]) == {"ate", "atsa", "validator"}
    assert order[4:9] == ["stage1", "epm", "tan", "cj", "judge"]
    gate = order.index("override_gate")
    assert order[gate : gate + 2] == ["override_gate", "apply_flip"]
    assert tuples(updates[-1][1]["output"]) == RIGHT


def test_the_debate_is_streamed_turn_by_turn(recorded: Studio) -> None:
    chunks = recorded.client.runs.stream(
        recorded.thread(), "absa", input=SAMPLE, stream_mode="custom", context={"rounds": 2}
    )
    heard = [chunk.data for chunk in chunks if chunk.event == "custom"]
    debate = [(said["node"], said["turn"]) for said in heard if said["node"] in DEBATERS]
    rounds = [(name, turn) for turn in (0, 1) for name in ("epm", "tan", "cj")]
    assert debate == [*rounds, ("judge", 0)]
    assert {said["node"] for said in heard[:3]} == {"ate", "atsa", "validator"}
    assert [said["answer"] for said in heard] == [ANSWERS[said["node"]] for said in heard]


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_answer_of_every_graph_is_streamed(recorded: Studio, graph: str) -> None:
    chunks = recorded.client.runs.stream(
        recorded.thread(), graph, input=SAMPLE, stream_mode=["custom", "values"]
    )
    parts = [(chunk.event, chunk.data) for chunk in chunks]
    heard = [data["node"] for event, data in parts if event == "custom"]
    assert set(heard) == asked(parts[-1][1]["output"]) and len(heard) == len(set(heard))


@pytest.mark.parametrize("graph", ["absa", "conflict_review"])
def test_a_thread_takes_one_text_after_another(recorded: Studio, graph: str) -> None:
    thread = recorded.thread()
    first, second = (recorded.run(graph, thread=thread) for _ in range(2))
    assert tuples(first) == tuples(second) == RIGHT
    assert len(first["process_trace"]) == len(second["process_trace"])


def test_candidates_edited_by_hand_are_taken_up(recorded: Studio) -> None:
    client, thread = recorded.client, recorded.thread()
    client.runs.wait(thread, "conflict_review", input=SAMPLE, interrupt_after=["merge_candidates"])
    state: Any = client.threads.get_state(thread)["values"]
    assert state["conflict_flags"][0]["tuple_ids"] == ["t1", "t2"]
    edited = {"conflict_flags": [], "validator_risks": [], "candidates": state["candidates"][:1]}
    client.threads.update_state(thread, edited, as_node="merge_candidates")
    end: Any = client.runs.wait(thread, "conflict_review")
    assert tuples(end["output"]) == {"사용감": "positive"}
    assert not REVIEWERS & asked(end["output"])


@pytest.mark.parametrize("graph", DEBATES)
def test_a_state_edited_by_hand_is_taken_up(recorded: Studio, graph: str) -> None:
    client, thread = recorded.client, recorded.thread()
    client.runs.wait(thread, graph, input=SAMPLE, interrupt_after=["stage1"])
    state: Any = client.threads.get_state(thread)["values"]
    edited = json.loads(json.dumps(state["stage1_result"]).replace("positive", "neutral"))
    client.threads.update_state(thread, {"stage1_result": edited}, as_node="stage1")
    end: Any = client.runs.wait(thread, graph)
    stage1 = end["output"]["final_result"]["stage1_tuples"]
    assert {t["polarity"] for t in stage1} == {"neutral"}


FLIPPED = atsa_review(("가격", "flip_polarity", "negative", 0.9, "비싸요"))
# What an agent is to have said instead, by graph and agent, and the outcome.
EDITS: list[tuple[str, str, Json, dict[str, str]]] = [
    # Without the judge's 0.8 the speakers' 1.5 are too little for the gate.
    ("absa", "judge", {"judge_answer": judge(tuples=list(WRONG.items()))}, WRONG),
    ("absa_no_debate", "atsa_review", {"atsa_reviews": FLIPPED}, RIGHT),
    ("absa_no_override", "atsa_review", {"atsa_reviews": FLIPPED}, RIGHT),
    # The other perspective is contradicted by nobody then, and no reviewer is asked.
    ("conflict_review", "p_lit", {"triplet_answers": {"p_lit": {"triplets": []}}}, RIGHT),
]


@pytest.mark.parametrize(("graph", "agent", "edit", "final"), EDITS)
def test_an_answer_is_changed_afterwards_and_the_outcome_follows(
    recorded: Studio, graph: str, agent: str, edit: Json, final: dict[str, str]
) -> None:
    client, thread = recorded.client, recorded.thread()
    before = recorded.run(graph, thread=thread)
    history: Any = client.threads.get_history(thread, limit=100)
    # Newest first: the last one is the step in which the agent answered.
    answered = [s for s in history if f"{agent}#0" in s["values"].get("calls", {})][-1]
    client.threads.update_state(
        thread, edit, as_node=agent, checkpoint_id=answered["checkpoint"]["checkpoint_id"]
    )
    end: Any = client.runs.wait(thread, graph)
    assert tuples(end["output"]) == final
    # What was decided from the answer is decided again, what was said before it stays.
    assert end["output"] != before
    spoken = {f"{call['node']}#{call['turn']}": call for call in end["output"]["process_trace"]}
    kept: Json = answered["values"]["calls"]
    assert {key: spoken[key] for key in kept} == kept
    if graph == "conflict_review":
        assert not REVIEWERS & asked(end["output"])


def test_a_thread_that_was_stopped_goes_on_where_it_was(recorded: Studio) -> None:
    client, thread = recorded.client, recorded.thread()
    client.runs.wait(thread, "absa", input=SAMPLE, interrupt_before=["judge"])
    waiting: Any = client.threads.get_state(thread)
    assert waiting["next"] == ["judge"]
    assert [turn["speaker"] for turn in waiting["values"]["turns"]] == ["epm", "tan", "cj"]
    chunks = client.runs.stream(thread, "absa", stream_mode="custom")
    heard = [chunk.data["node"] for chunk in chunks if chunk.event == "custom"]
    assert heard[0] == "judge" and not {"ate", "atsa", "epm", "tan", "cj"} & set(heard)
    end: Any = client.threads.get_state(thread)
    assert end["next"] == [] and tuples(end["values"]["output"]) == RIGHT


def test_a_person_answers_through_the_interrupt(recorded: Studio) -> None:
    client, thread = recorded.client, recorded.thread()
    context = {"human_review": "always"}

    def answer(*decisions: Json) -> Any:
        resume = {"resume": {"decisions": list(decisions), "reviewer": "kim"}}
        return client.runs.wait(thread, "absa", command=resume, context=context)

    asked: Any = client.runs.wait(thread, "absa", input=SAMPLE, context=context)
    (waiting,) = asked["__interrupt__"]
    # Whoever comes later finds it among the threads that wait, with everything said so far.
    assert thread in {t["thread_id"] for t in client.threads.search(status="interrupted")}
    found: Any = client.threads.get_state(thread)
    assert found["next"] == ["human_review"]
    assert [c["aspect"] for c in waiting["value"]["candidates"]][:2] == ["사용감", "가격"]
    (again,) = answer({"action": "drop", "aspect": "배송"})["__interrupt__"]
    assert "'배송' is not an aspect of the result" in again["value"]["problems"][0]
    output = answer({"action": "flip", "aspect": "사용감", "polarity": "neutral"})["output"]
    assert tuples(output) == {**RIGHT, "사용감": "neutral"}
    assert output["meta"]["human_review"]["counts"]["flipped"] == 1
    # No agent was asked again: the records are those from before the interrupt.
    assert output["process_trace"] == list(found["values"]["calls"].values())


@pytest.mark.parametrize("page", ["agent-chat-ui", "Agent Inbox"])
def test_a_person_answers_in_an_agent_chat_page(recorded: Studio, page: str) -> None:
    client, thread = recorded.client, recorded.thread()
    context = {"human_review": "always"}

    def send(kind: str, args: Json) -> Any:
        if page == "agent-chat-ui":
            name = "review_result"
            resume: Any = {
                "decisions": [{"type": kind, "edited_action": {"name": name, "args": args}}]
            }
        else:
            resume = [{"type": kind, "args": {"action": "review_result", "args": args}}]
        return client.runs.wait(thread, "absa", command={"resume": resume}, context=context)

    stopped: Any = client.runs.wait(thread, "absa", input=SAMPLE, context=context)
    [action] = stopped["__interrupt__"][0]["value"]["action_requests"]
    [feel, price] = action["args"]["aspects"]
    [again] = send("edit", {"aspects": "사용감: neutral"})["__interrupt__"]
    assert "the JSON cannot be read" in again["value"]["action_requests"][0]["description"]
    # A field that was edited arrives as text.
    changed = json.dumps([{**feel, "polarity": "neutral"}, price], ensure_ascii=False)
    output = send("edit", {"aspects": changed, "label": "mixed"})["output"]
    assert tuples(output) == {**RIGHT, "사용감": "neutral"}
    counts = output["meta"]["human_review"]["counts"]
    assert (counts["flipped"], counts["kept"]) == (1, 1)


def test_a_model_of_ones_own_answers_without_blocking_the_server(tmp_path: Path) -> None:
    turns_heard = threading.Event()

    def answer(request: Json) -> openai_server.Response:
        wanted = request["response_format"]["json_schema"]["name"]
        if wanted == "JudgeAnswer":
            # Whoever listens has heard the turns before the judge has spoken.
            assert turns_heard.wait(60)
        return openai_server.says(ANSWERS[ANSWER_TYPES[wanted]])

    def listen(studio: Studio) -> Iterator[tuple[str, str]]:
        modes: Any = ["custom", "messages-tuple"]
        for chunk in studio.client.runs.stream(
            studio.thread(), "absa", input=SAMPLE, stream_mode=modes
        ):
            if chunk.event == "custom":
                yield "said", chunk.data["node"]
                if chunk.data["node"] == "cj":
                    turns_heard.set()
            if chunk.event == "messages":
                message, about = chunk.data
                assert json.loads(message["content"]) == ANSWERS[about["langgraph_node"]]
                yield "message", about["langgraph_node"]

    with openai_server.serve() as model:
        model.rule = answer
        backend = {"kind": "openai", "model": "my-model", "base_url": model.url}
        with langgraph_dev(tmp_path, Serving(settings={"backend": backend})) as studio:
            heard = list(listen(studio))
            for kind in ("said", "message"):
                order = [node for what, node in heard if what == kind]
                assert order[3:7] == ["epm", "tan", "cj", "judge"] and len(order) == 10
            for graph, final in (
                ("absa", RIGHT),
                ("absa_no_debate", WRONG),
                ("conflict_review", RIGHT),
            ):
                output = studio.run(graph)
                assert tuples(output) == final
                assert {call["model"] for call in output["process_trace"]} == {"my-model"}
