"""The cost of calls. If a price is unknown, the cost is None, not 0.

`resources/prices.json` has US dollars per million tokens. The file in the environment variable
ABSA_PRICES adds prices and replaces shipped ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from absa.nodes.assets import read_json
from absa.schemas.backend import known_usage
from absa.schemas.errors import InputError
from absa.schemas.json_text import parse_json
from absa.schemas.records import CallRecord
from absa.small_files import read_small

_PER = 1_000_000
# Backends that do not call a paid model.
_FREE = ("offline", "replay")


@cache
def _prices(own: str | None) -> dict[str, dict[str, float]]:
    shipped: dict[str, dict[str, float]] = read_json("prices.json") or {}
    return {**shipped, **(_own_prices(Path(own)) if own else {})}


def prices() -> dict[str, dict[str, float]]:
    """The prices by model, the user's own included."""
    return _prices(os.environ.get("ABSA_PRICES"))


def _own_prices(path: Path) -> dict[str, dict[str, float]]:
    try:
        prices: Any = parse_json(read_small(path))
        return {
            model: {name: float(price[name]) for name in ("input", "output")}
            for model, price in prices.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"ABSA_PRICES: {path} is not a price list ({error}); write "
            '{"my-model": {"input": 0.1, "output": 0.4}}, in US dollars per million tokens'
        ) from error


def price_of(model: str | None, usage: Mapping[str, int] | None) -> float | None:
    """The cost of tokens of a model in US dollars; None if the price is unknown."""
    price, usage = prices().get(model or ""), known_usage(usage)
    if price is None or usage is None:
        return None
    spent = usage["prompt_tokens"] * price["input"]
    return (spent + usage["completion_tokens"] * price["output"]) / _PER


def add_costs(*costs: float | None) -> float | None:
    """The sum of costs; None if one of them is unknown."""
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def is_paid(call: CallRecord) -> bool:
    """Whether a call can cost money."""
    return not call.cached and call.backend not in _FREE


def cost_of(calls: Sequence[CallRecord]) -> float | None:
    """The cost of calls in US dollars; None if a price is unknown."""
    total = 0.0
    for call in calls:
        if not is_paid(call):
            continue
        cost = price_of(call.model, call.usage)
        if cost is None:
            return None
        total += cost
    return total
