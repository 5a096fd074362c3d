"""Tuned settings: what the study of `benchmarks.tuned` chooses, and the shipped `tuned.yaml`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from absa.ablate.sweep import Point, sweep
from absa.config import load_settings
from absa.runs import RunPlan, run
from benchmarks.tuned import best, decision_points, moderator_points, written


def point(name: str, value: float, low: float, high: float = 0.2) -> dict[str, Any]:
    return {"name": name, "d": {"value": value, "low": low, "high": high}}


BASE = point("base", 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("points", "chosen"),
    [
        ([], None),
        ([point("sure", 0.03, 0.01, 0.05), point("surer", 0.07, 0.02)], "surer"),
        # The highest gain, but it may be chance.
        ([point("sure", 0.03, 0.01), point("perhaps", 0.09, -0.01)], "sure"),
        ([point("perhaps", 0.09, 0.0)], None),
        # Of two that may be equally good the first, which changes the least.
        ([point("one", 0.03, 0.01), point("two", 0.04, 0.02)], "one"),
    ],
)
def test_only_what_is_surely_better_is_chosen(points: list[Any], chosen: str | None) -> None:
    winner = best(points, "d", BASE)
    assert (winner["name"] if winner else None) == chosen


def test_what_was_chosen_is_a_config_and_every_point_can_be_loaded(tmp_path: Path) -> None:
    for one in (*decision_points(), *moderator_points()):
        file = tmp_path / "chosen.yaml"
        file.write_text(written(one.changes), encoding="utf-8")
        expected = load_settings(None, dict(one.changes))
        assert load_settings(str(file)).model_dump() == expected.model_dump()


def test_texts_with_a_label_alone_are_swept_by_their_label(tmp_path: Path) -> None:
    """The Validator suggests a label where Stage 1 finds no aspect; RuleZ calls it neutral."""
    data, traces = tmp_path / "data.jsonl", tmp_path / "traces.jsonl"
    rows = [{"uid": f"u{n}", "text": f"좋아요 {n}", "label": "positive"} for n in range(4)]
    nothing = {"structural_risks": [], "correction_proposals": []}
    surely = {**nothing, "suggested_label": "positive", "confidence": 0.9}
    answers: dict[str, Any] = {
        "ate": {"aspects": []},
        "atsa": {"aspect_sentiments": []},
        "validator": surely,
        **{name: {"agent": name, "proposed_edits": []} for name in ("epm", "tan", "cj")},
        "judge": {"final_patch": [], "final_tuples": []},
        "ate_review": {"aspect_review": []},
        "atsa_review": {"sentiment_review": []},
        "validator_review": surely,
    }
    lines = [
        {"uid": row["uid"], "node": node, "turn": 0, "output": output}
        for row in rows
        for node, output in answers.items()
    ]
    for file, content in ((data, rows), (traces, lines)):
        file.write_text("".join(json.dumps(line) + "\n" for line in content), encoding="utf-8")
    settings = load_settings(None, {"backend.kind": "replay", "backend.path": str(traces)})
    out = tmp_path / "run"
    asyncio.run(run(RunPlan(data=data, out=out, settings=settings)))
    without_z = next(p for p in moderator_points() if p.name == "RuleZ off")
    found = sweep(out, [Point("RuleZ off", without_z.changes)], resamples=100)
    assert [p["scores"]["label_accuracy"] for p in found["points"]] == [0.0, 1.0]


def test_the_shipped_config_changes_nothing_that_an_agent_is_asked() -> None:
    tuned = yaml.safe_load(Path("configs/tuned.yaml").read_text(encoding="utf-8"))
    assert set(tuned) == {"pipeline"}
    assert set(tuned["pipeline"]) <= {"debate_override", "override_profile", "moderator"}
    assert load_settings("tuned").backend == load_settings().backend
