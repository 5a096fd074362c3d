"""Resources that belong to one process, and their renewal after a fork.

A fork copies sockets, pipes and locks, but not the threads behind them. Two processes that read
from one socket get each other's answers, and a lock that another thread held is never released.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """A resource that cannot be shared with another process."""

    def renew(self) -> None:
        """Make a new resource in the child of a fork. The parent's resource must stay open."""


_renewables: WeakSet[Renewable] = WeakSet()
_of_the_parent: list[Any] = []


def renew_after_fork(renewable: Renewable) -> None:
    """Call its `renew` in every child process, as long as the object exists."""
    _renewables.add(renewable)


def abandon(*handles: Any) -> None:
    """Keep these objects open, because the parent uses the same selector, TLS session or file."""
    _of_the_parent.extend(handles)


class ForkSafeLock:
    """A lock that is always free in a child process."""

    def __init__(self) -> None:
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
