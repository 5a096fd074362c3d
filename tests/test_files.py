"""Files that are written whole, and paths where something else than a regular file is."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from review_runs import finished_run

from absa.cli import run as command_line
from absa.database import StorageError
from absa.runs.artefacts import write_lines

Command = Callable[[Path], list[str]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(params=["report", "review"])
def command(request: pytest.FixtureRequest, directory: Path) -> Command:
    """A command that writes a file: its arguments for a path."""
    if request.param == "report":
        return lambda path: ["report", str(directory), "-o", str(path)]
    return lambda path: ["review", str(directory), "--export", "gold", str(path)]


def test_a_symbolic_link_stays_and_its_target_is_replaced(command: Command, tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.parent.mkdir()
    target.write_text("old\n")
    link.symlink_to(target)
    assert command_line(command(link)) == 0
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") != "old\n"
    assert os.listdir(target.parent) == ["target"]


def test_a_fifo_is_written_to(command: Command, tmp_path: Path) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / "file"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(fifo.read_bytes()), daemon=True)
    reading.start()
    assert command_line(command(fifo)) == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    reading.join(10)
    assert command_line(command(file)) == 0
    assert received == [file.read_bytes()]


def test_a_device_stays_a_device(command: Command, tmp_path: Path) -> None:
    # The device itself is never at stake: a test that fails replaces the link.
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    assert command_line(command(null)) == 0
    assert null.is_symlink()
    assert null.is_char_device()


def test_a_full_device_is_an_error_that_names_it(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="full: No space left on device; check"):
        write_lines(full, ["x" * 100_000])
    assert full.is_char_device()


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")
    (tmp_path / "file.part").mkdir()
    with pytest.raises(StorageError, match="file: Is a directory"):
        write_lines(path, ["new"])
    assert path.read_text() == "old\n"
