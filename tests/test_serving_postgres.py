"""Threads and memory of the server in a real PostgreSQL, wherever one is installed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import documented
import postgres_server
import pytest
from langgraph.types import Command
from langgraph_server import ROOT, Json, Serving, Studio, langgraph_dev, tuples
from postgres_server import PASSWORD

from absa import serving
from absa.backends.offline import OfflineBackend
from absa.graph import build_switchable
from absa.memory import episodes
from absa.nodes.memory import sample_id
from absa.schemas.errors import InputError
from absa.schemas.memory import Episode
from absa.schemas.settings import PipelineSettings

PIPELINE: Json = {"memory": {"condition": "on", "store": "memory"}}
ASKING = {"human_review": "always"}
SAMPLE = {"text": "The battery is great but the screen is dim.", "uid": "en-1"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server.serve() as address:
        yield f"postgresql://absa:{PASSWORD}@{address}"


@pytest.fixture(scope="module")
def service(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    serving_ = Serving(
        config=ROOT / "langgraph.postgres.json",
        settings={"pipeline": PIPELINE},
        token="s3cret",
        environment={serving.URL: url},
        expected=(
            # LangGraph's own saver cannot take back the steps of a run that is rolled back.
            "Custom checkpointer missing adelete_for_runs",
            "`durability` has no effect when no checkpointer is present",
        ),
    )
    with langgraph_dev(tmp_path_factory.mktemp("postgres"), serving_) as studio:
        yield studio


@pytest.fixture(autouse=True)
def named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(serving.URL, url)


async def _resume(thread: str, answer: Json) -> Any:
    async with serving.checkpointer() as saver, serving.store() as store:
        pipeline = PipelineSettings.model_validate(PIPELINE)
        graph = build_switchable(pipeline, OfflineBackend())
        here = graph.copy(update={"checkpointer": saver, "store": store})
        config: Any = {"configurable": {"thread_id": thread}}
        waiting = await here.aget_state(config)
        assert waiting.next == ("human_review",)
        state = await here.ainvoke(Command(resume=answer), config, context=ASKING)
        return waiting.values, state["output"]


def test_a_thread_that_waits_is_taken_up_by_another_process(service: Studio) -> None:
    thread = service.thread()
    asked: Any = service.client.runs.wait(thread, "absa", input=SAMPLE, context=ASKING)
    assert "__interrupt__" in asked
    answer = {"decisions": [{"action": "flip", "aspect": "screen", "polarity": "neutral"}]}
    before, output = asyncio.run(_resume(thread, answer))
    assert output.meta.human_review.status == "reviewed"
    assert list(output.process_trace) == list(before["calls"].values())  # nobody is asked again
    # The server goes on from what the other one left behind.
    found: Any = service.client.threads.get_state(thread)
    assert found["next"] == []
    assert tuples(found["values"]["output"]) == {"battery": "positive", "screen": "neutral"}


async def _rows(table: str) -> int:
    async with serving.checkpointer() as saver, saver._cursor() as cursor:
        await cursor.execute(f"SELECT count(*) AS n FROM {table}".encode())
        row = await cursor.fetchone()
        assert row is not None
        return int(row["n"])


def test_a_run_without_a_thread_leaves_nothing_behind(service: Studio) -> None:
    before = asyncio.run(_rows("checkpoints"))
    state: Any = service.client.runs.wait(None, "absa", input=SAMPLE)
    assert state["output"]["text"] == SAMPLE["text"]
    assert asyncio.run(_rows("checkpoints")) == before


def test_a_deleted_thread_is_gone_from_the_database(service: Studio) -> None:
    before, thread = asyncio.run(_rows("checkpoints")), service.thread()
    service.run("conflict_review", given=SAMPLE, thread=thread)
    assert asyncio.run(_rows("checkpoints")) > before
    service.client.threads.delete(thread)
    assert asyncio.run(_rows("checkpoints")) == before


async def _remembered() -> list[Episode]:
    async with serving.store() as store:
        return await asyncio.to_thread(lambda: list(episodes(store)))


def test_episodes_of_the_server_are_in_the_database(service: Studio) -> None:
    texts = ["The keyboard is solid.", "The hinge is solid."]
    first, second = (service.run("absa", given={"text": text}) for text in texts)
    known = {episode.sample for episode in asyncio.run(_remembered())}
    assert {sample_id(text) for text in texts} <= known
    # And nothing that nobody asked for, such as what the server warms up with.
    assert known <= {sample_id(text) for text in (*texts, SAMPLE["text"])}
    recalled = [past["sample"] for past in second["meta"]["memory"]["recall"]["episodes"]]
    assert sample_id(texts[0]) in recalled
    assert sample_id(texts[1]) not in {
        past["sample"] for past in first["meta"]["memory"]["recall"]["episodes"]
    }


def test_the_program_of_the_docs_needs_no_server(url: str) -> None:
    code = documented.program("serving.md", "python", "checkpointer()")
    env = {**os.environ, serving.URL: url}
    assert documented.run(code, env) == "reviewed\n"


@pytest.mark.parametrize("opening", [serving.checkpointer, serving.store])
def test_a_database_that_does_not_let_us_in_is_named_without_its_password(
    url: str, opening: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def enter() -> None:
        async with opening():
            pytest.fail("it was opened")

    monkeypatch.setenv(serving.URL, url.replace(PASSWORD, f"wrong-{PASSWORD}"))
    with pytest.raises(InputError, match=serving.URL) as refused:
        asyncio.run(enter())
    assert PASSWORD not in str(refused.value)
    monkeypatch.delenv(serving.URL)
    with pytest.raises(
        InputError, match=f"needs a database: set the environment variable {serving.URL}"
    ):
        asyncio.run(enter())
