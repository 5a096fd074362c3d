"""Warnings about the debate, with the thresholds of `configs/debate_thresholds.json`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from absa.nodes.assets import data_dir
from absa.nodes.thresholds import reaches
from absa.schemas.json_text import parse_json

FILE = "debate_thresholds.json"
# Warning, its rate, and whether a low rate is bad.
_WATCHED = (
    ("coverage", "debate_mapping_coverage", True),
    ("no_match", "debate_fail_no_match_rate", False),
    ("neutral", "debate_fail_neutral_stance_rate", False),
)
# Reasons why turns could not be mapped, and what to do.
_TIPS = {
    "no_aspects": ("Stage 1 found no aspect in texts that were debated: check what ate misses"),
    "no_match": (
        "the debate mentions aspects that Stage 1 does not have: ask in the speakers' prompts "
        "for the given aspect_ref, add synonyms in resources/patterns, or check which aspects "
        "Stage 1 misses"
    ),
    "neutral_stance": (
        "many turns have no polarity and so no effect: ask in the personas' goals for a polarity "
        "with evidence"
    ),
}
_TIP_OF = {"no_match": "no_match", "neutral": "neutral_stance"}


@cache
def thresholds() -> dict[str, float]:
    """The shipped thresholds."""
    return dict(parse_json((data_dir("configs") / FILE).read_text(encoding="utf-8")))


def alarms(process: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The warnings for these process metrics; an empty rate gives none."""
    raised = []
    # The most frequent reason why turns could not be mapped.
    main_reason = max(_TIPS, key=lambda why: process[f"debate_fail_{why}_rate"]["rate"] or 0)
    for name, metric, low_is_bad in _WATCHED:
        value = process[metric]["rate"]
        if value is None:
            continue
        for severity in ("high", "warn"):
            limit = thresholds()[f"{name}_{severity}"]
            if reaches(value, limit) != low_is_bad:
                raised.append(
                    {
                        "metric": metric,
                        "severity": severity,
                        "value": value,
                        "threshold": limit,
                        "tip": _TIPS[_TIP_OF.get(name, main_reason)],
                    }
                )
                break
    return raised
