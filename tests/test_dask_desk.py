"""The desk of a cluster run: what must be one for all workers, asked over real connections."""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from absa.backends.cache import AnswerKeys, Answers
from absa.backends.meter import Budget, Meter, Spent
from absa.cli import run as command
from absa.demos import Demos
from absa.runs import RunPlan
from absa.runs.cluster.desk import Desk
from absa.runs.cluster.job import VersionMismatch, check_fingerprint, job_of
from absa.runs.cluster.line import Line
from absa.runs.journal import Finished, Journal
from absa.runs.plan import Control
from absa.runs.pool import Batch
from absa.schemas.settings import BackendSettings, DemoSettings, Settings

TOKEN = "secret of this run"
ANSWER = {
    "text": "a reply",
    "node": "ate",
    "model": "m",
    "usage": {"prompt_tokens": 10, "completion_tokens": 0},
    "attempts": 1,
}
# Longer than any message takes on its way.
SOON = 0.2


class Worker:
    """Speaks to the desk as a worker does."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._messages = line.messages()

    async def hears(self) -> list[Any]:
        async with asyncio.timeout(10):
            return await anext(self._messages)

    async def hears_nothing(self) -> bool:
        """Cancels the reading: the last thing that can be done with this worker."""
        try:
            async with asyncio.timeout(SOON):
                await anext(self._messages)
        except TimeoutError:
            return True
        return False

    async def begin(self, *uids: str) -> None:
        for number, uid in enumerate(uids, 1):
            self.line.send(number, "begin", uid)

    async def finish(self, uid: str) -> None:
        self.line.send(99, "finish", uid, asdict(Finished(0, uid, 0, parts={})))
        assert await self.hears() == [99, "ok"]


class Scene:
    """A desk and what stands behind it."""

    def __init__(self, batch: Batch, journal: Journal, desk: Desk, port: int) -> None:
        self.batch, self.journal, self.desk = batch, journal, desk
        self._port = port
        self.lines: list[Line] = []

    async def worker(self, token: str = TOKEN) -> Worker:
        line = Line(*await asyncio.open_connection("127.0.0.1", self._port))
        self.lines.append(line)
        line.send(0, "hello", token, "worker")
        return Worker(line)


@asynccontextmanager
async def scene(tmp_path: Path, width: int = 3, **settings: Any) -> AsyncIterator[Scene]:
    given = {"kind": "openai", "model": "m", **settings}
    budget = given.pop("budget", Budget())
    backend = BackendSettings(**given)
    control = Control()
    with closing(Journal(tmp_path)) as journal, closing(Answers(tmp_path / "a.db")) as answers:

        async def save(record: Finished) -> None:
            await asyncio.wrap_future(journal.add(record))

        batch = Batch(
            plan=RunPlan(tmp_path, tmp_path, Settings(backend=backend), concurrency=width),
            backend=backend,
            samples=iter(()),
            size=0,
            keys=AnswerKeys(backend, "run"),
            answers=answers,
            meter=Meter(budget, Spent()),
            demos=Demos(DemoSettings()),
            control=control,
            known_besides=lambda sample: {},
            save=save,
            has_record=lambda uid: journal.has(0, uid),
        )
        desk = Desk(batch, TOKEN)
        port = await desk.open("127.0.0.1", None)
        stage = Scene(batch, journal, desk, port)
        try:
            yield stage
            assert not desk.broken.done(), desk.broken
        finally:
            await desk.close()
            for line in stage.lines:
                line.hang_up()
            await asyncio.sleep(0)  # for the transports to close


def play(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(act())


def test_places_are_shared_evenly_and_never_more_than_the_run_allows(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path, width=4) as stage:
            one, two = await stage.worker(), await stage.worker()
            await one.begin(*(f"a{n}" for n in range(10)))
            heard = [await one.hears() for _ in range(4)]
            assert [reply[1] for reply in heard] == ["go"] * 4
            await two.begin(*(f"b{n}" for n in range(10)))
            # As places become free the one with fewer samples gets them.
            for uid in ("a0", "a1"):
                await one.finish(uid)
                assert (await two.hears())[1] == "go"
            assert sorted(w.in_flight for w in stage.desk.workers()) == [2, 2]
            assert await one.hears_nothing() and await two.hears_nothing()

    play(act)


def test_sample_is_under_way_in_one_place_and_recorded_once(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as stage:
            one, two = await stage.worker(), await stage.worker()
            await one.begin("x", "y")
            assert [await one.hears() for _ in range(2)] == [[1, "go"], [2, "go"]]
            # Dask handed the same chunk to another worker.
            await two.begin("x", "y")
            await one.finish("x")
            assert await two.hears() == [1, "skip"]
            one.line.hang_up()
            assert await two.hears() == [2, "go"]
            await two.finish("y")
            assert stage.journal.totals().done == 2

    play(act)


def test_record_of_a_worker_that_lost_its_sample_is_not_taken(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as stage:
            stranger = await stage.worker()
            record = asdict(Finished(0, "x", 0, parts={}))
            stranger.line.send(1, "finish", "x", record)
            assert await stranger.hears_nothing()
            assert stage.journal.totals().done == 0

    play(act)


def test_answer_is_asked_for_once_and_outlives_who_asked(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as stage:
            one, two, three = [await stage.worker() for _ in range(3)]
            for number, worker in enumerate((one, two), 1):
                worker.line.send(number, "ask", "key", f"owner {number}", "x")
            assert await one.hears() == [1, "go"]
            one.line.hang_up()  # killed while it was calling: the next one may call
            assert await two.hears() == [2, "go"]
            two.line.send(3, "answer", 2, ANSWER)
            assert await two.hears() == [3, "ok"]
            two.line.send(4, "ask", "key", "owner 2", "x")
            assert await two.hears() == [4, "known", True, "a reply"]
            three.line.send(1, "ask", "key", "owner 3", "x")
            assert await three.hears() == [1, "known", False, "a reply"]
            three.line.send(2, "ask", "other", "owner 3", "x")
            assert await three.hears() == [2, "go"]
            three.line.send(0, "dropped", 2)
            two.line.send(5, "ask", "other", "owner 2", "x")
            assert await two.hears() == [5, "go"]

    play(act)


def test_worker_that_cannot_use_a_remembered_answer_gets_leave_to_ask(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as stage:
            worker = await stage.worker()
            answers = stage.batch.answers
            assert answers
            await asyncio.wrap_future(answers.put("key", "owner", "damaged"))
            worker.line.send(1, "ask", "key", "owner", "x")
            assert await worker.hears() == [1, "known", True, "damaged"]
            worker.line.send(2, "ask_again", "key", "owner", "x")
            assert await worker.hears() == [2, "go"]
            worker.line.send(3, "answer", 2, ANSWER)
            assert await worker.hears() == [3, "ok"]
            worker.line.send(4, "ask", "key", "owner", "x")
            assert await worker.hears() == [4, "known", True, "a reply"]

    play(act)


def test_call_that_is_dropped_while_it_waits_for_its_turn_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    async def act() -> None:
        async with scene(tmp_path, max_concurrency=1) as stage:
            worker = await stage.worker()
            for number in (1, 2, 3):
                worker.line.send(number, "ask", f"key {number}", "owner", "x")
            assert await worker.hears() == [1, "go"]
            worker.line.send(0, "dropped", 2)  # its sample failed elsewhere
            worker.line.send(9, "answer", 1, ANSWER)
            assert sorted([await worker.hears(), await worker.hears()]) == [[3, "go"], [9, "ok"]]

    play(act)


def test_budget_is_one_for_all_workers_and_stops_them(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path, budget=Budget(calls=2)) as stage:
            one, two = await stage.worker(), await stage.worker()
            for number, worker in enumerate((one, two), 1):
                worker.line.send(number, "ask", f"key {number}", "owner", "x")
                assert await worker.hears() == [number, "go"]
                worker.line.send(10, "answer", number, ANSWER)
                assert await worker.hears() == [10, "ok"]
            one.line.send(3, "ask", "key 3", "owner", "x")
            assert await one.hears() == [3, "stop", "--budget-calls 2 is spent"]
            assert stage.batch.control.reason == "--budget-calls 2 is spent"
            await two.begin("y")
            assert await two.hears() == [1, "stop"]

    play(act)


def test_rate_is_one_for_all_workers_and_counts_retries(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path, requests_per_second=20.0, max_concurrency=50) as stage:
            workers = [await stage.worker(), await stage.worker()]
            began = time.monotonic()
            for n in range(3):
                for worker in workers:
                    worker.line.send(n + 1, "ask", f"{id(worker)} {n}", "owner", "x")
            for worker in workers:
                assert [(await worker.hears())[1] for _ in range(3)] == ["go"] * 3
            assert time.monotonic() - began >= 5 / 20
            # It took the server three requests to answer: two more than were waited for.
            workers[0].line.send(9, "answer", 1, {**ANSWER, "attempts": 3})
            assert await workers[0].hears() == [9, "ok"]
            began = time.monotonic()
            workers[1].line.send(4, "ask", "last", "owner", "x")
            assert await workers[1].hears() == [4, "go"]
            assert time.monotonic() - began >= 1.5 / 20

    play(act)


def test_strangers_are_sent_away(tmp_path: Path) -> None:
    async def act() -> None:
        async with scene(tmp_path) as stage:
            wrong = await stage.worker("another token")
            with pytest.raises(StopAsyncIteration):
                await wrong.hears()
            port = stage.desk._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
            for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xc1\xc1\xc1", b"\x01"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(words)
                async with asyncio.timeout(10):
                    assert await reader.read() == b""
                writer.close()
            assert stage.desk.workers() == []

    play(act)


def test_job_names_no_key_and_other_versions_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    async def act() -> None:
        async with scene(tmp_path) as stage:
            job = job_of(stage.batch, "127.0.0.1", 1, TOKEN)
            assert b"sk-very-secret" not in pickle.dumps(job)
            check_fingerprint(job, "w")
            packages = {**job.fingerprint["packages"], "absa-debate-graph": "0.0.1"}
            old = replace(job, fingerprint={**job.fingerprint, "packages": packages})
            with pytest.raises(VersionMismatch) as refused:
                check_fingerprint(old, "tcp://1.2.3.4:5")
            words = str(refused.value)
            assert "the worker tcp://1.2.3.4:5 differs" in words
            assert "packages.absa-debate-graph: driver '0.0.1', worker '" in words

    play(act)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scheduler", "tcp://x:1"], "are for --engine dask"),
        (["--workers", "2"], "are for --engine dask"),
        (["--engine", "dask", "--workers", "2", "--scheduler", "x"], "starts workers here"),
        (["--engine", "dask", "--config", "memory_on"], "has no episodic memory"),
        (
            ["--engine", "dask", "--set", "backend.kind=replay", "--set", "backend.path=x"],
            "need --engine local",
        ),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"uid": "1", "text": "good food"}\n')
    assert command(["run", str(data), "--out", str(tmp_path / "run"), *args]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_missing_extra_is_named_with_the_line_that_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "absa.runs.cluster.engine", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    data = tmp_path / "data.jsonl"
    data.write_text('{"uid": "1", "text": "good food"}\n')
    given = ["run", str(data), "--out", str(tmp_path / "run"), "--engine", "dask"]
    assert command(given) == 2
    assert "pip install 'absa-debate-graph[dask]'" in capsys.readouterr().err
