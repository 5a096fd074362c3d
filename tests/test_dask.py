"""`absa run --engine dask` on a real cluster: processes, sockets and kills are real.

A scheduler and two workers run for all tests of this file; a server in another process answers and
writes down every call. Each test has reviews of its own, so that its calls can be told apart.
"""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from answer_server import answering
from dask_cluster import WORKER_KEY, Cluster
from test_crash import FORKS, TIMINGS, _call, artefacts, lines

from absa.runs.plan import GOES_ON
from absa.runs.watch import look

HERE = Path(__file__).parent
DRIVER_KEY = "key-of-the-driver"
IN_FLIGHT = 32
SAMPLES = 800
COMPARED = 50


class Server:
    """The server's log of calls."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log

    def calls(self, word: str) -> list[dict[str, Any]]:
        """The calls about reviews that begin with a word."""
        found = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [call for call in found if call["review"].startswith(word)]

    def count(self, word: str) -> int:
        return self._log.read_text().count(f'"review": "{word}')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "calls.jsonl"
    with answering(log, "--delay", "0.02") as url:
        yield Server(url, log)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.add_worker()
    cluster.add_worker()
    yield cluster
    cluster.close()


def write_data(path: Path, word: str, size: int) -> Path:
    rows = [
        {"uid": f"리뷰/{n}", "text": f"{word}{n} tasted somehow bland{n}", "lang": "en"}
        for n in range(size)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class Start:
    """One start of the command, in a process that has its imports behind it."""

    def __init__(self, server: Server, folder: Path, data: Path, out: Path, *args: str) -> None:
        self.errors = folder / f"{time.monotonic_ns()}.stderr"
        self.errors.touch()
        self.args = [
            *("run", str(data), "--out", str(out), "--concurrency", str(IN_FLIGHT)),
            *("--set", "backend.kind=openai", "--set", "backend.model=answers"),
            *("--set", f"backend.base_url={server.url}", "--set", "backend.max_concurrency=64"),
            *args,
        ]
        env = {"OPENAI_API_KEY": DRIVER_KEY, "ABSA_CACHE": str(folder / f"{out.name}.db")}
        self.process = FORKS.Process(target=_call, args=(self.args, env, str(self.errors), None))
        self.process.start()

    def send(self, number: int) -> None:
        psutil.Process(self.process.pid).send_signal(number)

    def wait(self) -> int:
        self.process.join(timeout=240)
        if self.process.exitcode is None:
            self.process.kill()
            raise AssertionError(f"it hangs: {self.said()}")
        return self.process.exitcode

    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")


def on(cluster: Cluster) -> tuple[str, ...]:
    return ("--engine", "dask", "--scheduler", cluster.address)


def wait_for(server: Server, word: str, calls: int, start: Start) -> None:
    end = time.monotonic() + 400
    while server.count(word) < calls:
        assert start.process.is_alive() and time.monotonic() < end, start.said()
        time.sleep(0.01)


def rows(out: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(out / "journal.db")) as journal:
        return journal.execute("SELECT uid, status FROM samples ORDER BY position").fetchall()


def test_killed_worker_costs_no_sample_and_no_answered_call(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    data = write_data(tmp_path / "data.jsonl", "kill", SAMPLES)
    single = ("--config", "baseline_single")
    start = Start(server, tmp_path, data, tmp_path / "run", *single, *on(cluster))
    wait_for(server, "kill", random.Random(seed).randint(100, SAMPLES - 600), start)
    cluster.kill_worker()
    assert start.wait() == 0, start.said()
    cluster.add_worker()  # for the next test

    uids = [json.loads(line)["uid"] for line in data.read_text().splitlines()]
    assert rows(tmp_path / "run") == [(uid, "done") for uid in uids]
    assert [line["uid"] for line in lines(tmp_path / "run" / "outputs.jsonl")] == uids

    calls = server.calls("kill")
    asked = Counter(call["prompt"] for call in calls)
    assert len(asked) == SAMPLES
    # One call a sample: only what the killed worker was waiting for is asked again.
    assert len(calls) - SAMPLES <= IN_FLIGHT
    assert max(asked.values()) <= 2
    # Each worker has its own key; the driver's goes nowhere.
    assert {call["start"] for call in calls} == {WORKER_KEY}
    assert DRIVER_KEY not in cluster.logs()

    local = Start(server, tmp_path, data, tmp_path / "local", *single, "--limit", str(COMPARED))
    assert local.wait() == 0, local.said()
    for name in ("outputs.jsonl", "traces.jsonl", "scorecards.jsonl"):
        here, there = (
            TIMINGS.sub(rb'"\1": 0', (tmp_path / run / name).read_bytes()).splitlines()
            for run in ("local", "run")
        )
        assert here and there[: len(here)] == here, name


def test_budget_stops_the_cluster_and_the_local_engine_finishes_what_it_left(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", "budget", 14)
    out = tmp_path / "run"
    few = ("--concurrency", "3", "--set", "backend.max_concurrency=4")
    start = Start(server, tmp_path, data, out, *on(cluster), "--budget-calls", "60", *few)
    assert start.wait() == 1
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["status"] == "unfinished"
    # Calls under way are finished: no more than the requests allowed at a time.
    assert 60 <= server.count("budget") < 60 + 4
    assert not (out / "status.json").exists()

    rest = Start(server, tmp_path, data, out)
    assert rest.wait() == 0, rest.said()
    assert max(Counter(call["prompt"] for call in server.calls("budget")).values()) == 1
    assert server.count("budget") == 140

    calm = Start(server, tmp_path, data, tmp_path / "calm")
    assert calm.wait() == 0, calm.said()
    assert artefacts(out) == artefacts(tmp_path / "calm")


def test_interrupt_drains_the_cluster_and_the_next_start_asks_nothing_twice(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", "drain", 60)
    out = tmp_path / "run"
    few = ("--concurrency", "4", "--no-cache")
    start = Start(server, tmp_path, data, out, *on(cluster), *few)
    wait_for(server, "drain", 25, start)
    start.send(signal.SIGINT)
    assert start.wait() == 1
    assert "finishing the samples under way" in start.said()
    begun = server.count("drain")
    # Samples under way were finished, none was begun: all calls belong to recorded samples.
    assert begun == 10 * len(rows(out)) < 600

    # The second interrupt gives up what is under way; answers that came are kept.
    start = Start(server, tmp_path, data, out, *on(cluster), *few)
    wait_for(server, "drain", begun + 25, start)
    start.send(signal.SIGINT)
    time.sleep(0.05)
    start.send(signal.SIGINT)
    assert start.wait() == 1
    assert "Traceback" not in start.said()

    last = Start(server, tmp_path, data, out, *on(cluster), "--no-cache")
    assert last.wait() == 0, last.said()
    assert len(rows(out)) == 60
    again = Counter(call["prompt"] for call in server.calls("drain"))
    assert len(again) == 600
    assert sum(again.values()) - 600 <= 4 * 3  # four samples, three calls at a time at most


def test_killed_driver_leaves_a_run_that_the_next_start_finishes(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", "driver", 30)
    out = tmp_path / "run"
    few = ("--concurrency", "4")
    start = Start(server, tmp_path, data, out, *on(cluster), *few)
    wait_for(server, "driver", 60, start)
    start.send(signal.SIGKILL)
    assert start.wait() == -signal.SIGKILL

    last = Start(server, tmp_path, data, out, *on(cluster), *few)
    assert last.wait() == 0, last.said()
    assert [status for _, status in rows(out)] == ["done"] * 30
    again = Counter(call["prompt"] for call in server.calls("driver"))
    assert len(again) == 300
    assert sum(again.values()) - 300 <= 4 * 3  # four samples, three calls at a time at most


def test_local_cluster_gives_what_one_process_gives_and_listens_on_loopback_only(
    server: Server, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", "here", 20)
    start = Start(server, tmp_path, data, tmp_path / "run", "--engine", "dask", "--workers", "2")
    wait_for(server, "here", 10, start)
    driver = psutil.Process(start.process.pid)
    family = [driver, *driver.children(recursive=True)]
    sockets = [connection for p in family for connection in p.net_connections("tcp")]
    assert {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    while len(seen := look(tmp_path / "run").workers) < 2:
        assert start.process.is_alive(), start.said()
        time.sleep(0.1)
    assert sum(worker.in_flight for worker in seen) <= IN_FLIGHT
    # Ctrl-C reaches every process of a terminal; the workers must live on for the draining.
    for process in family:
        process.send_signal(signal.SIGINT)
    assert start.wait() == 1
    assert "finishing the samples under way" in start.said()
    assert len(rows(tmp_path / "run")) * 10 == server.count("here") < 200

    rest = Start(server, tmp_path, data, tmp_path / "run", "--engine", "dask", "--workers", "2")
    assert rest.wait() == 0, rest.said()
    local = Start(server, tmp_path, data, tmp_path / "local")
    assert local.wait() == 0, local.said()
    assert artefacts(tmp_path / "run") == artefacts(tmp_path / "local")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "nonsense://x"])
def test_scheduler_that_is_not_there_is_said_within_ten_seconds(
    server: Server, tmp_path: Path, address: str
) -> None:
    data = write_data(tmp_path / "data.jsonl", "nobody", 3)
    given = address.format(port=_free_port())
    began = time.monotonic()
    start = Start(
        server, tmp_path, data, tmp_path / "run", "--engine", "dask", "--scheduler", given
    )
    assert start.wait() == 2
    assert time.monotonic() - began < 15
    assert re.search(rf"--scheduler {re.escape(given)} cannot be reached", start.said())
    assert "Traceback" not in start.said()


def test_scheduler_that_dies_is_one_message_and_the_run_goes_on_elsewhere(
    server: Server, tmp_path: Path
) -> None:
    own = Cluster(tmp_path)
    try:
        own.add_worker()
        data = write_data(tmp_path / "data.jsonl", "Orphan", 60)
        start = Start(server, tmp_path, data, tmp_path / "run", *on(own))
        wait_for(server, "Orphan", 100, start)
        own.kill_scheduler()
        assert start.wait() == 1
    finally:
        own.close()
    said = [line for line in start.said().splitlines() if "samples," not in line]
    gone = f"the Dask scheduler {own.address} is gone: start it again, or leave out --engine dask"
    assert said == [f"absa: {gone}; {GOES_ON}"]
    again = Start(server, tmp_path, data, tmp_path / "run")
    assert again.wait() == 0, again.said()
    assert [status for _, status in rows(tmp_path / "run")] == ["done"] * 60
