"""What makes a run this run: files that settings name count by their content."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_runs import Fake, go, manifest, write_data

from absa.config import load_settings
from absa.runs import RunMismatch, RunPlan
from absa.runs.identity import named_file_hashes
from absa.schemas.errors import InputError


def folder(path: Path) -> Path:
    (path / "parts").mkdir(parents=True)
    (path / "decision_en.json").write_text("{}")
    (path / "parts" / "tagger_en.crf").write_bytes(b"crf")
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text("x")
    return path


def demos(path: Path) -> Path:
    row = {"text": "Bad soup.", "aspects": [{"term": "soup", "polarity": "negative"}]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def traces(path: Path) -> Path:
    path.mkdir()
    row = {"uid": "u0", "node": "ate", "turn": 0, "output": {}}
    (path / "traces.jsonl").write_text(json.dumps(row) + "\n")
    return path


CASES: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "backend.model": (folder, {"backend.kind": "offline"}, "parts/tagger_en.crf"),
    "backend.path": (traces, {"backend.kind": "replay"}, "traces.jsonl"),
    "demos.path": (demos, {"demos.k": 1}, ""),
    "aux_hf.checkpoint": (folder, {"aux_hf.enabled": True}, "decision_en.json"),
}


@pytest.fixture(params=CASES)
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, RunPlan, Path]:
    """A setting, a plan that uses it, and the file that is then changed."""
    key = request.param
    make, more, changed = CASES[key]
    path = make(tmp_path / "named")
    settings = load_settings(None, {**more, key: str(path)})
    plan = RunPlan(write_data(tmp_path / "data.jsonl", 3), tmp_path / "out", settings)
    return key, plan, path / changed if changed else path


def test_a_file_that_changed_between_two_starts_is_another_run(
    named: tuple[str, RunPlan, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("absa.runs.sample.with_signal", lambda output, settings: output)
    key, plan, file = named
    assert go(replace(plan, limit=1), Fake()).totals.done == 1
    assert key in manifest(plan)["identity"]["files"]
    content = file.read_bytes()
    file.write_bytes(content + b" ")
    with pytest.raises(RunMismatch, match=rf"files\.{key}.*: was"):
        go(plan)
    file.write_bytes(content)
    assert go(plan).exit_code == 0


def test_a_folder_counts_by_its_files_and_not_by_hidden_ones(tmp_path: Path) -> None:
    settings = load_settings(None, {"backend.model": str(folder(tmp_path / "model"))})
    hashes = named_file_hashes(settings)["backend.model"]
    assert set(hashes) == {"decision_en.json", "parts/tagger_en.crf"}
    (tmp_path / "model" / ".git" / "HEAD").write_text("y")
    assert named_file_hashes(settings)["backend.model"] == hashes


def test_files_that_the_settings_do_not_use_do_not_count(tmp_path: Path) -> None:
    given = {
        "backend.kind": "openai",
        "backend.model": str(folder(tmp_path / "model")),
        "demos.path": str(demos(tmp_path / "demos.jsonl")),
        "aux_hf.checkpoint": "nlptown/bert-base-multilingual-uncased-sentiment",
    }
    assert named_file_hashes(load_settings(None, given)) == {}
    published = load_settings(None, {**given, "aux_hf.enabled": True})
    assert named_file_hashes(published) == {}


@pytest.mark.parametrize(
    ("key", "path", "why"),
    [
        ("demos.path", "/dev/zero", "is not a regular file; copy its content to one"),
        ("backend.path", "/dev/zero", "is not a regular file; copy its content to one"),
        ("demos.path", "gone.jsonl", "cannot be read: No such file or directory"),
        ("backend.model", "gone", "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_key(
    tmp_path: Path, key: str, path: str, why: str
) -> None:
    more = CASES[key][1]
    named = tmp_path / path
    plan = RunPlan(
        write_data(tmp_path / "data.jsonl", 1),
        tmp_path / "out",
        load_settings(None, {**more, key: str(named)}),
    )
    with pytest.raises(InputError) as refused:
        go(plan)
    assert str(refused.value) == f"{key}: {named} {why}"
    assert not (tmp_path / "out" / "manifest.json").exists()
