"""A key does not come back: it is taken out of each response before anything reads that.

A model may repeat it in an answer, a server in an error. Answers enter at this one place, so
neither the cache nor a trace, an output, an error or a report can hold the key.
"""

from __future__ import annotations

import re
from functools import cache

import httpx2

from absa.backends.keys import SHORTEST_KEY
from absa.schemas.secrets import HIDDEN


def without_key(response: httpx2.Response) -> httpx2.Response:
    """A response that was read, without the key that its request was sent with."""
    key = response.request.headers.get("authorization", "").removeprefix("Bearer ")
    content = hide_in(response.content, key)
    if content is response.content:
        return response
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-length", "content-encoding", "transfer-encoding")
    ]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=content,
        request=response.request,
        extensions=response.extensions,
    )


def hide_in(body: bytes, key: str) -> bytes:
    """JSON without a key, however deep it stands in quotes and however it is escaped."""
    if len(key) < SHORTEST_KEY:
        return body
    # Nearly every body is done with this: the pattern is slow.
    if b"\\u00" not in body and _bare(key.encode()) not in _bare(body):
        return body
    return _escaped(key).sub(HIDDEN.encode(), body)


def _bare(text: bytes) -> bytes:
    return text.replace(b"\\", b"")


@cache
def _escaped(key: str) -> re.Pattern[bytes]:
    """A key as it may stand in JSON, or in JSON that is a text in JSON."""

    def written(char: str, may_be_escaped: bool) -> str:
        slashes = r"\\+" if char == "\\" else r"\\*" + re.escape(char)
        plain = slashes if may_be_escaped else re.escape(char)
        return rf"(?:{plain}|\\+u(?i:00{ord(char):02x}))"

    # A backslash before the first letter belongs to the text before the key.
    parts = [written(char, index > 0 or not char.isalnum()) for index, char in enumerate(key)]
    return re.compile("".join(parts).encode())
