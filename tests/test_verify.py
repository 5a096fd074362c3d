"""Integrity: a good run passes, and whatever is changed in it afterwards is found and named."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripted import (
    Answers,
    Json,
    ScriptedBackend,
    all_say,
    ate,
    ate_review,
    atsa,
    atsa_review,
    confirm,
    drop,
    judge,
    propose,
    said,
    set_polarity,
    turn,
    validator,
)

from absa.cli import run as absa
from absa.metrics import evaluate
from absa.metrics import write as write_metrics
from absa.runs import RunPlan, run
from absa.runs.directory import NoRun
from absa.runs.indexed_file import Line
from absa.runs.verify import VerifyReport, verify
from absa.runs.verify.again import Replayer
from absa.runs.verify.leaks import gold_in, leaks
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings, Settings

TEXTS = {
    "k-plain": "배송이 빨라요.",
    "k-contrast": "사용감은 좋지만 가격은 비싸요.",
    "k-flip": "화면이 어두워요.",
    "k-override": "배터리가 오래가요.",
    "k-add": "소리가 크고 키보드가 편해요.",
    "k-span": "무선 마우스가 가벼워요.",
    "k-drop": "포장이 꼼꼼하고 색이 예뻐요.",
    "k-ungrounded": "디자인이 예뻐요.",
    "k-implicit": "너무 비싸서 다시는 안 사요.",
    "e-plain": "The soup was lovely.",
    "e-guard": "The screen is dim but the keys are soft.",
    "e-unlikely": "The tea was cold, but the cups were pretty.",
    "e-differs": "The waiter was rude.",
}

SCRIPTS: dict[str, Answers] = {
    "k-plain": said(
        ate=ate("배송"),
        atsa=atsa(("배송", "positive", "빨라요", 0.9)),
        judge=judge(confirm("배송", "positive"), tuples=[("배송", "positive")]),
    ),
    # The contrast rule finds 가격, which ATE missed; a reviewer gives it its sentiment.
    "k-contrast": said(
        ate=ate("사용감"),
        atsa=atsa(("사용감", "positive", "좋지만", 0.8), ("맛", "negative", "비싸요", 0.4)),
        validator=validator("CONTRAST_SCOPE"),
        atsa_review=atsa_review(("가격", "add", "negative", 0.8, "비싸요")),
    ),
    "k-flip": said(
        ate=ate("화면"),
        atsa=atsa(("화면", "positive", "어두워요", 0.6)),
        validator=validator("OTHER", proposals=[propose("FLIP_POLARITY", "화면")]),
        judge=judge(tuples=[("화면", "negative")], label="negative", spans=["어두워요"]),
    ),
    "k-override": said(
        ate=ate("배터리"),
        atsa=atsa(("배터리", "negative", "오래가요", 0.5)),
        **all_say("배터리", "positive"),
        judge=judge(
            set_polarity("배터리", "positive"),
            tuples=[("배터리", "positive")],
            evidence={"배터리": "오래가요"},
            label="positive",
        ),
    ),
    "k-add": said(
        ate=ate("소리"),
        atsa=atsa(("소리", "negative", "크고", 0.7), ("키보드", "positive", "편해요", 0.9)),
        epm=turn(confirm("키보드", "positive")),
        ate_review=ate_review(("키보드", "add")),
    ),
    # The debate names the aspect by its old term.
    "k-span": said(
        ate=ate("마우스"),
        atsa=atsa(("마우스", "positive", "가벼워요", 0.9)),
        ate_review=ate_review(("마우스", "revise_span", "무선 마우스")),
        judge=judge(tuples=[("마우스", "positive")]),
    ),
    "k-drop": said(
        ate=ate("포장", "색", "배달"),
        atsa=atsa(("포장", "positive", "꼼꼼하고", 0.9), ("색", "positive", "예뻐요", 0.9)),
        epm=turn(drop("배달")),
        ate_review=ate_review(("배달", "drop"), ("포장", "keep")),
        atsa_review=atsa_review(("없는것", "flip_polarity"), ("포장", "maintain")),
    ),
    "k-ungrounded": said(ate=ate("디자인"), atsa=atsa(("디자인", "positive", "세련됐어요", 0.9))),
    "k-implicit": said(ate=ate("값"), atsa=atsa(("값", "negative", "너무 비싸서", 0.9, True))),
    "e-plain": said(ate=ate("soup"), atsa=atsa(("soup", "positiv", "lovely", 0.9))),
    # Adopted, and taken back by the Moderator: the confidence dropped.
    "e-guard": said(
        ate=ate("screen", "keys"),
        atsa=atsa(("screen", "negative", "dim", 0.9), ("keys", "positive", "soft", 0.9)),
        epm=turn(set_polarity("screen", "positive")),
        atsa_review=atsa_review(("screen", "flip_polarity", "positive", 0.1, "dim")),
    ),
    # The model itself did not believe in the cups: they go, and no contrast brings them back.
    "e-unlikely": said(
        ate=ate(
            {"term": "tea", "name_probability": 0.9}, {"term": "cups", "name_probability": 0.1}
        ),
        atsa=atsa(("tea", "negative", "cold", 0.9), ("cups", "positive", "pretty", 0.9)),
    ),
    "e-differs": said(
        ate=ate("waiter"),
        atsa=atsa(("waiter", "negative", "rude", 0.9)),
        judge=judge(tuples=[("waiter", "positive")]),
    ),
}
SOMETHING = {"aspect_term": "무언가", "polarity": "positive"}
GOLD = {
    "k-plain": [{"term": "배송", "from": 0, "to": 2, "polarity": "positive"}],
    "k-implicit": [{"term": None, "from": None, "to": None, "polarity": "negative"}],
    "e-plain": [],
}


class ByUid:
    """A script per sample; one without a script fails."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._scripts = {uid: ScriptedBackend(answers) for uid, answers in SCRIPTS.items()}

    def ask(self, question: Ask) -> Reply:
        if question.uid not in self._scripts:
            raise BackendError("no answer", node=question.node)
        return self._scripts[question.uid].ask(question)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def write_data(path: Path, **more: str) -> Path:
    rows = [
        {"uid": uid, "text": text, "domain": "shop", "split": "dev"}
        | ({"aspects": GOLD[uid]} if uid in GOLD else {})
        for uid, text in (TEXTS | more).items()
    ]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    return path


def make_run(folder: Path, **plan: Any) -> Path:
    """A run over the scripts."""
    data = plan.pop("data", None) or write_data(folder / "data.jsonl")
    settings = plan.pop("settings", Settings())
    out = folder / "run"
    given = RunPlan(data=data, out=out, settings=settings, **plan)
    asyncio.run(run(given, backend_for=lambda backend: ByUid(backend.seed)))
    return out


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("good"))


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


# Ways to damage a run ----------------------------------------------------------------------------


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def write(path: Path, records: list[Json]) -> None:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")


def change(path: Path, uid: str, edit: Callable[[Json], Any], **where: Any) -> None:
    """Edit the first record of a sample that has the given values."""
    records = lines_of(path)
    wanted = {"uid": uid, **where}
    edit(next(r for r in records if all(r.get(k) == v for k, v in wanted.items())))
    write(path, records)


def drop_lines(path: Path, uid: str, **where: Any) -> None:
    wanted = {"uid": uid, **where}
    kept = [r for r in lines_of(path) if any(r.get(k) != v for k, v in wanted.items())]
    write(path, kept)


def double(path: Path, uid: str, **where: Any) -> None:
    wanted = {"uid": uid, **where}
    records = lines_of(path)
    again = [r for r in records if all(r.get(k) == v for k, v in wanted.items())]
    write(path, [*records, *again])


def edit_manifest(run_dir: Path, edit: Callable[[Json], Any]) -> None:
    path = run_dir / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    edit(manifest)
    path.write_text(json.dumps(manifest, ensure_ascii=False), "utf-8")
    with closing(sqlite3.connect(run_dir / "journal.db")) as journal, journal:
        identity = json.dumps(manifest.get("identity"), ensure_ascii=False)
        journal.execute("UPDATE run SET value = ? WHERE key = 'identity'", [identity])


def found(report: VerifyReport) -> dict[str, set[str | None]]:
    """The uids with violations, per check that has any.

    Without the comparison with the journal, which sees every change of a file: what the others
    see is what is seen if the journal was changed as well.
    """
    return {
        c.name: {v.uid for v in c.violations}
        for c in report.checks
        if c.violations and c.name != "Journal"
    }


def words(report: VerifyReport, check: str, uid: str | None) -> str:
    return "\n".join(v.what for v in report.check(check).violations if v.uid == uid)


# A good run --------------------------------------------------------------------------------------


def test_a_good_run_passes_every_check(good: Path) -> None:
    report = verify(good)
    assert report.notes == report.warnings == []
    assert (report.ok, report.exit_code, report.status) == (True, 0, "finished")
    checked = {check.name: check.checked for check in report.checks}
    assert checked["Counts"] == checked["S1"] == checked["S2"] == len(TEXTS)
    assert checked["S6"] == 10 * len(TEXTS)
    assert checked["S3"] == 5
    assert checked["S4"] >= 6


def test_the_good_run_has_what_the_checks_are_about(good: Path) -> None:
    """Else the tests below would prove nothing."""
    outputs = {o["uid"]: o for o in lines_of(good / "outputs.jsonl")}
    meta = {uid: o["meta"] for uid, o in outputs.items()}
    assert meta["k-override"]["gate_decision"] == "APPLY"
    adopted = {uid for uid, m in meta.items() if m["adopt_decision"] == "adopted"}
    assert {"k-flip", "k-override", "k-add", "k-span"} <= adopted
    assert outputs["e-guard"]["moderator"]["arbiter_flags"]["stage2_rejected_due_to_confidence"]
    assert meta["e-differs"]["adopt_decision"] == "not_adopted"
    assert not outputs["k-ungrounded"]["final_result"]["final_aspects"][0]["is_grounded"]
    assert len(outputs["k-contrast"]["final_result"]["stage1_tuples"]) == 2
    assert any(not c["applied"] for c in meta["k-drop"]["correction_applied_log"])


@pytest.mark.parametrize(
    "pipeline",
    [
        {"enable_validator": False},
        {"enable_stage2": False},
        {"enable_debate": False},
        {"enable_debate_override": False},
        {"enable_moderator": False},
        {"debate": {"rounds": 2}},
        {"debate_override": {"allow_drop": True, "l3_conservative": False, "min_total": 0.5}},
    ],
    ids=str,
)
def test_runs_of_every_ablation_pass(tmp_path: Path, pipeline: Json) -> None:
    settings = Settings.model_validate({"pipeline": pipeline})
    assert found(verify(make_run(tmp_path, settings=settings))) == {}


def test_a_run_with_several_seeds_passes_and_names_the_seed(tmp_path: Path) -> None:
    out = make_run(tmp_path, seeds=(3, 1))
    report = verify(out)
    assert found(report) == {}
    assert report.check("Counts").checked == 2 * len(TEXTS)
    drop_lines(out / "traces.jsonl", "k-flip", seed=3, node="ate")
    report = verify(out)
    assert {(v.uid, v.seed) for c in report.checks for v in c.violations} == {("k-flip", 3)}


def test_a_run_continued_under_other_limits_and_seeds_passes(tmp_path: Path) -> None:
    make_run(tmp_path, seeds=(1,))
    report = verify(make_run(tmp_path, seeds=(2,), limit=4))
    assert found(report) == {}
    assert report.samples == len(TEXTS) + 4


def test_failed_samples_and_bad_lines_are_counted_apart(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl", nobody="아무도 답하지 않아요.")
    with data.open("a", encoding="utf-8") as file:
        file.write("not json\n")
    out = make_run(tmp_path, data=data)
    assert found(verify(out)) == {}
    write(out / "errors.jsonl", [e for e in lines_of(out / "errors.jsonl") if e["uid"]])
    assert None in found(verify(out))["Counts"]
    write(out / "errors.jsonl", [])
    assert "nobody" in found(verify(out))["Counts"]


def test_a_run_of_an_older_version_without_later_settings_and_prompts_passes(copy: Path) -> None:
    def older(m: Json) -> None:
        for settings in (m["settings"], m["identity"]["settings"]):
            settings["pipeline"].pop("memory")
        m["identity"]["prompts"].pop("speaker.md")
        m["versions"]["absa-debate-graph"] = "0.0.1"

    edit_manifest(copy, older)
    report = verify(copy)
    assert found(report) == {}
    assert len(report.notes) == 1 and "0.0.1" in report.notes[0]


def test_changed_prompts_are_a_note(copy: Path) -> None:
    edit_manifest(copy, lambda m: m["identity"]["prompts"].update({"ate.md": "0"}))
    report = verify(copy)
    assert found(report) == {}
    assert "prompts/ate.md" in report.notes[0]


def test_a_missing_data_file_is_a_loud_warning_and_no_violation(
    good: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit_manifest(copy, lambda m: m["data"].update(path="/nowhere/data.jsonl"))
    report = verify(copy)
    assert report.ok
    assert "NOT COMPARED WITH THE DATA" in report.warnings[0]
    assert "/nowhere/data.jsonl does not exist" in report.warnings[0]
    assert absa(["verify", str(copy)]) == 0
    shown = capsys.readouterr().out
    assert "NOT COMPARED WITH THE DATA" in shown and "everything holds" not in shown
    assert verify(copy, data=good.parent / "data.jsonl").warnings == []


def test_data_that_changed_since_is_a_violation(tmp_path: Path) -> None:
    out = make_run(tmp_path, limit=1)
    data = tmp_path / "data.jsonl"
    with data.open("a", encoding="utf-8") as file:
        file.write('{"uid": "new", "text": "new"}\n')
    # Appended rows belong to another run.
    report = verify(out)
    assert report.ok and report.warnings == []
    data.write_text(data.read_text("utf-8").replace("negative", "positive"), "utf-8")
    assert "has changed since the run" in words(verify(out), "Counts", None)


def test_data_named_by_a_relative_path_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    data = write_data(Path("data/texts.jsonl"))
    plan = RunPlan(data=data, out=Path("runs/first"), settings=Settings(), limit=2)
    asyncio.run(run(plan, backend_for=lambda backend: ByUid(backend.seed)))
    edit_manifest(Path("runs/first"), lambda m: m["data"].update(path="data/texts.jsonl"))
    monkeypatch.chdir(tmp_path / "runs/first")
    assert verify(Path()).warnings == []
    monkeypatch.chdir("/")
    assert verify(tmp_path / "runs/first").warnings == []
    # What the data says is compared, too.
    change(tmp_path / "runs/first/scorecards.jsonl", "k-plain", lambda c: c.update(split="test"))
    assert "split" in words(verify(tmp_path / "runs/first"), "Counts", "k-plain")


# Counts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["outputs.jsonl", "scorecards.jsonl", "traces.jsonl"])
def test_a_dropped_sample_is_named(copy: Path, name: str) -> None:
    drop_lines(copy / name, "k-flip")
    assert "k-flip" in found(verify(copy))["Counts"]


def test_a_sample_dropped_everywhere_is_missing_from_the_data(copy: Path) -> None:
    for name in ("outputs", "scorecards", "traces", "override_gate_debug"):
        drop_lines(copy / f"{name}.jsonl", "e-differs")
    edit_manifest(copy, lambda m: m["counts"].update(samples=11, done=11))
    assert "missing" in words(verify(copy), "Counts", "e-differs")


@pytest.mark.parametrize("name", ["outputs.jsonl", "scorecards.jsonl", "traces.jsonl"])
def test_a_doubled_line_is_named(copy: Path, name: str) -> None:
    double(copy / name, "k-add", **({"node": "judge"} if name == "traces.jsonl" else {}))
    report = verify(copy)
    assert found(report)["Counts"] >= {"k-add"}
    assert "twice" in words(report, "Counts", "k-add")


def test_a_single_dropped_call_is_named_with_its_node(copy: Path) -> None:
    drop_lines(copy / "traces.jsonl", "k-add", node="tan")
    report = verify(copy)
    assert "tan is missing" in words(report, "Counts", "k-add")
    assert {uid for uids in found(report).values() for uid in uids} == {"k-add"}


def test_a_call_that_no_node_makes_is_named(copy: Path) -> None:
    change(copy / "traces.jsonl", "k-add", lambda r: r.update(turn=7), node="cj")
    assert "cj (turn 7)" in words(verify(copy), "Counts", "k-add")


@pytest.mark.parametrize("name", ["outputs.jsonl", "scorecards.jsonl", "traces.jsonl"])
def test_a_truncated_file_is_found_with_its_line(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[:-40])
    report = verify(copy)
    assert f"{name}:" in words(report, "Counts", None)
    assert "e-differs" in found(report)["Counts"]


@pytest.mark.parametrize(
    "name",
    [
        "outputs.jsonl",
        "scorecards.jsonl",
        "traces.jsonl",
        "errors.jsonl",
        "override_gate_debug.jsonl",
    ],
)
def test_a_missing_file_is_found(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert f"{name} is missing" in words(verify(copy), "Counts", None)


def test_a_stranger_is_not_in_the_data(copy: Path) -> None:
    for name in ("outputs", "scorecards", "traces", "override_gate_debug"):
        records = lines_of(copy / f"{name}.jsonl")
        write(
            copy / f"{name}.jsonl",
            [{**r, "uid": "stranger"} if r["uid"] == "k-plain" else r for r in records],
        )
    counts = found(verify(copy))["Counts"]
    assert counts >= {"stranger", "k-plain"}


def test_another_text_or_gold_than_the_datas_is_found(copy: Path) -> None:
    change(copy / "outputs.jsonl", "k-implicit", lambda o: o.update(text=o["text"] + "!"))
    change(copy / "scorecards.jsonl", "k-plain", lambda c: c["gold"].update(label="negative"))
    report = verify(copy)
    assert "text" in words(report, "Counts", "k-implicit")
    assert "gold" in words(report, "Counts", "k-plain")


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["counts"].update(done=11),
        lambda m: m["usage"].update(calls=1),
        lambda m: m["settings"]["pipeline"]["debate_override"].update(min_total=0.1),
        lambda m: m["settings"]["pipeline"].update(enable_debate="maybe"),
        lambda m: m.pop("identity"),
    ],
    ids=["counts", "usage", "settings", "unreadable settings", "identity"],
)
def test_an_edited_manifest_is_found(copy: Path, edit: Callable[[Json], Any]) -> None:
    edit_manifest(copy, edit)
    report = verify(copy)
    assert "manifest.json" in words(report, "Counts", None)
    assert report.exit_code == 1


def test_a_damaged_manifest_is_a_finding_and_no_crash(copy: Path) -> None:
    (copy / "manifest.json").write_text('{"status": "fin', "utf-8")
    report = verify(copy)
    assert "not valid JSON" in words(report, "Counts", None)
    assert report.exit_code == 1


# S1: decisions follow from the answers -----------------------------------------------------------


def result(o: Json) -> Json:
    return o["final_result"]


@pytest.mark.parametrize("stage", ["stage1_tuples", "stage2_tuples", "final_tuples"])
def test_a_changed_tuple_is_not_what_the_answers_give(copy: Path, stage: str) -> None:
    change(
        copy / "outputs.jsonl",
        "k-add",
        lambda o: result(o)[stage][0].update(polarity="positive"),
    )
    report = verify(copy)
    assert found(report)["S1"] == {"k-add"}
    assert stage.removesuffix("_tuples") in words(report, "S1", "k-add")


@pytest.mark.parametrize(
    "edit",
    [
        lambda o: result(o).update(label="mixed"),
        lambda o: result(o).update(confidence=0.123),
        lambda o: o["meta"].update(adopt_reason="risk_resolved"),
        lambda o: o["meta"].update(adopt_decision="not_adopted"),
        lambda o: o["meta"].update(gate_decision="SKIP"),
        lambda o: o["meta"]["override_gate"][0].update(verdict="low_signal"),
        lambda o: o["moderator"].update(selected_stage="stage1"),
        lambda o: o["debate"]["summary"].update(sentence_polarity="neutral"),
        lambda o: o.update(stage2_ate=None),
        lambda o: o.update(patched_stage2_ate=None),
        lambda o: o["patched_stage2_ate"]["aspects"][0].update(span=None),
        lambda o: o["patched_stage2_atsa"]["aspect_sentiments"][0].update(confidence=0.123),
    ],
)
def test_a_changed_decision_is_not_what_the_answers_give(
    copy: Path, edit: Callable[[Json], Any]
) -> None:
    change(copy / "outputs.jsonl", "k-override", edit)
    assert found(verify(copy))["S1"] == {"k-override"}


def test_a_changed_answer_gives_other_decisions(copy: Path) -> None:
    def lie(call: Json) -> None:
        call["output"]["aspect_sentiments"][0]["polarity"] = "negative"

    change(copy / "traces.jsonl", "k-plain", lie, node="atsa")
    report = verify(copy)
    assert set(found(report)) == {"S1"}
    assert found(report)["S1"] == {"k-plain"}
    assert "배송/negative" in words(report, "S1", "k-plain")


def test_a_changed_scorecard_is_not_what_its_output_says(copy: Path) -> None:
    change(
        copy / "scorecards.jsonl",
        "k-flip",
        lambda c: c["final_tuples"][0].update(polarity="neutral"),
    )
    report = verify(copy)
    assert found(report) == {"S1": {"k-flip"}}
    assert "scorecards.jsonl" in words(report, "S1", "k-flip")


def test_a_changed_line_of_the_gate_is_found(copy: Path) -> None:
    change(copy / "override_gate_debug.jsonl", "k-override", lambda r: r.update(total=0.1))
    report = verify(copy)
    assert found(report)["S1"] == {"k-override"}
    assert "summary" in words(report, "Counts", None)


def test_an_override_on_the_log_that_the_gate_did_not_grant_is_found(copy: Path) -> None:
    change(
        copy / "outputs.jsonl",
        "k-flip",
        lambda o: o["meta"]["correction_applied_log"][0].update(source="debate_override"),
    )
    assert "granted by the gate" in words(verify(copy), "S1", "k-flip")


def test_a_correction_that_nobody_asked_for_is_found(copy: Path) -> None:
    change(
        copy / "outputs.jsonl",
        "k-flip",
        lambda o: o["meta"]["correction_applied_log"][0].update(proposal_type="DROP_ASPECT"),
    )
    assert "has no proposal for it" in words(verify(copy), "S1", "k-flip")


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (lambda o: result(o)["stage1_tuples"][0].update(polarity="neutral"), "S1"),
        (lambda o: result(o)["final_tuples"][0].update(polarity="neutral"), "S1"),
        (lambda o: result(o)["stage2_tuples"][0].update(polarity="neutral"), "S4"),
        (lambda o: result(o)["stage2_tuples"].append(SOMETHING), "S1"),
        (lambda o: o["patched_stage2_ate"]["aspects"].clear(), "S2"),
        (lambda o: o["patched_stage2_atsa"]["aspect_sentiments"].pop(), "S2"),
        (lambda o: o.update(patched_stage2_atsa=None), "S2"),
        (lambda o: o["meta"].update(gate_decision="APPLY"), "S1"),
        (lambda o: log(o)[0].update(applied=False), "S4"),
        (lambda o: log(o)[0].update(after=log(o)[0]["before"]), "S4"),
        (lambda o: log(o)[0].update(before={}), "S4"),
    ],
)
def test_a_fault_of_the_decision_layer_itself_cannot_hide(
    copy: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Json], Any], check: str
) -> None:
    """As if the layer had decided just what is on record: the direct checks see it all the same."""
    monkeypatch.setattr(Replayer, "compare", lambda self, e, seed: (None, []))
    assert found(verify(copy)) == {}
    change(copy / "outputs.jsonl", "k-flip", edit)
    assert found(verify(copy))[check] == {"k-flip"}


# S2 and S3 ---------------------------------------------------------------------------------------


def test_final_tuples_must_be_those_of_the_final_aspects(copy: Path) -> None:
    change(copy / "outputs.jsonl", "k-add", lambda o: result(o)["final_aspects"].pop())
    assert found(verify(copy))["S2"] == {"k-add"}


@pytest.mark.parametrize("word", ["pos", "good", "Positive", "mixed"])
def test_a_polarity_that_is_not_canonical_is_found(copy: Path, word: str) -> None:
    def spoil(o: Json) -> None:
        for part in ("final_aspects", "final_tuples", "stage1_tuples", "stage2_tuples"):
            result(o)[part][0]["polarity"] = word

    change(copy / "outputs.jsonl", "e-plain", spoil)
    report = verify(copy)
    assert found(report)["S2"] == {"e-plain"}
    assert repr(word) in words(report, "S2", "e-plain")


def test_an_overruled_debate_needs_an_allowed_reason(copy: Path) -> None:
    change(copy / "outputs.jsonl", "e-differs", lambda o: o["meta"].update(adopt_reason="bad_mood"))
    report = verify(copy)
    assert found(report)["S3"] == {"e-differs"}
    assert "bad_mood" in words(report, "S3", "e-differs")


def test_adopting_against_the_debate_is_found(copy: Path) -> None:
    def contradict(call: Json) -> None:
        call["output"]["final_tuples"][0]["polarity"] = "positive"

    change(copy / "traces.jsonl", "k-flip", contradict, node="judge")
    assert found(verify(copy))["S3"] == {"k-flip"}


# S4: no ghost changes ----------------------------------------------------------------------------


def log(o: Json) -> list[Json]:
    return o["meta"]["correction_applied_log"]


def test_a_refused_correction_marked_applied_is_a_ghost(copy: Path) -> None:
    def ghost(o: Json) -> None:
        next(c for c in log(o) if not c["applied"])["applied"] = True

    change(copy / "outputs.jsonl", "k-drop", ghost)
    report = verify(copy)
    assert found(report)["S4"] == {"k-drop"}
    assert "before and after are the same" in words(report, "S4", "k-drop")


def test_an_applied_correction_marked_refused_is_found(copy: Path) -> None:
    change(copy / "outputs.jsonl", "k-flip", lambda o: log(o)[0].update(applied=False))
    assert found(verify(copy))["S4"] == {"k-flip"}


@pytest.mark.parametrize("uid", ["k-flip", "k-override", "k-add", "k-span"])
def test_an_applied_correction_that_the_result_does_not_show_is_found(copy: Path, uid: str) -> None:
    def undo(o: Json) -> None:
        for part in ("stage2_tuples", "final_tuples"):
            result(o)[part] = result(o)["stage1_tuples"]

    change(copy / "outputs.jsonl", uid, undo)
    report = verify(copy)
    assert uid in found(report)["S4"]
    assert "is marked applied, but" in words(report, "S4", uid)


def test_a_confidence_that_a_correction_did_not_leave_is_found(copy: Path) -> None:
    change(
        copy / "outputs.jsonl",
        "k-override",
        lambda o: result(o)["final_aspects"][0].update(confidence=0.71),
    )
    assert found(verify(copy))["S4"] == {"k-override"}


def test_an_entry_that_was_taken_out_of_the_log_is_missed(copy: Path) -> None:
    change(copy / "outputs.jsonl", "k-flip", lambda o: log(o).clear())
    report = verify(copy)
    assert "no correction made it so" in words(report, "S1", "k-flip")
    assert found(report)["S4"] == {"k-flip"}


# S5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        lambda a: a.update(span={"start": 1, "end": 3}),
        lambda a: a.update(span={"start": -3, "end": 2}),
        lambda a: a.update(span={"start": 0, "end": 999}),
        lambda a: a.update(span=None),
        lambda a: a.update(aspect_term="환불"),
        lambda a: a.update(evidence="느려요"),
        lambda a: a.update(is_grounded=False),
    ],
    ids=["moved", "negative", "too long", "none", "term", "evidence", "mark"],
)
def test_an_aspect_or_evidence_that_is_not_in_the_text_is_found(
    copy: Path, edit: Callable[[Json], Any]
) -> None:
    change(copy / "outputs.jsonl", "k-plain", lambda o: edit(result(o)["final_aspects"][0]))
    assert found(verify(copy))["S5"] == {"k-plain"}


def test_made_up_evidence_marked_as_grounded_is_found(copy: Path) -> None:
    change(
        copy / "outputs.jsonl",
        "k-ungrounded",
        lambda o: result(o)["final_aspects"][0].update(is_grounded=True),
    )
    report = verify(copy)
    assert found(report)["S5"] == {"k-ungrounded"}
    assert "세련됐어요" in words(report, "S5", "k-ungrounded")


# S6 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leak",
    [
        {"gold": [{"aspect": "배송"}]},
        {"gold_label": "positive"},
        {"hint": {"term": "배송", "from": 0, "to": 2, "polarity": "positive"}},
        {"rationale": "sk-proj-abcdefghijklmnopqrstuvwx"},
        {"rationale": "Authorization: Bearer abcdef.ghijkl-mnop"},
        {"api_key": "anything"},
    ],
    ids=["gold", "gold label", "gold aspect", "key", "bearer", "key field"],
)
def test_gold_or_a_key_in_a_trace_is_found_and_not_repeated(copy: Path, leak: Json) -> None:
    change(copy / "traces.jsonl", "k-plain", lambda r: r["output"].update(leak), node="epm")
    report = verify(copy)
    assert found(report)["S6"] == {"k-plain"}
    assert "epm" in words(report, "S6", "k-plain")
    assert "abcdef" not in report.model_dump_json()


def test_a_key_in_an_error_or_the_manifest_is_found(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl", nobody="아무도 답하지 않아요.")
    out = make_run(tmp_path, data=data)
    change(out / "errors.jsonl", "nobody", lambda e: e.update(raw="sk-abcdefghijklmnop"))
    edit_manifest(out, lambda m: m.update(note="sk-abcdefghijklmnop"))
    assert found(verify(out)) == {"S6": {"nobody", None}}


def test_a_review_may_speak_of_gold() -> None:
    line = Line('{"aspect_evidence": {"gold": "shiny"}}', {})
    assert list(gold_in(line, "The gold is shiny.")) == []
    assert list(gold_in(line, "The ring is shiny."))


def test_an_output_without_its_trace_is_a_finding_and_no_crash(copy: Path) -> None:
    change(copy / "outputs.jsonl", "k-plain", lambda o: o.pop("process_trace"))
    change(copy / "outputs.jsonl", "k-add", lambda o: o.pop("meta"))
    change(copy / "traces.jsonl", "k-span", lambda r: r.update(output=[], usage="?"), node="ate")
    change(copy / "scorecards.jsonl", "k-drop", lambda c: c.update(gold=["?"]))
    report = verify(copy)
    assert {"k-plain", "k-add", "k-drop"} <= found(report)["Counts"]
    assert "k-span" in found(report)["S1"]


def test_what_looks_like_a_key_in_the_review_itself_is_no_leak() -> None:
    line = json.dumps({"evidence": "sk-abcdefghijklmnop"})
    assert list(leaks(line, "모델명 sk-abcdefghijklmnop 좋아요")) == []
    assert list(leaks(line, "모델명 좋아요"))


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_JUDGE_TOKEN", "vllm_secret"])
def test_the_users_own_keys_are_known_whatever_they_look_like(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "plain-words-as-key")
    (found,) = leaks(json.dumps({"raw": "you sent plain-words-as-key"}), "좋아요")
    assert name in found and "plain-words" not in found
    assert list(leaks(json.dumps({"raw": "you sent nothing"}), "좋아요")) == []


def test_a_prompt_with_something_else_in_it_is_found(copy: Path) -> None:
    """The hash shows it: the prompt did not consist of the text and the answers before it."""
    for name, part in (("traces.jsonl", None), ("outputs.jsonl", "process_trace")):

        def other(r: Json, part: str | None = part) -> None:
            calls = r[part] if part else [r]
            next(c for c in calls if c["node"] == "judge")["prompt_sha256"] = "0" * 64

        change(copy / name, "e-plain", other, **({} if part else {"node": "judge"}))
    report = verify(copy)
    assert found(report) == {"S6": {"e-plain"}}
    assert "judge" in words(report, "S6", "e-plain")


# Wrong use, unfinished runs, the command ----------------------------------------------------------


def test_no_run_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoRun, match="no such directory"):
        verify(tmp_path / "nowhere")
    assert absa(["verify", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_an_unfinished_run_is_checked_for_what_is_there(tmp_path: Path) -> None:
    out = make_run(tmp_path, limit=5)
    edit_manifest(out, lambda m: m.update(status="unfinished"))
    report = verify(out)
    assert found(report) == {}
    assert (report.ok, report.exit_code, report.samples) == (False, 1, 5)


def test_a_run_that_was_killed_before_it_wrote_anything_is_unfinished(tmp_path: Path) -> None:
    out = make_run(tmp_path, limit=2)
    edit_manifest(out, lambda m: m.update(status="unfinished"))
    for path in [*out.glob("*.jsonl"), *out.glob("*_summary.json")]:
        path.unlink()
    report = verify(out)
    assert found(report) == {}
    assert report.exit_code == 1


def test_the_command_shows_checks_and_samples(
    good: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert absa(["verify", str(good)]) == 0
    shown = capsys.readouterr().out
    assert "everything holds" in shown
    assert "not covered" in shown and "updated_at" in shown
    change(copy / "outputs.jsonl", "k-plain", lambda o: result(o).update(label="negative"))
    assert absa(["verify", str(copy)]) == 1
    shown = capsys.readouterr().out
    assert "k-plain" in shown and "violations in Journal, S1" in shown
    assert absa(["verify", str(copy), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert [c["name"] for c in report["checks"] if c["violations"]] == ["Journal", "S1"]
    assert any("updated_at" in what for what in report["not_covered"])


def test_an_unfinished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = make_run(tmp_path, limit=1)
    edit_manifest(out, lambda m: m.update(status="unfinished"))
    assert absa(["verify", str(out)]) == 1
    assert "the run is unfinished" in capsys.readouterr().out


# The journal, the scores, costs -------------------------------------------------------------


def edit_journal(run_dir: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(run_dir / "journal.db")) as journal, journal:
        journal.execute(sql, values)


def test_a_record_deleted_from_the_journal_is_found(copy: Path) -> None:
    edit_journal(copy, "DELETE FROM samples WHERE uid = 'k-flip'")
    report = verify(copy)
    assert found(report) == {}
    assert "the journal does not have" in words(report, "Journal", "k-flip")
    assert report.exit_code == 1


def test_a_line_that_is_not_the_journals_is_named(copy: Path) -> None:
    change(copy / "traces.jsonl", "k-flip", lambda r: r.update(latency_ms=9.0), node="ate")
    report = verify(copy)
    assert "traces.jsonl is not what the journal holds" in words(report, "Journal", "k-flip")
    assert {v.uid for v in report.check("Journal").violations} == {"k-flip"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no database"),
        lambda path: path.write_bytes(path.read_bytes()[:9000]),
    ],
    ids=["missing", "empty", "another file", "cut short"],
)
def test_a_damaged_journal_is_a_finding_and_no_crash(
    copy: Path, damage: Callable[[Path], Any]
) -> None:
    damage(copy / "journal.db")
    report = verify(copy)
    assert "journal.db" in words(report, "Journal", None)
    assert found(report) == {}
    assert report.exit_code == 1


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\0{", b"[]\n", b'{"uid": 1}\n', b"null\n", b'"']
)
@pytest.mark.parametrize("seen_by", ["Counts", "Metrics"])
def test_files_full_of_anything_are_findings_and_no_crash(
    copy: Path, content: bytes, seen_by: str
) -> None:
    """Each file in turn, and all of them."""
    write_metrics(copy, evaluate(copy))
    names = {
        "Counts": ["outputs.jsonl", "traces.jsonl", "scorecards.jsonl", "manifest.json"],
        "Metrics": ["metrics.json", "structural_metrics.csv"],
    }[seen_by]
    for name in names:
        before = (copy / name).read_bytes()
        (copy / name).write_bytes(content)
        assert verify(copy).check(seen_by).violations, name
        (copy / name).write_bytes(before)
    for path in copy.iterdir():
        path.write_bytes(content)
    assert verify(copy).exit_code == 1


def test_changed_scores_are_found(copy: Path) -> None:
    assert verify(copy).check("Metrics").checked == 0
    write_metrics(copy, evaluate(copy))
    report = verify(copy)
    assert report.ok and report.check("Metrics").checked == 2
    path = copy / "metrics.json"
    before = path.read_text("utf-8")
    metrics = json.loads(before)
    metrics["quality"]["final"]["pair"]["strict"]["f1"]["rate"] = 1.0
    path.write_text(json.dumps(metrics), "utf-8")
    assert "quality.final.pair.strict.f1.rate" in words(verify(copy), "Metrics", None)
    path.write_text(before, "utf-8")
    table = copy / "structural_metrics.csv"
    table.write_text(table.read_text("utf-8").replace(",0.", ",1."), "utf-8")
    assert "structural_metrics.csv: line" in words(verify(copy), "Metrics", None)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda m: m["spent"].update(calls=0), "spent.calls"),
        (lambda m: m["usage"].update(cost_usd=1.0), "usage.cost_usd"),
        (lambda m: m.update(elapsed_s=0.5), "elapsed_s"),
        (lambda m: m.update(run_id="another"), "run_id"),
    ],
)
def test_costs_and_facts_of_the_manifest_are_the_journals(
    copy: Path, edit: Callable[[Json], Any], what: str
) -> None:
    edit_manifest(copy, edit)
    assert what in words(verify(copy), "Journal", None)


def test_the_record_of_an_unreadable_line_must_be_that_of_the_data(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl")
    with data.open("a", encoding="utf-8") as file:
        file.write("not json\n")
    out = make_run(tmp_path, data=data, limit=len(TEXTS))
    (record,) = lines_of(out / "errors.jsonl")
    write(out / "errors.jsonl", [{**record, "excerpt": "something else"}])
    assert "excerpt" in words(verify(out), "Counts", None)


def test_the_server_of_a_call_is_the_one_of_the_settings() -> None:
    from absa.runs.verify.files import _allowed

    base = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:8000/v1"}
    backend = BackendSettings.model_validate(base)
    assert _allowed(backend, "ate", 0)["host"] == ("127.0.0.1:8000", None)
    may_leave = BackendSettings.model_validate({**base, "allow_redirects": True})
    assert "host" not in _allowed(may_leave, "ate", 0)


def test_a_call_of_another_backend_model_or_seed_is_found(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl")
    out = tmp_path / "run"
    asyncio.run(run(RunPlan(data=data, out=out, settings=Settings(), limit=1)))
    assert verify(out).ok
    calls = (("backend", "openai"), ("model", "gpt-4o"), ("seed", 7), ("host", "evil.example"))
    for part, value in calls:

        def other(o: Json, part: str = part, value: Any = value) -> None:
            o["process_trace"][0][part] = value

        before = (out / "outputs.jsonl").read_bytes()
        change(out / "outputs.jsonl", "k-plain", other)
        assert str(value) in words(verify(out), "S1", "k-plain")
        (out / "outputs.jsonl").write_bytes(before)


def test_a_file_that_settings_name_and_that_changed_is_a_note(tmp_path: Path) -> None:
    examples = tmp_path / "examples.jsonl"
    row = {"uid": "x", "text": "값이 싸요.", "aspects": []}
    examples.write_text(json.dumps(row) + "\n", "utf-8")
    settings = Settings.model_validate({"demos": {"k": 1, "path": str(examples)}})
    out = make_run(tmp_path, settings=settings, limit=1)
    report = verify(out)
    assert report.ok and report.notes == []
    examples.write_text(json.dumps({**row, "uid": "y"}) + "\n", "utf-8")
    assert "demos.path" in verify(out).notes[0]
    examples.unlink()
    report = verify(out)
    assert "demos" in report.warnings[0]


def test_the_fingerprint_shows_a_journal_that_is_another(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fingerprint = verify(copy).fingerprint
    assert fingerprint is not None
    assert absa(["verify", str(copy), "--expect", fingerprint]) == 0
    assert absa(["verify", str(copy), "--expect", "0" * 64]) == 1
    assert "fingerprint" in capsys.readouterr().out
