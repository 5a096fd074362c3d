"""Recomputes the scores in `metrics.json` and `structural_metrics.csv`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absa.metrics.evaluation import TABLE, GoldError, evaluate, table
from absa.runs.directory import METRICS, NoRun
from absa.runs.verify.words import differing, shown, some_of
from absa.schemas.json_text import parse_json

_AGAIN = "run absa evaluate to write it again"


class MetricsCheck:
    """Evaluates the run again and compares."""

    def __init__(self, directory: Path, *, cost_known: bool) -> None:
        """Look for the files. A run that was not evaluated has none.

        `cost_known` says whether the run knew the prices of its models.
        """
        self._directory = directory
        self._cost_known = cost_known
        self._files = [name for name in (METRICS, TABLE) if (directory / name).is_file()]
        self.checked = len(self._files)
        self.notes: list[str] = []

    def problems(self) -> Iterator[str]:
        """Everything that differs."""
        if not self._files:
            return
        try:
            made = parse_json(json.dumps(evaluate(self._directory)))
        except (NoRun, GoldError) as error:
            yield f"the scores cannot be computed again: {error}"
            return
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            yield f"the scores cannot be computed again from damaged files ({error!r})"
            return
        if METRICS in self._files:
            yield from self._compare_json(made)
        if TABLE in self._files:
            yield from self._compare_table(made)

    def _compare_json(self, made: dict[str, Any]) -> Iterator[str]:
        try:
            text = (self._directory / METRICS).read_text(encoding="utf-8")
            recorded = parse_json(text)
        except (ValueError, RecursionError) as error:
            yield f"{METRICS}: not valid JSON ({error}); {_AGAIN}"
            return
        whats = [
            f"{path} is {shown(one)}, outputs and gold give {shown(other)}"
            for path, one, other in differing(recorded, made)
            if not self._is_unpriced(path, other)
        ]
        if whats:
            yield f"{METRICS}: {some_of(whats, '; ')}; {_AGAIN}"

    def _compare_table(self, made: dict[str, Any]) -> Iterator[str]:
        text = (self._directory / TABLE).read_text(encoding="utf-8", errors="replace")
        recorded, expected = list(csv.reader(text.split("\n"))), list(csv.reader(table(made)))
        recorded = [row for row in recorded if row]
        if len(recorded) != len(expected):
            yield f"{TABLE} has {len(recorded)} lines, not {len(expected)}; {_AGAIN}"
            return
        whats = [
            f"line {number}: {','.join(one)}, outputs and gold give {','.join(other)}"
            for number, (one, other) in enumerate(zip(recorded, expected, strict=True), 1)
            if one != other and not self._is_unpriced(other[0], other[-1] or None)
        ]
        if whats:
            yield f"{TABLE}: {some_of(whats, '; ')}; {_AGAIN}"

    def _is_unpriced(self, path: str, made: Any) -> bool:
        """Whether a value is a cost that cannot be computed now, because a price is missing."""
        unpriced = path.endswith("cost_usd") and made is None and self._cost_known
        note = f"prices of models are not known here: costs in {METRICS} were not compared"
        if unpriced and note not in self.notes:
            self.notes.append(note)
        return unpriced
