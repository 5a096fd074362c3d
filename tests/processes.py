"""The processes that tests start: they take signals as from a shell, and none outlives the suite.

The hooks are imported by `conftest.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from types import FrameType

import psutil
import pytest

# In the environment of everything that the suite starts, whoever its parent is by now.
MARK = "ABSA_TEST_SUITE"


def pytest_configure(config: pytest.Config) -> None:
    # Started in the background (`make test &`) the suite ignores SIGINT, and what is ignored stays
    # ignored in each child. A handler that does nothing ignores it too, but ends with the suite:
    # children get the default.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)
    if is_main(config):
        os.environ[MARK] = uuid.uuid4().hex
        signal.signal(signal.SIGTERM, _interrupt)


def pytest_unconfigure(config: pytest.Config) -> None:
    if is_main(config):
        for process in started_by(os.environ[MARK]):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def is_main(config: pytest.Config) -> bool:
    """Whether this is the process that the user started, not one of pytest-xdist's."""
    return not hasattr(config, "workerinput")


def started_by(mark: str) -> Iterator[psutil.Process]:
    """The living processes with this mark in their environment, but not this one."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                yield process


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the suite as Ctrl-C does: with the fixtures' own clearing up, and the hook above."""
    raise KeyboardInterrupt
