"""ASQP and TASD F1 of a finished run, from the definitions, without the project's scorer.

`python -m benchmarks.task_scores RUN DATA` reads `outputs.jsonl` of the run and the gold of the
data file (JSONL), and prints F1 next to what `absa evaluate` wrote into `metrics.json`. A tuple is
right if aspect term (or NULL), category, polarity and, for ASQP, opinion term are the gold's.
Upper and lower case, white space and punctuation do not matter.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Quad = tuple[str, str, str, str]


def plain(words: str | None) -> str:
    """Letters and digits in lower case; NULL for nothing."""
    return "".join(c for c in (words or "NULL").lower() if c.isalnum())


def gold_quads(row: dict[str, Any]) -> list[Quad]:
    """The annotated quadruples of a line."""
    return [
        (plain(a["term"]), plain(a.get("category")), a["polarity"], plain(a.get("opinion")))
        for a in row["aspects"]
    ]


def predicted_quads(output: dict[str, Any]) -> list[Quad]:
    """The quadruples of an output; where a model names no opinion its evidence is one."""
    return [
        (
            plain(a["aspect_term"]),
            plain(a["category"]),
            a["polarity"],
            plain(a["opinion_term"] or a["evidence"]),
        )
        for a in output["final_result"]["final_aspects"]
    ]


def micro_f1(pairs: list[tuple[list[Quad], list[Quad]]], part: Callable[[Quad], Any]) -> float:
    """F1 over the distinct tuples of all texts."""
    right = predicted = gold = 0
    for said, true in pairs:
        one, other = set(map(part, said)), set(map(part, true))
        right, predicted, gold = right + len(one & other), predicted + len(one), gold + len(other)
    return 2 * right / (predicted + gold) if predicted + gold else 0.0


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def main(run: Path, data: Path) -> None:
    """Print both scores side by side."""
    gold = {row["uid"]: gold_quads(row) for row in lines(data)}
    outputs = {row["uid"]: predicted_quads(row) for row in lines(run / "outputs.jsonl")}
    pairs = [(said, gold[uid]) for uid, said in outputs.items()]
    recorded = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["quality"]["final"]
    for task, part in (("tasd", lambda q: q[:3]), ("asqp", lambda q: q)):
        own, scorer = micro_f1(pairs, part), recorded[task]["f1"]["rate"]
        print(f"{task}: {100 * own:.2f} here, {100 * scorer:.2f} in metrics.json")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
