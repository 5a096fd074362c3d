"""A small OpenAI-compatible server that answers each agent with its recorded answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from absa.nodes import assets


async def serve_forever(port: int, delay: float, answers: dict[str, dict[str, Any]]) -> None:
    """Serve on loopback until the process ends. The prompt shows which agent asks."""
    contents = {
        assets.prompt(name): json.dumps(answer, ensure_ascii=False)
        for name, answer in answers.items()
    }
    # By all of a request up to the end of its system message, which tells the agent: a server that
    # reads every prompt would take its time from those that are measured.
    responses: dict[bytes, bytes] = {}

    def response(request: bytes) -> bytes:
        head = request[: request.find(b'"role":"system"')]
        if head not in responses:
            asked = json.loads(request)
            content = contents[asked["messages"][0]["content"]]
            responses[head] = _response(asked["model"], content)
        return responses[head]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                request = await reader.readexactly(length)
                await asyncio.sleep(delay)
                writer.write(response(request))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def _response(model: str, content: str) -> bytes:
    body = json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": content},
                }
            ],
            "usage": {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body
