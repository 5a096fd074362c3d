"""Reads a study of `absa ablate`: its verdict, and each sample under each configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from absa import statistics
from absa.ablate.measuring import METRICS, PRIMARY, gold_aspects, row
from absa.ablate.study import FILE
from absa.metrics.evaluation import records
from absa.metrics.quality import score_sample
from absa.report.figures import Interval
from absa.runs.directory import NoRun, RunDirectory
from absa.statistics import Floats

# A group of fewer samples is not shown.
SMALLEST_GROUP = 10
_RESAMPLES = 2_000
_AT = METRICS.index(PRIMARY)

Pairs = tuple[tuple[str | None, str], ...]


@dataclass
class Case:
    """A sample with its gold and the result of each configuration."""

    uid: str
    text: str
    lang: str
    gold: Pairs
    tuples: dict[str, Pairs] = field(default_factory=dict)
    is_right: dict[str, bool] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether the configurations have different tuples."""
        return len({frozenset(pairs) for pairs in self.tuples.values()}) > 1


@dataclass
class StudyNumbers:
    """A study. A configuration without a run (`constant`) is only in `document`."""

    path: Path
    # The content of ablation.json.
    document: Mapping[str, Any]
    names: list[str]
    cases: list[Case]
    # Samples x configurations x (numerator, denominator) of strict pair F1.
    numbers: Floats
    # The samples of each group of the breakdown.
    groups: dict[str, dict[str, list[int]]]

    @property
    def roles(self) -> dict[str, str | None]:
        """The names of the configurations that are the debate, the single call and the vote."""
        return dict(self.document["roles"])

    def configuration(self, name: str) -> Mapping[str, Any]:
        """A configuration of the study."""
        return next(c for c in self.document["configurations"] if c["name"] == name)

    def against(self, baseline: str) -> list[Interval]:
        """The difference of each configuration to a baseline, in points."""
        at = self.names.index(baseline)
        numbers = self.numbers[:, :, None]
        # With the draws of the study the intervals are those of its comparisons.
        drawn = {name: self.document["bootstrap"][name] for name in ("resamples", "seed")}
        _, over = statistics.bootstrap(numbers, at, **drawn)
        others = [n for n in range(len(self.names)) if n != at]
        p_values = statistics.holm(
            [
                statistics.randomisation(self.numbers[:, at], self.numbers[:, n], **drawn)
                for n in others
            ]
        )
        return [
            shown(
                self.names[n],
                {"value": -over.value[n, 0], "low": -over.high[n, 0], "high": -over.low[n, 0]},
                p,
            )
            for n, p in zip(others, p_values, strict=True)
        ]

    def group_scores(self, places: Sequence[int]) -> list[Interval]:
        """The score of each configuration over some samples, in points."""
        numbers = self.numbers[list(places)][:, :, None]
        scores, _ = statistics.bootstrap(numbers, 0, resamples=_RESAMPLES)
        return [
            shown(name, {"value": value[0], "low": low[0], "high": high[0]})
            for name, value, low, high in zip(
                self.names, scores.value, scores.low, scores.high, strict=True
            )
        ]


def shown(name: str, difference: Mapping[str, float], p: float = 1.0) -> Interval:
    """A row in points. Its tone is good or bad if the difference is significant."""
    value, low, high = (100 * float(difference[part]) for part in ("value", "low", "high"))
    tone = ""
    if p <= statistics.ALPHA:
        tone = "good" if low > 0 else "bad" if high < 0 else ""
    return Interval(name, value, low, high, tone)


def is_study(path: Path) -> bool:
    """Whether `absa ablate` wrote this directory."""
    return (path / FILE).is_file()


def configurations_with_runs(path: Path, document: Mapping[str, Any]) -> list[str]:
    """The configurations of a study that have a run directory of their name.

    Raises:
        NoRun: The file of the study is damaged.
    """
    try:
        return [c["name"] for c in document["configurations"] if c["settings"] is not None]
    except (KeyError, TypeError) as error:
        raise NoRun(f"{path / FILE} is not what absa ablate writes ({error!r})") from error


def read_study(path: Path) -> StudyNumbers:
    """Read a study and the runs that it compares.

    Raises:
        NoRun: There is none, or one of its runs is missing or damaged.
    """
    document = RunDirectory(path).document(FILE)
    if not document or "verdict" not in document:
        raise NoRun(f"{path / FILE} compares nothing: a sweep has no verdict to show")
    names = configurations_with_runs(path, document)
    cases: dict[str, Case] = {}
    rows: dict[str, dict[str, Floats]] = {name: {} for name in names}
    groups: dict[str, dict[str, list[str]]] = {}
    for name in names:
        for output, card in records(path / name):
            gold = card["gold"]
            if gold is None or gold["incomplete"] or gold["aspects"] is None:
                continue
            aspects = gold_aspects(gold)
            sample = score_sample(output, aspects, gold["label"], card["domain"])
            uid = output.uid
            if uid not in cases:
                cases[uid] = Case(
                    uid, output.text, output.lang, tuple((a.term, a.polarity) for a in aspects)
                )
                for kind, group in sample.groups:
                    groups.setdefault(kind, {}).setdefault(group, []).append(uid)
            case = cases[uid]
            numbers, is_right = row(sample.final, sample.final_label, sample.gold_label)
            rows[name][uid] = numbers[_AT]
            tuples = output.final_result.final_tuples
            case.tuples[name] = tuple((t.aspect_term, t.polarity) for t in tuples)
            case.is_right[name] = is_right
    uids = [uid for uid in cases if all(uid in mine for mine in rows.values())]
    if len(uids) < 2:
        raise NoRun(f"{path}: fewer than two samples were analyzed by every configuration")
    place = {uid: n for n, uid in enumerate(uids)}
    return StudyNumbers(
        path=path,
        document=document,
        names=names,
        cases=[cases[uid] for uid in uids],
        numbers=np.array([[rows[name][uid] for name in names] for uid in uids]),
        groups={
            kind: {
                name: [place[u] for u in members if u in place] for name, members in all_.items()
            }
            for kind, all_ in groups.items()
        },
    )
