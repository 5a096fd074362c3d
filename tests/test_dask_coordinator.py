"""The coordinator of a cluster run: the state that all workers share, over real connections."""

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
from absa.runs.cluster.channel import Channel
from absa.runs.cluster.coordinator import Coordinator
from absa.runs.cluster.job import VersionMismatch, check_fingerprint, job_of
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
    """Speaks to the coordinator as a worker does."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._messages = channel.messages()

    async def receives(self) -> list[Any]:
        async with asyncio.timeout(10):
            return await anext(self._messages)

    async def receives_nothing(self) -> bool:
        """Cancels the reading: the last thing that can be done with this worker."""
        try:
            async with asyncio.timeout(SOON):
                await anext(self._messages)
        except TimeoutError:
            return True
        return False

    async def begin(self, *uids: str) -> None:
        for number, uid in enumerate(uids, 1):
            self.channel.send(number, "begin", uid)

    async def finish(self, uid: str) -> None:
        self.channel.send(99, "finish", uid, asdict(Finished(0, uid, 0, parts={})))
        assert await self.receives() == [99, "ok"]


class Harness:
    """A coordinator and what stands behind it."""

    def __init__(self, batch: Batch, journal: Journal, coordinator: Coordinator, port: int) -> None:
        self.batch, self.journal, self.coordinator = batch, journal, coordinator
        self._port = port
        self.channels: list[Channel] = []

    async def worker(self, token: str = TOKEN) -> Worker:
        channel = Channel(*await asyncio.open_connection("127.0.0.1", self._port))
        self.channels.append(channel)
        channel.send(0, "hello", token, "worker")
        return Worker(channel)


@asynccontextmanager
async def running_coordinator(
    tmp_path: Path, width: int = 3, **settings: Any
) -> AsyncIterator[Harness]:
    options = {"kind": "openai", "model": "m", **settings}
    budget = options.pop("budget", Budget())
    backend = BackendSettings(**options)
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
            extra_input=lambda sample: {},
            save=save,
            has_record=lambda uid: journal.has(0, uid),
        )
        coordinator = Coordinator(batch, TOKEN)
        port = await coordinator.open("127.0.0.1", None)
        harness = Harness(batch, journal, coordinator, port)
        try:
            yield harness
            assert not coordinator.broken.done(), coordinator.broken
        finally:
            await coordinator.close()
            for channel in harness.channels:
                channel.close()
            await asyncio.sleep(0)  # for the transports to close


def run_async(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(act())


def test_places_are_shared_evenly_and_never_more_than_the_run_allows(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path, width=4) as harness:
            one, two = await harness.worker(), await harness.worker()
            await one.begin(*(f"a{n}" for n in range(10)))
            heard = [await one.receives() for _ in range(4)]
            assert [reply[1] for reply in heard] == ["go"] * 4
            await two.begin(*(f"b{n}" for n in range(10)))
            # As places become free the one with fewer samples gets them.
            for uid in ("a0", "a1"):
                await one.finish(uid)
                assert (await two.receives())[1] == "go"
            assert sorted(w.in_flight for w in harness.coordinator.workers()) == [2, 2]
            assert await one.receives_nothing() and await two.receives_nothing()

    run_async(act)


def test_sample_is_under_way_in_one_place_and_recorded_once(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            one, two = await harness.worker(), await harness.worker()
            await one.begin("x", "y")
            assert [await one.receives() for _ in range(2)] == [[1, "go"], [2, "go"]]
            # Dask handed the same chunk to another worker.
            await two.begin("x", "y")
            await one.finish("x")
            assert await two.receives() == [1, "skip"]
            one.channel.close()
            assert await two.receives() == [2, "go"]
            await two.finish("y")
            assert harness.journal.totals().done == 2

    run_async(act)


def test_record_of_a_worker_that_lost_its_sample_is_not_taken(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            stranger = await harness.worker()
            record = asdict(Finished(0, "x", 0, parts={}))
            stranger.channel.send(1, "finish", "x", record)
            assert await stranger.receives_nothing()
            assert harness.journal.totals().done == 0

    run_async(act)


def test_answer_is_asked_for_once_and_outlives_who_asked(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            one, two, three = [await harness.worker() for _ in range(3)]
            for number, worker in enumerate((one, two), 1):
                worker.channel.send(number, "ask", "key", f"owner {number}", "x")
            assert await one.receives() == [1, "go"]
            one.channel.close()  # killed while it was pending: the next one may call
            assert await two.receives() == [2, "go"]
            two.channel.send(3, "answer", 2, ANSWER)
            assert await two.receives() == [3, "ok"]
            two.channel.send(4, "ask", "key", "owner 2", "x")
            assert await two.receives() == [4, "cached", True, "a reply"]
            three.channel.send(1, "ask", "key", "owner 3", "x")
            assert await three.receives() == [1, "cached", False, "a reply"]
            three.channel.send(2, "ask", "other", "owner 3", "x")
            assert await three.receives() == [2, "go"]
            three.channel.send(0, "dropped", 2)
            two.channel.send(5, "ask", "other", "owner 2", "x")
            assert await two.receives() == [5, "go"]

    run_async(act)


def test_worker_that_cannot_use_a_remembered_answer_gets_leave_to_ask(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            worker = await harness.worker()
            answers = harness.batch.answers
            assert answers
            await asyncio.wrap_future(answers.put("key", "owner", "damaged"))
            worker.channel.send(1, "ask", "key", "owner", "x")
            assert await worker.receives() == [1, "cached", True, "damaged"]
            worker.channel.send(2, "ask_again", "key", "owner", "x")
            assert await worker.receives() == [2, "go"]
            worker.channel.send(3, "answer", 2, ANSWER)
            assert await worker.receives() == [3, "ok"]
            worker.channel.send(4, "ask", "key", "owner", "x")
            assert await worker.receives() == [4, "cached", True, "a reply"]

    run_async(act)


def test_call_that_is_dropped_while_it_waits_for_its_turn_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path, max_concurrency=1) as harness:
            worker = await harness.worker()
            for number in (1, 2, 3):
                worker.channel.send(number, "ask", f"key {number}", "owner", "x")
            assert await worker.receives() == [1, "go"]
            worker.channel.send(0, "dropped", 2)  # its sample failed elsewhere
            worker.channel.send(9, "answer", 1, ANSWER)
            assert sorted([await worker.receives(), await worker.receives()]) == [
                [3, "go"],
                [9, "ok"],
            ]

    run_async(act)


def test_budget_is_one_for_all_workers_and_stops_them(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path, budget=Budget(calls=2)) as harness:
            one, two = await harness.worker(), await harness.worker()
            for number, worker in enumerate((one, two), 1):
                worker.channel.send(number, "ask", f"key {number}", "owner", "x")
                assert await worker.receives() == [number, "go"]
                worker.channel.send(10, "answer", number, ANSWER)
                assert await worker.receives() == [10, "ok"]
            one.channel.send(3, "ask", "key 3", "owner", "x")
            assert await one.receives() == [3, "stop", "--budget-calls 2 is spent"]
            assert harness.batch.control.reason == "--budget-calls 2 is spent"
            await two.begin("y")
            assert await two.receives() == [1, "stop"]

    run_async(act)


def test_rate_is_one_for_all_workers_and_counts_retries(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(
            tmp_path, requests_per_second=20.0, max_concurrency=50
        ) as harness:
            workers = [await harness.worker(), await harness.worker()]
            began = time.monotonic()
            for n in range(3):
                for worker in workers:
                    worker.channel.send(n + 1, "ask", f"{id(worker)} {n}", "owner", "x")
            for worker in workers:
                assert [(await worker.receives())[1] for _ in range(3)] == ["go"] * 3
            assert time.monotonic() - began >= 5 / 20
            # It took the server three requests to answer: two more than were waited for.
            workers[0].channel.send(9, "answer", 1, {**ANSWER, "attempts": 3})
            assert await workers[0].receives() == [9, "ok"]
            began = time.monotonic()
            workers[1].channel.send(4, "ask", "last", "owner", "x")
            assert await workers[1].receives() == [4, "go"]
            assert time.monotonic() - began >= 1.5 / 20

    run_async(act)


def test_strangers_are_sent_away(tmp_path: Path) -> None:
    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            wrong = await harness.worker("another token")
            with pytest.raises(StopAsyncIteration):
                await wrong.receives()
            port = harness.coordinator._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
            for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xc1\xc1\xc1", b"\x01"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(words)
                async with asyncio.timeout(10):
                    assert await reader.read() == b""
                writer.close()
            assert harness.coordinator.workers() == []

    run_async(act)


def test_job_names_no_key_and_other_versions_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    async def act() -> None:
        async with running_coordinator(tmp_path) as harness:
            job = job_of(harness.batch, "127.0.0.1", 1, TOKEN)
            assert b"sk-very-secret" not in pickle.dumps(job)
            check_fingerprint(job, "w")
            packages = {**job.fingerprint["packages"], "absa-debate-graph": "0.0.1"}
            old = replace(job, fingerprint={**job.fingerprint, "packages": packages})
            with pytest.raises(VersionMismatch) as refused:
                check_fingerprint(old, "tcp://1.2.3.4:5")
            words = str(refused.value)
            assert "the worker tcp://1.2.3.4:5 differs" in words
            assert "packages.absa-debate-graph: driver '0.0.1', worker '" in words

    run_async(act)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scheduler", "tcp://x:1"], "need --engine dask"),
        (["--workers", "2"], "need --engine dask"),
        (["--engine", "dask", "--workers", "2", "--scheduler", "x"], "starts local workers"),
        (["--engine", "dask", "--config", "memory_on"], "does not support episodic memory"),
        (
            ["--engine", "dask", "--set", "backend.kind=replay", "--set", "backend.path=x"],
            "use --engine local",
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
    options = ["run", str(data), "--out", str(tmp_path / "run"), "--engine", "dask"]
    assert command(options) == 2
    assert "pip install 'absa-debate-graph[dask]'" in capsys.readouterr().err
