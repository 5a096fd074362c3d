"""The cost of a run: calls, tokens and time, per node and per sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from absa.prices import add_costs, cost_of, is_paid
from absa.schemas.backend import known_usage
from absa.schemas.records import CallRecord
from absa.schemas.settings import SECOND_READER
from absa.scorecard import rate

# Calls that run in parallel; every other call waits for the previous one.
TOGETHER = {
    **dict.fromkeys(("ate", "atsa", "validator", SECOND_READER), "stage1"),
    **dict.fromkeys(("ate_review", "atsa_review"), "reviews"),
    **dict.fromkeys(("p_neg", "p_imp", "p_lit"), "perspectives"),
    **dict.fromkeys(("review_a", "review_b", "review_c"), "conflict_reviews"),
    "extract": "votes",
}


@dataclass
class CostTally:
    """Sums over samples."""

    samples: int = 0
    total: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, Counter[str]] = field(default_factory=dict)
    models: dict[str, Counter[str]] = field(default_factory=dict)
    ledger: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    latency_ms: float = 0.0
    critical_path_ms: float = 0.0
    chain: int = 0
    cost_usd: float | None = 0.0

    def add(self, calls: Sequence[CallRecord]) -> None:
        """Count the calls of one sample."""
        self.samples += 1
        for call in calls:
            if call.node == SECOND_READER:
                continue
            spent = _spent(call)
            self.total.update(spent)
            self.nodes.setdefault(call.node, Counter()).update(spent)
            model = call.model or call.backend
            self.models.setdefault(model, Counter()).update(spent)
            self.ledger.setdefault((call.node, model), Counter()).update(spent)
        slowest = critical_path(calls)
        self.critical_path_ms += sum(slowest.values())
        self.chain = max(self.chain, len(slowest))
        self.cost_usd = add_costs(self.cost_usd, cost_of(calls))

    def summary(self) -> dict[str, Any]:
        """Everything as JSON. A cost is null if the price of any call is not known."""
        total = self.total
        return {
            **_shown(total),
            "critical_path_ms": round(self.critical_path_ms, 3),
            "longest_chain_of_calls": self.chain,
            "cost_usd": self.cost_usd,
            "cache_hit_rate": rate(total["cached_calls"], total["calls"]),
            "per_sample": {
                **{
                    name: rate(total[name], self.samples)
                    for name in ("calls", "retries", "prompt_tokens", "completion_tokens")
                },
                "latency_ms": _mean(total["latency_us"] / 1000, self.samples),
                "critical_path_ms": _mean(self.critical_path_ms, self.samples),
                "cost_usd": _mean(self.cost_usd, self.samples),
            },
            "per_node": {node: _shown(spent) for node, spent in self.nodes.items()},
            "per_model": {model: _shown(spent) for model, spent in self.models.items()},
            "ledger": [
                {"node": node, "model": model, **_shown(spent)}
                for (node, model), spent in self.ledger.items()
            ],
        }


def critical_path(calls: Sequence[CallRecord]) -> dict[Any, float]:
    """The sum of the slowest call per step. Steps run in sequence, calls of a step in parallel."""
    slowest: dict[Any, float] = {}
    # The first joint call runs in parallel with these. The other joint calls wait for it.
    beside = any(call.node in (SECOND_READER, "validator") for call in calls)
    for call in calls:
        step = TOGETHER.get(call.node, (call.node, call.turn))
        if beside and call.node == "extract" and call.turn == 0:
            step = "stage1"
        slowest[step] = max(slowest.get(step, 0.0), call.latency_ms)
    return slowest


def _spent(call: CallRecord) -> dict[str, int]:
    usage = known_usage(call.usage)
    counts = usage or {}
    return {
        "calls": 1,
        "cached_calls": int(call.cached),
        "retries": max(0, call.attempts - 1),
        "prompt_tokens": counts.get("prompt_tokens", 0),
        "completion_tokens": counts.get("completion_tokens", 0),
        # Their tokens are not in the sums.
        "calls_without_usage": int(usage is None and is_paid(call)),
        # Integer microseconds, because a sum of floats would depend on the order of the samples.
        "latency_us": round(call.latency_ms * 1000),
    }


def _shown(spent: Counter[str]) -> dict[str, Any]:
    counts = (
        *("calls", "cached_calls", "retries", "prompt_tokens", "completion_tokens"),
        "calls_without_usage",
    )
    return {**{name: spent[name] for name in counts}, "latency_ms": spent["latency_us"] / 1000}


def _mean(total: float | None, samples: int) -> float | None:
    return total / samples if samples and total is not None else None
