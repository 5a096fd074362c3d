"""A finished run to be reviewed: recorded answers with a doubt of each kind, and one without."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from review_cases import BLOCKED, CALM, OPEN

from absa.runs import RunPlan, run
from absa.schemas.settings import Settings

TEXTS = {
    "calm": "맛은 좋아요. 가격이 비싸고 그래요.",
    "blocked": "가격이 비싸고 맛은 좋아요!",
    "open": "가격이 비싸고 맛은 좋아요.",
}
ANSWERS = {"calm": CALM, "blocked": BLOCKED, "open": OPEN}


def finished_run(
    folder: Path, mode: str = "on_conflict", seeds: tuple[int, ...] = (), **pipeline: Any
) -> Path:
    """Run the real engine over recorded answers; the run directory."""
    data, traces, out = folder / "data.jsonl", folder / "traces.jsonl", folder / "run"
    rows = [
        {"uid": uid, "text": text, "lang": "ko", "domain": "food", "split": "test"}
        for uid, text in TEXTS.items()
    ]
    data.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    answers = [
        {"uid": uid, "node": node, "turn": 0, "seed": seed, "output": output}
        for uid, said in ANSWERS.items()
        for node, output in said.items()
        for seed in seeds or (0,)
    ]
    traces.write_text("\n".join(json.dumps(a, ensure_ascii=False) for a in answers), "utf-8")
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
