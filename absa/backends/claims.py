"""Claims on questions: of several processes that share a cache one asks, the others wait for it.

A claim is a lock on one byte of a file beside the cache. It costs a system call. The system takes
it back when its process ends, however that ends, so a killed process holds up no other.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import blake2b
from pathlib import Path

# The first pause before another look, and the longest one.
_FIRST_S, _LONGEST_S = 0.005, 0.1
# A process may be stopped while it holds a claim. After this long its question is asked anyway.
_PATIENCE_S = 120.0


class Claims:
    """The claims on the questions of one cache."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; it stays empty."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Give up all claims."""
        os.close(self._fd)

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Claim a question, after whoever has claimed it; for threads."""
        is_held = self._take(key)
        for pause in () if is_held else _pauses():
            time.sleep(pause)
            if is_held := self._take(key):
                break
        try:
            yield
        finally:
            if is_held:
                self._release(key)

    @asynccontextmanager
    async def aheld(self, key: str) -> AsyncIterator[None]:
        """Claim a question, after whoever has claimed it."""
        is_held = self._take(key)
        for pause in () if is_held else _pauses():
            await asyncio.sleep(pause)
            if is_held := self._take(key):
                break
        try:
            yield
        finally:
            if is_held:
                self._release(key)

    def _take(self, key: str) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks: ask, at worst twice
            return True
        return True

    def _release(self, key: str) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _byte(key))
        except OSError:  # where there are no locks there is none to release
            return


def _byte(key: str) -> int:
    """The place of a question, by its hash. Two questions with one place wait for each other."""
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest())


def _pauses() -> Iterator[float]:
    end, pause = time.monotonic() + _PATIENCE_S, _FIRST_S
    while time.monotonic() < end:
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, _LONGEST_S)
