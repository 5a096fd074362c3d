"""The real LangGraph server in a process of its own, without a key and without a network."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "langgraph.json"
TEXT = "사용감은 좋지만 가격은 비싸요."
SAMPLE = {"text": TEXT, "uid": "ko-1"}

EXPECTED = (
    # The server cannot be told which types its checkpoints hold: it reads them, and warns.
    "Deserializing unregistered type absa.schemas.",
    # More than three seconds, on a slow machine: the Korean analyzer is loaded at import.
    "Graph import exceeded the expected startup time.",
)


class Studio:
    """The server as Studio uses it: a graph's assistant, threads, runs."""

    def __init__(self, client: SyncLangGraphClient, url: str) -> None:
        self.client = client
        self.url = url
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


@dataclass(frozen=True)
class Serving:
    """How a server is started: what differs from `make studio`."""

    config: Path = CONFIG
    settings: Json | None = None
    token: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    expected: tuple[str, ...] = ()
    """Complaints that its log may hold."""

    def env(self, folder: Path) -> dict[str, str]:
        """Nothing of whoever runs the tests, and what is wanted here."""
        foreign = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "ABSA_", "OPENAI_")
        env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        env |= {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true"}
        if self.settings is not None:
            own = folder / "own.yaml"
            own.write_text(json.dumps(self.settings), encoding="utf-8")  # JSON is YAML
            env["ABSA_CONFIG"] = str(own)
        if self.token is not None:
            env["ABSA_TOKEN"] = self.token
        return {**env, **self.environment}

    @property
    def headers(self) -> dict[str, str]:
        """What a request needs to be let in."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


DEFAULT = Serving()


def tuples(output: Json) -> dict[str, str]:
    return {t["aspect_term"]: t["polarity"] for t in output["final_result"]["final_tuples"]}


def complaints(log: str, expected: tuple[str, ...] = ()) -> list[str]:
    """Lines of a server's log at the level of a warning or above."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    loud = re.findall(r"^.*\[(?:warning|error|critical) *\].*$", plain, re.MULTILINE)
    known = (*EXPECTED, *expected)
    return [line for line in loud if not any(words in line for words in known)] + re.findall(
        r"^.*(?:Blocking call|BlockingError).*$", plain, re.MULTILINE
    )


@contextmanager
def langgraph_dev(folder: Path, serving: Serving = DEFAULT) -> Iterator[Studio]:
    """A running server; its log must be clean."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(serving.config)]
    command += ["--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    # By default one run at a time: a batch over HTTP wants more.
    command += ["--n-jobs-per-worker", "4"]
    env, log = serving.env(folder), folder / "server.log"
    # In a folder of its own, where it may keep its threads.
    with (
        log.open("wb") as sink,
        subprocess.Popen(
            command, cwd=folder, env=env, stdout=sink, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            _wait_until_up(f"{url}/ok", server, log)
            with get_sync_client(url=url, api_key=None, headers=serving.headers) as client:
                yield Studio(client, url)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
    loud = complaints(log.read_text(encoding="utf-8", errors="replace"), serving.expected)
    assert not loud, "\n".join(loud)


def _wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        try:
            httpx.get(url, timeout=5)
            return  # whether it lets us in is another matter
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))
