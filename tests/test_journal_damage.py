"""A journal that is damaged, empty or gone: one message with one remedy, and nothing is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from test_runs import go, write_data

from absa.cli import run as command_line
from absa.config import load_settings
from absa.runs import RunError, RunMismatch, RunPlan


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    plan = RunPlan(write_data(tmp_path / "data.jsonl", 3), tmp_path / "out", load_settings())
    assert go(plan).exit_code == 0
    return plan


def change(plan: RunPlan, sql: str) -> None:
    with closing(sqlite3.connect(plan.out / "journal.db")) as journal, journal:
        journal.executescript(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE run SET value = '{' WHERE key = 'identity'",
        "UPDATE run SET value = '[]' WHERE key = 'identity'",
        "UPDATE run SET value = '7' WHERE key = 'seeds'",
        "INSERT OR REPLACE INTO run VALUES ('spent', '{\"calls\": \"many\"}')",
        "INSERT OR REPLACE INTO run VALUES ('elapsed_s', '\"long\"')",
        "DROP TABLE samples; CREATE TABLE samples (uid TEXT)",
        "DROP TABLE run; CREATE TABLE run (key TEXT)",
        "UPDATE samples SET output = x'00'; UPDATE run SET value = 'false' WHERE key = 'exported'",
        "UPDATE samples SET gate = NULL; UPDATE run SET value = 'false' WHERE key = 'exported'",
    ],
)
def test_a_damaged_journal_is_named_with_a_remedy_that_works(
    plan: RunPlan, sql: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(plan, sql)
    with pytest.raises(RunError) as ended:
        go(plan)
    assert "restore it from a copy, or start again with another --out" in str(ended.value)
    assert "the same command" not in str(ended.value)
    assert command_line(["run", str(plan.data), "--out", str(plan.out)]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("absa: ")


@pytest.mark.parametrize("state", ["is empty", "is not there", "has no record of a run"])
def test_results_without_their_journal_are_kept(plan: RunPlan, state: str) -> None:
    journal = plan.out / "journal.db"
    if state == "has no record of a run":
        change(plan, "DELETE FROM run")
    else:
        journal.unlink()
        for rest in plan.out.glob("journal.db-*"):
            rest.unlink()
    if state == "is empty":
        journal.touch()
    before = {file.name: file.read_bytes() for file in plan.out.glob("*.json*")}
    with pytest.raises(
        RunMismatch, match=rf"journal\.db {state}\. .*restore journal\.db from a backup"
    ):
        go(plan)
    assert {file.name: file.read_bytes() for file in plan.out.glob("*.json*")} == before
    if state == "is empty":
        assert journal.stat().st_size == 0


def test_a_journal_that_was_never_written_to_is_no_obstacle(plan: RunPlan, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    out.mkdir()
    (out / "journal.db").touch()
    assert command_line(["run", str(plan.data), "--out", str(out)]) == 0
