"""20 replay variants on recorded answers, by LangGraph and directly, in one run.

    python -m benchmarks.replay dev/mabsa_ko.jsonl

The offline debate answers the texts of the file (about 10 s for 1,238 texts). Then every variant
decides on these answers: once as `absa ablate` did until version 1.1, with one compiled graph per
variant and one `invoke` per text, and once as it does now. Both must find the same scores. Goal:
at most a tenth of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from absa.ablate.measuring import gold_aspects, row
from absa.ablate.sweep import AS_RECORDED, Point, grid, sweep, variants
from absa.backends.replay import ReplayBackend
from absa.config import load_settings
from absa.metrics.quality import score_sample
from absa.runs import RunPlan, run
from absa.runs.replay import Recorded, replay_settings
from absa.wired import wired

GOAL = 0.1
POINTS = [*variants(), *grid(["pipeline.debate_override.min_total=0.6,1.0,1.2,1.4"])][:20]

Scores = list[list[float]]


def by_langgraph(directory: Path) -> Scores:
    """A compiled graph for each point, and every text through it."""
    recorded = Recorded.read(directory)
    samples = [s for s in recorded.samples() if s.get("aspects") is not None]
    samples = [s for s in samples if not s.get("incomplete_gold")]
    backend = ReplayBackend(str(directory), recorded.seeds[0])
    found = []
    for point in (Point(AS_RECORDED, {}), *POINTS):
        graph = wired(replay_settings(recorded, None, point.changes)).compile(backend=backend)
        numbers = []
        for sample in samples:
            given = {key: sample.get(key) for key in ("text", "uid", "lang", "domain")}
            output = graph.invoke(given)["output"]
            one = score_sample(output, gold_aspects(sample), sample.get("label"), None)
            numbers.append(row(one.final, one.final_label, one.gold_label)[0])
        sums = np.sum(numbers, axis=0)
        found.append([float(right / all_) for right, all_ in sums])
    return found


def directly(directory: Path) -> Scores:
    """What `absa ablate --replay-variants` runs, its bootstrap included."""
    return [list(point["scores"].values()) for point in sweep(directory, POINTS)["points"]]


def timed(work: Callable[[Path], Scores], directory: Path) -> tuple[Scores, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    scores = work(directory)
    return scores, {
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="labelled texts")
    parser.add_argument("--limit", type=int, help="only the first texts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "recorded"
        plan = RunPlan(data=args.data, out=out, settings=load_settings(), limit=args.limit)
        report = asyncio.run(run(plan))
        before, slow = timed(by_langgraph, out)
        after, fast = timed(directly, out)
    result: dict[str, Any] = {
        "texts": report.totals.done,
        "variants": len(POINTS),
        "langgraph": slow,
        "direct": fast,
        "share_of_the_time": round(fast["seconds"] / slow["seconds"], 4),
        "share_of_the_cpu_time": round(fast["cpu_seconds"] / slow["cpu_seconds"], 4),
        "goal": GOAL,
        "same_scores": bool(np.allclose(before, after, rtol=0, atol=1e-12)),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
