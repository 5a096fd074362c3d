"""A long analysis can be stopped: its loops look at a flag while they work.

Python cannot end a thread from outside. Whoever starts a long analysis sets a flag beside it
(:func:`stoppable`); loops over tokens and pieces go through :func:`watched` and raise
:class:`Stopped` once the flag is set. Without a flag `watched` costs nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

#: A loop looks at the flag every so often: some milliseconds of work.
_EVERY = 1_000

_flag: ContextVar[threading.Event | None] = ContextVar("stop_analysis", default=None)


class Stopped(RuntimeError):
    """The analysis was stopped before it was done."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the analysis was stopped")


@contextmanager
def stoppable(flag: threading.Event) -> Iterator[None]:
    """Let `flag` stop what is analyzed inside, also in threads that inherit this context."""
    token = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(token)


@contextmanager
def stopped_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C stop what is analyzed inside.

    Python raises the interrupt in the main thread alone. LangGraph then waits for its threads,
    which would go on.
    """
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or before is not signal.default_int_handler:
        yield
        return
    flag = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        flag.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupted)
    try:
        with stoppable(flag):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def check() -> None:
    """End the analysis here if it is to be stopped.

    Raises:
        Stopped: The flag is set.
    """
    flag = _flag.get()
    if flag is not None and flag.is_set():
        raise Stopped


def watched(items: Iterable[T]) -> Iterator[T]:
    """The items, with a look at the flag every now and then.

    Raises:
        Stopped: The flag was set.
    """
    flag = _flag.get()
    return iter(items) if flag is None else _watched(items, flag)


def watched_closely(items: Iterable[T]) -> Iterator[T]:
    """The items, with a look at the flag before each: for items that take milliseconds.

    Raises:
        Stopped: The flag was set.
    """
    flag = _flag.get()
    return iter(items) if flag is None else _watched(items, flag, every=1)


def _watched(items: Iterable[T], flag: threading.Event, every: int = _EVERY) -> Iterator[T]:
    for number, item in enumerate(items):
        if number % every == 0 and flag.is_set():
            raise Stopped
        yield item
