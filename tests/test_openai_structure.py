"""Structured output from servers of all kinds: a value, or a failure with its evidence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from openai_server import Body, Response, Server, calls_tool, fails, says, serve

from absa.backends import open_backend, wire
from absa.backends.lenient import repair_json
from absa.backends.openai import OpenAIBackend
from absa.backends.servers import MODES, Dialect, known
from absa.backends.talk import read
from absa.nodes import assets
from absa.schemas.answers import (
    Answer,
    AteAnswer,
    AtsaAnswer,
    ExtractAnswer,
    JudgeAnswer,
    PersonaJudgeAnswer,
    PersonaTurnAnswer,
    TurnAnswer,
    ValidatorAnswer,
)
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import AnswerError, BackendError
from absa.schemas.settings import BackendSettings
from benchmarks.answers import ANSWERS
from benchmarks.fault_server import GARBLED, PASSING, serving

GOOD = {"aspects": [{"term": "가격", "confidence": 0.9}]}
AskFn = Callable[[OpenAIBackend, Ask], Reply]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> AskFn:
    if request.param == "sync":
        return lambda backend, question: backend.ask(question)
    return lambda backend, question: asyncio.run(backend.aask(question))


def settings(url: str, **given: Any) -> BackendSettings:
    common = {"kind": "openai", "model": "m", "max_retries": 2, "timeout_s": 1.0}
    return BackendSettings(**{**common, "base_url": url, **given})


def question(
    answer: type[Answer] = AteAnswer, system: str = "prompt", user: str = '{"review": "…"}'
) -> Ask:
    return Ask("ate", 0, "u1", system, user, "0" * 64, {}, answer)


def mode_of(request: Body) -> str:
    if "response_format" in request:
        kind: str = request["response_format"]["type"]
        return kind
    return "tool" if "tools" in request else "text"


def only(*modes: str) -> Callable[[Body], Response]:
    """A server that takes only these ways of asking."""

    def rule(request: Body) -> Response:
        mode = mode_of(request)
        if mode not in modes:
            return fails(400, f"{mode} is not supported")
        return calls_tool(GOOD) if mode == "tool" else says(GOOD)

    return rule


# Every way in which an answer or a server goes wrong once.

AS_IT_IS = "as it is"
READ_AT_ONCE = {
    "fenced": AS_IT_IS,
    "commented": "read without its comments",
    "trailing comma": "read without its comments",
    "Korean keys": "keys read: 측면 as aspects",
}


@pytest.mark.parametrize("kind", [*PASSING, *GARBLED])
def test_answer_is_whole_after_one_fault_of_each_kind(kind: str, ask: AskFn) -> None:
    with serving(ANSWERS, first=(kind,), hang_s=2.0) as server:
        backend = OpenAIBackend(settings(f"http://127.0.0.1:{server.port}/v1"), backoff_s=0)
        reply = ask(backend, question(system=assets.prompt("ate")))
        assert server.faults == {kind: 1}
    assert reply.output == ANSWERS["ate"]
    notes = " ".join(reply.notes)
    if kind in READ_AT_ONCE or kind == "slow":
        assert reply.attempts == 1
        assert READ_AT_ONCE.get(kind, AS_IT_IS) in (notes or AS_IT_IS)
    else:
        assert reply.attempts == 2
        assert notes.startswith("repaired: ") == (kind in GARBLED)


@pytest.mark.parametrize("kind", ["empty", "prose"])
def test_answer_that_stays_unreadable_is_a_failure_with_its_words(kind: str, ask: AskFn) -> None:
    with serving(ANSWERS, first=(kind,) * 9) as server:
        backend = OpenAIBackend(settings(f"http://127.0.0.1:{server.port}/v1"), backoff_s=0)
        with pytest.raises(BackendError, match="not even after a repair round") as caught:
            ask(backend, question(system=assets.prompt("ate")))
    assert caught.value.raw == ("" if kind == "empty" else "I am sorry, I cannot say.")


@pytest.mark.parametrize(
    ("mark", "says_what"),
    [
        ("FILTERED", "withheld by a content filter; the text cannot be analyzed"),
        ("REFUSED", "withheld by a content filter .*; the text cannot be analyzed"),
        ("TOO-LONG", "HTTP 400 .*too long for this model; use one with a larger context"),
    ],
)
def test_text_that_cannot_be_answered_fails_at_once_and_is_not_the_servers_fault(
    mark: str, says_what: str, ask: AskFn
) -> None:
    with serving(ANSWERS) as server:
        backend = OpenAIBackend(settings(f"http://127.0.0.1:{server.port}/v1"), backoff_s=0)
        with pytest.raises(BackendError, match=says_what) as caught:
            ask(backend, question(system=assets.prompt("ate"), user=mark))
    assert caught.value.attempts == 1
    assert not caught.value.unreachable


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 4096 tokens.",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500])
def test_context_overflow_is_known_by_the_words_of_many_servers(words: str, status: int) -> None:
    with serve() as server:
        server.rule = lambda _: fails(status, words)
        with pytest.raises(BackendError, match="larger context"):
            OpenAIBackend(settings(server.url), backoff_s=0).ask(question())
        assert len(server.requests) == 1


def test_busy_server_that_speaks_of_tokens_is_asked_again(ask: AskFn) -> None:
    with serve() as server:
        server.script = [
            fails(429, "Too many tokens, please wait before trying again."),
            says(GOOD),
        ]
        assert ask(OpenAIBackend(settings(server.url), backoff_s=0), question()).attempts == 2


@pytest.mark.parametrize("kind", ["trickling", "trickling headers"])
def test_trickling_answer_ends_with_the_time_limit(kind: str, ask: AskFn) -> None:
    with serving(ANSWERS, first=(kind,) * 3, hang_s=3.0) as server:
        backend = OpenAIBackend(
            settings(f"http://127.0.0.1:{server.port}/v1", max_retries=0), backoff_s=0
        )
        with pytest.raises(BackendError, match="no answer in time.*timeout_s"):
            ask(backend, question(system=assets.prompt("ate")))


def test_retries_are_one_budget_for_answer_and_repair(ask: AskFn) -> None:
    with serve() as server:
        server.script = [fails(500), fails(503), says("prose"), fails(500)]
        server.rule = lambda _: says(GOOD)
        with pytest.raises(BackendError, match="HTTP 500 after 4 attempts"):
            ask(OpenAIBackend(settings(server.url), backoff_s=0), question())


# Half an answer.


def test_cut_answer_keeps_its_whole_items_and_records_the_rest(ask: AskFn) -> None:
    text = '{"aspects": [{"term": "가격", "confidence": 0.9}, {"term": "품'
    with serve() as server:
        server.script = [says(text, finish="length"), says(text, finish="length")]
        reply = ask(OpenAIBackend(settings(server.url), backoff_s=0), question())
    assert reply.output == GOOD
    assert 'it breaks off, left out: , {"term": "품' in reply.notes[-1]


def test_answer_cut_before_its_first_item_is_a_failure_that_names_the_limit(ask: AskFn) -> None:
    with serve() as server:
        server.rule = lambda _: says('{"aspects": [{"term": "가', finish="length")
        with pytest.raises(BackendError, match=r"raise backend\.max_tokens") as caught:
            ask(OpenAIBackend(settings(server.url), backoff_s=0), question())
    assert caught.value.raw == '{"aspects": [{"term": "가'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        pytest.param('{"a": [1, 2, 34', '{"a": [1, 2]}', id="half a number"),
        pytest.param('{"a": "x", "b": "pos', '{"a": "x"}', id="half a word"),
        pytest.param('{"a": [{"b": [1, 2]}, {"b": [3', '{"a": [{"b": [1, 2]}]}', id="half an item"),
        pytest.param('{"a": ["x"], "b": {"c": 1', '{"a": ["x"]}', id="half an object"),
        pytest.param('{"a": [', None, id="nothing whole"),
        pytest.param('{"a": "x // y, }', None, id="nothing but half a string"),
        pytest.param('{"a": 1]', None, id="brackets that do not match"),
        pytest.param(
            '{"a": "x // y", /* no, */ "b": [1,], # z\n}', '{"a": "x // y",  "b": [1] \n}', id="all"
        ),
    ],
)
def test_mending_leaves_out_and_never_makes_up(text: str, whole: str | None) -> None:
    mended = repair_json(text, 0)
    assert (mended.text if mended else None) == whole
    if mended:
        json.loads(mended.text)
        assert (mended.left_out is None) == text.endswith("}")


@pytest.mark.parametrize(
    ("answer", "said", "read"),
    [
        (
            AtsaAnswer,
            {"측면별 감성": [{"측면": "가격", "감성": "negative", "근거": "비싸요"}]},
            {
                "aspect_sentiments": [
                    {"aspect_ref": "가격", "polarity": "negative", "evidence": "비싸요"}
                ]
            },
        ),
        (
            ExtractAnswer,
            {"Tuples": [{"Aspect": "food", "Sentiment": "positive"}]},
            {"tuples": [{"aspect_term": "food", "polarity": "positive"}]},
        ),
        # What is there under its own name is not overwritten.
        (
            ExtractAnswer,
            {"tuples": [{"aspect_term": "food", "aspect": "x", "polarity": "positive"}]},
            {"tuples": [{"aspect_term": "food", "aspect": "x", "polarity": "positive"}]},
        ),
    ],
)
def test_keys_in_other_words_are_read_and_values_are_left_as_said(
    answer: type[Answer], said: dict[str, Any], read: dict[str, Any]
) -> None:
    parsed = wire.parse(json.dumps(said, ensure_ascii=False), answer)
    assert parsed.output == read
    assert bool(parsed.notes) == (said != read)


def test_polarity_in_another_language_stays_as_said() -> None:
    said = '{"tuples": [{"측면어": "가격", "감성": "부정"}]}'
    assert wire.parse(said, ExtractAnswer).output["tuples"][0]["polarity"] == "부정"


def test_every_alias_names_a_field_that_some_agent_is_asked_for() -> None:
    def names(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(names, schema)) if schema else set()
        if not isinstance(schema, dict):
            return set()
        return set(schema.get("properties", {})) | names(list(schema.values()))

    asked = set().union(*(names(wire.wire_schema(a)) for a in _all_answers(Answer)))
    aliases = assets.read_json("answer_keys.json")
    assert {name for targets in aliases.values() for name in targets} <= asked


def _all_answers(kind: type[Answer]) -> list[type[Answer]]:
    found = [sub for sub in kind.__subclasses__() if sub.__module__ == "absa.schemas.answers"]
    return found + [deeper for sub in found for deeper in _all_answers(sub)]


def test_part_of_a_cut_answer_is_not_taken_for_the_answer() -> None:
    text = '{"aspects": [{"term": "a"}, {"term": "b'
    assert wire.parse(text, AteAnswer).output == {"aspects": [{"term": "a"}]}
    with pytest.raises(AnswerError):
        wire.parse("{not json, at all}", JudgeAnswer)


@pytest.mark.parametrize(
    ("answer", "text", "lost"),
    [
        (TurnAnswer, '{"agent": "epm", "proposed_edits": [{"op": "confirm_tu', "proposed_edits"),
        (
            JudgeAnswer,
            '{"final_patch": [], "final_tuples": [], "sentence_po',
            "sentence_evidence_spans",
        ),
    ],
)
def test_cut_answer_without_one_of_its_lists_is_no_answer(
    answer: type[Answer], text: str, lost: str
) -> None:
    with pytest.raises(AnswerError, match=f"breaks off before .*{lost}"):
        wire.parse(text, answer)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValidatorAnswer, '[{"type": "NEGATION", "severity": "high", "confidence": 0.9}]'),
        (ValidatorAnswer, '{"structural_risks": [{"type": "IRONY", "confidence": 1} {"type": "'),
        (JudgeAnswer, '[{"op": "drop_tuple", "target": "가격", "rationale": "…"}]'),
        (AtsaAnswer, '[{"aspect": "가격", "sentiment": "negative"}]'),
        (AteAnswer, '[{"aspect": "가격"}]'),
    ],
)
def test_item_of_a_list_is_not_taken_for_the_answer(answer: type[Answer], text: str) -> None:
    with pytest.raises(AnswerError):
        wire.parse(text, answer)


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        (PersonaTurnAnswer, {"speaker": "critic", "stance": "con", "message": "…"}),
        (PersonaTurnAnswer, {"message": "…", "key_points": [{"aspect": "가격"}]}),
        (PersonaJudgeAnswer, {"winner": "critic", "consensus": "…", "key_agreements": [{}]}),
        (JudgeAnswer, {"final_patch": [], "sentence_evidence_spans": [[0, 5]]}),
        (JudgeAnswer, {"final_patch": [], "Sentence Evidence Spans": "너무 비싸요"}),
        (ValidatorAnswer, {"structural_risks": [], "correction_proposals": "none"}),
        (ValidatorAnswer, {"structural_risks": None, "suggested_label": "negative"}),
    ],
)
def test_answer_with_a_flaw_beside_what_matters_is_read(
    answer: type[Answer], given: dict[str, Any]
) -> None:
    reading = read(json.dumps(given, ensure_ascii=False), answer)
    assert reading.output is not None
    assert reading.output.keys() & answer.model_fields.keys()


@pytest.mark.parametrize(
    "given", [{"aspect_sentiments": {"가격": "negative"}}, {"aspect_sentiments": [1, 2]}]
)
def test_list_of_which_nothing_can_be_read_is_a_failure_with_its_words(
    given: dict[str, Any], ask: AskFn
) -> None:
    with serve() as server:
        server.rule = lambda _: says(given)
        with pytest.raises(BackendError, match="not even after a repair round") as caught:
            ask(OpenAIBackend(settings(server.url), backoff_s=0), question(AtsaAnswer))
        # The third time it is asked as at first, and says the same.
        assert len(server.requests) == 3
    assert json.loads(caught.value.raw or "") == given


@pytest.mark.parametrize(
    "response",
    [
        says("half an ans", finish="content_filter"),
        Response(body={**says("").body, "choices": [], "guard": "half an ans"}),  # type: ignore[dict-item]
    ],
)
def test_answer_that_cannot_be_used_is_kept_and_its_tokens_are_counted(
    response: Response, ask: AskFn
) -> None:
    with serve() as server:
        server.rule = lambda _: response
        with pytest.raises(BackendError) as caught:
            ask(OpenAIBackend(settings(server.url), backoff_s=0), question())
    assert "half an ans" in (caught.value.raw or "")
    times = caught.value.attempts
    assert caught.value.details["usage"] == {
        "prompt_tokens": 11 * times,
        "completion_tokens": 7 * times,
    }


def test_whole_answer_with_an_empty_list_is_one() -> None:
    whole = wire.parse('{"agent": "epm", "proposed_edits": []}', TurnAnswer)
    assert whole.output == {"agent": "epm", "proposed_edits": []}


# What a server can do.


@pytest.mark.parametrize("mode", MODES)
def test_server_that_knows_one_way_only_is_asked_in_it(mode: str, ask: AskFn) -> None:
    with serve() as server:
        server.rule = only(mode)
        backend = OpenAIBackend(settings(server.url), backoff_s=0)
        assert ask(backend, question()).output == GOOD
        assert ask(backend, question()).attempts == 1
        assert mode_of(server.requests[-1]) == mode


@pytest.mark.parametrize(
    ("url", "model", "dialect"),
    [
        ("https://api.openai.com/v1", "gpt-4o-mini", Dialect(limit="max_completion_tokens")),
        (
            "https://api.openai.com/v1",
            "gpt-3.5-turbo",
            Dialect("tool", limit="max_completion_tokens"),
        ),
        (
            "https://api.openai.com/v1",
            "o3-mini",
            Dialect(unsent=frozenset({"temperature", "logprobs"}), limit="max_completion_tokens"),
        ),
        ("https://api.deepseek.com", "deepseek-chat", Dialect("json_object")),
        ("http://localhost:11434/v1", "gpt-3.5-turbo", Dialect()),
        ("http://somewhere/v1", "anything", Dialect()),
    ],
)
def test_table_knows_servers_and_models(url: str, model: str, dialect: Dialect) -> None:
    assert known(url, model) == dialect


def test_every_row_of_the_table_can_be_used() -> None:
    for row in assets.read_json("servers.json")["servers"]:
        assert row["name"] and ("host" in row or "port" in row)
        host, port = row.get("host", "localhost"), row.get("port")
        url = f"http://{host}:{port}/v1" if port else f"https://{host}/v1"
        model = row.get("model", "m").replace("*", "x").replace("[134]", "1")
        assert known(url, model).mode == row.get("mode", "json_schema")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "cache" / "answers.db"))
    return tmp_path / "cache" / "servers.json"


def test_what_was_found_out_is_known_to_the_next_run(memory: Path, ask: AskFn) -> None:
    with serve() as server:
        server.rule = only("json_object")
        first = ask(open_backend(settings(server.url)), question())  # type: ignore[arg-type]
        second = ask(open_backend(settings(server.url)), question())  # type: ignore[arg-type]
        assert (first.attempts, second.attempts) == (3, 1)
        other = open_backend(settings(server.url, model="other"))
        assert ask(other, question()).attempts == 3  # type: ignore[arg-type]
    assert {key.split()[1] for key in json.loads(memory.read_text("utf-8"))} == {"m", "other"}


def test_what_turns_out_wrong_is_forgotten(memory: Path, ask: AskFn) -> None:
    with serve() as server:
        server.rule = only("text")
        ask(open_backend(settings(server.url)), question())  # type: ignore[arg-type]
        # The server was updated: it wants to be asked properly now.
        server.rule = only("json_schema")
        server.requests.clear()
        again = open_backend(settings(server.url))
        assert ask(again, question()).output == GOOD  # type: ignore[arg-type]
        assert [mode_of(request) for request in server.requests] == ["text", "json_schema"]
        server.requests.clear()
        ask(open_backend(settings(server.url)), question())  # type: ignore[arg-type]
        assert [mode_of(request) for request in server.requests] == ["json_schema"]


@pytest.mark.parametrize("damage", ["old", "not JSON", "a list", "nonsense"])
def test_old_or_damaged_memory_is_found_out_anew(memory: Path, damage: str) -> None:
    with serve() as server:
        server.rule = only("json_schema", "text")
        long_ago = (datetime.now(UTC) - timedelta(days=8)).date().isoformat()
        facts = {"mode": "text", "unsent": [], "limit": None, "found": long_ago}
        bad: Any = {**facts, "mode": "by telepathy"} if damage == "nonsense" else facts
        stored = {f"{server.url} m": bad}
        text = {"not JSON": "{", "a list": "[1]"}.get(damage, json.dumps(stored))
        memory.parent.mkdir()
        memory.write_text(text, encoding="utf-8")
        assert open_backend(settings(server.url)).ask(question()).output == GOOD
        assert [mode_of(request) for request in server.requests] == ["json_schema"]


def test_memory_that_cannot_be_written_does_not_cost_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "file" / "answers.db"))
    with serve() as server:
        server.rule = only("text")
        assert open_backend(settings(server.url)).ask(question()).output == GOOD


def test_server_that_ignores_what_it_takes_is_asked_more_simply_after_three(
    server_url: Server,
) -> None:
    server = server_url
    server.rule = lambda request: (
        calls_tool(GOOD) if mode_of(request) == "tool" else says("In my view, all is well.")
    )
    backend = OpenAIBackend(settings(server.url), backoff_s=0)
    for _ in range(3):
        with pytest.raises(BackendError):
            backend.ask(question())
    assert backend.ask(question()).output == GOOD
    assert mode_of(server.requests[-1]) == "tool"


@pytest.fixture
def server_url() -> Any:
    with serve() as server:
        yield server


# The longest answer.


@pytest.mark.parametrize(
    ("taken", "sent"),
    [
        (("max_tokens", "max_completion_tokens"), "max_tokens"),
        (("max_completion_tokens",), "max_completion_tokens"),
        ((), None),
    ],
)
def test_longest_answer_is_sent_under_the_name_that_the_server_knows(
    server_url: Server, ask: AskFn, taken: tuple[str, ...], sent: str | None
) -> None:
    def rule(request: Body) -> Response:
        for name in ("max_tokens", "max_completion_tokens"):
            if name in request and name not in taken:
                return fails(400, f"Unsupported parameter: '{name}'")
        return says(GOOD)

    server_url.rule = rule
    backend = OpenAIBackend(settings(server_url.url, max_tokens=77), backoff_s=0)
    ask(backend, question())
    reply = ask(backend, question())
    request = server_url.requests[-1]
    given = {n: request[n] for n in ("max_tokens", "max_completion_tokens") if n in request}
    assert given == ({sent: 77} if sent else {})
    assert mode_of(request) == "json_schema"
    assert ("max_tokens not sent: m does not take it" in reply.notes) == (sent is None)


def test_without_a_setting_no_limit_is_sent(server_url: Server) -> None:
    server_url.rule = lambda _: says(GOOD)
    OpenAIBackend(settings(server_url.url), backoff_s=0).ask(question())
    assert not {"max_tokens", "max_completion_tokens"} & server_url.requests[0].keys()
