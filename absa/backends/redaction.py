"""Removes the API key from the body of each response before anything else reads it.

A model can repeat the key in an answer, and a server can repeat it in an error. All responses pass
this one place, so the key cannot reach the cache, traces, outputs, errors or reports.
"""

from __future__ import annotations

import re
from functools import cache

from absa.backends.keys import SHORTEST_KEY
from absa.schemas.secrets import HIDDEN


def hide_in(body: bytes, key: str) -> bytes:
    """Remove a key from JSON, also where it is escaped, or stands in JSON inside a JSON string."""
    if len(key) < SHORTEST_KEY:
        return body
    # This fast test settles nearly every body. The pattern below is slow.
    if b"\\u00" not in body and _bare(key.encode()) not in _bare(body):
        return body
    return _escaped(key).sub(HIDDEN.encode(), body)


def _bare(text: bytes) -> bytes:
    return text.replace(b"\\", b"")


@cache
def _escaped(key: str) -> re.Pattern[bytes]:
    """A pattern for a key in JSON, or in JSON inside a JSON string."""

    def written(char: str, may_be_escaped: bool) -> str:
        slashes = r"\\+" if char == "\\" else r"\\*" + re.escape(char)
        plain = slashes if may_be_escaped else re.escape(char)
        return rf"(?:{plain}|\\+u(?i:00{ord(char):02x}))"

    # A backslash before the first letter belongs to the text before the key.
    parts = [written(char, index > 0 or not char.isalnum()) for index, char in enumerate(key)]
    return re.compile("".join(parts).encode())
