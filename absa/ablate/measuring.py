"""Computes numbers per sample for the samples that every configuration analyzed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from absa.ablate.configurations import AblationError, Configuration
from absa.ablate.constant import Constant
from absa.metrics import GoldError
from absa.metrics.evaluation import records
from absa.metrics.normalise import Normaliser
from absa.metrics.quality import ScoredSample, score_sample, scores_itself
from absa.metrics.scorer import Level, Matching, Score, score
from absa.runs.directory import RunDirectory
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect
from absa.statistics import Floats

PRIMARY = "pair_strict_f1"
_TUPLES: dict[str, tuple[Level, Matching]] = {
    PRIMARY: ("pair", "strict"),
    "pair_overlap_f1": ("pair", "overlap"),
    "aspect_strict_f1": ("aspect", "strict"),
}
LABEL = "label_accuracy"
METRICS = (*_TUPLES, LABEL)
TITLES = {
    PRIMARY: "pair F1, strict",
    "pair_overlap_f1": "pair F1, overlap",
    "aspect_strict_f1": "term F1, strict",
    LABEL: "label accuracy",
}

Row = tuple[Floats, bool]
"""Numerator and denominator per metric, and whether the sample's tuples equal the gold."""


@dataclass
class Measured:
    """The samples that all configurations analyzed and that have gold."""

    names: list[str]
    uids: list[str]
    numbers: Floats
    """Samples x configurations x metrics x (numerator, denominator)."""
    exact: NDArray[np.bool_]
    """Samples x configurations."""
    counts: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def has(self, metric: str) -> bool:
        """Whether a metric has a denominator above 0."""
        return bool(self.numbers[:, :, METRICS.index(metric), 1].sum() > 0)


def row(final: Score | None, label: str, gold_label: str | None) -> Row:
    """The numbers of one sample."""
    numbers = np.zeros((len(METRICS), 2))
    if final is not None:
        for at, what in enumerate(_TUPLES.values()):
            counts = final.found[what]
            numbers[at] = 2 * counts.right, counts.predicted + counts.gold
    if gold_label is not None:
        numbers[-1] = label == gold_label, 1
    return numbers, final is not None and final.right("strict")


def scored(output: FinalOutput, gold: Mapping[str, Any] | None) -> ScoredSample | None:
    """Score a sample; None without gold aspects.

    Raises:
        GoldError: The gold does not score 1.0 against itself.
    """
    if gold is None or gold["incomplete"] or gold["aspects"] is None:
        return None
    aspects = gold_aspects(gold)
    if not scores_itself(output, aspects):
        raise GoldError([output.uid])
    return score_sample(output, aspects, gold["label"], None)


def gold_aspects(gold: Mapping[str, Any]) -> list[GoldAspect]:
    """The gold aspects of a scorecard."""
    return [GoldAspect.model_validate(a) for a in gold["aspects"]]


def measure(
    out: Path, configurations: Sequence[Configuration], constant: Constant | None
) -> Measured:
    """Read the runs of a study and keep the samples that can be compared.

    Raises:
        AblationError: Fewer than two samples can be compared.
        NoRun: A run's files do not match.
    """
    rows: dict[str, dict[str, Row]] = {}
    analysed: dict[str, int] = {}
    failed: dict[str, int] = {}
    without_gold: set[str] = set()
    for one in configurations:
        if one.settings is None:
            continue
        first = not rows
        rows_of_run: dict[str, Row] = {}
        for output, card in records(out / one.name):
            sample = scored(output, card["gold"])
            if sample is None:
                without_gold.add(output.uid)
                continue
            rows_of_run[output.uid] = row(sample.final, sample.final_label, sample.gold_label)
            if first and constant is not None:
                true = Normaliser(output.text, output.lang).gold(gold_aspects(card["gold"]))
                constant_score = score(constant.predict(output.text, output.lang), true)
                constant_row = row(constant_score, constant.label, sample.gold_label)
                rows.setdefault("constant", {})[output.uid] = constant_row
        rows[one.name] = rows_of_run
        analysed[one.name] = len(rows_of_run)
        failed[one.name] = int(RunDirectory(out / one.name).manifest["counts"]["failed"])
    names = [c.name for c in configurations]
    shared = [u for u in next(iter(rows.values())) if all(u in rows[n] for n in names)]
    if len(shared) < 2:
        raise AblationError(
            f"all configurations together analyzed {len(shared)} samples with gold: a comparison "
            "needs at least two"
        )
    counts = {
        "compared": len(shared),
        "without_gold": len(without_gold),
        "scored": analysed,
        "failed": failed,
        "left_out": len({u for rows_of_run in rows.values() for u in rows_of_run}) - len(shared),
    }
    return Measured(
        names=names,
        uids=shared,
        numbers=np.array([[rows[n][u][0] for n in names] for u in shared]),
        exact=np.array([[rows[n][u][1] for n in names] for u in shared]),
        counts=counts,
        notes=list(_notes(counts)),
    )


def _notes(counts: Mapping[str, Any]) -> list[str]:
    notes = []
    if counts["left_out"]:
        short = ", ".join(f"{name} {n}" for name, n in counts["failed"].items() if n)
        why = f" (failed: {short})" if short else ""
        notes.append(
            f"{counts['left_out']} samples were not analyzed by every configuration and are not "
            f"compared{why}"
        )
    if counts["without_gold"]:
        notes.append(f"{counts['without_gold']} samples have no gold to score by")
    return notes
