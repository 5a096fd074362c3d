"""`absa review` at a real terminal: keys go in through a pty, an emulator shows the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte
import pytest
from review_runs import TEXTS, finished_run, lines

from absa.review.file import FILE

WIDTH, HEIGHT = 80, 24
PATIENCE_S = 120


class Terminal:
    """A reviewer's terminal, 80 by 24."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = shlex.join([sys.executable, "-m", "absa", "review", str(directory), *options])
        # The shell notes how the terminal is set before and after.
        script = f"trap : INT; stty -g > before; {command}; code=$?; stty -g > after; exit $code"
        env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        self.child = pexpect.spawn(
            "sh", ["-c", script], dimensions=(HEIGHT, WIDTH), env=env, cwd=str(directory)
        )
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def sees(self, *words: str, gone: str = "") -> None:
        """Wait until the words are on the screen, and what should be gone is."""
        end = time.monotonic() + PATIENCE_S
        while not all(w in self.text for w in words) or (gone and gone in self.text):
            assert time.monotonic() < end, f"never saw {words}:\n{self.text}"
            self._read()

    def _read(self) -> None:
        try:
            self._stream.feed(self.child.read_nonblocking(65536, 0.1))
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            time.sleep(0.05)

    def press(self, keys: str, *words: str, gone: str = "") -> None:
        self.child.send(keys)
        self.sees(*words, gone=gone)

    def ends(self) -> int:
        """Wait for the command to end; its exit code."""
        end = time.monotonic() + PATIENCE_S
        while self.child.isalive():
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
            self._read()
        self._read()
        self.child.close()
        assert self.child.exitstatus is not None
        return int(self.child.exitstatus)


@contextmanager
def reviewing(directory: Path, *options: str) -> Iterator[Terminal]:
    terminal = Terminal(directory, "--as", "kim", *options)
    try:
        yield terminal
    finally:
        terminal.child.close(force=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def actions(directory: Path, uid: str) -> list[str]:
    """What the last line of a text says."""
    own = [line for line in lines(directory / FILE) if line["uid"] == uid]
    return [d["action"] for d in own[-1]["decisions"]]


def test_a_reviewer_goes_through_the_queue_with_every_key(directory: Path) -> None:
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    with reviewing(directory) as terminal:
        # pyte shows a wide character in two cells, the second of them empty.
        terminal.sees(
            "1 of 3  blocked", "to review, by kim", TEXTS["blocked"], "Stage 2 was blocked"
        )
        terminal.sees("left out", "said about 가격", "set polarity negative")
        terminal.press("?", "any key goes back")
        terminal.press("x", "? help", gone="any key goes back")
        terminal.press("k", "keep", "begun, by kim")
        terminal.press("\x1b[B", "said about 맛")
        terminal.press("f", "flip to:  p positive")
        terminal.press("n", "-> negative", "label  positive 0.70 -> mixed")
        terminal.press("u", "undone: flip", gone="-> negative")
        terminal.press("d", "drop")
        terminal.press("l", "m mixed")
        terminal.press("n", "-> negative")
        terminal.press("z", "'z' does nothing")
        assert actions(directory, "blocked") == ["keep", "drop", "label"]
        terminal.press("n", "2 of 3  open", "the debate left open: 가격")
        # Hangul is being written: ㅁ is the key a, ㅕ the key u.
        terminal.press("ㅁ", "aspect:")
        terminal.press("가성비\r", "가성비 is:  p positive")
        terminal.press("n", "evidence, words of the text:")
        terminal.press("싸다\r", "is not in the text")
        terminal.press("a", "aspect:", gone="is not in the text")
        terminal.press("가성비\r", "가성비 is:  p positive")
        terminal.press("n", "evidence, words of the text:")
        terminal.press("비싸고\r", '+ 가성비 negative "비싸고"')
        terminal.press("b", "1 of 3  blocked", "reviewed, by kim")
        terminal.press("n", "2 of 3  open", "+ 가성비")
        terminal.press("n", "3 of 3  calm", "among the lowest of this run")
        terminal.child.send("q")
        assert terminal.ends() == 0
        terminal.sees("2 of 3 texts reviewed")
    assert actions(directory, "open") == ["add"]
    assert {name: (directory / name).read_bytes() for name in before} == before


def test_a_candidate_that_was_left_out_is_offered_and_the_terminal_given_back(
    directory: Path,
) -> None:
    with reviewing(directory, "--uid", "blocked") as terminal:
        terminal.sees("1 of 1  blocked")
        terminal.press("3", "said about 맛")
        terminal.press("k", "is not in the result; press a to add it")
        terminal.press("a", "aspect [맛]:")
        terminal.press("\r", "evidence, words of the text [좋아요]:")
        terminal.press("\r", "add", "begun", gone="left out")
        terminal.child.send("q")
        assert terminal.ends() == 0
        terminal.sees("repeat the command to continue")
    assert actions(directory, "blocked") == ["add"]
    modes = [(directory / name).read_text() for name in ("before", "after")]
    assert modes[0] == modes[1]


def test_a_killed_review_goes_on_where_it_was(directory: Path) -> None:
    with reviewing(directory, "--all") as terminal:
        terminal.sees("1 of 3  blocked")
        terminal.press("n", "2 of 3  open")
        terminal.press("d", "drop", "begun")
        os.killpg(terminal.child.pid, signal.SIGKILL)
        terminal.child.wait()
    with reviewing(directory, "--all") as terminal:
        terminal.sees("2 of 3  open", "begun, by kim", "drop")
        terminal.press("s", "3 of 3  calm")
        terminal.press("b", "2 of 3  open")
        terminal.press("n", "3 of 3  calm")
        terminal.child.sendcontrol("c")
        assert terminal.ends() == 130
    assert [line["uid"] for line in lines(directory / FILE) if line["finished"]] == [
        "blocked",
        "open",
    ]
