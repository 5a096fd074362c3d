"""Kiwi, the Korean morphological analyzer. It is loaded once, at the first Korean text."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class Morpheme(NamedTuple):
    """The used fields of Kiwi's tokens, in a form that can be sent between processes."""

    form: str
    lemma: str
    tag: str
    start: int
    len: int


class Analyser(Protocol):
    """The used interface of Kiwi."""

    def tokenize(self, text: str) -> Sequence[Morpheme]:
        """The likeliest morphemes of a text."""

    def analyze(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        """The `top_n` likeliest readings of a text, each with its score."""


#: Kiwi loads in about a second and reads a text in milliseconds. If a child process takes longer
#: than this, it hangs or the machine is busy, and Kiwi is loaded in this process.
_PATIENCE_S = 20.0

_loading = threading.Lock()
_analyser: Analyser | None = None


def _forget_the_parents() -> None:
    """Reset in a forked process: two processes on one pipe would get each other's answers."""
    global _loading, _analyser
    _loading = threading.Lock()
    if isinstance(_analyser, _KiwiProcess):
        _analyser.close_pipe()
        _analyser = None


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_forget_the_parents)


def kiwi() -> Analyser:
    """The analyzer."""
    global _analyser
    # Several agents can get the first Korean text at once, but Kiwi is loaded only once.
    with _loading:
        if _analyser is None:
            _analyser = _loaded()
        return _analyser


def _loaded() -> Analyser:
    from kiwipiepy import Kiwi

    # The dictionaries of proper nouns, phrases and typos take two thirds of the loading time.
    analyser: Analyser = Kiwi(
        num_workers=1, load_default_dict=False, load_multi_dict=False, load_typo_dict=False
    )
    return analyser


def load_in_child_process() -> None:
    """Load Kiwi in a child process while this process imports the graph, and use it there.

    Each takes about a second, and Kiwi holds the GIL while it loads, so a thread would not help.
    This is for commands that read one text. For many texts, the communication costs more than it
    saves. Does nothing if a fork is not safe.
    """
    global _analyser
    if sys.platform != "linux" or threading.active_count() > 1:
        return
    with _loading:
        if _analyser is None:
            with suppress(OSError):  # a process cannot be started
                _analyser = _KiwiProcess()


class _KiwiProcess:
    """Kiwi in a child process, which ends with this process."""

    def __init__(self) -> None:
        from multiprocessing import get_context

        fork = get_context("fork")
        self._line, there = fork.Pipe()
        # Ctrl-C is for the command. The child ignores it and ends with the command; this process
        # must not get it in the middle of a fork.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._child = fork.Process(target=_serve, args=(there, self._line), daemon=True)
            self._child.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        there.close()
        # At exit, multiprocessing waits for the child, which would never end if it hangs.
        atexit.register(self._child.kill)
        self._asking = threading.Lock()
        self._here: Analyser | None = None

    def tokenize(self, text: str) -> Sequence[Morpheme]:
        return self.analyze(text, top_n=1)[0][0]

    def analyze(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        with self._asking:
            if self._here is None:
                try:
                    return self._ask(text, top_n)
                except (EOFError, OSError):
                    # The child has ended. If it could not load Kiwi, this raises the same error.
                    self._here = _loaded()
            return self._here.analyze(text, top_n=top_n)

    def close_pipe(self) -> None:
        """Close this end of the pipe. The child ends when all ends are closed."""
        self._line.close()
        atexit.unregister(self._child.kill)  # the parent process still uses it

    def _ask(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        # Sending and receiving can both wait for a hanging child. Killing it breaks the pipe, and
        # both fail at once.
        watchdog = threading.Timer(_PATIENCE_S, self._child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            self._line.send((text, top_n))
            readings: Sequence[tuple[Sequence[Morpheme], float]] = self._line.recv()
        except BaseException:
            # Otherwise a late answer would be taken for the answer to the next question.
            self._line.close()
            self._child.kill()
            raise
        finally:
            watchdog.cancel()
        return readings


def _serve(line: Connection, others_end: Connection) -> None:
    """The child process: load Kiwi and answer until the pipe is closed."""
    others_end.close()  # otherwise this process would keep its own pipe open
    # An error here occurs again in the parent process, which reports it.
    with suppress(Exception):
        analyser = _loaded()
        while True:
            text, top_n = line.recv()
            line.send(
                [
                    (
                        [Morpheme(m.form, m.lemma, str(m.tag), m.start, m.len) for m in morphemes],
                        score,
                    )
                    for morphemes, score in analyser.analyze(text, top_n=top_n)
                ]
            )
