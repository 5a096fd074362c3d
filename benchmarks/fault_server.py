"""An OpenAI-compatible server on loopback that fails now and then, in every way servers do.

Whether and how a request fails depends on what it asks, how often it was asked and the seed, so
that a test is the same every time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from absa.nodes import assets

#: Faults that pass when the request is repeated.
PASSING = (
    "429",
    "429 without a hint",
    "429 with a date to come back",
    "500",
    "502",
    "503",
    "dropped",
    "dropped in the middle",
    "no answer",
    "trickling",
    "trickling headers",
    "slow",
    "no choices",
    "empty body",
    "web page",
    "error with 200",
    "error with 200 and a status",
    "cut JSON",
    "wrong encoding",
)
#: Answers that are not as they should be, and can be read or are asked for again.
GARBLED = (
    "empty",
    "fenced",
    "commented",
    "trailing comma",
    "truncated",
    "half valid",
    "Korean keys",
    "prose",
)
#: Requests that fail however often they are repeated.
LASTING = {
    "FILTERED": "content filter",
    "REFUSED": "content filter of the gateway",
    "TOO-LONG": "context overflow",
}
KOREAN = {
    "aspects": "측면",
    "term": "용어",
    "aspect_sentiments": "측면별 감성",
    "tuples": "결과",
    "aspect_term": "측면어",
    "aspect_ref": "측면",
    "polarity": "감성",
    "evidence": "근거",
    "confidence": "신뢰도",
}


def question(request: dict[str, Any]) -> list[str]:
    """Prompt, examples and question of a request, without the repair round that may follow."""
    words = [message["content"] for message in request["messages"]]
    # Examples and question are JSON; the user's word in a repair round is not.
    asked = max((n for n, one in enumerate(words) if n % 2 and one.startswith("{")), default=1)
    return words[: asked + 1]


class FaultServer:
    """Answers each agent with its recorded answer; `share` of the requests fail at first."""

    def __init__(
        self,
        answers: dict[str, dict[str, Any]],
        share: float,
        hang_s: float,
        first: tuple[str, ...],
        seed: int,
    ) -> None:
        self._answers = {assets.prompt(node): answer for node, answer in answers.items()}
        self._share = share
        self._hang_s = hang_s
        self._first = first
        self._seed = seed
        self.port = 0
        self.requests: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def fault(self, asked: dict[str, Any]) -> str | None:
        """What goes wrong with this request, at this attempt."""
        text = json.dumps(question(asked), ensure_ascii=False)
        for mark, lasting in LASTING.items():
            if mark in text:
                return lasting
        name = hashlib.sha256(text.encode()).hexdigest()
        attempt = self.requests[name]
        self.requests[name] += 1
        if attempt < len(self._first):
            return self._first[attempt]
        draw = int(hashlib.sha256(f"{name}{attempt}{self._seed or ''}".encode()).hexdigest(), 16)
        if (draw % 1000) / 1000 >= self._share:
            return None
        kinds = PASSING + GARBLED
        return kinds[draw // 1000 % len(kinds)]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                asked = json.loads(await reader.readexactly(length))
                if not await self._respond(asked, writer):
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has hung up, or the server ends
        finally:
            writer.close()

    async def _respond(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Answer, well or badly; False where the connection is cut."""
        answer = self._answers[asked["messages"][0]["content"]]
        good = json.dumps(answer, ensure_ascii=False)
        kind = self.fault(asked)
        if kind:
            self.faults[kind] += 1
        match kind:
            case "429":
                _send(writer, 429, {"error": {"message": "slow down"}}, b"Retry-After: 0\r\n")
            case "429 with a date to come back":
                when = b"Retry-After: Thu, 01 Jan 2015 00:00:00 GMT\r\n"
                _send(writer, 429, {"error": {"message": "slow down"}}, when)
            case "429 without a hint":
                _send(writer, 429, {"error": {"message": "slow down"}})
            case "500" | "502" | "503":
                _send(writer, int(kind), {"error": {"message": "trouble"}})
            case "dropped":
                return False
            case "dropped in the middle":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b'Content-Length: 1000\r\n\r\n{"choices": [')
                return False
            case "no answer":
                await asyncio.sleep(self._hang_s)
                return False
            case "trickling":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: 100000\r\n\r\n")
                for _ in range(round(self._hang_s / 0.02)):
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.02)
                return False
            case "trickling headers":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                for _ in range(round(self._hang_s / 0.02)):
                    writer.write(b"X-Filler: x\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.02)
                return False
            case "no choices":
                _send(writer, 200, {**_completion(good), "choices": []})
            case "empty body":
                _send(writer, 200, b"")
            case "web page":
                _send(writer, 200, b"<html><body>Bad gateway</body></html>")
            case "error with 200":
                _send(writer, 200, {"error": {"message": "overloaded", "type": "server_error"}})
            case "error with 200 and a status":
                _send(writer, 200, {"error": {"message": "upstream is gone", "code": 502}})
            case "cut JSON":
                _send(writer, 200, json.dumps(_completion(good)).encode()[:-40])
            case "wrong encoding":
                text = json.dumps(_completion(good), ensure_ascii=False)
                _send(writer, 200, text.encode("euc-kr"))
            case "slow":
                await asyncio.sleep(0.05)
                _send(writer, 200, _completion(good))
            case "content filter":
                _send(writer, 200, _completion("", finish="content_filter"))
            case "content filter of the gateway":
                error = {"message": "blocked by the content policy", "code": "content_filter"}
                _send(writer, 400, {"error": error})
            case "context overflow":
                error = {"message": "too many tokens", "code": "context_length_exceeded"}
                _send(writer, 400, {"error": error})
            case "truncated":
                _send(writer, 200, _completion(_garbled(kind, good), finish="length"))
            case _:
                _send(writer, 200, _completion(_garbled(kind, good)))
        return True


def _garbled(kind: str | None, good: str) -> str:
    match kind:
        case "empty":
            return ""
        case "fenced":
            return f"Here you are:\n```json\n{good}\n```"
        case "commented":
            return good[:1] + " // the answer\n" + good[1:]
        case "trailing comma":
            return good[:-1] + ",}"
        case "truncated":
            return good[: len(good) * 2 // 3]
        case "half valid":
            first = next(iter(json.loads(good)))
            broken = json.loads(good)
            if isinstance(broken[first], list):
                broken[first].append({"nonsense": True})
            return json.dumps(broken, ensure_ascii=False)
        case "Korean keys":
            return json.dumps(_in_korean(json.loads(good)), ensure_ascii=False)
        case "prose":
            return "I am sorry, I cannot say."
    return good


def _in_korean(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_korean(item) for item in value]
    if isinstance(value, dict):
        return {KOREAN.get(key, key): _in_korean(part) for key, part in value.items()}
    return value


def _completion(content: str, finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "served",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def _send(
    writer: asyncio.StreamWriter, status: int, body: dict[str, Any] | bytes, headers: bytes = b""
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    writer.write(
        f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n".encode()
        + headers
        + f"Content-Length: {len(content)}\r\n\r\n".encode()
        + content
    )


@contextmanager
def serving(
    answers: dict[str, dict[str, Any]],
    *,
    share: float = 0.0,
    hang_s: float = 1.0,
    first: tuple[str, ...] = (),
    seed: int = 0,
) -> Iterator[FaultServer]:
    """A server in a thread of its own; `first` is what goes wrong with each question at first."""
    server = FaultServer(answers, share, hang_s, first, seed)
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        ready.set()
        await over.wait()
        # What is left is cancelled by `asyncio.run`: open connections, answers held back.
        listening.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        stop[0]()
        thread.join()
