"""A data file that is written to while a run reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_runs import TEXT, Fake, go, manifest, uids, write_data

from absa.config import load_settings
from absa.data import read_samples
from absa.runs import RunError, RunMismatch, RunPlan
from absa.schemas.backend import Ask

ROW = json.dumps({"uid": "new", "text": TEXT, "lang": "en"}) + "\n"


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    data = write_data(tmp_path / "data.jsonl", 6)
    return RunPlan(data, tmp_path / "out", load_settings(), concurrency=1)


class Writer(Fake):
    """A backend during whose first answer of a sample something happens to the data file."""

    def __init__(self, uid: str, change: Callable[[], object]) -> None:
        super().__init__()
        self.before = lambda question: self._once(question, uid, change)
        self._is_done = False

    def _once(self, question: Ask, uid: str, change: Callable[[], object]) -> None:
        if question.uid == uid and not self._is_done:
            self._is_done = True
            change()


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("last_newline", ["\n", ""])
@pytest.mark.parametrize("seeds", [(), (1, 2)])
def test_rows_that_are_appended_are_left_for_another_run(
    plan: RunPlan, last_newline: str, seeds: tuple[int, ...]
) -> None:
    plan.data.write_text(plan.data.read_text(encoding="utf-8").rstrip("\n") + last_newline)
    size = plan.data.stat().st_size
    writer = Writer("u0", lambda: append(plan.data, ROW * 3))
    report = go(replace(plan, seeds=seeds), writer)
    expected = [f"u{n}" for n in range(6) for _ in seeds or (0,)]
    assert (report.status, report.total, uids(plan)) == ("finished", len(expected), expected)
    assert "has grown during the run" in report.notes[0]
    assert manifest(plan)["data"]["bytes"] == size
    with pytest.raises(RunMismatch, match=f"head -c {size} {plan.data}") as refused:
        go(plan)
    assert "data.sha256: was" in str(refused.value)
    old = plan.data.read_bytes()[:size]
    plan.data.write_bytes(old)
    assert go(plan).exit_code == 0


@pytest.mark.parametrize("way", ["in place", "replaced", "cut", "removed"])
def test_a_file_that_was_changed_ends_the_run_and_the_old_file_continues_it(
    plan: RunPlan, tmp_path: Path, way: str
) -> None:
    old = plan.data.read_bytes()
    new = tmp_path / "new.jsonl"
    new.write_bytes(old.replace(b"steep", b"lower"))
    changes: dict[str, Callable[[], object]] = {
        "in place": lambda: plan.data.write_bytes(new.read_bytes()),
        "replaced": lambda: new.rename(plan.data),
        "cut": lambda: os.truncate(plan.data, 10),
        "removed": plan.data.unlink,
    }
    with pytest.raises(RunError, match=r"data\.jsonl was changed while .* Restore the old file"):
        go(plan, Writer("u1", changes[way]))
    plan.data.write_bytes(old)
    assert go(plan).exit_code == 0
    outputs = (plan.out / "outputs.jsonl").read_text(encoding="utf-8")
    assert outputs.count('"text":"The price is steep.') == 6


def test_an_appended_file_whose_old_rows_changed_is_noticed(plan: RunPlan) -> None:
    new = plan.data.read_text(encoding="utf-8").replace("steep", "lower") + ROW
    with pytest.raises(RunError, match="was changed while"):
        go(plan, Writer("u5", lambda: plan.data.write_text(new, encoding="utf-8")))


def test_a_file_that_is_only_touched_is_read_on(plan: RunPlan) -> None:
    report = go(plan, Writer("u1", lambda: os.utime(plan.data, (1, 1))))
    assert (report.exit_code, report.notes) == (0, [])


@pytest.mark.parametrize("size", [0, 1, 150, 10_000])
def test_reading_ends_after_the_asked_bytes(tmp_path: Path, size: int) -> None:
    data = write_data(tmp_path / "data.jsonl", 20)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(data.read_bytes()[:size])
    read = [str(row).replace("data.jsonl", "") for row in read_samples(data, "jsonl", size=size)]
    assert read == [str(row).replace("cut.jsonl", "") for row in read_samples(cut, "jsonl")]
