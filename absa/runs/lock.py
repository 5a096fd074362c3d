"""One process at a time in a run directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absa.runs.plan import RunBusy

LOCK = ".lock"


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Create the directory and lock it against a second process."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("w")
    except OSError as error:
        raise RunBusy(f"{out}: {error.strerror}; choose a writable --out") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunBusy(f"another process is running in {out}; wait for it to end") from None
        yield


def is_locked(out: Path) -> bool:
    """Whether a process has locked the directory. The test itself holds the lock for a moment."""
    try:
        file = (out / LOCK).open("rb")
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
