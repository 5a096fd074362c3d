"""What LangGraph Studio sees: the real local server, without a key and without a network."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai_server
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from scripted import all_say, ate, ate_review, atsa, atsa_review, judge, said, set_polarity

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "langgraph.json"
DEBATES = ("absa", "absa_no_debate", "absa_no_override")
GRAPHS = (*DEBATES, "conflict_review")
TEXT = "사용감은 좋지만 가격은 비싸요."
SAMPLE = {"text": TEXT, "uid": "ko-1"}
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

EXPECTED = (
    # The server cannot be told which types its checkpoints hold: it reads them, and warns.
    "Deserializing unregistered type schemas.",
    # More than three seconds, on a slow machine: the Korean analyser is loaded at import.
    "Graph import exceeded the expected startup time.",
)


class Studio:
    """The server as Studio uses it: a graph's assistant, threads, runs."""

    def __init__(self, client: SyncLangGraphClient) -> None:
        self.client = client
        self.assistants = {
            found["graph_id"]: found["assistant_id"] for found in client.assistants.search()
        }

    def nodes(self, graph: str) -> set[str]:
        drawing: Any = self.client.assistants.get_graph(self.assistants[graph])
        return {node["id"] for node in drawing["nodes"]}

    def edges(self, graph: str) -> list[Json]:
        drawing: Any = self.client.assistants.get_graph(self.assistants[graph])
        return list(drawing["edges"])

    def schema(self, graph: str, face: str) -> Any:
        schemas: Mapping[str, Any] = self.client.assistants.get_schemas(self.assistants[graph])
        return schemas.get(f"{face}_schema")

    def thread(self) -> str:
        return str(self.client.threads.create()["thread_id"])

    def run(
        self, graph: str, *, given: Json | None = None, thread: str | None = None, **more: Any
    ) -> Json:
        thread = thread or self.thread()
        state: Any = self.client.runs.wait(thread, graph, input=given or SAMPLE, **more)
        output: Json = state["output"]
        return output


def tuples(output: Json) -> dict[str, str]:
    return {t["aspect_term"]: t["polarity"] for t in output["final_result"]["final_tuples"]}


def asked(output: Json) -> set[str]:
    return {call["node"] for call in output["process_trace"]}


def complaints(log: str) -> list[str]:
    """Lines of a server's log at the level of a warning or above."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    loud = re.findall(r"^.*\[(?:warning|error|critical) *\].*$", plain, re.MULTILINE)
    return [line for line in loud if not any(words in line for words in EXPECTED)] + re.findall(
        r"^.*(?:Blocking call|BlockingError).*$", plain, re.MULTILINE
    )


@contextmanager
def langgraph_dev(folder: Path, settings: Json | None = None) -> Iterator[Studio]:
    """A running server, over settings of one's own if there are any; its log must be clean."""
    foreign = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "ABSA_", "OPENAI_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    env |= {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true"}
    if settings is not None:
        own = folder / "own.yaml"
        own.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        env["ABSA_CONFIG"] = str(own)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(CONFIG)]
    command += ["--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "server.log"
    # In a folder of its own, where it may keep its threads.
    with (
        log.open("wb") as sink,
        subprocess.Popen(
            command, cwd=folder, env=env, stdout=sink, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            _wait_until_up(f"{url}/ok", server, log)
            with get_sync_client(url=url, api_key=None) as client:
                yield Studio(client)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
    assert not complaints(log.read_text(encoding="utf-8", errors="replace"))


def _wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))


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
    with langgraph_dev(folder, own) as studio:
        yield studio


@pytest.fixture(scope="session")
def out_of_the_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """The server as `make studio` starts it."""
    with langgraph_dev(tmp_path_factory.mktemp("out_of_the_box")) as studio:
        yield studio


def test_every_graph_of_langgraph_json_is_served(recorded: Studio) -> None:
    declared = json.loads(CONFIG.read_text(encoding="utf-8"))["graphs"]
    assert set(recorded.assistants) == set(declared) == set(GRAPHS)


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
    assert all(field["description"] and "default" in field for field in fields.values())
    assert fields["enable_debate"]["type"] == "boolean"
    assert fields["min_total"]["type"] == "number"


def test_a_graph_of_fixed_settings_offers_no_switches(recorded: Studio) -> None:
    assert not recorded.schema("absa_no_debate", "context")


@pytest.mark.parametrize(
    ("graph", "final"),
    [
        ("absa", RIGHT),
        ("absa_no_debate", WRONG),
        ("absa_no_override", WRONG),
        ("conflict_review", RIGHT),
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


def test_a_person_answers_through_the_interrupt(recorded: Studio) -> None:
    client, thread = recorded.client, recorded.thread()
    context = {"human_review": "always"}

    def answer(*decisions: Json) -> Any:
        resume = {"resume": {"decisions": list(decisions), "reviewer": "kim"}}
        return client.runs.wait(thread, "absa", command=resume, context=context)

    asked: Any = client.runs.wait(thread, "absa", input=SAMPLE, context=context)
    (waiting,) = asked["__interrupt__"]
    assert [c["aspect"] for c in waiting["value"]["candidates"]][:2] == ["사용감", "가격"]
    (again,) = answer({"action": "drop", "aspect": "배송"})["__interrupt__"]
    assert "'배송' is no aspect of the result" in again["value"]["problems"][0]
    output = answer({"action": "flip", "aspect": "사용감", "polarity": "neutral"})["output"]
    assert tuples(output) == {**RIGHT, "사용감": "neutral"}
    assert output["meta"]["human_review"]["counts"]["flipped"] == 1


@pytest.mark.parametrize("graph", GRAPHS)
def test_it_works_out_of_the_box(out_of_the_box: Studio, graph: str) -> None:
    assert tuples(out_of_the_box.run(graph, given={"text": TEXT})) == RIGHT
    english = {"text": "The battery is great but the screen is dim."}
    assert out_of_the_box.run(graph, given=english)["lang"] == "en"


def test_a_model_of_ones_own_answers_without_blocking_the_server(tmp_path: Path) -> None:
    def answer(request: Json) -> openai_server.Response:
        wanted = request["response_format"]["json_schema"]["name"]
        return openai_server.says(ANSWERS[ANSWER_TYPES[wanted]])

    with openai_server.serve() as model:
        model.rule = answer
        backend = {"kind": "openai", "model": "my-model", "base_url": model.url}
        with langgraph_dev(tmp_path, {"backend": backend}) as studio:
            for graph, final in (
                ("absa", RIGHT),
                ("absa_no_debate", WRONG),
                ("conflict_review", RIGHT),
            ):
                output = studio.run(graph)
                assert tuples(output) == final
                assert {call["model"] for call in output["process_trace"]} == {"my-model"}
