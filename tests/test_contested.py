"""A debate only where Stage 1 and the embedded analyzer differ (`debate.when: contested`)."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    all_say,
    ate,
    atsa,
    atsa_review,
    confirm,
    drop,
    judge,
    pairs,
    pipeline,
    propose,
    said,
    set_polarity,
    turn,
    validator,
    without_latency,
)

from absa import load_settings
from absa.backends.likelihood import with_probabilities
from absa.config import SettingsError
from absa.graph import build, build_switchable
from absa.graph import wiring as shipped_wiring
from absa.metrics.process import ProcessTally
from absa.nodes.agent import render
from absa.runs import RunPlan, run
from absa.runs.verify import verify
from absa.schemas.answers import WeighedJudgeAnswer, WeighedTurnAnswer
from absa.schemas.context import RunContext
from absa.schemas.output import FinalOutput
from absa.schemas.records import GateRecord, Hint
from absa.schemas.settings import PipelineSettings, Settings

TEXT = "The soup was cold, but the waiter was lovely and the evening was long."
SOUP, WAITER, EVENING = ("soup", "negative"), ("waiter", "positive"), ("evening", "positive")
STAGE1: dict[str, Any] = {
    "ate": ate("soup", "waiter"),
    "atsa": atsa((*SOUP, "cold", 0.9), (*WAITER, "lovely", 0.9)),
}
Seen = tuple[str, str, float]


def reader(*seen: Seen, suspected: tuple[Seen, ...] = (), **facts: Any) -> dict[str, Any]:
    tuples = [
        {"aspect_term": t, "polarity": p, "probability": sure, "reported": seen_by == "reported"}
        for seen_by, group in (("reported", seen), ("suspected", suspected))
        for t, p, sure in group
    ]
    return {"tuples": tuples, "reads_language": True, **facts}


BOTH = reader((*SOUP, 0.9), (*WAITER, 0.8))
WITH_EVENING = reader((*SOUP, 0.9), (*WAITER, 0.8), (*EVENING, 0.5))


def settings(**changes: Any) -> PipelineSettings:
    debate = {"when": "contested", **changes.pop("debate", {})}
    return pipeline(debate=debate, **changes)


def held(
    second: dict[str, Any],
    *,
    given: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    **answers: Any,
) -> tuple[FinalOutput, ScriptedBackend]:
    backend = ScriptedBackend({**said(**{**STAGE1, **answers}), "second_reader": second})
    asks = {"text": TEXT, "lang": "en", "uid": "u", **(given or {})}
    output = build(settings(**(changes or {})), backend).invoke(asks)["output"]
    return output, backend


def hints(output: FinalOutput) -> dict[str, list[Hint]]:
    assert output.debate is not None and output.debate.review_context is not None
    return output.debate.review_context.aspect_hints


def test_where_both_agree_neither_debate_nor_stage2_is_held() -> None:
    output, backend = held(BOTH)
    assert {q.node for q in backend.asked} == {"ate", "atsa", "validator", "second_reader"}
    meta = output.meta
    assert (meta.debate_skipped, meta.usage.calls) == ("agreed", 3)
    assert (meta.adopt_decision, meta.adopt_reason) == ("not_adopted", "low_signal")
    assert (meta.gate_decision, meta.stage2_risks) == ("SKIP", None)
    assert output.debate is None and not output.analysis_flags.stage2_executed
    assert pairs(output.final_result.final_tuples) == {SOUP, WAITER}
    assert output.moderator is not None and output.moderator.final_label == "mixed"
    assert output.final_result.stage2_tuples == () and output.stage2_ate is None


@pytest.mark.parametrize(
    ("second", "answers", "reasons"),
    [
        (WITH_EVENING, {}, ("tuples",)),
        (reader((*SOUP, 0.9)), {}, ("tuples",)),
        (reader((*SOUP, 0.9), ("waiter", "neutral", 0.8)), {}, ("tuples",)),
        (BOTH, {"validator": validator("CONTRAST_SCOPE")}, ("risks",)),
        (
            BOTH,
            {"validator": validator(proposals=[propose("DROP_ASPECT", "soup")])},
            ("proposals",),
        ),
        (
            reader((*SOUP, 0.9), ("waiter", "neutral", 0.8)),
            {"atsa": atsa((*SOUP, "cold", 0.9))},
            ("backfilled",),
        ),
        (
            BOTH,
            {"atsa": atsa((*SOUP, "cold", 0.9), (*WAITER, "lovely", 0.9), ("tea", "positive"))},
            ("unanchored",),
        ),
        ({"tuples": [], "reads_language": False}, {}, ("language", "tuples")),
    ],
)
def test_what_speaks_for_a_debate(
    second: dict[str, Any], answers: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    output, backend = held(second, **answers)
    assert output.meta.contest is not None and output.meta.contest.reasons == reasons
    assert output.meta.debate_skipped is None
    # One round, then Stage 2 as ever; the second reader is no call.
    assert [len(backend.turns_of(name)) for name in ("epm", "judge", "ate_review")] == [1, 1, 1]
    assert output.meta.usage.calls == 10


def test_below_its_reporting_bar_the_second_reader_contests_nothing() -> None:
    output, _ = held(reader((*SOUP, 0.9), (*WAITER, 0.8), suspected=((*EVENING, 0.2),)))
    assert output.meta.debate_skipped == "agreed"


def test_without_stage1_tuples_two_empty_sets_agree() -> None:
    output, _ = held(reader(), ate=ate(), atsa=atsa())
    # The contrast rule finds an aspect here, which is a risk.
    assert output.meta.contest is not None and "risks" in output.meta.contest.reasons
    plain, _ = held(reader(), ate=ate(), atsa=atsa(), given={"text": "We came on Monday."})
    assert plain.meta.debate_skipped == "agreed"


def test_speakers_see_what_is_contested_and_not_who_found_it() -> None:
    flipped = reader(("soup", "positive", 0.7), (*WAITER, 0.8), (*EVENING, 0.5))
    _, backend = held(flipped)
    for node in ("epm", "tan", "cj", "judge"):
        shown = backend.inputs_of(node)["stage1"]
        assert [(s["aspect_term"], s["polarity"]) for s in shown["sentiments"]] == [WAITER]
        assert [(t["aspect_term"], t["polarity"]) for t in shown["contested"]] == [
            SOUP,
            ("soup", "positive"),
            EVENING,
        ]
        asked = next(q for q in backend.asked if q.node == node)
        told = json.loads(render(asked.inputs))["stage1"]["contested"]
        # Equal forms: nothing tells a tuple of Stage 1 from one of the second reader.
        assert all(t.keys() <= {"aspect_term", "polarity", "evidence"} for t in told)
        assert "contested" in asked.system
        words = asked.system + asked.user
        assert "second_reader" not in words and "0.7" not in words.partition('"stage1"')[2]


def test_a_debate_about_a_risk_sees_stage1_as_ever() -> None:
    _, backend = held(BOTH, validator=validator("CONTRAST_SCOPE"))
    assert "contested" not in backend.inputs_of("epm")["stage1"]
    assert len(backend.inputs_of("epm")["stage1"]["sentiments"]) == 2


def test_the_second_reader_is_a_hint_that_no_agent_sees() -> None:
    output, backend = held(
        reader(
            (*SOUP, 0.9), (*WAITER, 0.8), (*EVENING, 0.5), suspected=(("soup", "positive", 0.1),)
        ),
        epm=turn(set_polarity("evening", "positive", evidence="long")),
        atsa_review=atsa_review(("soup", "maintain"), ("evening", "maintain")),
    )
    witness = {
        (name, h.polarity_hint): h.weight
        for name, every in hints(output).items()
        for h in every
        if (h.speaker, h.op) == ("second_reader", "witness")
    }
    assert witness == {
        SOUP: pytest.approx(0.72),
        ("soup", "positive"): pytest.approx(0.08),
        WAITER: pytest.approx(0.64),
        EVENING: pytest.approx(0.4),
    }
    # The debate's aspects come first, and its own hints before those of the second reader.
    assert [h.speaker for h in hints(output)["evening"]] == ["epm", "second_reader"]
    assert next(iter(hints(output))) == "evening"
    for node in ("ate_review", "atsa_review"):
        view = backend.inputs_of(node)["review_context"]
        assert list(view["aspect_hints"]) == ["evening"]
        assert [h["speaker"] for h in view["aspect_hints"]["evening"]] == ["epm"]
    assert "second_reader" not in json.dumps(
        dict(backend.inputs_of("validator_review")), default=str
    )
    stats = output.debate.review_context.mapping_stats  # type: ignore[union-attr]
    assert (stats.direct, stats.none) == (0, 1)


def test_its_weight_is_a_setting() -> None:
    output, _ = held(WITH_EVENING, changes={"debate": {"hint_weights": {"second_reader": 2.0}}})
    assert hints(output)["soup"][-1].weight == pytest.approx(1.8)


def gate(output: FinalOutput, name: str) -> GateRecord:
    return next(r for r in output.meta.override_gate if r.aspect == name)


def test_the_second_reader_tips_the_gate() -> None:
    """0.5 x 2 from two speakers is below 1.6; with 0.8 x 0.9 it is above."""
    edit = turn(set_polarity("evening", "positive", evidence="evening was long"))
    answers: dict[str, Any] = {
        "epm": edit,
        "cj": edit,
        "judge": judge(spans=["evening was long"], tuples=[SOUP, WAITER, EVENING]),
    }
    doubtful, _ = held(WITH_EVENING, **answers)
    assert gate(doubtful, "evening").verdict == "low_signal"
    sure, _ = held(reader((*SOUP, 0.9), (*WAITER, 0.8), (*EVENING, 0.9)), **answers)
    record = gate(sure, "evening")
    assert (record.verdict, record.pos_score) == ("add", pytest.approx(1.72))
    assert sure.meta.adopt_decision == "adopted"
    assert pairs(sure.final_result.final_tuples) == {SOUP, WAITER, EVENING}


@pytest.mark.parametrize(
    ("edit", "weight"),
    [
        (set_polarity("soup", "positive", evidence="cold"), 0.5),
        (set_polarity("soup", "positive", evidence="hot"), None),
        (set_polarity("soup", "positive"), None),
        (set_polarity("soup", "positive", evidence=" "), None),
        (drop("soup"), None),
        (drop("soup", evidence="cold"), 0.8),
        (confirm("soup", "negative"), 0.5),
        # The probability of the word that names the polarity or the drop.
        (set_polarity("soup", "positive", evidence="cold", word_probability=0.6), 0.3),
        (drop("soup", evidence="cold", word_probability=0.5), 0.4),
    ],
)
def test_an_edit_needs_evidence_and_counts_by_its_probability(
    edit: dict[str, Any], weight: float | None
) -> None:
    output, _ = held(WITH_EVENING, epm=turn(edit), judge=judge(edit))
    spoken = [h for h in hints(output).get("soup", []) if h.op != "witness"]
    if weight is None:
        assert spoken == []
    else:
        scale = weight / (0.8 if edit["op"] == "drop_tuple" else 0.5)
        assert [h.weight for h in spoken] == pytest.approx([weight, 0.8 * scale])
    # Elsewhere an edit counts as it ever did.
    always = ScriptedBackend(said(**STAGE1, epm=turn(edit)))
    plain = build(PipelineSettings(), always).invoke({"text": TEXT, "lang": "en"})["output"]
    assert [h.weight for h in hints(plain)["soup"]] == [0.8 if edit["op"] == "drop_tuple" else 0.5]


def tokens(*words: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"token": word, "logprob": math.log(p)} for word, p in words]


def test_a_server_tells_how_likely_a_word_of_an_edit_was() -> None:
    output = {
        "proposed_edits": [
            {"op": "set_polarity", "target": {"aspect_ref": "soup"}, "value": "negative"},
            {"op": "drop_tuple", "target": {"aspect_ref": "tea"}, "value": None},
            {"op": "set_aspect_ref", "target": {"aspect_ref": "it"}, "value": "soup"},
            {"op": "set_polarity", "value": "negative", "word_probability": 1.0},
        ]
    }
    told = tokens(
        ('{"proposed_edits":[{"op":"', 1.0),
        ("set_polarity", 0.5),
        ('","target":{"aspect_ref":"soup"},"value":"', 1.0),
        ("neg", 0.8),
        ("ative", 0.5),
        ('"},{"op":"', 1.0),
        ("drop_tuple", 0.7),
        ('","target":{"aspect_ref":"tea"},"value":null},{"op":"set_aspect_ref","target":', 1.0),
        ('{"aspect_ref":"it"},"value":"', 1.0),
        ("soup", 0.9),
        ('"}]}', 1.0),
    )
    for answer in (WeighedTurnAnswer, WeighedJudgeAnswer):
        key = "final_patch" if answer is WeighedJudgeAnswer else "proposed_edits"
        edits = with_probabilities({key: output["proposed_edits"]}, answer, told)[key]
        # The last word was not written: a number that the model made up is none.
        assert [e.get("word_probability") for e in edits] == [0.4, 0.7, None, None]


def test_given_aspects_are_compared_alone() -> None:
    second = reader((*SOUP, 0.9), (*WAITER, 0.8), (*EVENING, 0.9))
    output, _ = held(second, given={"given_aspects": ["soup", "waiter"]})
    assert output.meta.debate_skipped == "agreed"
    output, _ = held(second, given={"given_aspects": ["soup", "waiter", "evening"]})
    assert output.meta.contest is not None
    assert output.meta.contest.reasons == ("tuples", "backfilled")


def test_in_prose_too() -> None:
    prose: dict[str, Any] = {
        name: {"speaker": name, "stance": "con", "message": "the evening was long"}
        for name in ("analyst", "critic", "empath")
    }
    output, backend = held(
        WITH_EVENING,
        changes={"debate": {"protocol": "persona"}},
        **prose,
        judge={"winner": "critic", "consensus": "mixed"},
    )
    assert backend.turns_of("analyst") == [0]
    assert [h.speaker for h in hints(output)["evening"]][-1] == "second_reader"
    assert "contested" in backend.inputs_of("critic")["stage1"]


@pytest.mark.parametrize("second", [BOTH, WITH_EVENING])
@pytest.mark.parametrize("changes", [{}, {"enable_moderator": False}, {"stage1": "joint"}])
def test_in_every_form_of_the_graph(second: dict[str, Any], changes: dict[str, Any]) -> None:
    joint = {
        "tuples": [
            {"aspect_term": t, "polarity": p, "evidence": e, "confidence": 0.9}
            for (t, p), e in ((SOUP, "cold"), (WAITER, "lovely"))
        ]
    }
    answers = {**said(**STAGE1, **all_say("evening", "positive")), "second_reader": second}
    answers["extract"] = joint
    p, given = settings(**changes), {"text": TEXT, "lang": "en", "uid": "u"}
    fixed = build(p, ScriptedBackend(answers)).invoke(given)["output"]
    direct = shipped_wiring(p).direct(ScriptedBackend(answers)).invoke(given)["output"]
    switchable = build_switchable(p, ScriptedBackend(answers)).invoke(given)["output"]
    assert without_latency(fixed) == without_latency(direct) == without_latency(switchable)
    # Without a debate the second reader is not asked, in no form.
    off = build_switchable(p, ScriptedBackend(answers)).invoke(
        given, context=RunContext(enable_debate=False)
    )["output"]
    assert off.meta.contest is None and off.analysis_flags.stage2_executed
    alone = build(settings(**changes, enable_debate=False), ScriptedBackend(answers))
    assert without_latency(off) == without_latency(alone.invoke(given)["output"])


def test_skipping_is_an_edge_of_its_own() -> None:
    edges = build(settings(), ScriptedBackend({})).get_graph().edges
    found = {(e.source, e.target) for e in edges}
    assert {("compare_stage1", "skip_agreed"), ("skip_agreed", "moderator")} <= found
    assert {("compare_stage1", "contested"), ("contested", "epm")} <= found


def test_a_contested_run_is_verified_and_counted(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    texts = {"agreed": BOTH, "contested": WITH_EVENING}
    data.write_text(
        "".join(json.dumps({"uid": u, "text": TEXT, "lang": "en"}) + "\n" for u in texts), "utf-8"
    )

    recorded = tmp_path / "answers.jsonl"
    recorded.write_text(
        "".join(
            json.dumps({"uid": uid, "node": node, "turn": 0, "output": answer}) + "\n"
            for uid, second in texts.items()
            for node, answer in {**said(**STAGE1), "second_reader": second}.items()
        ),
        "utf-8",
    )
    backend = {"kind": "replay", "path": str(recorded)}
    chosen = Settings.model_validate({"pipeline": settings(), "backend": backend})
    plan = RunPlan(data=data, out=tmp_path / "run", settings=chosen)
    asyncio.run(run(plan))
    report = verify(plan.out)
    assert [c for c in report.checks if c.violations] == []
    tally = ProcessTally()
    for line in (plan.out / "scorecards.jsonl").read_text("utf-8").splitlines():
        tally.add(json.loads(line))
    skipped = tally.summary()["debate_skipped_rate"]
    assert (skipped["numerator"], skipped["denominator"]) == (1, 2)


def test_the_shipped_config_and_what_is_refused() -> None:
    shipped = load_settings("debate_contested", {"backend.kind": "replay", "backend.path": "x"})
    assert shipped.pipeline.debate.when == "contested" and shipped.pipeline.asks_second_reader
    for refused, why in (
        ({"backend.kind": "offline"}, "compares a language model with the offline analyzer"),
        ({"pipeline.debate.rounds": 2}, "one round"),
    ):
        with pytest.raises(SettingsError, match=why):
            load_settings("debate_contested", refused)
    # Where no debate is held there is nothing to compare.
    load_settings("debate_contested", {"backend.kind": "offline", "pipeline.enable_debate": False})
    prose = load_settings("debate_contested", {"pipeline.debate.protocol": "persona"})
    assert prose.pipeline.debate.rounds == 1
