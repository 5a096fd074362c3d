"""The service: the LangGraph server's HTTP API behind a token, and the clients of the docs."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import documented
import httpx
import pytest
from langgraph_sdk import Auth
from langgraph_server import CONFIG, ROOT, Json, Serving, Studio, langgraph_dev, tuples

from absa import auth
from absa.schemas.errors import InputError

TOKEN = "s3cret w0rd"
TEXT = "The battery is great but the screen is dim."
NOWHERE = "00000000-0000-0000-0000-000000000000"
# What the server does not describe: its own tests and its deployment have routes too.
UNDESCRIBED = [
    ("post", "/internal/truncate"),
    ("get", f"/internal/debug/threads/{NOWHERE}"),
    ("get", "/deploy"),
    ("post", "/deploy"),
    ("get", "/metrics"),
    ("get", "/docs"),
    ("get", "/openapi.json"),
    ("get", "/ui/absa"),
    ("get", "/"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    expected = (
        " 401 ",
        " 422 ",
        "text is empty",
        "Remove `format_exc_info`",
        # A run without a thread keeps no steps.
        "`durability` has no effect when no checkpointer is present",
    )
    serving = Serving(token=TOKEN, expected=expected)
    with langgraph_dev(tmp_path_factory.mktemp("service"), serving) as studio:
        yield studio


@pytest.fixture
def env(service: Studio) -> dict[str, str]:
    return {**os.environ, "ABSA_URL": service.url, "ABSA_TOKEN": TOKEN}


def analyse(service: Studio, **headers: str) -> httpx.Response:
    body = {"assistant_id": "absa", "input": {"text": TEXT}}
    return httpx.post(f"{service.url}/runs/wait", json=body, headers=headers, timeout=60)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"X-Api-Key": TOKEN},
        # Studio is let in by this header, unless the server is told otherwise.
        {"X-Auth-Scheme": "langsmith"},
    ],
)
def test_without_the_token_nobody_is_served(service: Studio, headers: dict[str, str]) -> None:
    refused = analyse(service, **headers)
    assert refused.status_code == 401
    assert "ABSA_TOKEN" in refused.json()["detail"] and TOKEN not in refused.text


def test_with_the_token_everybody_is(service: Studio) -> None:
    answer = analyse(service, Authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    assert answer.json()["output"]["text"] == TEXT


def test_every_way_in_needs_the_token(service: Studio) -> None:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        token = {"Authorization": f"Bearer {TOKEN}"}
        described: Json = http.get("/openapi.json", headers=token).json()
        assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        ways = [(verb, path) for path, verbs in described["paths"].items() for verb in verbs]
        assert len(ways) > 40
        answers = {
            (verb, path): http.request(verb, _filled(path)).status_code
            for verb, path in (*ways, *UNDESCRIBED)
            if verb in ("get", "post", "put", "patch", "delete")
        }
    assert {way for way, status in answers.items() if status != 401} == {("get", "/ok")}


def _filled(path: str) -> str:
    return "/".join(NOWHERE if part.startswith("{") else part for part in path.split("/"))


def test_a_page_in_a_browser_may_ask_what_it_may_send(service: Studio) -> None:
    asking = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    asking["Access-Control-Request-Headers"] = "authorization"
    answer = httpx.options(f"{service.url}/runs/wait", headers=asking, timeout=60)
    assert answer.status_code == 200 and "access-control-allow-origin" in answer.headers


def test_the_server_has_the_page_behind_the_same_token(service: Studio) -> None:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        page = http.get("/view/")
        assert (
            page.status_code == 200
            and "script-src 'self'" in page.headers["content-security-policy"]
        )
        assert http.get("/view/view.js").status_code == 200
        assert http.get("/view/api/about").status_code == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert http.get("/view/api/about", headers=token).json()["runs"] == []
        answer = http.post("/view/api/analyze", json={"text": TEXT}, headers=token)
        last = json.loads(answer.text.splitlines()[-1])
        assert last["event"] == "output" and last["row"]["t"] == TEXT


@pytest.mark.parametrize("graph", ["absa", "absa_no_debate", "absa_no_override", "conflict_review"])
def test_every_graph_works_out_of_the_box(service: Studio, graph: str) -> None:
    output = service.run(graph, given={"text": "사용감은 좋지만 가격은 비싸요."})
    assert output["lang"] == "ko"
    assert tuples(output) == {"사용감": "positive", "가격": "negative"}
    assert service.run(graph, given={"text": TEXT})["lang"] == "en"


def test_a_misspelt_switch_is_refused_and_not_dropped(service: Studio) -> None:
    token = {"Authorization": f"Bearer {TOKEN}"}
    body = {"assistant_id": "absa", "input": {"text": TEXT}, "context": {"enable_debat": False}}
    with httpx.Client(base_url=service.url, timeout=60, headers=token) as http:
        kept = http.post("/assistants", json={"graph_id": "absa", "context": body["context"]})
        for refused in (http.post("/runs/wait", json=body), kept):
            assert refused.status_code == 422, refused.text
            assert "'enable_debat'" in refused.text and "'enable_debate'" in refused.text
        body["context"] = {"enable_debate": False}
        assert http.post("/runs/wait", json=body).json()["output"]["debate"] is None


def test_a_run_without_a_thread_leaves_none(service: Studio) -> None:
    before = len(service.client.threads.search(limit=1000))
    assert analyse(service, Authorization=f"Bearer {TOKEN}").status_code == 200
    assert len(service.client.threads.search(limit=1000)) == before


# The programs of the documentation: page, words by which one is known, what it has to print.
SHOWN = [
    ("serving.md", "enable_debate", ["battery positive great", "screen negative dim"]),
    ("serving.md", 'print(part.data["node"]', ["\nepm 0", "\ntan 0", "\njudge 0", "\nmixed\n"]),
    ("serving.md", '"action": "label"', ["['always'] ['battery', 'screen']", "mixed reviewed"]),
    (
        "serving.md",
        "/runs/batch",
        ["The battery is great. positive", "The screen is dim. negative"],
    ),
    ("studio.md", "update_state", ["[{'aspect_term': 'screen', 'polarity': 'negative', "]),
]


@pytest.mark.parametrize(("page", "words", "printed"), SHOWN, ids=[words for _, words, _ in SHOWN])
def test_a_client_of_the_docs_does_what_they_say(
    env: dict[str, str], page: str, words: str, printed: list[str]
) -> None:
    out = documented.run(documented.program(page, "python", words), env)
    places = [out.find(line) for line in printed]
    assert -1 not in places and places == sorted(places), out


def test_the_batch_client_of_the_docs_tells_of_every_sample(
    env: dict[str, str], tmp_path: Path
) -> None:
    texts = {f"r{n}": f"The screen is dim{'!' * n}" for n in range(8)} | {"empty": " "}
    file = tmp_path / "reviews.jsonl"
    lines = [json.dumps({"uid": uid, "text": text}) for uid, text in texts.items()]
    file.write_text("\n".join(lines), encoding="utf-8")
    out = documented.run(documented.program("serving.md", "python", "AT_ONCE"), env, str(file))
    told: dict[str, Any] = {line["uid"]: line for line in map(json.loads, out.splitlines())}
    assert told.keys() == texts.keys()
    assert "text is empty" in told.pop("empty")["error"]["message"]
    assert {uid: line["text"] for uid, line in told.items()} == {u: texts[u] for u in told}


def test_curl_is_client_enough(env: dict[str, str]) -> None:
    if not (shutil.which("curl") and (shell := shutil.which("sh"))):
        pytest.skip("curl is not installed")
    code = documented.program("serving.md", "sh", "/runs/wait")
    output = json.loads(documented.run(code, env, shell=shell))["output"]
    assert output["text"] == TEXT


# Without a server ------------------------------------------------------------------------------


def let_in(client: tuple[str, int] | None, authorization: str | None = None) -> str:
    scope = {"type": "http", "client": client}
    return asyncio.run(auth.authenticate(authorization, scope))["identity"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_without_a_token_this_machine_is_served(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_TOKEN", None)
    assert let_in((host, 1)) == "this machine"


@pytest.mark.parametrize(
    "client",
    [("192.168.0.7", 1), ("203.0.113.7", 1), ("::ffff:10.0.0.1", 1), ("fe80::1", 1), ("", 1), None],
)
def test_without_a_token_nobody_else_is(
    client: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_TOKEN", None)
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        let_in(client, "Bearer anything")
    assert refused.value.status_code == 403 and "ABSA_TOKEN" in str(refused.value.detail)


@pytest.mark.parametrize(("host", "status"), [("203.0.113.7", 403), ("127.0.0.1", 404)])
def test_the_token_is_checked_before_the_route_is_resolved(
    host: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_TOKEN", None)

    async def knock() -> int:
        transport = httpx.ASGITransport(app=auth.app, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            return (await http.post("/internal/truncate")).status_code

    assert asyncio.run(knock()) == status


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(1_000, 404), (1_001, 413)])
def test_a_body_beyond_the_bound_is_refused(
    size: int, status: int, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_TOKEN", None)
    monkeypatch.setattr(auth, "_MAX_BODY", 1_000)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield b"x"

    async def send() -> httpx.Response:
        server = httpx.ASGITransport(app=auth.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=server, base_url="http://server") as http:
            return await http.post("/runs/wait", content=parts() if chunked else b"x" * size)

    answer = asyncio.run(send())
    assert answer.status_code == status
    if status == 413:
        assert "1,000 bytes" in answer.json()["detail"] and auth.MAX_BODY in answer.json()["detail"]


def test_a_body_of_unknown_length_arrives_whole() -> None:
    sent = [b"a" * 10, b"b" * 10, b""]
    messages = [{"type": "http.request", "body": b, "more_body": bool(b)} for b in sent]

    async def receive() -> Any:
        return messages.pop(0)

    async def arrived() -> bytes:
        again, too_large = await auth._read_ahead(receive)
        assert not too_large and not messages
        return b"".join([(await again())["body"] for _ in sent])

    assert asyncio.run(arrived()) == b"".join(sent)


def test_a_bound_that_is_not_a_number_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(auth.MAX_BODY, "10MB")
    with pytest.raises(InputError, match="number of bytes"):
        auth._max_body()
    monkeypatch.setenv(auth.MAX_BODY, "5")
    assert auth._max_body() == 5


def test_an_empty_token_does_not_open_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABSA_TOKEN", " ")
    with pytest.raises(InputError, match="ABSA_TOKEN is empty"):
        importlib.reload(auth)
    monkeypatch.undo()
    importlib.reload(auth)


def test_both_configurations_serve_the_same_graphs_with_the_same_token_check() -> None:
    plain = json.loads(CONFIG.read_text(encoding="utf-8"))
    postgres = json.loads((ROOT / "langgraph.postgres.json").read_text(encoding="utf-8"))
    assert plain["auth"] == postgres["auth"] and plain["auth"]["disable_studio_auth"] is True
    assert {key: postgres[key] for key in plain} == plain
    assert postgres.keys() - plain.keys() == {"checkpointer", "store"}


def test_a_text_over_a2a_is_answered_in_words(service: Studio) -> None:
    message = {
        "role": "user",
        "messageId": "m-1",
        "parts": [{"kind": "text", "text": "The battery is great but the screen is dim."}],
    }
    answer = httpx.post(
        f"{service.url}/a2a/{service.assistants['absa_chat']}",
        json={
            "jsonrpc": "2.0",
            "id": "1",
            "method": "message/send",
            "params": {"message": message},
        },
        headers={"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"},
        timeout=60,
    )
    answer.raise_for_status()
    result = answer.json()["result"]
    [artifact] = result["artifacts"]
    assert result["status"]["state"] == "completed"
    assert "- screen: negative" in artifact["parts"][0]["text"]
