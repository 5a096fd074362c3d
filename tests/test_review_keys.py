"""The reviewer's keyboard: what a terminal sends for one key is one key."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest

from absa.cli.keys import Keyboard


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where the keys are typed."""
    typing, screen = pty.openpty()
    with os.fdopen(screen) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield typing
    os.close(typing)


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        (b"\x1b[A", "up"),
        (b"\x1bOB", "down"),
        (b"\x1b[1;2D", "unknown"),  # Shift and left
        (b"\x1b[3~", "unknown"),  # delete
        (b"\x1b[15;5~", "unknown"),  # Ctrl and F5
        (b"\x1bO5D", "unknown"),  # Ctrl and left, in older terminals
        (b"\x1b\x1b[D", "unknown"),  # Alt and left
        (b"\x1b[[A", "unknown"),  # F1 on Linux' console
        (b"\x1bd", "unknown"),  # Alt and d
        ("ㅇ".encode(), "d"),
    ],
)
def test_nothing_of_a_longer_key_is_left_to_be_taken_for_another(
    terminal: int, sent: bytes, key: str
) -> None:
    with Keyboard() as keyboard:
        os.write(terminal, sent + b"q")
        assert [keyboard.key(), keyboard.key()] == [key, "q"]


def test_an_escape_alone_is_a_key(terminal: int) -> None:
    with Keyboard() as keyboard:
        os.write(terminal, b"\x1b")
        assert keyboard.key() == "escape"
