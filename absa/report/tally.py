"""The numbers of a run's overview, counted sample by sample."""

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
    """What the calls of one node to one model cost together."""

    calls: int = 0
    cached: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latencies: list[float] = field(default_factory=list)
    cost: float | None = 0.0

    def add(self, call: CallRecord) -> None:
        """Count a call."""
        usage = call.usage or {}
        self.calls += 1
        self.cached += call.cached
        self.attempts += call.attempts
        self.prompt_tokens += usage.get("prompt_tokens", 0)
        self.completion_tokens += usage.get("completion_tokens", 0)
        self.latencies.append(call.latency_ms)
        cost = cost_of([call])
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    @property
    def median_ms(self) -> float:
        """Half of the calls were quicker."""
        return self._percentile(50)

    @property
    def p95_ms(self) -> float:
        """Of twenty calls nineteen were quicker."""
        return self._percentile(95)

    def _percentile(self, percent: int) -> float:
        values = self.latencies
        if len(values) < 2:
            return values[0] if values else 0.0
        return quantiles(values, n=100, method="inclusive")[percent - 1]


@dataclass
class Reliability:
    """Confidences, and how often they were right, in bins of equal width."""

    count: list[int] = field(default_factory=lambda: [0] * BINS)
    right: list[int] = field(default_factory=lambda: [0] * BINS)
    sure: list[float] = field(default_factory=lambda: [0.0] * BINS)

    def add(self, confidence: float, right: bool) -> None:
        """Count one answer."""
        place = min(BINS - 1, max(0, int(confidence * BINS)))
        self.count[place] += 1
        self.right[place] += right
        self.sure[place] += confidence

    @property
    def total(self) -> int:
        """How many answers there are."""
        return sum(self.count)

    @property
    def error(self) -> float | None:
        """The expected calibration error: how far confidence is from accuracy, on average."""
        if not self.total:
            return None
        gaps = (abs(r - s) for r, s in zip(self.right, self.sure, strict=True))
        return sum(gaps) / self.total


@dataclass
class Tally:
    """What is counted over the samples of a run."""

    samples: int = 0
    with_gold: int = 0
    changed: int = 0
    tuples_changed: int = 0
    label_changed: int = 0
    stage2: int = 0
    reached_gate: int = 0
    gated: int = 0
    confirmed: int = 0
    # Of the scorecards.
    versions: set[int] = field(default_factory=set)
    languages: Counter[str] = field(default_factory=Counter)
    # How the debate's turns were mapped to aspects, and why not.
    turns: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    # How results moved away from Stage 1, and why flagged risks changed nothing.
    moves: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    adoption: Counter[tuple[str, str]] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    second_opinion: Counter[str] = field(default_factory=Counter)
    # Texts on which Stage 1 was compared with the second reader, and what spoke for a debate.
    compared: int = 0
    contest: Counter[str] = field(default_factory=Counter)
    calls_made: Counter[int] = field(default_factory=Counter)
    in_doubt: int = 0
    reviewed_tuples: int = 0
    changed_tuples: int = 0
    # Final tuples, and those of them that name nothing.
    tuples: int = 0
    unnamed: int = 0
    pairs: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    calls: dict[tuple[str, str], NodeCost] = field(default_factory=lambda: defaultdict(NodeCost))
    """By node and model; a backend without a model stands for itself."""
    aspect_reliability: Reliability = field(default_factory=Reliability)
    label_reliability: Reliability = field(default_factory=Reliability)

    def add(self, entry: Entry, found: Comparison) -> None:
        """Count one sample."""
        output, meta = entry.output, entry.output.meta
        self.samples += 1
        self.with_gold += found.pairs is not None or found.label is not None
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
        if found.pair_outcome:
            self.pairs[found.pair_outcome] += 1
        if found.label_outcome:
            self.labels[found.label_outcome] += 1
        self._calibrate(entry, found)

    def _calibrate(self, entry: Entry, found: Comparison) -> None:
        result, lang = entry.output.final_result, language(entry.output.lang)
        if found.label is not None:
            self.label_reliability.add(result.confidence, result.label == found.label)
        if found.pairs is None:
            return
        for aspect in result.final_aspects:
            pair = lang.key(aspect.name), aspect.polarity
            self.aspect_reliability.add(aspect.confidence, pair in found.pairs)

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
        """What all calls cost, None if a price is not known."""
        costs = [calls.cost for calls in self.calls.values()]
        return None if None in costs else sum(c for c in costs if c is not None)
