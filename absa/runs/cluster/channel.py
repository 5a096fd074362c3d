"""A connection between a worker and the coordinator that carries many small messages.

Messages are msgpack lists: unlike with Dask's own serialisation (pickle), decoding a message never
runs code. A request is `[number, kind, …]` and its reply `[number, …]`; a message that needs no
reply has the number 0.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgpack

_CHUNK = 2**16
# A machine that loses power does not close its connections: TCP keepalive detects it in about 30 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class Channel:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, *message: Any) -> None:
        """Send without waiting; the samples in flight bound how much can be buffered."""
        if not self._writer.is_closing():
            self._writer.write(msgpack.packb(message, unicode_errors="surrogatepass"))

    async def messages(self) -> AsyncIterator[list[Any]]:
        """Messages from the other end, until it closes the connection or is lost."""
        unpacker = msgpack.Unpacker(unicode_errors="surrogatepass", strict_map_key=False)
        try:
            while data := await self._reader.read(_CHUNK):
                unpacker.feed(data)
                for message in unpacker:
                    yield message
        except OSError:  # reset, or no keepalive reply
            return

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
