"""An OpenAI-compatible HTTP server on loopback that answers by script."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Response:
    """What the server says to one request."""

    status: int = 200
    body: Body | str | bytes = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


Rule = Callable[[Body], Response]


def says(
    content: Any,
    *,
    tokens: tuple[int, int] = (11, 7),
    finish: str = "stop",
    message: Body | None = None,
    delay_s: float = 0.0,
) -> Response:
    """A chat completion; anything but text is sent as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "served-name",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": message or {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "total_tokens": sum(tokens),
        },
    }
    return Response(body=body, delay_s=delay_s)


def calls_tool(arguments: Any) -> Response:
    """A chat completion that calls the tool it was given."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call = {"id": "call_1", "type": "function", "function": {"name": "Any", "arguments": text}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return says("", message=message, finish="tool_calls")


def fails(status: int, message: str = "no", *, code: str | None = None, **headers: str) -> Response:
    """An error in OpenAI's form; header names are given with underscores."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, {"error": {"message": message, "code": code}}, names)


class Server:
    """The server's script and what it saw.

    `script` is used up response by response; after that `rule` answers.
    """

    def __init__(self) -> None:
        """Start with an empty script."""
        self.script: list[Response] = []
        self.rule: Rule = lambda _: fails(500, "nothing scripted")
        self.requests: list[Body] = []
        self.keys: list[str | None] = []
        self.peak = 0
        self.url = ""
        self._under_way = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def respond(self, request: Body, key: str | None) -> Response:
        """Answer one request, in a thread of its own."""
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
            response = self.script.pop(0) if self.script else self.rule(request)
        self._closing.wait(response.delay_s)
        with self._lock:
            self._under_way -= 1
        return response

    def close(self) -> None:
        """Let no hanging request outlive its test."""
        self._closing.set()


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A running server on a free port of 127.0.0.1."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            request = json.loads(self.rfile.read(length))
            response = server.respond(request, self.headers.get("Authorization"))
            body = response.body
            is_text = isinstance(body, str)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            if isinstance(body, str):
                data = body.encode()
            try:
                self.send_response(response.status)
                self.send_header("Content-Type", "text/html" if is_text else "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # the client has hung up: its timeout is the subject of a test
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        http.shutdown()
        http.server_close()
        thread.join()


def free_port_url() -> str:
    """The address of a server that is not there."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        return f"http://127.0.0.1:{http.server_port}/v1"


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return condition()
