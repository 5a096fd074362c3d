"""Long and hostile texts: a bound, linear cost, stopping at once, a server that still answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from langgraph_server import Serving, langgraph_dev

from absa import analyze
from absa.api import aanalyze
from absa.cli import run as absa
from absa.config import load_settings
from absa.offline import Analysis
from absa.offline.analysis import Analyser, AnalysisCache
from absa.offline.models.cues import scene_of
from absa.offline.models.loading import Models
from absa.offline.models.tagger import disjoint
from absa.offline.stopping import Stopped, stoppable, stopped_by_interrupt
from absa.offline.text.views import view_of
from absa.offline.text.windows import Windows, pieces
from absa.schemas.errors import InputError

RAISED = "pipeline.max_text_chars=400000"
REVIEW = "The food was great but the service was slow. "


def long_text(length: int) -> str:
    return (REVIEW * (length // len(REVIEW) + 1))[:length]


# The bound --------------------------------------------------------------------------------------


def test_a_text_beyond_the_bound_is_refused_with_length_bound_and_setting() -> None:
    with pytest.raises(InputError, match=r"100,001 characters.*max_text_chars allows 100,000"):
        analyze("!" * 100_001)


def test_the_bound_is_a_setting() -> None:
    settings = load_settings(None, {"pipeline.max_text_chars": 10})
    assert analyze("Nice food.", settings).text == "Nice food."
    with pytest.raises(InputError, match="11 characters"):
        analyze("Nice food!!", settings)


def test_on_the_command_line_it_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["analyze", "!" * 100_001]) == 2
    assert "max_text_chars" in capsys.readouterr().err


def test_in_a_batch_a_long_text_fails_alone(tmp_path: Path) -> None:
    data = tmp_path / "reviews.jsonl"
    texts = {"long": "!" * 100_001, "short": "The food was great."}
    data.write_text("".join(json.dumps({"uid": u, "text": t}) + "\n" for u, t in texts.items()))
    assert absa(["run", str(data), "--out", str(tmp_path / "run")]) == 1
    errors = (tmp_path / "run" / "errors.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(e["uid"], "max_text_chars" in e["reason"]) for e in map(json.loads, errors)] == [
        ("long", True)
    ]
    outputs = (tmp_path / "run" / "outputs.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["uid"] for line in outputs] == ["short"]


# The cost ---------------------------------------------------------------------------------------


def growth(work: Callable[[int], object], small: int, factor: int) -> float:
    """How much more processor time a unit takes if there are `factor` times as many."""

    def seconds(size: int) -> float:
        began = time.process_time()
        work(size)
        return time.process_time() - began

    work(small)
    return min(seconds(small * factor) / seconds(small) / factor for _ in range(3))


def test_many_negations_cost_a_multiple_of_one() -> None:
    views = {n: [view_of("It is not good. " * n, "en") for _ in range(5)] for n in (500, 4_000)}

    def words(size: int) -> None:
        scene_of(views[size].pop())

    assert growth(words, 500, 8) < 3  # 1 if linear, 8 if quadratic


def test_a_window_of_a_long_text_costs_what_one_of_a_short_text_costs() -> None:
    views = {size: view_of("It was not bad but good. " * size, "en") for size in (400, 6_400)}

    def windows(size: int) -> None:
        for _ in range(50):
            Windows(views[size]).at(200)

    windows(400)
    ratio = growth(windows, 400, 16)
    assert ratio < 0.5  # the clauses' places are listed once; 1 if all opinions are looked at


def test_the_tagger_reads_a_long_text_in_pieces_and_keeps_its_places() -> None:
    view = view_of(long_text(40_000), "en", "restaurant")
    parts = list(pieces(view))
    assert len(parts) > 3
    assert [token for _, part in parts for token in part.tokens] == list(view.tokens)
    assert all(part.tokens[0] == view.tokens[first] for first, part in parts)
    found = disjoint(Models().of("en").tagger.candidates(view))
    terms = {view.text[view.tokens[c.first].start : view.tokens[c.last - 1].end] for c in found}
    assert terms == {"food", "service"}
    assert len(found) > 1.9 * view.text.count(REVIEW)


def test_a_short_text_is_one_piece() -> None:
    view = view_of(REVIEW, "en")
    assert list(pieces(view)) == [(0, view)]


# Stopping ---------------------------------------------------------------------------------------

# Says when the analysis is under way, and how much processor time was used until then.
CHILD = """
import sys, time
from absa.offline.models import tagger
whole = tagger.pieces
def begun(view):
    print(time.process_time(), flush=True)
    return whole(view)
tagger.pieces = begun
from absa.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["analyze", "run"])
def test_a_signal_ends_the_analysis_of_a_long_text(
    command: str, number: signal.Signals, tmp_path: Path
) -> None:
    text = tmp_path / "text.jsonl"
    out = tmp_path / "run"
    if command == "analyze":
        text.write_text("!" * 300_000)
        arguments = ["analyze", "--file", str(text)]
    else:
        text.write_text(json.dumps({"uid": "1", "text": "!" * 300_000}))
        arguments = ["run", str(text), "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments, "--set", RAISED],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        used_before = float(child.stdout.readline())
        child.send_signal(number)
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0  # it has been waited for
    # Of the processor, since others use the machine too; undisturbed it is less by the clock.
    assert used.ru_utime + used.ru_stime - used_before < 2
    if command == "run":
        assert json.loads((out / "manifest.json").read_text())["status"] == "unfinished"
        assert not (out / "errors.jsonl").read_text()


def test_a_set_flag_stops_an_analysis() -> None:
    flag = threading.Event()
    flag.set()
    with stoppable(flag), pytest.raises(Stopped):
        Analyser()(REVIEW)
    assert Analyser()(REVIEW).findings


def test_the_interrupt_is_handled_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopped_by_interrupt():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_nobody_waits_for_the_analysis_of_another_text() -> None:
    hold, begun = threading.Event(), threading.Event()

    def read(text: str, *_: object) -> Analysis:
        if text == "long":
            begun.set()
            assert hold.wait(30)
        return Analysis(text, "en")

    cache = AnalysisCache(read)
    slow = threading.Thread(target=cache, args=("long", None))
    slow.start()
    assert begun.wait(30)
    assert cache("short", None).text == "short"
    hold.set()
    slow.join(30)
    assert not slow.is_alive()


def test_an_analysis_that_failed_is_made_again_by_who_waited() -> None:
    begun, calls = threading.Event(), []

    def read(text: str, *_: object) -> Analysis:
        calls.append(text)
        if len(calls) == 1:
            begun.set()
            time.sleep(0.2)
            raise Stopped
        return Analysis(text, "en")

    cache = AnalysisCache(read)

    def first() -> None:
        with pytest.raises(Stopped):
            cache("text", None)

    one = threading.Thread(target=first)
    one.start()
    assert begun.wait(30)
    assert cache("text", None).text == "text"
    one.join(30)
    assert len(calls) == 2


# Servers ----------------------------------------------------------------------------------------


def test_the_event_loop_goes_on_during_a_long_text() -> None:
    settings = load_settings(None, {"pipeline.max_text_chars": 100_000})

    async def longest_pause_share() -> float:
        loop = asyncio.get_running_loop()
        await aanalyze(REVIEW, settings)
        began = loop.time()
        work = asyncio.create_task(aanalyze(long_text(60_000), settings))
        longest, last = 0.0, began
        while not work.done():
            await asyncio.sleep(0.001)
            longest, last = max(longest, loop.time() - last), loop.time()
        await work
        return longest / (last - began)

    assert asyncio.run(longest_pause_share()) < 0.4  # nearly 1 if it is analyzed in the loop


def test_a_long_text_whose_task_is_cancelled_stops_being_analysed() -> None:
    settings = load_settings(None, {"pipeline.max_text_chars": 400_000})

    async def cancelled() -> float:
        task = asyncio.create_task(aanalyze("!" * 300_000, settings))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        began = time.process_time()
        await asyncio.sleep(5)
        return time.process_time() - began

    assert asyncio.run(cancelled()) < 1.5


def test_a_server_answers_others_while_it_reads_a_long_text(tmp_path: Path) -> None:
    raised = {"pipeline": {"max_text_chars": 400_000}}
    expected = ("`durability` has no effect when no checkpointer is present", "characters")
    body = {"assistant_id": "absa", "input": {"text": "!" * 120_000}}
    with langgraph_dev(tmp_path, Serving(settings=raised, expected=expected)) as studio:
        with httpx.Client(base_url=studio.url, timeout=300) as http:
            http.post("/runs/wait", json={**body, "input": {"text": REVIEW}})
            done = threading.Event()

            def ask() -> None:
                httpx.post(f"{studio.url}/runs/wait", json=body, timeout=300).raise_for_status()
                done.set()

            asking = threading.Thread(target=ask)
            asking.start()
            slowest, answers = 0.0, 0
            while asking.is_alive():
                began = time.monotonic()
                assert http.get("/ok").status_code == 200
                slowest = max(slowest, time.monotonic() - began)
                answers += 1
                time.sleep(0.05)
            assert done.is_set()
    assert answers > 5
    assert slowest < 1
