"""`evaluate`: computes the metrics of a finished run."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationError

from absa.metrics.alarms import alarms
from absa.metrics.cost import CostTally
from absa.metrics.gates import GateTally
from absa.metrics.process import ProcessTally
from absa.metrics.quality import BOOTSTRAP_SEED, RESAMPLES, Quality, score_sample, scores_itself
from absa.metrics.scorer import SCORER_VERSION
from absa.offline.text.other_languages import unread_note
from absa.runs.artefacts import write_json, write_lines
from absa.runs.directory import METRICS, SCORECARDS, NoRun, RunDirectory
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect
from absa.schemas.settings import PipelineSettings
from absa.scorecard import VERSION

TABLE = "structural_metrics.csv"
_SHOWN = 5


class GoldError(RuntimeError):
    """The gold, used as a prediction, does not score 1.0, so no score would be reliable."""

    def __init__(self, uids: list[str]) -> None:
        self.uids = uids
        more = f" and {len(uids) - _SHOWN} more" if len(uids) > _SHOWN else ""
        super().__init__(
            f"the gold of {len(uids)} samples does not score 1.0 against itself, so nothing was "
            f"scored: {', '.join(uids[:_SHOWN])}{more}"
        )


@dataclass
class Part:
    """The sums over the samples of one seed, or over all samples."""

    pipeline: PipelineSettings
    quality: Quality = field(default_factory=Quality)
    process: ProcessTally = field(default_factory=ProcessTally)
    cost: CostTally = field(default_factory=CostTally)
    gold: Counter[str] = field(default_factory=Counter)
    # The lowest version of the scorecards.
    version: int = VERSION

    def __post_init__(self) -> None:
        self.gates = GateTally(self.pipeline)

    def summary(self) -> dict[str, Any]:
        """Everything as JSON."""
        quality, process = self.quality.summary(), self.process.summary()
        overall = {name: part for name, part in (quality or {}).items() if name != "breakdown"}
        return {
            "gold": {name: self.gold[name] for name in ("scored", "incomplete", "none")},
            "quality": quality,
            "process": process,
            "cost": self.cost.summary(),
            "gates": self.gates.summary(),
            "dead_gates": self.gates.dead(),
            "vacuous_metrics": [
                name
                for name, value in flat({"quality": overall, **process})
                if isinstance(value, Mapping) and value["rate"] is None
            ],
            "warnings": alarms(process),
            "notes": self._notes(),
        }

    def _notes(self) -> list[str]:
        notes = self.quality.notes()
        if self.version < VERSION:
            notes.append(
                f"the scorecards are of version {self.version}, which counts a raised confidence "
                "as an applied override: do not compare override counts with later runs"
            )
        if not self.gold["scored"]:
            notes.append("no sample has gold that can be scored: process metrics only")
        elif self.gold["none"]:
            notes.append(f"{self.gold['none']} samples have no gold and are not scored")
        if self.gold["incomplete"]:
            notes.append(
                f"{self.gold['incomplete']} samples have gold known to be incomplete "
                "and are not scored"
            )
        return notes


def evaluate(directory: Path | str) -> dict[str, Any]:
    """Compute the metrics of a run directory, sample by sample. Writes nothing.

    Raises:
        NoRun: It is not a run directory, or its files do not match.
        GoldError: The gold does not score 1.0 against itself.
    """
    directory = Path(directory)
    run = RunDirectory(directory).require()
    manifest, settings = run.manifest, run.settings
    assert settings is not None, "without a list of problems, damaged settings raise an error"
    pipeline = settings.pipeline
    everything = Part(pipeline)
    seeds: dict[int, Part] = {}
    unsound: dict[str, None] = {}
    several = len(manifest.get("seeds", ())) > 1
    for output, card in records(directory):
        part = seeds.setdefault(card["seed"], Part(pipeline))
        _add(output, card, [everything, part] if several else [everything], unsound)
    if unsound:
        raise GoldError(list(unsound))
    counts = manifest.get("counts", {})
    metrics: dict[str, Any] = {
        "scorer_version": SCORER_VERSION,
        "metrics_version": everything.version,
        "run": {
            "run_id": manifest.get("run_id"),
            "status": manifest.get("status"),
            "protocol": pipeline.protocol,
            "counts": counts,
        },
        "bootstrap": {"resamples": RESAMPLES, "seed": BOOTSTRAP_SEED, "interval": 0.95},
        "seeds": sorted(seeds),
        **everything.summary(),
    }
    metrics["notes"] = [*_run_notes(manifest), *metrics["notes"]]
    if several:
        metrics["notes"].append(
            "several seeds: other numbers than those per seed and means cover all"
        )
        metrics["per_seed"] = {str(seed): seeds[seed].summary() for seed in sorted(seeds)}
        metrics["mean_over_seeds"] = means(metrics["per_seed"])
    return metrics


def write(directory: Path | str, metrics: Mapping[str, Any]) -> None:
    """Write `metrics.json` and `structural_metrics.csv` atomically into the run directory."""
    directory = Path(directory)
    write_json(directory / METRICS, dict(metrics))
    write_lines(directory / TABLE, table(metrics))


def _add(
    output: FinalOutput, card: Mapping[str, Any], parts: list[Part], unsound: dict[str, None]
) -> None:
    gold = card["gold"]
    aspects = _gold_aspects(gold, output.uid)
    state = "none" if gold is None else "incomplete" if gold["incomplete"] else "scored"
    sample = None
    if state == "scored":
        if aspects is not None and not scores_itself(output, aspects):
            unsound[output.uid] = None
        sample = score_sample(output, aspects, gold["label"], card["domain"])
    for part in parts:
        part.version = min(part.version, card.get("version", 1))
        part.gold[state] += 1
        part.process.add(card)
        part.gates.add(card)
        part.cost.add(output.process_trace)
        if sample is not None:
            part.quality.add(sample)


def _gold_aspects(gold: Mapping[str, Any] | None, uid: str) -> tuple[GoldAspect, ...] | None:
    if gold is None or gold["aspects"] is None:
        return None
    try:
        return tuple(GoldAspect.model_validate(a) for a in gold["aspects"])
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise NoRun(f"{SCORECARDS}: the gold of {uid} cannot be read: {what}") from error


# The files of a run ------------------------------------------------------------------------------


def records(directory: Path) -> Iterator[tuple[FinalOutput, dict[str, Any]]]:
    """Yield each output with its scorecard."""
    run = RunDirectory(directory)
    for output, card in run.samples():
        yield run.output(output), card


def _run_notes(manifest: Mapping[str, Any]) -> Iterator[str]:
    counts = manifest.get("counts", {})
    if manifest.get("status") != "finished":
        yield f"the run is unfinished: {counts.get('done')} of {counts.get('samples')} samples"
    if counts.get("failed"):
        yield f"{counts['failed']} samples failed and are not scored"
    if counts.get("unread_languages"):
        yield unread_note(counts["unread_languages"])


# Flat views --------------------------------------------------------------------------------------


def flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """All rates and numbers of nested metrics by dotted name, without lists and texts."""
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if isinstance(inner, Mapping):
            if inner.keys() == {"numerator", "denominator", "rate"}:
                yield here, inner
            else:
                yield from flat(inner, here)
        elif isinstance(inner, int | float) and not isinstance(inner, bool):
            yield here, inner


def _measured(part: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics for a flat view; process metrics have no prefix."""
    return {"quality": part["quality"] or {}, **part["process"], "cost": part["cost"]}


def means(per_seed: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and standard deviation of every number over the `n` seeds that have it."""
    values: dict[str, list[float]] = {}
    for part in per_seed.values():
        for name, measured in flat(_measured(part)):
            number = measured["rate"] if isinstance(measured, Mapping) else measured
            if number is not None:
                values.setdefault(name, []).append(float(number))
    return {
        name: {"mean": fmean(v), "sd": stdev(v) if len(v) > 1 else None, "n": len(v)}
        for name, v in values.items()
    }


def table(metrics: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the CSV: one per metric and seed, and their means."""
    yield _csv_line("metric", "seed", "numerator", "denominator", "value")
    seeds = metrics["seeds"]
    parts = metrics.get("per_seed") or {str(seeds[0] if seeds else ""): metrics}
    for seed, part in parts.items():
        for name, measured in flat(_measured(part)):
            if isinstance(measured, Mapping):
                value = measured["rate"]
                yield _csv_line(name, seed, measured["numerator"], measured["denominator"], value)
            else:
                yield _csv_line(name, seed, "", "", measured)
    for name, mean in metrics.get("mean_over_seeds", {}).items():
        yield _csv_line(name, "mean", "", "", mean["mean"])


def _csv_line(*cells: Any) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
