"""Reads single keys and lines from a terminal."""

from __future__ import annotations

import os
import re
import select
import sys

# The letters of the keys on a Korean keyboard in Hangul mode.
_HANGUL = dict(zip("ㅏㄹㅇㅁㅣㅜㅕㅠㅂㄴㅓㅑㅔㅡ", "kfdalnubqsjipm", strict=True))
_SEQUENCES = {"[A": "up", "[B": "down", "OA": "up", "OB": "down"}
_NAMED = {"\r": "enter", "\n": "enter", "\x04": "", "\t": "down"}
# An escape sequence: one character, or `[` or `O` with parameters up to a final byte. Some
# terminals send a second escape for Alt, and the Linux console sends `[[A` for F1.
_WHOLE = re.compile(r"\x1b*(?:[^\x1b\[O]|\[\[.|[\[O](?!\[)[^@-~]*[@-~])", re.DOTALL)
# The rest of an escape sequence arrives at once. Nothing follows a single escape.
_SEQUENCE_WAIT_S = 0.05


class Keyboard:
    """Reads single keys. Restores the terminal at the end."""

    def __enter__(self) -> Keyboard:
        import termios

        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        self._single()
        return self

    def __exit__(self, *error: object) -> None:
        self._whole_lines()

    def key(self) -> str:
        """The next key: a character, `up`, `down`, `enter` or `escape`; empty at the end."""
        char = self._char()
        if char == "\x1b":
            return self._sequence()
        return _NAMED.get(char, _HANGUL.get(char, char.lower()))

    def line(self, prompt: str) -> str:
        """Read a line; empty if the user cancels."""
        import readline  # noqa: F401  (with it, `input` knows how wide a character is)

        self._whole_lines()
        try:
            return input(prompt).strip()
        except EOFError:
            return ""
        finally:
            self._single()

    def _single(self) -> None:
        import tty

        tty.setcbreak(self._fd)

    def _whole_lines(self) -> None:
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _char(self) -> str:
        read = os.read(self._fd, 1)
        # The first byte of a character determines its length.
        first = read[0] if read else 0
        more = 3 if first >= 0xF0 else 2 if first >= 0xE0 else 1 if first >= 0xC0 else 0
        for _ in range(more):
            read += os.read(self._fd, 1)
        return read.decode(errors="replace")

    def _sequence(self) -> str:
        sequence = ""
        while not _WHOLE.fullmatch(sequence) and (char := self._char_at_once()):
            sequence += char
        return _SEQUENCES.get(sequence, "escape" if not sequence else "unknown")

    def _char_at_once(self) -> str:
        """A character that is already available, else an empty string."""
        return self._char() if select.select([self._fd], [], [], _SEQUENCE_WAIT_S)[0] else ""
