"""`evaluate`: real run directories in numbers."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend, ate, ate_review, atsa, atsa_review, decide, said, validator

from absa.cli import run as command_line
from absa.config import load_settings
from absa.metrics import SCORER_VERSION, GoldError, evaluate, write
from absa.metrics import evaluation as evaluation_module
from absa.metrics.alarms import alarms
from absa.metrics.cost import CostTally, critical_path
from absa.metrics.gates import GateTally, conditions
from absa.metrics.normalise import Normaliser
from absa.runs import RunPlan
from absa.runs import run as run_batch
from absa.runs.directory import NoRun
from absa.schemas.backend import Ask, Reply
from absa.schemas.records import CallRecord
from absa.schemas.settings import BackendSettings, PipelineSettings

Json = dict[str, Any]
NOT_GOOD = "The battery is not good."

OFFLINE: list[Json] = [
    {
        "uid": "ko",
        "text": "사용감은 좋지만 가격은 비싸요.",
        "lang": "ko",
        "domain": "beauty",
        "aspects": [
            {"term": "사용감은", "from": 0, "to": 4, "polarity": "positive"},
            {"term": "가격", "from": 9, "to": 11, "polarity": "negative"},
        ],
    },
    {
        "uid": "en",
        "text": "The food was great.",
        "lang": "en",
        "domain": "restaurant",
        "aspects": [
            {"term": "food", "from": 4, "to": 8, "polarity": "positive", "opinion": "great"},
        ],
    },
    {
        "uid": "missed",
        "text": "The waiter was rude.",
        "lang": "en",
        "domain": "restaurant",
        "aspects": [
            {"term": "zzz waiter was", "from": None, "to": None, "polarity": "neutral"},
            {"term": None, "from": None, "to": None, "polarity": "negative", "category": "SERVICE"},
        ],
    },
    {"uid": "incomplete", "text": "Good food.", "lang": "en", "aspects": [], "dropped_aspects": 1},
    {"uid": "no gold", "text": "Good wine.", "lang": "en"},
]


def aspect(term: str, text: str, polarity: str, **more: Any) -> Json:
    start = text.index(term)
    return {"term": term, "from": start, "to": start + len(term), "polarity": polarity, **more}


def spoken(first: str, review: str | None = None) -> dict[Any, Any]:
    """Stage 1 says `first` of the battery; with a review, Stage 2 flips it and resolves a risk."""
    answers = said(ate=ate("battery"), atsa=atsa(("battery", first, "not good", 0.9)))
    if review is None:
        return answers
    flip = atsa_review(("battery", "flip_polarity", review, 0.9, "not good"))
    return {**answers, "validator": validator("EVIDENCE_GAP"), "atsa_review": flip}


# uid -> what the agents say; the gold says that the battery is negative.
FATES = {
    "fix": spoken("positive", "negative"),
    "fix 2": spoken("positive", "negative"),
    "break": spoken("negative", "positive"),
    "keep": spoken("negative"),
    "still wrong": spoken("neutral"),
}


class ByUid:
    """A backend that answers for each sample by its own script."""

    def __init__(self, scripts: dict[str, dict[Any, Any]]) -> None:
        self._scripts = {uid: ScriptedBackend(answers) for uid, answers in scripts.items()}

    def ask(self, question: Ask) -> Reply:
        return self._scripts[question.uid].ask(question)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def make_run(
    folder: Path,
    rows: Iterable[Json],
    scripts: dict[str, dict[Any, Any]] | None = None,
    seeds: tuple[int, ...] = (),
    config: str | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    data.write_text("\n".join(lines), encoding="utf-8")
    plan = RunPlan(data=data, out=folder / "run", settings=load_settings(config), seeds=seeds)
    more: dict[str, Callable[[BackendSettings], Any]] = {}
    if scripts is not None:
        more["backend_for"] = lambda settings: ByUid(scripts)
    report = asyncio.run(run_batch(plan, **more))
    assert report.totals.failed == 0
    return plan.out


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("offline"), OFFLINE)


@pytest.fixture(scope="module")
def fates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gold = [aspect("battery", NOT_GOOD, "negative")]
    rows = [{"uid": uid, "text": NOT_GOOD, "lang": "en", "aspects": gold} for uid in FATES]
    return make_run(tmp_path_factory.mktemp("fates"), rows, FATES)


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a run directory that a test may damage."""

    def copy(run: Path) -> Path:
        out = tmp_path / "copy"
        out.mkdir()
        for name in ("manifest.json", "outputs.jsonl", "scorecards.jsonl"):
            (out / name).write_bytes((run / name).read_bytes())
        return out

    return copy


# Quality -----------------------------------------------------------------------------------------


def test_what_the_debate_fixed_and_broke_is_counted(fates: Path) -> None:
    quality = evaluate(fates)["quality"]
    became = quality["changes"]["strict"]
    counts = {name: became[name]["numerator"] for name in ("fix", "break", "keep", "still_wrong")}
    assert counts == {"fix": 2, "break": 1, "keep": 1, "still_wrong": 1}
    assert became["net_gain"]["value"] == 1
    assert became["net_gain"]["rate"] == pytest.approx(0.2)
    interval = became["net_gain"]["interval95"]
    assert interval["low"] <= 1 <= interval["high"]
    assert quality["exact_match"]["stage1"]["strict"]["numerator"] == 2
    assert quality["exact_match"]["final"]["strict"]["numerator"] == 3


def test_scores_of_both_stages_against_gold(fates: Path) -> None:
    quality = evaluate(fates)["quality"]
    for matching in ("strict", "overlap", "span"):
        assert quality["stage1"]["pair"][matching]["f1"]["rate"] == pytest.approx(2 / 5)
        assert quality["final"]["pair"][matching]["f1"]["rate"] == pytest.approx(3 / 5)
        assert quality["final"]["aspect"][matching]["f1"]["rate"] == 1.0
    assert quality["final"]["polarity_of_matched"]["strict"]["accuracy"]["rate"] == 0.6
    assert quality["sign"]["pair"] == {
        "strict_difference": pytest.approx(0.2),
        "overlap_difference": pytest.approx(0.2),
        "disagree": False,
    }


def test_pair_f1_has_an_interval_that_holds_its_value(fates: Path) -> None:
    interval = evaluate(fates)["quality"]["pair_f1_interval"]
    assert interval["stage1"]["value"] == pytest.approx(2 / 5)
    assert interval["final"]["value"] == pytest.approx(3 / 5)
    assert interval["difference"]["value"] == pytest.approx(1 / 5)
    for part in interval.values():
        assert part["low"] <= part["value"] <= part["high"]
    assert interval["final"]["low"] < interval["final"]["high"]


def test_samples_without_or_with_incomplete_gold_are_counted_but_not_scored(offline: Path) -> None:
    metrics = evaluate(offline)
    assert metrics["gold"] == {"scored": 3, "incomplete": 1, "none": 1}
    assert metrics["quality"]["samples"] == 3
    assert metrics["process"]["samples"] == 5
    assert any("incomplete" in note for note in metrics["notes"])


def test_keys_are_those_of_each_samples_language(offline: Path) -> None:
    groups = evaluate(offline)["quality"]["breakdown"]
    assert groups["lang"]["ko"]["final"]["aspect"]["strict"]["recall"]["rate"] == 1.0
    assert groups["domain"]["beauty"]["samples"] == 1
    assert groups["polarities"]["conflict"]["samples"] == 1
    assert {name: group["samples"] for name, group in groups["aspects"].items()} == {
        "explicit": 2,
        "implicit": 1,
    }


def test_implicit_gold_stands_apart(offline: Path) -> None:
    quality = evaluate(offline)["quality"]
    assert quality["implicit_gold_tuples"] == 1
    assert quality["final"]["implicit"]["pair"]["recall"] == {
        "numerator": 0,
        "denominator": 1,
        "rate": 0.0,
    }
    # The gold with a term that is nowhere in the text is an ordinary miss.
    assert quality["gold_terms"] == 4


def test_triplets_take_the_evidence_as_opinion(offline: Path) -> None:
    triplet = evaluate(offline)["quality"]["final"]["triplet"]["strict"]
    assert triplet["recall"] == {"numerator": 1, "denominator": 1, "rate": 1.0}


def test_labels_are_derived_where_none_are_given(tmp_path: Path) -> None:
    rows: list[Json] = [
        {"uid": "a", "text": NOT_GOOD, "lang": "en", "aspects": [], "label": "negative"},
        {
            "uid": "b",
            "text": NOT_GOOD,
            "lang": "en",
            "aspects": [aspect("battery", NOT_GOOD, "negative")],
        },
        {"uid": "c", "text": NOT_GOOD, "lang": "en", "label": "positive"},
    ]
    scripts = {uid: spoken("negative") for uid in "abc"}
    quality = evaluate(make_run(tmp_path, rows, scripts))["quality"]
    assert quality["label_source"] == {"given": 2, "derived": 1}
    assert quality["final"]["label"]["accuracy"] == {
        "numerator": 2,
        "denominator": 3,
        "rate": pytest.approx(2 / 3),
    }
    assert quality["with_gold_aspects"] == 2


def test_gold_without_any_aspect_scores_no_aspects(tmp_path: Path) -> None:
    rows = [{"uid": "a", "text": NOT_GOOD, "lang": "en", "aspects": [], "label": "negative"}]
    metrics = evaluate(make_run(tmp_path, rows, {"a": spoken("negative")}))
    assert metrics["quality"]["final"]["pair"] is None
    assert metrics["quality"]["changes"] is None
    assert metrics["quality"]["final"]["label"]["accuracy"]["rate"] == 1.0
    assert any("no aspect in any sample" in note for note in metrics["notes"])


def test_without_gold_there_are_process_metrics_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"uid": "a", "text": NOT_GOOD, "lang": "en"}]
    run = make_run(tmp_path, rows, {"a": spoken("negative")})
    assert command_line(["evaluate", str(run)]) == 0
    assert "process metrics only" in capsys.readouterr().out
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["quality"] is None
    assert metrics["process"]["change_rate"]["rate"] == 0.0


def test_gold_that_does_not_score_itself_is_an_error_that_names_the_samples(
    fates: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        evaluation_module, "scores_itself", lambda output, aspects: output.uid != "keep"
    )
    with pytest.raises(GoldError) as caught:
        evaluate(fates)
    assert caught.value.uids == ["keep"]
    assert command_line(["evaluate", str(fates)]) == 1
    assert "keep" in capsys.readouterr().err


def test_stage1_keeps_its_places_when_stage2_moved_them() -> None:
    text = "The battery died. The new battery life is great."
    output = decide(
        text,
        {
            **said(ate=ate("battery"), atsa=atsa(("battery", "positive", "great", 0.9))),
            "validator": validator("SPAN_MISMATCH"),
            "ate_review": ate_review(("battery", "revise_span", {"start": 26, "end": 38})),
        },
        lang="en",
    )
    assert output.meta.adopt_decision == "adopted"
    normaliser = Normaliser(text, "en")
    (before,), (after,) = normaliser.stage1(output), normaliser.final(output)
    assert (before.key, before.span, before.opinion) == ("battery", (4, 11), "great")
    assert (after.key, after.span) == ("batterylife", (26, 38))


# Process -----------------------------------------------------------------------------------------


def test_process_metrics_say_what_they_are_made_of(fates: Path) -> None:
    process = evaluate(fates)["process"]

    def made_of(name: str) -> tuple[int, int]:
        return process[name]["numerator"], process[name]["denominator"]

    assert made_of("risk_resolution_rate") == (3, 3)
    assert made_of("change_rate") == (3, 5)
    assert made_of("guided_change_rate") == (3, 5)
    assert made_of("ignored_proposal_rate") == (0, 3)
    assert made_of("adoption_rate") == (3, 5)
    assert process["adoption_by_reason"]["adopted"]["risk_resolved"]["numerator"] == 3
    # Nobody objects to anything: silence is in no rate, and nothing warns of it.
    assert made_of("debate_mapping_none_rate") == (0, 0)
    assert evaluate(fates)["warnings"] == []
    assert process["moderator_rules"]["RuleB"]["numerator"] == 3


def test_a_rate_over_nothing_is_null_and_named(fates: Path) -> None:
    metrics = evaluate(fates)
    assert metrics["process"]["debate_override_applied"] == 0
    assert metrics["process"]["debate_override_applied_rate"]["rate"] is None
    assert "debate_override_applied_rate" in metrics["vacuous_metrics"]
    assert "change_rate" not in metrics["vacuous_metrics"]


def test_dead_gates_were_reached_and_never_fired(fates: Path) -> None:
    dead = {gate["gate"]: gate["reached"] for gate in evaluate(fates)["dead_gates"]}
    assert dead["moderator.RuleZ"] == 5
    assert dead["moderator.drop_guard"] == 3
    assert dead["adopt.ev_below_threshold"] == 3
    assert "moderator.RuleB" not in dead
    # The debate spoke of nothing, so nothing came to the gate.
    assert not any(gate.startswith("override_gate") for gate in dead)


def card(*verdicts: str) -> Json:
    return {
        "override": {"verdicts": list(verdicts)},
        "adoption": {"stage2_executed": False},
        "moderator": {"ran": False},
        "corrections": [],
    }


def test_a_verdict_reaches_the_conditions_before_it_and_no_other() -> None:
    tally = GateTally(PipelineSettings())
    tally.add(card("no_evidence_span", "low_signal"))
    assert {g["gate"].removeprefix("override_gate."): g["reached"] for g in tally.summary()} == {
        "max_one_override_per_sample": 2,
        "neutral_only": 2,
        "no_evidence_span": 2,
        "evidence_span_not_in_text": 1,
        "evidence_span_missing_trigger": 1,
        "low_signal": 1,
    }
    assert [g["gate"] for g in tally.dead()] == [
        "override_gate.max_one_override_per_sample",
        "override_gate.neutral_only",
        "override_gate.evidence_span_not_in_text",
        "override_gate.evidence_span_missing_trigger",
    ]


def test_what_the_settings_switch_off_is_not_reached() -> None:
    pipeline = PipelineSettings.model_validate({"debate_override": {"l3_conservative": False}})
    assert "l3_conservative" not in conditions(pipeline)
    assert "drop" not in conditions(PipelineSettings())
    assert "contradictory_memory" not in conditions(PipelineSettings())
    allowed = PipelineSettings.model_validate({"debate_override": {"allow_drop": True}})
    assert "drop" in conditions(allowed)


@pytest.mark.parametrize(
    ("coverage", "no_match", "neutral", "expected"),
    [
        (0.5, 0.1, 0.1, []),
        (0.4, 0.39, 0.39, []),
        (0.39, 0.4, 0.6, ["warn", "warn", "high"]),
        (0.25, 0.6, 0.59, ["warn", "high", "warn"]),
        (0.24, None, None, ["high"]),
    ],
)
def test_warnings_follow_the_thresholds(
    coverage: float, no_match: float | None, neutral: float | None, expected: list[str]
) -> None:
    found = alarms(
        {
            "debate_mapping_coverage": {"rate": coverage},
            "debate_fail_no_aspects_rate": {"rate": 0.1},
            "debate_fail_no_match_rate": {"rate": no_match},
            "debate_fail_neutral_stance_rate": {"rate": neutral},
        }
    )
    assert [alarm["severity"] for alarm in found] == expected
    # Synonyms help only where terms did not match.
    tips = [alarm["tip"] for alarm in found if alarm["metric"] == "debate_mapping_coverage"]
    assert all(("synonyms" in t) is ((no_match or 0) >= max(0.11, neutral or 0)) for t in tips)


def call(node: str, latency: float, turn: int = 0, **more: Any) -> CallRecord:
    return CallRecord(node=node, turn=turn, backend="x", latency_ms=latency, **more)


def test_calls_that_run_together_count_once_on_the_critical_path() -> None:
    calls = [call("ate", 5), call("atsa", 9), call("epm", 2), call("epm", 3, turn=1)]
    assert sum(critical_path(calls).values()) == 14
    tally = CostTally()
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    tally.add([*calls, call("judge", 1, attempts=3, cached=True, usage=usage)])
    cost = tally.summary()
    assert (cost["latency_ms"], cost["critical_path_ms"]) == (20, 15)
    assert (cost["retries"], cost["cached_calls"], cost["prompt_tokens"]) == (2, 1, 7)
    assert cost["longest_chain_of_calls"] == 4
    assert cost["per_node"]["epm"]["calls"] == 2


def test_the_default_debate_makes_ten_calls_seven_in_a_row(fates: Path) -> None:
    cost = evaluate(fates)["cost"]
    assert cost["per_sample"]["calls"]["rate"] == 10
    assert cost["longest_chain_of_calls"] == 7


# Files, seeds, command ---------------------------------------------------------------------------


def test_the_files_hold_the_same_numbers(fates: Path) -> None:
    metrics = evaluate(fates)
    write(fates, metrics)
    assert json.loads((fates / "metrics.json").read_text(encoding="utf-8")) == metrics
    assert metrics["scorer_version"] == SCORER_VERSION
    with (fates / "structural_metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    assert rows["guided_change_rate"] == {
        "metric": "guided_change_rate",
        "seed": "0",
        "numerator": "3",
        "denominator": "5",
        "value": "0.6",
    }
    assert rows["debate_override_applied_rate"]["value"] == ""
    assert float(rows["quality.final.pair.strict.f1"]["value"]) == pytest.approx(0.6)
    assert rows["quality.changes.strict.net_gain.value"]["value"] == "1"
    assert not list(fates.glob("*.part"))


def test_evaluation_is_the_same_every_time(fates: Path) -> None:
    assert evaluate(fates) == evaluate(fates)


def test_several_seeds_are_scored_each_and_averaged(tmp_path: Path) -> None:
    gold = [aspect("battery", NOT_GOOD, "negative")]
    rows = [{"uid": uid, "text": NOT_GOOD, "lang": "en", "aspects": gold} for uid in FATES]
    run = make_run(tmp_path, rows, FATES, seeds=(1, 2))
    metrics = evaluate(run)
    write(run, metrics)
    assert metrics["seeds"] == [1, 2]
    for part in metrics["per_seed"].values():
        assert part["quality"]["changes"]["strict"]["net_gain"]["value"] == 1
    mean = metrics["mean_over_seeds"]["quality.final.pair.strict.f1"]
    assert mean == {"mean": pytest.approx(0.6), "sd": 0.0, "n": 2}
    assert metrics["quality"]["changes"]["strict"]["net_gain"]["samples"] == 10
    text = (run / "structural_metrics.csv").read_text(encoding="utf-8")
    assert "guided_change_rate,mean,,,0.6" in text.splitlines()
    assert command_line(["evaluate", str(run)]) == 0


def test_the_screen_begins_with_the_headline(
    fates: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert command_line(["evaluate", str(fates)]) == 0
    shown = capsys.readouterr().out.splitlines()
    text = "\n".join(shown)
    assert "5 scored" in shown[0]
    strict = next(line for line in shown if line.startswith("strict"))
    assert strict.split() == ["strict", "40.0", "60.0", "+20.0"]
    assert "net gain, strict: +1 of 5 samples (fix 2, break 1), 95 % interval" in text
    assert "never fired" in text
    assert text.index("net gain") < text.index("Quality") < text.index("Process")


def test_json_is_metrics_json(fates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["evaluate", str(fates), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(
        (fates / "metrics.json").read_text(encoding="utf-8")
    )


def test_an_ablation_without_debate_and_moderator_can_be_evaluated(tmp_path: Path) -> None:
    for config in ("abl_no_debate", "abl_no_moderator", "abl_no_stage2", "abl_no_validator"):
        metrics = evaluate(make_run(tmp_path / config, OFFLINE, config=config))
        assert metrics["quality"]["samples"] == 3


def test_a_folder_that_is_no_run_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["evaluate", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err
    assert command_line(["evaluate", str(tmp_path / "nowhere")]) == 2


def test_files_that_do_not_fit_together_are_refused(
    fates: Path, copy_of: Callable[[Path], Path]
) -> None:
    run = copy_of(fates)
    cards = (run / "scorecards.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "scorecards.jsonl").write_text("".join(cards[:-1]), encoding="utf-8")
    with pytest.raises(NoRun, match="different numbers of lines"):
        evaluate(run)
    (run / "scorecards.jsonl").write_text("".join(cards[::-1]), encoding="utf-8")
    with pytest.raises(NoRun, match="where scorecards.jsonl has"):
        evaluate(run)
    (run / "scorecards.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(NoRun, match="not valid JSON"):
        evaluate(run)
    (run / "outputs.jsonl").unlink()
    with pytest.raises(NoRun, match="has no outputs"):
        evaluate(run)


def test_a_damaged_gold_names_its_sample(fates: Path, copy_of: Callable[[Path], Path]) -> None:
    run = copy_of(fates)
    path = run / "scorecards.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"polarity":"negative","opin', '"polarity":"bad","opin', 1))
    with pytest.raises(NoRun, match="the gold of fix cannot be read"):
        evaluate(run)


def test_one_scored_sample_has_a_score_and_no_interval(tmp_path: Path) -> None:
    data = tmp_path / "one.jsonl"
    aspect = {"term": "음식", "from": 0, "to": 2, "polarity": "positive"}
    row = {"uid": "a", "text": "음식은 맛있어요.", "lang": "ko", "aspects": [aspect]}
    data.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    plan = RunPlan(data=data, out=tmp_path / "run", settings=load_settings())
    assert asyncio.run(run_batch(plan)).exit_code == 0
    quality = evaluate(tmp_path / "run")["quality"]
    assert quality["final"]["pair"]["strict"]["f1"]["rate"] == 1.0
    assert quality["pair_f1_interval"] is None
