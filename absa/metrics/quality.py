"""Quality against gold for Stage 1 and the final result, and fixes and breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from absa.metrics.normalise import AbsaTuple, Normaliser
from absa.metrics.scorer import (
    LEVELS,
    MATCHINGS,
    TASKS,
    Classes,
    Found,
    Matching,
    Score,
    pairs,
    score,
)
from absa.nodes.polarity import label_of
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect
from absa.scorecard import rate
from absa.statistics import bootstrap

RESAMPLES = 10_000
BOOTSTRAP_SEED = 0
INTERVAL = (2.5, 97.5)
CHANGES = ("fix", "break", "keep", "still_wrong")
NOT_STATED = "not stated"
_CHANGE_MATCHINGS: tuple[Matching, ...] = ("strict", "overlap")


@dataclass(frozen=True)
class ScoredSample:
    """The scores of one sample; without gold aspects only its label counts."""

    uid: str
    groups: tuple[tuple[str, str], ...]
    stage1: Score | None = None
    final: Score | None = None
    tuple_changes: Counter[str] = field(default_factory=Counter)
    implicit_gold: int = 0
    gold_categories: int = 0
    gold_opinions: int = 0
    gold_label: str | None = None
    label_is_given: bool = False
    stage1_label: str = ""
    final_label: str = ""

    def change(self, matching: Matching) -> str:
        """Whether the sample's tuples were fixed, broken, or neither."""
        assert self.stage1 is not None and self.final is not None
        return change(self.stage1.right(matching), self.final.right(matching))


def change(before: bool, after: bool) -> str:
    """`keep`, `break`, `fix` or `still_wrong`."""
    if before:
        return "keep" if after else "break"
    return "fix" if after else "still_wrong"


def score_sample(
    output: FinalOutput, aspects: Sequence[GoldAspect] | None, label: str | None, domain: str | None
) -> ScoredSample:
    """Score one sample at both stages."""
    has_label = label is not None
    if label is None and aspects is not None:
        label = label_of(a.polarity for a in aspects)
    labels = ScoredSample(
        uid=output.uid,
        groups=tuple(_groups(output.lang, domain, aspects)),
        gold_label=label,
        label_is_given=has_label,
        stage1_label=output.stage1_ate.label,
        final_label=output.final_result.label,
    )
    if aspects is None:
        return labels
    normaliser = Normaliser(output.text, output.lang)
    gold = normaliser.gold(aspects)
    stage1, final = normaliser.stage1(output), normaliser.final(output)
    return replace(
        labels,
        stage1=score(stage1, gold),
        final=score(final, gold),
        tuple_changes=tuple_changes(stage1, final, gold),
        implicit_gold=sum(not g.key for g in gold),
        gold_categories=sum(g.category is not None for g in gold),
        gold_opinions=sum(bool(g.opinion) for g in gold),
    )


def scores_itself(output: FinalOutput, aspects: Sequence[GoldAspect]) -> bool:
    """Whether the gold of a sample, used as a prediction, scores 1.0."""
    gold = Normaliser(output.text, output.lang).gold(aspects)
    return score(gold, gold).perfect


def tuple_changes(
    stage1: Iterable[AbsaTuple], final: Iterable[AbsaTuple], gold: Iterable[AbsaTuple]
) -> Counter[str]:
    """The change of each (aspect, polarity) of a stage or the gold.

    A stage is right about a tuple if both it and the gold have it, or neither has it. Tuples
    without a term are scored separately and are not counted here.
    """
    one, two, gold_pairs = (pairs(t for t in each if t.key) for each in (stage1, final, gold))
    everything = one | two | gold_pairs
    return Counter(
        change((t in one) == (t in gold_pairs), (t in two) == (t in gold_pairs)) for t in everything
    )


def _groups(
    lang: str, domain: str | None, aspects: Sequence[GoldAspect] | None
) -> Iterable[tuple[str, str]]:
    """The groups of a sample in the breakdown."""
    if aspects is not None:
        has_implicit = any(a.implicit for a in aspects)
        yield "aspects", "implicit" if has_implicit else "explicit" if aspects else "none"
        mixed = {"positive", "negative"} <= {a.polarity for a in aspects}
        yield "polarities", "conflict" if mixed else "no_conflict"
    yield "lang", lang
    yield "domain", domain or NOT_STATED


def _counters() -> dict[Matching, Counter[str]]:
    return {matching: Counter() for matching in _CHANGE_MATCHINGS}


@dataclass
class QualityTally:
    """Sums over samples."""

    samples: int = 0
    with_aspects: int = 0
    implicit_gold: int = 0
    gold_categories: int = 0
    gold_opinions: int = 0
    stage1: Score = field(default_factory=Score)
    final: Score = field(default_factory=Score)
    stage1_labels: Classes = field(default_factory=Classes)
    final_labels: Classes = field(default_factory=Classes)
    label_sources: Counter[str] = field(default_factory=Counter)
    changes: dict[Matching, Counter[str]] = field(default_factory=_counters)
    # Per uid, because the bootstrap draws a sample with the runs of all seeds.
    gains: dict[Matching, Counter[str]] = field(default_factory=_counters)
    tuple_changes: Counter[str] = field(default_factory=Counter)

    def add(self, sample: ScoredSample) -> None:
        """Count one sample."""
        self.samples += 1
        if sample.gold_label is not None:
            self.label_sources["given" if sample.label_is_given else "derived"] += 1
            self.stage1_labels.add([sample.stage1_label], [sample.gold_label])
            self.final_labels.add([sample.final_label], [sample.gold_label])
        if sample.stage1 is None or sample.final is None:
            return
        self.with_aspects += 1
        self.implicit_gold += sample.implicit_gold
        self.gold_categories += sample.gold_categories
        self.gold_opinions += sample.gold_opinions
        self.stage1.merge(sample.stage1)
        self.final.merge(sample.final)
        self.tuple_changes.update(sample.tuple_changes)
        for matching in _CHANGE_MATCHINGS:
            kind = sample.change(matching)
            self.changes[matching][kind] += 1
            self.gains[matching][sample.uid] += (kind == "fix") - (kind == "break")

    @property
    def gold_terms(self) -> int:
        """Gold aspects with a term."""
        return self.final.found.get(("aspect", "strict"), Found()).gold

    def summary(self, *, scored: bool) -> dict[str, Any]:
        """Everything as JSON. `scored` is false if the gold has no aspects."""
        return {
            "samples": self.samples,
            "with_gold_aspects": self.with_aspects,
            "gold_terms": self.gold_terms,
            "implicit_gold_tuples": self.implicit_gold,
            "gold_categories": self.gold_categories,
            "gold_opinions": self.gold_opinions,
            "stage1": self._stage(self.stage1, self.stage1_labels, scored=scored),
            "final": self._stage(self.final, self.final_labels, scored=scored),
            "label_source": dict(self.label_sources),
            "gold_labels": dict(sorted(self.final_labels.gold.items())),
            "exact_match": self._exact_match() if scored else None,
            "changes": self._changes() if scored else None,
        }

    def _stage(self, total: Score, labels: Classes, *, scored: bool) -> dict[str, Any]:
        return stage_summary(
            total,
            labels,
            scored=scored,
            categories=bool(self.gold_categories),
            opinions=bool(self.gold_opinions),
        )

    def _exact_match(self) -> dict[str, Any]:
        """Samples whose tuples equal the gold, in Stage 1 and in the final result."""
        right = {"stage1": ("keep", "break"), "final": ("keep", "fix")}
        return {
            stage: {
                matching: rate(sum(self.changes[matching][n] for n in names), self.with_aspects)
                for matching in _CHANGE_MATCHINGS
            }
            for stage, names in right.items()
        }

    def _changes(self) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for matching in _CHANGE_MATCHINGS:
            kinds = self.changes[matching]
            counts = {name: rate(kinds[name], kinds.total()) for name in CHANGES}
            gain = net_gain(self.gains[matching], kinds.total())
            changes[matching] = {**counts, "net_gain": gain}
        tuples = self.tuple_changes
        changes["tuples"] = {
            **{name: rate(tuples[name], tuples.total()) for name in CHANGES},
            "net_gain": rate(tuples["fix"] - tuples["break"], tuples.total()),
        }
        return changes


def stage_summary(
    total: Score, labels: Classes, *, scored: bool, categories: bool = False, opinions: bool = False
) -> dict[str, Any]:
    """The scores of one stage; null if the gold has no such annotation."""
    summary: dict[str, Any] = {}
    for level in LEVELS:
        is_scored = scored and (level, "strict") in total.found
        is_scored = is_scored and (level != "triplet" or opinions)
        summary[level] = (
            {matching: precision_recall(total.found[level, matching]) for matching in MATCHINGS}
            if is_scored
            else None
        )
    apart = total.implicit.get("pair", Found())
    summary["implicit"] = (
        {level: precision_recall(f) for level, f in total.implicit.items() if level != "triplet"}
        if apart.gold
        else None
    )
    # Predictions without a term are not in the pairs, so they are counted here.
    summary["unnamed"] = {"predicted": apart.predicted, "right": apart.right, "gold": apart.gold}
    for task in TASKS:
        is_scored = categories and task in total.tasks and (task != "asqp" or opinions)
        summary[task] = precision_recall(total.tasks[task]) if is_scored else None
    summary["polarity_of_matched"] = (
        {matching: class_summary(total.polarity[matching]) for matching in MATCHINGS}
        if scored and total.polarity
        else None
    )
    summary["label"] = class_summary(labels) if labels.total else None
    return summary


def precision_recall(counts: Found) -> dict[str, Any]:
    """Precision, recall and F1, each with its counts."""
    return {
        "precision": rate(counts.right, counts.predicted),
        "recall": rate(counts.right, counts.gold),
        "f1": rate(2 * counts.right, counts.predicted + counts.gold),
    }


def class_summary(classes: Classes) -> dict[str, Any]:
    """Accuracy and macro-F1."""
    return {
        "accuracy": rate(classes.correct, classes.total),
        "macro_f1": classes.macro_f1(),
        "f1_per_class": classes.f1(),
    }


def net_gain(gains: Mapping[str, int], runs: int) -> dict[str, Any]:
    """Fixed minus broken samples, with a 95 % bootstrap interval over samples."""
    total = sum(gains.values())
    low, high = bootstrap_sum(gains.values())
    return {
        "value": total,
        "samples": runs,
        "rate": total / runs if runs else None,
        "interval95": {"low": low, "high": high},
    }


def bootstrap_sum(values: Iterable[int]) -> tuple[float, float]:
    """The 95 % bootstrap percentile interval of the sum.

    Because there are few different values, the counts of each value are drawn from a multinomial.
    This is the same bootstrap, but much faster.
    """
    counts = Counter(values)
    if not counts:
        return 0.0, 0.0
    size = counts.total()
    drawn = np.random.default_rng(BOOTSTRAP_SEED).multinomial(
        size, np.array(list(counts.values())) / size, size=RESAMPLES
    )
    low, high = np.percentile(drawn @ np.array(list(counts)), INTERVAL)
    return float(low), float(high)


@dataclass
class Quality:
    """Quality over all scored samples and in each group of the breakdown."""

    everything: QualityTally = field(default_factory=QualityTally)
    groups: dict[str, dict[str, QualityTally]] = field(default_factory=dict)
    # Per uid: numerators and denominators of strict pair F1, for Stage 1 and the final result.
    pair_f1: dict[str, list[float]] = field(default_factory=dict)

    def add(self, sample: ScoredSample) -> None:
        """Count one sample."""
        self.everything.add(sample)
        if sample.stage1 is not None and sample.final is not None:
            sums = self.pair_f1.setdefault(sample.uid, [0.0] * 4)
            for place, score in ((0, sample.stage1), (2, sample.final)):
                pairs = score.found.get(("pair", "strict"), Found())
                sums[place] += 2 * pairs.right
                sums[place + 1] += pairs.predicted + pairs.gold
        for kind, name in sample.groups:
            self.groups.setdefault(kind, {}).setdefault(name, QualityTally()).add(sample)

    def summary(self) -> dict[str, Any] | None:
        """Everything as JSON; None if nothing was scored."""
        if not self.everything.samples:
            return None
        scored = self.everything.gold_terms > 0
        return {
            **self.everything.summary(scored=scored),
            # One sample gives no estimate of the variance.
            "pair_f1_interval": (
                self.pair_f1_interval() if scored and len(self.pair_f1) > 1 else None
            ),
            "sign": self.signs(),
            "breakdown": {
                kind: {name: tally.summary(scored=scored) for name, tally in sorted(names.items())}
                for kind, names in self.groups.items()
            },
        }

    def pair_f1_interval(self) -> dict[str, Any]:
        """Strict pair F1 of both stages and their difference, with 95 % bootstrap intervals."""
        numbers = np.array(list(self.pair_f1.values())).reshape(-1, 2, 1, 2)
        scores, differences = bootstrap(numbers, reference=1)
        return {
            "stage1": scores.at(0, 0),
            "final": scores.at(1, 0),
            "difference": differences.at(0, 0),
        }

    def signs(self) -> dict[str, Any]:
        """Whether strict and overlap scoring agree on the sign of the F1 change."""
        total = self.everything
        signs: dict[str, Any] = {}
        if not total.gold_terms:
            return signs
        for level in LEVELS:
            if level == "triplet" and not total.gold_opinions:
                continue
            strict, overlap = (
                _f1(total.final.found[level, matching]) - _f1(total.stage1.found[level, matching])
                for matching in _CHANGE_MATCHINGS
            )
            signs[level] = {
                "strict_difference": strict,
                "overlap_difference": overlap,
                "disagree": _sign(strict) != _sign(overlap),
            }
        return signs

    def notes(self) -> list[str]:
        """Notes about the scores."""
        total = self.everything
        notes: list[str] = []
        if not total.samples:
            return notes
        if not total.with_aspects:
            notes.append("the gold has sentence labels only: aspects are not scored")
        elif not total.gold_terms and total.implicit_gold:
            notes.append("the gold names categories, no terms: aspects are scored apart only")
        elif not total.gold_terms:
            notes.append("the gold has no aspect in any sample: aspects are not scored")
        elif not total.gold_opinions:
            notes.append("the gold names no opinions: triplets are not scored")
        apart = total.final.implicit.get("aspect", Found())
        if apart.gold and not apart.predicted:
            notes.append(
                f"{total.implicit_gold} implicit gold tuples could not be matched: "
                "no prediction is without a term and carries a category"
            )
        return notes


def _f1(counts: Found) -> float:
    units = counts.predicted + counts.gold
    return 2 * counts.right / units if units else 0.0


def _sign(value: float) -> int:
    return 0 if abs(value) < 1e-12 else 1 if value > 0 else -1
