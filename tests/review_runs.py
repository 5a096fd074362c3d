"""A finished run to be reviewed: recorded answers with a doubt of each kind, and one without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from review_cases import BLOCKED, CALM, OPEN, TEXT

from absa.runs import RunPlan, run
from absa.schemas.settings import Settings

TEXTS = {
    "calm": "맛은 좋아요. 가격이 비싸고 그래요.",
    "blocked": "가격이 비싸고 맛은 좋아요!",
    "open": "가격이 비싸고 맛은 좋아요.",
}
ANSWERS = {"calm": CALM, "blocked": BLOCKED, "open": OPEN}


def finished_run(
    folder: Path,
    mode: str = "on_conflict",
    seeds: tuple[int, ...] = (),
    answers: Mapping[str, Any] = ANSWERS,
    **pipeline: Any,
) -> Path:
    """Run the real engine over recorded answers; the run directory."""
    data, traces, out = folder / "data.jsonl", folder / "traces.jsonl", folder / "run"
    rows = [
        {"uid": uid, "text": TEXTS.get(uid, f"{uid}: {TEXT}"), "lang": "ko", "domain": "food"}
        | {"split": "test"}
        for uid in answers
    ]
    data.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    recorded = [
        {"uid": uid, "node": node, "turn": 0, "seed": seed, "output": output}
        for uid, said in answers.items()
        for node, output in said.items()
        for seed in seeds or (0,)
    ]
    traces.write_text("\n".join(json.dumps(a, ensure_ascii=False) for a in recorded), "utf-8")
    settings = Settings.model_validate(
        {
            "backend": {"kind": "replay", "path": str(traces)},
            "pipeline": {"human_review": mode, **pipeline},
        }
    )
    report = asyncio.run(run(RunPlan(data=data, out=out, settings=settings, seeds=seeds)))
    assert report.exit_code == 0
    return out


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
