"""Batches in one process: identity, resuming, failures, seeds, artefacts, progress."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scripted import all_say, ate, atsa, said

from absa.cli import run as command_line
from absa.cli.progress import RunProgress
from absa.config import load_settings
from absa.runs import Progress, RunError, RunMismatch, RunPlan, RunReport
from absa.runs import run as run_batch
from absa.runs.artefacts import ARTEFACTS
from absa.runs.identity import TRANSPORT
from absa.runs.journal import Totals
from absa.runs.lock import locked
from absa.runs.plan import Control, RunBusy
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings

TEXT = "The price is steep."
CALLS = 10  # of one sample

# One server process for all tests of a worker: whoever comes first says what it imports.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["absa.cli.run", "absa.cli.progress", "absa.backends.openai"])


class Fake:
    """A backend that agrees on everything, remembers what it was asked, and fails on order."""

    def __init__(self, fails: Mapping[str, str] | None = None) -> None:
        # uid -> the node that gets no answer
        self.fails = dict(fails or {})
        # uids whose first answer has the word "poison" in it
        self.poisons: set[str] = set()
        self.asked: list[tuple[int, str, str]] = []
        self.before: Callable[[Ask], None] = lambda question: None
        self.delay_s = 0.0
        self._answers = said(
            ate=ate("price"),
            atsa=atsa(("price", "negative", "steep", 0.9)),
            **all_say("price", "positive"),
        )

    def backend_for(self, settings: BackendSettings) -> _Seeded:
        return _Seeded(self, settings.seed)

    def answer(self, question: Ask, seed: int) -> Reply:
        self.before(question)
        self.asked.append((seed, question.uid, question.node))
        if self.fails.get(question.uid) == question.node:
            raise BackendError(
                f"{question.node}: no", node=question.node, raw="half a pair: \ud800", attempts=3
            )
        output = self._answers[question.node]
        if question.uid in self.poisons and question.node == "ate":
            output = ate("poison")
        return Reply(
            output,
            backend="openai",
            model="gpt-4o-mini",
            seed=seed,
            usage={"prompt_tokens": 90, "completion_tokens": 10},
            latency_ms=1.0,
        )


class _Seeded:
    def __init__(self, fake: Fake, seed: int) -> None:
        self._fake, self._seed = fake, seed

    def ask(self, question: Ask) -> Reply:
        return self._fake.answer(question, self._seed)

    async def aask(self, question: Ask) -> Reply:
        await asyncio.sleep(self._fake.delay_s)
        return self.ask(question)


def write_data(path: Path, size: int, *extra: str) -> Path:
    rows = [json.dumps({"uid": f"u{n}", "text": f"{TEXT} {n}", "lang": "en"}) for n in range(size)]
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join([*rows, *extra]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    settings = load_settings(None, {"backend.kind": "openai", "backend.model": "gpt-4o-mini"})
    data = write_data(tmp_path / "data.jsonl", 6)
    return RunPlan(data, tmp_path / "out", settings, cache_path=tmp_path / "cache.db")


def changed(plan: RunPlan, settings: Mapping[str, Any] | None = None, **changes: Any) -> RunPlan:
    given = {"backend.kind": "openai", "backend.model": "gpt-4o-mini", **(settings or {})}
    return replace(plan, settings=load_settings(None, given), **changes)


def go(plan: RunPlan, fake: Fake | None = None, **more: Any) -> RunReport:
    fake = fake or Fake()
    return asyncio.run(run_batch(plan, backend_for=fake.backend_for, **more))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def uids(plan: RunPlan, name: str = "outputs.jsonl") -> list[str]:
    return [line["uid"] for line in lines(plan.out / name)]


def manifest(plan: RunPlan) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((plan.out / "manifest.json").read_text(encoding="utf-8"))
    return read


# A run and its artefacts ------------------------------------------------------------------------


def test_run_writes_every_sample_once_in_the_order_of_the_data(plan: RunPlan) -> None:
    report = go(plan)
    expected = [f"u{n}" for n in range(6)]
    assert (report.status, report.exit_code, report.total) == ("finished", 0, 6)
    assert uids(plan) == uids(plan, "scorecards.jsonl") == expected
    assert Counter(uids(plan, "traces.jsonl")) == dict.fromkeys(expected, CALLS)
    assert uids(plan, "errors.jsonl") == []
    assert set(ARTEFACTS) <= {file.name for file in plan.out.iterdir()}


def test_manifest_says_what_was_run_and_what_it_cost(plan: RunPlan) -> None:
    go(plan)
    found = manifest(plan)
    assert found["counts"] == {"samples": 6, "done": 6, "failed": 0, "bad_lines": 0}
    assert found["usage"]["calls"] == 6 * CALLS
    assert found["usage"]["prompt_tokens"] == 6 * CALLS * 90
    assert found["usage"]["cost_usd"] > 0
    assert found["data"]["format"] == "jsonl"
    assert found["settings"]["backend"]["model"] == "gpt-4o-mini"
    assert found["elapsed_s"] > 0


def test_trace_line_has_every_field_that_is_promised(plan: RunPlan) -> None:
    go(plan)
    promised = {"uid", "node", "turn", "seed", "backend", "model", "prompt_sha256", "output"}
    promised |= {"usage", "latency_ms", "cached", "attempts", "error"}
    assert promised <= lines(plan.out / "traces.jsonl")[0].keys()


def test_names_with_spaces_and_korean_and_brackets_are_just_names(
    plan: RunPlan, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "내 데이터 [1]" / "리뷰 #1 (최종)?.jsonl", 2)
    odd = replace(plan, data=data, out=tmp_path / "결과 % 폴더" / "첫 번째")
    assert go(odd).exit_code == 0
    assert go(odd).exit_code == 0
    assert uids(odd) == ["u0", "u1"]


def test_samples_in_flight_are_as_many_as_asked_for(plan: RunPlan) -> None:
    fake, under_way, peak = Fake(), set[str](), 0

    def watch(question: Ask) -> None:
        nonlocal peak
        under_way.add(question.uid)
        peak = max(peak, len(under_way))
        if question.node == "validator_review":
            under_way.discard(question.uid)

    fake.before, fake.delay_s = watch, 0.001
    go(replace(plan, concurrency=2), fake)
    assert peak == 2


# Resuming ---------------------------------------------------------------------------------------


def test_finished_run_asks_nothing_and_changes_nothing_but_the_date(plan: RunPlan) -> None:
    go(plan)
    before = {name: (plan.out / name).stat().st_mtime_ns for name in ARTEFACTS}
    fake = Fake()
    assert go(plan, fake).exit_code == 0
    assert fake.asked == []
    assert {name: (plan.out / name).stat().st_mtime_ns for name in ARTEFACTS} == before


def test_raised_limit_goes_on(plan: RunPlan) -> None:
    assert go(replace(plan, limit=2)).total == 2
    fake = Fake()
    report = go(replace(plan, limit=5), fake)
    assert (report.total, report.totals.done) == (5, 5)
    assert {uid for _, uid, _ in fake.asked} == {"u2", "u3", "u4"}
    assert go(plan).totals.done == 6
    assert uids(plan) == [f"u{n}" for n in range(6)]


def test_lowered_limit_takes_nothing_away(plan: RunPlan) -> None:
    go(plan)
    report = go(replace(plan, limit=2))
    assert (report.status, report.total, report.totals.done) == ("finished", 6, 6)
    assert len(uids(plan)) == 6


@pytest.mark.parametrize("use_cache", [True, False])
def test_drained_run_goes_on_without_asking_twice(plan: RunPlan, use_cache: bool) -> None:
    plan = replace(plan, concurrency=2, use_cache=use_cache)
    fake, control = Fake(), Control()
    fake.before = lambda q: control.drain("enough") if q.uid == "u1" else None
    report = go(plan, fake, control=control)
    assert (report.status, report.exit_code, report.stopped_because) == ("unfinished", 1, "enough")
    assert len(uids(plan)) == report.totals.done < 6
    assert manifest(plan)["status"] == "unfinished"

    fake.before = lambda q: None
    assert go(plan, fake).exit_code == 0
    assert uids(plan) == [f"u{n}" for n in range(6)]
    assert max(Counter(fake.asked).values()) == 1


@pytest.mark.parametrize("use_cache", [True, False])
def test_stopped_run_goes_on_and_asks_again_only_what_had_no_answer(
    plan: RunPlan, use_cache: bool
) -> None:
    plan = replace(plan, use_cache=use_cache)
    fake, control = Fake(), Control()
    fake.delay_s = 0.002
    fake.before = lambda q: control.stop() if (q.uid, q.node) == ("u3", "tan") else None
    assert go(plan, fake, control=control).status == "unfinished"
    assert manifest(plan)["counts"]["done"] == len(uids(plan))

    fake.before = lambda q: None
    assert go(plan, fake).exit_code == 0
    assert uids(plan) == [f"u{n}" for n in range(6)]
    again = [call for call, count in Counter(fake.asked).items() if count > 1]
    # What was answered and not yet stored at that moment: at most one call a sample.
    assert len(again) == len({uid for _, uid, _ in again})


def test_drain_after_the_last_sample_is_a_finished_run(plan: RunPlan) -> None:
    control = Control()

    def watch(progress: Progress) -> None:
        if progress.finished == 6:
            control.drain("too late")

    report = go(plan, control=control, on_progress=watch)
    assert (report.status, report.exit_code, report.stopped_because) == ("finished", 0, None)


def test_missing_artefact_is_made_again(plan: RunPlan) -> None:
    go(plan)
    for name in ARTEFACTS:
        before = (plan.out / name).read_bytes()
        (plan.out / name).unlink()
        fake = Fake()
        go(plan, fake)
        assert (plan.out / name).read_bytes() == before
        assert fake.asked == []


def _die_at_replacement(plan: RunPlan, number: int) -> None:
    count = 0
    real = Path.replace

    def counted(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, target)

    Path.replace = counted  # type: ignore[method-assign]
    go(plan)


def test_kill_during_the_export_leaves_whole_files_and_the_next_start_completes_them(
    plan: RunPlan, tmp_path: Path
) -> None:
    whole = replace(plan, out=tmp_path / "whole", cache_path=tmp_path / "whole.db")
    go(whole)
    earlier = replace(plan, limit=3)
    # Before the first file, after each of them, and before the last manifest.
    for number in range(2, len(ARTEFACTS) + 3):
        out, cache = tmp_path / f"out{number}", tmp_path / f"{number}.db"
        go(replace(earlier, out=out, cache_path=cache))
        old = {name: (out / name).read_bytes() for name in ARTEFACTS}
        disturbed = replace(plan, out=out, cache_path=cache)
        child = FORKS.Process(target=_die_at_replacement, args=(disturbed, number))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        for name in ARTEFACTS:
            new = (whole.out / name).read_bytes()
            assert (out / name).read_bytes() in (old[name], new), name

        fake = Fake()
        assert go(disturbed, fake).exit_code == 0
        assert fake.asked == []
        for name in ARTEFACTS:
            assert (out / name).read_bytes() == (whole.out / name).read_bytes(), name
        assert not list(out.glob("*.part"))


def test_second_run_in_the_same_directory_is_refused(plan: RunPlan) -> None:
    plan.out.mkdir()
    with locked(plan.out), pytest.raises(RunBusy, match="another process is running in"):
        go(plan)
    assert go(plan).exit_code == 0


def test_directory_that_cannot_be_made_is_refused(plan: RunPlan, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunBusy, match="choose a writable --out"):
        go(replace(plan, out=tmp_path / "file" / "out"))


# Identity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"backend.model": "other"}, "settings.backend.model: was 'gpt-4o-mini', is 'other'"),
        ({"backend.temperature": 0.5}, "settings.backend.temperature: was 0.0, is 0.5"),
        ({"backend.seed": 3}, "settings.backend.seed: was 0, is 3"),
        ({"pipeline.enable_debate": False}, "settings.pipeline.enable_debate: was True, is False"),
        ({"backend.base_url": "http://localhost:1/v1"}, "settings.backend.base_url: was None"),
    ],
)
def test_other_settings_are_refused_and_named(
    plan: RunPlan, settings: dict[str, Any], named: str
) -> None:
    go(plan)
    before = (plan.out / "manifest.json").read_bytes()
    with pytest.raises(RunMismatch) as refused:
        go(changed(plan, settings))
    assert named in str(refused.value)
    assert "--out" in str(refused.value)
    assert (plan.out / "manifest.json").read_bytes() == before
    assert go(plan).exit_code == 0


def test_other_data_is_refused_and_the_same_data_elsewhere_is_not(
    plan: RunPlan, tmp_path: Path
) -> None:
    go(plan)
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(plan.data.read_bytes())
    assert go(replace(plan, data=moved)).exit_code == 0
    write_data(moved, 7)
    with pytest.raises(RunMismatch, match=r"data\.sha256: was"):
        go(replace(plan, data=moved))


def test_renamed_data_is_refused_if_samples_are_named_after_it(
    plan: RunPlan, tmp_path: Path
) -> None:
    plan.data.write_text(json.dumps({"text": TEXT, "lang": "en"}) + "\n", encoding="utf-8")
    go(plan)
    assert uids(plan) == ["data-00001"]
    renamed = plan.data.rename(tmp_path / "other.jsonl")
    with pytest.raises(RunMismatch, match=r"data\.name: was 'data', is 'other'"):
        go(replace(plan, data=renamed))


def test_other_prompts_are_refused_and_named(
    plan: RunPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(plan)
    import absa.runs.identity as identity

    real = identity.folder_hashes
    monkeypatch.setattr(
        identity,
        "folder_hashes",
        lambda name: {**real(name), "judge.md": "0"} if name == "prompts" else real(name),
    )
    with pytest.raises(RunMismatch, match=r"prompts\.judge\.md: was"):
        go(plan)


@pytest.mark.parametrize(
    "settings",
    [{"backend.timeout_s": 1.0}, {"backend.max_retries": 0}, {"backend.max_concurrency": 1}],
)
def test_transport_does_not_count(plan: RunPlan, settings: dict[str, Any]) -> None:
    assert {key.removeprefix("backend.") for key in settings} <= set(TRANSPORT)
    go(plan)
    assert go(changed(plan, settings)).exit_code == 0


def test_results_without_a_journal_are_not_overwritten(plan: RunPlan) -> None:
    plan.out.mkdir()
    (plan.out / "outputs.jsonl").write_text("mine\n")
    with pytest.raises(RunMismatch, match=r"has outputs\.jsonl, but its journal\.db is not there"):
        go(plan)
    assert (plan.out / "outputs.jsonl").read_text() == "mine\n"


def test_damaged_journal_is_named_with_its_remedy(plan: RunPlan) -> None:
    plan.out.mkdir()
    (plan.out / "journal.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(RunError, match=r"journal\.db: .*damaged: restore it from a copy, or"):
        go(plan)


def test_damaged_cache_ends_the_run_and_spoils_no_sample(plan: RunPlan) -> None:
    assert plan.cache_path
    plan.cache_path.write_bytes(b"garbage" * 1000)
    with pytest.raises(RunError, match=r"cache\.db: .*delete the file"):
        go(plan)
    plan.cache_path.unlink()
    assert go(plan).totals == replace(go(plan).totals, done=6, failed=0)


# Failures ---------------------------------------------------------------------------------------


def test_failed_sample_stands_in_errors_and_the_others_go_on(plan: RunPlan) -> None:
    report = go(plan, Fake({"u2": "judge"}))
    assert (report.status, report.exit_code, report.totals.failed) == ("finished", 1, 1)
    assert "u2" not in uids(plan)
    assert len(uids(plan)) == 5
    (error,) = lines(plan.out / "errors.jsonl")
    assert error == {
        "uid": "u2",
        "seed": 0,
        "kind": "failed",
        "reason": "judge: no",
        "node": "judge",
        "turn": 0,
        "attempts": 3,
        "raw": "half a pair: ?",
        # Six answers before it and its own.
        "spent": {
            "calls": 7,
            "prompt_tokens": 540,
            "completion_tokens": 60,
            "cost_usd": pytest.approx(0.000117),
            "calls_without_usage": 0,
        },
    }


def test_error_in_our_own_code_costs_one_sample(plan: RunPlan) -> None:
    fake = Fake()

    def trip(question: Ask) -> None:
        if (question.uid, question.node) == ("u1", "epm"):
            raise ZeroDivisionError("of course")

    fake.before = trip
    assert go(plan, fake).totals.failed == 1
    (error,) = lines(plan.out / "errors.jsonl")
    assert error["reason"] == "internal error: ZeroDivisionError: of course"


@pytest.mark.parametrize("use_cache", [True, False])
def test_retry_asks_again_when_a_stored_answer_made_the_sample_fail(
    plan: RunPlan, use_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with an answer, it must not fail its sample for ever."""
    from absa.runs import sample as one_sample

    real = one_sample.record_of

    def fussy(output: Any, *args: Any) -> Any:
        if "poison" in output.model_dump_json():
            raise OverflowError("too large")
        return real(output, *args)

    monkeypatch.setattr(one_sample, "record_of", fussy)
    poisoned = Fake()
    poisoned.poisons = {"u1"}
    go(replace(plan, use_cache=use_cache), poisoned)
    (error,) = lines(plan.out / "errors.jsonl")
    assert error["reason"] == "internal error: OverflowError: too large"
    fake = Fake()
    assert go(replace(plan, use_cache=use_cache, retry_failed=True), fake).exit_code == 0
    assert Counter(uid for _, uid, _ in fake.asked) == {"u1": CALLS}
    # The new answers replaced the stored ones.
    if use_cache:
        assert go(replace(plan, out=plan.out.with_name("other")), Fake()).exit_code == 0


@pytest.mark.parametrize("use_cache", [True, False])
def test_retry_takes_the_failed_samples_and_asks_only_what_had_no_answer(
    plan: RunPlan, use_cache: bool
) -> None:
    plan = replace(plan, use_cache=use_cache)
    fake = Fake({"u2": "judge", "u4": "tan"})
    go(plan, fake)
    fake.asked.clear()
    assert go(plan, fake).totals.failed == 2
    assert fake.asked == []

    fake.fails = {}
    report = go(replace(plan, retry_failed=True), fake)
    assert (report.exit_code, report.totals.failed) == (0, 0)
    assert {uid for _, uid, _ in fake.asked} == {"u2", "u4"}
    assert {node for _, uid, node in fake.asked if uid == "u2"} == {
        "judge",
        "ate_review",
        "atsa_review",
        "validator_review",
    }
    assert uids(plan) == [f"u{n}" for n in range(6)]
    assert uids(plan, "errors.jsonl") == []


def test_retry_that_was_stopped_is_no_finished_run(plan: RunPlan) -> None:
    go(plan, Fake({"u2": "judge", "u4": "tan"}))
    control = Control()
    control.drain("at once")
    report = go(replace(plan, retry_failed=True), control=control)
    assert (report.status, report.exit_code) == ("unfinished", 1)
    assert uids(plan, "errors.jsonl") == []
    assert go(plan).exit_code == 0


@pytest.mark.parametrize(
    ("limit", "stops"),
    [(None, False), (0, True), (1, True), (2, False), (0.0, True), (0.3, True), (0.34, False)],
)
def test_too_many_failures_stop_the_run(
    plan: RunPlan, limit: int | float | None, stops: bool
) -> None:
    strict = replace(plan, fail_on_error=limit, concurrency=1)
    report = go(strict, Fake({"u0": "ate", "u1": "ate"}))
    assert (report.status == "unfinished") is stops
    assert report.exit_code == 1
    if stops:
        assert f"more than --fail-on-error {limit}" in str(report.stopped_because)
        # The same command stops again before it asks anything.
        fake = Fake()
        go(strict, fake)
        assert fake.asked == []


def test_bad_lines_cost_themselves_and_stand_in_errors(plan: RunPlan, tmp_path: Path) -> None:
    data = write_data(tmp_path / "bad.jsonl", 2, "no JSON", '{"uid": "u0", "text": "again"}')
    plan = replace(plan, data=data)
    for _ in range(2):
        report = go(plan)
        assert (report.exit_code, report.bad_lines, report.totals.done) == (1, 2, 2)
        assert [(e["kind"], e["line"]) for e in lines(plan.out / "errors.jsonl")] == [
            ("bad_line", 3),
            ("bad_line", 4),
        ]
    assert manifest(plan)["counts"]["bad_lines"] == 2


def test_bad_elements_on_one_line_are_all_reported(plan: RunPlan, tmp_path: Path) -> None:
    data = tmp_path / "one line.xml"
    bad = '<sentence id="a"><text></text></sentence>'
    good = f'<sentence id="g"><text>{TEXT}</text></sentence>'
    data.write_text(f"<sentences>{bad}{good}{bad}</sentences>", encoding="utf-8")
    report = go(replace(plan, data=data))
    assert report.bad_lines == len(lines(plan.out / "errors.jsonl")) == 2


# Seeds ------------------------------------------------------------------------------------------


def test_each_seed_has_its_records_told_apart(plan: RunPlan) -> None:
    fake = Fake()
    report = go(replace(plan, seeds=(1, 2)), fake)
    assert (report.total, report.totals.done, report.exit_code) == (12, 12, 0)
    assert Counter(seed for seed, _, _ in fake.asked) == {1: 60, 2: 60}
    by_sample = [(f"u{n}", seed) for n in range(6) for seed in (1, 2)]
    scorecards = lines(plan.out / "scorecards.jsonl")
    assert [(line["uid"], line["seed"]) for line in scorecards] == by_sample
    assert uids(plan) == [uid for uid, _ in by_sample]
    traces = lines(plan.out / "traces.jsonl")
    assert len({(t["uid"], t["seed"], t["node"], t["turn"]) for t in traces}) == 12 * CALLS
    assert manifest(plan)["seeds"] == [1, 2]


def test_run_of_seeds_goes_on_with_its_own_seeds(plan: RunPlan) -> None:
    control, fake = Control(), Fake()
    fake.before = lambda q: control.drain("enough")
    go(replace(plan, seeds=(1, 2), concurrency=1), fake, control=control)
    assert go(plan).total == 12
    assert {line["seed"] for line in lines(plan.out / "scorecards.jsonl")} == {1, 2}


def test_added_seed_is_not_finished_by_what_others_did(plan: RunPlan) -> None:
    go(replace(plan, seeds=(1,)))
    control, fake = Control(), Fake()
    fake.before = lambda q: control.drain("enough")
    report = go(replace(plan, seeds=(2,), concurrency=1), fake, control=control)
    assert (report.status, report.total, report.totals.done) == ("unfinished", 12, 7)
    report = go(replace(plan, seeds=(2,)))
    assert (report.status, report.total, report.totals.done) == ("finished", 12, 12)
    assert manifest(plan)["seeds"] == [1, 2]


# Cached answers ---------------------------------------------------------------------------------


def test_hits_are_counted_and_cost_nothing(plan: RunPlan, tmp_path: Path) -> None:
    go(plan)
    fake = Fake()
    again = replace(plan, out=tmp_path / "again")
    totals = go(again, fake).totals
    assert fake.asked == []
    assert totals == Totals(done=6, cached=6 * CALLS)
    assert all(t["cached"] and t["attempts"] == 0 for t in lines(again.out / "traces.jsonl"))


def test_run_without_the_cache_neither_reads_nor_fills_it(plan: RunPlan, tmp_path: Path) -> None:
    go(plan)
    fake = Fake()
    go(replace(plan, out=tmp_path / "again", use_cache=False), fake)
    assert len(fake.asked) == 6 * CALLS
    other = replace(plan, out=tmp_path / "other", cache_path=tmp_path / "other.db")
    go(replace(other, use_cache=False))
    assert not (tmp_path / "other.db").exists()


# The command ------------------------------------------------------------------------------------


def test_exit_codes_and_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: RunPlan
) -> None:
    call = partial(_command, capsys)
    data, out = str(write_data(tmp_path / "d.jsonl", 2)), str(tmp_path / "r")
    assert call("run", data, "--out", out)[0] == 0
    code, _, err = call("run", data, "--out", out, "--set", "pipeline.enable_debate=false")
    assert code == 2
    assert "settings.pipeline.enable_debate: was True, is False" in err
    assert call("run", str(tmp_path / "none.jsonl"), "--out", out)[0] == 2
    assert call("run", data, "--out", data)[0] == 2
    for wrong in (["--seeds", "x"], ["--seeds", str(2**63)], ["--fail-on-error", "1.5"]):
        assert call("run", data, "--out", out, *wrong)[0] == 2
    write_data(tmp_path / "bad.jsonl", 1, "no JSON")
    code, stdout, _ = call("run", str(tmp_path / "bad.jsonl"), "--out", f"{out}2", "--json")
    assert (code, json.loads(stdout)["bad_lines"]) == (1, 1)
    Path(out, "journal.db").write_bytes(b"garbage" * 1000)
    code, _, err = call("run", data, "--out", out)
    assert code == 1
    assert "is damaged: restore it" in err
    assert "Traceback" not in err


def _command(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = command_line(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_korean_and_english_reviews_run_offline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "리뷰 1.csv"
    data.write_text("text\n사용감은 좋지만 가격은 비싸요.\nThe food is great.\n", encoding="utf-8")
    out = tmp_path / "결과 1"
    assert _command(capsys, "run", str(data), "--out", str(out))[0] == 0
    written = (out / "outputs.jsonl").read_text(encoding="utf-8")
    assert "사용감은 좋지만 가격은 비싸요." in written
    assert [line["uid"] for line in lines(out / "outputs.jsonl")] == [
        "리뷰_1-00002",
        "리뷰_1-00003",
    ]


# Progress ---------------------------------------------------------------------------------------


def progress(done: int, failed: int = 0, **totals: Any) -> Progress:
    return Progress(
        total=10, totals=Totals(done=done, failed=failed, **totals), bad_lines=0, started_with=2
    )


def test_progress_without_a_terminal_is_plain_lines() -> None:
    stream = StringIO()
    with RunProgress(Console(file=stream)) as show:
        show(progress(2))
        time.sleep(0.01)
        for done in range(3, 7):
            show(progress(done, 1, prompt_tokens=1200, completion_tokens=34, cost_usd=0.25))
    first, last = stream.getvalue().splitlines()
    assert first.startswith("2/10 samples, 0 failed")
    assert last.startswith("7/10 samples, 1 failed, ")
    for fact in ("/s", "1,234 tokens", "$0.2500", "ETA 0:"):
        assert fact in last
    assert "\x1b" not in stream.getvalue()


def test_progress_says_once_what_does_not_change() -> None:
    stream = StringIO()
    with RunProgress(Console(file=stream)) as show:
        show(progress(10, cost_usd=None))
    assert len(stream.getvalue().splitlines()) == 1
    assert "cost unknown" in stream.getvalue()


def test_progress_on_a_terminal_is_a_bar() -> None:
    stream = StringIO()
    with RunProgress(Console(file=stream, force_terminal=True, width=120)) as show:
        show(progress(2))
        time.sleep(0.11)
        show(progress(6, 1))
    assert "━" in stream.getvalue()
    assert "7/10" in stream.getvalue()
