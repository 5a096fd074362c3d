"""Conflict reviews as runs: batches, replay, verification, metrics, screens and comparisons."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend

from absa import analyze
from absa.cli import run as absa
from absa.config import load_settings
from absa.metrics import evaluate
from absa.metrics.conflict import fleiss_kappa
from absa.runs import RunPlan, run
from absa.runs.verify import VerifyReport, verify
from absa.schemas.backend import Ask, Reply
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings
from absa.show import adoption, events, origin

Json = dict[str, Any]
TEXT = "사용감은 좋지만 가격은 비싸요."
FEEL = {"aspect_term": "사용감", "polarity": "positive", "evidence": "좋지만", "confidence": 0.9}
PRICE = {"aspect_term": "가격", "polarity": "negative", "evidence": "비싸요", "confidence": 0.8}
WRONG = {**PRICE, "polarity": "positive", "confidence": 0.6}


def action(kind: str, *targets: str, reason: str = "NEGATION_SCOPE", **value: str) -> Json:
    return {
        "action_type": kind,
        "target_tuple_ids": list(targets),
        "new_value": value or None,
        "reason_code": reason,
    }


FLIP = action("FLIP", "t2", polarity="negative")
DROP = action("DROP", "t2", reason="WEAK_EVIDENCE")


def said(*reviews: list[Json]) -> Json:
    """t0 사용감, t1 and t2 가격; with reviews, t2 contradicts t1 and the reviewers speak."""
    answers = {
        "p_neg": {"triplets": [FEEL, PRICE]},
        "p_imp": {"triplets": []},
        "p_lit": {"triplets": [WRONG if reviews else PRICE]},
    }
    names = ("review_a", "review_b", "review_c")
    return answers | {n: {"review_actions": r} for n, r in zip(names, reviews, strict=False)}


SCRIPTS = {
    "agreed": said(),
    "flipped": said([FLIP], [FLIP], []),
    "dropped": said([DROP], [], [DROP]),
    "torn": said([FLIP], [DROP], [action("KEEP", "t2")]),
    "open": said([FLIP], [action("FLIP", "t2", polarity="neutral")], []),
    "kept": said([action("FLAG", "t2", reason="POLARITY_UNCERTAIN")], [], [action("DROP", "t0")]),
}
GOLD = [
    {"term": "사용감", "from": 0, "to": 3, "polarity": "positive"},
    {"term": "가격", "from": 9, "to": 11, "polarity": "negative"},
]


class ByUid:
    """A script per sample."""

    def __init__(self) -> None:
        self._scripts = {uid: ScriptedBackend(answers) for uid, answers in SCRIPTS.items()}

    def ask(self, question: Ask) -> Reply:
        return self._scripts[question.uid].ask(question)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.jsonl"
    rows = ({"uid": uid, "text": TEXT, "lang": "ko", "aspects": GOLD} for uid in SCRIPTS)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def good(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("good") / "run"
    plan = RunPlan(data=data, out=out, settings=load_settings("conflict_review"))
    report = asyncio.run(run(plan, backend_for=lambda settings: ByUid()))
    assert report.totals.failed == 0
    return out


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def outputs(run_dir: Path) -> dict[str, FinalOutput]:
    lines = (run_dir / "outputs.jsonl").read_text("utf-8").splitlines()
    return {o.uid: o for o in map(FinalOutput.model_validate_json, lines)}


# Verification ------------------------------------------------------------------------------------


def found(report: VerifyReport) -> dict[str, set[str | None]]:
    return {c.name: {v.uid for v in c.violations} for c in report.checks if c.violations}


def test_a_good_run_passes_every_check(good: Path) -> None:
    report = verify(good)
    assert (found(report), report.notes, report.ok) == ({}, [], True)
    checked = {check.name: check.checked for check in report.checks}
    assert checked["S1"] == checked["S2"] == len(SCRIPTS)
    # One without a doubt: three calls; the others six.
    assert checked["S6"] == 3 + 6 * (len(SCRIPTS) - 1)
    assert (checked["S3"], checked["S4"]) == (0, 3)


def _flip_back(output: Json) -> None:
    output["final_result"]["final_aspects"].append(
        {**output["final_result"]["final_aspects"][1], "polarity": "positive"}
    )


def _unflag(output: Json) -> None:
    output["meta"]["conflict_flags"] = []


def _other_candidate(output: Json) -> None:
    output["meta"]["candidates"][2]["polarity"] = "neutral"


def _never_said(output: Json) -> None:
    output["meta"]["review_actions"][0]["action_type"] = "KEEP"


def _ghost(output: Json) -> None:
    output["meta"]["arbiter_actions"][0]["applied"] = True


@pytest.mark.parametrize(
    ("damage", "check", "says"),
    [
        (_flip_back, "S4", "make other tuples than final_aspects show"),
        (_unflag, "S1", "aspects with two polarities"),
        (_other_candidate, "S1", "the perspectives gave"),
        (_never_said, "S1", "counts for A, who did not ask for it"),
        (_ghost, "S4", "is marked applied: that is wrong"),
    ],
)
def test_whatever_is_changed_afterwards_is_found(
    copy: Path, damage: Callable[[Json], None], check: str, says: str
) -> None:
    path = copy / "outputs.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    damage(next(line for line in lines if line["uid"] == "flipped"))
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in lines), "utf-8")
    report = verify(copy)
    whats = [v.what for v in report.check(check).violations if v.uid == "flipped"]
    assert any(says in what for what in whats), whats
    assert {uid for uids in found(report).values() for uid in uids} == {"flipped"}


# Replay ------------------------------------------------------------------------------------------


def test_a_replay_decides_the_same(good: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert absa(["replay", str(good), "--out", str(again)]) == 0
    for uid, output in outputs(again).items():
        assert output.final_result == outputs(good)[uid].final_result
        assert output.meta.arbiter_actions == outputs(good)[uid].meta.arbiter_actions
    assert verify(again).ok


# Metrics -----------------------------------------------------------------------------------------


def fraction(rate: Json) -> tuple[int, int]:
    return rate["numerator"], rate["denominator"]


def test_process_metrics_say_what_was_in_doubt_and_what_was_done(good: Path) -> None:
    process = evaluate(good)["process"]
    assert fraction(process["conflict_detection_rate"]) == (5, 6)
    assert fraction(process["review_rate"]) == (5, 6)
    # Flipped, dropped and torn (whose FLIP has a structural reason) have one polarity left.
    assert fraction(process["conflict_resolved_rate"]) == (3, 5)
    # Two tuples of each contested sample were reviewed by three reviewers.
    assert fraction(process["flagged_tuple_rate"]) == (10, 18)
    assert fraction(process["review_action_rate"]) == (2 + 2 + 2 + 2, 30)
    assert fraction(process["discarded_action_rate"]) == (1, 11)
    assert fraction(process["arbiter_intervention_rate"]) == (2, 10)
    assert fraction(process["arbiter_cases"]["flip_drop_keep"]) == (1, 10)
    assert fraction(process["arbiter_cases"]["no_majority"]) == (1, 10)
    assert fraction(process["reviewed_tuple_change_rate"]) == (3, 10)
    assert fraction(process["marked_tuple_rate"]) == (2, 10)
    assert fraction(process["change_rate"]) == (3, 6)
    assert fraction(process["guided_change_rate"]) == (3, 6)


def test_what_the_review_fixed_is_counted(good: Path) -> None:
    became = evaluate(good)["quality"]["changes"]["strict"]
    assert fraction(became["fix"]) == (3, 6)
    assert fraction(became["keep"]) == (1, 6)


def test_the_longest_chain_is_two_calls(good: Path) -> None:
    cost = evaluate(good)["cost"]
    assert cost["longest_chain_of_calls"] == 2


def test_arbiter_rules_that_never_fired_are_dead_gates(good: Path) -> None:
    gates = {g["gate"]: (g["reached"], g["fired"]) for g in evaluate(good)["gates"]}
    assert gates == {
        "arbiter.majority": (10, 8),
        "arbiter.flip_drop_keep": (2, 1),
        "arbiter.no_majority": (1, 1),
    }


def test_a_debate_has_no_metrics_of_a_conflict_review(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "debate"
    asyncio.run(run(RunPlan(data=data, out=out, settings=load_settings(None), limit=2)))
    metrics = evaluate(out)
    assert "conflict_detection_rate" not in metrics["process"]
    assert not any("conflict_review" in name for name in metrics["vacuous_metrics"])


@pytest.mark.parametrize(
    ("votes", "kappa"),
    [
        ([], None),
        ([("KEEP", "KEEP", "KEEP")], None),
        ([("KEEP", "KEEP", "KEEP"), ("FLIP", "FLIP", "FLIP")], 1.0),
        ([("KEEP", "FLIP", "DROP"), ("FLIP", "DROP", "KEEP")], -0.5),
    ],
)
def test_agreement_of_the_reviewers(votes: list[tuple[str, ...]], kappa: float | None) -> None:
    assert fleiss_kappa(votes) == (kappa if kappa is None else pytest.approx(kappa))


def test_agreement_stands_in_the_metrics(good: Path) -> None:
    agreement = evaluate(good)["process"]["reviewer_agreement"]
    assert agreement["tuples"] == 10
    assert agreement["fleiss_kappa"] == pytest.approx(_kappa_by_hand(), abs=1e-12)


def _kappa_by_hand() -> float:
    keep3, flip2, drop2 = (3, 0, 0), (1, 2, 0), (1, 0, 2)
    rows = [keep3] * 5 + [flip2, drop2, (1, 1, 1), flip2, keep3]
    agree = sum((sum(n * n for n in row) - 3) / 6 for row in rows) / len(rows)
    chance = sum((sum(row[k] for row in rows) / 30) ** 2 for k in range(3))
    return (agree - chance) / (1 - chance)


# Screens -----------------------------------------------------------------------------------------


def told(output: FinalOutput) -> list[str]:
    return [f"{e.kind} {e}" for e in events(output, OverrideSettings())]


def test_what_became_of_a_tuple_is_told_in_words(good: Path) -> None:
    made = outputs(good)
    assert told(made["agreed"]) == []
    assert told(made["flipped"]) == [
        "changed 가격: the reviewers changed positive to negative (negation scope)"
    ]
    assert told(made["dropped"]) == [
        "changed 가격: the reviewers dropped it as positive (weak evidence)"
    ]
    assert told(made["open"]) == [
        "refused 가격: kept as positive, marked as uncertain: no two reviewers agreed"
    ]
    assert told(made["kept"])[1] == (
        "refused reviewer C: DROP of t0 was discarded, the tuple was not flagged for review"
    )


def test_the_last_word_says_how_much_was_in_doubt(good: Path) -> None:
    made, limits = outputs(good), OverrideSettings()
    assert adoption(made["agreed"], limits) == (
        "nothing was in doubt, so the reviewers were not asked"
    )
    assert adoption(made["open"], limits) == (
        "2 of 3 tuples were in doubt: the reviewers changed 0, 1 are marked as uncertain"
    )


def test_a_row_names_the_perspectives_it_comes_from(good: Path) -> None:
    output = outputs(good)["agreed"]
    assert [origin(a, output) for a in output.final_result.final_aspects] == [
        "perspective A",
        "perspective A, C",
    ]


def test_the_screen_shows_the_review(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["analyze", TEXT, "--config", "conflict_review"]) == 0
    shown = capsys.readouterr().out
    assert "perspective A" in shown and "all perspectives agreed" in shown


def test_the_report_tells_of_the_review(good: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert absa(["report", str(good), "-o", str(page)]) == 0
    html = page.read_text("utf-8")
    assert "The conflict review" in html and "10 tuples reviewed, 3 changed" in html


def test_the_drawing_is_had_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["graph", "--config", "conflict_review", "--format", "mermaid"]) == 0
    drawn = capsys.readouterr().out
    assert "merge_candidates -.-> review_a" in drawn and "arbiter --> finalize" in drawn


# The offline analyzer, and comparisons -----------------------------------------------------------


def test_it_runs_out_of_the_box() -> None:
    for arbiter in ("rules", "llm"):
        settings = load_settings("conflict_review", {"pipeline.conflict_review.arbiter": arbiter})
        output = analyze(TEXT, settings=settings)
        assert output.meta.protocol == "conflict_review"
        found_ = {(t.aspect_term, t.polarity) for t in output.final_result.final_tuples}
        assert found_ == {("사용감", "positive"), ("가격", "negative")}


def test_it_is_compared_with_the_debate(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    configs = ("default", "conflict_review", "baseline_single")
    assert absa(["ablate", str(data), "--out", str(out), "--configs", *configs]) == 0
    assert verify(out / "conflict_review").ok


def test_a_sweep_over_the_arbiter_says_why_it_cannot_be_replayed(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "pipeline.conflict_review.arbiter=rules,llm"
    assert absa(["ablate", str(good), "--out", str(good / "s"), "--sweep", key]) == 2
    assert "the arbiter would have been asked, or not" in capsys.readouterr().err
