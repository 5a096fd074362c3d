"""The answer cache: what counts as the same question, who pays, and what is not remembered."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from absa.backends.cache import AnswerKeys, Answers, CachedBackend, default_path
from absa.database import StorageError
from absa.schemas.answers import AteAnswer, AtsaAnswer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings, RoleSettings

ANSWER = {"aspects": [{"term": "가격", "confidence": 0.9}]}


class Counting:
    """Counts its answers; says no if told to."""

    def __init__(self, output: dict[str, Any] | None = None) -> None:
        self.output = ANSWER if output is None else output
        self.fails = False
        self.count = 0

    def ask(self, question: Ask) -> Reply:
        self.count += 1
        if self.fails:
            raise BackendError("no", node=question.node)
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return Reply(self.output, "openai", model="m", seed=1, usage=usage, latency_ms=5.0)

    async def aask(self, question: Ask) -> Reply:
        await asyncio.sleep(0.001)
        return self.ask(question)


def question(uid: str = "u", prompt: str = "p", turn: int = 0, **changes: Any) -> Ask:
    fields: dict[str, Any] = {
        "node": "ate",
        "system": "s",
        "user": "u",
        "inputs": {},
        "answer": AteAnswer,
        **changes,
    }
    return Ask(uid=uid, prompt_sha256=prompt, turn=turn, **fields)


def settings(**changes: Any) -> BackendSettings:
    return BackendSettings.model_validate({"kind": "openai", "model": "m", **changes})


@pytest.fixture
def cache(tmp_path: Path) -> Callable[..., Any]:
    """A cache over one file; `run_id`, `shared` and settings may be given."""

    @contextmanager
    def opened(
        inner: Counting, run_id: str = "run", shared: bool = True, **changes: Any
    ) -> Iterator[CachedBackend]:
        keys = AnswerKeys(settings(**changes), run_id, shared=shared)
        with closing(Answers(tmp_path / "답.db")) as answers:
            yield CachedBackend(inner, keys, answers)

    return opened


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {}),
        ({"timeout_s": 1.0, "max_retries": 0, "max_concurrency": 1}, {}),
        ({"base_url": "http://localhost:1/v1/"}, {}),
        ({}, {"uid": "another"}),
    ],
)
def test_same_question_is_a_hit_whoever_asks_and_however_it_travels(
    cache: Callable[..., Any], changes: dict[str, Any], asked: dict[str, Any]
) -> None:
    inner = Counting()
    url = {"base_url": "http://localhost:1/v1"} if "base_url" in changes else {}
    with cache(inner, **url) as first:
        first.ask(question())
    with cache(inner, "another run", **changes) as second:
        reply = second.ask(question(**asked))
    assert inner.count == 1
    assert (reply.cached, reply.attempts, reply.usage, reply.output) == (True, 0, None, ANSWER)


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"model": "another"}, {}),
        ({"base_url": "http://localhost:1/v1"}, {}),
        ({"temperature": 0.5}, {}),
        ({"seed": 7}, {}),
        ({"roles": {"ate": RoleSettings(model="another")}}, {}),
        ({}, {"prompt": "another"}),
        ({}, {"answer": AtsaAnswer}),
    ],
)
def test_anything_that_can_change_the_answer_is_a_miss(
    cache: Callable[..., Any], changes: dict[str, Any], asked: dict[str, Any]
) -> None:
    inner = Counting()
    with cache(inner) as first:
        first.ask(question())
    inner.output = {**ANSWER, **{"aspect_sentiments": []}}
    with cache(inner, **changes) as second:
        reply = second.ask(question(**asked))
    assert inner.count == 2
    assert not reply.cached


def test_call_that_paid_gets_its_answer_back_as_it_was(cache: Callable[..., Any]) -> None:
    inner = Counting()
    with cache(inner) as before_crash:
        paid = before_crash.ask(question())
    with cache(inner) as after_crash:
        assert after_crash.ask(question()) == paid
    assert inner.count == 1
    assert not paid.cached


@pytest.mark.parametrize("who", [{"uid": "v"}, {"turn": 1}, {"uid": "u/ate"}])
def test_unshared_answer_is_given_to_the_call_that_asked_only(
    cache: Callable[..., Any], who: dict[str, Any]
) -> None:
    inner = Counting()
    with cache(inner, shared=False) as backend:
        paid = backend.ask(question())
        backend.ask(question(**who))
        assert inner.count == 2
        assert backend.ask(question()) == paid
    assert inner.count == 2


def test_unshared_answers_are_forgotten_with_their_sample_alone(
    cache: Callable[..., Any], tmp_path: Path
) -> None:
    inner = Counting()
    # The second uid looks like a call of the first sample.
    uids = ("u", "u/ate", 'u", "x')
    with cache(inner, shared=False) as backend:
        for uid in uids:
            backend.ask(question(uid))
    with closing(Answers(tmp_path / "답.db")) as answers:
        answers.forget(AnswerKeys(settings(), "run", shared=False).of_sample("u"))
    with cache(inner, shared=False) as backend:
        for uid in uids[1:]:
            backend.ask(question(uid))
        assert inner.count == 3
        backend.ask(question("u"))
        assert inner.count == 4


def test_same_question_asked_by_many_at_once_is_asked_once(cache: Callable[..., Any]) -> None:
    inner = Counting()

    async def ask_all(backend: CachedBackend) -> list[Reply]:
        asked = [backend.aask(question(f"u{n}")) for n in range(20)]
        return list(await asyncio.gather(*asked))

    with cache(inner) as backend:
        replies = asyncio.run(ask_all(backend))
    assert inner.count == 1
    assert sum(reply.cached for reply in replies) == 19


def test_failure_is_not_remembered(cache: Callable[..., Any]) -> None:
    inner = Counting()
    inner.fails = True
    with cache(inner) as backend:
        for ask in (backend.ask, lambda q: asyncio.run(backend.aask(q))):
            with pytest.raises(BackendError):
                ask(question())
        inner.fails = False
        assert not backend.ask(question()).cached


def test_answer_that_cannot_be_read_is_not_remembered(cache: Callable[..., Any]) -> None:
    inner = Counting({"nothing": "that was asked for"})
    with cache(inner) as backend:
        backend.ask(question())
        asyncio.run(backend.aask(question()))
    assert inner.count == 2


STORED = {
    "output": ANSWER,
    "backend": "openai",
    "model": "m",
    "seed": 1,
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    "latency_ms": 5.0,
    "attempts": 1,
    "notes": [],
}
UNUSABLE: dict[str, str | bytes | int] = {
    "not JSON": "{",
    "not UTF-8": b"\xff\xfe\xff",
    "a number": 7,
    "not an object": "[]",
    "too deep": '{"output": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "deep for a parser that recurses": '{"output": ' + '{"x": ' * 900 + "1" + "}" * 901,
    "a key less": json.dumps({k: v for k, v in STORED.items() if k != "notes"}),
    "output of another type": json.dumps({**STORED, "output": "text"}),
    "notes of another type": json.dumps({**STORED, "notes": 5}),
    "attempts beyond 64 bits": json.dumps({**STORED, "attempts": 2**64}),
    "seed beyond 64 bits": json.dumps({**STORED, "seed": 2**64}),
    "latency that is not a number": json.dumps({**STORED, "latency_ms": float("nan")}),
    "an answer to another question": json.dumps({**STORED, "output": {"x": 1}}),
}


@pytest.mark.parametrize("how", UNUSABLE)
@pytest.mark.parametrize("is_async", [True, False])
def test_stored_answer_that_cannot_be_used_is_asked_for_again_and_replaced(
    cache: Callable[..., Any], tmp_path: Path, how: str, is_async: bool
) -> None:
    inner = Counting()
    with cache(inner) as backend:
        backend.ask(question())
    with closing(sqlite3.connect(tmp_path / "답.db")) as db, db:
        db.execute("UPDATE answers SET reply = ?", (UNUSABLE[how],))
    with cache(inner) as backend:
        ask = (lambda q: asyncio.run(backend.aask(q))) if is_async else backend.ask
        assert ask(question()).output == ANSWER
        assert inner.count == 2
        assert backend.ask(question()).output == ANSWER
        assert inner.count == 2


@pytest.mark.parametrize("count", [2**63, -1, 0.5, 10**30])
def test_stored_answer_with_absurd_usage_is_used_and_its_usage_unknown(
    cache: Callable[..., Any], tmp_path: Path, count: float
) -> None:
    inner = Counting()
    with cache(inner) as backend:
        backend.ask(question())
    usage = {"prompt_tokens": count, "completion_tokens": 3}
    with closing(sqlite3.connect(tmp_path / "답.db")) as db, db:
        db.execute("UPDATE answers SET reply = ?", (json.dumps({**STORED, "usage": usage}),))
    with cache(inner) as backend:
        assert backend.ask(question()).usage is None
    assert inner.count == 1


def test_answer_that_cannot_be_stored_is_given_all_the_same(cache: Callable[..., Any]) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    inner = Counting({**ANSWER, "extra": deep})
    with cache(inner) as backend:
        assert backend.ask(question()).output["aspects"] == ANSWER["aspects"]
        assert asyncio.run(backend.aask(question())).output["aspects"] == ANSWER["aspects"]
    assert inner.count == 2


def test_half_a_surrogate_pair_is_stored_and_read(cache: Callable[..., Any]) -> None:
    inner = Counting({"aspects": [{"term": "가\ud83d", "confidence": 0.9}]})
    with cache(inner) as backend:
        backend.ask(question())
    with cache(inner, "another run") as backend:
        assert backend.ask(question()).output["aspects"][0]["term"] == "가?"
    assert inner.count == 1


def test_damaged_cache_is_named_with_its_remedy(cache: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "답.db").write_bytes(b"\0garbage" * 1000)
    with pytest.raises(StorageError, match=r"답\.db: .*the answer cache is damaged: delete"):
        with cache(Counting()):
            pass


def test_place_of_the_cache_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    monkeypatch.setenv("ABSA_CACHE", "~/답.db")
    assert default_path() == Path("/home/someone/답.db")
    monkeypatch.delenv("ABSA_CACHE")
    assert default_path() == Path("/var/cache/absa/answers.db")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_path() == Path("/home/someone/.cache/absa/answers.db")
