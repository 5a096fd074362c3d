"""Reads a run directory for a report. Any file of it can be missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from absa.runs.directory import (
    ERRORS,
    GATE_SUMMARY,
    METRICS,
    OUTPUTS,
    SCORECARDS,
    RunDirectory,
    first_problem,
)
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings, Settings


class Entry(NamedTuple):
    """An analyzed sample: the output, its line of the file, and its scorecard."""

    output: FinalOutput
    raw: dict[str, Any]
    card: dict[str, Any]

    @property
    def seed(self) -> int:
        """The seed of the sample."""
        seed = self.card.get("seed")
        return seed if isinstance(seed, int) else 0


@dataclass
class ReportedRun:
    """A run directory. `entries()` reads the samples one after the other."""

    path: Path
    name: str
    manifest: dict[str, Any]
    settings: Settings | None
    errors: list[dict[str, Any]]
    gate_summary: dict[str, Any]
    metrics: dict[str, Any] | None
    problems: list[str] = field(default_factory=list)
    # Samples that the run counts and the report cannot show; set after all entries are read.
    left_out: int = 0

    @property
    def override(self) -> OverrideSettings:
        """The gate's thresholds."""
        return self.settings.pipeline.debate_override if self.settings else OverrideSettings()

    def entries(self) -> Iterator[Entry]:
        """The analyzed samples in the order of the file. Each unreadable one adds a problem."""
        run = RunDirectory(self.path, self.problems)
        cards = list(run.lines(SCORECARDS))
        by_uid = {str(card.get("uid")): card for card in cards}
        shown = damaged = without_card = 0
        for number, raw in enumerate(run.lines(OUTPUTS)):
            try:
                output = FinalOutput.model_validate(raw)
            except ValidationError as error:
                what = f"sample {raw.get('uid')!r} left out: {first_problem(error)}"
                self.problems.append(f"{OUTPUTS}: {what}")
                damaged += 1
                continue
            # Both files have the same order. The uid alone would not distinguish seeds.
            card = cards[number] if number < len(cards) else {}
            if card.get("uid") != output.uid:
                card = by_uid.get(output.uid, {})
            without_card += not card
            shown += 1
            yield Entry(output, raw, card)
        self._compare_counts(shown, damaged, without_card)

    def _compare_counts(self, shown: int, damaged: int, without_card: int) -> None:
        """Put what the manifest counts and the files lack before the other problems."""
        counts = self.manifest.get("counts")
        counts = counts if isinstance(counts, dict) else {}
        done = max(_whole(counts.get("done")), shown + damaged)
        listed = _whole(counts.get("failed")) + _whole(counts.get("bad_lines"))
        self.left_out = done - shown
        summary = {
            f"{self.left_out:,} of {done:,} analyzed samples are missing or damaged in {OUTPUTS}: "
            f"all numbers are about the other {shown:,}": self.left_out,
            f"{without_card:,} samples have no scorecard: their gold is not known": without_card,
            f"{ERRORS} has {len(self.errors):,} of {listed:,} errors": listed - len(self.errors),
        }
        self.problems[:0] = [problem for problem, number in summary.items() if number > 0]


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def read_run(path: Path, name: str | None = None) -> ReportedRun:
    """Open a run directory.

    Raises:
        NoRun: It is not a run directory.
    """
    if not (path / OUTPUTS).is_file():
        # Other files of a run can be missing; without outputs there is nothing to report.
        RunDirectory(path).require(OUTPUTS)
    problems: list[str] = []
    run = RunDirectory(path, problems)
    return ReportedRun(
        path=path,
        name=name or path.resolve().name,
        manifest=run.manifest,
        settings=run.settings,
        errors=list(run.lines(ERRORS)) if run.has(ERRORS) else [],
        gate_summary=run.document(GATE_SUMMARY) or {},
        metrics=run.document(METRICS) if run.has(METRICS) else None,
        problems=problems,
    )


def read_runs(paths: Sequence[Path]) -> list[ReportedRun]:
    """Open several run directories under different names."""
    return [read_run(path, name) for path, name in zip(paths, short_names(paths), strict=True)]


def short_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as are needed for different names."""
    parts = [path.resolve().parts for path in paths]
    for size in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-size:]).lstrip("/") for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, start=1)]
