"""The suite itself: started in the background, with a test that hangs, and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parent
CONFTEST = "from processes import pytest_configure, pytest_unconfigure\n"
SLEEPS = "import time; print('up', flush=True); time.sleep(300)"
STARTS_A_CHILD = f"""
import subprocess, sys
def child():
    process = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process
"""


def suite(folder: Path, body: str, *args: str) -> subprocess.Popen[str]:
    """A suite of one file, with the hooks of this one."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(STARTS_A_CHILD + body)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def in_the_background(folder: Path, body: str, *args: str) -> tuple[int, str]:
    """How a suite ends that a shell starts with `&`: it ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        background = suite(folder, body, *args)
    finally:
        signal.signal(signal.SIGINT, before)
    output, _ = background.communicate(timeout=60)
    return background.returncode, output


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_suite_in_the_background_can_interrupt_what_it_starts(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    body = """
import signal
def test_interrupt():
    started = child()
    started.send_signal(signal.SIGINT)
    assert started.wait(10) == -signal.SIGINT
"""
    status, output = in_the_background(tmp_path, body, *workers)
    assert status == 0, output


def test_suite_in_the_background_goes_on_when_the_foreground_is_interrupted(tmp_path: Path) -> None:
    body = """
import os, signal, time
def test_ignored():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
"""
    status, output = in_the_background(tmp_path, body)
    assert status == 0, output


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_suite_leaves_no_process_behind(
    tmp_path: Path, number: int, workers: tuple[str, ...]
) -> None:
    body = """
import pathlib, time
def test_hangs():
    pathlib.Path("pid").write_text(str(child().pid))
    time.sleep(300)
"""
    running = suite(tmp_path, body, *workers)
    pid = tmp_path / "pid"
    end = time.monotonic() + 60
    while not pid.is_file() or not pid.read_text():
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(number)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == pytest.ExitCode.INTERRUPTED, output
    assert not is_running(int(pid.read_text()))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_every_test_has_a_time_limit(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert 0 < float(request.config.getini("timeout")) <= 1800
    hangs = suite(tmp_path, "import time\ndef test_hangs(): time.sleep(300)", "-o", "timeout=1")
    output, _ = hangs.communicate(timeout=60)
    assert hangs.returncode == pytest.ExitCode.TESTS_FAILED
    assert "Timeout" in output
