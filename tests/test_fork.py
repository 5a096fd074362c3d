"""A fork after the first answer: every process gets its own answers, whatever the parent holds."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path

import pytest
from openai_server import Body, Response, Server, says, serve

import absa
from absa.backends.openai import OpenAIBackend
from absa.memory import episodes, open_memory
from absa.nodes import forks, morphemes
from absa.schemas.answers import AteAnswer
from absa.schemas.backend import Ask
from absa.schemas.settings import BackendSettings, MemorySettings, PipelineSettings, Settings

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are not forked elsewhere"),
]

ANSWERS = 200
KOREAN = [
    f"{thing} {word}"
    for thing in ("가격은", "배송이", "직원은", "음식이", "방은")
    for word in ("비싸요.", "좋아요.", "별로예요.", "훌륭했어요.", "더러웠어요.", "친절했어요.")
]


def workers(count: int) -> Pool:
    """Forked processes that end by a signal: the suite's own handler is not for them."""
    default = (signal.SIGTERM, signal.SIG_DFL)
    return multiprocessing.get_context("fork").Pool(count, signal.signal, default)


@pytest.fixture
def server() -> Iterator[Server]:
    def echo(request: Body) -> Response:
        # Late enough for others to take the answer away.
        number = json.loads(request["messages"][1]["content"])["review"]
        return says({"aspects": [{"term": number}]}, delay_s=0.002)

    with serve() as running:
        running.rule = echo
        yield running


def question(number: int) -> Ask:
    return Ask(
        node="ate",
        turn=0,
        uid=f"s{number}",
        system="the prompt",
        user=json.dumps({"review": f"review {number}"}),
        prompt_sha256="0" * 64,
        inputs={},
        answer=AteAnswer,
    )


_backend: OpenAIBackend
_lock = forks.ForkSafeLock()


def asked(number: int) -> str:
    term: str = _backend.ask(question(number)).output["aspects"][0]["term"]
    return term


def asked_in_a_loop(number: int) -> str:
    term: str = asyncio.run(_backend.aask(question(number))).output["aspects"][0]["term"]
    return term


def test_processes_do_not_get_each_others_answers_over_http(server: Server) -> None:
    global _backend
    _backend = OpenAIBackend(
        BackendSettings(kind="openai", model="m", base_url=server.url, max_retries=0)
    )
    assert asked(-1) == "review -1"
    expected = [f"review {number}" for number in range(ANSWERS)]
    with workers(4) as pool:
        answers = pool.map_async(asked, range(ANSWERS), chunksize=1)
        # The parent goes on over the connection that it had.
        assert [asked(number) for number in range(20)] == expected[:20]
        assert answers.get(timeout=120) == expected
        assert pool.map_async(asked_in_a_loop, range(8)).get(timeout=120) == expected[:8]
    assert asked(7) == "review 7"
    _backend.close()


def test_a_lock_that_another_thread_holds_is_free_in_a_child(server: Server) -> None:
    global _backend
    _backend = OpenAIBackend(BackendSettings(kind="openai", model="m", base_url=server.url))
    with _lock, _backend._lock, _backend._servers._lock, workers(1) as pool:
        assert pool.apply_async(asked, (5,)).get(timeout=60) == "review 5"
        assert pool.apply_async(takes_the_lock).get(timeout=60)
    _backend.close()


def takes_the_lock() -> bool:
    with _lock:
        return True


def polarities(text: str) -> list[str]:
    return [str(one) for one in absa.analyze(text, lang="ko").final_result.final_tuples]


def readings(text: str) -> list[str]:
    return [one.form for one in morphemes.kiwi().tokenize(text)]


def test_korean_is_analysed_offline_in_forked_processes() -> None:
    texts = [f"{text} {KOREAN[(n * 7) % 30]}" for n, text in enumerate(KOREAN * 2)]
    here = [polarities(text) for text in texts]
    assert len({str(one) for one in here}) > 10
    with workers(3) as pool:
        assert pool.map_async(polarities, texts, chunksize=1).get(timeout=240) == here


def test_kiwi_in_a_process_of_its_own_answers_only_the_one_that_started_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = (KOREAN * 7)[:ANSWERS]
    monkeypatch.setattr(morphemes, "_analyser", None)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    morphemes.load_in_child_process()
    assert isinstance(morphemes._analyser, morphemes._KiwiProcess)
    expected = [readings(text) for text in texts]
    with workers(3) as pool:
        answers = pool.map_async(readings, texts, chunksize=1)
        assert [readings(text) for text in texts] == expected
        assert answers.get(timeout=240) == expected
    morphemes._analyser.close_pipe()


def remembered(text: str) -> int:
    return len(absa.analyze(text, _settings, lang="ko").final_result.final_tuples)


_settings: Settings


def test_a_memory_in_a_file_has_a_connection_per_process(tmp_path: Path) -> None:
    global _settings
    memory = MemorySettings(condition="on", store="sqlite", path=str(tmp_path))
    _settings = Settings(pipeline=PipelineSettings(memory=memory))
    remembered(KOREAN[0])
    with workers(3) as pool:
        pool.map_async(remembered, KOREAN[1:16], chunksize=1).get(timeout=240)
    remembered(KOREAN[16])
    with open_memory(memory) as store:
        assert store is not None
        assert len(list(episodes(store))) == 17
