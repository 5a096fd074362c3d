"""Claims: of several processes that share a cache, one asks a question and the others wait.

A claim is a lock on one byte of a file beside the cache. It costs one system call. The operating
system releases it when the process ends, so a killed process does not block the others.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from hashlib import blake2b
from pathlib import Path
from typing import Self

# The first and the longest pause between two attempts, in seconds.
_FIRST_S, _LONGEST_S = 0.005, 0.1
# A process can be suspended while it holds a claim. After this time its question is asked anyway.
_PATIENCE_S = 120.0


class Claims:
    """The claims on the questions of one cache."""

    def __init__(self, path: Path) -> None:
        """Open or create the lock file; it stays empty."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Release all claims."""
        os.close(self._fd)

    def take(self, byte: int) -> bool:
        """Try to claim a question; false if another process holds it."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # The file system has no locks: the question may be asked twice.
            return True
        return True

    def release(self, byte: int) -> None:
        """Release the claim on a question."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
        except OSError:  # the file system has no locks, so nothing is held
            return


class Claim:
    """The claim on one question while it is looked up and asked.

    Entering takes the claim if it is free. A caller that does not get it (`is_held` is false) looks
    in the cache, waits, and looks again.
    """

    def __init__(self, claims: Claims | None, key: str) -> None:
        """Without `claims`, this process is the only one and holds every claim."""
        self._claims = claims
        # The byte of a question, from its hash. Two questions with the same byte share a lock.
        self._byte = int.from_bytes(blake2b(key.encode(), digest_size=7).digest())
        self.is_held = True

    def __enter__(self) -> Self:
        self.is_held = self._take()
        return self

    def __exit__(self, *error: object) -> None:
        if self._claims and self.is_held:
            self._claims.release(self._byte)

    async def wait(self) -> None:
        """Wait until the claim is free and take it, or until the time limit."""
        end, pause = time.monotonic() + _PATIENCE_S, _FIRST_S
        while time.monotonic() < end:
            await asyncio.sleep(random.uniform(pause / 2, pause))
            if self._take():
                self.is_held = True
                return
            pause = min(2 * pause, _LONGEST_S)

    def _take(self) -> bool:
        return self._claims is None or self._claims.take(self._byte)
