"""The OpenAI backend against a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai_server import (
    Body,
    Response,
    Server,
    calls_tool,
    fails,
    free_port_url,
    says,
    serve,
    wait_until,
)

from absa.backends import chat, wire
from absa.backends.chat import NO_KEY
from absa.backends.faults import Wait
from absa.backends.keys import OPENAI_URL
from absa.backends.openai import LONGEST_RAW, OpenAIBackend
from absa.schemas.answers import (
    Answer,
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    JudgeAnswer,
    TurnAnswer,
    ValidatorAnswer,
)
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import AnswerError, BackendError
from absa.schemas.settings import BackendSettings

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

GOOD = {"aspects": [{"term": "가격", "confidence": 0.9}]}
KEY = "sk-test-0123456789-secret"
MODES = ("json_schema", "tool", "json_object", "text")

AskFn = Callable[[OpenAIBackend, Ask], Reply]


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "LANGSMITH_TRACING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> AskFn:
    """Both ways to ask; each behaviour must hold for both."""
    if request.param == "sync":
        return lambda backend, question: backend.ask(question)
    return lambda backend, question: asyncio.run(backend.aask(question))


def backend(server: Server | None = None, **settings: Any) -> OpenAIBackend:
    given: dict[str, Any] = {"kind": "openai", "model": "m", "max_retries": 3, "timeout_s": 5.0}
    given["base_url"] = server.url if server else None
    return OpenAIBackend(BackendSettings(**{**given, **settings}), backoff_s=0)


def question(node: str = "ate", answer: type[Answer] = AteAnswer) -> Ask:
    return Ask(
        node=node,
        turn=0,
        uid="u1",
        system="the prompt",
        user='{"review": "가격은 비싸요."}',
        prompt_sha256="0" * 64,
        inputs={},
        answer=answer,
    )


def mode_of(request: Body) -> str:
    if "response_format" in request:
        kind: str = request["response_format"]["type"]
        return kind
    return "tool" if "tools" in request else "text"


def refusing(*modes: str, status: int = 400) -> Callable[[Body], Response]:
    """A server that refuses some ways of asking for structure."""

    def rule(request: Body) -> Response:
        mode = mode_of(request)
        if mode in modes:
            return fails(status, f"{mode} is not supported")
        return (
            calls_tool(GOOD) if mode == "tool" else says(f"Sure:\n```json\n{json.dumps(GOOD)}\n```")
        )

    return rule


# What is asked and what comes back.


def test_reply_carries_answer_usage_model_seed_and_time(server: Server, ask: AskFn) -> None:
    server.script = [says(GOOD, tokens=(100, 20), delay_s=0.05)]
    reply = ask(backend(server, seed=7), question())
    assert reply.output == GOOD
    assert reply.usage == {"prompt_tokens": 100, "completion_tokens": 20}
    assert (reply.backend, reply.model, reply.seed) == ("openai", "m", 7)
    assert (reply.attempts, reply.cached, reply.notes) == (1, False, ())
    assert reply.latency_ms is not None
    assert 50 <= reply.latency_ms < 5000


def test_request_is_prompt_then_data_with_seed_temperature_and_schema(
    server: Server, ask: AskFn
) -> None:
    server.script = [says(GOOD)]
    ask(backend(server, seed=7, temperature=0.3), question())
    (request,) = server.requests
    assert request["messages"] == [
        {"role": "system", "content": "the prompt"},
        {"role": "user", "content": '{"review": "가격은 비싸요."}'},
    ]
    assert (request["model"], request["seed"], request["temperature"]) == ("m", 7, 0.3)
    assert request["response_format"] == wire.response_format(AteAnswer)
    assert not request.get("stream")


def test_role_settings_override_the_common_ones(server: Server) -> None:
    server.rule = lambda _: says(GOOD)
    role = {"model": "big", "temperature": 1.0, "seed": 9}
    asked = backend(server, roles={"ate": role})
    assert asked.ask(question("ate")).model == "big"
    assert asked.ask(question("atsa")).model == "m"
    first, second = server.requests
    assert (first["model"], first["temperature"], first["seed"]) == ("big", 1.0, 9)
    assert (second["model"], second["temperature"], second["seed"]) == ("m", 0.0, 0)


def test_role_may_live_on_another_server(server: Server) -> None:
    with serve() as other:
        server.rule = other.rule = lambda _: says(GOOD)
        asked = backend(server, roles={"ate": {"base_url": other.url}})
        asked.ask(question("ate"))
        asked.ask(question("atsa"))
    assert (len(server.requests), len(other.requests)) == (1, 1)


def test_answer_without_usage_leaves_usage_unknown(server: Server, ask: AskFn) -> None:
    response = says(GOOD)
    assert isinstance(response.body, dict)
    del response.body["usage"]
    server.script = [response]
    assert ask(backend(server), question()).usage is None


# What a server can do is learnt from what it refuses.


@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_refused_response_format_falls_back_to_a_tool_and_is_remembered(
    server: Server, ask: AskFn, status: int
) -> None:
    server.rule = refusing("json_schema", status=status)
    asked = backend(server)
    first, second = ask(asked, question()), ask(asked, question("atsa"))
    assert first.output == second.output == GOOD
    assert [mode_of(request) for request in server.requests] == ["json_schema", "tool", "tool"]
    assert (first.attempts, second.attempts) == (2, 1)
    assert second.notes == ("asked by tool: the server takes no JSON schema",)


def test_refused_tools_and_json_mode_too_fall_back_to_text(server: Server, ask: AskFn) -> None:
    server.rule = refusing("json_schema", "tool", "json_object")
    asked = backend(server)
    assert ask(asked, question()).output == GOOD
    ask(asked, question())
    assert [mode_of(request) for request in server.requests] == [*MODES, "text"]


def test_refusal_of_one_model_says_nothing_about_another(server: Server) -> None:
    server.rule = lambda request: (
        refusing("json_schema")(request) if request["model"] == "m" else says(GOOD)
    )
    asked = backend(server, roles={"atsa": {"model": "other"}})
    asked.ask(question("ate"))
    asked.ask(question("atsa"))
    assert mode_of(server.requests[-1]) == "json_schema"


def test_request_refused_in_every_form_teaches_nothing(server: Server, ask: AskFn) -> None:
    server.script = [fails(400, "first words"), fails(400), fails(400), fails(400)]
    server.rule = lambda _: says(GOOD)
    asked = backend(server)
    with pytest.raises(BackendError, match="HTTP 400.*first words"):
        ask(asked, question())
    ask(asked, question())
    assert mode_of(server.requests[-1]) == "json_schema"


@pytest.mark.parametrize("name", ["temperature", "seed"])
def test_refused_parameter_is_no_longer_sent(server: Server, ask: AskFn, name: str) -> None:
    server.rule = lambda request: (
        fails(400, f"Unsupported parameter: '{name}'") if name in request else says(GOOD)
    )
    asked = backend(server, seed=7)
    ask(asked, question())
    reply = ask(asked, question())
    assert [name in request for request in server.requests] == [True, False, False]
    assert {mode_of(request) for request in server.requests} == {"json_schema"}
    assert reply.seed == (None if name == "seed" else 7)
    assert reply.notes == (f"{name} not sent: m does not take it",)


def test_tool_is_the_answer_schema_and_must_be_called(server: Server) -> None:
    server.rule = refusing("json_schema")
    backend(server).ask(question())
    request = server.requests[-1]
    assert request["tools"] == [wire.tool(AteAnswer)]
    assert request["tool_choice"]["function"]["name"] == "AteAnswer"


def test_prompt_too_long_is_not_a_refusal(server: Server, ask: AskFn) -> None:
    server.script = [fails(400, "too long", code="context_length_exceeded")]
    with pytest.raises(BackendError, match="larger context"):
        ask(backend(server), question())
    assert len(server.requests) == 1


# Reading what models write.


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"```json\n{json.dumps(GOOD)}\n```", id="fenced"),
        pytest.param(f"Here you are: {json.dumps(GOOD)} Bye {{}}", id="prose around"),
        pytest.param(f"<think>{{hm}} {{}}</think>{json.dumps(GOOD)}", id="thoughts"),
        pytest.param(
            f'perhaps {{"aspects": []}}? no.\n</think>\n{json.dumps(GOOD)}',
            id="thoughts whose beginning the server keeps",
        ),
        pytest.param(
            f'<thinking>{{"aspects": []}}</thinking>{json.dumps(GOOD)}', id="draft in the thoughts"
        ),
        pytest.param(f'{{"example": 1}} {json.dumps(GOOD)}', id="another object first"),
    ],
)
def test_json_is_found_in_what_a_model_writes_around_it(
    server: Server, ask: AskFn, text: str
) -> None:
    server.script = [says(text)]
    reply = ask(backend(server), question())
    assert (reply.output, reply.attempts) == (GOOD, 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"aspects": [{"term": "가격"', id="broken off"),
        pytest.param("I cannot say.", id="prose"),
        pytest.param('<think>perhaps {"aspects": []}?', id="thoughts that do not end"),
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param('{"other": 1}', id="other keys"),
        pytest.param('{"aspects": "none"}', id="no list"),
        pytest.param('{"aspects": ' * 5000, id="nested without end"),
    ],
)
def test_unreadable_answer_is_shown_to_the_model_once(
    server: Server, ask: AskFn, text: str
) -> None:
    server.script = [says(text), says(GOOD)]
    reply = ask(backend(server), question())
    assert reply.output == GOOD
    assert reply.attempts == 2
    assert reply.usage == {"prompt_tokens": 22, "completion_tokens": 14}
    assert reply.notes[0].startswith("repaired: ")
    first, second = server.requests
    assert second["messages"][:2] == first["messages"]
    shown = [message["content"] for message in second["messages"][2:]]
    assert shown[:-1] == ([text[:4000]] if text else [])
    assert "could not be read" in shown[-1]


def test_truncated_answer_is_repaired_like_any_other(server: Server, ask: AskFn) -> None:
    server.script = [says('{"aspects": [', finish="length"), says(GOOD)]
    reply = ask(backend(server), question())
    assert (reply.output, reply.attempts) == (GOOD, 2)
    assert reply.usage == {"prompt_tokens": 22, "completion_tokens": 14}


def test_broken_tool_arguments_are_repaired(server: Server, ask: AskFn) -> None:
    server.script = [fails(400), calls_tool('{"aspects": '), calls_tool(GOOD)]
    assert ask(backend(server), question()).output == GOOD


def test_answer_unreadable_twice_is_an_error_with_the_raw_answer(
    server: Server, ask: AskFn
) -> None:
    server.script = [says("nothing"), says("nothing again")]
    with pytest.raises(BackendError, match="could not be read.*larger") as caught:
        ask(backend(server, max_retries=0), question())
    error = caught.value
    assert (error.node, error.turn, error.raw, error.attempts) == ("ate", 0, "nothing again", 2)
    assert not error.retryable
    assert error.details["usage"] == {"prompt_tokens": 22, "completion_tokens": 14}


def test_second_unreadable_answer_uses_the_retries_that_are_left(
    server: Server, ask: AskFn
) -> None:
    server.script = [says("a"), says("b"), fails(500), says("c"), says("d"), says(GOOD)]
    reply = ask(backend(server, max_retries=4), question())
    assert (reply.output, reply.attempts) == (GOOD, 6)
    server.rule = lambda request: says(f"prose {len(server.requests)}")
    with pytest.raises(BackendError, match="not even after a repair round") as caught:
        ask(backend(server, max_retries=4), question())
    assert caught.value.attempts == 4 + 2


def test_same_words_to_the_same_question_end_it(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: says("I cannot say.")
    with pytest.raises(BackendError, match="not even after a repair round"):
        ask(backend(server, max_retries=5), question())
    assert len(server.requests) == 3


def test_refusal_is_named_with_its_words(server: Server, ask: AskFn) -> None:
    refusal = {"role": "assistant", "content": None, "refusal": "That is not for me to say."}
    server.rule = lambda _: says("", message=refusal)
    with pytest.raises(BackendError, match=r"refused to answer: That is not for me to say\.") as e:
        ask(backend(server), question())
    assert e.value.raw == "That is not for me to say."


# Counts of tokens.


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": 1.5, "completion_tokens": 1},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
        {"prompt_tokens": 2**53, "completion_tokens": 1},
        {"prompt_tokens": "7", "completion_tokens": 1},
        {"prompt_tokens": 7},
        {"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": 3}
        | {"prompt_tokens": True},
        "many",
        [1],
        None,
    ],
)
def test_count_that_makes_no_sense_is_unknown_and_fails_no_answer(
    server: Server, ask: AskFn, usage: Any
) -> None:
    body = says(GOOD).body
    assert isinstance(body, dict)
    server.script = [Response(body={**body, "usage": usage})]
    reply = ask(backend(server), question())
    assert (reply.output, reply.usage) == (GOOD, None)
    # Nor is it left out of a sum as if it were nothing.
    server.script = [says("prose"), Response(body={**body, "usage": usage})]
    assert ask(backend(server), question()).usage is None


# Redirects, and the server that answered.


def test_redirect_to_another_server_is_refused_and_may_be_allowed(
    server: Server, ask: AskFn
) -> None:
    with serve() as other:
        other.rule = lambda _: says(GOOD)
        target = f"{other.url}/chat/completions"
        server.rule = lambda _: Response(307, "", {"Location": target})
        with pytest.raises(BackendError, match=r"redirect to another server.*allow_redirects") as e:
            ask(backend(server), question())
        assert urlsplit(other.url).netloc in str(e.value)
        assert (len(server.requests), other.requests) == (1, [])
        assert e.value.unreachable
        reply = ask(backend(server, allow_redirects=True), question())
        assert (reply.output, reply.host) == (GOOD, urlsplit(other.url).netloc)


def test_redirect_within_a_server_is_followed(server: Server, ask: AskFn) -> None:
    server.script = [Response(308, "", {"Location": "/v2/chat/completions"}), says(GOOD)]
    reply = ask(backend(server), question())
    assert (reply.output, reply.host) == (GOOD, urlsplit(server.url).netloc)


# Encryption.


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_certificate_that_is_not_trusted_is_named_and_not_tried_again(
    tmp_path: Path, ask: AskFn
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout"
    command = [*made.split(), str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    wanted = r"certificate is not trusted \(self-signed certificate\); .*SSL_CERT_FILE"
    with serve(tls) as server, pytest.raises(BackendError, match=wanted) as caught:
        ask(backend(server), question())
    assert (caught.value.attempts, caught.value.unreachable) == (1, True)


def test_server_without_tls_is_named_with_the_address_it_has(server: Server, ask: AskFn) -> None:
    url = server.url.replace("http://", "https://")
    with pytest.raises(BackendError, match="the server does not use TLS; .*http://") as caught:
        ask(backend(base_url=url), question())
    assert (caught.value.attempts, caught.value.unreachable) == (1, True)


# Sizes.


@pytest.mark.parametrize("is_packed", [False, True])
def test_body_without_end_is_not_read_to_its_end(
    server: Server, ask: AskFn, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    monkeypatch.setattr(chat, "LARGEST_BODY", 100_000)
    content = b" " * 1_000_000
    packed = Response(200, gzip.compress(content), {"Content-Encoding": "gzip"})
    server.rule = lambda _: packed if is_packed else Response(200, content)
    with pytest.raises(BackendError, match=r"more than 100,000 bytes.*max_tokens"):
        ask(backend(server), question())
    assert len(server.requests) == 1


def test_answer_without_end_is_a_failure_that_says_so(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: says({**GOOD, "extra": "x" * 1_100_000})
    with pytest.raises(BackendError, match="characters, more than 1,000,000") as caught:
        ask(backend(server), question())
    assert len(caught.value.raw or "") == LONGEST_RAW


def test_list_without_end_is_a_failure_that_says_so(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: says({"aspects": [{"term": "a"}] * 20_000})
    with pytest.raises(BackendError, match="aspects has 20,000 items"):
        ask(backend(server), question())


def test_reason_for_a_repair_is_short(server: Server, ask: AskFn) -> None:
    broken = {"aspects": [{"term": "a", "span": "x" * 50_000, "confidence": "y" * 50_000}] * 9}
    server.script = [says(broken | {"aspects": [*broken["aspects"], {"no": "z" * 90_000}]})]
    server.rule = lambda _: says(GOOD)
    reply = ask(backend(server), question())
    assert len(json.dumps(server.requests[-1])) < 20_000
    assert all(len(note) < 5000 for note in reply.notes)


@pytest.mark.parametrize(
    "repaired",
    [
        pytest.param("nothing", id="unreadable"),
        pytest.param({"aspects": [{"no": "term"}, {"no": "term"}]}, id="worse"),
    ],
)
def test_partly_readable_answer_survives_a_failed_repair(
    server: Server, ask: AskFn, repaired: Any
) -> None:
    partly = {"aspects": [{"term": "가격"}, {"no": "term"}]}
    server.script = [says(partly), says(repaired)]
    reply = ask(backend(server), question())
    assert reply.output == partly
    assert reply.notes[0].startswith("not repaired: aspects.1")


def test_full_list_of_a_reviewer_is_a_violation_to_record_not_to_repair(
    server: Server, ask: AskFn
) -> None:
    given = {"aspect_review": [], "aspects": []}
    server.script = [says(given)]
    reply = ask(backend(server), question("ate_review", AteReviewAnswer))
    assert (reply.output, reply.attempts) == (given, 1)


def test_output_can_always_be_written_to_a_utf8_json_file(server: Server, ask: AskFn) -> None:
    text = (
        '{"aspects": [{"term": "\\ud83d", "confidence": NaN}, {"term": "a", "confidence": 1e999}]}'
    )
    server.script = [says(text)]
    output = ask(backend(server), question()).output
    assert json.dumps(output, ensure_ascii=False, allow_nan=False).encode()


# Busy, failing and missing servers.


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_transient_failure_is_asked_again(server: Server, ask: AskFn, status: int) -> None:
    server.script = [fails(status), fails(status), says(GOOD)]
    reply = ask(backend(server), question())
    assert (reply.output, reply.attempts) == (GOOD, 3)
    assert {mode_of(request) for request in server.requests} == {"json_schema"}


@pytest.mark.parametrize(("status", "remedy"), [(429, "max_concurrency"), (500, "try again later")])
def test_retries_end_with_an_error_that_names_status_and_remedy(
    server: Server, ask: AskFn, status: int, remedy: str
) -> None:
    server.rule = lambda _: fails(status, "words of the server")
    with pytest.raises(BackendError, match=f"HTTP {status} after 3 attempts.*{remedy}") as caught:
        ask(backend(server, max_retries=2), question())
    assert len(server.requests) == caught.value.attempts == 3
    assert "words of the server" in (caught.value.raw or "")
    assert caught.value.details["status"] == status


def test_used_up_quota_is_not_asked_again(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: fails(429, code="insufficient_quota")
    with pytest.raises(BackendError, match="billing"):
        ask(backend(server), question())
    assert len(server.requests) == 1


def test_retry_after_zero_beats_the_backoff(server: Server, ask: AskFn) -> None:
    server.script = [fails(429, Retry_After="0"), says(GOOD)]
    settings = BackendSettings(kind="openai", model="m", base_url=server.url)
    start = time.monotonic()
    ask(OpenAIBackend(settings, backoff_s=30), question())
    assert time.monotonic() - start < 15


@pytest.mark.parametrize(
    ("header", "shortest", "longest"),
    [
        pytest.param("7", 7, 7, id="seconds"),
        pytest.param("86400", 60, 60, id="capped"),
        pytest.param("in a while", 0.5, 1.0, id="not understood"),
        pytest.param(None, 0.5, 1.0, id="not given"),
        pytest.param(
            format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True), 60, 60, id="date"
        ),
    ],
)
def test_wait_is_what_the_server_asks_for(
    header: str | None, shortest: float, longest: float
) -> None:
    error = Exception()
    error.response = SimpleNamespace(headers={"retry-after": header} if header else {})  # type: ignore[attr-defined]
    state = SimpleNamespace(attempt_number=1, outcome=SimpleNamespace(exception=lambda: error))
    assert shortest <= Wait(0.5)(state) <= longest  # type: ignore[arg-type]


def test_waits_grow_and_are_jittered() -> None:
    def waits(attempt: int) -> set[float]:
        state = SimpleNamespace(attempt_number=attempt, outcome=None)
        return {Wait(0.5)(state) for _ in range(50)}  # type: ignore[arg-type]

    assert len(waits(1)) > 1
    assert max(waits(1)) <= 1.0 < min(waits(3)) < max(waits(12)) <= 61


def test_hanging_server_times_out(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: says(GOOD, delay_s=30)
    with pytest.raises(BackendError, match="no answer in time after 2 attempts.*timeout_s"):
        ask(backend(server, timeout_s=0.1, max_retries=1), question())


def test_missing_server_is_named_with_a_remedy(ask: AskFn) -> None:
    url = free_port_url()
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:\d+: no connection.*base_url"):
        ask(backend(base_url=url, max_retries=1), question())


@pytest.mark.parametrize(
    ("response", "says_what"),
    [
        pytest.param(
            Response(200, "<html>welcome</html>"),
            "a web page instead of an answer.*OpenAI-compatible",
            id="a web page",
        ),
        pytest.param(Response(200, ""), "an empty body.*see its log", id="nothing"),
        pytest.param(Response(200, '{"choices": ['), "not valid JSON.*see its log", id="cut"),
        pytest.param(Response(200, "[" * 100_000), "not valid JSON.*see its log", id="deep"),
        pytest.param(Response(200, {"choices": []}), "without choices.*log", id="no choices"),
        pytest.param(Response(200, {"choices": None}), "without choices", id="null choices"),
        pytest.param(
            Response(200, {"hello": 1}),
            "not a chat completion.*OpenAI-compatible",
            id="another API",
        ),
        pytest.param(
            Response(200, {"error": "worn out"}),
            r"an error instead of an answer after 3 attempts \(worn out\)",
            id="an error",
        ),
    ],
)
def test_what_is_no_answer_is_asked_again_within_the_retries_and_named(
    server: Server, ask: AskFn, response: Response, says_what: str
) -> None:
    server.rule = lambda _: response
    with pytest.raises(BackendError, match=says_what) as caught:
        ask(backend(server, max_retries=2), question())
    assert len(server.requests) == caught.value.attempts == 3


def test_error_in_the_body_of_a_200_counts_as_its_status(server: Server, ask: AskFn) -> None:
    busy = Response(200, {"error": {"code": 502, "message": "upstream"}, "choices": []})
    server.script = [busy, says(GOOD)]
    assert ask(backend(server), question()).attempts == 2


def test_failed_repair_request_keeps_the_first_answer_as_raw(server: Server, ask: AskFn) -> None:
    server.script = [says("nothing")]
    server.rule = lambda _: fails(500)
    with pytest.raises(BackendError, match="HTTP 500") as caught:
        ask(backend(server, max_retries=1), question())
    assert (caught.value.raw, caught.value.attempts) == ("nothing", 3)


# Keys.


def test_key_comes_from_the_environment(
    server: Server, ask: AskFn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.script = [says(GOOD)]
    ask(backend(server), question())
    assert server.keys == [f"Bearer {KEY}"]


def test_own_server_needs_no_key(server: Server, ask: AskFn) -> None:
    server.script = [says(GOOD)]
    ask(backend(server), question())
    assert server.keys == [f"Bearer {NO_KEY}"]


def test_missing_key_for_openai_itself_is_said_before_any_request(ask: AskFn) -> None:
    with pytest.raises(BackendError, match="OPENAI_API_KEY") as caught:
        ask(backend(base_url=OPENAI_URL), question())
    assert caught.value.attempts == 0


def test_model_that_is_not_there_counts_against_the_server(server: Server, ask: AskFn) -> None:
    """So that a run with a misspelt model ends soon, and not after the last sample."""
    server.rule = lambda _: fails(404, "model 'gtp' not found")
    with pytest.raises(BackendError, match="HTTP 404") as caught:
        ask(backend(server), question())
    assert caught.value.unreachable


@pytest.mark.parametrize("status", [400, 401, 500])
def test_key_is_in_no_error_even_if_the_server_repeats_it(
    server: Server, ask: AskFn, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.rule = lambda _: fails(status, f"wrong key {KEY}")
    with pytest.raises(BackendError, match=f"HTTP {status}") as caught:
        ask(backend(server, max_retries=1), question())
    error: BaseException | None = caught.value
    assert "wrong key ***" in caught.value.raw  # type: ignore[operator]
    while error is not None:  # nor in any error a traceback would show with it
        assert KEY not in f"{error} {vars(error)}"
        error = error.__cause__ or error.__context__


def test_nothing_is_traced_unless_asked_for(server: Server) -> None:
    from langsmith.utils import tracing_is_enabled

    server.script = [says(GOOD)]
    backend(server).ask(question())
    assert not tracing_is_enabled()


# Concurrency and event loops.


def test_ceiling_holds_for_threads(server: Server) -> None:
    server.rule = lambda _: says(GOOD, delay_s=0.03)
    asked = backend(server, max_concurrency=2)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(asked.ask, [question()] * 8))
    assert len(replies) == 8
    assert server.peak == 2


def test_ceiling_holds_for_an_event_loop(server: Server) -> None:
    server.rule = lambda _: says(GOOD, delay_s=0.03)
    asked = backend(server, max_concurrency=3)

    async def many() -> list[Reply]:
        return await asyncio.gather(*(asked.aask(question()) for _ in range(9)))

    assert len(asyncio.run(many())) == 9
    assert server.peak == 3


def test_latency_excludes_waiting_for_a_slot(server: Server) -> None:
    server.rule = lambda _: says(GOOD, delay_s=0.1)
    asked = backend(server, max_concurrency=1)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(asked.ask, [question()] * 4))
    latencies = [reply.latency_ms or 0 for reply in replies]
    assert min(latencies) >= 100
    assert sum(latencies) < 800, "with waiting it would be 100 + 200 + 300 + 400"


def test_latency_excludes_waiting_for_the_rate(server: Server, ask: AskFn) -> None:
    server.rule = lambda _: says(GOOD)
    asked = backend(server, requests_per_second=4.0)
    began = time.monotonic()
    replies = [ask(asked, question()) for _ in range(2)]
    assert time.monotonic() - began > 0.25
    assert all((reply.latency_ms or 0) < 200 for reply in replies)


def test_rate_is_kept_after_a_slow_answer(server: Server) -> None:
    at: list[float] = []

    def rule(_: Body) -> Response:
        at.append(time.monotonic())
        return says(GOOD, delay_s=1.0 if len(at) == 1 else 0.0)

    server.rule = rule
    asked = backend(server, max_concurrency=1, requests_per_second=5.0)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(asked.ask, [question()] * 5))
    # Nobody saved up while the first one was answered.
    assert at[-1] - at[1] > 0.5


def test_slot_is_free_while_a_retry_waits(server: Server) -> None:
    server.script = [fails(429, Retry_After="1"), says(GOOD), says(GOOD)]
    asked = backend(server, max_concurrency=1)

    async def both() -> float:
        slow = asyncio.create_task(asked.aask(question()))
        while not server.requests:
            await asyncio.sleep(0.005)
        start = time.monotonic()
        await asked.aask(question())
        quick = time.monotonic() - start
        await slow
        return quick

    assert asyncio.run(both()) < 0.9


def test_one_backend_serves_one_event_loop_after_another(server: Server) -> None:
    server.rule = lambda _: says(GOOD)
    asked = backend(server)
    for _ in range(3):
        assert asyncio.run(asked.aask(question())).output == GOOD


def test_one_backend_serves_event_loops_of_several_threads(server: Server) -> None:
    server.rule = lambda _: says(GOOD, delay_s=0.02)
    asked = backend(server)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: asyncio.run(asked.aask(question())), range(8)))
    assert [reply.output for reply in replies] == [GOOD] * 8


def test_clients_of_closed_event_loops_are_let_go(server: Server) -> None:
    server.rule = lambda _: says(GOOD)
    asked = backend(server)
    for _ in range(3):
        asyncio.run(asked.aask(question()))
    assert len(asked._loops) == 1


def test_closed_backend_opens_anew(server: Server) -> None:
    server.rule = lambda _: says(GOOD)
    asked = backend(server)

    async def twice() -> None:
        await asked.aask(question())
        await asked.aclose()
        await asked.aask(question())

    asyncio.run(twice())
    asked.ask(question())
    asked.close()
    assert asked.ask(question()).output == GOOD


def test_async_question_never_blocks_the_loop(server: Server) -> None:
    blockbuster = pytest.importorskip("blockbuster")
    server.rule = refusing("json_schema")
    asked = backend(server)

    async def watched() -> Reply:
        with blockbuster.blockbuster_ctx():
            return await asked.aask(question())

    assert asyncio.run(watched()).output == GOOD


def test_cancelled_question_gives_its_slot_back(server: Server) -> None:
    server.script = [says(GOOD, delay_s=30)]
    server.rule = lambda _: says(GOOD)
    asked = backend(server, max_concurrency=1)

    async def cancel_then_ask() -> Reply:
        task = asyncio.create_task(asked.aask(question()))
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asked.aask(question())

    assert asyncio.run(cancel_then_ask()).output == GOOD


def test_connections_are_reused(server: Server) -> None:
    server.rule = lambda _: says(GOOD)
    asked = backend(server)
    asked.ask(question())
    before = threading.active_count()
    for _ in range(5):
        asked.ask(question())
    # The server keeps one thread per connection.
    assert wait_until(lambda: threading.active_count() <= before)


# The schema on the wire.


@pytest.mark.parametrize(
    "answer",
    [
        AteAnswer,
        AtsaAnswer,
        ValidatorAnswer,
        TurnAnswer,
        JudgeAnswer,
        AteReviewAnswer,
        AtsaReviewAnswer,
    ],
)
def test_wire_schema_is_what_strict_mode_accepts(answer: type[Answer]) -> None:
    allowed = {"type", "enum", "anyOf", "items", "properties", "required", "additionalProperties"}

    def check(node: Any) -> None:
        assert isinstance(node, dict)
        assert node.keys() <= allowed
        assert "type" in node or "anyOf" in node
        if node.get("type") == "object":
            assert node["properties"]
            assert node["required"] == list(node["properties"])
            assert node["additionalProperties"] is False
        if node.get("type") == "array":
            check(node["items"])
        for part in [*node.get("properties", {}).values(), *node.get("anyOf", [])]:
            check(part)

    schema = wire.wire_schema(answer)
    assert schema["type"] == "object"
    check(schema)
    assert "integer" not in json.dumps(schema), "a model is never asked to count characters"


def test_evidence_is_asked_for_before_the_verdict_on_it() -> None:
    items = wire.wire_schema(AtsaAnswer)["properties"]["aspect_sentiments"]["items"]
    assert items["required"][:3] == ["aspect_ref", "evidence", "polarity"]


def test_wire_schema_is_built_once() -> None:
    assert wire.wire_schema(AteAnswer) is wire.wire_schema(AteAnswer)


def test_hostile_answer_is_read_in_bounded_time() -> None:
    start = time.monotonic()
    with pytest.raises(AnswerError):
        wire.parse('{"a": ' * 100_000, AteAnswer)
    assert time.monotonic() - start < 5
