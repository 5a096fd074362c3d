"""`absa analyze` with several texts, and with texts typed at a terminal."""

import os
import sys
from collections.abc import Iterator

import pexpect
import pytest
from typer.testing import CliRunner

from absa.cli import build_app

PATIENCE_S = 120


@pytest.fixture
def terminal() -> Iterator[pexpect.spawn]:
    env = {**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    child = pexpect.spawn(
        sys.executable,
        ["-m", "absa", "analyze", "-i", "--config", "baseline_single"],
        env=env,
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(40, 100),
    )
    child.expect("Ctrl-D: end")
    child.expect("> ")
    yield child
    child.close(force=True)


def test_texts_typed_at_a_terminal_are_analyzed_until_it_is_closed(terminal: pexpect.spawn) -> None:
    terminal.sendline("The battery is great.")
    terminal.expect("positive")
    terminal.expect("\n.*> ")
    # Ctrl-C drops the line and does not end it.
    terminal.send("half a tex")
    terminal.expect("half a tex")
    terminal.sendintr()
    terminal.expect("> ")
    terminal.sendline("The screen is terrible.")
    terminal.expect("negative")
    terminal.expect("\n.*> ")
    # Arrow up, twice: the first text is analyzed again.
    terminal.send("\x1b[A\x1b[A\r")
    terminal.expect("battery")
    terminal.expect("positive")
    terminal.expect("\n.*> ")
    terminal.sendeof()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_several_texts_and_one_that_fails() -> None:
    texts = ["The battery is great.", " ", "The screen is terrible."]
    done = CliRunner().invoke(build_app(), ["analyze", *texts, "--config", "baseline_single"])
    assert done.exit_code == 1
    first, _, second = done.stdout.partition("text 3")
    assert "text 1" in first and "battery" in first and "positive" in first
    assert "screen" in second and "negative" in second
    assert done.stderr.startswith("absa: text 2: text is empty")
