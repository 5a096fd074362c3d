"""Counts and S1: the files of a run agree with each other and with the settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import httpx2
from pydantic import ValidationError

from absa.aux_hf import disagrees, polarity_of
from absa.runs.directory import GATE, OUTPUTS, SCORECARDS, TRACES
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.report import COUNTS
from absa.runs.verify.words import (
    call_key,
    call_name,
    compared,
    dicts_of,
    differing,
    mapping_of,
    number_of,
    shown,
    some_of,
)
from absa.schemas.json_text import parse_json
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect, Sample
from absa.schemas.settings import SECOND_READER, AuxHfSettings, BackendSettings
from absa.scorecard import scorecard

_KINDS = get_args(BackendSettings.model_fields["kind"].annotation)


def same_calls(e: SampleRecords) -> Findings:
    """The trace of a sample is its output's `process_trace`, call by call."""
    traced: dict[tuple[str, int], dict[str, Any]] = {}
    for line in e.calls:
        key = call_key(line.record)
        if key in traced:
            yield COUNTS, f"{TRACES}: {call_name(key)} twice"
        traced[key] = line.record
    listed = {call_key(call): call for call in dicts_of(e.raw.get("process_trace"))}
    for key in listed.keys() - traced.keys():
        yield COUNTS, f"{TRACES}: {call_name(key)} is missing"
    for key in traced.keys() - listed.keys():
        yield COUNTS, f"{TRACES}: {call_name(key)} is not in the output's process_trace"
    for key in listed.keys() & traced.keys():
        # A line of the traces has the run's seed; a call has the seed that was sent to its model.
        one, other = ({**call, "uid": None, "seed": None} for call in (traced[key], listed[key]))
        parts = [path for path, _, _ in differing(one, other)]
        if parts:
            what = f"differs from the output's process_trace in {some_of(parts)}"
            yield "S1", f"{TRACES}: {call_name(key)} {what}"


def same_scorecard(e: SampleRecords) -> Findings:
    """The scorecard follows from its output, and its gold is readable."""
    if e.card is None:
        return
    try:
        sample = sample_of(e.output, e.card)
        made = scorecard(e.output, sample, number_of(e.card.get("seed")))
    except (ValidationError, ValueError, TypeError, AttributeError) as error:
        yield COUNTS, f"{SCORECARDS}: its gold cannot be read ({str(error).splitlines()[0]})"
        return
    # A later version can have more counts, so only the recorded ones are compared.
    made = parse_json(json.dumps(made))
    if whats := compared(e.card, made, "the output gives", known_only=True):
        yield "S1", f"{SCORECARDS}: {some_of(whats, '; ')}"


def sample_of(output: FinalOutput, card: Mapping[str, Any]) -> Sample:
    """The sample of an output and its scorecard."""
    gold = card.get("gold") or {}
    aspects = gold.get("aspects")
    return Sample(
        uid=output.uid,
        text=output.text,
        lang=output.lang,
        domain=card.get("domain"),
        split=card.get("split"),
        aspects=None if aspects is None else tuple(map(GoldAspect.model_validate, aspects)),
        label=gold.get("label"),
        incomplete_gold=bool(gold.get("incomplete")),
    )


def same_gate_log(e: SampleRecords) -> Findings:
    """The lines of the gate's file are the output's `override_gate`."""
    lines = [{k: v for k, v in g.record.items() if k not in ("uid", "seed")} for g in e.gate]
    listed = mapping_of(e.raw.get("meta")).get("override_gate", [])
    if len(lines) != len(listed):
        yield COUNTS, f"{len(lines)} lines in {GATE}, {len(listed)} verdicts in the output"
    elif whats := compared(lines, listed, "the output has"):
        yield "S1", f"{GATE}: {some_of(whats, '; ')}"


def same_signal(e: SampleRecords, settings: AuxHfSettings) -> Findings:
    """The reading of a classifier's label. The label itself cannot be checked."""
    signal = mapping_of(e.raw.get("aux_signals")).get("hf")
    if signal is None:
        if settings.enabled:
            yield COUNTS, f"{OUTPUTS}: the classifier's opinion (aux_signals.hf) is missing"
        return
    recorded = mapping_of(signal)
    polarity = polarity_of(str(recorded.get("label")), dict(settings.labels))
    facts = {
        "checkpoint": settings.checkpoint,
        "polarity": polarity,
        "disagrees_with_stage1": disagrees(polarity, e.output.stage1_ate.label),
        "disagrees_with_final": disagrees(polarity, e.output.final_result.label),
    }
    for what in compared({name: recorded.get(name) for name in facts}, facts, "not"):
        yield "S1", f"{OUTPUTS}: aux_signals.hf.{what}"


def called_as_set(e: SampleRecords, backend: BackendSettings, seed: int) -> Findings:
    """Compare the recorded calls with the settings.

    Only the shipped backends are checked; a program can use its own backend under another name.
    A replay repeats the models of the recorded run.
    """
    asked = backend.model_copy(update={"seed": seed})
    for call in dicts_of(e.raw.get("process_trace")):
        key = call_key(call)
        name = call.get("backend")
        if key[0] == SECOND_READER and name in ("offline", backend.kind):
            continue
        if name not in _KINDS:
            continue
        if name != backend.kind:
            yield "S1", f"{TRACES}: {call_name(key)} names the backend {name}, not {backend.kind}"
        elif name != "replay":
            for part, allowed in _allowed(asked, *key).items():
                if call.get(part) not in allowed:
                    what = f"has the {part} {shown(call.get(part))}, the settings have"
                    yield "S1", f"{TRACES}: {call_name(key)} {what} {shown(allowed[0])}"


def _allowed(backend: BackendSettings, node: str, turn: int) -> dict[str, tuple[Any, ...]]:
    """The allowed values in a trace. A seed is not recorded if the model does not accept it."""
    if backend.kind == "offline":
        return {"model": (None,), "seed": (None,), "host": (None,)}
    role = backend.role(node)
    assert role.seed is not None, "a role without a seed has the backend's"
    # Only a repeated question adds its turn to the seed. Turns of a debate are different questions.
    seed = role.seed + (turn if node == "extract" else 0)
    allowed: dict[str, tuple[Any, ...]] = {"model": (role.model,), "seed": (seed, None)}
    # Without a base_url the environment named the server. Cached answers of earlier versions do
    # not contain the server.
    if role.base_url is not None and not backend.allow_redirects:
        allowed["host"] = (_host(role.base_url), None)
    return allowed


@cache
def _host(base_url: str) -> str:
    return httpx2.URL(base_url).netloc.decode()
