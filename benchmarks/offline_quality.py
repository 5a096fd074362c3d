"""How good and how fast the embedded analyzer is: `python -m benchmarks.offline_quality DATA`.

DATA holds the development files by name (`mams.jsonl`, …). Everything goes through `absa run` with
the default configuration, as a user would run it; nothing here knows the gold before it is scored.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absa.nodes.language import language
from absa.offline import OfflineAnalyst
from absa.runs import Progress, RunPlan
from absa.runs import run as run_batch
from absa.runs.loop import run_in_quick_loop
from absa.schemas.settings import Settings

PAIRS = {"aste_14res": 67, "aste_14lap": 43, "mams": 58, "mabsa_en": 60, "mabsa_ko": 60}
GIVEN = {"mams": 74, "mabsa_ko": 60}
BINS = 10
Json = dict[str, Any]


def absa(*args: str) -> str:
    command = [sys.executable, "-m", "absa", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines(path: Path) -> Iterator[Json]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def run(data: Path, out: Path, *options: str) -> float:
    """Samples per second, everything included."""
    start = time.perf_counter()
    absa("run", str(data), "--out", str(out), *options)
    return sum(1 for _ in lines(out / "outputs.jsonl")) / (time.perf_counter() - start)


def quality(out: Path) -> Json:
    found: Json = json.loads(absa("evaluate", str(out), "--json"))["quality"]
    return found


def judged(data: Path, out: Path) -> Iterator[tuple[float, bool]]:
    """How sure each final aspect with a place in the text was said, and whether it is right."""
    gold = {row["uid"]: row for row in lines(data)}
    for output in lines(out / "outputs.jsonl"):
        key = language(output["lang"]).key
        right = {
            (key(a["term"]), a["polarity"]) for a in gold[output["uid"]]["aspects"] if a["term"]
        }
        for aspect in output["final_result"]["final_aspects"]:
            if not aspect["is_implicit"]:
                is_right = (key(aspect["aspect_term"]), aspect["polarity"]) in right
                yield aspect["confidence"], is_right


def calibration_error(said: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error."""
    bins: list[list[float]] = [[] for _ in range(BINS)]
    for sure, is_right in said:
        bins[min(int(sure * BINS), BINS - 1)].append(sure - is_right)
    return round(sum(abs(sum(each)) for each in bins) / len(said), 3)


def label_accuracy(data: Path, out: Path) -> tuple[float, int]:
    """Rows with a given label by that label; others by any polarity of their aspects, or mixed."""
    said = {o["uid"]: o["final_result"]["label"] for o in lines(out / "outputs.jsonl")}
    right = total = 0
    for row in lines(data):
        allowed = {row["label"]} if row.get("label") else {a["polarity"] for a in row["aspects"]}
        if len(allowed) > 1:
            allowed.add("mixed")
        if not allowed or (row.get("label") and "neutral" in allowed):
            continue
        total += 1
        right += said[row["uid"]] in allowed
    return right / total, total


def stage1_rate(data: Path) -> float:
    """Sentences per second of the three independent agents, on one core."""
    analyst = OfflineAnalyst()
    rows = list(lines(data))[:500]
    for role in ("ate", "atsa", "validator"):
        analyst.answer(role, rows[0])  # loading is start-up
    start = time.process_time()
    for row in rows[1:]:
        for role in ("ate", "atsa", "validator"):
            analyst.answer(role, {"text": row["text"], "lang": row["lang"], "domain": None})
    return (len(rows) - 1) / (time.process_time() - start)


def debate_rate(data: Path) -> float:
    """Sentences per second of one core through the whole debate graph, in a run's steady state."""
    seen: list[float] = []

    def watch(progress: Progress) -> None:
        seen.append(time.process_time())

    with tempfile.TemporaryDirectory() as out:
        plan = RunPlan(
            data=data, out=Path(out) / "run", settings=Settings(), concurrency=8, limit=400
        )
        run_in_quick_loop(run_batch(plan, on_progress=watch))
    steady = seen[50:]  # loading is start-up
    return (len(steady) - 1) / (steady[-1] - steady[0])


def start_up(text: str) -> float:
    """Seconds of one `absa analyze`, the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        absa("analyze", text)
        times.append(time.perf_counter() - start)
    return min(times)


def qualities(folder: Path) -> Json:
    """Pair F1 with its calibration, polarities of given aspects, labels of whole texts."""
    results: Json = {"pair_f1": {}, "given_macro_f1": {}, "label_accuracy": {}}
    by_language: dict[str, list[tuple[float, bool]]] = {"en": [], "ko": []}
    with tempfile.TemporaryDirectory() as name:
        tmp = Path(name)
        for data, goal in PAIRS.items():
            rate = run(folder / f"{data}.jsonl", tmp / data)
            scored = quality(tmp / data)
            said = list(judged(folder / f"{data}.jsonl", tmp / data))
            by_language["ko" if data.endswith("ko") else "en"] += said
            results["pair_f1"][data] = {
                stage: round(100 * scored[stage]["pair"]["strict"]["f1"]["rate"], 1)
                for stage in ("stage1", "final")
            } | {
                "goal": goal,
                "ece": calibration_error(said),
                "samples_per_s_with_start_up": round(rate, 1),
            }
        results["ece"] = {
            **{lang: calibration_error(said) for lang, said in by_language.items()},
            "goal": 0.05,
        }
        for data, goal in GIVEN.items():
            run(folder / f"{data}.jsonl", tmp / f"{data} given", "--given-aspects")
            polarity = quality(tmp / f"{data} given")["final"]["polarity_of_matched"]["strict"]
            macro = round(100 * polarity["macro_f1"], 1)
            results["given_macro_f1"][data] = {"value": macro, "goal": goal}
        for data, goal in (("korsemeval", 72), ("nsmc_raw", 85)):
            run(folder / f"{data}.jsonl", tmp / data)
            share, rows = label_accuracy(folder / f"{data}.jsonl", tmp / data)
            results["label_accuracy"][data] = {
                "value": round(100 * share, 1),
                "rows": rows,
                "goal": goal,
            }
    return results


def speeds(folder: Path) -> Json:
    """Stage 1 alone, the whole graph, and the first answer of a new process."""
    files = {name: folder / f"{name}.jsonl" for name in PAIRS}
    return {
        "stage1_per_s": {name: round(stage1_rate(data)) for name, data in files.items()},
        "goal_stage1_per_s": 300,
        "debate_per_s": {name: round(debate_rate(data), 1) for name, data in files.items()},
        "goal_debate_per_s": 60,
        "analyze_en_s": round(start_up("The battery is great but the screen is dim."), 2),
        "analyze_ko_s": round(start_up("사용감은 좋지만 가격은 비싸요."), 2),
        "goal_analyze_s": 2,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the development files")
    parser.add_argument("--only-speed", action="store_true", help="a minute instead of five")
    args = parser.parse_args()
    results = {} if args.only_speed else qualities(args.data)
    results["speed"] = speeds(args.data)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
