"""`absa mcp`, asked by a real MCP client over stdio."""

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

TEXT = "The battery is great but the screen is dim."


async def _ask(home: Path) -> tuple[Any, dict[str, Any]]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "absa", "mcp"], cwd=home, env={"HOME": str(home)}
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        call = session.call_tool
        answers = {
            "found": await call("analyze_review", {"text": TEXT}),
            "given": await call(
                "analyze_review", {"text": TEXT, "lang": "en", "aspects": ["screen"]}
            ),
            "korean": await call("analyze_review", {"text": "배터리는 좋지만 화면이 어두워요."}),
            "empty": await call("analyze_review", {"text": "  "}),
        }
    return tools, answers


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    return asyncio.run(_ask(tmp_path_factory.mktemp("mcp")))


def test_the_tool_describes_itself(asked: tuple[Any, dict[str, Any]]) -> None:
    [tool] = asked[0]
    assert tool.name == "analyze_review" and "complains about" in tool.description
    fields = tool.input_schema["properties"]
    assert set(fields) == {"text", "lang", "aspects"}
    assert tool.input_schema["required"] == ["text"]
    assert all(field["description"] for field in fields.values())
    assert {"label", "aspects", "debate"} <= set(tool.output_schema["properties"])


def test_structured_answers(asked: tuple[Any, dict[str, Any]]) -> None:
    found = asked[1]["found"].structured_content
    polarities = {a["aspect"]: a["polarity"] for a in found["aspects"]}
    assert polarities == {"battery": "positive", "screen": "negative"}
    for aspect in found["aspects"]:
        assert TEXT[aspect["start"] : aspect["end"]] == aspect["aspect"]
        assert aspect["evidence"] in TEXT
    assert found["lang"] == "en" and found["reason"]
    korean = asked[1]["korean"].structured_content
    assert korean["lang"] == "ko" and korean["aspects"]


def test_given_aspects(asked: tuple[Any, dict[str, Any]]) -> None:
    aspects = asked[1]["given"].structured_content["aspects"]
    assert [a["aspect"] for a in aspects] == ["screen"]


def test_a_text_that_cannot_be_analysed_is_an_error_with_its_reason(
    asked: tuple[Any, dict[str, Any]],
) -> None:
    answer = asked[1]["empty"]
    assert answer.is_error and "text" in answer.content[0].text


async def _ask_over_http(url: str) -> Any:
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        return await session.call_tool("analyze_review", {"text": TEXT})


def test_over_http_on_this_machine_only(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "absa", "mcp", "--http", str(port)]
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        url = f"http://127.0.0.1:{port}/mcp"
        answer = asyncio.run(_ask_over_http(url))
        # A page in a browser that reaches this machine under a name of its own is refused.
        other = httpx2.post(url, json={}, headers={"Host": "evil.example"})
    finally:
        server.terminate()
        server.wait(30)
    assert answer.structured_content["label"] == "mixed"
    assert other.status_code == 421


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from absa.cli import run

    monkeypatch.delitem(sys.modules, "absa.mcp_server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run(["mcp"]) == 2
    assert "absa-debate-graph[mcp]" in capsys.readouterr().err
