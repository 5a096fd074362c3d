"""Warnings about the debate, by the thresholds of `configs/debate_thresholds.json`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from absa.nodes.assets import data_dir
from absa.nodes.thresholds import reaches
from absa.schemas.json_text import parse_json

FILE = "debate_thresholds.json"
# Warning, the rate it looks at, whether a low rate is the bad one, and what to do about it.
_WATCHED = (
    (
        "coverage",
        "debate_mapping_coverage",
        True,
        "few turns of the debate can be mapped to an aspect of Stage 1: look at what the speakers "
        "call the aspects, and add their words to the synonyms of resources/patterns",
    ),
    (
        "no_match",
        "debate_fail_no_match_rate",
        False,
        "the debate speaks of aspects that Stage 1 does not have: let the speakers' prompts ask "
        "for the given aspect_ref, add synonyms, or see which aspects Stage 1 misses",
    ),
    (
        "neutral",
        "debate_fail_neutral_stance_rate",
        False,
        "many turns take no side, so that they cannot move anything: let the personas' goals ask "
        "for a polarity with evidence",
    ),
)


@cache
def thresholds() -> dict[str, float]:
    """The thresholds as shipped."""
    text = (data_dir("configs") / FILE).read_text(encoding="utf-8")
    found: dict[str, float] = parse_json(text)
    return found


def alarms(process: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The warnings that the process metrics call for; an empty rate calls for none."""
    found = []
    for name, metric, low_is_bad, tip in _WATCHED:
        value = process[metric]["rate"]
        if value is None:
            continue
        for severity in ("high", "warn"):
            limit = thresholds()[f"{name}_{severity}"]
            if reaches(value, limit) != low_is_bad:
                found.append(
                    {
                        "metric": metric,
                        "severity": severity,
                        "value": value,
                        "threshold": limit,
                        "tip": tip,
                    }
                )
                break
    return found
