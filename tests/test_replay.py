"""The decision layer again on recorded answers: equal settings, equal results; no model called."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend, all_say, ate, ate_review, atsa, judge, said, set_polarity

from absa.backends.replay import ReplayBackend
from absa.cli import run as absa
from absa.config import SettingsError, load_settings
from absa.runs import RunMismatch, RunPlan, RunReport, run
from absa.runs.directory import NoRun
from absa.runs.replay import Recorded, replay, replay_settings
from absa.runs.verify import verify
from absa.schemas.answers import AteAnswer, AteReviewAnswer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError, InputError
from absa.schemas.settings import BackendSettings, Settings

Json = dict[str, Any]

ROWS: list[Json] = [
    {"uid": "k1", "text": "사용감은 좋지만 가격은 비싸요.", "domain": "화장품", "split": "dev"},
    {
        "uid": "k2",
        "text": "배송이 빠르고 포장도 꼼꼼해요.",
        "aspects": [
            {"term": "배송", "from": 0, "to": 2, "polarity": "positive", "opinion": "빠르고"},
            {"term": None, "from": None, "to": None, "polarity": "neutral", "category": "A#B"},
        ],
    },
    {"uid": "k3", "text": "배터리가 오래가요.", "aspects": [], "label": "positive"},
    {"uid": "k4", "text": '"따옴표"와\u2028줄 바꿈\n그리고 😀 화면이 어두워요.', "lang": "ko-KR"},
    {"uid": "e1", "text": "The battery is great but the screen is terrible.", "label": "mixed"},
    {
        "uid": "e2",
        "text": "The waiter was not friendly at all.",
        "incomplete_gold": True,
        "aspects": [],
    },
]


def write_data(path: Path, rows: list[Json] | None = None) -> Path:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows or ROWS]
    path.write_text("".join(lines), "utf-8")
    return path


def record(folder: Path, settings: Settings | None = None, **plan: Any) -> Path:
    """An offline run whose data file is then gone."""
    data = write_data(folder / "data.jsonl", plan.pop("rows", None))
    out = folder / "recorded"
    backend_for = plan.pop("backend_for", None)
    given = RunPlan(data=data, out=out, settings=settings or load_settings(), **plan)
    asyncio.run(run(given, **({"backend_for": backend_for} if backend_for else {})))
    data.unlink()
    return out


def again(directory: Path, out: Path, **changes: object) -> RunReport:
    recorded = Recorded.read(directory)
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return asyncio.run(replay(recorded, out, replay_settings(recorded, None, given)))


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def without_transport(record: Json) -> str:
    """A record as it is written, less what a clock or the backend wrote into it."""
    usage = record["meta"]["usage"] if "meta" in record else record["usage"]
    for name in ("latency_ms", "attempts", "cached_calls"):
        usage.pop(name, None)
    usage.pop("critical_path_ms", None)
    for call in record.get("process_trace", ()):
        for name in ("backend", "seed", "latency_ms", "cached", "attempts"):
            call.pop(name)
    for name in ("backend", "latency_ms", "cached", "attempts"):
        record.pop(name, None)
    return json.dumps(record, ensure_ascii=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded"))


# Equal settings, equal results --------------------------------------------------------------------


def test_equal_settings_give_equal_outputs_byte_for_byte(recorded: Path, tmp_path: Path) -> None:
    report = again(recorded, tmp_path / "out")
    assert (report.exit_code, report.totals.done, report.bad_lines) == (0, len(ROWS), 0)
    for name in ("outputs.jsonl", "scorecards.jsonl"):
        one, other = (
            [without_transport(r) for r in lines_of(d / name)] for d in (recorded, tmp_path / "out")
        )
        assert one == other
    for name in ("override_gate_debug.jsonl", "override_gate_debug_summary.json", "errors.jsonl"):
        assert (recorded / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_no_model_is_called_and_nothing_is_paid(recorded: Path, tmp_path: Path) -> None:
    again(recorded, tmp_path / "out")
    assert {c["backend"] for c in lines_of(tmp_path / "out" / "traces.jsonl")} == {"replay"}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["usage"]["cost_usd"] == 0


def test_a_replay_is_a_run_like_any_other(recorded: Path, tmp_path: Path) -> None:
    """It can be verified, replayed and continued."""
    again(recorded, tmp_path / "one")
    report = again(tmp_path / "one", tmp_path / "two")
    assert report.exit_code == 0
    assert verify(tmp_path / "two").ok
    assert again(tmp_path / "one", tmp_path / "two").exit_code == 0


def test_the_samples_come_from_the_run_with_their_gold(recorded: Path, tmp_path: Path) -> None:
    again(recorded, tmp_path / "out")
    samples = {s["uid"]: s for s in lines_of(tmp_path / "out" / "samples.jsonl")}
    assert list(samples) == [row["uid"] for row in ROWS]
    assert {uid: s["text"] for uid, s in samples.items()} == {r["uid"]: r["text"] for r in ROWS}
    assert (samples["k1"]["domain"], samples["k1"]["split"]) == ("화장품", "dev")
    assert "aspects" not in samples["k1"] and samples["k3"]["aspects"] == []
    assert samples["k2"]["aspects"][0]["opinion"] == "빠르고"
    assert samples["e2"]["incomplete_gold"] is True


# Other settings -----------------------------------------------------------------------------------


OVERRIDDEN = said(
    ate=ate("배터리"),
    atsa=atsa(("배터리", "negative", "오래가요", 0.5)),
    **all_say("배터리", "positive"),
    judge=judge(
        set_polarity("배터리", "positive"),
        tuples=[("배터리", "positive")],
        evidence={"배터리": "오래가요"},
    ),
)


def record_override(folder: Path, settings: Settings | None = None) -> Path:
    """One sample that the debate overrides with a total of 2.3."""
    rows = [row for row in ROWS if row["uid"] == "k3"]
    backend = ScriptedBackend(OVERRIDDEN)
    return record(folder, settings, rows=rows, backend_for=lambda settings: backend)


def verdicts(out: Path) -> list[str]:
    return [r["verdict"] for r in lines_of(out / "override_gate_debug.jsonl")]


def test_other_thresholds_decide_otherwise(tmp_path: Path) -> None:
    directory = record_override(tmp_path)
    assert verdicts(directory) == ["flip"]
    again(directory, tmp_path / "out", pipeline__debate_override__min_total=2.4)
    assert verdicts(tmp_path / "out") == ["low_signal"]
    (output,) = lines_of(tmp_path / "out" / "outputs.jsonl")
    assert output["final_result"]["final_tuples"] == output["final_result"]["stage1_tuples"]


def test_a_part_that_is_switched_off_needs_no_answers(recorded: Path, tmp_path: Path) -> None:
    report = again(recorded, tmp_path / "out", pipeline__enable_debate=False)
    assert report.exit_code == 0
    nodes = {c["node"] for c in lines_of(tmp_path / "out" / "traces.jsonl")}
    assert "epm" not in nodes and "ate_review" in nodes


def test_another_profile_brings_its_own_thresholds(tmp_path: Path) -> None:
    recorded = Recorded.read(record_override(tmp_path))
    settings = replay_settings(recorded, None, {"pipeline.override_profile": "t2"})
    expected = load_settings("override_t2").pipeline.debate_override
    assert settings.pipeline.debate_override == expected


def test_a_threshold_the_run_was_given_stays_under_another_profile(tmp_path: Path) -> None:
    given = load_settings(None, {"pipeline.debate_override.min_total": 2.0})
    recorded = Recorded.read(record_override(tmp_path, given))
    settings = replay_settings(recorded, None, {"pipeline.override_profile": "t2"})
    assert settings.pipeline.debate_override.min_total == 2.0
    assert settings.pipeline.debate_override.min_margin == 0.3


def test_a_config_replaces_the_settings_of_the_run(recorded: Path) -> None:
    settings = replay_settings(Recorded.read(recorded), "abl_no_moderator", {})
    assert not settings.pipeline.enable_moderator
    assert (settings.backend.kind, settings.backend.path) == ("replay", str(recorded))


def test_an_answer_that_was_not_recorded_fails_its_sample_and_names_the_node(
    tmp_path: Path,
) -> None:
    directory = record(tmp_path, load_settings(None, {"pipeline.enable_debate": False}))
    report = again(directory, tmp_path / "out", pipeline__enable_debate=True)
    assert (report.exit_code, report.totals.failed) == (1, len(ROWS))
    errors = lines_of(tmp_path / "out" / "errors.jsonl")
    assert {e["node"] for e in errors} == {"epm"}
    assert all("no recorded answer" in e["reason"] and e["uid"] in e["reason"] for e in errors)


# Seeds --------------------------------------------------------------------------------------------


class Moody:
    """Says another polarity under another seed, and nothing at all about e1 under seed 2."""

    def __init__(self, settings: BackendSettings) -> None:
        self._seed = settings.seed
        mood = "positive" if settings.seed == 1 else "negative"
        self._script = ScriptedBackend(
            said(ate=ate("배송"), atsa=atsa(("배송", mood, "빠르고", 0.9)))
        )

    def ask(self, question: Ask) -> Reply:
        if question.uid == "e1" and self._seed == 2:
            raise BackendError("no answer", node=question.node)
        return self._script.ask(question)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def stage1_by_seed(out: Path) -> dict[tuple[str, int], list[str]]:
    return {
        (c["uid"], c["seed"]): [t["polarity"] for t in c["stage1_tuples"]]
        for c in lines_of(out / "scorecards.jsonl")
    }


def test_every_seed_is_replayed_with_its_own_answers(tmp_path: Path) -> None:
    directory = record(tmp_path, rows=ROWS[:2], seeds=(1, 2), backend_for=Moody)
    report = again(directory, tmp_path / "out")
    assert (report.exit_code, report.totals.done) == (0, 4)
    assert stage1_by_seed(tmp_path / "out") == stage1_by_seed(directory)
    assert stage1_by_seed(directory)["k2", 1] != stage1_by_seed(directory)["k2", 2]
    assert verify(tmp_path / "out").ok


def test_a_sample_that_failed_under_one_seed_is_not_answered_from_another(tmp_path: Path) -> None:
    directory = record(tmp_path, rows=[ROWS[1], ROWS[4]], seeds=(1, 2), backend_for=Moody)
    report = again(directory, tmp_path / "out")
    assert (report.totals.done, report.totals.failed) == (3, 1)
    (error,) = lines_of(tmp_path / "out" / "errors.jsonl")
    assert (error["uid"], error["seed"]) == ("e1", 2)
    assert "seed 2" in error["reason"]


# The backend --------------------------------------------------------------------------------------


def question(node: str = "ate", uid: str = "a", turn: int = 0) -> Ask:
    answer = AteReviewAnswer if node == "ate_review" else AteAnswer
    return Ask(node, turn, uid, "", "", "", {}, answer)


def traces(path: Path, *lines: Mapping[str, Any]) -> Path:
    file = path / "traces.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def said_by(term: str, **more: Any) -> Json:
    return {"uid": "a", "node": "ate", "turn": 0, "output": ate(term), **more}


def test_a_line_needs_only_uid_node_turn_and_output(tmp_path: Path) -> None:
    file = traces(tmp_path, said_by("soup"))
    for backend in (ReplayBackend(str(file)), ReplayBackend(str(tmp_path), seed=7)):
        assert backend.ask(question()).output == ate("soup")


def test_answers_of_one_seed_serve_any(tmp_path: Path) -> None:
    traces(tmp_path, said_by("soup", seed=5))
    assert ReplayBackend(str(tmp_path), seed=0).ask(question()).output == ate("soup")
    assert ReplayBackend(str(tmp_path)).ask(question()).output == ate("soup")


def test_of_several_seeds_the_one_asked_for_answers(tmp_path: Path) -> None:
    traces(tmp_path, said_by("soup", seed=1), said_by("bread", seed=2))
    assert ReplayBackend(str(tmp_path), seed=1).ask(question()).output == ate("soup")
    assert ReplayBackend(str(tmp_path), seed=2).ask(question()).output == ate("bread")
    with pytest.raises(BackendError, match="several seeds"):
        ReplayBackend(str(tmp_path), seed=3).ask(question())


def test_of_the_same_call_twice_the_later_line_counts(tmp_path: Path) -> None:
    traces(tmp_path, said_by("soup", seed=1), said_by("bread", seed=1))
    assert ReplayBackend(str(tmp_path), seed=1).ask(question()).output == ate("bread")


def test_a_missing_answer_names_sample_node_and_turn(tmp_path: Path) -> None:
    traces(tmp_path, said_by("soup"))
    with pytest.raises(BackendError, match="'a', node 'ate', turn 1") as error:
        ReplayBackend(str(tmp_path)).ask(question(turn=1))
    assert error.value.node == "ate"


def test_notes_of_the_backend_are_kept_and_those_of_the_reader_made_once(tmp_path: Path) -> None:
    output = {**ate_review(("soup", "keep")), "aspects": []}
    noted = ["answer was cut out of prose", "aspects discarded: reviews only"]
    line = {"uid": "a", "node": "ate_review", "turn": 0, "output": output, "notes": noted}
    traces(tmp_path, line)
    reply = ReplayBackend(str(tmp_path)).ask(question("ate_review"))
    assert reply.notes == ("answer was cut out of prose",)


# Wrong use and the command ------------------------------------------------------------------------


def test_the_recorded_run_itself_is_no_place_for_a_replay(recorded: Path) -> None:
    before = (recorded / "manifest.json").read_bytes()
    with pytest.raises(RunMismatch, match="recorded run itself"):
        again(recorded, recorded)
    assert (recorded / "manifest.json").read_bytes() == before


def test_another_run_is_not_touched(recorded: Path, tmp_path: Path) -> None:
    other = record(tmp_path, rows=ROWS[:1])
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    with pytest.raises(RunMismatch, match="not a replay"):
        again(recorded, other)
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before
    again(other, tmp_path / "out")
    with pytest.raises(RunMismatch, match="samples differ"):
        again(recorded, tmp_path / "out")
    with pytest.raises(RunMismatch, match="enable_moderator"):
        again(other, tmp_path / "out", pipeline__enable_moderator=False)
    assert len(lines_of(tmp_path / "out" / "samples.jsonl")) == 1


@pytest.mark.parametrize("key", ["backend.kind", "backend.path", "backend"])
def test_another_backend_is_not_asked(recorded: Path, key: str) -> None:
    with pytest.raises(SettingsError, match="always uses recorded answers"):
        replay_settings(Recorded.read(recorded), None, {key: "offline"})


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRun, match="not a run directory"):
        Recorded.read(tmp_path)
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    with pytest.raises(NoRun, match="not a valid manifest"):
        Recorded.read(tmp_path)


def test_damaged_artefacts_are_refused_in_words(tmp_path: Path) -> None:
    directory = record(tmp_path, rows=ROWS[:2])
    cards = directory / "scorecards.jsonl"
    cards.write_bytes(cards.read_bytes()[:-30])
    with pytest.raises(NoRun, match="absa verify"):
        again(directory, tmp_path / "out")


def test_the_command_replays_and_says_how_it_ended(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ["replay", str(recorded), "--out", str(out), "--set", "pipeline.override_profile=t1"]
    assert absa(args) == 0
    assert f"{len(ROWS)} of {len(ROWS)} samples decided again" in capsys.readouterr().out
    assert absa([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["done"] == len(ROWS)
    assert absa(["replay", str(recorded), "--out", str(out)]) == 2
    assert "holds another run" in capsys.readouterr().err
    assert absa(["replay", str(recorded), "--out", str(tmp_path / "x"), "--set", "a.b=1"]) == 2
    assert absa(["replay", str(tmp_path / "none"), "--out", str(tmp_path / "x")]) == 2


def test_samples_that_failed_in_the_recorded_run_are_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = record(tmp_path, rows=[ROWS[1], ROWS[4]], seeds=(2,), backend_for=Moody)
    assert absa(["replay", str(directory), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "1 of 1 samples" in shown.out
    assert "1 samples failed in the recorded run" in shown.err


def test_recorded_answers_may_be_gzip_compressed(tmp_path: Path) -> None:
    record = {"uid": "k1", "node": "ate", "turn": 0, "output": {"aspects": [{"term": "가격"}]}}
    packed = tmp_path / "answers.jsonl.gz"
    packed.write_bytes(gzip.compress((json.dumps(record) + "\n").encode()))
    question = Ask(
        node="ate",
        turn=0,
        uid="k1",
        system="",
        user="",
        prompt_sha256="",
        inputs={},
        answer=AteAnswer,
    )
    assert ReplayBackend(str(packed)).ask(question).output == record["output"]
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match="not recorded answers"):
        ReplayBackend(str(packed))
