"""A call that was sent is finished, whatever happens to the agents that ask beside it."""

from __future__ import annotations

import asyncio

import pytest
from scripted import ScriptedBackend, ate

from absa.backends.meter import StopRun
from absa.backends.siblings import SiblingsFirst
from absa.schemas.answers import AteAnswer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError


class SlowAtsa(ScriptedBackend):
    """Answers `atsa` late, if it is not cancelled; the other agents raise `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__({"atsa": ate()})
        self.error = error
        self.finished: list[str] = []

    async def aask(self, question: Ask) -> Reply:
        if question.node != "atsa":
            raise self.error
        await asyncio.sleep(0.05)
        self.finished.append(question.uid)
        return self.ask(question)


def question(node: str, uid: str) -> Ask:
    return Ask(node, 0, uid, "prompt", "{}", "0" * 64, {}, AteAnswer)


async def ask_together(backend: SiblingsFirst, *questions: Ask) -> None:
    """As LangGraph does: the first error cancels the others."""
    async with asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(backend.aask(question))


@pytest.mark.parametrize("error", [StopRun("spent"), BackendError("no", node="ate")], ids=type)
def test_a_failure_waits_for_the_calls_of_its_sample(error: Exception) -> None:
    inner = SlowAtsa(error)
    questions = [question(node, "1") for node in ("atsa", "ate", "validator")]
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(ask_together(SiblingsFirst(inner), *questions))
    assert set(raised.value.exceptions) == {error}
    assert inner.finished == ["1"]


def test_a_failure_does_not_wait_for_other_samples() -> None:
    inner = SlowAtsa(StopRun("spent"))
    with pytest.raises(ExceptionGroup):
        calls = question("atsa", "1"), question("ate", "2")
        asyncio.run(ask_together(SiblingsFirst(inner), *calls))
    assert inner.finished == []
