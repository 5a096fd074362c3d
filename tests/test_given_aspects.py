"""Aspects that the user gives: judged as they are, none added, none lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    all_say,
    ate_review,
    atsa,
    atsa_review,
    judge,
    pairs,
    pipeline,
    propose,
    said,
    set_polarity,
    validator,
)

from absa import analyze
from absa.cli import run as absa
from absa.graph import build
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput

TEXT = "음식은 맛있지만 서비스는 느려요."
FOOD_AND_SERVICE = atsa(
    ("음식", "positive", "맛있지만", 0.9),
    ("서비스", "negative", "느려요", 0.9),
    ("분위기", "positive", "맛있지만", 0.9),
)


def judged(given: list[str] | None, answers: dict[Any, Any], **changes: Any) -> FinalOutput:
    graph = build(pipeline(**changes), ScriptedBackend(answers))
    output: FinalOutput = graph.invoke({"text": TEXT, "given_aspects": given})["output"]
    return output


def asked(output: FinalOutput) -> list[str]:
    return [call.node for call in output.process_trace]


def test_the_edge_leads_past_ate_and_the_rest_is_the_same_graph() -> None:
    output = judged(["서비스", "가격"], said(atsa=FOOD_AND_SERVICE))
    assert pairs(output.final_result.final_tuples) == {
        ("서비스", "negative"),
        ("가격", "neutral"),
    }
    assert "ate" not in asked(output)
    assert {"atsa", "validator", "epm", "judge", "ate_review", "validator_review"} <= set(
        asked(output)
    )
    assert output.meta.given_aspects == ["서비스", "가격"]


def test_no_given_aspects_is_not_the_same_as_none_given() -> None:
    assert "ate" in asked(judged(None, said(atsa=FOOD_AND_SERVICE)))
    nothing = judged([], said(atsa=FOOD_AND_SERVICE))
    assert "ate" not in asked(nothing)
    assert nothing.final_result.final_tuples == ()


def test_given_terms_stand_in_the_users_words_each_once() -> None:
    output = judged(["음식은", " 음식 ", "서비스"], said(atsa=FOOD_AND_SERVICE))
    assert [a.aspect_term for a in output.final_result.final_aspects] == ["음식은", "서비스"]


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ({"validator": validator(proposals=[propose("DROP_ASPECT", "음식")])}, "DROP_ASPECT"),
        ({"ate_review": ate_review(("음식", "drop"))}, "drop"),
        ({"ate_review": ate_review(("분위기", "add"))}, "add"),
        ({"atsa_review": atsa_review(("음식", "drop"))}, "drop"),
    ],
)
def test_no_review_takes_an_aspect_away_or_adds_one(answers: dict[str, Any], what: str) -> None:
    output = judged(["음식", "서비스"], said(atsa=FOOD_AND_SERVICE, **answers))
    assert pairs(output.final_result.final_tuples) == {
        ("음식", "positive"),
        ("서비스", "negative"),
    }
    (entry,) = output.meta.correction_applied_log
    assert (entry.proposal_type, entry.applied, entry.reason) == (what, False, "aspect_given")


def test_a_review_may_still_change_what_is_felt() -> None:
    answers = said(
        atsa=FOOD_AND_SERVICE,
        validator=validator("NEGATION"),
        atsa_review=atsa_review(("음식", "flip_polarity", "negative")),
    )
    output = judged(["음식"], answers, override={"ev_threshold": 0.0})
    assert ("음식", "negative") in pairs(output.final_result.stage2_tuples)


def test_the_debate_cannot_bring_in_another_aspect() -> None:
    answers = said(
        atsa=FOOD_AND_SERVICE,
        **all_say("분위기", "positive"),
        judge=judge(set_polarity("분위기", "positive"), spans=["맛있지만"], label="mixed"),
    )
    output = judged(["음식"], answers)
    assert output.meta.override_gate == ()
    assert output.meta.mapping_fail_reasons.no_match == 3
    assert pairs(output.final_result.final_tuples) == {("음식", "positive")}


def test_the_baselines_judge_given_aspects_too() -> None:
    extract = {
        "tuples": [
            {"aspect_term": "음식", "polarity": "positive", "evidence": "맛있지만"},
            {"aspect_term": "분위기", "polarity": "positive", "evidence": "맛있지만"},
        ]
    }
    output = judged(["음식", "서비스"], {"extract": extract}, protocol="single")
    assert pairs(output.final_result.final_tuples) == {
        ("음식", "positive"),
        ("서비스", "neutral"),
    }


@pytest.mark.parametrize("wrong", ["음식", [1], [" "]])
def test_wrong_given_aspects_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="given_aspects"):
        judged(wrong, said(atsa=FOOD_AND_SERVICE))


def test_agents_see_the_given_aspects_and_nothing_changes_without_them() -> None:
    seen: list[str] = []

    class Listening(ScriptedBackend):
        def ask(self, question: Any) -> Any:
            seen.append(question.user)
            return super().ask(question)

    build(pipeline(), Listening(said(atsa=FOOD_AND_SERVICE))).invoke({"text": TEXT})
    assert not any("given_aspects" in user for user in seen)
    seen.clear()
    build(pipeline(), Listening(said(atsa=FOOD_AND_SERVICE))).invoke(
        {"text": TEXT, "given_aspects": ["음식"]}
    )
    assert all(json.loads(user)["given_aspects"] == ["음식"] for user in seen)


def test_the_offline_analyser_judges_what_it_is_asked_about() -> None:
    output = analyze(TEXT, given_aspects=["서비스", "음식"])
    assert pairs(output.final_result.final_tuples) == {
        ("음식", "positive"),
        ("서비스", "negative"),
    }


def test_analyze_takes_aspects(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["analyze", TEXT, "--aspects", "음식,서비스", "--json"]) == 0
    output = FinalOutput.model_validate_json(capsys.readouterr().out)
    assert [a.aspect_term for a in output.final_result.final_aspects] == ["음식", "서비스"]


def test_samples_without_gold_aspects_get_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "bare.jsonl"
    data.write_text('{"text": "The food is good."}\n', encoding="utf-8")
    assert absa(["run", str(data), "--out", str(tmp_path / "run"), "--given-aspects"]) == 0
    assert "note: 1 of 1 samples have no gold aspects" in capsys.readouterr().err


def test_a_run_takes_the_terms_of_the_gold_and_never_their_polarity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "gold.jsonl"
    row = {
        "uid": "a",
        "text": TEXT,
        "lang": "ko",
        "aspects": [
            {"term": "서비스", "from": 9, "to": 12, "polarity": "positive"},
            {"term": None, "from": None, "to": None, "polarity": "negative"},
        ],
    }
    data.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    out, again = tmp_path / "run", tmp_path / "again"
    assert absa(["run", str(data), "--out", str(out), "--given-aspects"]) == 0
    output = json.loads((out / "outputs.jsonl").read_text(encoding="utf-8"))
    (only,) = output["final_result"]["final_tuples"]
    assert (only["aspect_term"], only["polarity"]) == ("서비스", "negative")
    # It is another run than one that searches, it verifies, and it can be replayed.
    capsys.readouterr()
    assert absa(["run", str(data), "--out", str(out)]) == 2
    assert "given_aspects" in capsys.readouterr().err
    assert absa(["verify", str(out)]) == 0
    assert absa(["replay", str(out), "--out", str(again)]) == 0
    replayed = json.loads((again / "outputs.jsonl").read_text(encoding="utf-8"))
    assert replayed["final_result"] == output["final_result"]
