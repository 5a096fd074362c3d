"""Recomputes the scores in `metrics.json` and `structural_metrics.csv`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from absa.metrics.evaluation import TABLE, GoldError, evaluate, table
from absa.runs.directory import METRICS, NoRun
from absa.runs.verify.words import differing, shown, some_of
from absa.schemas.json_text import parse_json

_AGAIN = "run absa evaluate to write it again"
IsUnpriced = Callable[[str, Any], bool]


def check_metrics(directory: Path, *, cost_known: bool) -> tuple[int, list[str], list[str]]:
    """The number of files with scores, the differences, and notes.

    A run that was not evaluated has no such file. `cost_known`: the run knew the prices of its
    models.
    """
    files = [name for name in (METRICS, TABLE) if (directory / name).is_file()]
    if not files:
        return 0, [], []
    try:
        made = parse_json(json.dumps(evaluate(directory)))
    except (NoRun, GoldError) as error:
        return len(files), [f"the scores cannot be computed again: {error}"], []
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        what = f"the scores cannot be computed again from damaged files ({error!r})"
        return len(files), [what], []
    notes: dict[str, None] = {}

    def is_unpriced(path: str, value: Any) -> bool:
        """Whether a value is a cost that cannot be computed now, because a price is missing."""
        unpriced = path.endswith("cost_usd") and value is None and cost_known
        if unpriced:
            note = f"prices of models are not known here: costs in {METRICS} were not compared"
            notes[note] = None
        return unpriced

    compare = {METRICS: _compare_json, TABLE: _compare_table}
    problems = [
        what for name in files for what in compare[name](directory / name, made, is_unpriced)
    ]
    return len(files), problems, list(notes)


def _compare_json(path: Path, made: dict[str, Any], is_unpriced: IsUnpriced) -> Iterator[str]:
    try:
        recorded = parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        yield f"{METRICS}: not valid JSON ({error}); {_AGAIN}"
        return
    whats = [
        f"{path} is {shown(one)}, outputs and gold give {shown(other)}"
        for path, one, other in differing(recorded, made)
        if not is_unpriced(path, other)
    ]
    if whats:
        yield f"{METRICS}: {some_of(whats, '; ')}; {_AGAIN}"


def _compare_table(path: Path, made: dict[str, Any], is_unpriced: IsUnpriced) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    recorded = [row for row in csv.reader(text.split("\n")) if row]
    expected = list(csv.reader(table(made)))
    if len(recorded) != len(expected):
        yield f"{TABLE} has {len(recorded)} lines, not {len(expected)}; {_AGAIN}"
        return
    whats = [
        f"line {number}: {','.join(one)}, outputs and gold give {','.join(other)}"
        for number, (one, other) in enumerate(zip(recorded, expected, strict=True), 1)
        if one != other and not is_unpriced(other[0], other[-1] or None)
    ]
    if whats:
        yield f"{TABLE}: {some_of(whats, '; ')}; {_AGAIN}"
