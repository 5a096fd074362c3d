"""Quality against cost: every configuration, the Pareto front, and votes with equal calls.

A selective protocol makes for example 2.1 calls per text on average. The result of a vote with 2.1
calls follows from the recorded answers of the vote: nine texts in ten with the first two calls, one
with the first three. Its counts are the weighted mean of the two votes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np

from absa import statistics
from absa.ablate.configurations import ANALYSER, Configuration
from absa.ablate.measuring import METRICS, PRIMARY, Measured, row, scored
from absa.metrics.evaluation import records
from absa.nodes.finalize import final_aspects, tuple_list
from absa.nodes.language import language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.vote import majority, read_extraction
from absa.schemas.answers import ExtractAnswer, read_answer
from absa.schemas.output import FinalOutput
from absa.statistics import Floats

AXES = ("calls", "tokens", "cost_usd", "latency_ms")
_AT = METRICS.index(PRIMARY)
# Tolerance of mean calls per text: one call in a hundred texts counts as equal cost.
_EQUAL_CALLS = 0.01


def cost_line(
    out: Path,
    configurations: Sequence[Configuration],
    vote: str | None,
    measured: Measured,
    scores: Mapping[str, Mapping[str, float]],
    spent: Mapping[str, Any],
    *,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """The part `cost_line` of `ablation.json`.

    `scores` are value, low and high of each configuration, `spent` their costs.
    """
    points = [_point(one, scores[one.name], spent[one.name]) for one in configurations]
    for axis in AXES:
        for point in points:
            point["pareto"][axis] = _on_front(point, points, axis)
    chosen = next((c for c in configurations if c.name == vote), None)
    rivals = [p for p in points if chosen and p["protocol"] not in ("vote", ANALYSER, "constant")]
    single = next((c.name for c in configurations if c.protocol == "single"), None)
    equal = _equal_calls(out, chosen, rivals, single, measured, resamples, seed) if chosen else []
    line: dict[str, Any] = {"metric": PRIMARY, "points": points, "equal_calls": equal}
    line["analyser"] = _against_analyser(points, measured, resamples, seed)
    line["sentences"] = [*_sentences(line)]
    return line


def _point(
    one: Configuration, score: Mapping[str, float], spent: Mapping[str, Any]
) -> dict[str, Any]:
    each = spent["per_sample"]
    tokens = [each["prompt_tokens"], each["completion_tokens"]]
    return {
        "name": one.name,
        "protocol": one.protocol,
        "calls": each["calls"],
        "tokens": None if None in tokens else sum(tokens),
        "cost_usd": each["cost_usd"],
        "latency_ms": each["latency_ms"],
        **{name: score[name] for name in ("value", "low", "high")},
        "pareto": {},
    }


def _on_front(
    point: Mapping[str, Any], points: Sequence[Mapping[str, Any]], axis: str
) -> bool | None:
    """Whether no other configuration dominates this one in cost and quality.

    None if the cost is not known.
    """
    if point[axis] is None:
        return None
    mine = point[axis], -point["value"]
    return not any(
        other[axis] is not None
        and other[axis] <= mine[0]
        and -other["value"] <= mine[1]
        and (other[axis], -other["value"]) != mine
        for other in points
    )


def _equal_calls(
    out: Path,
    vote: Configuration,
    points: Sequence[Mapping[str, Any]],
    single: str | None,
    measured: Measured,
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """The difference of each configuration and a vote with as many calls on average.

    A vote of two calls keeps what either call found, so it can be worse than the single call. Then
    `over_single` has the difference to the single call.
    """
    assert vote.settings is not None, "a vote has settings"
    most = vote.settings.pipeline.vote_calls
    sizes = {min(most, max(1, f(p["calls"]))) for p in points for f in (floor, ceil)}
    votes = vote_numbers(out / vote.name, sizes, vote.settings.pipeline.vote.threshold, measured)
    comparisons: list[dict[str, Any]] = []
    for p in points:
        calls = min(float(most), max(1.0, p["calls"]))
        low, high = floor(calls), ceil(calls)
        share = calls - low
        rival = (1 - share) * votes[low] + share * votes[high]
        own = _numbers(measured, p["name"])
        one = {"name": p["name"], "calls": p["calls"], "vote_calls": calls}
        one |= _compared(own, rival, resamples, seed)
        one["over_single"] = None
        if single not in (None, p["name"]):
            over = _compared(own, _numbers(measured, single), resamples, seed)
            if over["vote"]["value"] > one["vote"]["value"]:
                one["over_single"] = over["difference"]
        comparisons.append(one)
    corrected = statistics.holm([c["p"] for c in comparisons])
    for one, p_holm in zip(comparisons, corrected, strict=True):
        one["p_holm"] = p_holm
        one["word"] = _word(one)
    return comparisons


def _numbers(measured: Measured, name: str) -> Floats:
    numbers: Floats = measured.numbers[:, measured.names.index(name), _AT]
    return numbers


def _word(one: Mapping[str, Any]) -> str:
    """`better` or `worse` than the vote, if the interval and the corrected p show it."""
    difference = one["difference"]
    if one["p_holm"] > statistics.ALPHA or difference["low"] <= 0 <= difference["high"]:
        return "no_difference"
    # Beating a vote that made fewer calls proves nothing.
    if difference["low"] > 0 and one["calls"] > one["vote_calls"] + _EQUAL_CALLS:
        return "cannot_say"
    return "better" if difference["low"] > 0 else "worse"


def _compared(own: Floats, other: Floats, resamples: int, seed: int) -> dict[str, Any]:
    """The score of `other`, and the difference of `own` and `other`."""
    both = np.stack([own, other], axis=1)[:, :, None]
    scores, differences = statistics.bootstrap(both, 0, resamples=resamples, seed=seed)
    return {
        "vote": scores.at(1, 0),
        "difference": differences.at(1, 0),
        "p": statistics.randomisation(own, other, resamples=resamples, seed=seed),
    }


def vote_numbers(
    run: Path, sizes: set[int], threshold: float, measured: Measured
) -> dict[int, Floats]:
    """Numerators and denominators per text of votes with the first n recorded calls."""
    wanted = set(measured.uids)
    rows = {
        output.uid: {
            size: _row(voted, card["gold"])
            for size, voted in votes_of(output, sizes, threshold).items()
        }
        for output, card in records(run)
        if output.uid in wanted
    }
    return {size: np.array([rows[uid][size] for uid in measured.uids]) for size in sizes}


def votes_of(output: FinalOutput, sizes: set[int], threshold: float) -> dict[int, FinalOutput]:
    """The outputs of a vote with only its first calls."""
    lang, counter = language(output.lang), PolarityCounter()
    calls = sorted((c for c in output.process_trace if c.node == "extract"), key=lambda c: c.turn)
    answers = (read_answer(ExtractAnswer, call.output)[0] for call in calls)
    given_aspects = output.meta.given_aspects
    results = [read_extraction(a, output.text, lang, counter, given_aspects) for a in answers]
    votes = {}
    for size in sizes:
        result = majority(results[:size], threshold, output.text, lang)
        final = output.final_result.model_copy(
            update={
                "final_aspects": final_aspects(result, output.text),
                "final_tuples": tuple_list(result, lang),
            }
        )
        votes[size] = output.model_copy(update={"final_result": final})
    return votes


def _row(output: FinalOutput, gold: Mapping[str, Any]) -> Floats:
    sample = scored(output, gold)
    assert sample is not None, "only texts with gold are compared"
    numbers: Floats = row(sample.final, sample.final_label, sample.gold_label)[0][_AT]
    return numbers


def _against_analyser(
    points: Sequence[Mapping[str, Any]], measured: Measured, resamples: int, seed: int
) -> dict[str, Any] | None:
    """The difference of the best configuration with calls and the analyzer alone."""
    calling = [p for p in points if p["calls"]]
    alone = next((p for p in points if p["name"] == ANALYSER), None)
    if alone is None or not calling:
        return None
    best = max(calling, key=lambda p: p["value"])
    own, other = _numbers(measured, best["name"]), _numbers(measured, alone["name"])
    comparison = _compared(own, other, resamples, seed)
    return {"best": best["name"], "analyser": comparison.pop("vote"), **comparison}


def _sentences(line: Mapping[str, Any]) -> list[str]:
    sentences = []
    words = {
        "better": "better",
        "worse": "worse",
        "no_difference": "no difference shown",
        "cannot_say": "no vote of as many calls was recorded",
    }
    for one in line["equal_calls"]:
        if one["calls"] <= 1 + _EQUAL_CALLS:
            continue  # the single call is compared elsewhere
        sentences.append(
            f"{one['name']} ({one['calls']:.1f} calls per text) against a vote of "
            f"{one['vote_calls']:.1f} calls: {words[one['word']]} ({_points(one['difference'])})."
        )
        if one["over_single"]:
            sentences.append(
                "The single call is better than that vote; the difference to it is "
                f"{_points(one['over_single'])}."
            )
    if against := line["analyser"]:
        reached = 100 * against["analyser"]["value"]
        shown = against["difference"]["low"] > 0
        how = "" if shown else "; no configuration that calls a model is shown to be better"
        sentences.append(
            f"The embedded analyzer alone reaches {reached:.1f} without a call; {against['best']} "
            f"is the best with calls ({_points(against['difference'])} over it){how}."
        )
    front = [
        p["name"] for p in sorted(line["points"], key=lambda p: p["calls"]) if p["pareto"]["calls"]
    ]
    sentences.append(f"Pareto front by calls: {', '.join(front)}.")
    return sentences


def _points(difference: Mapping[str, float]) -> str:
    value, low, high = (f"{100 * difference[n]:+.1f}" for n in ("value", "low", "high"))
    return f"{value} points, 95 % interval {low} to {high}"
