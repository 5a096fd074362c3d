"""What calls cost. An unknown price is an unknown cost, not 0.

`resources/prices.json` names US dollars per million tokens; a file that the environment variable
ABSA_PRICES names adds to it and wins over it.
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
# Backends that call no paid model.
_FREE = ("offline", "replay")


@cache
def _prices(own: str | None) -> dict[str, dict[str, float]]:
    shipped: dict[str, dict[str, float]] = read_json("prices.json") or {}
    return {**shipped, **(_own_prices(Path(own)) if own else {})}


def prices() -> dict[str, dict[str, float]]:
    """The prices in force, by model."""
    return _prices(os.environ.get("ABSA_PRICES"))


def _own_prices(path: Path) -> dict[str, dict[str, float]]:
    try:
        given: Any = parse_json(read_small(path))
        return {
            model: {name: float(price[name]) for name in ("input", "output")}
            for model, price in given.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"ABSA_PRICES: {path} is not a price list ({error}); write "
            '{"my-model": {"input": 0.1, "output": 0.4}}, in US dollars per million tokens'
        ) from error


def price_of(model: str | None, usage: Mapping[str, int] | None) -> float | None:
    """What some tokens of a model cost in US dollars; None if that is not known."""
    price, usage = prices().get(model or ""), known_usage(usage)
    if price is None or usage is None:
        return None
    spent = usage["prompt_tokens"] * price["input"]
    return (spent + usage["completion_tokens"] * price["output"]) / _PER


def is_paid(call: CallRecord) -> bool:
    """Whether a model was asked that may cost something."""
    return not call.cached and call.backend not in _FREE


def cost_of(calls: Sequence[CallRecord]) -> float | None:
    """The cost of some calls in US dollars; None if the price of one of them is not known."""
    total = 0.0
    for call in calls:
        if not is_paid(call):
            continue
        cost = price_of(call.model, call.usage)
        if cost is None:
            return None
        total += cost
    return total
