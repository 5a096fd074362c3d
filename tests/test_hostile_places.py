"""Disks, devices, pipes and files that fail: one message and an exit code, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from absa.backends.replay import ReplayBackend
from absa.cli import run as command_line
from absa.cli.options import MAX_CONCURRENCY
from absa.config import SettingsError, load_settings
from absa.data import DataError, read_samples
from absa.memory import FILE
from absa.prices import _own_prices
from absa.schemas import settings as schema
from absa.schemas.errors import InputError


def absa(*args: str, stdout: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "absa", *args]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120
    )


def test_a_full_output_is_one_line_and_exit_code_1() -> None:
    with open("/dev/full", "w") as full:
        done = absa("graph", "--format", "svg", stdout=full)
    assert (done.returncode, done.stderr) == (
        1,
        "absa: the output cannot be written: No space left on device\n",
    )


def test_a_read_only_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Path, *args: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "Good soup."}\n')
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert command_line(["train", str(data), "--out", str(tmp_path / "model")]) == 2
    assert capsys.readouterr().err == f"absa: {tmp_path / 'model'}: Read-only file system\n"


def test_an_endless_file_of_settings_or_prices_is_an_error() -> None:
    with pytest.raises(SettingsError, match="/dev/zero: cannot be read: more than 16 MB"):
        load_settings("/dev/zero")
    with pytest.raises(InputError, match="/dev/zero is not a price list .*more than 16 MB"):
        _own_prices(Path("/dev/zero"))


def test_an_endless_line_is_an_error(tmp_path: Path) -> None:
    with open("/dev/zero") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "absa", "analyze", "-"],
            stdin=endless,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (2, "absa: <stdin>: line 1 has more than 16 MB\n")
    answers = tmp_path / "traces.jsonl"
    answers.write_text('{"uid": "u", "node": "ate", "output": {}}\n')
    with answers.open("r+b") as sparse:
        sparse.truncate(10**12)
    with pytest.raises(InputError, match=r"traces\.jsonl: line 2 has more than 16 MB"):
        ReplayBackend(str(answers))


def test_a_column_mapping_that_is_a_text_is_an_error_of_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "Good soup."}\n')
    columns: Any = "text=review"
    with pytest.raises(DataError, match="the column mapping 'text=review' is not valid"):
        read_samples(data, "jsonl", columns)


def overwrite_table(file: Path) -> None:
    """Destroy the page where the episodes begin: the file still opens as a database."""
    with closing(sqlite3.connect(file)) as memory:
        size = memory.execute("PRAGMA page_size").fetchone()[0]
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'store'"
        start = (memory.execute(sql).fetchone()[0] - 1) * size
    content = bytearray(file.read_bytes())
    content[start : start + size] = b"\xff" * size
    file.write_bytes(content)


@pytest.mark.parametrize("damage", ["page", "value"])
def test_a_damaged_memory_is_named_with_its_remedy(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [
        "--set",
        "pipeline.memory.store=sqlite",
        "--set",
        f"pipeline.memory.path={tmp_path}",
    ]
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "Good soup.", "lang": "en"}\n')
    run = ["run", str(data), "--out", str(tmp_path / "out"), *settings]
    assert command_line([*run, "--set", "pipeline.memory.condition=on"]) == 0
    file = tmp_path / FILE
    with closing(sqlite3.connect(file, isolation_level=None)) as memory:
        if damage == "value":
            memory.execute("UPDATE store SET value = '{\"at\": {}}'")
        memory.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if damage == "page":
        overwrite_table(file)
    capsys.readouterr()
    assert command_line(["memory", "stats", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"absa: {file}")
    assert message.count("\n") == 1


@pytest.mark.parametrize("table", ["page", "value", "index"])
def test_a_memory_that_is_damaged_ends_the_run_and_the_run_goes_on_without_the_damage(
    tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message: the samples are not to blame, so none is recorded as failed."""
    data = tmp_path / "data.jsonl"
    texts = ["Good soup.", "Good soup, bad service.", "Bad soup."]
    data.write_text("".join(json.dumps({"text": text, "lang": "en"}) + "\n" for text in texts))
    memory = {"condition": "on", "store": "sqlite", "path": tmp_path}
    sets = [f"pipeline.memory.{name}={value}" for name, value in memory.items()]
    options = [word for line in sets for word in ("--set", line)]
    assert command_line(["run", str(data), "--out", str(tmp_path / "first"), *options]) == 0
    file = tmp_path / FILE
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        if table == "value":
            store.execute("UPDATE store SET value = '{}' WHERE prefix LIKE 'episodes%'")
        if table == "index":
            store.execute("UPDATE store SET value = '{}' WHERE prefix NOT LIKE 'episodes%'")
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if table == "page":
        overwrite_table(file)
    capsys.readouterr()
    run = ["run", str(data), "--out", str(tmp_path / "second"), *options]
    assert command_line(run) == 1
    complaints = [x for x in capsys.readouterr().err.splitlines() if x.startswith("absa: ")]
    assert len(complaints) == 1
    assert complaints[0].startswith(f"absa: {file}")
    file.unlink()
    assert command_line(run) == 0
    assert "3 of 3 samples analyzed, 0 failed" in capsys.readouterr().out


# Bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "pipeline.debate.rounds",
        "pipeline.vote.n",
        "demos.k",
        "backend.max_retries",
        "backend.max_concurrency",
        "backend.timeout_s",
    ],
)
def test_a_number_that_would_cost_a_machine_is_refused_with_the_bound(key: str) -> None:
    value = 10**9 + 0.0 if key == "backend.timeout_s" else 10**9
    with pytest.raises(SettingsError, match=rf"{key}: expected a number of at most \d+"):
        load_settings(None, {key: value, "demos.path": "demos.jsonl"})


def test_the_command_line_has_the_bound_of_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAX_CONCURRENCY == schema.MAX_CONCURRENCY
    run = ["run", "data.jsonl", "--out", str(tmp_path / "out"), "--concurrency"]
    assert command_line([*run, str(MAX_CONCURRENCY + 1)]) == 2
    # The words differ between versions of click.
    assert f"{MAX_CONCURRENCY}" in capsys.readouterr().err
