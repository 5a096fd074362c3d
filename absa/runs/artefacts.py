"""Writes the files of a run directory from its journal: in data order, each atomically."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

from absa.files import replacing
from absa.nodes.thresholds import reaches
from absa.runs.directory import ERRORS, GATE, GATE_SUMMARY, OUTPUTS, SCORECARDS, TRACES
from absa.runs.journal import Journal, Part
from absa.schemas.json_text import parse_json
from absa.schemas.verdicts import CONFIRMS, OVERRIDES

_PARTS: dict[str, Part] = {
    OUTPUTS: "output",
    TRACES: "traces",
    SCORECARDS: "scorecard",
    GATE: "gate",
}
ARTEFACTS = (*_PARTS, ERRORS, GATE_SUMMARY)
# A total or margin this close to its threshold counts as close.
_NEAR = 0.2


def export(journal: Journal, out: Path) -> None:
    """Write all artefacts again."""
    for name, part in _PARTS.items():
        write_lines(out / name, journal.lines(part))
    write_lines(out / ERRORS, journal.errors())
    write_json(out / GATE_SUMMARY, gate_summary(parse_json(x) for x in journal.lines("gate")))
    _sync_directory(out)


def _sync_directory(path: Path) -> None:
    """Sync the directory, so that renamed files survive a power failure."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file atomically: a reader sees the old content or the new one, never a part.

    Raises:
        StorageError: The file cannot be written.
    """
    with replacing(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    write_lines(path, [json.dumps(value, ensure_ascii=False, indent=2)])


def gate_summary(records: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Counts and rates per verdict, distributions of total and margin, and the close cases."""
    verdicts: Counter[str] = Counter()
    totals: list[float] = []
    margins: list[float] = []
    near = 0
    for record in records:
        verdicts[record["verdict"]] += 1
        totals.append(record["total"])
        margins.append(record["margin"])
        near += any(
            not reaches(abs(record[name] - record["thresholds"][f"min_{name}"]), _NEAR)
            for name in ("total", "margin")
        )
    judged = len(totals)
    return {
        "judged_aspects": judged,
        "applied": sum(verdicts[v] for v in OVERRIDES),
        "confirmed": sum(verdicts[v] for v in CONFIRMS),
        "verdicts": {
            name: {"count": count, "rate": count / judged}
            for name, count in sorted(verdicts.items())
        },
        "total": distribution(totals),
        "margin": distribution(margins),
        "near_threshold": {
            "within": _NEAR,
            "numerator": near,
            "denominator": judged,
            "rate": near / judged if judged else None,
        },
    }


def distribution(values: list[float]) -> dict[str, float] | None:
    """Minimum, quartiles and maximum; None without values."""
    if not values:
        return None
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"min": min(values), "q1": low, "median": middle, "q3": high, "max": max(values)}
