"""What belongs to one process.

A fork copies sockets, pipes and locks, but none of the threads behind them: two processes that read
from one socket get each other's answers, and a lock that another thread held is held for ever.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """What cannot be shared with another process."""

    def renew(self) -> None:
        """Begin again in the child of a fork, without touching what the parent still uses."""


_renewables: WeakSet[Renewable] = WeakSet()
_of_the_parent: list[Any] = []


def renew_after_fork(renewable: Renewable) -> None:
    """Have it renewed in every child, for as long as it lives."""
    _renewables.add(renewable)


def abandon(*handles: Any) -> None:
    """Never close these: a selector, a TLS session or a database is the parent's as well."""
    _of_the_parent.extend(handles)


class ForkSafeLock:
    """A lock that is free in a child, whichever thread of the parent held it."""

    def __init__(self) -> None:
        """Begin free."""
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Be free."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _renew_all() -> None:
    for renewable in list(_renewables):
        renewable.renew()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_all)
