"""`absa top`: a run seen from outside while it goes on, when it is killed, when it has ended."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_server import answering
from test_crash import COMMAND, Fork, Server, write_data

from absa.cli import run as command
from absa.runs.watch import look

HERE = Path(__file__).parent
SAMPLES = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "calls.jsonl"
    with answering(log, "--delay", "0.1") as url:
        yield Server(url, log)


def start(server: Server, folder: Path, name: str) -> Fork:
    data = folder / "data.jsonl"
    if not data.exists():
        write_data(data, SAMPLES)
    begun = Fork(server, folder, name, str(data), "--out", str(folder / "run"))
    begun.wait_for_calls(1)
    return begun


def files(out: Path) -> dict[str, tuple[int, int]]:
    """All but the index that SQLite's readers share with its writers."""
    kept = [f for f in out.iterdir() if not f.name.endswith("-shm")]
    return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in kept}


def test_follows_a_run_to_its_death_and_the_next_one_to_its_end(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    run = start(server, tmp_path, "first")
    run.wait_for_calls(45)
    assert command(["top", str(out), "--once"]) == 0
    first, *nodes = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        rf"{out}: running; \d+/{SAMPLES} samples, 0 failed, \d+\.\d/s, [\d,]+ tokens, .*", first
    )
    assert all(re.fullmatch(r"node \w+: \d+ ms", line) for line in nodes)

    killer = threading.Timer(0.5, run.send, [signal.SIGKILL])
    killer.start()
    assert command(["top", str(out)]) == 1
    killer.join()
    assert run.wait() == -signal.SIGKILL
    told = capsys.readouterr().out.splitlines()
    assert ": running; " in told[0]
    assert ": stopped: its process has ended" in told[-1]
    before = files(out)
    assert command(["top", str(out), "--once"]) == 1
    assert files(out) == before

    last = start(server, tmp_path, "last")
    assert command(["top", str(out)]) == 0
    assert last.wait() == 0, last.said()
    told = capsys.readouterr().out.splitlines()
    assert told[-1].startswith(f"{out}: finished; {SAMPLES}/{SAMPLES} samples, 0 failed, ")
    assert not (out / "status.json").exists()


def test_draws_on_a_terminal_until_the_run_ends(server: Server, tmp_path: Path) -> None:
    run = start(server, tmp_path, "drawn")
    # Held, but alive, until its picture is there: the command takes its time to start.
    run.send(signal.SIGSTOP)
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        [str(COMMAND), "top", str(tmp_path / "run")],
        stdout=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as top:
        os.close(terminal)
        drawn = os.read(screen, 4096)
        while b"running" not in drawn:
            drawn += os.read(screen, 4096)
        run.send(signal.SIGCONT)
        while True:
            try:
                drawn += os.read(screen, 4096)
            except OSError:  # how a terminal says that nobody is left
                break
        assert top.wait(timeout=30) == 0
    os.close(screen)
    assert run.wait() == 0
    words = re.sub(rb"\x1b\[[\d;?]*[a-zA-Z]", b"", drawn).decode()
    assert f"{SAMPLES}/{SAMPLES} samples" in words
    assert "median ms" in words and "validator_review" in words
    assert "━" in words


@pytest.mark.parametrize("what", ["empty", "missing", "file"])
def test_directory_without_a_run_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert command(["top", str(tmp_path / what)]) == 2
    problem = "no such directory" if what == "missing" else "not a run directory"
    assert problem in capsys.readouterr().err


def test_run_that_is_reading_its_data_is_starting_and_one_killed_then_is_stopped(
    tmp_path: Path,
) -> None:
    from absa.runs.journal import Journal
    from absa.runs.lock import locked

    with locked(tmp_path):
        Journal(tmp_path).close()
        assert look(tmp_path).state == "starting"
    assert look(tmp_path).state == "stopped"


def write_manifest(out: Path) -> None:
    names = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "cost_usd")
    manifest = {
        "status": "finished",
        "counts": {"samples": 3, "done": 3, "failed": 0, "bad_lines": 0},
        "usage": dict.fromkeys(names, 0),
    }
    (out / "manifest.json").write_text(json.dumps(manifest))


def test_finished_run_that_is_started_again_is_starting(tmp_path: Path) -> None:
    from absa.runs.journal import Journal
    from absa.runs.lock import locked

    with locked(tmp_path):
        Journal(tmp_path).close()
        write_manifest(tmp_path)
        assert look(tmp_path).state == "starting"
    assert look(tmp_path).state == "finished"


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"progress": 3}', b'{"progress": {"total": "x"}}']
)
def test_status_that_cannot_be_read_counts_as_none(tmp_path: Path, content: bytes) -> None:
    from absa.runs.journal import Journal

    Journal(tmp_path).close()
    write_manifest(tmp_path)
    (tmp_path / "status.json").write_bytes(content)
    assert look(tmp_path).state == "finished"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"status": "finished", "counts": {"done": "x"}, "usage": {}}'],
)
def test_manifest_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    from absa.runs.journal import Journal

    Journal(tmp_path).close()
    (tmp_path / "manifest.json").write_bytes(content)
    assert command(["top", str(tmp_path), "--once"]) == 2
    assert f"{tmp_path / 'manifest.json'}: not a valid manifest" in capsys.readouterr().err


def test_stale_status_of_a_process_that_lives_is_no_death(tmp_path: Path) -> None:
    from absa.runs.journal import Journal, Totals
    from absa.runs.lock import locked
    from absa.runs.plan import Control, Progress
    from absa.runs.pool import Worker
    from absa.runs.status import StatusFile

    with locked(tmp_path):
        Journal(tmp_path).close()
        control = Control()
        control.drain("--budget-calls 5 is spent")
        workers = [Worker("tcp://127.0.0.1:1", 3, 4)]
        progress = Progress(10, Totals(done=4), 0, 0)
        StatusFile(tmp_path, "dask").write(progress, control, workers)
        old = time.time() - 60
        os.utime(tmp_path / "status.json", (old, old))
        seen = look(tmp_path)
    assert (seen.state, seen.engine, seen.progress) == ("running", "dask", progress)
    assert (seen.stopping, list(seen.workers)) == (control.reason, workers)
    assert look(tmp_path).state == "stopped"
