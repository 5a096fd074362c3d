"""TASD F1 offline and where its points are lost: `python -m benchmarks.categories DATA`.

DATA is the folder with the development files `mabsa_en.jsonl` and `mabsa_ko.jsonl`. Each is
analyzed by `absa run` with its own categories. The table has one line for each domain:

- `tasd`: F1 of (target or NULL, category, polarity), as `absa evaluate` counts it;
- `named`, `null`: the same for tuples with a target alone, and for those without one;
- `gold categories`: `tasd` if each named aspect whose target and polarity are right had an
  annotated category;
- `category`: how many of these named aspects have an annotated category;
- `pair`: F1 of (target, polarity) of named aspects;
- `null recall`: how many tuples without a target are found.

The last column, `majority`, gives each named aspect the most frequent category of its domain.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from absa.nodes.categories import spelling
from absa.nodes.language import language
from absa.schemas.json_text import parse_json

NAMES = ("mabsa_en", "mabsa_ko")
COLUMNS = (
    "tasd",
    "named",
    "null",
    "gold categories",
    "category",
    "pair",
    "null recall",
    "majority",
)
#: Target (empty for NULL), category, polarity.
Tuple = tuple[str, str, str]
Pair = tuple[set[Tuple], set[Tuple]]


def lines(path: Path) -> Iterator[Any]:
    """The records of a JSONL file."""
    yield from map(parse_json, path.read_text(encoding="utf-8").splitlines())


def tuples(aspects: Sequence[Any], term: str, key: Callable[[str], str]) -> set[Tuple]:
    """The distinct tuples of a text; `term` is the field with the target."""
    return {
        (key(a[term]) if a[term] else "", spelling(a["category"] or ""), a["polarity"])
        for a in aspects
    }


def f1(pairs: Sequence[Pair]) -> float:
    """F1 in percent over all texts."""
    right = sum(len(predicted & gold) for predicted, gold in pairs)
    every = sum(len(predicted) + len(gold) for predicted, gold in pairs)
    return 200 * right / every if every else 0.0


def only(pairs: Sequence[Pair], keep: Callable[[Tuple], bool]) -> list[Pair]:
    """The tuples of both sides that are kept."""
    return [(set(filter(keep, one)), set(filter(keep, other))) for one, other in pairs]


def is_named(one: Tuple) -> bool:
    """Whether a tuple has a target."""
    return bool(one[0])


def with_category(pairs: Sequence[Pair], choose: Callable[[Tuple, set[str]], str]) -> list[Pair]:
    """Named predictions with another category, chosen from the tuple and its annotated ones."""
    changed = []
    for predicted, gold in pairs:
        made = set()
        for one in predicted:
            right = {g[1] for g in gold if (g[0], g[2]) == (one[0], one[2])}
            made.add((one[0], choose(one, right), one[2]) if is_named(one) else one)
        changed.append((made, gold))
    return changed


def row(pairs: Sequence[Pair], majority: str) -> dict[str, float]:
    """The line of a domain."""
    named, null = only(pairs, is_named), only(pairs, lambda one: not is_named(one))
    judged = [
        one[1] in right
        for predicted, gold in named
        for one in predicted
        if (right := {g[1] for g in gold if (g[0], g[2]) == (one[0], one[2])})
    ]
    without = [({(t, "", p) for t, _, p in one}, {(t, "", p) for t, _, p in g}) for one, g in named]
    found, missed = (sum(len(part) for part in parts) for parts in _found_and_missed(null))
    values = (
        f1(pairs),
        f1(named),
        f1(null),
        f1(with_category(pairs, lambda one, right: min(right, default=one[1]))),
        100 * sum(judged) / max(1, len(judged)),
        f1(without),
        100 * found / max(1, found + missed),
        f1(with_category(pairs, lambda one, right: majority)),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _found_and_missed(pairs: Sequence[Pair]) -> tuple[list[set[Tuple]], list[set[Tuple]]]:
    return [p & g for p, g in pairs], [g - p for p, g in pairs]


def table(data: Path, run: Path) -> dict[str, dict[str, float]]:
    """The lines of a finished run."""
    gold = {sample["uid"]: sample for sample in lines(data)}
    by_domain: dict[str, list[Pair]] = {}
    counts: dict[str, Counter[str]] = {}
    for output in lines(run / "outputs.jsonl"):
        sample = gold[output["uid"]]
        key = language(output["lang"]).key
        predicted = tuples(output["final_result"]["final_aspects"], "aspect_term", key)
        pair = predicted, tuples(sample["aspects"], "term", key)
        for name in (sample["domain"], "all"):
            by_domain.setdefault(name, []).append(pair)
            counts.setdefault(name, Counter()).update(t[1] for t in pair[1] if is_named(t))
    return {
        name: row(pairs, counts[name].most_common(1)[0][0])
        for name, pairs in sorted(by_domain.items())
    }


def main() -> None:
    """Analyze both files and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the development files")
    parser.add_argument("--runs", type=Path, help="folder with finished runs of these names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            data, run = options.data / f"{name}.jsonl", (options.runs or Path(folder)) / name
            if options.runs is None:
                command = [sys.executable, "-m", "absa", "run", str(data), "--out", str(run)]
                command += ["--set", "pipeline.categories=from_data"]
                subprocess.run(command, check=True, capture_output=True)
            print(f"{name:12}" + "".join(f"{column:>17}" for column in COLUMNS))
            for domain, values in table(data, run).items():
                print(f"{domain:12}" + "".join(f"{values[c]:17.1f}" for c in COLUMNS))


if __name__ == "__main__":
    main()
