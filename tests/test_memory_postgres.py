"""Memory in a real PostgreSQL: started here, for these tests, wherever the server is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import postgres_server
import pytest
from postgres_server import PASSWORD
from scripted import ScriptedBackend, ate, atsa, pipeline, said

from absa import build_graph
from absa.graph import build
from absa.memory import URL, episodes, open_memory, prune
from absa.nodes.memory import sample_id
from absa.schemas.errors import InputError
from absa.schemas.settings import MemorySettings, Settings

MEMORY = {"condition": "on", "store": "postgres"}
CHOSEN = MemorySettings.model_validate(MEMORY)
ANSWERS = said(ate=ate("배터리"), atsa=atsa(("배터리", "positive", "오래가요", 0.9)))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server.serve() as address:
        yield address


@pytest.fixture
def address(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database, empty, named by the environment."""
    url = f"postgresql://absa:{PASSWORD}@{server}"
    monkeypatch.setenv(URL, url)
    with open_memory(CHOSEN) as store:
        assert store is not None
        prune(store, 0)
    yield url


def test_episodes_outlive_the_graph_and_are_recalled(address: str) -> None:
    settings = Settings.model_validate({"pipeline": {"memory": MEMORY}})
    first = build_graph(settings, backend=ScriptedBackend(ANSWERS))
    assert first.invoke({"text": "배터리가 오래가요."})["output"].meta.memory.recall.episodes == ()
    del first
    second = build_graph(settings, backend=ScriptedBackend(ANSWERS))
    (past,) = second.invoke({"text": "배터리가 오래가요!"})["output"].meta.memory.recall.episodes
    assert past.sample == sample_id("배터리가 오래가요.")
    del second


def test_many_at_a_time_are_all_remembered(address: str) -> None:
    texts = ["배터리가 오래가요" + "!" * n for n in range(20)]

    async def all_at_once() -> None:
        with open_memory(CHOSEN) as store:
            graph = build(pipeline(memory=MEMORY), ScriptedBackend(ANSWERS), store=store)
            await asyncio.gather(*(graph.ainvoke({"text": t, "split": "train"}) for t in texts))

    asyncio.run(all_at_once())
    with open_memory(CHOSEN) as store:
        assert store is not None
        assert {e.sample for e in episodes(store)} == {sample_id(t) for t in texts}
        assert prune(store, 5) == 15
        assert len(list(episodes(store))) == 5


def refused(monkeypatch: pytest.MonkeyPatch, url: str) -> str:
    monkeypatch.setenv(URL, url)
    with pytest.raises(InputError) as caught, open_memory(CHOSEN):
        pytest.fail("it was opened")
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    return str(caught.value)


def test_a_wrong_password_is_refused_and_not_repeated(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(monkeypatch, f"postgresql://absa:wrong-{PASSWORD}@{server}")
    assert URL in told and "password authentication failed" in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://absa:{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:s3cret/w0rd-{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:s3cret@w0rd-{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:{PASSWORD}%ZZ@127.0.0.1:1/postgres",
        f"host=127.0.0.1 port=1 user=absa password={PASSWORD}",
        f"host=127.0.0.1 port=1 user=absa password='{PASSWORD}",
        f"absa:{PASSWORD}@127.0.0.1/postgres",
        f"{PASSWORD}",
    ],
    ids=["nobody there", "slash", "at", "percent", "words", "unclosed", "no scheme", "nonsense"],
)
def test_an_address_that_leads_nowhere_is_refused_and_its_password_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", exc_type=ImportError)
    told = refused(monkeypatch, url)
    assert told.startswith(f"the database that {URL} names cannot be used: ")
    for secret in ("s3cret", "w0rd"):
        assert secret not in told


def test_no_address_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)
    with pytest.raises(InputError, match=URL), open_memory(CHOSEN):
        pytest.fail("it was opened")
