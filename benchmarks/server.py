"""A small OpenAI-compatible server that answers each agent with its recorded answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nodes import assets


async def serve_forever(port: int, delay: float, answers: dict[str, dict[str, Any]]) -> None:
    """Serve on loopback until the process ends. Which agent asks is told by its prompt."""
    bodies = {
        assets.prompt(name): json.dumps(answer, ensure_ascii=False)
        for name, answer in answers.items()
    }

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                asked = json.loads(await reader.readexactly(length))
                await asyncio.sleep(delay)
                content = bodies[asked["messages"][0]["content"]]
                body = json.dumps(
                    {
                        "id": "x",
                        "object": "chat.completion",
                        "created": 0,
                        "model": asked["model"],
                        "choices": [
                            {
                                "index": 0,
                                "finish_reason": "stop",
                                "message": {"role": "assistant", "content": content},
                            }
                        ],
                        "usage": {
                            "prompt_tokens": 500,
                            "completion_tokens": 50,
                            "total_tokens": 550,
                        },
                    }
                ).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                    + str(len(body)).encode()
                    + b"\r\n\r\n"
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    async with server:
        await server.serve_forever()
