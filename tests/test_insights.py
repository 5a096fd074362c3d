"""What people say, without gold: columns that travel, topics, trends, comparisons."""

from __future__ import annotations

import json
from pathlib import Path

from absa.cli import run as run_cli


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_columns_of_the_data_travel_into_outputs_and_replays_and_into_no_prompt(
    tmp_path: Path,
) -> None:
    data = tmp_path / "reviews.csv"
    data.write_text("review,product,stars\n배터리는 좋아요.,phone-x,5\n", encoding="utf-8")
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_cli(["run", str(data), "--out", str(one), "--no-cache"]) == 0
    assert run_cli(["replay", str(one), "--out", str(two)]) == 0
    assert run_cli(["verify", str(two)]) == 0
    for out in (one, two):
        (output,) = lines(out / "outputs.jsonl")
        assert output["extra"] == {"product": "phone-x", "stars": "5"}
        assert "phone-x" not in (out / "traces.jsonl").read_text(encoding="utf-8")
