"""The graph behind messages."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import absa
from absa.backends import make_backend
from absa.chat import ChatGraph, chat
from absa.graph import build_switchable
from absa.schemas.settings import OverrideSettings

TEXT = "The battery is great but the screen is dim."


@pytest.fixture(scope="module")
def graph() -> ChatGraph:
    return chat(absa.build_graph(), OverrideSettings())


def _answer(graph: ChatGraph, *messages: object) -> str:
    state = asyncio.run(graph.ainvoke({"messages": list(messages)}))
    assert isinstance(state["messages"][-1], AIMessage)
    return str(state["messages"][-1].text)


def test_the_answer_to_a_message_is_its_analysis(graph: ChatGraph) -> None:
    lines = _answer(graph, {"role": "user", "content": TEXT}).splitlines()
    assert lines[0] == "mixed: one aspect is positive, one negative"
    assert any(line.startswith("- battery: positive") and "great" in line for line in lines)
    assert any(line.startswith("- screen: negative") and "dim" in line for line in lines)
    assert any(line.startswith("debate: ") for line in lines)


def test_the_last_message_counts_and_may_have_parts(graph: ChatGraph) -> None:
    parts = HumanMessage([{"type": "text", "text": "The soup is cold."}])
    answer = _answer(graph, HumanMessage(TEXT), AIMessage("mixed"), parts)
    assert "soup: negative" in answer and "battery" not in answer


def test_a_message_without_text_gets_the_reason(graph: ChatGraph) -> None:
    assert "text is empty" in _answer(graph, HumanMessage("  "))
    assert "text is empty" in _answer(graph)


def test_a_thread_takes_one_text_after_the_other() -> None:
    graph = chat(absa.build_graph(), OverrideSettings())
    graph.checkpointer = InMemorySaver(serde=absa.checkpoint_serde())
    thread = {"configurable": {"thread_id": "1"}}

    async def talk() -> list[str]:
        answers = []
        for text in (TEXT, "The soup is cold."):
            state = await graph.ainvoke({"messages": [HumanMessage(text)]}, thread)
            answers.append(str(state["messages"][-1].text))
        return answers

    first, second = asyncio.run(talk())
    assert "battery" in first and "battery" not in second and "soup: negative" in second


def test_a_person_is_asked_in_the_conversation_and_answers_as_a_chat_page_does() -> None:
    settings = absa.load_settings(None, {"pipeline.human_review": "always"})
    graph = chat(
        build_switchable(settings.pipeline, make_backend(settings.backend)), OverrideSettings()
    )
    graph.checkpointer = InMemorySaver(serde=absa.checkpoint_serde())
    thread = {"configurable": {"thread_id": "1"}}

    async def talk() -> tuple[dict[str, object], str]:
        state = await graph.ainvoke({"messages": [HumanMessage(TEXT)]}, thread)
        [waiting] = state["__interrupt__"]
        [action] = waiting.value["action_requests"]
        [battery, screen] = action["args"]["aspects"]
        action["args"]["aspects"] = [battery, {**screen, "polarity": "neutral"}]
        edited = {"type": "edit", "edited_action": action}
        state = await graph.ainvoke(Command(resume={"decisions": [edited]}), thread)
        return action, str(state["messages"][-1].text)

    action, answer = asyncio.run(talk())
    assert TEXT in str(action["description"])
    assert "- screen: neutral" in answer and "- battery: positive" in answer
