"""Several processes on one cache: each question is asked once, a killed process costs little."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from answer_server import answering
from test_cache import Counting, question, settings
from test_crash import FORKS, IN_FLIGHT, Fork, Server, write_data

from absa.backends import claims
from absa.backends.cache import AnswerKeys, Answers, CachedBackend
from absa.backends.claims import Claim, Claims

HERE = Path(__file__).parent
SAMPLES = 40
CALLS = 10 * SAMPLES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "calls.jsonl"
    with answering(log, "--delay", "0.02") as url:
        yield Server(url, log)


def start(server: Server, folder: Path, name: str) -> Fork:
    data = folder / "data.jsonl"
    if not data.exists():
        write_data(data, SAMPLES)
    return Fork(server, folder, name, str(data), "--out", str(folder / name))


def test_two_runs_on_one_fresh_cache_ask_each_question_once(server: Server, tmp_path: Path) -> None:
    runs = [start(server, tmp_path, name) for name in ("one", "two")]
    assert [run.wait() for run in runs] == [0, 0], [run.said() for run in runs]
    calls = Counter(server.calls("one", "two"))
    assert len(calls) == CALLS
    assert set(calls.values()) == {1}
    for name in ("one", "two"):
        assert len((tmp_path / name / "outputs.jsonl").read_bytes().splitlines()) == SAMPLES


def test_killed_run_costs_the_other_only_what_was_under_way(server: Server, tmp_path: Path) -> None:
    killed, other = (start(server, tmp_path, name) for name in ("killed", "other"))
    killed.wait_for_calls(40)
    killed.send(signal.SIGKILL)
    begun = time.monotonic()
    assert killed.wait() == -signal.SIGKILL
    assert other.wait() == 0, other.said()
    calls = Counter(server.calls("killed", "other"))
    assert len(calls) == CALLS
    # Three agents of a sample are asked at a time at most.
    assert sum(calls.values()) - CALLS <= 3 * IN_FLIGHT
    assert time.monotonic() - begun < 60


def _hold(path: Path, key: str, ready: Any) -> None:
    with Claim(Claims(path), key):
        ready.set()
        time.sleep(300)


def test_claim_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    ready = FORKS.Event()
    holder = FORKS.Process(target=_hold, args=(tmp_path / "claims", "key", ready))
    holder.start()
    assert ready.wait(60)
    with closing(Claims(tmp_path / "claims")) as mine:
        with Claim(mine, "key") as claim, Claim(mine, "another key") as another:
            assert (claim.is_held, another.is_held) == (False, True)
            holder.kill()
            holder.join()
            begun = time.monotonic()
            asyncio.run(claim.wait())
            assert claim.is_held
            assert time.monotonic() - begun < 5


@pytest.mark.parametrize("is_async", [True, False])
def test_claim_of_a_stopped_process_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(claims, "_PATIENCE_S", 0.3)
    keys = AnswerKeys(settings(), "run")
    key = keys.key(question())
    ready = FORKS.Event()
    path = tmp_path / "a.db-claims"
    holder = FORKS.Process(target=_hold, args=(path, key, ready))
    holder.start()
    assert ready.wait(60)
    inner = Counting()
    try:
        with closing(Answers(tmp_path / "a.db")) as answers:
            backend = CachedBackend(inner, keys, answers)
            begun = time.monotonic()
            asyncio.run(backend.aask(question())) if is_async else backend.ask(question())
            assert 0.2 < time.monotonic() - begun < 5
    finally:
        holder.kill()
        holder.join()
    assert inner.count == 1
