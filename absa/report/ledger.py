"""The cost table: the calls of each node and model, and their sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from absa.report.markup import Markup, el, scroll, table
from absa.report.tally import NodeCost

COLUMNS = (
    *("Node", "Model", "Calls", "Cached", "Attempts"),
    *("Tokens in", "out", "Median ms", "95 %", "US$"),
)
Ledger = Mapping[tuple[str, str], NodeCost]


def ledger(calls: Ledger, usage: Mapping[str, Any], cost_usd: float | None) -> Markup:
    """One row per node and model, one per model if there are several, and the sum.

    Calls of failed samples have no trace. What the manifest counts for them is one row.
    """
    rows = [_row(node, model, cost) for (node, model), cost in calls.items()]
    models = dict.fromkeys(model for _, model in calls)
    if len(models) > 1:
        for model in models:
            of_model = _sum(cost for (_, name), cost in calls.items() if name == model)
            rows.append(_row("all", model, of_model, "subtotal"))
    total = _sum(calls.values())
    if untraced := _untraced(total, usage, cost_usd):
        rows.append(_row("failed samples", "", untraced, "subtotal"))
        total = _sum((total, untraced))
    rows.append(_row("all", "", total, "total"))
    return scroll(table(COLUMNS, rows, "counts cost ledger"))


def _sum(costs: Iterable[NodeCost]) -> NodeCost:
    total = NodeCost()
    for cost in costs:
        total.merge(cost)
    return total


def _untraced(
    traced: NodeCost, usage: Mapping[str, Any], cost_usd: float | None
) -> NodeCost | None:
    """The difference between the manifest's usage and the traced calls."""
    calls = usage.get("calls", 0) - (traced.calls - traced.cached)
    if calls <= 0:
        return None
    is_priced = cost_usd is not None and traced.cost is not None
    return NodeCost(
        calls=calls,
        prompt_tokens=usage.get("prompt_tokens", 0) - traced.prompt_tokens,
        completion_tokens=usage.get("completion_tokens", 0) - traced.completion_tokens,
        cost=max(0.0, (cost_usd or 0.0) - (traced.cost or 0.0)) if is_priced else None,
    )


def _row(node: str, model: str, cost: NodeCost, kind: str | None = None) -> Markup:
    # The manifest has no attempts and no latencies of failed samples.
    is_timed = bool(cost.latencies)
    cells = [
        f"{cost.calls:,}",
        f"{cost.cached:,}",
        f"{cost.attempts:,}" if is_timed else "–",
        f"{cost.prompt_tokens:,}",
        f"{cost.completion_tokens:,}",
        f"{cost.percentile(50):,.1f}" if is_timed else "–",
        f"{cost.percentile(95):,.1f}" if is_timed else "–",
        "?" if cost.cost is None else f"{cost.cost:,.4f}",
    ]
    names = [el("th", node, scope="row"), el("td", model, class_="model")]
    return el("tr", names, [el("td", cell) for cell in cells], class_=kind)
