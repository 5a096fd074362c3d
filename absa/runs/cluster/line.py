"""The line between a worker and the desk: many small messages over one connection.

Messages are msgpack lists, so nothing that arrives is ever executed, which cannot be said of Dask's
own serialisation. A request is `[number, word, …]` and its reply `[number, …]`; what needs no reply
has number 0.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgpack

_CHUNK = 2**16
# A machine that lost its power closes no connection: after about 30 s of silence it is gone.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class Line:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take an open connection."""
        self._reader = reader
        self._writer = writer
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, *message: Any) -> None:
        """Send, without waiting: what is under way is bounded by the samples in flight."""
        if not self._writer.is_closing():
            self._writer.write(msgpack.packb(message, unicode_errors="surrogatepass"))

    async def messages(self) -> AsyncIterator[list[Any]]:
        """What the other end says, until it hangs up or is gone."""
        unpacker = msgpack.Unpacker(unicode_errors="surrogatepass", strict_map_key=False)
        try:
            while data := await self._reader.read(_CHUNK):
                unpacker.feed(data)
                for message in unpacker:
                    yield message
        except OSError:  # reset, or silent for too long: it is gone
            return

    def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()
