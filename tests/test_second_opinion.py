"""The embedded analyzer beside a model: agreement, fusion, and how far it is trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend

from absa import load_settings
from absa.backends.second_reader import WithSecondReader
from absa.cli import run as main
from absa.config import SettingsError
from absa.graph import build
from absa.nodes.second_opinion import DEFAULT_TRUST, is_too_weak
from absa.runs.verify import verify
from absa.schemas.output import FinalOutput
from absa.schemas.records import Agreement
from absa.schemas.settings import BackendSettings, PipelineSettings, SelectiveSettings

TEXT = "The food was great and the service was slow."
Pair = tuple[str, str]


def call(*pairs: Pair) -> dict[str, Any]:
    return {
        "tuples": [
            {"aspect_term": t, "polarity": p, "evidence": TEXT, "confidence": 0.9} for t, p in pairs
        ]
    }


def reader(*seen: tuple[str, str, float], **facts: Any) -> dict[str, Any]:
    tuples = [
        {"aspect_term": t, "polarity": p, "probability": sure, "reported": sure >= 0.3}
        for t, p, sure in seen
    ]
    return {"tuples": tuples, "reads_language": True, "knows_domain": True, **facts}


FOOD, SERVICE, FLIPPED = ("food", "positive"), ("service", "negative"), ("service", "positive")
SURE = reader((*FOOD, 0.9), (*SERVICE, 0.8))


def decide(
    calls: list[dict[str, Any]],
    seen: dict[str, Any],
    *,
    given: dict[str, Any] | None = None,
    **selective: Any,
) -> tuple[FinalOutput, list[int]]:
    p = PipelineSettings(protocol="selective", selective=SelectiveSettings(**selective))
    answers: dict[Any, Any] = {("extract", n): answer for n, answer in enumerate(calls)}
    backend = ScriptedBackend({**answers, "second_reader": seen})
    output = build(p, backend).invoke({"text": TEXT, "lang": "en", **(given or {})})["output"]
    return output, backend.turns_of("extract")


def pairs(output: FinalOutput) -> set[Pair]:
    return {(t.aspect_term, t.polarity) for t in output.final_result.final_tuples}


def test_where_the_two_agree_one_call_is_made_and_stands() -> None:
    output, turns = decide([call(FOOD, SERVICE)], SURE, trust=0.5)
    assert (pairs(output), turns) == ({FOOD, SERVICE}, [0])
    opinion = output.meta.selective
    assert opinion is not None and (opinion.outcome, opinion.calls) == ("agreed", 1)
    # The reader is on record and counts as no call; a tuple's confidence is its score.
    assert {c.node for c in output.process_trace} == {"extract", "second_reader"}
    assert output.meta.usage.calls == 1
    assert {a.confidence for a in output.final_result.final_aspects} == {0.95, 0.9}


def test_nothing_found_by_either_is_agreement() -> None:
    output, turns = decide([call()], reader(("food", "positive", 0.2)))
    assert (pairs(output), turns, output.final_result.label) == (set(), [0], "neutral")


@pytest.mark.parametrize(
    ("calls", "seen", "final"),
    [
        # Three calls against a silent analyzer: 0.6 x 3/3 reaches 0.4, 0.6 x 1/3 does not.
        ([[FOOD, SERVICE], [FOOD], [FOOD]], [], {FOOD}),
        # One call and the analyzer: 0.6 / 3 + 0.4 x 0.8 reaches it.
        ([[FOOD, SERVICE], [FOOD], [FOOD]], [(*SERVICE, 0.8)], {FOOD, SERVICE}),
        # Exactly the threshold: 0.6 / 3 + 0.4 x 0.5, and just below it.
        ([[FOOD, SERVICE], [FOOD], [FOOD]], [(*SERVICE, 0.5)], {FOOD, SERVICE}),
        ([[FOOD, SERVICE], [FOOD], [FOOD]], [(*SERVICE, 0.499)], {FOOD}),
        # The analyzer alone: 0.4 x 0.9 does not.
        ([[FOOD], [FOOD], [FOOD]], [(*SERVICE, 0.9)], {FOOD}),
        # Each polarity has a score of its own.
        ([[FLIPPED], [FLIPPED], [FLIPPED]], [(*SERVICE, 0.9)], {FLIPPED}),
        ([[FLIPPED], [SERVICE], []], [(*SERVICE, 0.9)], {SERVICE}),
        ([[FLIPPED, SERVICE], [FLIPPED, SERVICE], [FOOD]], [], {FLIPPED, SERVICE}),
    ],
)
def test_contested_tuples_are_scored(
    calls: list[list[Pair]], seen: list[tuple[str, str, float]], final: set[Pair]
) -> None:
    output, turns = decide([call(*c) for c in calls], reader(*seen), trust=0.4, threshold=0.4)
    assert (pairs(output), turns) == (final, [0, 1, 2])
    opinion = output.meta.selective
    assert opinion is not None and opinion.calls == 3
    assert {(t.aspect_term, t.polarity) for t in opinion.tuples if t.kept} == final
    sure = {(t, p): s for t, p, s in seen}
    for t in opinion.tuples:
        pair = (t.aspect_term, t.polarity)
        votes = sum(pair in c for c in calls)
        assert (t.votes, t.p) == (votes, sure.get(pair, 0.0))
        assert t.score == pytest.approx(0.6 * votes / 3 + 0.4 * t.p, abs=1e-9)
    scores = {(t.aspect_term, t.polarity): t.score for t in opinion.tuples}
    for a in output.final_result.final_aspects:
        assert a.confidence == scores[a.aspect_term, a.polarity]
    # What the extra calls changed is a change of Stage 1.
    stage1 = {(t.aspect_term, t.polarity) for t in output.final_result.stage1_tuples}
    assert stage1 == set(calls[0])


def test_full_trust_makes_no_further_call_and_says_so() -> None:
    output, turns = decide([call(FLIPPED)], reader((*FOOD, 0.5), (*SERVICE, 0.39)), trust=1.0)
    assert (pairs(output), turns) == ({FOOD}, [0])
    assert output.meta.selective is not None
    assert output.meta.selective.outcome == "reader_alone"


def test_in_a_language_without_a_model_the_calls_vote() -> None:
    calls = [call(FOOD), call(FOOD, SERVICE), call(SERVICE, FLIPPED)]
    output, turns = decide(calls, {"tuples": [], "reads_language": False}, trust=1.0)
    assert (pairs(output), turns) == ({FOOD, SERVICE}, [0, 1, 2])
    assert output.meta.selective is not None
    assert (output.meta.selective.trust, output.meta.selective.outcome) == (0.0, "contested")
    assert [(t.votes, t.p) for t in output.meta.selective.tuples] == [(2, 0), (2, 0), (1, 0)]


def test_implicit_tuples_are_decided_by_the_calls_alone() -> None:
    vibe = ("vibe", "positive")
    output, _ = decide([call(FOOD, vibe), call(vibe), call()], SURE, trust=0.6)
    assert pairs(output) == {FOOD, SERVICE, vibe}
    confidence = {a.aspect_term: a.confidence for a in output.final_result.final_aspects}
    assert confidence["vibe"] == pytest.approx(2 / 3)


def test_an_answer_that_names_nothing_is_unnamed_and_no_reason_to_ask_again() -> None:
    nothing = [("NULL", "positive"), ("none", "negative"), (" null ", "neutral"), ("", "positive")]
    output, turns = decide([call(*nothing)], reader())
    unnamed = {(None, polarity) for polarity in ("positive", "negative", "neutral")}
    assert (pairs(output), turns) == (unnamed, [0])


def test_given_aspects_are_all_kept_and_only_their_polarities_fused() -> None:
    calls = [call(FOOD, FLIPPED), call(FOOD, SERVICE), call(FOOD, SERVICE)]
    given = {"given_aspects": ["food", "service", "view"]}
    output, _ = decide(calls, reader((*SERVICE, 0.9)), given=given, trust=0.5)
    assert pairs(output) == {FOOD, SERVICE, ("view", "neutral")}


def test_the_trust_falls_where_the_analyser_does_not_know_the_domain() -> None:
    trusts = []
    for facts in ({}, {"knows_domain": False}):
        output, _ = decide([call()] * 3, reader((*FOOD, 0.9), **facts))
        assert output.meta.selective is not None
        assert output.meta.selective.trust_from == "default"
        trusts.append(output.meta.selective.trust)
    assert trusts == [DEFAULT_TRUST[True], DEFAULT_TRUST[False]]
    assert trusts[1] < trusts[0]


def test_a_model_that_rarely_agrees_is_too_weak() -> None:
    settings = SelectiveSettings()

    def agreeing(matched: int) -> Agreement:
        return Agreement(matched=matched, called=100, reported=100, p_reported=70, p_seen=75)

    # Quality 2 x 70 / (100 + 75) = 0.8; the model's F1 is about 0.3 / sqrt(0.8) = 0.335.
    assert is_too_weak([agreeing(30)], settings)
    assert not is_too_weak([agreeing(55)], settings)
    assert not is_too_weak([], settings)
    assert not is_too_weak([Agreement()], settings)


def test_the_offline_analyser_is_not_compared_with_itself() -> None:
    with pytest.raises(SettingsError, match="compares a language model with the offline analyzer"):
        load_settings(None, {"pipeline.protocol": "selective"})


def test_a_recorded_second_reader_is_replayed_and_a_missing_one_computed() -> None:
    p = PipelineSettings(protocol="selective")
    backend = WithSecondReader(ScriptedBackend({"extract": call(FOOD, SERVICE)}), BackendSettings())
    given = {"text": TEXT, "lang": "en", "domain": "restaurant"}
    output = build(p, backend).invoke(given)["output"]
    answer = next(c for c in output.process_trace if c.node == "second_reader")
    assert answer.backend == "offline" and answer.output["knows_domain"]
    assert {t["aspect_term"] for t in answer.output["tuples"]} >= {"food", "service"}
    # The likeliest polarity of an aspect and the others, with one probability in all.
    food = [t for t in answer.output["tuples"] if t["aspect_term"] == "food"]
    assert len({t["polarity"] for t in food}) == len(food) > 1
    assert [t["reported"] for t in food] == [True] + [False] * (len(food) - 1)
    assert sum(t["probability"] for t in food) <= 1.001
    assert not output.meta.selective or output.meta.selective.trust == DEFAULT_TRUST[True]
    french = build(p, backend).invoke({"text": "Le repas était bon.", "lang": "fr"})["output"]
    assert french.meta.selective and not french.meta.selective.reads_language


def test_a_run_measures_its_trust_on_its_first_texts_and_holds_in_verify(tmp_path: Path) -> None:
    data, traces, out = (tmp_path / name for name in ("data.jsonl", "answers.jsonl", "out"))
    rows = [
        {"uid": f"u{n}", "text": TEXT, "lang": "en", "domain": "restaurant", "aspects": []}
        for n in range(8)
    ]
    data.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    answers = [
        {"uid": r["uid"], "node": "extract", "turn": n, "output": call(FLIPPED)}
        for r in rows
        for n in range(3)
    ]
    traces.write_text("".join(json.dumps(a) + "\n" for a in answers), "utf-8")
    args = ["run", str(data), "--out", str(out), "--config", "selective"]
    args += ["--set", "backend.kind=replay", "--set", f"backend.path={traces}"]
    assert main([*args, "--set", "pipeline.selective.sample=3"]) == 0
    lines = (out / "outputs.jsonl").read_text("utf-8").splitlines()
    opinions = [json.loads(line)["meta"]["selective"] for line in lines]
    # The model never agrees with the analyzer, so it is asked no further after three texts.
    assert [o["trust_from"] for o in opinions] == ["default"] * 3 + ["run"] * 5
    assert [o["outcome"] for o in opinions] == ["contested"] * 3 + ["reader_alone"] * 5
    assert verify(out).ok
    assert main(["evaluate", str(out)]) == 0
    process = json.loads((out / "metrics.json").read_text("utf-8"))["process"]
    assert process["second_opinion_reader_alone_rate"]["rate"] == 5 / 8
    assert process["second_opinion_right"]["calls"]["rate"] == 0.0
