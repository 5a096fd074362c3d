"""Numpy's matrix products in one thread.

The networks' products are small. Shared between threads, each takes less time than the threads need
to meet, and they spin while they wait: on two cores the Korean debate reads 39 texts a second with
them and 98 without, and on a busy machine a long text takes four times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: once


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this block matrix products use one thread, afterwards as many as before.

    The number holds for the process: the first thread that enters sets it, the last one that leaves
    sets it back.
    """
    global _inside, _limit
    with _lock:
        if not _inside:
            _limit = _libraries().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _limit.restore_original_limits()
