"""The cost of each configuration if it ran alone, although equal calls are paid only once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from absa.ablate.configurations import ANALYSER, Configuration
from absa.metrics.cost import CostTally
from absa.metrics.evaluation import records
from absa.schemas.output import FinalOutput
from absa.schemas.records import CallRecord
from absa.schemas.settings import SECOND_READER, Settings

Key = tuple[Any, ...]
Paid = tuple[dict[str, int] | None, float]


def key_of(call: CallRecord, settings: Settings) -> Key:
    """The key by which two calls are equal."""
    role = settings.backend.role(call.node)
    temperature = role.temperature
    if call.node == "extract" and settings.pipeline.protocol == "vote":
        temperature = settings.pipeline.vote.temperature
    elif call.node == "extract" and settings.pipeline.protocol == "selective" and call.turn:
        temperature = settings.pipeline.selective.temperature
    # Repeated calls count separately, even if the model does not support a seed.
    which: Any = ("turn", call.turn) if call.seed is None else call.seed
    asked = (role.model, role.base_url, temperature, call.model, call.node)
    return (*asked, call.prompt_sha256, which)


def costs(
    out: Path, configurations: Sequence[Configuration], uids: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The cost of each configuration on the compared samples.

    A call that another configuration paid for counts with its cost there, so the cost is that of
    running the configuration alone. The cost of an answer that an earlier run paid for is unknown.
    """
    wanted = set(uids)
    paid: dict[Key, Paid] = {}
    for one in configurations:
        if one.settings is not None:
            for output, _ in records(out / one.name):
                for call in output.process_trace:
                    if not call.cached:
                        paid[key_of(call, one.settings)] = (call.usage, call.latency_ms)
    cost_of = {}
    for one in configurations:
        if one.settings is None:
            cost_of[one.name] = _summary(CostTally(), 0, 0, None)
            continue
        is_free = one.name == ANALYSER
        tally = CostTally()
        hits = unknown = 0
        answers: Counter[str] = Counter()
        for output, _ in records(out / one.name):
            hits += sum(call.cached for call in output.process_trace)
            if output.uid not in wanted:
                continue
            calls = [_alone(call, one.settings, paid) for call in output.process_trace]
            unknown += sum(call.cached for call in calls)
            tally.add(calls)
            _count_answers(answers, output, one.settings)
        cost_of[one.name] = _summary(tally, hits, unknown, None if is_free else answers)
    return cost_of


def _alone(call: CallRecord, settings: Settings, paid: dict[Key, Paid]) -> CallRecord:
    """The call with its cost without a cache; `cached` if no configuration here paid for it."""
    if not call.cached or (spent := paid.get(key_of(call, settings))) is None:
        return call
    usage, latency = spent
    changes = {"usage": usage, "latency_ms": latency, "cached": False, "attempts": 1}
    return call.model_copy(update=changes)


def _count_answers(count: Counter[str], output: FinalOutput, settings: Settings) -> None:
    """Count the different calls of a sample, and whether repeated calls give equal answers."""
    calls = [call for call in output.process_trace if call.node != SECOND_READER]
    count["samples"] += 1
    count["distinct"] += len({key_of(call, settings) for call in calls})
    votes = [
        json.dumps(c.output, sort_keys=True, ensure_ascii=False)
        for c in calls
        if c.node == "extract"
    ]
    if len(votes) > 1:
        count["repeated"] += 1
        count["unanimous"] += len(set(votes)) == 1


def _summary(
    tally: CostTally, hits: int, unknown: int, answers: Counter[str] | None
) -> dict[str, Any]:
    """Means per sample, and totals. Unknown values are null."""
    spent = tally.summary()
    each = spent["per_sample"]
    # A constant or the embedded analyzer alone, which make no calls.
    no_calls = answers is None
    tokens = [each[f"{kind}_tokens"]["rate"] for kind in ("prompt", "completion")]
    is_priced = not unknown

    def shown(value: float | None) -> float | None:
        return 0.0 if no_calls else value if is_priced else None

    return {
        "per_sample": {
            "calls": 0.0 if no_calls else each["calls"]["rate"],
            "distinct_calls": answers["distinct"] / answers["samples"] if answers else 0.0,
            "prompt_tokens": shown(tokens[0]),
            "completion_tokens": shown(tokens[1]),
            "cost_usd": shown(each["cost_usd"]),
            "latency_ms": each["latency_ms"] or 0.0 if no_calls else shown(each["latency_ms"]),
            "critical_path_ms": shown(each["critical_path_ms"]),
        },
        "calls": 0 if no_calls else spent["calls"],
        "cache_hits": hits,
        "calls_of_unknown_cost": unknown,
        "longest_chain_of_calls": spent["longest_chain_of_calls"],
        "repeated_calls_unanimous": (
            {"numerator": answers["unanimous"], "denominator": answers["repeated"]}
            if answers and answers["repeated"]
            else None
        ),
    }
