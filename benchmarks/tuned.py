"""Which settings of the decision layer are best on training data: `python -m benchmarks.tuned`.

    python -m benchmarks.tuned --train train/*.jsonl --dev dev/*.jsonl --write configs/tuned.yaml

The offline debate answers texts that are drawn at random from each training file, or the run
directories given with `--train` have recorded answers of a model. All settings are then decided on
these answers without another call (`absa.ablate.sweep`):

1. gate and adoption: a setting whose gain of pair F1 has an interval above 0. If there are several,
   the smallest change that may be as good as the best one;
2. with this setting, the Moderator's rules, in the same way by label accuracy.

What was chosen is written as a config, and compared with the defaults on the development files,
which had no say in it. Every difference has its 95 % interval (paired bootstrap).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import tempfile
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from absa.ablate.measuring import LABEL, PRIMARY
from absa.ablate.sweep import Changes, Point, sweep, variants
from absa.config import load_settings
from absa.runs import RunPlan, run
from absa.schemas.settings import RULE_NAMES

RULES = "pipeline.moderator.rules"
GATE = "pipeline.debate_override"
TUNED = "tuned"
Found = Mapping[str, Any]


def without(*rules: str) -> Point:
    """The Moderator without some rules."""
    names = " and ".join(f"Rule{rule}" for rule in rules)
    return Point(f"{names} off", {RULES: [r for r in RULE_NAMES if r not in rules]})


def decision_points() -> list[Point]:
    """Settings of the gate and of adoption."""
    shipped = [p for p in variants() if RULES not in p.changes and p.name != "Moderator off"]
    eager = {"pipeline.override_profile": "t2"}
    more = [
        *(Point(f"ev_threshold={v}", {f"{GATE}.ev_threshold": v}) for v in (0.25, 0.4, 0.6, 0.75)),
        *(Point(f"min_total={v}", {f"{GATE}.min_total": v}) for v in (0.5, 0.8, 1.0, 1.3)),
        *(Point(f"min_target_conf={v}", {f"{GATE}.min_target_conf": v}) for v in (0.5, 0.9)),
        Point("min_margin=0.3", {f"{GATE}.min_margin": 0.3}),
        Point("min_total=1.0, allow_drop", {f"{GATE}.min_total": 1.0, f"{GATE}.allow_drop": True}),
        Point("t2, allow_drop", {**eager, f"{GATE}.allow_drop": True}),
        Point(
            "t2, allow_drop, 3 overrides",
            {**eager, f"{GATE}.allow_drop": True, f"{GATE}.max_overrides_per_sample": 3},
        ),
        Point("t2, adopt every candidate", {**eager, f"{GATE}.ev_threshold": 0.0}),
    ]
    return [*shipped, *more]


def moderator_points() -> list[Point]:
    """The rules alone, each left out, in pairs left out, and none."""
    return [
        *(without(rule) for rule in RULE_NAMES),
        *(without(*pair) for pair in combinations(RULE_NAMES, 2)),
        *(Point(f"Rule{rule} alone", {RULES: [rule]}) for rule in RULE_NAMES),
        Point("Moderator off", {"pipeline.enable_moderator": False}),
    ]


def drawn(files: Iterable[Path], most: int | None, seed: int, folder: Path, name: str) -> Path:
    """At most `most` texts of each file, as one file."""
    chosen: list[str] = []
    for file in files:
        opened = gzip.open(file, "rt") if file.suffix == ".gz" else file.open(encoding="utf-8")
        with opened as lines:
            # Texts with incomplete gold are not scored.
            rows = [line for line in lines if not json.loads(line).get("dropped_aspects")]
        chosen += random.Random(seed).sample(rows, min(most or len(rows), len(rows)))
    data = folder / f"{name}.jsonl"
    data.write_text("".join(line.rstrip("\n") + "\n" for line in chosen), encoding="utf-8")
    return data


def recorded(data: Path, folder: Path) -> Path:
    """The debate of the defaults about these texts; a run directory is taken as it is."""
    if data.is_dir():
        return data
    out = folder / f"run-{data.stem}"
    asyncio.run(run(RunPlan(data=data, out=out, settings=load_settings())))
    return out


def swept(directory: Path, base: Changes, points: Iterable[Point]) -> list[Found]:
    """The points on top of what was chosen before; the first is the base itself."""
    every = [Point("base", base), *(Point(p.name, {**base, **p.changes}) for p in points)]
    return list(sweep(directory, every)["points"])


def best(points: list[Found], difference: str, base: Found) -> Found | None:
    """Of the points that are surely better than the base, one that may be as good as the best.

    It is the first such point: the points begin with the smallest changes.
    """
    gains = [p for p in points if p[difference]["low"] > max(0.0, base[difference]["value"])]
    top = max((p[difference]["value"] for p in gains), default=0.0)
    return next((p for p in gains if p[difference]["high"] >= top), None)


def shown(point: Found) -> dict[str, Any]:
    """A point's scores and differences in points of a hundred."""

    def percent(interval: Mapping[str, float]) -> str:
        value, low, high = (100 * interval[k] for k in ("value", "low", "high"))
        return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"

    return {
        # No aspect of the gold has a name.
        "pair_f1": round(100 * point["scores"][PRIMARY], 1) or "–",
        "pair_f1_difference": percent(point["difference"]),
        "label": round(100 * point["scores"][LABEL], 1),
        "label_difference": percent(point["label_difference"]),
        "overrides": point["overrides_applied"],
        "adopted": point["adopted"],
    }


def table(points: Mapping[str, Found]) -> str:
    """As Markdown."""
    head = ("setting", "pair F1", "difference", "label", "difference", "overrides", "adopted")
    rows = [head, ["---"] * len(head)]
    rows += [(name, *map(str, shown(point).values())) for name, point in points.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def written(changes: Changes) -> str:
    """The changes as a config, nested as YAML wants them."""
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return yaml.safe_dump(tree, sort_keys=False, default_flow_style=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=Path, nargs="+", required=True, help="files or runs")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], help="files or runs")
    parser.add_argument("--texts", type=int, default=600, help="at most this number of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="write the chosen settings to this config")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [path for path in args.train if path.is_dir()]
        files = [path for path in args.train if not path.is_dir()]
        if len(runs) > 1 or (runs and files):
            parser.error("--train takes data files or one run directory")
        train = runs[0] if runs else drawn(files, args.texts, args.seed, folder, "train")
        answers = recorded(train, folder)
        chosen: dict[str, Any] = {}
        for title, points, difference in (
            ("Gate and adoption", decision_points(), "difference"),
            ("Moderator", moderator_points(), "label_difference"),
        ):
            as_recorded, base, *found = swept(answers, chosen, points)
            print(f"## {title}, on training data\n")
            print(table({"default": as_recorded, **{p["name"]: p for p in found}}), "\n")
            winner = best(found, difference, base)
            print(f"Chosen: {winner['name'] if winner else 'the default'}\n", flush=True)
            chosen = dict(winner["changes"]) if winner else chosen
        print("## Held out\n")
        for path in args.dev:
            data = path if path.is_dir() else drawn([path], None, 0, folder, path.stem)
            default, tuned = sweep(recorded(data, folder), [Point(TUNED, chosen)])["points"]
            print(f"{path.stem}\n\n{table({'default': default, TUNED: tuned})}\n", flush=True)
    print(written(chosen))
    if args.write:
        args.write.write_text(written(chosen), encoding="utf-8")


if __name__ == "__main__":
    main()
