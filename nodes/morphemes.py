"""Kiwi, the Korean morphological analyser: loaded once, and only when Korean is met."""

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
    """What is used of Kiwi's tokens, as it can be sent from one process to another."""

    form: str
    lemma: str
    tag: str
    start: int
    len: int


class Analyser(Protocol):
    """What is used of Kiwi."""

    def tokenize(self, text: str) -> Sequence[Morpheme]:
        """The likeliest morphemes of a text."""

    def analyze(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        """The `top_n` likeliest readings of a text, each with its score."""


#: Kiwi loads in about a second and reads a text in milliseconds. A child that takes longer than
#: this hangs, or the machine is so busy that loading here costs little more.
_PATIENCE_S = 20.0

_loading = threading.Lock()
_analyser: Analyser | None = None


def _forget_the_parents() -> None:
    """In a forked process: two processes on one pipe to Kiwi would get each other's answers."""
    global _loading, _analyser
    _loading = threading.Lock()
    if isinstance(_analyser, _Aside):
        _analyser.hang_up()
        _analyser = None


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_forget_the_parents)


def kiwi() -> Analyser:
    """The analyser."""
    global _analyser
    # Three agents may meet the first Korean text at once, and it is to be loaded once.
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


def load_aside() -> None:
    """Load Kiwi in a process of its own, and ask it there, while this one imports the graph.

    Each takes about a second, and Kiwi holds the interpreter's lock while it loads: a thread
    would save nothing. For a command that reads one text; over many, asking costs more than this
    saves. Does nothing where a fork is not safe.
    """
    global _analyser
    if sys.platform != "linux" or threading.active_count() > 1:
        return
    with _loading:
        if _analyser is None:
            with suppress(OSError):  # no process to be had
                _analyser = _Aside()


class _Aside:
    """Kiwi in a child process, which ends with this one."""

    def __init__(self) -> None:
        from multiprocessing import get_context

        fork = get_context("fork")
        self._line, there = fork.Pipe()
        # An interrupt is for the command, with which the child ends: the child never hears of it,
        # and this process not in the middle of a fork.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._child = fork.Process(target=_serve, args=(there, self._line), daemon=True)
            self._child.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        there.close()
        # At exit multiprocessing asks the child to end and waits for it: one that hangs never does.
        atexit.register(self._child.kill)
        self._asking = threading.Lock()
        self._here: Analyser | None = None

    def tokenize(self, text: str) -> Sequence[Morpheme]:
        """The likeliest morphemes of a text."""
        return self.analyze(text, top_n=1)[0][0]

    def analyze(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        """The `top_n` likeliest readings of a text, each with its score."""
        with self._asking:
            if self._here is None:
                try:
                    return self._ask(text, top_n)
                except (EOFError, OSError):
                    # The child is gone. If it could not load Kiwi, the reason shows here as well.
                    self._here = _loaded()
            return self._here.analyze(text, top_n=top_n)

    def hang_up(self) -> None:
        """Close this process's end of the line: Kiwi ends when the last one has."""
        self._line.close()
        atexit.unregister(self._child.kill)  # the process that started it still asks it

    def _ask(self, text: str, top_n: int) -> Sequence[tuple[Sequence[Morpheme], float]]:
        # Sending and receiving can both wait for a child that hangs. Ending it breaks the line,
        # and either fails at once.
        watchdog = threading.Timer(_PATIENCE_S, self._child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            self._line.send((text, top_n))
            readings: Sequence[tuple[Sequence[Morpheme], float]] = self._line.recv()
        except BaseException:
            # Or the answer that is still to come would be taken for that to the next question.
            self._line.close()
            self._child.kill()
            raise
        finally:
            watchdog.cancel()
        return readings


def _serve(line: Connection, others_end: Connection) -> None:
    """What the child does: load Kiwi, answer until nobody can ask any more."""
    others_end.close()  # or this process would keep its own line open
    # Whatever goes wrong here goes wrong again, and is told, where it is asked for.
    with suppress(Exception):
        analyser = _loaded()
        while True:
            text, top_n = line.recv()
            line.send(
                [
                    ([Morpheme(m.form, m.lemma, str(m.tag), m.start, m.len) for m in found], score)
                    for found, score in analyser.analyze(text, top_n=top_n)
                ]
            )
