"""JSON that is nested too deeply is an error of its file, wherever a user can name that file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from absa.cli import run as command_line
from absa.prices import _own_prices
from absa.schemas.errors import InputError
from absa.schemas.json_text import MAX_DEPTH, parse_json

# Python's parser gives up at the first; at the second, what walks the value does.
TOO_DEEP_TO_PARSE, TOO_DEEP_TO_WALK = 100_000, 900


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = folder / "data.jsonl"
    row = {"text": "Good soup.", "aspects": [{"term": "soup", "polarity": "positive"}]}
    data.write_text(json.dumps(row) + "\n")
    assert command_line(["run", str(data), "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("top", "manifest.json"),
        ("replay", "manifest.json"),
        ("replay", "outputs.jsonl"),
        ("replay", "errors.jsonl"),
        ("replay", "traces.jsonl"),
        ("evaluate", "manifest.json"),
        ("evaluate", "outputs.jsonl"),
        ("evaluate", "scorecards.jsonl"),
        ("review", "manifest.json"),
        ("review", "outputs.jsonl"),
        ("review", "reviews.jsonl"),
        ("report", "manifest.json"),
        ("report", "outputs.jsonl"),
        ("report", "metrics.json"),
        ("verify", "manifest.json"),
        ("verify", "outputs.jsonl"),
        ("verify", "override_gate_debug_summary.json"),
        ("verify", "metrics.json"),
    ],
)
def test_a_command_names_the_file_of_a_run(
    finished: Path,
    tmp_path: Path,
    command: str,
    file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / file).write_text(f'{{"uid": "u", "settings": {nested(TOO_DEEP_TO_PARSE)}}}\n')
    options = {
        "replay": ["--out", str(tmp_path / "again")],
        "report": ["-o", str(tmp_path / "report.html")],
        "review": ["--export", "gold", str(tmp_path / "gold.jsonl")],
    }
    capsys.readouterr()
    code = command_line([command, str(out), *options.get(command, [])])
    # A report shows what it can read.
    assert code in ((0, 1) if command == "report" else (1, 2))
    shown = capsys.readouterr()
    assert file in shown.err + shown.out


@pytest.mark.parametrize("depth", [TOO_DEEP_TO_PARSE, TOO_DEEP_TO_WALK])
def test_a_row_of_the_data_is_a_bad_line(
    tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(f'{{"text": "Good soup."}}\n{{"text": "x", "meta": {nested(depth)}}}\n')
    assert command_line(["run", str(data), "--out", str(tmp_path / "out")]) == 1
    assert "1 of 1 samples analyzed, 0 failed, 1 unreadable line " in capsys.readouterr().out
    assert f"more than {MAX_DEPTH} levels" in (tmp_path / "out" / "errors.jsonl").read_text()


@pytest.mark.parametrize("depth", [TOO_DEEP_TO_PARSE, TOO_DEEP_TO_WALK])
def test_recorded_answers_and_prices_are_wrong_use(
    tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deep.jsonl"
    file.write_text(f'{{"uid": "u", "node": "ate", "output": {nested(depth)}}}\n')
    recorded = ["--set", "backend.kind=replay", "--set", f"backend.path={file}"]
    assert command_line(["analyze", "Good soup.", *recorded]) == 2
    assert f"{file}:1: not a recorded answer" in capsys.readouterr().err
    with pytest.raises(InputError, match=f"{file} is not a price list .*more than {MAX_DEPTH}"):
        _own_prices(file)


def test_the_bound_is_the_number_of_levels() -> None:
    assert parse_json(nested(MAX_DEPTH)) is not None
    with pytest.raises(json.JSONDecodeError, match=f"nested more than {MAX_DEPTH} levels"):
        parse_json(nested(MAX_DEPTH + 1))
    with pytest.raises(json.JSONDecodeError):
        parse_json('{"a": ' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))
    assert parse_json(b'{"a": [1, "[[[["]}') == {"a": [1, "[[[["]}
