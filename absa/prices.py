"""What calls cost. An unknown price is an unknown cost, not 0."""

from __future__ import annotations

from collections.abc import Sequence

from nodes.assets import read_json
from schemas.records import CallRecord

_PER = 1_000_000
# Backends that call no paid model.
_FREE = ("offline", "replay")


def cost_of(calls: Sequence[CallRecord]) -> float | None:
    """The cost of some calls in US dollars; None if the price of one of them is not known."""
    total = 0.0
    for call in calls:
        if call.cached or call.backend in _FREE:
            continue
        price = (read_json("prices.json") or {}).get(call.model)
        if price is None or call.usage is None:
            return None
        total += call.usage.get("prompt_tokens", 0) * price["input"] / _PER
        total += call.usage.get("completion_tokens", 0) * price["output"] / _PER
    return total
