"""The ledger: what the calls of each node and model cost, down to the run's own total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from absa.report.markup import Markup, el
from absa.report.tally import NodeCost

COLUMNS = (
    *("Node", "Model", "Calls", "Cached", "Attempts"),
    *("Tokens in", "out", "Median ms", "95 %", "US$"),
)
Ledger = Mapping[tuple[str, str], NodeCost]


def ledger(calls: Ledger, usage: Mapping[str, Any], cost_usd: float | None) -> Markup:
    """A row per node and model, one per model if there are several, and the sum.

    Calls of samples that failed have no trace: what the run says it spent on them is one row.
    """
    rows = [_row(node, model, cost) for (node, model), cost in calls.items()]
    models = dict.fromkeys(model for _, model in calls)
    if len(models) > 1:
        for model in models:
            of_model = _sum(cost for (_, named), cost in calls.items() if named == model)
            rows.append(_row("all", model, of_model, "subtotal"))
    total = _sum(calls.values())
    if unseen := _unseen(total, usage, cost_usd):
        rows.append(_row("failed samples", "", unseen, "subtotal"))
        total = _sum((total, unseen))
    rows.append(_row("all", "", total, "total"))
    head = el("tr", [el("th", name, scope="col") for name in COLUMNS])
    table = el("table", el("thead", head), el("tbody", rows), class_="counts cost ledger")
    return el("div", table, class_="scroll", tabindex="0")


def _sum(costs: Iterable[NodeCost]) -> NodeCost:
    total = NodeCost()
    for cost in costs:
        total.calls += cost.calls
        total.cached += cost.cached
        total.attempts += cost.attempts
        total.prompt_tokens += cost.prompt_tokens
        total.completion_tokens += cost.completion_tokens
        total.latencies += cost.latencies
        is_priced = total.cost is not None and cost.cost is not None
        total.cost = (total.cost or 0.0) + (cost.cost or 0.0) if is_priced else None
    return total


def _unseen(seen: NodeCost, usage: Mapping[str, Any], cost_usd: float | None) -> NodeCost | None:
    """What the run spent beyond the calls that are on record."""
    calls = usage.get("calls", 0) - (seen.calls - seen.cached)
    if calls <= 0:
        return None
    is_priced = cost_usd is not None and seen.cost is not None
    return NodeCost(
        calls=calls,
        prompt_tokens=usage.get("prompt_tokens", 0) - seen.prompt_tokens,
        completion_tokens=usage.get("completion_tokens", 0) - seen.completion_tokens,
        cost=max(0.0, (cost_usd or 0.0) - (seen.cost or 0.0)) if is_priced else None,
    )


def _row(node: str, model: str, cost: NodeCost, kind: str | None = None) -> Markup:
    timed = bool(cost.latencies)
    cells = [
        f"{cost.calls:,}",
        f"{cost.cached:,}",
        # Of failed samples only what they spent is known, not how.
        f"{cost.attempts:,}" if timed else "–",
        f"{cost.prompt_tokens:,}",
        f"{cost.completion_tokens:,}",
        f"{cost.median_ms:,.1f}" if timed else "–",
        f"{cost.p95_ms:,.1f}" if timed else "–",
        "?" if cost.cost is None else f"{cost.cost:,.4f}",
    ]
    return el(
        "tr",
        el("th", node, scope="row"),
        el("td", model, class_="model"),
        [el("td", cell) for cell in cells],
        class_=kind,
    )
