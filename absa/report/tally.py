"""The counts of the overview, sample by sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import quantiles

from absa.nodes.language import language
from absa.prices import cost_of
from absa.report.gold import Comparison
from absa.report.reading import Entry
from absa.schemas.records import CallRecord
from absa.schemas.settings import SECOND_READER
from absa.schemas.verdicts import CONFIRMS
from absa.scorecard import ignored_proposal, stage_delta

BINS = 10


@dataclass
class NodeCost:
    """The sum of the calls of one node to one model."""

    calls: int = 0
    cached: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latencies: list[float] = field(default_factory=list)
    # US dollars; None if a price is unknown.
    cost: float | None = 0.0

    def add(self, call: CallRecord) -> None:
        """Count a call."""
        usage = call.usage or {}
        self.merge(
            NodeCost(
                calls=1,
                cached=int(call.cached),
                attempts=call.attempts,
                prompt_tokens=usage.get("prompt_tokens", 0),
                completion_tokens=usage.get("completion_tokens", 0),
                latencies=[call.latency_ms],
                cost=cost_of([call]),
            )
        )

    def merge(self, other: NodeCost) -> None:
        """Add the calls of another sum."""
        self.calls += other.calls
        self.cached += other.cached
        self.attempts += other.attempts
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.latencies += other.latencies
        is_priced = self.cost is not None and other.cost is not None
        self.cost = (self.cost or 0.0) + (other.cost or 0.0) if is_priced else None

    def percentile(self, percent: int) -> float:
        """A percentile of the latencies in milliseconds."""
        if len(self.latencies) < 2:
            return sum(self.latencies)
        return quantiles(self.latencies, n=100, method="inclusive")[percent - 1]


@dataclass
class Reliability:
    """Confidences and correctness of answers, in bins of equal width."""

    count: list[int] = field(default_factory=lambda: [0] * BINS)
    correct: list[int] = field(default_factory=lambda: [0] * BINS)
    # The sum of the confidences.
    confidence: list[float] = field(default_factory=lambda: [0.0] * BINS)

    def add(self, confidence: float, correct: bool) -> None:
        """Count one answer."""
        place = min(BINS - 1, max(0, int(confidence * BINS)))
        self.count[place] += 1
        self.correct[place] += correct
        self.confidence[place] += confidence

    @property
    def total(self) -> int:
        """The number of answers."""
        return sum(self.count)

    @property
    def error(self) -> float | None:
        """The expected calibration error: the mean distance of confidence and accuracy."""
        if not self.total:
            return None
        gaps = (abs(r - c) for r, c in zip(self.correct, self.confidence, strict=True))
        return sum(gaps) / self.total


@dataclass
class Tally:
    """Counts over the samples of a run."""

    samples: int = 0
    with_gold: int = 0
    changed: int = 0
    tuples_changed: int = 0
    label_changed: int = 0
    stage2: int = 0
    reached_gate: int = 0
    gated: int = 0
    confirmed: int = 0
    # The versions of the scorecards.
    versions: set[int] = field(default_factory=set)
    languages: Counter[str] = field(default_factory=Counter)
    # How the debate's turns were mapped to aspects, and why some were not.
    turns: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    # What changed results since Stage 1, and why flagged risks changed nothing.
    moves: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    adoption: Counter[tuple[str, str]] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    second_opinion: Counter[str] = field(default_factory=Counter)
    # Texts for which Stage 1 was compared with the analyzer, and the reasons for a debate.
    compared: int = 0
    contest: Counter[str] = field(default_factory=Counter)
    calls_made: Counter[int] = field(default_factory=Counter)
    in_doubt: int = 0
    reviewed_tuples: int = 0
    changed_tuples: int = 0
    # Final tuples, and those without an aspect term.
    tuples: int = 0
    unnamed: int = 0
    pairs: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    calls: dict[tuple[str, str], NodeCost] = field(default_factory=lambda: defaultdict(NodeCost))
    """By node and model; for a backend without a model, by the name of the backend."""
    aspect_reliability: Reliability = field(default_factory=Reliability)
    label_reliability: Reliability = field(default_factory=Reliability)

    def add(self, entry: Entry, comparison: Comparison) -> None:
        """Count one sample."""
        output, meta = entry.output, entry.output.meta
        self.samples += 1
        self.with_gold += comparison.pairs is not None or comparison.label is not None
        tuples = output.analysis_flags.correction_occurred
        label = output.final_result.label != output.stage1_ate.label
        self.changed += tuples or label
        self.tuples_changed += tuples
        self.label_changed += label
        self.languages[output.lang] += 1
        aspects = output.final_result.final_aspects
        self.tuples += len(aspects)
        self.unnamed += sum(a.aspect_term is None for a in aspects)
        self.turns.update(meta.mapping_stats.model_dump())
        self.unmapped.update(meta.mapping_fail_reasons.model_dump())
        self.moves[stage_delta(output)["change_type"]] += 1
        ignored = ignored_proposal(output)
        self.flagged += ignored["flagged"]
        if ignored["ignored"]:
            self.ignored[ignored["why"]] += 1
        self.reached_gate += bool(meta.override_gate)
        self.gated += any(r.applied for r in meta.override_gate)
        self.confirmed += any(r.verdict in CONFIRMS for r in meta.override_gate)
        self.versions.add(entry.card.get("version", 1))
        self.verdicts.update(r.verdict for r in meta.override_gate)
        if output.analysis_flags.stage2_executed:
            self.stage2 += 1
            self.adoption[meta.adopt_decision, meta.adopt_reason] += 1
        if output.moderator:
            self.rules.update(output.moderator.applied_rules)
        self.in_doubt += bool(meta.conflict_flags or meta.validator_risks)
        self.reviewed_tuples += len(meta.arbiter_actions)
        self.changed_tuples += sum(a.applied for a in meta.arbiter_actions)
        self.cases.update(a.case for a in meta.arbiter_actions)
        if meta.contest is not None:
            self.contest.update(meta.contest.reasons or ("agreed",))
            self.compared += 1
        if meta.selective is not None:
            self.second_opinion[meta.selective.outcome] += 1
            self.calls_made[meta.selective.calls] += 1
        for call in (c for c in output.process_trace if c.node != SECOND_READER):
            self.calls[call.node, call.model or call.backend].add(call)
        if comparison.pair_outcome:
            self.pairs[comparison.pair_outcome] += 1
        if comparison.label_outcome:
            self.labels[comparison.label_outcome] += 1
        self._calibrate(entry, comparison)

    def _calibrate(self, entry: Entry, comparison: Comparison) -> None:
        result, lang = entry.output.final_result, language(entry.output.lang)
        if comparison.label is not None:
            self.label_reliability.add(result.confidence, result.label == comparison.label)
        if comparison.pairs is None:
            return
        for aspect in result.final_aspects:
            pair = lang.key(aspect.name), aspect.polarity
            self.aspect_reliability.add(aspect.confidence, pair in comparison.pairs)

    @property
    def adopted(self) -> int:
        """Samples whose Stage 2 was adopted."""
        return sum(n for (decision, _), n in self.adoption.items() if decision == "adopted")

    @property
    def judged(self) -> int:
        """Aspects that the gate judged."""
        return sum(self.verdicts.values())

    @property
    def cost(self) -> float | None:
        """The cost of all calls in US dollars; None if a price is unknown."""
        costs = [calls.cost for calls in self.calls.values()]
        return None if None in costs else sum(c for c in costs if c is not None)
