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
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Self

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

    def take(self, byte: int) -> bool:
        """Claim a question, unless another process has."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks: ask, at worst twice
            return True
        return True

    def release(self, byte: int) -> None:
        """Give up the claim on a question."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
        except OSError:  # the file system has no locks, so nothing is held
            return


class Claim:
    """The claim on one question while it is looked up and asked.

    Entering takes it if it is free. Whoever does not get it (`is_held`) looks whether the answer is
    there all the same, waits if not, and looks again.
    """

    def __init__(self, claims: Claims | None, key: str) -> None:
        """Without `claims` this process is alone, and holds every claim."""
        self._claims = claims
        self._byte = _byte(key) if claims else 0
        self.is_held = True

    def __enter__(self) -> Self:
        """Take it if it is free."""
        self.is_held = self._take()
        return self

    def __exit__(self, *error: object) -> None:
        """Give it up."""
        if self._claims and self.is_held:
            self._claims.release(self._byte)

    async def wait(self) -> None:
        """Wait until it is free and take it, or until patience is at an end."""
        for pause in _pauses():
            await asyncio.sleep(pause)
            if self._take():
                self.is_held = True
                return

    def wait_in_thread(self) -> None:
        """The same outside an event loop."""
        for pause in _pauses():
            time.sleep(pause)
            if self._take():
                self.is_held = True
                return

    def _take(self) -> bool:
        return self._claims is None or self._claims.take(self._byte)


def _byte(key: str) -> int:
    """The place of a question, by its hash. Two questions with one place wait for each other."""
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest())


def _pauses() -> Iterator[float]:
    end, pause = time.monotonic() + _PATIENCE_S, _FIRST_S
    while time.monotonic() < end:
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, _LONGEST_S)
