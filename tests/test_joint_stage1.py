"""Stage 1 by one joint question, and the rules about names in its separate answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend, ate, atsa, decide, judge, pairs, pipeline, said, validator

from absa.graph import build, build_switchable
from absa.graph import wiring as shipped_wiring
from absa.nodes.language import language
from absa.nodes.names import separate_answers
from absa.nodes.polarity import PolarityCounter
from absa.runs import RunPlan, run
from absa.runs.verify import verify
from absa.schemas.answers import AteAnswer, AtsaAnswer
from absa.schemas.records import Counts
from absa.schemas.settings import PipelineSettings, Settings

TEXT = "Really great service, but the soup was cold and pricey."
SERVICE, SOUP = ("service", "positive"), ("soup", "negative")
JOINT = pipeline(stage1="joint")


def joint(*tuples: tuple[str | None, str, str] | dict[str, Any]) -> dict[str, Any]:
    names = ("aspect_term", "polarity", "evidence")
    return {
        "tuples": [
            t if isinstance(t, dict) else {**dict(zip(names, t, strict=True)), "confidence": 0.9}
            for t in tuples
        ]
    }


ONE_ANSWER = joint(("great service", "positive", "Really great"), ("soup", "negative", "cold"))


def without_ate(**answers: Any) -> dict[Any, Any]:
    every = said(**answers)
    return {node: answer for node, answer in every.items() if node not in ("ate", "atsa")}


@pytest.mark.parametrize(
    ("terms", "sentiments", "named", "counts"),
    [
        # Cut by the evidence of the sentiment with the same key; both lists get the name.
        (
            ["Great Service"],
            [("great service", "positive", "really great")],
            [("service", "service")],
            (1, 0),
        ),
        (["service"], [("great service", "positive", "great")], [("service", "service")], (0, 0)),
        # An adjective names nothing, alone or judged by itself; one that is only mentioned may.
        (["tasty"], [("tasty", "positive", "tasty")], [], (0, 1)),
        (["tasty"], [], [], (0, 1)),
        (["menu"], [("menu", "neutral", "menu")], [("menu", "menu")], (0, 0)),
        # What is not quoted in front of it stays part of the name.
        (["hot dog"], [("hot dog", "positive", "tasty")], [("hot dog", "hot dog")], (0, 0)),
        # One of two sentiments shows it.
        (
            ["great service"],
            [("great service", "positive", "great"), ("great service", "negative", "slow")],
            [("service", "service")],
            (1, 0),
        ),
    ],
)
def test_names_of_separate_answers(
    terms: list[str],
    sentiments: list[tuple[str, str, str]],
    named: list[tuple[str, str]],
    counts: tuple[int, int],
) -> None:
    counter = PolarityCounter()
    a, s = separate_answers(
        AteAnswer.model_validate(ate(*terms)),
        AtsaAnswer.model_validate(atsa(*sentiments)),
        language("en"),
        counter,
    )
    assert [item.term for item in a.aspects] == [name for name, _ in named]
    # What has only an adjective for a name stays apart, under that name.
    refs = {item.aspect_ref for item in s.aspect_sentiments} - {"tasty"}
    assert refs == {ref for _, ref in named}
    assert counter.counts() == Counts(name_cut_count=counts[0], name_refused_count=counts[1])


def test_the_debate_reads_names_as_a_joint_answer_does() -> None:
    answers = said(
        ate=ate("great service", {"term": "soup", "name_probability": 0.9}, "tasty")
        | {"note": None},
        atsa=atsa(
            ("great service", "positive", "Really great", 0.9), ("soup", "negative", "cold", 0.9)
        ),
    )
    output = decide(TEXT, answers, lang="en")
    assert pairs(output.final_result.stage1_tuples) == {SERVICE, SOUP}
    meta = output.meta
    assert (meta.name_cut_count, meta.name_refused_count, meta.name_unlikely_count) == (1, 1, 0)


def test_joint_asks_one_question_for_both_places() -> None:
    answers = without_ate(
        extract=ONE_ANSWER, validator=validator("CONTRAST_SCOPE"), judge=judge(label="mixed")
    )
    backend = ScriptedBackend(answers)
    output = build(JOINT, backend).invoke({"text": TEXT, "lang": "en"})["output"]
    assert pairs(output.final_result.stage1_tuples) == {SERVICE, SOUP}
    assert output.meta.usage.calls == JOINT.debate_calls == PipelineSettings().debate_calls - 1 == 9
    assert backend.turns_of("extract") == [0]
    assert not {"ate", "atsa"} & {q.node for q in backend.asked}
    # The debate and the reviewers see the same Stage 1 as ever.
    shown = backend.inputs_of("epm")["stage1"]["sentiments"]
    assert [(s["aspect_term"], s["polarity"]) for s in shown] == [SERVICE, SOUP]
    assert output.meta.stage1_risks == 1


def test_joint_backfills_nothing_and_keeps_the_rules_of_stage1() -> None:
    unlikely = {"aspect_term": "soup", "polarity": "negative", "name_probability": 0.1}
    one = joint(("service", "positiv", "great"), unlikely, (None, "negative", "pricey"))
    output = decide(TEXT, without_ate(extract=one), JOINT, lang="en")
    # What names nothing is an aspect without a term; what the model held for unlikely goes.
    assert pairs(output.final_result.stage1_tuples) == {SERVICE, (None, "negative")}
    assert output.meta.unanchored_count == 1
    assert (output.meta.name_unlikely_count, output.meta.polarity_repair_count) == (1, 1)
    # The contrast rule holds as in separate answers, and is a risk.
    single = decide(TEXT, without_ate(extract=joint(SERVICE + ("great",))), JOINT, lang="en")
    assert len(single.final_result.stage1_tuples) == 2
    assert single.meta.stage1_risks == 1


def test_joint_judges_given_aspects_in_the_words_of_the_user() -> None:
    graph = build(JOINT, ScriptedBackend(without_ate(extract=ONE_ANSWER)))
    given = ["great service", "price"]
    output = graph.invoke({"text": TEXT, "lang": "en", "given_aspects": given})["output"]
    found = pairs(output.final_result.stage1_tuples)
    assert found == {("great service", "positive"), ("price", "neutral")}


def test_joint_in_every_form_of_the_graph() -> None:
    answers = without_ate(extract=ONE_ANSWER)
    given = {"text": TEXT, "lang": "en", "uid": "u"}
    fixed = build(JOINT, ScriptedBackend(answers)).invoke(given)["output"]
    direct = shipped_wiring(JOINT).direct(ScriptedBackend(answers)).invoke(given)["output"]
    switchable = build_switchable(JOINT, ScriptedBackend(answers)).invoke(given)["output"]
    assert fixed.final_result == direct.final_result == switchable.final_result
    nodes = build(JOINT, ScriptedBackend(answers)).get_graph().nodes
    assert "extract" in nodes and not {"ate", "atsa"} & nodes.keys()


def test_a_joint_run_is_verified(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"uid": "u", "text": TEXT, "lang": "en"}) + "\n", "utf-8")
    answers = without_ate(extract=ONE_ANSWER)
    plan = RunPlan(data=data, out=tmp_path / "run", settings=Settings(pipeline=JOINT))
    asyncio.run(run(plan, backend_for=lambda backend: ScriptedBackend(answers)))
    assert [c for c in verify(plan.out).checks if c.violations] == []
    traces = (plan.out / "traces.jsonl").read_text("utf-8")
    (plan.out / "traces.jsonl").write_text(traces.replace('"soup"', '"cold"'), "utf-8")
    assert "S1" in {c.name for c in verify(plan.out).checks if c.violations}
