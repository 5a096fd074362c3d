"""How often memory was right to warn of an override: `python -m benchmarks.memory_warnings`.

    python -m benchmarks.memory_warnings train/mabsa_ko.jsonl --limit 2000

The texts of a training split go through the graph in a random order. Each case is remembered with
the outcome that gold gives it, and later cases recall it. Nothing is shown to an agent or to the
gate (`memory.condition: silent`), so that each override takes place and gold says what became of
the text. A warning was right where the override broke the text's tuples, and wrong where it fixed
them. The first half of the texts only fills the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from absa.config import load_settings
from absa.data import read_samples
from absa.metrics.quality import score_sample
from absa.nodes.memory import TRAIN, warns
from absa.runs import RunPlan, run
from absa.runs.directory import OUTPUTS
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import Settings

OUTCOMES = ("fix", "break", "neither")
# More overrides than by default take place under this profile, so there is more to learn from.
PROFILE = "t2"


def shuffled(data: list[Path], limit: int | None, seed: int) -> list[Sample]:
    samples = [s for file in data for s in read_samples(file) if isinstance(s, Sample)]
    samples = [s for s in samples if s.split == TRAIN and s.aspects and not s.incomplete_gold]
    random.Random(seed).shuffle(samples)
    return samples[:limit]


def decided(samples: list[Sample], settings: Settings, folder: Path) -> dict[str, FinalOutput]:
    data, out = folder / "train.jsonl", folder / "run"
    fields = {"uid", "text", "lang", "domain", "split", "aspects", "label"}
    lines = [s.model_dump_json(by_alias=True, exclude_none=True, include=fields) for s in samples]
    data.write_text("\n".join(lines) + "\n", "utf-8")
    report = asyncio.run(run(RunPlan(data=data, out=out, settings=settings, concurrency=1)))
    assert report.totals.done == len(samples)
    written = (out / OUTPUTS).read_text("utf-8").splitlines()
    return {o.uid: o for o in map(FinalOutput.model_validate_json, written)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="+", help="labelled texts of training splits")
    parser.add_argument("--limit", type=int, help="number of texts, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    samples = shuffled(args.data, args.limit, args.seed)
    counts = {"warned": Counter[str](), "not warned": Counter[str]()}
    recalled = 0
    with tempfile.TemporaryDirectory() as folder:
        memory = {"condition": "silent", "store": "sqlite", "path": str(Path(folder) / "memory")}
        changes = {f"pipeline.memory.{name}": value for name, value in memory.items()}
        changes["pipeline.override_profile"] = PROFILE
        changes |= dict(item.split("=", 1) for item in args.set)
        outputs = decided(samples, load_settings(None, changes), Path(folder))
        for sample in samples[len(samples) // 2 :]:
            output = outputs[sample.uid]
            assert output.meta.memory is not None, "memory is on"
            # What the gate would have heard with the condition `on`.
            recall = output.meta.memory.recall.model_copy(update={"condition": "on"})
            recalled += warns(recall)
            if output.meta.gate_decision == "APPLY" and output.meta.adopt_decision == "adopted":
                change = score_sample(output, sample.aspects, sample.label, None).change("strict")
                became = change if change in OUTCOMES else "neither"
                counts["warned" if warns(recall) else "not warned"][became] += 1
    warned, others = counts["warned"], counts["not warned"]
    decisive = warned["fix"] + warned["break"]
    result: dict[str, Any] = {
        "texts": len(samples) - len(samples) // 2,
        "texts_with_a_warning": recalled,
        "adopted_overrides": warned.total() + others.total(),
        **{
            name.replace(" ", "_"): {
                **{key: count[key] for key in OUTCOMES},
                "break_rate": round(count["break"] / count.total(), 4) if count.total() else None,
            }
            for name, count in counts.items()
        },
        "warning_was_right": round(warned["break"] / decisive, 4) if decisive else None,
        "net_gain_of_obeying": warned["break"] - warned["fix"],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
